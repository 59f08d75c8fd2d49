//! The storage of waiting packets. All packets are in one array of slots, and the slots of a queue
//! are linked to a chain.
//!
//! # Invariants
//! 1. Each slot is in exactly one chain or in the free list.
//! 2. A chain's `packets` and `bytes` are the totals of the packets in it.
//!
//! The most recently freed slots are reused first, so that the memory in use stays small and in the
//! CPU cache.

use alloc::vec::Vec;

use slipring_model::aqm::{AqmQueueView, Ecn};

/// Marks the end of a chain or of the free list.
const NO_SLOT: u32 = u32::MAX;

/// A waiting packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PooledPacket<H> {
    pub(crate) handle: H,
    pub(crate) rule: u32,
    pub(crate) len: u32,
    pub(crate) ecn: Ecn,
    pub(crate) arrival_ns: u64,
}

#[derive(Clone, Debug)]
struct PoolSlot<H> {
    /// The packet; stale while the slot is in the free list.
    packet: PooledPacket<H>,
    next: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct PacketPool<H> {
    slots: Vec<PoolSlot<H>>,
    free: u32,
}

/// A FIFO queue, which is a chain of slots.
#[derive(Clone, Debug)]
pub(crate) struct PacketChain {
    head: u32,
    tail: u32,
    packets: u32,
    bytes: u64,
}

impl Default for PacketChain {
    fn default() -> Self {
        Self { head: NO_SLOT, tail: NO_SLOT, packets: 0, bytes: 0 }
    }
}

impl PacketChain {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    #[inline]
    pub(crate) const fn packets(&self) -> u32 {
        self.packets
    }

    #[inline]
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(crate) fn view(&self) -> AqmQueueView {
        AqmQueueView { bytes: self.bytes, packets: u64::from(self.packets), delay_ns: 0 }
    }
}

impl<H: Copy> PacketPool<H> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: NO_SLOT }
    }

    #[inline]
    pub(crate) fn push(&mut self, chain: &mut PacketChain, held: PooledPacket<H>) {
        chain.packets += 1;
        chain.bytes += u64::from(held.len);
        let at = self.put(held);
        match chain.tail {
            NO_SLOT => chain.head = at,
            tail => self.slots[tail as usize].next = at,
        }
        chain.tail = at;
    }

    #[inline]
    pub(crate) fn pop(&mut self, chain: &mut PacketChain) -> Option<PooledPacket<H>> {
        let slot = self.slots.get_mut(chain.head as usize)?;
        let held = slot.packet;
        let next = core::mem::replace(&mut slot.next, self.free);
        self.free = core::mem::replace(&mut chain.head, next);
        if next == NO_SLOT {
            chain.tail = NO_SLOT;
        }
        chain.packets -= 1;
        chain.bytes -= u64::from(held.len);
        Some(held)
    }

    /// Returns the length of the packet at the head, in bytes; `None` if the chain is empty.
    #[inline]
    pub(crate) fn first_len(&self, chain: &PacketChain) -> Option<u32> {
        self.slots.get(chain.head as usize).map(|slot| slot.packet.len)
    }

    #[inline]
    fn put(&mut self, held: PooledPacket<H>) -> u32 {
        let slot = PoolSlot { packet: held, next: NO_SLOT };
        if self.free == NO_SLOT {
            let at = u32::try_from(self.slots.len()).ok().filter(|&at| at != NO_SLOT);
            self.slots.push(slot);
            return at.expect("memory ends long before 2^32 packets");
        }
        let at = self.free;
        let freed = core::mem::replace(&mut self.slots[at as usize], slot);
        self.free = freed.next;
        at
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn chains_through_one_slab_behave_as_queues_of_their_own(
            steps in prop::collection::vec((any::<bool>(), 0usize..3, 1u32..2000), 0..300)
        ) {
            let mut pool = PacketPool::new();
            let mut chains: Vec<PacketChain> = (0..3).map(|_| PacketChain::default()).collect();
            let mut naive: Vec<VecDeque<(usize, u32)>> = (0..3).map(|_| VecDeque::new()).collect();
            for (handle, (push, which, len)) in steps.into_iter().enumerate() {
                let chain = &mut chains[which];
                if push {
                    let held = PooledPacket { handle, rule: 0, len, ecn: Ecn::NotEct, arrival_ns: 0 };
                    pool.push(chain, held);
                    naive[which].push_back((handle, len));
                } else {
                    let popped = pool.pop(chain).map(|held| (held.handle, held.len));
                    prop_assert_eq!(popped, naive[which].pop_front());
                }
                prop_assert_eq!(pool.first_len(chain), naive[which].front().map(|p| p.1));
                prop_assert_eq!(chain.packets() as usize, naive[which].len());
                let bytes: u64 = naive[which].iter().map(|p| u64::from(p.1)).sum();
                prop_assert_eq!(chain.bytes(), bytes);
            }
        }
    }
}
