use proptest::prelude::*;

use super::*;

fn naive<K: TrieKey>(starts: &[(K, u32)], key: K) -> u32 {
    starts[starts.partition_point(|start| start.0 <= key) - 1].1
}

fn agree<K: TrieKey>(mut starts: Vec<(K, u32)>, mut probes: Vec<K>) {
    starts.push((K::ZERO, 1));
    starts.sort_unstable();
    starts.dedup_by_key(|start| start.0);
    let trie = Trie::build(&starts);
    for start in &starts {
        let before = K::ZERO.last_of(0);
        probes.extend([Some(start.0), start.0.after(), Some(before)].into_iter().flatten());
    }
    for &probe in &probes {
        assert_eq!(trie.get(probe), naive(&starts, probe), "{probe:?} of {starts:?}");
    }
    let mut numbers = vec![0; probes.len()];
    trie.get_many(&probes, &mut numbers);
    assert!(numbers.iter().zip(&probes).all(|(number, probe)| *number == trie.get(*probe)));
}

proptest! {
    #[test]
    fn every_value_has_the_number_of_the_last_start(
        starts in prop::collection::vec((any::<u32>(), 0..5_u32), 0..300),
        near in prop::collection::vec((0x0a00_0000_u32..0x0a00_1000, 0..5_u32), 0..40),
        probes in prop::collection::vec(any::<u32>(), 20),
    ) {
        agree(starts.into_iter().chain(near).collect(), probes);
    }

    #[test]
    fn wide_values_too(
        starts in prop::collection::vec((any::<u128>(), 0..5_u32), 0..100),
        near in prop::collection::vec((0x2001_u128 << 112..(0x2001_u128 << 112) + 4096, 0..5_u32), 0..20),
        probes in prop::collection::vec(any::<u128>(), 20),
    ) {
        agree(starts.into_iter().chain(near).collect(), probes);
    }
}

#[test]
fn one_number_needs_no_node() {
    let trie = Trie::build(&[(0_u32, 3)]);
    assert_eq!((trie.get(0), trie.get(u32::MAX), trie.size_bytes()), (3, 3, 64 * 4));
}

#[test]
fn one_value_of_its_own_needs_a_guard_and_no_node() {
    let trie = Trie::build(&[(0, 1), (0x0a00_0001_u32, 2), (0x0a00_0002, 1)]);
    let found = [0x0a00_0000, 0x0a00_0001, 0x0a00_0002].map(|key| trie.get(key));
    assert_eq!(found, [1, 2, 1]);
    // A guard has four words: the bits to compare, their count, and two entries.
    assert_eq!(trie.size_bytes(), (64 + 4) * 4);
}

#[test]
fn the_last_value_may_have_a_number_of_its_own() {
    agree(vec![(u32::MAX, 2)], vec![0, u32::MAX - 1]);
    agree(vec![(u64::MAX, 2), (0x0a3f << 32, 3)], vec![0, u64::MAX - 1]);
    agree(vec![(0x0a00_003f_u32, 2), (0x0a00_0040, 1)], vec![0x0a00_003e]);
}

#[test]
fn more_starts_make_a_wider_root() {
    let bits = [0, 16, 17, 255, 256, 49_999, 50_000].map(root_bits);
    assert_eq!(bits, [6, 6, 12, 12, 16, 16, 18]);
}

/// Makes a trie in which the number changes at every 16th value from 10.0.0.0 to 10.0.255.240.
/// Below one entry of the root is a node with 64 child nodes.
fn two_levels() -> Trie<u32> {
    let start = |number: u32| (0x0a00_0000 + number * 16, number + 1);
    let starts: Vec<_> = [(0, 0)].into_iter().chain((0..4096).map(start)).collect();
    Trie::build(&starts)
}

#[test]
fn a_patch_copies_the_path_to_what_has_changed_and_nothing_else() {
    // A patch copies the two nodes on the path, and may add a guard or a node for the value.
    for (key, len, most) in [(0x0a00_8000, 28, 2 * 66), (0x0a00_8003, 32, 2 * 66 + 5)] {
        let mut trie = two_levels();
        let before = trie.words.len();
        trie.patch(key, len, |first, block_len| {
            let (last, end) = (first.last_of(block_len), key.last_of(len));
            let number = first.wrapping_sub(0x0a00_0000) / 16 + 1;
            let starts = [(first, number), (key, 5000), (end + 1, number)];
            starts
                .into_iter()
                .filter(|start| (first..=last).contains(&start.0))
                .skip(usize::from(key == first))
                .collect()
        });
        assert_eq!([key, key - 1].map(|key| trie.get(key)).map(|it| it == 5000), [true, false]);
        assert!(trie.words.len() <= before + most, "{}", trie.words.len() - before);
    }
}

#[test]
fn patches_may_leave_as_much_as_was_built_and_four_thousand_words() {
    let starts = [(0, 1), (0x0a00_0001_u32, 2), (0x0a00_0002, 1)];
    let mut trie = Trie::build(&starts);
    let most = 2 * trie.words.len() + 4096;
    // Each patch copies the guard, which has 4 words.
    for _ in 0..(most - trie.words.len()) / 4 {
        trie.patch(0x0a00_0001, 32, |first, _| vec![(first, 2)]);
        assert!(!trie.needs_rebuild(3));
    }
    assert_eq!(trie.words.len(), most);
    trie.patch(0x0a00_0001, 32, |first, _| vec![(first, 2)]);
    assert!(trie.needs_rebuild(3));
}

#[test]
fn a_trie_is_built_again_when_its_root_has_become_too_narrow() {
    let trie = Trie::build(&[(0_u32, 3)]);
    assert!(!trie.needs_rebuild(16) && trie.needs_rebuild(17));
    let wide = two_levels();
    assert!(!wide.needs_rebuild(1) && !wide.needs_rebuild(4097));
}
