//! WF2Q+: worst-case fair weighted fair queueing (Bennett and Zhang, 1997), whose cost per packet
//! is logarithmic in the number of queues.
//!
//! The packet at the head of each queue has a virtual start and a virtual finish. The finish is
//! start + length / weight. The scheduler considers the queues whose start is not after the virtual
//! time V. Of these, the queue with the smallest finish sends.
//!
//! ```text
//!   waiting, by start  --start <= V-->  ready, by finish  --> sends
//!          ^                                                   |
//!          +------------- next packet: start = finish ---------+
//! ```
//!
//! When a packet is sent, V advances by its length / (sum of the weights of all queues that have
//! packets). If no queue is ready, V jumps to the earliest start.
//!
//! # Invariants
//! 1. A queue with packets is in exactly one of the heaps.
//! 2. `ready` contains no start after `now`.

use alloc::vec::Vec;

use super::heap::IndexHeap;
use super::queue_share::{FRACTION_BITS, MAX_PACKET_LEN, QueueShare, grown};

#[derive(Clone, Debug, Default)]
pub(crate) struct Wf2q {
    queues: Vec<Wf2qQueue>,
    ready: IndexHeap,
    waiting: IndexHeap,
    /// The virtual time V.
    now: u64,
    /// The latest virtual finish of all packets that were sent.
    latest: u64,
    weights: u64,
    /// Amount by which V advances per byte sent, in units of 2^-20 of V's unit: 2^40 / `weights`.
    per_byte: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Wf2qQueue {
    /// The virtual time that a byte of the queue takes, in units of 2^-20 of V's unit: 2^40 /
    /// `weight`.
    per_byte: u64,
    start: u64,
    /// Virtual finish of the packet at the head. If the queue is empty, the virtual finish of its
    /// last packet.
    finish: u64,
    weight: u32,
    has_packets: bool,
}

const SCALE_BITS: u32 = 40;
/// When V exceeds this value, all virtual times are reduced by the same amount. The value is lower
/// in tests, so that they exceed it.
const REBASE_THRESHOLD: u64 = if cfg!(test) { 1 << 52 } else { 1 << 62 };

/// Returns the virtual time that `len` bytes take. `per_byte` must be 2^40 / weight.
#[inline]
fn span(len: u32, per_byte: u64) -> u64 {
    (u64::from(len.min(MAX_PACKET_LEN)) * per_byte) >> (SCALE_BITS - FRACTION_BITS)
}

impl Wf2q {
    pub(super) fn set(&mut self, index: u32, share: QueueShare) {
        let queue = grown(&mut self.queues, index);
        let (old, new) = (u64::from(queue.weight), u64::from(share.weight));
        queue.weight = share.weight;
        queue.per_byte = (1 << SCALE_BITS) / new;
        if queue.has_packets {
            // The packet at the head keeps its position. When it is sent, its finish, which is the
            // start of the next packet, is computed with the new weight.
            self.set_weights(self.weights + new - old);
        }
    }

    /// Removes a queue, whether or not it has packets.
    pub(super) fn remove(&mut self, index: u32) {
        let queue = grown(&mut self.queues, index);
        let weight = u64::from(queue.weight);
        if core::mem::take(queue).has_packets {
            self.set_weights(self.weights - weight);
            self.ready.remove(index);
            self.waiting.remove(index);
        }
    }

    pub(super) fn arrive(&mut self, index: u32, len: u32) {
        if self.weights == 0 {
            // All queues are empty, so no queue is ahead or behind. V jumps to the latest finish.
            self.now = self.latest;
            self.rebase();
        }
        let queue = &mut self.queues[index as usize];
        queue.start = queue.finish.max(self.now);
        queue.finish = queue.start + span(len, queue.per_byte);
        queue.has_packets = true;
        let Wf2qQueue { start, finish, weight, .. } = *queue;
        self.enqueue(index, start, finish);
        self.set_weights(self.weights + u64::from(weight));
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.ready.is_empty() {
            self.now = self.now.max(self.waiting.first()?.0);
        }
        while let Some((start, index)) = self.waiting.first()
            && start <= self.now
        {
            self.waiting.pop();
            self.ready.push(self.queues[index as usize].finish, index);
        }
        self.ready.first().map(|(_, index)| index)
    }

    #[inline]
    pub(super) fn sent(&mut self, index: u32, len: u32, next: Option<u32>) {
        // The sum is rounded up. Otherwise rounding could exclude a queue whose start V has just
        // reached.
        self.now += span(len, self.per_byte) + 1;
        let now = self.now;
        let queue = &mut self.queues[index as usize];
        // `len` is the length of the packet that was sent. If AQM dropped the packet that was at
        // the head, a later packet was sent, with another length.
        let finish = queue.start + span(len, queue.per_byte);
        self.latest = self.latest.max(finish);
        queue.finish = finish;
        let Some(next) = next else {
            queue.has_packets = false;
            let weight = u64::from(queue.weight);
            self.ready.pop();
            self.set_weights(self.weights - weight);
            return;
        };
        queue.start = finish;
        queue.finish = finish + span(next, queue.per_byte);
        if finish <= now {
            self.ready.rekey_first(queue.finish);
        } else {
            self.ready.pop();
            self.waiting.push(finish, index);
        }
        if now > REBASE_THRESHOLD {
            self.rebase();
        }
    }

    fn enqueue(&mut self, index: u32, start: u64, finish: u64) {
        if start <= self.now {
            self.ready.push(finish, index);
        } else {
            self.waiting.push(start, index);
        }
    }

    fn set_weights(&mut self, weights: u64) {
        self.weights = weights;
        self.per_byte = (1u64 << SCALE_BITS).checked_div(weights).unwrap_or(0);
    }

    /// Reduces all virtual times by the same amount, long before they could overflow.
    #[cold]
    fn rebase(&mut self) {
        if self.now < REBASE_THRESHOLD {
            return;
        }
        // The start of a packet in `ready` is before V, by at most the virtual time of the longest
        // packet. So the reduced times stay positive.
        let base = self.now - (REBASE_THRESHOLD >> 2);
        self.now -= base;
        self.latest = self.latest.saturating_sub(base);
        self.ready.rebase(base);
        self.waiting.rebase(base);
        for queue in &mut self.queues {
            queue.start = queue.start.saturating_sub(base);
            queue.finish = queue.finish.saturating_sub(base);
        }
    }
}
