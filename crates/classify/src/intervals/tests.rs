use proptest::prelude::*;

use alloc::vec;

use super::*;
use crate::trie::TrieKey;

const NONE: u32 = 0;

/// The first `len` bits of a value, with the rest zero.
fn prefix(value: u128, len: u32) -> u128 {
    value & !0_u128.last_of(len)
}

/// Prefixes in a list, searched one by one.
#[derive(Clone, Default)]
struct ListModel(Vec<(u128, u32, u32)>);

impl ListModel {
    /// Maps a prefix to a number; `NONE` removes the prefix.
    fn set(&mut self, key: u128, len: u32, number: u32) {
        let key = prefix(key, len);
        self.0.retain(|one| (one.0, one.1) != (key, len));
        if number != NONE {
            self.0.push((key, len, number));
        }
    }

    fn number(&self, value: u128) -> u32 {
        let around = self.0.iter().filter(|one| prefix(value, one.1) == one.0);
        around.max_by_key(|one| one.1).map_or(NONE, |one| one.2)
    }

    /// The values at which the number may change, within a prefix.
    fn starts(&self, first: u128, len: u32) -> Vec<(u128, u32)> {
        let last = first.last_of(len);
        let ends = self.0.iter().filter_map(|one| one.0.last_of(one.1).after());
        let mut starts: Vec<_> = self.0.iter().map(|one| one.0).chain(ends).collect();
        starts.retain(|start| (first..=last).contains(start));
        starts.push(first);
        starts.sort_unstable();
        starts.dedup();
        starts.into_iter().map(|start| (start, self.number(start))).collect()
    }

    /// Values in and around each prefix.
    fn probes(&self) -> Vec<u128> {
        let bounds = self.0.iter().flat_map(|one| [one.0, one.0.last_of(one.1)]);
        bounds.flat_map(|one| [one.wrapping_sub(1), one, one.wrapping_add(1)]).collect()
    }

    fn tree(&self, simd: Simd) -> IntervalTree {
        IntervalTree::of(&self.starts(0, 0), simd)
    }
}

impl IntervalTree {
    fn set(&mut self, model: &ListModel, key: u128, len: u32) {
        let first = prefix(key, len.min(64));
        self.replace(first.last_of(len.min(64)), &model.starts(first, len.min(64)));
    }

    /// Counts the nodes from an entry downwards, and checks their keys and that all leaves are on
    /// the same level.
    fn counted(&self, entry: u32, levels: u32) -> usize {
        if entry & NODE_FLAG == 0 {
            assert_eq!(levels, 0, "a number above the leaves");
            return 0;
        }
        assert!(self.node(entry).keys.is_sorted());
        let below = self.node(entry).entries();
        1 + below.iter().map(|one| self.counted(one.1, levels.saturating_sub(1))).sum::<usize>()
    }
}

fn agree(tree: &IntervalTree, model: &ListModel, probes: &[u128]) {
    let mut many = vec![7; probes.len()];
    tree.get_many(probes, &mut many);
    for (&probe, many) in probes.iter().zip(many) {
        assert_eq!(tree.get(probe), model.number(probe), "{probe:#x}");
        assert_eq!(many, tree.get(probe), "{probe:#x}");
    }
    assert_eq!(tree.counted(tree.root, tree.levels) + tree.free.len(), tree.nodes.len());
}

/// Generates prefixes that nest, adjoin and repeat, at both ends of the value range and around bit
/// 64.
fn prefixes(numbers: core::ops::Range<u32>) -> impl Strategy<Value = (u128, u32, u32)> {
    let stem = prop::sample::select(vec![0, u128::MAX, 0x2001_0db8 << 96, 0xffff << 48]);
    let shift = prop::sample::select(vec![0, 56, 62, 66, 92, 120]);
    let len = prop_oneof![0..=128_u32, prop::sample::select(vec![0, 32, 48, 63, 64, 65, 127, 128])];
    (stem, 0..256_u128, shift, len, numbers)
        .prop_map(|(stem, bits, shift, len, number)| (stem ^ bits << shift, len, number))
}

proptest! {
    #[test]
    fn a_tree_finds_what_a_search_through_the_list_finds(
        all in prop::collection::vec(prefixes(1..9), 0..120),
    ) {
        let mut model = ListModel::default();
        all.iter().for_each(|&(key, len, number)| model.set(key, len, number));
        for simd in [Simd::detect(), Simd::scalar()] {
            agree(&model.tree(simd), &model, &model.probes());
        }
    }

    #[test]
    fn a_changed_tree_finds_what_a_new_one_finds(
        before in prop::collection::vec(prefixes(1..4), 0..60),
        changes in prop::collection::vec(prefixes(0..4), 1..60),
    ) {
        let mut model = ListModel::default();
        before.iter().for_each(|&(key, len, number)| model.set(key, len, number));
        let mut trees = [Simd::detect(), Simd::scalar()].map(|simd| model.tree(simd));
        let mut probes = model.probes();
        for (at, &(key, len, number)) in changes.iter().enumerate() {
            // Half of the changes are undone later.
            let (key, len) = if at % 2 == 0 { (key, len) } else { (changes[at / 2].0, changes[at / 2].1) };
            model.set(key, len, number);
            probes.extend([key, prefix(key, len).last_of(len)]);
            trees.iter_mut().for_each(|tree| tree.set(&model, key, len));
        }
        probes.extend(model.probes());
        trees.iter().for_each(|tree| agree(tree, &model, &probes));
    }

    #[test]
    fn many_starts_fill_many_levels(seed in any::<u64>(), count in 0..3000_usize) {
        let number = |at: usize| seed.wrapping_add(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut keys: Vec<u64> = (0..count).map(number).chain([0]).collect();
        keys.sort_unstable();
        let starts: Vec<_> = (1..).zip(&keys).map(|(at, &key)| (u128::from(key) << 64, at)).collect();
        let tree = IntervalTree::build(&starts, Simd::detect()).unwrap();
        for (start, number) in starts {
            prop_assert_eq!(tree.get(start), number);
            prop_assert_eq!(tree.get(start | u128::from(u64::MAX)), number);
            prop_assert_eq!(tree.get(start.saturating_sub(1)), (number - 1).max(1));
        }
    }
}

/// Returns one of a thousand /48 prefixes. Successive values of `at` give prefixes far apart.
fn drawn(at: u32) -> (u128, u32) {
    (0x2001_0db8 << 96 | u128::from(at * 389 % 1000) << 80, 48)
}

#[test]
fn a_tree_that_grows_and_shrinks_by_single_changes_stays_right() {
    let mut model = ListModel::default();
    let mut tree = model.tree(Simd::detect());
    for at in 0..1000 {
        let (key, len) = drawn(at);
        model.set(key, len, at + 1);
        tree.set(&model, key, len);
    }
    agree(&tree, &model, &model.probes());
    assert!(tree.levels > 2 && !tree.needs_rebuild(1000));
    let probes = model.probes();
    for at in 0..1000 {
        let (key, len) = drawn(at);
        model.set(key, len, NONE);
        tree.set(&model, key, len);
    }
    agree(&tree, &model, &probes);
    // A change of a prefix that contains all remaining prefixes removes them from the tree.
    tree.set(&model, 0x2001 << 112, 16);
    assert!(tree.nodes.len() - tree.free.len() < 10);
    agree(&tree, &model, &probes);
}

#[test]
fn a_change_rewrites_the_nodes_of_two_paths_only() {
    let starts: Vec<_> = (0..100_000_u32).map(|at| (u128::from(at) << 90, at % 7)).collect();
    let mut tree = IntervalTree::of(&starts, Simd::detect());
    let before = tree.nodes.len();
    // The first key of the root's second child begins a node on each level.
    let key = u128::from(tree.node(tree.root).keys[1]) << 64;
    tree.replace((key - (1 << 90)).last_of(48), &[(key - (1 << 90), 8)]);
    tree.replace(key.last_of(48), &[(key, 9)]);
    assert!(tree.nodes.len() <= before + 2 * tree.levels as usize);
    assert_eq!((tree.get(key - (1 << 90)), tree.get(key)), (8, 9));
    assert_eq!(tree.counted(tree.root, tree.levels) + tree.free.len(), tree.nodes.len());
}

#[test]
fn many_prefixes_beyond_the_upper_half_are_left_to_another_structure() {
    let hosts: Vec<_> = (0..100_u32).map(|at| (u128::from(at) << 64 | u128::from(at), 1)).collect();
    assert!(IntervalTree::build(&hosts, Simd::detect()).is_none());
    let nets: Vec<_> = (0..100_u32).map(|at| (u128::from(at) << 64, 1)).collect();
    assert!(IntervalTree::build(&nets, Simd::detect()).is_some());
}
