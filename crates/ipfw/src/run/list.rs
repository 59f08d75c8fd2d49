use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;

use super::search::{StateNameId, StateNames};
use crate::rule::{DEFAULT_RULE, RESERVED_SET, Rule, RuleAction, RuleNumber};

/// Maximum number of old rules with the same number with which a new rule is compared. There is a
/// limit because thousands of rules may share a number.
const MAX_COMPARED_RULES: usize = 64;

/// A rule in the list.
#[derive(Clone, Debug)]
pub struct RuleEntry {
    /// The rule's number.
    pub number: RuleNumber,
    /// The rule's id, unique among all rules that ever existed in this list.
    pub id: u64,
    /// The rule itself.
    pub rule: Arc<Rule>,
    /// The name of the states that the rule looks up before any other test; `None` if the rule
    /// looks up no states.
    pub(super) lookup: Option<StateNameId>,
}

/// The counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounters {
    /// Number of packets that matched the rule or one of its states, since the last `zero`. Matches
    /// whose action is deferred do not count.
    pub packets: u64,
    /// Number of bytes of these packets.
    pub bytes: u64,
    /// Time of the last match, in nanoseconds of the engine's clock; `None` if no packet has
    /// matched.
    pub last_match_ns: Option<u64>,
    /// Lines logged since the last `resetlog` or `zero`.
    pub logged: u64,
}

impl RuleCounters {
    /// Counts several packets that matched.
    #[inline(always)]
    pub(super) fn count(&mut self, packets: u64, bytes: u64, now: u64) {
        self.packets += packets;
        self.bytes += bytes;
        if packets > 0 {
            self.last_match_ns = Some(now);
        }
    }
}

/// A hasher for rule ids. The list itself assigns the ids, so no sender can cause collisions.
#[derive(Clone, Copy, Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        // Fibonacci hashing; the high bits are mixed best, so they are rotated to the bits that
        // hash tables use first.
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |all, byte| all << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

/// Rules in the order in which they are tested, and their counters at the same indexes.
///
/// The last rule is the default rule: it always exists and matches.
#[derive(Clone, Debug)]
pub struct RuleList {
    pub(super) entries: Vec<RuleEntry>,
    pub(super) counters: Vec<RuleCounters>,
    positions: HashMap<u64, usize, BuildHasherDefault<IdHasher>>,
    state_names: StateNames,
    last_id: u64,
}

impl RuleList {
    /// Builds a list with only the default rule, whose action is `action`.
    #[must_use]
    pub fn new(action: RuleAction) -> Self {
        let rule = Rule {
            set: RESERVED_SET,
            chance: None,
            action,
            log: None,
            tags: Vec::new(),
            body: crate::rule::RuleBody { head: Some(Default::default()), options: Vec::new() },
            keep: None,
            defer: false,
            comment: None,
        };
        let entry = RuleEntry { number: DEFAULT_RULE, id: 0, rule: Arc::new(rule), lookup: None };
        let positions = [(0, 0)].into_iter().collect();
        Self {
            entries: [entry].into(),
            counters: [RuleCounters::default()].into(),
            positions,
            state_names: StateNames::default(),
            last_id: 0,
        }
    }

    /// Iterates over the rules and their counters.
    pub fn iter(&self) -> impl Iterator<Item = (&RuleEntry, &RuleCounters)> {
        self.entries.iter().zip(&self.counters)
    }

    /// Number of rules, the default rule included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Always `false`: the default rule always exists.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Returns the index of the rule with this id.
    #[must_use]
    pub fn position(&self, id: u64) -> Option<usize> {
        self.positions.get(&id).copied()
    }

    /// Returns the index of the first rule with a number of at least `number`. There is always one,
    /// because the default rule has the highest number.
    #[must_use]
    pub fn first_from(&self, number: RuleNumber) -> usize {
        self.entries.partition_point(|entry| entry.number < number)
    }

    /// Adds a rule after the existing rules with the same number, or if `number` is `None`, at the
    /// end, before the default rule. Returns the rule's number.
    pub fn add(&mut self, number: Option<RuleNumber>, mut rule: Rule, step: u32) -> RuleNumber {
        let number = number.unwrap_or_else(|| self.next_number(step));
        let at = self.entries.partition_point(|entry| entry.number <= number);
        self.last_id += 1;
        self.state_names.share(&mut rule);
        let lookup = self.state_names.id_of(&rule);
        let entry = RuleEntry { number, id: self.last_id, rule: Arc::new(rule), lookup };
        self.entries.insert(at, entry);
        self.counters.insert(at, RuleCounters::default());
        self.index_from(at);
        number
    }

    /// Adds `step` to the number of the last rule before the default rule. Returns the sum, or the
    /// number of that rule if the sum would be too high.
    fn next_number(&self, step: u32) -> RuleNumber {
        let before = self.entries.len().checked_sub(2).map_or(0, |at| self.entries[at].number);
        let next = u32::from(before) + step;
        if next < DEFAULT_RULE.into() { next as RuleNumber } else { before.max(1) }
    }

    fn index_from(&mut self, at: usize) {
        for (position, entry) in self.entries.iter().enumerate().skip(at) {
            self.positions.insert(entry.id, position);
        }
    }

    /// Removes the rules for which `of` returns `true`, except the default rule; returns their ids.
    pub fn remove(&mut self, of: impl Fn(&RuleEntry) -> bool) -> Vec<u64> {
        let picked = |entry: &RuleEntry| entry.number != DEFAULT_RULE && of(entry);
        let mut gone: Vec<_> =
            self.entries.iter().filter(|entry| picked(entry)).map(|entry| entry.id).collect();
        gone.sort_unstable();
        let mut keep =
            self.entries.iter().map(|entry| !picked(entry)).collect::<Vec<_>>().into_iter();
        self.counters.retain(|_| keep.next().unwrap_or(true));
        self.entries.retain(|entry| !picked(entry));
        self.positions.retain(|id, _| gone.binary_search(id).is_err());
        self.state_names.retain(self.entries.iter().filter_map(|entry| entry.lookup));
        self.index_from(0);
        gone
    }

    /// Finds rules that were removed since `before` and added again with the same number and
    /// without a change, and restores their old ids and counters. Returns these ids, sorted.
    pub fn recognize(&mut self, before: &Self) -> Vec<u64> {
        let mut went: BTreeMap<RuleNumber, VecDeque<usize>> = BTreeMap::new();
        if self.last_id != before.last_id {
            let gone = |(_, entry): &(usize, &RuleEntry)| self.position(entry.id).is_none();
            for (at, entry) in before.entries.iter().enumerate().filter(gone) {
                went.entry(entry.number).or_default().push_back(at);
            }
        }
        let mut stayed = Vec::new();
        if went.is_empty() {
            return stayed;
        }
        for (position, entry) in self.entries.iter_mut().enumerate() {
            let Some(old) = went.get_mut(&entry.number).filter(|_| entry.id > before.last_id)
            else {
                continue;
            };
            let is_same = |&at: &usize| before.entries[at].rule == entry.rule;
            let found = old.iter().take(MAX_COMPARED_RULES).position(is_same);
            let Some(at) = found.and_then(|nth| old.remove(nth)) else { continue };
            self.positions.remove(&entry.id);
            entry.id = before.entries[at].id;
            self.positions.insert(entry.id, position);
            self.counters[position] = before.counters[at];
            stayed.push(entry.id);
        }
        stayed.sort_unstable();
        stayed
    }

    /// Changes the set of each rule but the default rule to the result of `new_set`.
    pub fn change_sets(&mut self, new_set: impl Fn(&RuleEntry) -> u8) {
        for entry in self.entries.iter_mut().filter(|entry| entry.number != DEFAULT_RULE) {
            let set = new_set(entry);
            if set != entry.rule.set {
                Arc::make_mut(&mut entry.rule).set = set;
            }
        }
    }

    /// Resets counters of the rules for which `of` returns `true`. Returns the number of these
    /// rules.
    pub fn reset(
        &mut self,
        of: impl Fn(&RuleEntry) -> bool,
        mut change: impl FnMut(&mut RuleCounters),
    ) -> usize {
        let picked = self.entries.iter().zip(&mut self.counters).filter(|(entry, _)| of(entry));
        picked.map(|(_, counters)| change(counters)).count()
    }
}
