//! Storage for queues that own their packets: one slab of slots, linked into any number of chains.
//!
//! # Invariants
//! 1. Each slot is in exactly one chain or in the free list.
//! 2. A chain's `packets` and `bytes` are the totals of its entries.

use alloc::vec::Vec;

use super::longest::QueueLength;
use super::packet::{AqmQueueView, QueuedPacket};

/// Marks the end of a chain or of the free list.
const NO_SLOT: u32 = u32::MAX;

/// The slab. Of the free slots, it reuses the most recently freed one, so the memory in use stays
/// small and cached.
#[derive(Clone, Debug)]
pub(super) struct PacketSlab<H> {
    slots: Vec<SlabSlot<H>>,
    free: u32,
}

#[derive(Clone, Debug)]
struct SlabSlot<H> {
    /// The packet in the slot; `None` while the slot is in the free list.
    queued: Option<SlabPacket<H>>,
    next: u32,
}

/// A packet in a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlabPacket<H> {
    pub(super) entry: QueuedPacket<H>,
    /// Whether the algorithm marked the packet when it was admitted.
    pub(super) mark: bool,
}

/// A FIFO queue: a chain through the slab.
#[derive(Clone, Debug)]
pub(super) struct SlabQueue {
    head: u32,
    tail: u32,
    packets: u32,
    bytes: u64,
}

impl Default for SlabQueue {
    fn default() -> Self {
        Self { head: NO_SLOT, tail: NO_SLOT, packets: 0, bytes: 0 }
    }
}

impl SlabQueue {
    pub(super) const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) const fn packets(&self) -> u32 {
        self.packets
    }

    pub(super) fn length(&self) -> QueueLength {
        QueueLength::new(self.bytes, self.packets)
    }

    pub(super) fn view(&self) -> AqmQueueView {
        AqmQueueView { bytes: self.bytes, packets: u64::from(self.packets), delay_ns: 0 }
    }
}

impl<H> PacketSlab<H> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: NO_SLOT }
    }

    pub(super) fn push(&mut self, chain: &mut SlabQueue, queued: SlabPacket<H>) {
        chain.packets += 1;
        chain.bytes += u64::from(queued.entry.len);
        let at = self.put(queued);
        match chain.tail {
            NO_SLOT => chain.head = at,
            tail => self.slots[tail as usize].next = at,
        }
        chain.tail = at;
    }

    pub(super) fn pop(&mut self, chain: &mut SlabQueue) -> Option<SlabPacket<H>> {
        let slot = self.slots.get_mut(chain.head as usize)?;
        let queued = slot.queued.take()?;
        let next = core::mem::replace(&mut slot.next, self.free);
        self.free = core::mem::replace(&mut chain.head, next);
        if next == NO_SLOT {
            chain.tail = NO_SLOT;
        }
        chain.packets -= 1;
        chain.bytes -= u64::from(queued.entry.len);
        Some(queued)
    }

    /// Returns the packet at the head of `chain`; `None` if the chain is empty.
    pub(super) fn first(&self, chain: &SlabQueue) -> Option<&QueuedPacket<H>> {
        let slot = self.slots.get(chain.head as usize)?;
        slot.queued.as_ref().map(|queued| &queued.entry)
    }

    fn put(&mut self, queued: SlabPacket<H>) -> u32 {
        let slot = SlabSlot { queued: Some(queued), next: NO_SLOT };
        if self.free == NO_SLOT {
            let at = u32::try_from(self.slots.len()).ok().filter(|&at| at != NO_SLOT);
            let at = at.expect("memory ends long before 2^32 packets");
            self.slots.push(slot);
            return at;
        }
        let at = self.free;
        let freed = core::mem::replace(&mut self.slots[at as usize], slot);
        self.free = freed.next;
        at
    }
}

#[cfg(test)]
mod tests;
