//! The rules of a list that look up states.

use alloc::vec;
use alloc::vec::Vec;

use super::super::config::IpfwConfig;
use super::super::search::{StateNameId, StateSearch};

/// The rules at which states are looked up before any other test.
///
/// A packet is looked up once per name, so of the rules with one name, only the first on the
/// packet's path does the lookup. Later rules with the same name are searched like all other rules.
#[derive(Clone, Debug, Default)]
pub(super) struct StateLookups {
    /// For each name in the first word of a [`StateSearch`], the indexes of its rules, ascending.
    positions: Vec<Vec<u32>>,
    /// The names that have entries in `positions`.
    names: u64,
    /// The indexes for all names, ascending.
    all: Vec<u32>,
}

impl StateLookups {
    /// Collects the lookups of rules in enabled sets.
    pub(super) fn of(config: &IpfwConfig) -> Self {
        let mut lookups = Self::default();
        for (position, entry) in (0..).zip(&config.list.entries) {
            let Some(id) = entry.lookup.filter(|_| config.is_enabled(entry.rule.set)) else {
                continue;
            };
            lookups.all.push(position);
            if !is_searched(id) {
                continue;
            }
            if lookups.positions.len() <= id.index() {
                lookups.positions.resize(id.index() + 1, vec![]);
            }
            lookups.positions[id.index()].push(position);
            lookups.names |= 1 << id.index();
        }
        lookups
    }

    /// Returns whether there are no lookups.
    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The index of the first rule at or after `at` that looks up states, for a packet without any
    /// previous lookup; `usize::MAX` if there is none.
    #[inline]
    pub(super) fn first_from(&self, at: usize) -> usize {
        first_from(&self.all, at)
    }

    /// The index of the first rule at or after `at` that looks up an indexed name which was not yet
    /// looked up for the packet; `usize::MAX` if there is none.
    #[inline(always)]
    pub(super) fn next(&self, at: usize, search: &StateSearch) -> usize {
        let wanted = search.wanted_of(self.names);
        if wanted == 0 { usize::MAX } else { self.next_of(wanted, at) }
    }

    fn next_of(&self, mut wanted: u64, at: usize) -> usize {
        let mut first = usize::MAX;
        while wanted != 0 {
            first = first.min(first_from(&self.positions[wanted.trailing_zeros() as usize], at));
            wanted &= wanted - 1;
        }
        first
    }
}

/// Returns whether the lookups of a name are indexed. Rules with other names are candidates for
/// every packet.
pub(super) const fn is_searched(id: StateNameId) -> bool {
    id.index() < StateNameId::FIRST_WORD
}

#[inline]
fn first_from(positions: &[u32], at: usize) -> usize {
    match positions.first() {
        Some(&first) if first as usize >= at => first as usize,
        _ => {
            let behind = positions.partition_point(|&position| (position as usize) < at);
            positions.get(behind).map_or(usize::MAX, |&position| position as usize)
        }
    }
}
