//! Settings over time: each version is the previous version plus its own changes.
//!
//! # Invariants
//! 1. Versions are in the order of their times; the first one has begun.
//! 2. An edit creates no version if it sets nothing, or if it applies from now on and leaves the
//!    network unchanged. A future version may equal the previous version, because versions that are
//!    inserted between them can make the two differ.
//! 3. A version contains all changes up to its time, in whatever order they were submitted. The
//!    changes of an inserted version also apply to all later versions, and undoing a version
//!    removes its changes from all later versions.
//!
//! Not for checking whether the running links can apply the settings.

use std::sync::Arc;

use slipring_link::NetworkSpec;
use slipring_port::Nanos;

use crate::config::tree::ConfigEntry;
use crate::config::{EmulationConfig, EmulationConfigError};

/// Maximum number of versions that have begun and are kept, the current one included.
const MAX_PAST_VERSIONS: usize = 1000;

/// The changes of a version.
#[derive(Debug, Clone)]
pub(super) enum SettingsEdit {
    /// New values for all settings, which replace the old ones.
    Whole(EmulationConfig),
    /// New values for single paths.
    Set(Vec<ConfigEntry>),
}

/// The settings that apply from `at_ns` on.
#[derive(Debug, Clone)]
pub(super) struct SettingsVersion {
    pub(super) number: u64,
    /// Versions that were submitted together have the same batch, and are undone together.
    batch: u64,
    pub(super) at_ns: Nanos,
    edit: Arc<SettingsEdit>,
    pub(super) config: Arc<EmulationConfig>,
    pub(super) network: Arc<NetworkSpec>,
}

/// All versions of the settings, past and future.
#[derive(Debug, Clone)]
pub(super) struct SettingsTimeline {
    versions: Vec<SettingsVersion>,
    next: u64,
    batches: u64,
}

/// The result of submitting an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingsEditOutcome {
    /// The edit became the version with this number.
    NewVersion(u64),
    /// The edit changed nothing, so at its time the settings are still those of the version with
    /// this number.
    Unchanged(u64),
}

/// The result of an undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UndoneVersions {
    /// Versions from this index on have changed.
    pub(super) first: usize,
    /// Numbers of the removed versions, and their start times.
    pub(super) removed: Vec<(u64, Nanos)>,
}

/// Settings that do not result in valid links.
#[derive(Debug)]
pub(super) struct UnbuildableSettings {
    /// Whether the submitted settings themselves are invalid. If false, a later version that builds
    /// on them is.
    pub(super) is_handed_in: bool,
    /// Number of the invalid version.
    pub(super) number: u64,
    /// Time at which the settings were to begin.
    pub(super) at_ns: Nanos,
    pub(super) error: Box<EmulationConfigError>,
}

impl SettingsTimeline {
    /// Creates a timeline that starts with these settings.
    pub(super) fn new(at_ns: Nanos, config: EmulationConfig, network: NetworkSpec) -> Self {
        let edit = Arc::new(SettingsEdit::Whole(config.clone()));
        let (config, network) = (Arc::new(config), Arc::new(network));
        let start = SettingsVersion { number: 1, batch: 0, at_ns, edit, config, network };
        Self { versions: vec![start], next: 2, batches: 0 }
    }

    /// Returns all versions.
    pub(super) fn versions(&self) -> &[SettingsVersion] {
        &self.versions
    }

    /// Returns the names of the links that the version of that number changes.
    pub(super) fn changed_by(&self, number: u64) -> Vec<String> {
        let pairs = self.versions.iter().zip(&self.versions[1..]);
        let mut pairs = pairs.filter(|(_, version)| version.number == number);
        pairs
            .next()
            .map_or(Vec::new(), |(before, after)| changed_links(&before.network, &after.network))
    }

    /// Returns the last version that has begun at `time`.
    pub(super) fn current(&self, time: Nanos) -> &SettingsVersion {
        let begun = self.versions.iter().rev().find(|version| version.at_ns <= time);
        begun.unwrap_or(&self.versions[0])
    }

    /// Returns the versions that have not begun at `time`.
    pub(super) fn pending(&self, time: Nanos) -> &[SettingsVersion] {
        let begun = self.versions.partition_point(|version| version.at_ns <= time);
        &self.versions[begun..]
    }

    /// Inserts versions as one batch, each after existing versions of the same time. Returns the
    /// index of the first version that changed, if any did, and the result of each edit. Edits for
    /// `time` (the earliest time at which a change can apply) or earlier are dropped if they change
    /// nothing. Later edits are kept unless they set nothing, because an edit that equals the
    /// current settings may differ from the settings that apply at its time.
    ///
    /// # Errors
    /// [`UnbuildableSettings`] if an edit or a later version results in invalid links. This
    /// timeline is then inconsistent and must be discarded.
    pub(super) fn insert_batch(
        &mut self,
        time: Nanos,
        edits: Vec<(Nanos, SettingsEdit)>,
    ) -> Result<(Option<usize>, Vec<SettingsEditOutcome>), UnbuildableSettings> {
        self.batches += 1;
        let (mut first, mut outcomes) = (None, Vec::new());
        for (at_ns, edit) in edits {
            let index = self.versions.partition_point(|version| version.at_ns <= at_ns).max(1);
            let version = self.build_version(index, at_ns, edit)?;
            let before = &self.versions[index - 1];
            if version.edit.is_empty() || (at_ns <= time && version.network == before.network) {
                outcomes.push(SettingsEditOutcome::Unchanged(before.number));
                continue;
            }
            outcomes.push(SettingsEditOutcome::NewVersion(version.number));
            self.next += 1;
            self.versions.insert(index, version);
            self.rebuild(index + 1)?;
            first = Some(first.map_or(index, |first: usize| first.min(index)));
        }
        Ok((first, outcomes))
    }

    /// Builds a version to be inserted at `index`.
    fn build_version(
        &self,
        index: usize,
        at_ns: Nanos,
        edit: SettingsEdit,
    ) -> Result<SettingsVersion, UnbuildableSettings> {
        let number = self.next;
        let made = edit.apply_to(&self.versions[index - 1]);
        let (config, network) = made.map_err(|error| UnbuildableSettings {
            is_handed_in: true,
            number,
            at_ns,
            error: Box::new(error),
        })?;
        let (config, network) = (Arc::new(config), Arc::new(network));
        let edit = Arc::new(edit);
        Ok(SettingsVersion { number, batch: self.batches, at_ns, edit, config, network })
    }

    /// Undoes the last batch; returns `None` if only the first version is left.
    ///
    /// # Errors
    /// Same as for [`Self::insert_batch`].
    pub(super) fn undo_newest(&mut self) -> Result<Option<UndoneVersions>, UnbuildableSettings> {
        let newest = self.versions[1..].iter().map(|version| version.batch).max();
        let Some(newest) = newest else { return Ok(None) };
        let is_taken = |version: &SettingsVersion| version.batch == newest;
        let first = 1 + self.versions[1..].iter().position(is_taken).expect("it is one of them");
        let gone = self.versions.extract_if(first.., |version| version.batch == newest);
        let gone = gone.map(|version| (version.number, version.at_ns)).collect();
        self.rebuild(first)?;
        Ok(Some(UndoneVersions { first, removed: gone }))
    }

    /// Removes all versions that have not begun at `time`. Returns the number of removed versions.
    pub(super) fn cancel_pending(&mut self, time: Nanos) -> usize {
        let count = self.pending(time).len();
        self.versions.truncate(self.versions.len() - count);
        count
    }

    /// Removes the oldest of the versions that have begun, so that [`MAX_PAST_VERSIONS`] of them
    /// stay; future versions do not count. Returns the number of removed versions.
    pub(super) fn forget(&mut self, time: Nanos) -> usize {
        let begun = self.versions.len() - self.pending(time).len();
        let surplus = begun.saturating_sub(MAX_PAST_VERSIONS);
        self.versions.drain(..surplus);
        surplus
    }

    fn rebuild(&mut self, from: usize) -> Result<(), UnbuildableSettings> {
        for index in from..self.versions.len() {
            let (before, after) = self.versions.split_at_mut(index);
            let before = before.last().expect("the first version stays");
            let version = &mut after[0];
            let (number, at_ns) = (version.number, version.at_ns);
            let unfit = |error| UnbuildableSettings {
                is_handed_in: false,
                number,
                at_ns,
                error: Box::new(error),
            };
            let (config, network) = version.edit.apply_to(before).map_err(unfit)?;
            (version.config, version.network) = (Arc::new(config), Arc::new(network));
        }
        Ok(())
    }
}

impl SettingsEdit {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Set(entries) if entries.is_empty())
    }

    fn apply_to(
        &self,
        before: &SettingsVersion,
    ) -> Result<(EmulationConfig, NetworkSpec), EmulationConfigError> {
        let config = match self {
            Self::Whole(config) => config.clone(),
            Self::Set(entries) => before.config.changed(entries)?,
        };
        let mut network = config.network()?;
        // A link whose user model is unchanged keeps the factory of the model. Failures of the
        // model are reported through the factory, so these reports continue after the change.
        for (link, before) in network.links.iter_mut().zip(&before.network.links) {
            link.spec.reuse_factories(&before.spec);
        }
        Ok((config, network))
    }
}

/// Returns the names of the links that differ.
pub(super) fn changed_links(before: &NetworkSpec, after: &NetworkSpec) -> Vec<String> {
    let pairs = before.links.iter().zip(&after.links);
    let others = pairs.filter(|(before, after)| before != after);
    others.map(|(_, link)| link.spec.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config;

    fn timeline() -> SettingsTimeline {
        let text = "[ports.a]\n[ports.b]\n[link.up]\nfrom = \"a\"\nto = \"b\"\n\
                    rate = \"10Mbit\"\ndelay = \"20ms\"\n";
        let config = EmulationConfig::parse("link.toml", text).unwrap();
        let network = config.network().unwrap();
        SettingsTimeline::new(0, config, network)
    }

    fn set(path: &str, value: &str) -> SettingsEdit {
        let value = json!(value);
        SettingsEdit::Set(config::entries([(path, &value)]).unwrap())
    }

    fn shown(version: &SettingsVersion) -> String {
        let settings = version.config.to_json();
        let up = &settings["link"]["up"];
        format!("{} {} {}", version.number, up["rate"]["bps"], up["delay"])
    }

    fn all(timeline: &SettingsTimeline) -> Vec<String> {
        timeline.versions().iter().map(shown).collect()
    }

    /// Submits one edit. Returns its version number.
    fn add(
        timeline: &mut SettingsTimeline,
        at_ns: Nanos,
        edit: SettingsEdit,
    ) -> Result<u64, UnbuildableSettings> {
        match timeline.insert_batch(0, vec![(at_ns, edit)])?.1[..] {
            [SettingsEditOutcome::NewVersion(number)] => Ok(number),
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_change_before_one_to_come_is_met_by_what_that_sets() {
        let mut timeline = timeline();
        let start = shown(&timeline.versions()[0]);
        add(&mut timeline, 1_000, set("up.delay", "50ms")).unwrap();
        add(&mut timeline, 500, set("up.rate", "20Mbit")).unwrap();
        let [first, rate, both] = &all(&timeline)[..] else { panic!("three versions") };
        assert_eq!(*first, start);
        assert!(rate.starts_with("3 \"20Mbit\"") && rate.contains("20ms"), "{rate}");
        assert!(both.starts_with("2 \"20Mbit\"") && both.contains("50ms"), "{both}");
        let taken = timeline.undo_newest().unwrap();
        assert_eq!(taken, Some(UndoneVersions { first: 1, removed: vec![(3, 500)] }));
        let [_, delay] = &all(&timeline)[..] else { panic!("two versions") };
        assert!(delay.starts_with("2 \"10Mbit\"") && delay.contains("50ms"), "{delay}");
    }

    #[test]
    fn what_was_handed_in_last_is_taken_back_first_and_then_nothing() {
        let mut timeline = timeline();
        assert_eq!(timeline.undo_newest().unwrap(), None);
        add(&mut timeline, 1_000, set("up.delay", "50ms")).unwrap();
        add(&mut timeline, 500, set("up.rate", "20Mbit")).unwrap();
        assert_eq!(timeline.pending(500).len(), 1);
        assert_eq!(timeline.clone().cancel_pending(499), 2);
        for number in [3, 2] {
            let taken = timeline.undo_newest().unwrap().unwrap();
            assert_eq!(taken.removed[0].0, number);
        }
        assert_eq!(timeline.undo_newest().unwrap(), None);
        assert_eq!(timeline.current(10_000).number, 1);
    }

    #[test]
    fn several_blocks_that_were_handed_in_together_are_taken_back_together() {
        let mut timeline = timeline();
        add(&mut timeline, 600, set("up.rate", "20Mbit")).unwrap();
        let script = [(500, "30ms"), (700, "40ms"), (900, "50ms")];
        let edits = script.map(|(at_ns, delay)| (at_ns, set("up.delay", delay))).to_vec();
        let (first, made) = timeline.insert_batch(0, edits).unwrap();
        assert_eq!((first, made.len(), timeline.versions().len()), (Some(1), 3, 5));
        let taken = timeline.undo_newest().unwrap().unwrap();
        assert_eq!(taken.removed, [(3, 500), (4, 700), (5, 900)]);
        let [_, rate] = &all(&timeline)[..] else { panic!("two versions") };
        assert!(rate.starts_with("2 \"20Mbit\"") && rate.contains("20ms"), "{rate}");
    }

    #[test]
    fn what_changes_nothing_makes_no_version() {
        let mut timeline = timeline();
        let same = || set("up.delay", "20ms");
        let handed =
            timeline.insert_batch(100, vec![(100, SettingsEdit::Set(Vec::new())), (100, same())]);
        assert_eq!(handed.unwrap(), (None, vec![SettingsEditOutcome::Unchanged(1); 2]));
        let whole = SettingsEdit::Whole(EmulationConfig::clone(&timeline.versions()[0].config));
        let handed =
            timeline.insert_batch(100, vec![(100, whole), (900, SettingsEdit::Set(Vec::new()))]);
        assert_eq!(handed.unwrap().0, None);
        assert_eq!((timeline.versions().len(), timeline.undo_newest().unwrap()), (1, None));
        // A future edit is kept even if it equals the current settings, because it may differ from
        // the settings at its time.
        add(&mut timeline, 900, same()).unwrap();
        add(&mut timeline, 500, set("up.delay", "50ms")).unwrap();
        assert!(shown(timeline.current(900)).contains("20ms"));
    }

    #[test]
    fn what_a_later_one_needs_cannot_be_taken_from_it() {
        let mut timeline = timeline();
        add(&mut timeline, 500, set("up.delay", "normal(20ms, 3ms)")).unwrap();
        add(&mut timeline, 1_000, set("up.delay.sd", "5ms")).unwrap();
        let unfit = add(&mut timeline, 700, set("up.delay", "uniform(1ms, 2ms)")).unwrap_err();
        assert_eq!((unfit.is_handed_in, unfit.number, unfit.at_ns), (false, 3, 1_000));
        let unfit = add(&mut timeline, 100, set("up.delay.sd", "5ms")).unwrap_err();
        assert!(unfit.is_handed_in);
    }

    #[test]
    fn what_has_begun_is_forgotten_first_and_what_holds_never() {
        let mut timeline = timeline();
        (0..MAX_PAST_VERSIONS as u64).for_each(|at| {
            add(&mut timeline, at, set("up.delay", &format!("{at}ns"))).unwrap();
        });
        let last = MAX_PAST_VERSIONS as u64 - 1;
        assert_eq!(timeline.forget(last), 1);
        assert_eq!(timeline.current(last).at_ns, last);
        assert_eq!(timeline.versions().len(), MAX_PAST_VERSIONS);
    }

    #[test]
    fn a_long_script_to_come_removes_nothing_from_undo() {
        let mut timeline = timeline();
        add(&mut timeline, 1, set("up.delay", "50ms")).unwrap();
        (0..MAX_PAST_VERSIONS as u64).for_each(|at| {
            add(&mut timeline, 1_000 + at, set("up.delay", &format!("{at}ns"))).unwrap();
        });
        assert_eq!(timeline.forget(2), 0);
        assert_eq!(timeline.versions()[0].number, 1);
    }
}
