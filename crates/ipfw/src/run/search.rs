//! Bounds a packet's path through the list: state lookups, calls and flow changes.
//!
//! A packet can go back in the list in only two ways: if its state is found, the search continues
//! after the state's rule, and `call` and `return` jump. Each name is looked up at most once, and
//! at most once again after each change of the packet's flow by translation or reassembly. Calls
//! and flow changes are limited, so every path ends.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::rule::{ObjectName, Rule, RuleAction};

/// Maximum number of calls of a packet in one pass: far more than a list without a loop needs.
pub(super) const MAX_CALLS_MADE: u32 = 1024;
/// Maximum number of times that translation and reassembly may change a packet's flow in one pass.
const MAX_FLOW_CHANGES: u32 = 32;

/// The name of the states that a rule looks up, as a small number that the list assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StateNameId(u32);

impl StateNameId {
    /// `:any`: states of all names.
    pub(super) const ANY: Self = Self(0);
    /// Number of names whose bits are in the first word of a [`StateSearch`].
    pub(super) const FIRST_WORD: usize = u64::BITS as usize;

    /// The number as an index.
    #[inline]
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The names by which the rules of a list look up states.
#[derive(Clone, Debug, Default)]
pub(super) struct StateNames(BTreeMap<ObjectName, StateNameId>);

impl StateNames {
    /// Makes a rule share the text of its state name with earlier rules, so that comparing equal
    /// names is fast.
    pub(super) fn share(&self, rule: &mut Rule) {
        let keep = rule.keep.as_mut().map(|keep| &mut keep.name);
        let check = match &mut rule.action {
            RuleAction::CheckState(name) => name.as_mut(),
            _ => None,
        };
        for name in keep.into_iter().chain(check) {
            if let Some((known, _)) = self.0.get_key_value(name) {
                *name = known.clone();
            }
        }
    }

    /// Returns the number of the name that a rule looks up; assigns a number if the name has none.
    /// `None` if the rule looks up no states.
    pub(super) fn id_of(&mut self, rule: &Rule) -> Option<StateNameId> {
        let Some(name) = probes(rule)? else { return Some(StateNameId::ANY) };
        if let Some(id) = self.0.get(name) {
            return Some(*id);
        }
        let used: BTreeSet<_> = self.0.values().copied().collect();
        let free = (1..).map(StateNameId).find(|id| !used.contains(id))?;
        self.0.insert(name.clone(), free);
        Some(free)
    }

    /// Frees the numbers of names that no rule looks up any longer.
    pub(super) fn retain(&mut self, used: impl Iterator<Item = StateNameId>) {
        let used: BTreeSet<_> = used.collect();
        self.0.retain(|_, id| used.contains(id));
    }
}

/// Records which state names were looked up for a packet in one pass, and counts the packet's calls
/// and flow changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StateSearch {
    /// One bit for each name that was looked up; the bit of [`StateNameId::ANY`] means all names.
    first: u64,
    /// The bits of further names.
    more: Vec<u64>,
    calls_made: u32,
    flow_changes: u32,
}

impl StateSearch {
    /// The value for a packet for which nothing was looked up or counted yet.
    pub(super) const NEW: Self =
        Self { first: 0, more: Vec::new(), calls_made: 0, flow_changes: 0 };

    /// Resets everything, for another packet or pass.
    #[inline]
    pub(super) fn restart(&mut self) {
        self.first = 0;
        self.more.clear();
        (self.calls_made, self.flow_changes) = (0, 0);
    }

    /// Notes that the packet now belongs to another flow, whose states must be looked up again;
    /// returns whether the packet's flow has changed too often.
    pub(super) fn flow_change_is_too_many(&mut self) -> bool {
        self.first = 0;
        self.more.clear();
        self.flow_changes += 1;
        self.flow_changes > MAX_FLOW_CHANGES
    }

    /// Returns whether states of a name must still be looked up.
    #[inline]
    pub(super) fn wants(&self, id: StateNameId) -> bool {
        let (word, bit) = (id.index() / StateNameId::FIRST_WORD, id.0 % u64::BITS);
        let done = match word.checked_sub(1) {
            None => self.first,
            Some(at) => self.more.get(at).copied().unwrap_or(0),
        };
        (done >> bit | self.first) & 1 == 0
    }

    /// Returns the names in `asked` (first word only) that must still be looked up.
    #[inline]
    pub(super) const fn wanted_of(&self, asked: u64) -> u64 {
        if self.first & 1 == 1 { 0 } else { asked & !self.first }
    }

    /// Records the lookup of a name.
    #[inline]
    pub(super) fn record(&mut self, id: StateNameId) {
        let (word, bit) = (id.index() / StateNameId::FIRST_WORD, 1 << (id.0 % u64::BITS));
        let Some(at) = word.checked_sub(1) else {
            self.first |= bit;
            return;
        };
        if self.more.len() <= at {
            self.more.resize(at + 1, 0);
        }
        self.more[at] |= bit;
    }

    /// Counts a call; returns whether there are too many.
    pub(super) const fn call_is_too_many(&mut self) -> bool {
        self.calls_made += 1;
        self.calls_made > MAX_CALLS_MADE
    }
}

/// Returns the name of the states that a rule looks up before its other conditions: `None` if it
/// looks up no states, `Some(None)` if it looks up states of any name.
pub(super) fn probes(rule: &Rule) -> Option<Option<&ObjectName>> {
    match (&rule.action, &rule.keep) {
        (RuleAction::CheckState(name), _) => Some(name.as_ref()),
        (_, Some(keep)) if keep.probe => Some(Some(&keep.name)),
        _ => None,
    }
}

/// Counts the rules that packets are compared with, for tests of the bound.
#[cfg(test)]
pub(super) mod steps {
    use core::cell::Cell;

    std::thread_local!(static STEPS: Cell<u64> = const { Cell::new(0) });

    /// Maximum number of comparisons, far more than any test needs. With it, an endless search
    /// fails instead of hanging.
    const MAX_COMPARISONS: u64 = 1 << 28;

    pub(in super::super) fn count() {
        STEPS.set(STEPS.get() + 1);
        assert!(STEPS.get() < MAX_COMPARISONS, "a packet goes round");
    }

    pub(in super::super) fn take() -> u64 {
        STEPS.replace(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_may_change_its_flow_32_times_and_call_1024_times() {
        let mut search = StateSearch::NEW;
        search.record(StateNameId(5));
        assert_eq!((0..32).filter(|_| search.flow_change_is_too_many()).count(), 0);
        assert!(search.wants(StateNameId(5)), "another flow may have other states");
        assert!(search.flow_change_is_too_many() && search.flow_change_is_too_many());
        assert_eq!((0..1024).filter(|_| search.call_is_too_many()).count(), 0);
        assert!(search.call_is_too_many() && search.call_is_too_many());
        search.restart();
        assert!(!search.flow_change_is_too_many() && !search.call_is_too_many());
    }

    #[test]
    fn numbers_of_names_that_no_rule_has_any_longer_are_given_again() {
        let add = |text: &str| match crate::text::parse_command(text) {
            Ok(crate::text::IpfwCommand::Add(add)) => add.rule,
            other => panic!("{other:?}"),
        };
        let [one, two] = ["one", "two"].map(|name| add(&alloc::format!("add check-state :{name}")));
        let mut names = StateNames::default();
        assert_eq!(names.id_of(&one), Some(StateNameId(1)));
        assert_eq!(names.id_of(&two), Some(StateNameId(2)));
        assert_eq!(names.id_of(&one), Some(StateNameId(1)));
        names.retain([StateNameId(2)].into_iter());
        let three = add("add 7 allow ip from any to any keep-state :three");
        assert_eq!(names.id_of(&three), Some(StateNameId(1)));
        assert_eq!(names.id_of(&two), Some(StateNameId(2)));
        assert_eq!(names.id_of(&add("add check-state :any")), Some(StateNameId::ANY));
        assert_eq!(names.id_of(&add("add allow ip from any to any")), None);
    }

    #[test]
    fn each_name_is_looked_up_once_and_any_name_stands_for_all() {
        let ids = [1, 5, 63, 64, 127, 128, 400].map(StateNameId);
        let mut search = StateSearch::NEW;
        for (at, &id) in ids.iter().enumerate() {
            assert!(ids[at..].iter().all(|id| search.wants(*id)), "{id:?}");
            search.record(id);
            assert!(ids[..=at].iter().all(|id| !search.wants(*id)), "{id:?}");
        }
        assert!(search.wants(StateNameId::ANY));
        search.record(StateNameId::ANY);
        assert!(!search.wants(StateNameId(999)) && search.wanted_of(u64::MAX) == 0);
        search.restart();
        assert_eq!(search.wanted_of(u64::MAX), u64::MAX);
    }
}
