//! Settings over time: each version is the one before it and what was set in it.
//!
//! # Invariants
//! 1. Versions are in the order of their times; the first one has begun.
//! 2. A version holds all that was set by then, whenever that was handed in: one that comes in
//!    before others is met by what they set, and when one is taken back, so are its settings.
//!
//! Not for: whether the running links can take them.

use std::sync::Arc;

use slipring_link::NetworkSpec;
use slipring_port::Nanos;

use crate::config::tree::Entry;
use crate::config::{Config, ConfigError};

/// Versions that can be gone back to at most.
const KEPT: usize = 1000;

/// What a version sets.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    /// Everything.
    Whole(Config),
    /// Values by their paths.
    Set(Vec<Entry>),
}

/// The settings from a time on.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) number: u64,
    pub(super) at_ns: Nanos,
    edit: Arc<Edit>,
    pub(super) config: Arc<Config>,
    pub(super) network: Arc<NetworkSpec>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    versions: Vec<Version>,
    next: u64,
}

/// Settings that make no links.
#[derive(Debug)]
pub(super) struct Unfit {
    /// Of the version that makes none.
    pub(super) number: u64,
    /// When it was to begin.
    pub(super) at_ns: Nanos,
    pub(super) error: Box<ConfigError>,
}

impl Timeline {
    /// With these settings for a start.
    pub(super) fn new(at_ns: Nanos, config: Config, network: NetworkSpec) -> Self {
        let edit = Arc::new(Edit::Whole(config.clone()));
        let (config, network) = (Arc::new(config), Arc::new(network));
        Self { versions: vec![Version { number: 1, at_ns, edit, config, network }], next: 2 }
    }

    /// All versions.
    pub(super) fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// The last version that has begun.
    pub(super) fn in_force(&self, time: Nanos) -> &Version {
        let begun = self.versions.iter().rev().find(|version| version.at_ns <= time);
        begun.unwrap_or(&self.versions[0])
    }

    /// The versions that have not begun.
    pub(super) fn to_come(&self, time: Nanos) -> &[Version] {
        let begun = self.versions.partition_point(|version| version.at_ns <= time);
        &self.versions[begun..]
    }

    /// The number of the next one that is added.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    /// The one that was handed in last; none where there is only the start.
    pub(super) fn newest(&self) -> Option<&Version> {
        self.versions[1..].iter().max_by_key(|version| version.number)
    }

    /// Adds a version, behind those of the same time; its place and number.
    ///
    /// # Errors
    /// [`Unfit`], where it or a later one makes no links any more; then this timeline is spoilt.
    pub(super) fn add(&mut self, at_ns: Nanos, edit: Edit) -> Result<(usize, u64), Unfit> {
        let index = self.versions.partition_point(|version| version.at_ns <= at_ns).max(1);
        let before = &self.versions[index - 1];
        let (config, network) = (before.config.clone(), before.network.clone());
        let (number, edit) = (self.next, Arc::new(edit));
        self.next += 1;
        self.versions.insert(index, Version { number, at_ns, edit, config, network });
        self.rebuild(index)?;
        Ok((index, number))
    }

    /// Takes the version of that number out, which is not the first; its place and time.
    ///
    /// # Errors
    /// As of [`Self::add`].
    pub(super) fn take_back(&mut self, number: u64) -> Result<(usize, Nanos), Unfit> {
        let index = self.versions.iter().position(|version| version.number == number);
        let index = index.expect("it is the number of a version");
        let at_ns = self.versions.remove(index).at_ns;
        self.rebuild(index)?;
        Ok((index, at_ns))
    }

    /// Takes all out that have not begun; how many there were.
    pub(super) fn take_back_all(&mut self, time: Nanos) -> usize {
        let count = self.to_come(time).len();
        self.versions.truncate(self.versions.len() - count);
        count
    }

    /// Forgets the oldest ones that were gone by at that time.
    pub(super) fn forget(&mut self, time: Nanos) {
        let begun = self.versions.len() - self.to_come(time).len();
        let surplus = self.versions.len().saturating_sub(KEPT);
        self.versions.drain(..surplus.min(begun.saturating_sub(1)));
    }

    fn rebuild(&mut self, from: usize) -> Result<(), Unfit> {
        for index in from..self.versions.len() {
            let (before, after) = self.versions.split_at_mut(index);
            let before = before.last().expect("the first version stays");
            let version = &mut after[0];
            let (number, at_ns) = (version.number, version.at_ns);
            let unfit = |error| Unfit { number, at_ns, error: Box::new(error) };
            let (config, network) = version.edit.made(before).map_err(unfit)?;
            (version.config, version.network) = (Arc::new(config), Arc::new(network));
        }
        Ok(())
    }
}

impl Edit {
    fn made(&self, before: &Version) -> Result<(Config, NetworkSpec), ConfigError> {
        let config = match self {
            Self::Whole(config) => config.clone(),
            Self::Set(entries) => before.config.with(entries)?,
        };
        let mut network = config.network()?;
        // What fails in a model of the user's is told by what made it, which outlives the change.
        for (link, before) in network.links.iter_mut().zip(&before.network.links) {
            link.spec.keep_makers(&before.spec);
        }
        Ok((config, network))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config;

    fn timeline() -> Timeline {
        let text = "[ports.a]\n[ports.b]\n[link.up]\nfrom = \"a\"\nto = \"b\"\n\
                    rate = \"10Mbit\"\ndelay = \"20ms\"\n";
        let config = Config::parse("link.toml", text).unwrap();
        let network = config.network().unwrap();
        Timeline::new(0, config, network)
    }

    fn set(path: &str, value: &str) -> Edit {
        let value = json!(value);
        Edit::Set(config::entries([(path, &value)]).unwrap())
    }

    fn shown(version: &Version) -> String {
        let settings = version.config.to_json();
        let up = &settings["link"]["up"];
        format!("{} {} {}", version.number, up["rate"]["bps"], up["delay"])
    }

    fn all(timeline: &Timeline) -> Vec<String> {
        timeline.versions().iter().map(shown).collect()
    }

    #[test]
    fn a_change_before_one_to_come_is_met_by_what_that_sets() {
        let mut timeline = timeline();
        let start = shown(&timeline.versions()[0]);
        timeline.add(1_000, set("up.delay", "50ms")).unwrap();
        timeline.add(500, set("up.rate", "20Mbit")).unwrap();
        let [first, rate, both] = &all(&timeline)[..] else { panic!("three versions") };
        assert_eq!(*first, start);
        assert!(rate.starts_with("3 \"20Mbit\"") && rate.contains("20ms"), "{rate}");
        assert!(both.starts_with("2 \"20Mbit\"") && both.contains("50ms"), "{both}");
        timeline.take_back(3).unwrap();
        let [_, delay] = &all(&timeline)[..] else { panic!("two versions") };
        assert!(delay.starts_with("2 \"10Mbit\"") && delay.contains("50ms"), "{delay}");
    }

    #[test]
    fn the_newest_is_the_one_that_was_handed_in_last() {
        let mut timeline = timeline();
        assert!(timeline.newest().is_none());
        timeline.add(1_000, set("up.delay", "50ms")).unwrap();
        timeline.add(500, set("up.rate", "20Mbit")).unwrap();
        assert_eq!(timeline.newest().map(|version| version.number), Some(3));
        assert_eq!(timeline.to_come(500).len(), 1);
        assert_eq!(timeline.take_back_all(499), 2);
        assert_eq!(timeline.in_force(10_000).number, 1);
    }

    #[test]
    fn what_a_later_one_needs_cannot_be_taken_from_it() {
        let mut timeline = timeline();
        timeline.add(500, set("up.delay", "normal(20ms, 3ms)")).unwrap();
        timeline.add(1_000, set("up.delay.sd", "5ms")).unwrap();
        let unfit = timeline.add(700, set("up.delay", "uniform(1ms, 2ms)")).unwrap_err();
        assert_eq!((unfit.number, unfit.at_ns), (3, 1_000));
    }

    #[test]
    fn what_has_begun_is_forgotten_first_and_what_holds_never() {
        let mut timeline = timeline();
        (0..KEPT as u64).for_each(|at| {
            timeline.add(at, set("up.delay", "5ms")).unwrap();
        });
        timeline.forget(0);
        assert_eq!(timeline.in_force(0).at_ns, 0);
        assert_eq!(timeline.versions().len(), KEPT);
    }
}
