//! Where queues that own their packets keep them: one slab, any number of chains through it.
//!
//! # Invariants
//! 1. Each slot is in exactly one chain or in the free list.
//! 2. A chain's `packets` and `bytes` are those of the entries in it.

use alloc::vec::Vec;

use super::fattest::Length;
use super::{Entry, QueueView};

/// End of a chain, and of the free list.
const NONE: u32 = u32::MAX;

/// The slab. Slots freed last are used first, so the memory in use stays small and warm.
#[derive(Clone, Debug)]
pub(super) struct Store<H> {
    slots: Vec<Slot<H>>,
    free: u32,
}

#[derive(Clone, Debug)]
struct Slot<H> {
    /// `None` in the free list.
    queued: Option<Queued<H>>,
    next: u32,
}

/// A packet in a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued<H> {
    pub(super) entry: Entry<H>,
    /// Marked when it was admitted.
    pub(super) mark: bool,
}

/// A queue through the slab, first in first out.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    head: u32,
    tail: u32,
    packets: u32,
    bytes: u64,
}

impl Default for Chain {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, packets: 0, bytes: 0 }
    }
}

impl Chain {
    pub(super) const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) const fn packets(&self) -> u32 {
        self.packets
    }

    pub(super) fn length(&self) -> Length {
        Length::new(self.bytes, self.packets)
    }

    pub(super) fn view(&self) -> QueueView {
        QueueView { bytes: self.bytes, packets: u64::from(self.packets), delay_ns: 0 }
    }
}

impl<H> Store<H> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: NONE }
    }

    pub(super) fn push(&mut self, chain: &mut Chain, queued: Queued<H>) {
        chain.packets += 1;
        chain.bytes += u64::from(queued.entry.len);
        let at = self.put(queued);
        match chain.tail {
            NONE => chain.head = at,
            tail => self.slots[tail as usize].next = at,
        }
        chain.tail = at;
    }

    pub(super) fn pop(&mut self, chain: &mut Chain) -> Option<Queued<H>> {
        let slot = self.slots.get_mut(chain.head as usize)?;
        let queued = slot.queued.take()?;
        let next = core::mem::replace(&mut slot.next, self.free);
        self.free = core::mem::replace(&mut chain.head, next);
        if next == NONE {
            chain.tail = NONE;
        }
        chain.packets -= 1;
        chain.bytes -= u64::from(queued.entry.len);
        Some(queued)
    }

    /// The packet at the head of `chain`.
    pub(super) fn first(&self, chain: &Chain) -> Option<&Entry<H>> {
        let slot = self.slots.get(chain.head as usize)?;
        slot.queued.as_ref().map(|queued| &queued.entry)
    }

    fn put(&mut self, queued: Queued<H>) -> u32 {
        let slot = Slot { queued: Some(queued), next: NONE };
        if self.free == NONE {
            let at = u32::try_from(self.slots.len()).ok().filter(|&at| at != NONE);
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
