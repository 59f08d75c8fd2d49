//! The settings that hold, those that held, and those that will.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use serde_json::{Map, Value, json};
use slipring_cli::codes::{SR0015, SR0405};
use slipring_cli::units::human;
use slipring_cli::{Diagnose, Diagnostic, Failure};
use slipring_link::{ChangeError, NetworkSpec};
use slipring_port::{Nanos, now};

use super::timeline::{Edit, Timeline, Unfit, Version};
use crate::bounds::Bounds;
use crate::config::tree::Entry;
use crate::config::{self, Config, ConfigError, Step, likely_bytes};
use crate::plan::Plan;
use crate::realtime::{Board, Change, Start};
use crate::report::Changes;

/// How long the thread that moves frames may take to look at a change.
const ANSWER: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct Versions {
    board: Arc<Board>,
    bounds: Bounds,
    storage_bytes: u64,
    start_ns: Nanos,
    held: Mutex<Held>,
}

struct Held {
    timeline: Timeline,
    /// When settings changed without a version that tells of it: by going back, and before.
    undone: Vec<Nanos>,
}

/// A change that was accepted.
#[derive(Debug, Clone, Copy)]
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
        config.files.discreet = true;
        let mut timeline = Timeline::new(start_ns, config, plan.network.clone());
        for change in &plan.schedule {
            let at_ns = start_ns.saturating_add(change.at_ns);
            let added = timeline.add(at_ns, Edit::Set(change.set.clone()));
            added.map_err(|unfit| Failure::from(*unfit.error))?;
        }
        for version in &timeline.versions()[1..] {
            refuse_beyond(storage_bytes, &version.network).map_err(Failure::Error)?;
            let plan = Box::new(NetworkSpec::clone(&version.network));
            let answer = answer.clone();
            board.change(Change { at_ns: version.at_ns, replaces: false, plan, answer });
        }
        let held = Mutex::new(Held { timeline, undone: Vec::new() });
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
        self.held().timeline.in_force(now()).network.clone()
    }

    /// What changed since the start.
    pub(crate) fn changes(&self) -> Changes {
        let (held, time) = (self.held(), now());
        let timeline = &held.timeline;
        let begun = (timeline.versions().len() - timeline.to_come(time).len()) as u64;
        let last = held.undone.last().copied().unwrap_or(0);
        let since = timeline.in_force(time).at_ns.max(last);
        let times = begun.saturating_sub(1) + held.undone.len() as u64;
        Changes { times, since_ns: since.saturating_sub(self.start_ns) }
    }

    /// The settings that hold now, with the keys of a file.
    pub(super) fn settings(&self) -> Value {
        self.held().timeline.in_force(now()).config.to_json()
    }

    /// Sets values at `at_ns`; earlier than now means now. What is to come after that goes on from
    /// there.
    pub(super) fn set(&self, at_ns: Nanos, entries: Vec<Entry>) -> Result<Accepted, Refused> {
        self.change(vec![(at_ns.max(self.board.soonest()), Edit::Set(entries))])
            .map(|accepted| accepted[0])
    }

    /// Makes versions of the `[[at]]` of a script that starts now; `name` is that of its file.
    pub(super) fn script(&self, name: &str, text: &str) -> Result<Vec<Accepted>, Refused> {
        let steps = config::script(name, text).map_err(|error| worded(&error))?;
        let start_ns = self.board.soonest();
        let steps = steps.into_iter().map(|step| {
            let Step { at_ns, set } = step;
            (start_ns.saturating_add(at_ns), Edit::Set(set))
        });
        self.change(steps.collect())
    }

    /// Makes a version of whole new settings, for now.
    pub(crate) fn replace(&self, mut config: Config) -> Result<(), Refused> {
        refuse_fixed(&self.settings(), &config.to_json())?;
        config.network().map_err(|error| worded(&error))?;
        config.root.remove("at");
        config.files.discreet = true;
        self.change(vec![(self.board.soonest(), Edit::Whole(config))]).map(|_| ())
    }

    /// Makes versions, all or none.
    fn change(&self, edits: Vec<(Nanos, Edit)>) -> Result<Vec<Accepted>, Refused> {
        let (mut held, time) = (self.held(), self.board.soonest());
        let mut timeline = held.timeline.clone();
        let (mut accepted, mut first) = (Vec::new(), timeline.versions().len());
        for (at_ns, edit) in edits {
            let asked = timeline.next_number();
            let added = timeline.add(at_ns, edit);
            let (index, version) = added.map_err(|unfit| unfitting(&unfit, asked, time))?;
            first = first.min(index);
            let applies_at_ns = at_ns.saturating_sub(self.start_ns);
            accepted.push(Accepted { applies_at_ns, version });
        }
        self.adopt(&mut held, timeline, first, time)?;
        Ok(accepted)
    }

    /// Takes a timeline for the one that holds; from `first` on, its versions are others.
    fn adopt(
        &self,
        held: &mut Held,
        mut timeline: Timeline,
        first: usize,
        time: Nanos,
    ) -> Result<(), Refused> {
        let versions = timeline.versions();
        let mut pairs = versions.iter().zip(&versions[1..]).skip(first - 1);
        pairs.try_for_each(|(before, after)| self.check(before, &after.network))?;
        let was_to_come = !held.timeline.to_come(time).is_empty();
        // A version is handed in alone at first: what is said of it holds for all of them, whose
        // ports and links are the same.
        if let Some(version) = versions.get(first) {
            self.submit(version.at_ns, false, &version.network)?;
        }
        if was_to_come || first + 1 < versions.len() || first == versions.len() {
            self.submit(time, true, &timeline.in_force(time).network)?;
            for version in timeline.to_come(time) {
                self.submit(version.at_ns, false, &version.network)?;
            }
        }
        timeline.forget(time);
        held.timeline = timeline;
        Ok(())
    }

    /// Takes back the change that was handed in last, whether it has begun or not.
    pub(super) fn undo(&self) -> Result<Accepted, Refused> {
        let (mut held, time) = (self.held(), self.board.soonest());
        let Some(number) = held.timeline.newest().map(|newest| newest.number) else {
            let error = Diagnostic::new(SR0015, "there is nothing to undo");
            let error =
                error.with_cause("the settings are those of the start, or 1000 changes old");
            return Err(Box::new(error.with_help("see: slipring emulate ctl history")));
        };
        let mut timeline = held.timeline.clone();
        let taken = timeline.take_back(number);
        let (first, at_ns) = taken.map_err(|unfit| unfitting(&unfit, number, time))?;
        self.adopt(&mut held, timeline, first, time)?;
        if at_ns <= time {
            held.undone.extend([at_ns, time]);
        }
        let applies_at_ns = time.saturating_sub(self.start_ns);
        Ok(Accepted { applies_at_ns, version: held.timeline.in_force(time).number })
    }

    /// Takes back every version that is still to come; how many there were.
    pub(super) fn stop_script(&self) -> Result<usize, Refused> {
        let (mut held, time) = (self.held(), self.board.soonest());
        self.submit(time, true, &held.timeline.in_force(time).network)?;
        Ok(held.timeline.take_back_all(time))
    }

    /// Every version: its number, its time from the start of the run, whether it has begun, and
    /// what it changed.
    pub(super) fn history(&self) -> Value {
        let (held, time) = (self.held(), now());
        let mut before: Option<Map<String, Value>> = None;
        let versions = held.timeline.versions().iter().map(|version| {
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
                    ChangeError::Spec(_) => "see what holds: slipring emulate ctl get",
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

/// A setting that cannot be, for the person.
fn worded(error: &ConfigError) -> Refused {
    Box::new(Diagnostic::of(error))
}

/// Why settings cannot be: those that were asked for, or those to come that build on them.
fn unfitting(unfit: &Unfit, asked: u64, time: Nanos) -> Refused {
    if unfit.number == asked {
        return worded(&unfit.error);
    }
    let wait = Duration::from_nanos(unfit.at_ns.saturating_sub(time));
    let (number, wait) = (unfit.number, human::span(wait));
    let summary = format!("version {number}, which begins in {wait}, could not go on from it");
    let cause = unfit.error.summary();
    let cause = unfit.error.cause().map_or(cause.clone(), |more| format!("{cause}: {more}"));
    let help = "see: slipring emulate ctl history; take back what is to come: stop-script";
    Box::new(Diagnostic::new(SR0015, summary).with_cause(cause).with_help(help))
}

/// Refuses settings that hold for a whole run, where they are others than before.
fn refuse_fixed(before: &Value, after: &Value) -> Result<(), Refused> {
    let others = difference(&flattened(before), &flattened(after));
    let is_fixed = |path: &&String| {
        let top = path.split('.').next().unwrap_or_default();
        ["seed", "name", "ports", "output", "route"].contains(&top)
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
