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

    /// Returns the values within a prefix at which the number may change.
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
        IntervalTree::build(&self.starts(0, 0), simd)
    }
}

impl IntervalTree {
    fn set(&mut self, model: &ListModel, key: u128, len: u32) {
        let first = prefix(key, len);
        self.replace(first, first.last_of(len), &model.starts(first, len));
    }

    /// Counts the nodes from an entry downwards, and checks their keys and that all leaves of a
    /// tree are at the same level. The leaves of the upper halves are `levels` below the entry.
    fn counted(&self, entry: u32, levels: u32) -> usize {
        if entry & NODE_FLAG == 0 {
            assert_eq!(levels, 0, "a number above the leaves");
            return 0;
        }
        // A node below the leaves is the root of a tree over lower halves.
        let levels = if levels == 0 { self.height(entry) } else { levels };
        assert!(self.node(entry).keys().is_sorted());
        let below = self.node(entry).pairs();
        assert!(below.is_sorted_by(|a, b| a.0 < b.0), "a key twice");
        1 + below.iter().map(|one| self.counted(one.1, levels - 1)).sum::<usize>()
    }

    /// Returns the levels of a tree over lower halves.
    fn height(&self, entry: u32) -> u32 {
        if entry & NODE_FLAG == 0 { 0 } else { 1 + self.height(self.node(entry).pairs()[0].1) }
    }
}

fn agree(tree: &IntervalTree, model: &ListModel, probes: &[u128]) {
    let mut many = vec![7; probes.len()];
    tree.get_all(probes, &mut many);
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
            // Every second change is to the prefix of an earlier change.
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
        let tree = IntervalTree::build(&starts, Simd::detect());
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
    assert!(tree.levels > 2);
    let probes = model.probes();
    for at in 0..1000 {
        let (key, len) = drawn(at);
        model.set(key, len, NONE);
        tree.set(&model, key, len);
    }
    agree(&tree, &model, &probes);
    // A change of a prefix that contains all removed prefixes frees their nodes.
    tree.set(&model, 0x2001 << 112, 16);
    assert!(tree.nodes.len() - tree.free.len() < 10);
    agree(&tree, &model, &probes);
}

#[test]
fn a_change_rewrites_the_nodes_of_two_paths_only() {
    let starts: Vec<_> = (0..100_000_u32).map(|at| (u128::from(at) << 90, at % 7)).collect();
    let mut tree = IntervalTree::build(&starts, Simd::detect());
    let before = tree.nodes.len();
    // The first key of the root's second child begins a node on each level.
    let key = u128::from(tree.node(tree.root).keys()[1]) << 64;
    let before_key = key - (1 << 90);
    tree.replace(before_key, before_key.last_of(48), &[(before_key, 8)]);
    tree.replace(key, key.last_of(48), &[(key, 9)]);
    assert!(tree.nodes.len() <= before + 2 * tree.levels as usize);
    assert_eq!((tree.get(before_key), tree.get(key)), (8, 9));
    assert_eq!(tree.counted(tree.root, tree.levels) + tree.free.len(), tree.nodes.len());
}

/// An address of a network with many hosts.
fn host(at: u32) -> u128 {
    0x2001_0db8_0000_0007 << 64 | u128::from(at * 2)
}

/// Changes the number of one host.
fn set_host(tree: &mut IntervalTree, at: u32, number: u32) {
    tree.replace(host(at), host(at), &[(host(at), number)]);
}

#[test]
fn the_hosts_of_a_network_share_one_tree() {
    const HOSTS: u32 = 30_000;
    let all: Vec<_> = (0..HOSTS).flat_map(|at| [(host(at), 9), (host(at) + 1, 4)]).collect();
    let starts = [&[(0, 4)], &all[..]].concat();
    let tree = IntervalTree::build(&starts, Simd::detect());
    // Each host needs two starts of 12 bytes. The nodes are 14/16 full, and there are further
    // levels above.
    assert!(tree.size_bytes() / (HOSTS as usize) < 32, "{}", tree.size_bytes());
    // Adds the hosts one by one, not in the order of their addresses.
    let mut grown = IntervalTree::build(&[(0_u128, 4)], Simd::detect());
    for at in 0..HOSTS {
        set_host(&mut grown, at * 7919 % HOSTS, 9);
    }
    assert!(grown.size_bytes() / (HOSTS as usize) < 64, "{}", grown.size_bytes());
    for tree in [&tree, &grown] {
        for at in [0, 1, 14_999, HOSTS - 1] {
            assert_eq!([host(at), host(at) + 1].map(|value| tree.get(value)), [9, 4], "{at}");
        }
        assert_eq!(tree.get(host(0) - 1), 4);
        assert_eq!(tree.counted(tree.root, tree.levels) + tree.free.len(), tree.nodes.len());
    }
    assert_eq!((tree.levels(), grown.levels()), (1, 1), "one upper half");
}

#[test]
fn a_network_without_hosts_has_one_number_again() {
    let mut tree = IntervalTree::build(&[(0_u128, 4)], Simd::detect());
    for at in [0, 2, 1] {
        set_host(&mut tree, at, 9);
    }
    assert_eq!(tree.nodes.len() - tree.free.len(), 2, "the root and the tree of the hosts");
    set_host(&mut tree, 1, 5);
    assert_eq!([0, 1, 2, 3].map(|at| tree.get(host(at))), [9, 5, 9, 4]);
    for at in 0..3 {
        set_host(&mut tree, at, 4);
    }
    assert_eq!(tree.nodes.len() - tree.free.len(), 1);
    assert_eq!([0, 1, 2, 3].map(|at| tree.get(host(at))), [4; 4]);
    // A network whose addresses all have one number needs no tree.
    set_host(&mut tree, 1, 4);
    assert_eq!(tree.nodes.len() - tree.free.len(), 1);
    // The last network of the address space, and the last half of that network.
    let half = u128::MAX << 63;
    tree.replace(half, u128::MAX, &[(half, 6), (u128::MAX, 7)]);
    let found = [half - 1, half, u128::MAX - 1, u128::MAX].map(|value| tree.get(value));
    assert_eq!(found, [4, 6, 6, 7]);
}

#[test]
fn a_network_that_loses_most_hosts_keeps_its_depth_and_the_others() {
    let mut tree = IntervalTree::build(&[(0_u128, 4)], Simd::detect());
    let half = host(0) | 1 << 63;
    for at in 0..300 {
        let host = half + at * 2;
        tree.replace(host, host, &[(host, at as u32 + 5)]);
    }
    // One change of all hosts leaves a single leaf below the root of the network.
    tree.replace(half, half.last_of(65), &[(half, 4), (half + 7, 9), (half + 8, 4)]);
    let found = [half - 1, half, half + 6, half + 7, half + 8, half.last_of(65)];
    assert_eq!(found.map(|value| tree.get(value)), [4, 4, 4, 9, 4, 4]);
    assert_eq!(tree.counted(tree.root, tree.levels), 4, "the root, and a path of three");
    assert_eq!(tree.free.len() + 4, tree.nodes.len());
    tree.replace(half + 8, half + 8, &[(half + 8, 5)]);
    assert_eq!(found.map(|value| tree.get(value)), [4, 4, 4, 9, 5, 4]);
}

#[test]
fn hosts_that_are_alone_in_their_networks_take_a_node_each() {
    let alone: Vec<_> = (0..1000_u128).map(|at| (at << 64 | at, at as u32)).collect();
    let tree = IntervalTree::build(&alone, Simd::detect());
    assert!(tree.size_bytes() < 1000 * 260, "{}", tree.size_bytes());
    for (value, number) in alone {
        assert_eq!(tree.get(value), number);
        assert_eq!(tree.get(value | u128::from(u64::MAX)), number);
        assert_eq!(tree.get(value.saturating_sub(1)), number.saturating_sub(1));
    }
}

/// Searches as another program would, with only the bytes of the nodes.
fn walked(tree: &IntervalTree, value: u128) -> u32 {
    let memory: Vec<u8> = tree.nodes().iter().flat_map(|node| node.to_bytes()).collect();
    let node = |entry: u32| &memory[(entry & 0x7fff_ffff) as usize * 192..][..192];
    let step = |entry: u32, key: u64| {
        let (keys, entries) = node(entry).split_at(128);
        let count =
            keys.as_chunks().0.iter().filter(|one| u64::from_ne_bytes(**one) <= key).count();
        u32::from_ne_bytes(entries.as_chunks().0[count - 1])
    };
    let upper = (value >> 64) as u64;
    let mut entry = (0..tree.levels()).fold(tree.root(), |entry, _| step(entry, upper));
    let mut steps = tree.levels();
    while entry >> 31 == 1 {
        entry = step(entry, value as u64);
        steps += 1;
    }
    assert!(steps <= MAX_STEPS);
    entry
}

#[test]
fn a_node_has_the_entries_that_its_bytes_have() {
    let tree = IntervalTree::build(&[(0_u128, 1), (5 << 64, 2)], Simd::detect());
    let [node] = tree.nodes() else { panic!("{} nodes", tree.nodes().len()) };
    assert_eq!(node.keys()[..3], [0, 5, u64::MAX]);
    assert_eq!(node.entries()[..3], [1, 2, 2]);
    assert_eq!((tree.root(), tree.levels()), (NODE_FLAG, 1));
}

#[test]
fn a_walk_through_the_bytes_of_the_nodes_finds_the_number() {
    let mut model = ListModel::default();
    for at in 0..60 {
        let (key, len) = drawn(at);
        model.set(key, len, at + 1);
        model.set(key | u128::from(at), 128, at + 100);
    }
    model.set(u128::MAX << 1, 127, 5);
    let tree = model.tree(Simd::detect());
    assert_eq!(tree.levels(), 2);
    for value in model.probes() {
        assert_eq!(walked(&tree, value), model.number(value), "{value:#x}");
    }
}

#[test]
fn a_tree_is_built_again_when_it_has_more_than_twice_its_nodes() {
    let mut tree = IntervalTree::build(&[(0_u128, 1)], Simd::detect());
    let mut alone = (0..).map(|at: u128| at << 70 | 1);
    while tree.nodes.len() <= 2 + MIN_NODES {
        assert!(!tree.needs_rebuild());
        // This adds a node for the lower halves, and sometimes another node to the tree of upper
        // halves.
        let host = alone.next().unwrap();
        tree.replace(host, host, &[(host, 7)]);
        assert_eq!(tree.counted(tree.root, tree.levels) + tree.free.len(), tree.nodes.len());
    }
    assert!(tree.needs_rebuild());
    // Free nodes do not count, so a tree that has mostly free nodes needs no rebuild.
    tree.replace(0, u128::MAX, &[(0, 3)]);
    assert!(!tree.needs_rebuild() && tree.nodes.len() > 2 + MIN_NODES);
    assert_eq!(tree.size_bytes(), tree.nodes.len() * 192 + tree.free.len() * 4);
    assert!(tree.free.len() > 60);
    let starts: Vec<_> = (0..3000_u128).map(|at| (at << 64, at as u32)).collect();
    assert!(!IntervalTree::build(&starts, Simd::detect()).needs_rebuild());
}

#[test]
fn a_copy_does_not_change_with_the_tree() {
    let mut tree = IntervalTree::build(&[(0_u128, 1)], Simd::scalar());
    let copy = tree.clone();
    set_host(&mut tree, 3, 2);
    assert_eq!([tree.get(host(3)), copy.get(host(3))], [2, 1]);
    assert!(tree.nodes() != copy.nodes());
}

#[test]
fn lookups_end_with_the_shorter_slice() {
    let tree = IntervalTree::build(&[(0_u128, 1), (5 << 64, 2)], Simd::detect());
    let mut numbers = [0; 3];
    tree.get_all(&[5_u128 << 64, 4 << 64], &mut numbers);
    assert_eq!(numbers, [2, 1, 0]);
    let mut one = [0];
    tree.get_all(&[5_u128 << 64, 4 << 64], &mut one);
    assert_eq!(one, [2]);
}

#[test]
#[should_panic(expected = "starts begin elsewhere")]
fn starts_that_do_not_begin_at_0_are_refused() {
    let _ = IntervalTree::build(&[(1_u128, 1)], Simd::detect());
}

#[test]
#[should_panic(expected = "starts ascend")]
fn starts_that_do_not_ascend_are_refused() {
    let _ = IntervalTree::build(&[(0_u128, 1), (7, 2), (7, 3)], Simd::detect());
}

#[test]
#[should_panic(expected = "a number of more than 31 bits")]
fn numbers_that_would_refer_to_nodes_are_refused() {
    let _ = IntervalTree::build(&[(0_u128, 1 << 31)], Simd::detect());
}

#[test]
#[should_panic(expected = "starts after the end")]
fn ranges_beyond_the_end_are_refused() {
    let mut tree = IntervalTree::build(&[(0_u128, 1)], Simd::detect());
    tree.replace(0, 1 << 70, &[(0_u128, 1), ((1 << 70) + 1, 2)]);
}

#[test]
#[should_panic(expected = "bounds of a prefix")]
fn bounds_that_are_no_prefix_are_refused() {
    let mut tree = IntervalTree::build(&[(0_u128, 1)], Simd::detect());
    tree.replace(0, 1 << 70, &[(0_u128, 1)]);
}
