//! Manages indices that readers of older snapshots may still use after they are freed.

use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use crate::tables::ForwardingTables;

/// Gives out indices below a limit. A freed index is given out again only when no reader can still
/// use it.
#[derive(Debug)]
pub(crate) struct IndexPool {
    /// This index and all greater ones were never given out.
    next: u32,
    limit: u32,
    free: Vec<u16>,
    /// Freed indices, each with the generation of the first snapshot that does not refer to it.
    pending: VecDeque<(u64, u16)>,
}

impl IndexPool {
    /// Creates a pool of the indices `first..limit`. `limit` is at most 2¹⁶.
    pub(crate) const fn new(first: u32, limit: u32) -> Self {
        Self { next: first, limit, free: Vec::new(), pending: VecDeque::new() }
    }

    pub(crate) fn take(&mut self) -> Option<u16> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let index = self.next;
        (index < self.limit).then(|| {
            self.next += 1;
            index as u16
        })
    }

    /// Frees an index. Snapshots from `generation` on do not refer to it.
    pub(crate) fn give_back(&mut self, index: u16, generation: u64) {
        self.pending.push_back((generation, index));
    }

    /// Makes freed indices available again if no snapshot from `oldest` on refers to them.
    pub(crate) fn settle(&mut self, oldest: u64) {
        while let Some(&(generation, index)) = self.pending.front() {
            if generation > oldest {
                break;
            }
            self.pending.pop_front();
            self.free.push(index);
        }
    }

    /// Returns how many indices can be given out now.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + (self.limit - self.next) as usize
    }
}

/// The snapshots that readers may hold.
#[derive(Debug, Default)]
pub(crate) struct PublishedSnapshots {
    alive: VecDeque<(u64, Weak<ForwardingTables>)>,
    /// The oldest generation that readers without an `Arc` may use, if there are such readers.
    external: Option<u64>,
}

impl PublishedSnapshots {
    pub(crate) fn new(has_external_readers: bool) -> Self {
        Self { alive: VecDeque::new(), external: has_external_readers.then_some(0) }
    }

    pub(crate) fn add(&mut self, snapshot: &Arc<ForwardingTables>) {
        self.alive.push_back((snapshot.generation, Arc::downgrade(snapshot)));
    }

    /// Records that readers without an `Arc` now use this generation or a later one.
    pub(crate) fn quiesced(&mut self, generation: u64) {
        if let Some(external) = &mut self.external {
            *external = generation.max(*external);
        }
    }

    /// The oldest generation that a reader may use; `newest` is the last one published.
    pub(crate) fn oldest(&mut self, newest: u64) -> u64 {
        while self.alive.front().is_some_and(|(_, snapshot)| snapshot.strong_count() == 0) {
            self.alive.pop_front();
        }
        let held = self.alive.front().map_or(newest, |(generation, _)| *generation);
        self.external.map_or(held, |external| held.min(external))
    }
}
