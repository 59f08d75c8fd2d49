//! Finds the longest of many queues: a tournament over their lengths.
//!
//! ```text
//!                 [2]            each node names the winner of its two children
//!             [1]     [2]
//!           0    1  2    3       queues
//! ```
//!
//! A change is played upwards until it no longer matters, so both operations take at most as many
//! steps as the number of queues has bits. A scan would let a flood of many small flows stall a
//! link.

use alloc::vec;
use alloc::vec::Vec;

/// Length of a queue: bytes, then packets, which decide between queues of empty packets.
pub(super) type Length = (u64, u32);

/// The tournament.
#[derive(Clone, Debug)]
pub(super) struct Fattest {
    /// By queue; a power of two of them. Those that do not exist are empty.
    lengths: Vec<Length>,
    /// Winner of each inner node; the root is 1, the children of n are 2 n and 2 n + 1, and the
    /// nodes from `lengths.len()` on are the queues themselves.
    winners: Vec<u32>,
}

impl Fattest {
    /// Plays all matches.
    pub(super) fn new(lengths: impl ExactSizeIterator<Item = Length>) -> Self {
        let size = lengths.len().next_power_of_two().max(2);
        let mut tree = Self { lengths: vec![(0, 0); size], winners: vec![0; size] };
        tree.lengths.iter_mut().zip(lengths).for_each(|(slot, length)| *slot = length);
        for node in (1..size).rev() {
            tree.winners[node] = tree.play(node);
        }
        tree
    }

    /// The queue with the greatest length.
    pub(super) fn first(&self) -> u32 {
        self.winners[1]
    }

    /// Tells the new length of a queue; `index` may be new.
    pub(super) fn set(&mut self, index: u32, length: Length) {
        if index as usize >= self.lengths.len() {
            let mut lengths = core::mem::take(&mut self.lengths);
            lengths.resize(index as usize + 1, (0, 0));
            *self = Self::new(lengths.into_iter());
        }
        self.lengths[index as usize] = length;
        let mut node = (self.lengths.len() + index as usize) / 2;
        while node > 0 {
            let winner = self.play(node);
            let before = core::mem::replace(&mut self.winners[node], winner);
            // Someone else won before and now: nothing above has changed.
            if winner == before && winner != index {
                return;
            }
            node /= 2;
        }
    }

    /// The winner of the match at an inner node.
    fn play(&self, node: usize) -> u32 {
        let (left, right) = (self.entrant(2 * node), self.entrant(2 * node + 1));
        let is_right = self.lengths[right as usize] > self.lengths[left as usize];
        if is_right { right } else { left }
    }

    fn entrant(&self, node: usize) -> u32 {
        match node.checked_sub(self.lengths.len()) {
            Some(queue) => queue as u32,
            None => self.winners[node],
        }
    }
}

#[cfg(test)]
mod tests;
