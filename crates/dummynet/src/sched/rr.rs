//! RR: deficit round robin (Shreedhar and Varghese, 1995), whose cost per packet is constant.
//!
//! At the start of its turn, a queue gets a quantum of `weight` × `lmax` bytes, in addition to its
//! remaining credit. Its turn ends when the credit is less than the length of the packet at its
//! head. A queue that becomes empty loses its credit.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::queue_share::{MAX_PACKET_LEN, QueueShare, grown};

#[derive(Clone, Debug, Default)]
pub(crate) struct Rr {
    queues: Vec<RrQueue>,
    ring: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RrQueue {
    quantum: u64,
    deficit: u64,
    head_len: u32,
    in_turn: bool,
}

impl Rr {
    pub(super) fn set(&mut self, index: u32, share: QueueShare) {
        grown(&mut self.queues, index).quantum = u64::from(share.weight) * u64::from(share.lmax);
    }

    pub(super) fn remove(&mut self, index: u32) {
        *grown(&mut self.queues, index) = RrQueue::default();
        self.ring.retain(|&other| other != index);
    }

    pub(super) fn arrive(&mut self, index: u32, len: u32) {
        let queue = &mut self.queues[index as usize];
        *queue =
            RrQueue { head_len: len.min(MAX_PACKET_LEN), deficit: 0, in_turn: false, ..*queue };
        self.ring.push_back(index);
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<u32> {
        loop {
            let &index = self.ring.front()?;
            let queue = &mut self.queues[index as usize];
            if !queue.in_turn {
                queue.in_turn = true;
                queue.deficit += queue.quantum;
            }
            if queue.deficit >= u64::from(queue.head_len) {
                return Some(index);
            }
            queue.in_turn = false;
            self.ring.rotate_left(1);
        }
    }

    #[inline]
    pub(super) fn sent(&mut self, index: u32, len: u32, next: Option<u32>) {
        let queue = &mut self.queues[index as usize];
        queue.deficit = queue.deficit.saturating_sub(u64::from(len));
        match next {
            Some(next) => queue.head_len = next.min(MAX_PACKET_LEN),
            None => _ = self.ring.pop_front(),
        }
    }
}
