//! The frames that wait for neighbours.

use alloc::collections::VecDeque;
use core::net::IpAddr;

use slipring_wire::MacAddr;

use super::{HoldDropCause, NeighbourCache, NeighbourEvent};

/// The frames that wait for one neighbour, with their lengths.
#[derive(Debug)]
pub(super) struct HoldQueue<F> {
    frames: VecDeque<(F, u32)>,
    bytes: u64,
}

/// The number of all waiting frames, and the sum of their lengths in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HoldUsage {
    pub(super) frames: usize,
    pub(super) bytes: u64,
}

impl<F> HoldQueue<F> {
    pub(super) const fn new() -> Self {
        Self { frames: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &F> {
        self.frames.iter().map(|(frame, _)| frame)
    }

    fn push(&mut self, frame: F, len: u32, usage: &mut HoldUsage) {
        self.frames.push_back((frame, len));
        self.bytes += u64::from(len);
        usage.frames += 1;
        usage.bytes += u64::from(len);
    }

    fn pop(&mut self, usage: &mut HoldUsage) -> Option<F> {
        let (frame, len) = self.frames.pop_front()?;
        self.bytes -= u64::from(len);
        usage.frames -= 1;
        usage.bytes -= u64::from(len);
        Some(frame)
    }
}

impl<F> NeighbourCache<F> {
    /// Appends a frame to the queue of an incomplete neighbour. If the queue is full, its oldest
    /// frame is dropped. If all queues together are full, the other neighbour that has been
    /// solicited for the longest time is removed, together with its frames; if there is no other,
    /// the oldest frame of this queue is dropped.
    pub(super) fn enqueue(&mut self, next_hop: IpAddr, frame: F, len: u32) {
        while self.is_queue_full(next_hop, len) {
            self.displace(next_hop);
        }
        while self.is_hold_full(len) {
            if !self.evict_oldest_incomplete(Some(next_hop)) && !self.displace(next_hop) {
                break;
            }
        }
        let Some(entry) = self.entries.get_mut(&next_hop) else { return };
        entry.queue.push(frame, len, &mut self.usage);
    }

    /// Returns whether the neighbour's queue has no space for a frame of `len` bytes.
    fn is_queue_full(&self, next_hop: IpAddr, len: u32) -> bool {
        let Some(queue) = self.entries.get(&next_hop).map(|entry| &entry.queue) else {
            return false;
        };
        let is_full = queue.len() >= self.limits.frames_per_neighbour.max(1)
            || queue.bytes + u64::from(len) > self.limits.bytes_per_neighbour;
        is_full && queue.len() > 0
    }

    /// Returns whether all queues together have no space for a frame of `len` bytes.
    fn is_hold_full(&self, len: u32) -> bool {
        self.usage.frames >= self.limits.frames.max(1)
            || self.usage.bytes + u64::from(len) > self.limits.bytes
    }

    /// Drops the oldest frame that waits for a neighbour. Returns `false` if no frame waits for it.
    fn displace(&mut self, next_hop: IpAddr) -> bool {
        let entry = self.entries.get_mut(&next_hop);
        let Some(frame) = entry.and_then(|entry| entry.queue.pop(&mut self.usage)) else {
            return false;
        };
        self.count_dropped(next_hop, frame, HoldDropCause::Displaced);
        true
    }

    /// Drops all frames that wait for a neighbour.
    pub(super) fn drop_held(&mut self, next_hop: IpAddr, cause: HoldDropCause) {
        while let Some(entry) = self.entries.get_mut(&next_hop)
            && let Some(frame) = entry.queue.pop(&mut self.usage)
        {
            self.count_dropped(next_hop, frame, cause);
        }
    }

    /// Releases all frames that wait for a neighbour. `mac` is the neighbour's MAC address.
    pub(super) fn release_held(&mut self, next_hop: IpAddr, mac: MacAddr) {
        while let Some(entry) = self.entries.get_mut(&next_hop)
            && let Some(frame) = entry.queue.pop(&mut self.usage)
        {
            self.release(next_hop, mac, frame);
        }
        if let Some(entry) = self.entries.get_mut(&next_hop) {
            // A neighbour whose address is known needs no queue. Replacing the queue frees its
            // memory.
            entry.queue = HoldQueue::new();
        }
    }

    pub(super) fn release(&mut self, next_hop: IpAddr, mac: MacAddr, frame: F) {
        self.counters.released += 1;
        self.events.push_back(NeighbourEvent::Released { next_hop, mac, frame });
    }

    fn count_dropped(&mut self, next_hop: IpAddr, frame: F, cause: HoldDropCause) {
        self.counters.dropped[cause as usize] += 1;
        self.events.push_back(NeighbourEvent::Dropped { next_hop, frame, cause });
    }
}
