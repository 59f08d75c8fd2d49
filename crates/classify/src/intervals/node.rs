//! The node of a tree.

use alloc::vec::Vec;

/// The number of keys in a node; they fill two cache lines.
pub const FANOUT: usize = 16;
/// Set in entries that refer to nodes; the other bits are the node's index.
pub const NODE_FLAG: u32 = 1 << 31;
/// The size of a node in memory, in bytes.
pub const NODE_BYTES: usize = size_of::<TreeNode>();

/// Keys, and the entries below them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct TreeNode {
    keys: [u64; FANOUT],
    below: [u32; FANOUT],
}

impl TreeNode {
    /// Makes a node of at least one and at most [`FANOUT`] entries.
    pub(super) fn of(entries: &[(u64, u32)]) -> Self {
        let last = entries[entries.len() - 1].1;
        let mut node = Self { keys: [u64::MAX; FANOUT], below: [last; FANOUT] };
        for (at, &(key, below)) in entries.iter().enumerate() {
            (node.keys[at], node.below[at]) = (key, below);
        }
        node
    }

    /// The keys, ascending; the last keys may be unused.
    #[inline(always)]
    #[must_use]
    pub const fn keys(&self) -> &[u64; FANOUT] {
        &self.keys
    }

    /// The entries: each is for the values from its key up to the next key.
    #[must_use]
    pub const fn entries(&self) -> &[u32; FANOUT] {
        &self.below
    }

    /// The keys and entries as in memory: 16 x 8 bytes, then 16 x 4 bytes, in the byte order of the
    /// machine.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; NODE_BYTES] {
        let mut bytes = [0; NODE_BYTES];
        let (keys, entries) = bytes.split_at_mut(size_of_val(&self.keys));
        for (bytes, key) in keys.as_chunks_mut().0.iter_mut().zip(self.keys) {
            *bytes = key.to_ne_bytes();
        }
        for (bytes, entry) in entries.as_chunks_mut().0.iter_mut().zip(self.below) {
            *bytes = entry.to_ne_bytes();
        }
        bytes
    }

    /// Returns the keys with their entries, without keys whose entry equals that of the previous
    /// key.
    pub(super) fn pairs(&self) -> Vec<(u64, u32)> {
        let mut all: Vec<_> = self.keys.into_iter().zip(self.below).collect();
        all.dedup_by_key(|pair| pair.1);
        all
    }

    /// Returns the entry for a value. `rank`, at least 1, is the number of keys that are not above
    /// the value.
    #[inline(always)]
    pub(super) const fn below(&self, rank: usize) -> u32 {
        self.below[rank.wrapping_sub(1) % FANOUT]
    }

    /// Replaces all occurrences of entry `old` by `new`.
    pub(super) fn substitute(&mut self, old: u32, new: u32) {
        self.below.iter_mut().filter(|below| **below == old).for_each(|below| *below = new);
    }
}
