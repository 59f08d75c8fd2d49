//! The settings that hold, those that held, and those that will.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use serde_json::{Map, Value, json};
use slipring_cli::codes::{SR0015, SR0405};
use slipring_cli::{Diagnostic, Failure};
use slipring_link::{ChangeError, NetworkSpec};
use slipring_port::{Nanos, now};

use crate::bounds::Bounds;
use crate::config::{self, Config, ConfigError, likely_bytes};
use crate::plan::Plan;
use crate::realtime::{Board, Change, Start};
use crate::report::Changes;

/// How long the thread that moves frames may take to look at a change.
const ANSWER: Duration = Duration::from_secs(2);
/// Versions that can be gone back to at most.
const KEPT: usize = 1000;

/// See the module.
pub(crate) struct Versions {
    board: Arc<Board>,
    bounds: Bounds,
    storage_bytes: u64,
    start_ns: Nanos,
    held: Mutex<Held>,
}

struct Held {
    /// By time; the first one has begun.
    versions: Vec<Version>,
    next: u64,
    /// When settings changed without a version that tells of it: by going back, and before.
    undone: Vec<Nanos>,
}

struct Version {
    number: u64,
    at_ns: Nanos,
    config: Config,
    network: Arc<NetworkSpec>,
}

/// A change that was accepted.
pub(super) struct Accepted {
    /// From the start of the run.
    pub(super) applies_at_ns: Nanos,
    pub(super) version: u64,
}

/// Why a change was refused.
pub(super) type Refused = Box<Diagnostic>;

impl Versions {
    /// The settings of a plan whose emulation starts then; hands in the changes that it knows of.
    ///
    /// # Errors
    /// If one of those cannot be.
    pub(crate) fn start(plan: &Plan, start: Start, board: Arc<Board>) -> Result<Self, Failure> {
        let (answer, _) = mpsc::channel();
        let Start { at_ns: start_ns, storage_bytes } = start;
        refuse_beyond(storage_bytes, &plan.network).map_err(Failure::Error)?;
        let mut config = plan.config.clone();
        config.root.remove("at");
        let mut versions = vec![Version {
            number: 1,
            at_ns: start_ns,
            config,
            network: Arc::new(plan.network.clone()),
        }];
        for (number, change) in (2..).zip(&plan.schedule) {
            let network = change.config.network()?;
            refuse_beyond(storage_bytes, &network).map_err(Failure::Error)?;
            let at_ns = start_ns.saturating_add(change.at_ns);
            let plan = Box::new(network.clone());
            board.change(Change { at_ns, replaces: false, plan, answer: answer.clone() });
            let (config, network) = (change.config.clone(), Arc::new(network));
            versions.push(Version { number, at_ns, config, network });
        }
        let next = versions.len() as u64 + 1;
        let held = Mutex::new(Held { versions, next, undone: Vec::new() });
        Ok(Self { board, bounds: plan.bounds, storage_bytes, start_ns, held })
    }

    /// Where states come from.
    pub(super) fn board(&self) -> &Board {
        &self.board
    }

    /// When the run started, on the clock of [`now`].
    pub(super) fn start_ns(&self) -> Nanos {
        self.start_ns
    }

    /// The links as they are now.
    pub(crate) fn network(&self) -> Arc<NetworkSpec> {
        self.held().in_force(now()).network.clone()
    }

    /// What changed since the start.
    pub(crate) fn changes(&self) -> Changes {
        let (held, time) = (self.held(), now());
        let begun = held.versions.iter().filter(|version| version.at_ns <= time).count() as u64;
        let last = held.undone.last().copied().unwrap_or(0);
        let since = held.in_force(time).at_ns.max(last);
        let times = begun.saturating_sub(1) + held.undone.len() as u64;
        Changes { times, since_ns: since.saturating_sub(self.start_ns) }
    }

    /// The settings that hold now, with the keys of a file.
    pub(super) fn settings(&self) -> Value {
        self.held().in_force(now()).config.to_json()
    }

    /// Makes a version of the latest settings, changed by `edit`, for `at_ns`; earlier than now
    /// means now.
    pub(super) fn change(
        &self,
        at_ns: Nanos,
        edit: impl FnOnce(&mut Config) -> Result<NetworkSpec, ConfigError>,
    ) -> Result<Accepted, Refused> {
        let mut held = self.held();
        let mut config = held.last().config.clone();
        let network = edit(&mut config).map_err(|error| Box::new(Diagnostic::of(&error)))?;
        self.accept(&mut held, at_ns.max(self.board.soonest()), config, network)
    }

    /// Makes versions of the `[[at]]` of a script that starts now.
    pub(super) fn script(&self, text: &str) -> Result<Vec<Accepted>, Refused> {
        let mut held = self.held();
        let worded = |error: ConfigError| Box::new(Diagnostic::of(&error));
        let changes = config::script(&held.last().config, text).map_err(worded)?;
        let networks: Result<Vec<_>, _> =
            changes.iter().map(|change| change.config.network()).collect();
        let networks = networks.map_err(worded)?;
        networks.iter().try_for_each(|network| self.check(held.last(), network))?;
        let start_ns = self.board.soonest();
        let steps = changes.into_iter().zip(networks);
        // They come in order of time, so that only the first one can meet a later change.
        let step = |(change, network): (config::Change, NetworkSpec)| {
            let at_ns = start_ns.saturating_add(change.at_ns);
            self.accept(&mut held, at_ns, change.config, network)
        };
        steps.map(step).collect()
    }

    /// Makes a version of whole new settings, for now.
    pub(crate) fn replace(&self, config: Config) -> Result<(), Refused> {
        refuse_fixed(&self.settings(), &config.to_json())?;
        let replaced = |held: &mut Config| {
            let network = config.network()?;
            *held = config;
            Ok(network)
        };
        self.change(now(), replaced).map(|_| ())
    }

    fn accept(
        &self,
        held: &mut Held,
        at_ns: Nanos,
        config: Config,
        network: NetworkSpec,
    ) -> Result<Accepted, Refused> {
        self.check(held.last(), &network)?;
        self.submit(at_ns, false, &network)?;
        let number = held.next;
        held.next += 1;
        held.versions.push(Version { number, at_ns, config, network: Arc::new(network) });
        let surplus = held.versions.len().saturating_sub(KEPT);
        held.versions.drain(..surplus);
        Ok(Accepted { applies_at_ns: at_ns.saturating_sub(self.start_ns), version: number })
    }

    /// Goes back to the version before the last one, now; one to come is taken back.
    pub(super) fn undo(&self) -> Result<Accepted, Refused> {
        let mut held = self.held();
        let at_ns = self.board.soonest();
        let [.., before, last] = &held.versions[..] else {
            let error = Diagnostic::new(SR0015, "there is nothing to undo");
            let error =
                error.with_cause("the settings are those of the start, or 1000 changes old");
            return Err(Box::new(error.with_help("see: slipring emulate ctl history")));
        };
        let pending = last.at_ns > at_ns;
        if pending {
            let staying = &held.versions[..held.versions.len() - 1];
            self.submit(at_ns, true, &in_force(staying, at_ns).network)?;
            for later in staying.iter().filter(|version| version.at_ns > at_ns) {
                self.submit(later.at_ns, false, &later.network)?;
            }
        } else {
            let changed_ns = last.at_ns;
            self.submit(at_ns, false, &before.network)?;
            held.undone.extend([changed_ns, at_ns]);
        }
        held.versions.pop();
        let applies_at_ns = at_ns.saturating_sub(self.start_ns);
        Ok(Accepted { applies_at_ns, version: held.last().number })
    }

    /// Takes back every version that is still to come; how many there were.
    pub(super) fn stop_script(&self) -> Result<usize, Refused> {
        let mut held = self.held();
        let at_ns = self.board.soonest();
        self.submit(at_ns, true, &held.in_force(at_ns).network)?;
        let before = held.versions.len();
        held.versions.retain(|version| version.at_ns <= at_ns);
        Ok(before - held.versions.len())
    }

    /// Every version: its number, its time from the start of the run, whether it has begun, and
    /// what it changed.
    pub(super) fn history(&self) -> Value {
        let (held, time) = (self.held(), now());
        let mut before: Option<Map<String, Value>> = None;
        let versions = held.versions.iter().map(|version| {
            let flat = flattened(&version.config.to_json());
            let changes = before.as_ref().map(|before| difference(before, &flat));
            before = Some(flat);
            json!({
                "version": version.number,
                "at_ns": version.at_ns.saturating_sub(self.start_ns),
                "begun": version.at_ns <= time,
                "changes": changes.unwrap_or_default(),
            })
        });
        Value::Array(versions.collect())
    }

    /// Refuses what is beyond `-M`, and what needs more memory than there is for frames.
    fn check(&self, old: &Version, network: &NetworkSpec) -> Result<(), Refused> {
        match self.bounds.allow_change(&old.network, network) {
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::ReaderLeft) | Ok(()) => {}
        }
        if needed_bytes(network) <= needed_bytes(&old.network) {
            return Ok(());
        }
        refuse_beyond(self.storage_bytes, network)
    }

    /// Hands a plan to the thread that moves frames, and waits for its answer.
    fn submit(&self, at_ns: Nanos, replaces: bool, network: &NetworkSpec) -> Result<(), Refused> {
        let (answer, answered) = mpsc::channel();
        let plan = Box::new(network.clone());
        self.board.change(Change { at_ns, replaces, plan, answer });
        match answered.recv_timeout(ANSWER) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let refused = Diagnostic::new(SR0015, "the running links cannot take the change");
                let help = match error {
                    ChangeError::Shape { .. } => config::ANEW,
                    _ => {
                        "see: slipring emulate ctl history; take back what is to come: stop-script"
                    }
                };
                Err(Box::new(refused.with_cause(error.to_string()).with_help(help)))
            }
            Err(_) => {
                let gone = Diagnostic::new(SR0405, "the emulation does not answer");
                Err(Box::new(gone.with_cause("it is ending").with_help("start it again")))
            }
        }
    }

    /// What is behind the lock is whole at any time, also when a thread that held it panicked.
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes that all links hold when they are full, where their rates bound that.
fn needed_bytes(network: &NetworkSpec) -> u64 {
    let links = network.links.iter().filter_map(|link| likely_bytes(&link.spec));
    links.fold(0, u64::saturating_add)
}

/// Refuses links that may hold more than `most` bytes.
fn refuse_beyond(most: u64, network: &NetworkSpec) -> Result<(), Refused> {
    let wanted = needed_bytes(network);
    if wanted <= most {
        return Ok(());
    }
    let error = Diagnostic::new(SR0015, "the links cannot hold that much");
    let cause = format!("full links would hold {wanted} bytes; there is memory for {most}");
    Err(Box::new(error.with_cause(cause).with_help("ask for a lower rate or a shorter delay")))
}

impl Held {
    fn last(&self) -> &Version {
        self.versions.last().expect("the first version stays")
    }

    fn in_force(&self, time: Nanos) -> &Version {
        in_force(&self.versions, time)
    }
}

/// The last version that has begun.
fn in_force(versions: &[Version], time: Nanos) -> &Version {
    let begun = versions.iter().rev().find(|version| version.at_ns <= time);
    begun.unwrap_or(&versions[0])
}

/// Refuses settings that hold for a whole run, where they are others than before.
fn refuse_fixed(before: &Value, after: &Value) -> Result<(), Refused> {
    let others = difference(&flattened(before), &flattened(after));
    let is_fixed = |path: &&String| {
        let top = path.split('.').next().unwrap_or_default();
        ["seed", "name", "ports", "output"].contains(&top)
    };
    let Some(path) = others.keys().find(is_fixed) else { return Ok(()) };
    let error = Diagnostic::new(SR0015, format!("{path} cannot change in a run"));
    let error = error.with_cause("seed, name, ports and outputs are those of the start");
    Err(Box::new(error.with_help("put it back, or end the run and start anew from the file")))
}

/// Settings by path: `link.up.rate.bps`.
pub(super) fn flattened(settings: &Value) -> Map<String, Value> {
    fn walk(path: &str, value: &Value, flat: &mut Map<String, Value>) {
        match value {
            Value::Object(table) if !table.is_empty() => {
                for (key, value) in table {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    walk(&path, value, flat);
                }
            }
            _ => {
                flat.insert(path.to_owned(), value.clone());
            }
        }
    }
    let mut flat = Map::new();
    walk("", settings, &mut flat);
    flat
}

/// What is new or other in `after`, and what is gone, as null.
fn difference(before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    let gone = gone.map(|path| (path.clone(), Value::Null));
    let other = after.iter().filter(|(path, value)| before.get(*path) != Some(value));
    gone.chain(other.map(|(path, value)| (path.clone(), value.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_whole_run_cannot_be_read_again_as_others() {
        let before =
            json!({"seed": 3, "ports": {"right": {"dev": "a"}}, "link": {"up": {"delay": "1ms"}}});
        refuse_fixed(&before, &json!({"seed": 3, "ports": {"right": {"dev": "a"}}})).unwrap();
        for (after, path) in [
            (json!({"seed": 5, "ports": {"right": {"dev": "a"}}}), "seed"),
            (json!({"seed": 3, "ports": {"right": {"dev": "b"}}}), "ports.right.dev"),
            (
                json!({"seed": 3, "ports": {"right": {"dev": "a"}}, "output": {"log": "x"}}),
                "output.log",
            ),
            (json!({"ports": {"right": {"dev": "a"}}}), "seed"),
        ] {
            let error = refuse_fixed(&before, &after).unwrap_err().to_string();
            assert!(error.contains(&format!("{path} cannot change in a run")), "{error}");
        }
    }

    #[test]
    fn a_start_that_memory_cannot_hold_is_refused_as_a_change_is() {
        let network = |text: &str| {
            let text = format!("[ports.a]\n[ports.b]\n[link.up]\nfrom = \"a\"\nto = \"b\"\n{text}");
            Config::parse("link.toml", &text).unwrap().network().unwrap()
        };
        let long = network("rate = \"10Gbit\"\ndelay = \"1000h\"\n");
        let error = refuse_beyond(1 << 40, &long).unwrap_err().to_string();
        assert!(error.contains("the links cannot hold that much"), "{error}");
        refuse_beyond(1 << 30, &network("rate = \"10Gbit\"\ndelay = \"20ms\"\n")).unwrap();
    }
}
