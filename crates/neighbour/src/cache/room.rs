//! Selects which neighbour is removed when the table is full.

use core::net::IpAddr;
use core::ops::Bound;

use super::{HoldDropCause, NeighbourCache};

/// Maximum number of entries that are checked to find space for a new entry. It limits the work for
/// a single new entry. The next search continues where the previous one has ended.
const MAX_INSPECTED: usize = 64;

impl<F> NeighbourCache<F> {
    /// If the table is full, removes a dispensable entry to make space for one more. If none is
    /// found and `may_stop_asking` is set, removes the oldest incomplete entry. Returns `false` if
    /// there is still no space.
    pub(super) fn make_room(&mut self, may_stop_asking: bool, now_ns: u64) -> bool {
        if self.entries.len() < self.limits.entries.max(1) {
            return true;
        }
        if let Some(neighbour) = self.find_dispensable(now_ns) {
            self.counters.evicted += 1;
            self.discard(neighbour, HoldDropCause::Evicted);
            return true;
        }
        may_stop_asking && self.evict_oldest_incomplete(None)
    }

    /// Searches for a dispensable entry, starting after `hand`; returns its address. Checks at most
    /// [`MAX_INSPECTED`] entries, and no entry twice.
    fn find_dispensable(&mut self, now_ns: u64) -> Option<IpAddr> {
        let lifetime_ns = self.timers.stale_lifetime_ns;
        let start = self.hand.map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        let after = self.entries.range((start, Bound::Unbounded));
        let around = after.chain(self.entries.iter()).take(MAX_INSPECTED.min(self.entries.len()));
        let mut inspected = around.inspect(|(address, _)| last = Some(**address));
        let found = inspected.find(|(_, entry)| entry.is_dispensable(lifetime_ns, now_ns));
        let found = found.map(|(address, _)| *address);
        drop(inspected);
        self.hand = last;
        found
    }

    /// Removes the neighbour that has been solicited for the longest time, but not `spared`.
    /// Returns `false` if no other neighbour is being solicited.
    pub(super) fn evict_oldest_incomplete(&mut self, spared: Option<IpAddr>) -> bool {
        let mut oldest = self.incomplete.iter().map(|(_, neighbour)| *neighbour);
        let Some(neighbour) = oldest.find(|neighbour| Some(*neighbour) != spared) else {
            return false;
        };
        self.counters.evicted += 1;
        self.discard(neighbour, HoldDropCause::Evicted);
        true
    }

    /// Removes an entry. The frames that wait for this neighbour are dropped for `cause`.
    pub(super) fn discard(&mut self, neighbour: IpAddr, cause: HoldDropCause) {
        self.clear_deadline(neighbour);
        self.drop_held(neighbour, cause);
        let Some(entry) = self.entries.remove(&neighbour) else { return };
        self.incomplete.remove(&(entry.sequence, neighbour));
        if entry.mac().is_some() {
            self.events.push_back(super::NeighbourEvent::Changed { neighbour, mac: None });
        }
    }
}
