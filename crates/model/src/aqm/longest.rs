//! Finds the longest of many queues: a tournament tree over their lengths.
//!
//! ```text
//!                  7             each node is the greater of its two children
//!              3       7
//!            3   0   7   2       lengths of the queues
//! ```
//!
//! A change propagates up the tree until it changes no further node, so the number of steps is at
//! most the binary logarithm of the number of queues, rounded up. With a linear scan, a flood of
//! many small flows could stall a link.

use alloc::vec;
use alloc::vec::Vec;

/// Length of a queue: its bytes, with its packets as the tie-breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueLength(u64);

impl QueueLength {
    pub(super) fn new(bytes: u64, packets: u32) -> Self {
        const PACKET_BITS: u32 = 20;
        const MAX_PACKETS: u32 = (1 << PACKET_BITS) - 1;
        // A length above 16 TiB counts as 16 TiB.
        let bytes = bytes.min(u64::MAX >> PACKET_BITS);
        Self(bytes << PACKET_BITS | u64::from(packets.min(MAX_PACKETS)))
    }
}

/// The tournament tree.
#[derive(Clone, Debug)]
pub(super) struct LongestQueue {
    /// The root is node 1; the children of node n are 2 n and 2 n + 1. The second half holds the
    /// lengths of the queues, padded to a power of two with empty queues.
    tree: Vec<QueueLength>,
}

impl LongestQueue {
    /// Builds the tree; entry `n` of `lengths` is the length of queue `n`.
    pub(super) fn new(lengths: impl ExactSizeIterator<Item = QueueLength>) -> Self {
        let size = lengths.len().next_power_of_two();
        let mut tree = vec![QueueLength::default(); 2 * size];
        tree[size..].iter_mut().zip(lengths).for_each(|(slot, length)| *slot = length);
        for node in (1..size).rev() {
            tree[node] = tree[2 * node].max(tree[2 * node + 1]);
        }
        Self { tree }
    }

    /// The index of the queue with the greatest length.
    pub(super) fn first(&self) -> u32 {
        let size = self.tree.len() / 2;
        let mut node = 1;
        while node < size {
            let is_right = self.tree[2 * node] != self.tree[node];
            node = 2 * node + usize::from(is_right);
        }
        (node - size) as u32
    }

    /// Sets the length of queue `index`, which may be a new queue.
    pub(super) fn set(&mut self, index: u32, length: QueueLength) {
        let size = self.tree.len() / 2;
        if index as usize >= size {
            let mut lengths = self.tree.split_off(size);
            lengths.resize(index as usize + 1, QueueLength::default());
            *self = Self::new(lengths.into_iter());
        }
        let mut node = self.tree.len() / 2 + index as usize;
        self.tree[node] = length;
        while node > 1 {
            node /= 2;
            let winner = self.tree[2 * node].max(self.tree[2 * node + 1]);
            if self.tree[node] == winner {
                return;
            }
            self.tree[node] = winner;
        }
    }
}

#[cfg(test)]
mod tests;
