//! Maps every 128-bit value to a number: a search tree over the values at which the number changes.
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
//! A B+-tree of one kind of node: a search takes the last key that is not above the value, by
//! vector instructions, and goes below it. All searches of a batch take one step before any takes
//! the next, and each prefetches the three lines of its next node; so memory accesses overlap,
//! and no branch depends on the values. A changed prefix replaces the starts in it: along two paths
//! from the root, nodes are rewritten, split if full, and freed if empty.
//!
//! A prefix of at most 64 bits takes 30 bytes, or 15 if the next begins where it ends. One that is
//! longer and alone in its /64 takes 220: for tables with many of these, a [`Trie`] is smaller.
//!
//! # Invariants
//! 1. The keys of a node ascend. In unused places, the last number repeats with the greatest key.
//! 2. A node's first key is the key above it, and the root's is 0: some key is not above the value.
//! 3. An entry refers to a node exactly if its top bit is set. All leaves of the upper halves are
//!    `levels` steps below the root; trees of lower halves end where it is not set.
//! 4. Each node is below one entry, or free.
//!
//! [`Trie`]: crate::trie::Trie

use alloc::vec::Vec;

use slipring_simd::{Simd, prefetch_address};

/// Maximum number of keys in a node; they fill two cache lines.
const FANOUT: usize = 16;
/// Number of keys in a new node, which leaves space for the two keys that the change of one prefix
/// adds.
const FILL: usize = 14;
/// Set in entries that are not numbers.
const NODE_FLAG: u32 = 1 << 31;
/// The number of values that are looked up together.
const LOOKUP_BATCH: usize = 64;
/// A tree with at most this many nodes more than prefixes is not built again.
const MIN_NODES: usize = 64;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct TreeNode {
    keys: [u64; FANOUT],
    below: [u32; FANOUT],
}

impl TreeNode {
    /// Makes a node of at least one and at most [`FANOUT`] entries.
    fn of(entries: &[(u64, u32)]) -> Self {
        let last = entries[entries.len() - 1].1;
        let mut node = Self { keys: [u64::MAX; FANOUT], below: [last; FANOUT] };
        for (at, &(key, below)) in entries.iter().enumerate() {
            (node.keys[at], node.below[at]) = (key, below);
        }
        node
    }

    /// Returns the entries, without entries that repeat the number before them.
    fn entries(&self) -> Vec<(u64, u32)> {
        let mut all: Vec<_> = self.keys.into_iter().zip(self.below).collect();
        all.dedup_by_key(|entry| entry.1);
        all
    }

    /// The entry below the last of `rank` keys that are not above a value: at least one.
    #[inline(always)]
    const fn below(&self, rank: usize) -> u32 {
        self.below[rank.wrapping_sub(1) % FANOUT]
    }
}

/// A map from every 128-bit value to a number below 2³¹.
#[derive(Clone, Debug)]
pub struct IntervalTree {
    nodes: Vec<TreeNode>,
    free: Vec<u32>,
    /// The entry of the root.
    root: u32,
    /// The levels of the tree over the upper halves: at least one.
    levels: u32,
    simd: Simd,
}

impl IntervalTree {
    /// Builds the tree from the values at which the number changes, ascending, the first at 0;
    /// lookups use the instructions of `simd`. Returns `None` if many of these values need trees of
    /// lower halves.
    pub(crate) fn build<K: Copy + Into<u128>>(starts: &[(K, u32)], simd: Simd) -> Option<Self> {
        let is_deep = |start: &&(K, u32)| start.0.into() as u64 != 0;
        let deep = starts.iter().filter(is_deep).count();
        (deep <= starts.len() / 4).then(|| Self::of(starts, simd))
    }

    fn of<K: Copy + Into<u128>>(starts: &[(K, u32)], simd: Simd) -> Self {
        let mut tree = Self { nodes: Vec::new(), free: Vec::new(), root: 0, levels: 1, simd };
        let entries = tree.upper_entries(starts);
        (tree.root, tree.levels) = tree.rooted(&entries);
        tree
    }

    /// Replaces the numbers of the values from `first` to `last`. Starts are as in [`Self::build`],
    /// but the first is `first`. Both bounds are those of a prefix of at most 64 bits.
    pub(crate) fn replace<K: Copy + Into<u128>>(&mut self, last: K, starts: &[(K, u32)]) {
        let (first, last) = (upper(starts[0].0), upper(last));
        let mut entries = self.upper_entries(starts);
        entries.pop_if(|entry| entry.0 > last);
        if let Some(next) = last.checked_add(1) {
            let (start, number) = self.interval(next);
            // The values after `last` keep their number.
            entries.extend((start != next).then_some((next, number)));
        }
        let root = self.spliced(self.root, self.levels, (first, last), &entries);
        let (root, added) = self.rooted_above(root);
        (self.root, self.levels) = (root, self.levels + added);
    }

    /// Whether the tree should be built again for this many prefixes: a new one has at most two
    /// nodes for three.
    pub(crate) const fn needs_rebuild(&self, prefixes: usize) -> bool {
        self.nodes.len() - self.free.len() > prefixes + MIN_NODES
    }

    /// The start of the interval of upper halves around `value`, and its entry.
    fn interval(&self, value: u64) -> (u64, u32) {
        let mut node = self.node(self.root);
        for _ in 1..self.levels {
            node = self.node(node.below(self.simd.rank(&node.keys, value)));
        }
        let all = node.entries();
        all[all.partition_point(|entry| entry.0 <= value) - 1]
    }

    /// Makes the entries for the upper halves of `starts`, and the trees of lower halves to which
    /// they refer.
    fn upper_entries<K: Copy + Into<u128>>(&mut self, starts: &[(K, u32)]) -> Vec<(u64, u32)> {
        let mut entries: Vec<(u64, u32)> = Vec::with_capacity(starts.len());
        let mut number = starts[0].1;
        for group in starts.chunk_by(|a, b| upper(a.0) == upper(b.0)) {
            let key = upper(group[0].0);
            let before = core::mem::replace(&mut number, group[group.len() - 1].1);
            // Removes the entry that ends the previous tree of lower halves if this group has the
            // same key.
            entries.pop_if(|entry| entry.0 == key);
            if let [(start, number)] = *group
                && start.into() as u64 == 0
            {
                entries.push((key, number));
            } else {
                entries.push((key, self.lower_tree(group, before)));
                entries.extend(key.checked_add(1).map(|next| (next, number)));
            }
        }
        entries
    }

    /// Makes a tree of lower halves from the starts with the same upper half; `before` is the
    /// number up to the first of them. Returns the entry of its root.
    fn lower_tree<K: Copy + Into<u128>>(&mut self, starts: &[(K, u32)], before: u32) -> u32 {
        let mut entries: Vec<_> =
            starts.iter().map(|&(start, number)| (start.into() as u64, number)).collect();
        if entries[0].0 != 0 {
            entries.insert(0, (0, before));
        }
        self.rooted(&entries).0
    }

    /// Makes a tree of entries; returns the entry of its root and its levels.
    fn rooted(&mut self, entries: &[(u64, u32)]) -> (u32, u32) {
        let leaves = self.packed(entries);
        let (root, added) = self.rooted_above(leaves);
        (root, added + 1)
    }

    /// Adds levels above the given nodes until one node is at the top; returns its entry and the
    /// number of levels added.
    fn rooted_above(&mut self, mut nodes: Vec<(u64, u32)>) -> (u32, u32) {
        let mut added = 0;
        while nodes.len() > 1 {
            nodes = self.packed(&nodes);
            added += 1;
        }
        (nodes[0].1, added)
    }

    /// Packs entries into nodes; returns the entries that refer to these nodes.
    fn packed(&mut self, entries: &[(u64, u32)]) -> Vec<(u64, u32)> {
        let nodes = if entries.len() <= FANOUT { 1 } else { entries.len().div_ceil(FILL) };
        let each = entries.len().div_ceil(nodes).max(1);
        entries.chunks(each).map(|part| (part[0].0, self.add(TreeNode::of(part)))).collect()
    }

    fn add(&mut self, node: TreeNode) -> u32 {
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return NODE_FLAG | at;
        }
        self.nodes.push(node);
        NODE_FLAG | (self.nodes.len() - 1) as u32
    }

    /// Frees the node to which an entry refers and all nodes below it; does nothing if the entry is
    /// a number.
    fn release(&mut self, entry: u32) {
        if entry & NODE_FLAG != 0 {
            self.free.push(entry & !NODE_FLAG);
            let below = self.node(entry).entries();
            below.iter().for_each(|&(_, entry)| self.release(entry));
        }
    }

    /// Replaces the entries whose keys are in `range` (both ends included), below the node at
    /// `entry`, by `new`. Returns the entries of the nodes that replace this node; none if it
    /// became empty.
    fn spliced(
        &mut self,
        entry: u32,
        levels: u32,
        range: (u64, u64),
        new: &[(u64, u32)],
    ) -> Vec<(u64, u32)> {
        let mut all = self.node(entry).entries();
        let end = all.partition_point(|entry| entry.0 <= range.1);
        if levels == 1 {
            let from = all.partition_point(|entry| entry.0 < range.0);
            let old: Vec<_> = all.splice(from..end, new.iter().copied()).collect();
            old.iter().for_each(|&(_, entry)| self.release(entry));
            all.dedup_by_key(|entry| entry.1);
        } else {
            // Values of the range may be in the child whose key is before the range.
            let from = all.partition_point(|entry| entry.0 <= range.0).saturating_sub(1);
            let mut below = Vec::new();
            for (at, child) in all[from..end].iter().enumerate() {
                let new = if at == 0 { new } else { &[] };
                below.extend(self.spliced(child.1, levels - 1, range, new));
            }
            all.splice(from..end, below);
        }
        self.free.push(entry & !NODE_FLAG);
        self.packed(&all)
    }

    #[inline(always)]
    fn node(&self, entry: u32) -> &TreeNode {
        &self.nodes[(entry & !NODE_FLAG) as usize]
    }

    /// Returns the number of a value.
    #[inline]
    #[must_use]
    pub fn get(&self, value: u128) -> u32 {
        let (key, mut entry) = (upper(value), self.root);
        for _ in 0..self.levels {
            let node = self.node(entry);
            entry = node.below(self.simd.rank(&node.keys, key));
        }
        self.lower(value, entry)
    }

    /// Follows an entry of the upper halves to a number.
    #[inline(always)]
    fn lower(&self, value: u128, mut entry: u32) -> u32 {
        while entry & NODE_FLAG != 0 {
            let node = self.node(entry);
            entry = node.below(self.simd.rank(&node.keys, value as u64));
        }
        entry
    }

    /// Writes the numbers of many values. Cheaper than single lookups, because their memory
    /// accesses overlap. The shorter slice limits the number of lookups.
    pub fn get_many<K: Copy + Into<u128>>(&self, values: &[K], numbers: &mut [u32]) {
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
        let node = |entry| &self.node(entry).keys;
        let below = |entry, rank| self.node(entry).below(rank);
        let inner = |entry, rank| {
            let entry = below(entry, rank);
            self.prefetch(entry);
            entry
        };
        for _ in 1..self.levels {
            self.simd.descend(keys, entries, node, inner);
        }
        self.simd.descend(keys, entries, node, below);
    }

    #[inline(always)]
    fn prefetch(&self, entry: u32) {
        let node = self.nodes.as_ptr().wrapping_add((entry & !NODE_FLAG) as usize).cast::<u8>();
        for line in 0..size_of::<TreeNode>() / 64 {
            prefetch_address(node.wrapping_add(line * 64));
        }
    }

    /// The memory that the tree takes, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.nodes.len() * size_of::<TreeNode>() + self.free.len() * 4
    }
}

/// The upper half of a value.
#[inline(always)]
fn upper<K: Into<u128>>(value: K) -> u64 {
    (value.into() >> 64) as u64
}

#[cfg(test)]
mod tests;
