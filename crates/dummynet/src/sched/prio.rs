//! PRIO: strict priority. Queues with equal priority take turns, packet by packet.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::queue_share::{QueueShare, grown};

#[derive(Clone, Debug)]
pub(crate) struct Prio {
    /// The priority of each queue, by the index of the queue.
    priorities: Vec<u32>,
    levels: [VecDeque<u32>; LEVELS],
    /// Bit n is set if a queue with priority n has packets.
    busy: u64,
}

const LEVELS: usize = 64;

impl Default for Prio {
    fn default() -> Self {
        Self { priorities: Vec::new(), levels: [const { VecDeque::new() }; LEVELS], busy: 0 }
    }
}

impl Prio {
    pub(super) fn set(&mut self, index: u32, share: QueueShare) {
        let old = core::mem::replace(grown(&mut self.priorities, index), share.priority);
        if old != share.priority && self.take_out(index, old) {
            self.put_in(index);
        }
    }

    pub(super) fn remove(&mut self, index: u32) {
        let priority = *grown(&mut self.priorities, index);
        self.take_out(index, priority);
    }

    pub(super) fn arrive(&mut self, index: u32, _len: u32) {
        self.put_in(index);
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<u32> {
        let level = self.levels.get(self.busy.trailing_zeros() as usize)?;
        level.front().copied()
    }

    #[inline]
    pub(super) fn sent(&mut self, index: u32, _len: u32, next: Option<u32>) {
        let priority = self.priorities[index as usize];
        let level = &mut self.levels[priority as usize];
        if next.is_some() {
            level.rotate_left(1);
        } else {
            level.pop_front();
            self.busy &= !(u64::from(level.is_empty()) << priority);
        }
    }

    fn put_in(&mut self, index: u32) {
        let priority = self.priorities[index as usize];
        self.levels[priority as usize].push_back(index);
        self.busy |= 1 << priority;
    }

    /// Removes a queue from the list of its priority. Returns whether it was in the list.
    fn take_out(&mut self, index: u32, priority: u32) -> bool {
        let level = &mut self.levels[priority as usize];
        let before = level.len();
        level.retain(|&other| other != index);
        self.busy &= !(u64::from(level.is_empty()) << priority);
        level.len() < before
    }
}
