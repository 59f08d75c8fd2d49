//! How a tree is built and changed.

use super::*;

/// Checks that ranges ascend from `first`, at most to `last`, and that the numbers do not have the
/// bit that marks references to nodes.
pub(super) fn check<K: Copy + Into<u128>>(starts: &[(K, u32)], first: u128, last: u128) {
    assert!(starts.first().is_some_and(|start| start.0.into() == first), "starts begin elsewhere");
    assert!(starts.last().is_some_and(|start| start.0.into() <= last), "starts after the end");
    assert!(starts.is_sorted_by(|a, b| a.0.into() < b.0.into()), "starts ascend");
    assert!(starts.iter().all(|start| start.1 < NODE_FLAG), "a number of more than 31 bits");
}

impl IntervalTree {
    /// Sets the numbers of the values from `start` to `end`, both included, which are the first and
    /// the last value of a prefix. Each element of `ranges` has the first value of a range, and the
    /// number of all values up to the next range or up to `end`. The first range begins at `start`,
    /// and the ranges ascend.
    ///
    /// The cost is proportional to the number of ranges before and after the change, and to the
    /// depth of the tree.
    ///
    /// # Panics
    /// If `ranges` is not of this form, or a number is not below 2³¹.
    pub fn replace<K: Copy + Into<u128>>(&mut self, start: K, end: K, ranges: &[(K, u32)]) {
        let (first, last) = (start.into(), end.into());
        check(ranges, first, last);
        if upper(first) == upper(last) && last - first != u128::from(u64::MAX) {
            self.replace_lower(upper(first), (first as u64, last as u64), lower_entries(ranges));
        } else {
            assert!((first as u64, last as u64) == (0, u64::MAX), "bounds of a prefix");
            let entries = self.upper_entries(ranges);
            self.replace_upper((upper(first), upper(last)), entries);
        }
    }

    /// Replaces the entries of the upper halves in `range` (both ends included). The last new entry
    /// may be for the values after the range.
    fn replace_upper(&mut self, range: (u64, u64), mut entries: Vec<(u64, u32)>) {
        entries.pop_if(|entry| entry.0 > range.1);
        self.keep_after((self.root, self.levels), range.1, &mut entries);
        let nodes = self.spliced(self.root, self.levels, range, &entries);
        let (root, added) = self.rooted_above(nodes);
        (self.root, self.levels) = (root, self.levels + added);
    }

    /// Replaces the entries of the lower halves in `range` (both ends included), for the values
    /// with the upper half `key`.
    fn replace_lower(&mut self, key: u64, range: (u64, u64), mut entries: Vec<(u64, u32)>) {
        let leaf = self.leaf((self.root, self.levels), key);
        let before = self.step(leaf, key);
        if before & NODE_FLAG == 0 {
            // Until now, all values with this upper half had the number `before`.
            if range.0 > 0 {
                entries.insert(0, (0, before));
            }
            entries.extend(range.1.checked_add(1).map(|next| (next, before)));
            let after = self.lower_root(entries);
            return self.replace_upper((key, key), alloc::vec![(key, after)]);
        }
        let levels = self.levels_below(before);
        self.keep_after((before, levels), range.1, &mut entries);
        let nodes = self.spliced(before, levels, range, &entries);
        let root = self.rooted_above(nodes).0;
        let after = self.simplified(root);
        self.nodes[(leaf & !NODE_FLAG) as usize].substitute(before, after);
    }

    /// Returns the entry for the tree with this root: the reference to the root, or only a number
    /// if all values in the tree have the same one. In this case, the root is freed.
    fn simplified(&mut self, root: u32) -> u32 {
        match *self.node(root).pairs() {
            [(_, number)] if number & NODE_FLAG == 0 => {
                self.release(root);
                number
            }
            _ => root,
        }
    }

    /// Makes the values after `last` keep their number: unless an entry of the tree begins right
    /// after `last`, adds one there to `entries`.
    fn keep_after(&self, tree: (u32, u32), last: u64, entries: &mut Vec<(u64, u32)>) {
        if let Some(next) = last.checked_add(1) {
            let all = self.node(self.leaf(tree, next)).pairs();
            let (start, entry) = all[all.partition_point(|pair| pair.0 <= next) - 1];
            entries.extend((start != next).then_some((next, entry)));
        }
    }

    /// Returns the entry that refers to the leaf for `key`. The tree is given by the entry that
    /// refers to its root, and its number of levels.
    fn leaf(&self, (root, levels): (u32, u32), key: u64) -> u32 {
        (1..levels).fold(root, |entry, _| self.step(entry, key))
    }

    /// The number of levels of the tree of lower halves to which `entry` refers; 0 if `entry` is a
    /// number.
    fn levels_below(&self, entry: u32) -> u32 {
        if entry & NODE_FLAG == 0 { 0 } else { 1 + self.levels_below(self.step(entry, 0)) }
    }

    /// Makes the entries for the upper halves of `starts`, and the trees of lower halves to which
    /// they refer.
    pub(super) fn upper_entries<K>(&mut self, starts: &[(K, u32)]) -> Vec<(u64, u32)>
    where
        K: Copy + Into<u128>,
    {
        let mut entries: Vec<(u64, u32)> = Vec::with_capacity(starts.len());
        let mut number = starts[0].1;
        for group in starts.chunk_by(|a, b| upper(a.0) == upper(b.0)) {
            let key = upper(group[0].0);
            let before = core::mem::replace(&mut number, group[group.len() - 1].1);
            // The last entry may be the one after the tree of lower halves of the previous group.
            // If it has the key of this group, the entry of this group replaces it.
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

    /// Makes a tree of lower halves from the starts, which all have the same upper half. Lower
    /// halves before the first start get the number `before`. Returns the same as
    /// [`Self::lower_root`].
    fn lower_tree<K: Copy + Into<u128>>(&mut self, starts: &[(K, u32)], before: u32) -> u32 {
        let mut entries = lower_entries(starts);
        if entries[0].0 != 0 {
            entries.insert(0, (0, before));
        }
        self.lower_root(entries)
    }

    /// Makes a tree of lower halves; returns the entry of its root, or the number, if all entries
    /// have the same one.
    fn lower_root(&mut self, mut entries: Vec<(u64, u32)>) -> u32 {
        entries.dedup_by_key(|entry| entry.1);
        if let [(_, number)] = *entries { number } else { self.rooted(&entries).0 }
    }

    /// Makes a tree of entries; returns the entry of its root and its levels.
    pub(super) fn rooted(&mut self, entries: &[(u64, u32)]) -> (u32, u32) {
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
            let below = self.node(entry).pairs();
            below.iter().for_each(|&(_, entry)| self.release(entry));
        }
    }

    /// Below the node to which `entry` refers, replaces the entries whose keys are in `range` (both
    /// ends included) by `new`. Returns entries that refer to the new nodes, which replace that
    /// node; returns none if no entries are left.
    fn spliced(
        &mut self,
        entry: u32,
        levels: u32,
        range: (u64, u64),
        new: &[(u64, u32)],
    ) -> Vec<(u64, u32)> {
        let mut all = self.node(entry).pairs();
        let end = all.partition_point(|entry| entry.0 <= range.1);
        if levels == 1 {
            let from = all.partition_point(|entry| entry.0 < range.0);
            let old: Vec<_> = all.splice(from..end, new.iter().copied()).collect();
            old.iter().for_each(|&(_, entry)| self.release(entry));
            all.dedup_by_key(|entry| entry.1);
        } else {
            // The last child whose key is not above the start of the range may also contain values
            // of the range.
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
}

/// The lower halves of starts.
fn lower_entries<K: Copy + Into<u128>>(starts: &[(K, u32)]) -> Vec<(u64, u32)> {
    starts.iter().map(|&(start, number)| (start.into() as u64, number)).collect()
}
