//! Maps every 128-bit value to a number: a search tree over the ranges of values with one number.
//!
//! ```text
//!   starts:   0::/0 -> none   2001:db8:: -> 7   2001:db9:: -> none   …     upper halves, as u64
//!
//!   root --> | keys (16 x 64 bits, two cache lines) | below (16 x 32 bits, one line) |
//!                                                      |      |
//!            nodes of the next level  <----------------+      +--> …
//!              …
//!            leaf: below is the number from the key up to the next key, or the root of a tree over
//!                  the lower halves, where values with this upper half have different numbers
//! ```
//!
//! This is a B+-tree with one kind of node. In each node, a search finds the last key that is not
//! above the value, by vector instructions if the CPU has them, and follows its entry. In the tree
//! over the upper halves, all searches of a batch take one step before any of them takes the next,
//! and each prefetches the three cache lines of its next node, except below the root. So memory
//! accesses overlap, and in this tree no branch depends on the values. A changed prefix replaces
//! the starts in it: along two paths from the root, nodes are rewritten, split if full, and freed
//! if empty.
//!
//! A prefix of at most 64 bits takes 30 bytes, or 15 bytes if the next prefix begins where it ends.
//! The same is true for longer prefixes with the same upper half, which share one tree. A longer
//! prefix that is alone in its /64 takes 220 bytes: for tables with many of these, a [`Trie`] is
//! smaller.
//!
//! A copy of the tree costs as much as a copy of its memory. So a writer can change a copy, and
//! give it to the readers in place of the old one.
//!
//! # The walk
//! Other programs, such as a BPF program, can search the nodes that [`IntervalTree::nodes`]
//! returns:
//! 1. An entry is a 32-bit word. If its top bit is set, the other bits are the index of a node;
//!    otherwise it is a number. Begin with the entry [`IntervalTree::root`], which refers to a
//!    node.
//! 2. A step, from an entry that refers to a node, with a 64-bit key: count the node's 16 keys that
//!    are not above the key, as unsigned numbers. The count is at least 1. Continue with the entry
//!    at index count minus one.
//! 3. Take exactly [`IntervalTree::levels`] steps with the upper half of the value, as a number.
//! 4. Then take steps with the lower half until the entry is a number: no step in most cases. This
//!    is the number of the value.
//! 5. In memory, a node is [`NODE_BYTES`] bytes: the keys, 8 bytes each, then the entries, 4 bytes
//!    each, both in the byte order of the machine.
//! 6. A new tree of 16 million starts has 7 levels; changes add few. So a program that must bound
//!    its loop can give up after [`MAX_STEPS`] steps, those of both halves together.
//!
//! # Invariants
//! 1. The keys of a node ascend. In unused places, the last entry repeats with the key 2^64 - 1.
//! 2. The first key of a node is the key of the entry that refers to it; the root's first key is 0.
//!    So a search in a node always finds a key that is at most the value.
//! 3. An entry refers to a node if and only if its top bit is set. All entries of leaves of the
//!    upper halves are `levels` steps from the root; in trees of lower halves, a search ends at an
//!    entry without this bit.
//! 4. A node is free, or exactly one entry refers to it.
//! 5. If an entry of a leaf refers to a node, it is for a single upper half.
//!
//! [`Trie`]: crate::trie::Trie

mod changes;
mod node;

use alloc::vec::Vec;

use slipring_simd::{Simd, prefetch_address};

pub use node::{FANOUT, NODE_BYTES, NODE_FLAG, TreeNode};

/// The greatest number of steps in a walk, from the root to a number.
pub const MAX_STEPS: u32 = 16;
/// Maximum number of keys in a new node if the entries do not fit in one node. It leaves space for
/// the two keys that the change of one prefix adds.
const FILL: usize = 14;
/// The number of values that are looked up together.
const LOOKUP_BATCH: usize = 64;
/// Number of steps, from the root on, in which searches do not prefetch the next node. There are
/// few nodes at these levels, and they stay in the L1 cache.
const CACHED_LEVELS: u32 = 1;
/// A tree should be rebuilt when it has more nodes in use than twice the number that it was built
/// with, plus this number.
const MIN_NODES: usize = 64;

/// A map from every 128-bit value to a number below 2³¹.
#[derive(Clone, Debug)]
pub struct IntervalTree {
    nodes: Vec<TreeNode>,
    free: Vec<u32>,
    /// The entry of the root.
    root: u32,
    /// Number of levels of the tree over the upper halves; at least one.
    levels: u32,
    /// The number of nodes when the tree was built.
    built: usize,
    simd: Simd,
}

impl IntervalTree {
    /// Builds the tree from ranges of values. Each element of `starts` is the first value of a
    /// range and the number of all values in it. The ranges ascend, and the first begins at 0.
    /// Lookups use the vector instructions of `simd`.
    ///
    /// # Panics
    /// If `starts` is not of this form, or a number is not below 2³¹.
    #[must_use]
    pub fn build<K: Copy + Into<u128>>(starts: &[(K, u32)], simd: Simd) -> Self {
        changes::check(starts, 0, u128::MAX);
        let mut tree =
            Self { nodes: Vec::new(), free: Vec::new(), root: 0, levels: 1, built: 0, simd };
        let entries = tree.upper_entries(starts);
        (tree.root, tree.levels) = tree.rooted(&entries);
        tree.built = tree.nodes.len();
        tree
    }

    /// Returns whether the tree should be rebuilt, because it has many more nodes in use than when
    /// it was built.
    #[must_use]
    pub const fn needs_rebuild(&self) -> bool {
        self.nodes.len() - self.free.len() > 2 * self.built + MIN_NODES
    }

    /// All nodes, for a search by another program; this includes unused nodes.
    #[must_use]
    pub fn nodes(&self) -> &[TreeNode] {
        &self.nodes
    }

    /// The entry that refers to the root.
    #[must_use]
    pub const fn root(&self) -> u32 {
        self.root
    }

    /// The number of steps from the root to the entry of an upper half.
    #[must_use]
    pub const fn levels(&self) -> u32 {
        self.levels
    }

    #[inline(always)]
    fn node(&self, entry: u32) -> &TreeNode {
        &self.nodes[(entry & !NODE_FLAG) as usize]
    }

    /// Takes one step of a search: returns the entry for `key` in the node to which `entry` refers.
    #[inline(always)]
    fn step(&self, entry: u32, key: u64) -> u32 {
        let node = self.node(entry);
        node.below(self.simd.rank(node.keys(), key))
    }

    /// Returns the number of a value.
    #[inline]
    #[must_use]
    pub fn get(&self, value: u128) -> u32 {
        let (key, mut entry) = (upper(value), self.root);
        for _ in 0..self.levels {
            entry = self.step(entry, key);
        }
        self.lower(value, entry)
    }

    /// Returns the number of a value. `entry` is the leaf entry of the value's upper half.
    #[inline(always)]
    fn lower(&self, value: u128, mut entry: u32) -> u32 {
        while entry & NODE_FLAG != 0 {
            entry = self.step(entry, value as u64);
        }
        entry
    }

    /// Writes the numbers of many values. Cheaper than single lookups, because their memory
    /// accesses overlap. The shorter slice limits the number of lookups.
    pub fn get_all<K: Copy + Into<u128>>(&self, values: &[K], numbers: &mut [u32]) {
        for (values, numbers) in values.chunks(LOOKUP_BATCH).zip(numbers.chunks_mut(LOOKUP_BATCH)) {
            let mut keys = [0; LOOKUP_BATCH];
            let searches = keys.iter_mut().zip(&mut *numbers).zip(values);
            searches.for_each(|((key, entry), &value)| (*key, *entry) = (upper(value), self.root));
            let count = values.len().min(numbers.len());
            self.descend(&keys[..count], &mut numbers[..count]);
            for (&value, number) in values.iter().zip(numbers) {
                *number = self.lower(value.into(), *number);
            }
        }
    }

    /// Advances many searches from the root to entries of leaves.
    fn descend(&self, keys: &[u64], entries: &mut [u32]) {
        // The slice is in a local variable. Otherwise, its pointer and length would be loaded from
        // `self` again after each store to `entries`.
        let nodes = self.nodes.as_slice();
        let node = move |entry: u32| &nodes[(entry & !NODE_FLAG) as usize];
        for level in 1..=self.levels {
            if level > CACHED_LEVELS && level < self.levels {
                self.simd.descend(keys, entries, node, TreeNode::keys, move |node, rank| {
                    let entry = node.below(rank);
                    prefetch_node(nodes, entry);
                    entry
                });
            } else {
                self.simd.descend(keys, entries, node, TreeNode::keys, TreeNode::below);
            }
        }
    }

    /// The memory that the tree takes, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.nodes.len() * size_of::<TreeNode>() + self.free.len() * 4
    }
}

/// Prefetches the node to which an entry refers.
#[inline(always)]
fn prefetch_node(nodes: &[TreeNode], entry: u32) {
    let node = nodes.as_ptr().wrapping_add((entry & !NODE_FLAG) as usize).cast::<u8>();
    for line in 0..NODE_BYTES / 64 {
        prefetch_address(node.wrapping_add(line * 64));
    }
}

/// The upper half of a value.
#[inline(always)]
fn upper<K: Into<u128>>(value: K) -> u64 {
    (value.into() >> 64) as u64
}

#[cfg(test)]
mod tests;
