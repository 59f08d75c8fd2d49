//! The current, past and future settings of a run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use slipring_cli::codes::SR0015;
use slipring_cli::units::human;
use slipring_cli::{Diagnose, Diagnostic, Failure};
use slipring_link::NetworkSpec;
use slipring_port::{Nanos, now};

use super::handover::{ChangeRefusal, PlanHandover};
use super::timeline::{
    SettingsEdit, SettingsEditOutcome, SettingsTimeline, SettingsVersion, UnbuildableSettings,
    changed_links,
};
use crate::bounds::ChangeBounds;
use crate::config::tree::ConfigEntry;
use crate::config::{self, EmulationConfig, EmulationConfigError, ScriptStep, likely_bytes};
use crate::plan::EmulationPlan;
use crate::realtime::EmulatorChannel;
use crate::report::SettingsChanges;

/// The settings of a run over time. This type checks changes and submits them to the thread that
/// moves frames.
pub(crate) struct SettingsHistory {
    handover: PlanHandover,
    bounds: ChangeBounds,
    storage_bytes: u64,
    start_ns: Nanos,
    state: Mutex<HistoryState>,
}

struct HistoryState {
    timeline: SettingsTimeline,
    /// Number of changes that took effect but have no version in `timeline`: undone versions, their
    /// undos, and versions that were deleted because they are too old.
    unversioned_changes: u64,
    /// Time of the last undo of a version that had begun; 0 if there was none.
    undone_at_ns: Nanos,
    /// Undone and cancelled versions, as the JSON entries of [`SettingsHistory::history`].
    undone: Vec<Value>,
}

/// Maximum number of undone and cancelled versions in the history.
const MAX_UNDONE_VERSIONS: usize = 1000;

/// An accepted change.
#[derive(Debug, Clone)]
pub(super) struct AcceptedChange {
    /// When the change applies, in ns since the start of the run.
    pub(super) applies_at_ns: Nanos,
    /// Number of the version that applies from then on.
    pub(super) version: u64,
    /// Whether the change created a version. For an undo: whether an undone version had begun.
    pub(super) changed: bool,
    /// Names of the links whose settings differ, also of those that inherit from a link named in
    /// the change.
    pub(super) links: Vec<String>,
}

/// The start of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunStart {
    /// Time of the start, on the clock of [`now`]; scheduled changes are relative to it.
    pub at_ns: Nanos,
    /// Maximum memory for frames, in bytes.
    pub storage_bytes: u64,
}

impl SettingsHistory {
    /// Creates the history from the settings of a plan, and submits the plan's scheduled changes.
    ///
    /// # Errors
    /// [`Failure`] if a scheduled change is invalid, or links need more memory than the run may
    /// use.
    pub(crate) fn start(
        plan: &EmulationPlan,
        start: RunStart,
        channel: Arc<EmulatorChannel>,
    ) -> Result<Self, Failure> {
        let RunStart { at_ns: start_ns, storage_bytes } = start;
        refuse_beyond(storage_bytes, &plan.network).map_err(Failure::Error)?;
        let mut config = plan.config.clone();
        config.root.remove("at");
        config.files.hides_details = true;
        let mut timeline = SettingsTimeline::new(start_ns, config, plan.network.clone());
        let edits = plan.schedule.iter().map(|change| {
            let at_ns = start_ns.saturating_add(change.at_ns);
            (at_ns, SettingsEdit::Set(change.set.clone()))
        });
        let handed = timeline.insert_batch(start_ns, edits.collect());
        handed.map_err(|unfit| Failure::from(*unfit.error))?;
        for version in &timeline.versions()[1..] {
            refuse_beyond(storage_bytes, &version.network).map_err(Failure::Error)?;
        }
        let handover = PlanHandover::new(channel);
        handover.begin(&timeline);
        let held = Mutex::new(HistoryState::of(timeline));
        Ok(Self { handover, bounds: plan.bounds, storage_bytes, start_ns, state: held })
    }

    /// Returns the channel to the thread that moves frames.
    pub(super) fn channel(&self) -> &EmulatorChannel {
        self.handover.channel()
    }

    /// Returns the start of the run, on the clock of [`now`].
    pub(super) fn start_ns(&self) -> Nanos {
        self.start_ns
    }

    /// Returns the links with the settings that apply now.
    pub(crate) fn network(&self) -> Arc<NetworkSpec> {
        self.state().timeline.current(now()).network.clone()
    }

    /// Returns how often settings changed since the start.
    pub(crate) fn changes(&self) -> SettingsChanges {
        let (held, time) = (self.state(), now());
        let timeline = &held.timeline;
        let begun = (timeline.versions().len() - timeline.pending(time).len()) as u64;
        let since = timeline.current(time).at_ns.max(held.undone_at_ns);
        let times = begun.saturating_sub(1) + held.unversioned_changes;
        SettingsChanges { times, since_ns: since.saturating_sub(self.start_ns) }
    }

    /// Returns the current settings as JSON, with the keys of a settings file.
    pub(super) fn settings(&self) -> Value {
        self.state().timeline.current(now()).config.to_json()
    }

    /// Sets values from `at_ns` on; a time in the past means now. The values also apply to all
    /// later versions that do not set them.
    pub(super) fn set(
        &self,
        at_ns: Nanos,
        entries: Vec<ConfigEntry>,
    ) -> Result<AcceptedChange, ChangeRefusal> {
        self.change(vec![(
            at_ns.max(self.channel().earliest_change_ns()),
            SettingsEdit::Set(entries),
        )])
        .map(|mut accepted| accepted.remove(0))
    }

    /// Creates versions from the `[[at]]` tables of a script, whose times count from now. `name` is
    /// the file name of the script, for errors.
    pub(super) fn script(
        &self,
        name: &str,
        text: &str,
    ) -> Result<Vec<AcceptedChange>, ChangeRefusal> {
        let steps = config::script(name, text).map_err(|error| diagnostic_of(&error))?;
        let start_ns = self.channel().earliest_change_ns();
        let steps = steps.into_iter().map(|step| {
            let ScriptStep { at_ns, set } = step;
            (start_ns.saturating_add(at_ns), SettingsEdit::Set(set))
        });
        self.change(steps.collect())
    }

    /// Replaces all settings by `config`, from now on.
    pub(crate) fn replace(&self, mut config: EmulationConfig) -> Result<(), ChangeRefusal> {
        refuse_fixed(&self.settings(), &config.to_json())?;
        config.network().map_err(|error| diagnostic_of(&error))?;
        config.root.remove("at");
        config.files.hides_details = true;
        self.change(vec![(self.channel().earliest_change_ns(), SettingsEdit::Whole(config))])
            .map(|_| ())
    }

    /// Submits edits and creates their versions. If one of them is refused, none has an effect.
    /// Returns the accepted changes, in the order of the edits.
    fn change(
        &self,
        edits: Vec<(Nanos, SettingsEdit)>,
    ) -> Result<Vec<AcceptedChange>, ChangeRefusal> {
        let (mut held, time) = (self.state(), self.channel().earliest_change_ns());
        let mut timeline = held.timeline.clone();
        let times: Vec<_> = edits.iter().map(|(at_ns, _)| *at_ns).collect();
        let handed = timeline.insert_batch(time, edits);
        let (first, outcomes) = handed.map_err(|unfit| unbuildable(&unfit, time))?;
        let accepted = times.into_iter().zip(outcomes).map(|(at_ns, outcome)| {
            let applies_at_ns = at_ns.saturating_sub(self.start_ns);
            match outcome {
                SettingsEditOutcome::NewVersion(version) => {
                    let links = timeline.changed_by(version);
                    AcceptedChange { applies_at_ns, version, changed: true, links }
                }
                SettingsEditOutcome::Unchanged(version) => {
                    AcceptedChange { applies_at_ns, version, changed: false, links: Vec::new() }
                }
            }
        });
        let accepted = accepted.collect();
        if let Some(first) = first {
            self.adopt(&mut held, timeline, first, time)?;
        }
        Ok(accepted)
    }

    /// Makes `timeline` the current timeline; its versions differ from the old ones from index
    /// `first` on.
    fn adopt(
        &self,
        held: &mut HistoryState,
        mut timeline: SettingsTimeline,
        first: usize,
        time: Nanos,
    ) -> Result<(), ChangeRefusal> {
        let versions = timeline.versions();
        let mut pairs = versions.iter().zip(&versions[1..]).skip(first - 1);
        pairs.try_for_each(|(before, after)| self.check(before, &after.network))?;
        self.handover.replace_timeline(&held.timeline, &timeline, first, time)?;
        held.unversioned_changes += timeline.forget(time) as u64;
        held.timeline = timeline;
        Ok(())
    }

    /// Undoes the last submission as a whole, even if it has already taken effect. Returns the
    /// change that the undo makes, and the numbers of the removed versions.
    pub(super) fn undo(&self) -> Result<(AcceptedChange, Vec<u64>), ChangeRefusal> {
        let (mut held, time) = (self.state(), self.channel().earliest_change_ns());
        let mut timeline = held.timeline.clone();
        let taken = timeline.undo_newest().map_err(|unfit| unbuildable(&unfit, time))?;
        let Some(taken) = taken else {
            let error = Diagnostic::new(SR0015, "there is nothing to undo");
            let error =
                error.with_cause("the settings are those of the start, or 1000 changes old");
            return Err(Box::new(error.with_help("see: slipring emulate ctl history")));
        };
        let links =
            changed_links(&held.timeline.current(time).network, &timeline.current(time).network);
        let versions = self.version_list(&held.timeline, time);
        self.adopt(&mut held, timeline, taken.first, time)?;
        let is_gone =
            |version: &Value| taken.removed.iter().any(|(gone, _)| version["version"] == *gone);
        held.keep_undone(versions.into_iter().filter(is_gone), time.saturating_sub(self.start_ns));
        let begun = taken.removed.iter().filter(|(_, at_ns)| *at_ns <= time).count() as u64;
        if begun > 0 {
            held.unversioned_changes += begun + 1;
            held.undone_at_ns = time;
        }
        let applies_at_ns = time.saturating_sub(self.start_ns);
        let version = held.timeline.current(time).number;
        let gone = taken.removed.into_iter().map(|(number, _)| number).collect();
        Ok((AcceptedChange { applies_at_ns, version, changed: begun > 0, links }, gone))
    }

    /// Cancels all future versions. Returns the number of cancelled versions.
    pub(super) fn stop_script(&self) -> Result<usize, ChangeRefusal> {
        let (mut held, time) = (self.state(), self.channel().earliest_change_ns());
        self.handover.stop(&held.timeline, time)?;
        let to_come = |version: &Value| version["begun"] == false;
        let versions = self.version_list(&held.timeline, time);
        held.keep_undone(versions.into_iter().filter(to_come), time.saturating_sub(self.start_ns));
        Ok(held.timeline.cancel_pending(time))
    }

    /// Returns the kept versions in order of time. For each: its number, its time since the start
    /// of the run, whether it has begun, its changes including those of inheriting links, and the
    /// time at which it was undone or cancelled, if it was. The oldest version has no changes if
    /// the one before it is not kept.
    pub(super) fn history(&self) -> Value {
        let held = self.state();
        let mut versions = self.version_list(&held.timeline, now());
        versions.extend(held.undone.iter().cloned());
        versions.sort_by_key(|version| (version["at_ns"].as_u64(), version["version"].as_u64()));
        Value::Array(versions)
    }

    /// Returns the versions of a timeline, as the JSON entries of [`Self::history`].
    fn version_list(&self, timeline: &SettingsTimeline, time: Nanos) -> Vec<Value> {
        let mut before: Option<Map<String, Value>> = None;
        let versions = timeline.versions().iter().map(|version| {
            let flat = flattened(&version.config.resolved().to_json());
            let changes = before.as_ref().map(|before| difference(before, &flat));
            before = Some(flat);
            json!({
                "version": version.number,
                "at_ns": version.at_ns.saturating_sub(self.start_ns),
                "begun": version.at_ns <= time,
                "changes": changes.unwrap_or_default(),
            })
        });
        versions.collect()
    }

    /// Returns an error if settings exceed a bound of `-M`, or if they need more memory for frames
    /// than the run may use. Settings that need no more memory than the old ones are allowed.
    fn check(&self, old: &SettingsVersion, network: &NetworkSpec) -> Result<(), ChangeRefusal> {
        match self.bounds.allow_change(&old.network, network) {
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::ReaderLeft) | Ok(()) => {}
        }
        if needed_bytes(network) <= needed_bytes(&old.network) {
            return Ok(());
        }
        refuse_beyond(self.storage_bytes, network)
    }

    /// Locks the state. A panic of another thread does not matter, because the state is always
    /// consistent.
    fn state(&self) -> MutexGuard<'_, HistoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HistoryState {
    const fn of(timeline: SettingsTimeline) -> Self {
        Self { timeline, unversioned_changes: 0, undone_at_ns: 0, undone: Vec::new() }
    }

    /// Stores undone versions; removes the oldest beyond [`MAX_UNDONE_VERSIONS`].
    fn keep_undone(&mut self, versions: impl Iterator<Item = Value>, time_ns: Nanos) {
        self.undone.extend(versions.map(|mut version| {
            version["taken_back_at_ns"] = json!(time_ns);
            version
        }));
        let surplus = self.undone.len().saturating_sub(MAX_UNDONE_VERSIONS);
        self.undone.drain(..surplus);
    }
}

/// Returns the total number of bytes in all links with a constant rate when these links are full.
fn needed_bytes(network: &NetworkSpec) -> u64 {
    let links = network.links.iter().filter_map(|link| likely_bytes(&link.spec));
    links.fold(0, u64::saturating_add)
}

/// Returns an error for a network whose full links would hold more than `most` bytes.
fn refuse_beyond(most: u64, network: &NetworkSpec) -> Result<(), ChangeRefusal> {
    let wanted = needed_bytes(network);
    if wanted <= most {
        return Ok(());
    }
    let error = Diagnostic::new(SR0015, "the links cannot hold that much");
    let cause = format!("full links would hold {wanted} bytes; there is memory for {most}");
    Err(Box::new(error.with_cause(cause).with_help("ask for a lower rate or a shorter delay")))
}

/// Converts an error in a setting to a diagnostic for the user.
fn diagnostic_of(error: &EmulationConfigError) -> ChangeRefusal {
    Box::new(Diagnostic::of(error))
}

/// Returns the refusal of invalid settings. It says whether the submitted settings are invalid, or
/// later ones that build on them.
fn unbuildable(unfit: &UnbuildableSettings, time: Nanos) -> ChangeRefusal {
    if unfit.is_handed_in {
        return diagnostic_of(&unfit.error);
    }
    let wait = Duration::from_nanos(unfit.at_ns.saturating_sub(time));
    let (number, wait) = (unfit.number, human::span(wait));
    let summary = format!("version {number}, which begins in {wait}, could not go on from it");
    let cause = unfit.error.summary();
    let cause = unfit.error.cause().map_or(cause.clone(), |more| format!("{cause}: {more}"));
    let help = "see: slipring emulate ctl history; take back what is to come: stop-script";
    Box::new(Diagnostic::new(SR0015, summary).with_cause(cause).with_help(help))
}

/// Returns an error if a change concerns settings that cannot change during a run.
fn refuse_fixed(before: &Value, after: &Value) -> Result<(), ChangeRefusal> {
    let others = difference(&flattened(before), &flattened(after));
    let is_fixed = |path: &&String| {
        let top = path.split('.').next().unwrap_or_default();
        ["seed", "name", "ports", "output", "route"].contains(&top)
    };
    let Some(path) = others.keys().find(is_fixed) else { return Ok(()) };
    let error = Diagnostic::new(SR0015, format!("{path} cannot change in a run"));
    let error = error.with_cause("seed, name, ports and outputs are those of the start");
    Err(Box::new(error.with_help("put it back, or end the run and start it again from the file")))
}

/// Returns settings by path: `link.up.rate.bps`.
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

/// Returns the settings that are new or different in `after`. Settings that are only in `before`
/// become null.
fn difference(before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    let gone = gone.map(|path| (path.clone(), Value::Null));
    let other = after.iter().filter(|(path, value)| before.get(*path) != Some(value));
    gone.chain(other.map(|(path, value)| (path.clone(), value.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

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

    /// Creates the history of a run without an engine. A thread accepts all changes, until the
    /// second value is dropped.
    fn versions() -> (SettingsHistory, impl Drop) {
        struct Taker(Arc<AtomicBool>, Option<thread::JoinHandle<()>>);
        impl Drop for Taker {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
                self.1.take().unwrap().join().unwrap();
            }
        }
        let channel = Arc::new(EmulatorChannel::new().unwrap());
        let (taker, over) = (channel.clone(), Arc::new(AtomicBool::new(false)));
        let stop = over.clone();
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // Sending fails if the submitter has already ended, which is no error.
                taker.take_changes().iter().for_each(|change| drop(change.answer.send(Ok(()))));
                thread::yield_now();
            }
        });
        let text = "[ports.a]\n[ports.b]\n[link.up]\nfrom = \"a\"\nto = \"b\"\ndelay = \"20ms\"\n\
                    [link.down]\nfrom = \"b\"\nto = \"a\"\nlike = \"up\"\n";
        let config = EmulationConfig::parse("link.toml", text).unwrap();
        let network = config.network().unwrap();
        let timeline = SettingsTimeline::new(0, config, network);
        let held = Mutex::new(HistoryState::of(timeline));
        let (handover, bounds) = (PlanHandover::new(channel), ChangeBounds::default());
        (
            SettingsHistory { handover, bounds, storage_bytes: 1 << 30, start_ns: 0, state: held },
            Taker(over, Some(thread)),
        )
    }

    fn delay(delay: &str) -> Vec<ConfigEntry> {
        config::entries([("up.delay", &json!(delay))]).unwrap()
    }

    #[test]
    fn a_script_of_several_blocks_is_undone_at_once() {
        let (versions, _taker) = versions();
        versions.set(0, delay("25ms")).unwrap();
        let text = "[[at]]\nt = \"0s\"\nset = { \"up.delay\" = \"30ms\" }\n\
            [[at]]\nt = \"1h\"\nset = { \"up.delay\" = \"40ms\" }\n\
            [[at]]\nt = \"2h\"\nset = {}\n";
        let made = versions.script("steps.toml", text).unwrap();
        let made: Vec<_> = made.iter().map(|made| (made.version, made.changed)).collect();
        assert_eq!(made, [(3, true), (4, true), (4, false)]);
        let (back, gone) = versions.undo().unwrap();
        assert_eq!((back.version, gone), (2, vec![3, 4]));
        let history = versions.history();
        let listed = history.as_array().unwrap().iter();
        let listed: Vec<_> = listed
            .map(|listed| (listed["version"].as_u64(), listed["taken_back_at_ns"].is_u64()))
            .collect();
        let kept = [1, 2].map(|version| (Some(version), false));
        assert_eq!(listed, [kept, [3, 4].map(|version| (Some(version), true))].concat());
        assert_eq!(history[2]["changes"]["link.up.delay.mean"], "30ms");
        // Settings changed three times: by a set, a script and an undo.
        assert_eq!(versions.changes().times, 3);
    }

    #[test]
    fn what_was_taken_back_stays_in_the_history() {
        let (versions, _taker) = versions();
        versions.set(0, delay("30ms")).unwrap();
        versions.undo().unwrap();
        let hour_ns = 3_600_000_000_000;
        versions.set(now() + hour_ns, delay("40ms")).unwrap();
        assert_eq!(versions.stop_script().unwrap(), 1);
        versions.set(0, delay("50ms")).unwrap();
        let history = versions.history();
        let listed = |index: usize| {
            let listed = &history[index];
            (
                listed["version"].as_u64(),
                listed["begun"] == true,
                listed.get("taken_back_at_ns").is_some(),
            )
        };
        assert_eq!(history.as_array().unwrap().len(), 4, "{history}");
        assert_eq!(listed(0), (Some(1), true, false));
        assert_eq!(listed(1), (Some(2), true, true));
        assert_eq!(listed(2), (Some(4), true, false));
        assert_eq!(listed(3), (Some(3), false, true));
        assert_eq!(history[1]["changes"]["link.up.delay.mean"], "30ms");
        assert_eq!(history[3]["changes"]["link.down.delay.mean"], "40ms");
    }

    #[test]
    fn a_change_tells_of_every_link_that_it_changes_also_of_those_that_are_like_it() {
        let (versions, _taker) = versions();
        let down = config::entries([("down.loss", &json!("1%"))]).unwrap();
        assert_eq!(versions.set(0, down).unwrap().links, ["down"]);
        assert_eq!(versions.set(0, delay("40ms")).unwrap().links, ["up", "down"]);
        let history = versions.history();
        let changes: Vec<_> = history[2]["changes"].as_object().unwrap().keys().collect();
        assert_eq!(changes, ["link.down.delay.mean", "link.up.delay.mean"]);
        let (back, _) = versions.undo().unwrap();
        assert_eq!(back.links, ["up", "down"]);
        assert!(versions.set(0, delay("20ms")).unwrap().links.is_empty());
    }

    #[test]
    fn what_changes_nothing_is_told_and_makes_no_version() {
        let (versions, _taker) = versions();
        for entries in [Vec::new(), delay("20ms"), delay("20000us")] {
            let accepted = versions.set(0, entries).unwrap();
            assert_eq!((accepted.version, accepted.changed), (1, false));
        }
        let config = versions.state().timeline.current(0).config.as_ref().clone();
        versions.replace(config).unwrap();
        assert_eq!(versions.history().as_array().unwrap().len(), 1);
        assert_eq!(versions.changes().times, 0);
        assert_eq!(versions.undo().unwrap_err().summary(), "there is nothing to undo");
    }

    #[test]
    fn changes_are_counted_however_often_settings_go_back_and_however_long_ago() {
        let (versions, _taker) = versions();
        for time in 0..1200_u64 {
            versions.set(0, delay(&format!("{}us", time + 1))).unwrap();
            if time % 4 == 3 {
                versions.undo().unwrap();
            }
        }
        // 900 changes remain. Each of the 300 undone changes counts twice: once when it was made,
        // and once when it was undone.
        assert_eq!(versions.changes().times, 900 + 2 * 300);
        for time in 0..300 {
            versions.set(0, delay(&format!("{time}ms"))).unwrap();
        }
        assert_eq!(versions.changes().times, 900 + 2 * 300 + 300);
        let history = versions.history();
        let back = |listed: &&Value| listed["taken_back_at_ns"].is_u64();
        let back = history.as_array().unwrap().iter().filter(back).count();
        assert_eq!((history.as_array().unwrap().len() - back, back), (1000, 300));
    }

    #[test]
    fn a_start_that_memory_cannot_hold_is_refused_as_a_change_is() {
        let network = |text: &str| {
            let text = format!("[ports.a]\n[ports.b]\n[link.up]\nfrom = \"a\"\nto = \"b\"\n{text}");
            EmulationConfig::parse("link.toml", &text).unwrap().network().unwrap()
        };
        let long = network("rate = \"10Gbit\"\ndelay = \"1000h\"\n");
        let error = refuse_beyond(1 << 40, &long).unwrap_err().to_string();
        assert!(error.contains("the links cannot hold that much"), "{error}");
        refuse_beyond(1 << 30, &network("rate = \"10Gbit\"\ndelay = \"20ms\"\n")).unwrap();
    }
}
