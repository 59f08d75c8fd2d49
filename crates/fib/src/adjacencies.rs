//! The neighbours to which routes lead, and their indices in snapshots.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use slipring_wire::mac::MacAddr;

use crate::indices::IndexPool;
use crate::tables::{Adjacency, AdjacencyIndex, FibPortIndex, NextHopAddress};

/// The identity of an adjacency: the interface by which its frames leave, and the next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AdjacencyKey {
    pub port: FibPortIndex,
    pub next_hop: NextHopAddress,
}

#[derive(Debug)]
struct AdjacencyEntry {
    index: AdjacencyIndex,
    uses: u32,
}

/// The adjacencies in use.
#[derive(Debug)]
pub(crate) struct AdjacencyTable {
    entries: BTreeMap<AdjacencyKey, AdjacencyEntry>,
    /// The adjacencies by index. Unused entries keep their last value; no target refers to them.
    values: Vec<Adjacency>,
    pool: IndexPool,
    has_changed: bool,
    published: Arc<[Adjacency]>,
}

impl AdjacencyTable {
    /// Creates an empty table for at most `limit` adjacencies. `limit` is at most 2¹⁶.
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            entries: BTreeMap::new(),
            values: Vec::new(),
            pool: IndexPool::new(0, limit),
            has_changed: false,
            published: Arc::new([]),
        }
    }

    /// Returns the index of an adjacency and adds a use; `None` if there is no space. If the
    /// adjacency is new, `mac` becomes its MAC address.
    pub(crate) fn acquire(
        &mut self,
        key: AdjacencyKey,
        mac: Option<MacAddr>,
    ) -> Option<AdjacencyIndex> {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.uses += 1;
            return Some(entry.index);
        }
        let index = AdjacencyIndex(self.pool.take()?);
        let value = Adjacency { port: key.port, next_hop: key.next_hop, mac };
        match self.values.get_mut(usize::from(index.0)) {
            Some(place) => *place = value,
            None => self.values.push(value),
        }
        self.entries.insert(key, AdjacencyEntry { index, uses: 1 });
        self.has_changed = true;
        Some(index)
    }

    /// Removes a use. `generation` is the generation of the first snapshot without the adjacency.
    pub(crate) fn release(&mut self, key: AdjacencyKey, generation: u64) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.uses -= 1;
        if entry.uses == 0 {
            self.pool.give_back(entry.index.0, generation);
            self.entries.remove(&key);
        }
    }

    /// Sets the MAC address, if the adjacency is in use.
    pub(crate) fn set_mac(&mut self, key: AdjacencyKey, mac: Option<MacAddr>) {
        let Some(entry) = self.entries.get(&key) else { return };
        let value = &mut self.values[usize::from(entry.index.0)];
        if value.mac != mac {
            value.mac = mac;
            self.has_changed = true;
        }
    }

    pub(crate) fn settle(&mut self, oldest: u64) {
        self.pool.settle(oldest);
    }

    pub(crate) fn available(&self) -> usize {
        self.pool.available()
    }

    /// Returns the adjacencies in use, in the order of their keys, starting after `after`.
    pub(crate) fn after(
        &self,
        after: Option<AdjacencyKey>,
    ) -> impl Iterator<Item = (AdjacencyKey, Adjacency)> + '_ {
        use core::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        let entries = self.entries.range((from, Unbounded));
        entries.map(|(key, entry)| (*key, self.values[usize::from(entry.index.0)]))
    }

    pub(crate) fn get(&self, index: AdjacencyIndex) -> Option<Adjacency> {
        self.values.get(usize::from(index.0)).copied()
    }

    /// Returns whether the adjacencies have changed since the last call, and all adjacencies by
    /// index.
    pub(crate) fn publish(&mut self) -> (bool, Arc<[Adjacency]>) {
        let has_changed = core::mem::take(&mut self.has_changed);
        if has_changed {
            self.published = self.values.as_slice().into();
        }
        (has_changed, self.published.clone())
    }
}
