extern crate std;

use proptest::prelude::*;
use std::vec::Vec;

use super::*;

/// The levels of this processor, the best first. Levels that it does not have repeat the next lower
/// one; a processor without AVX2 has nothing to compare.
fn levels() -> [Simd; 3] {
    if Simd::detect() == Simd::scalar() {
        std::println!("skipped: this processor has no AVX2");
    }
    [Simd::detect(), Simd::detect_avx2(), Simd::scalar()]
}

#[test]
fn names_say_what_the_level_is() {
    let names = levels().map(Simd::name);
    assert!(["avx512", "avx2", "scalar"].contains(&names[0]), "{names:?}");
    assert!(["avx2", "scalar"].contains(&names[1]), "{names:?}");
    assert_eq!(names[2], "scalar");
}

/// The sum of 32-bit words, one after the other.
fn naive_sum(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(4).map(|word| u64::from(u32::from_ne_bytes(word.try_into().unwrap()))).sum()
}

#[test]
fn sums_agree_for_all_lengths_and_alignments() {
    let bytes: Vec<u8> = (0..2200_u32).map(|n| ((n * n) >> 3) as u8 | 0x80).collect();
    for start in 0..32 {
        for blocks in 0..66 {
            let part = &bytes[start..start + blocks * 32];
            for simd in levels() {
                assert_eq!(simd.sum_words(part.as_chunks().0), naive_sum(part), "{start} {blocks}");
            }
        }
    }
}

#[test]
fn sums_of_large_words_do_not_overflow() {
    let blocks = std::vec![[0xff; 32]; 1 << 16];
    for simd in levels() {
        assert_eq!(simd.sum_words(&blocks), (0xffff_ffff * 8) << 16);
    }
}

fn ranks_agree<const N: usize>(keys: &[u64], key: u64) -> Result<(), TestCaseError> {
    let mut node: [u64; N] = core::array::from_fn(|at| keys[at]);
    node.sort_unstable();
    let expected = node.partition_point(|&one| one <= key);
    for simd in levels() {
        prop_assert_eq!(simd.rank(&node, key), expected, "{:?} in {:?}", key, node);
    }
    Ok(())
}

/// Tests one step of several searches together, in a level of four nodes: each search continues at
/// the child that its key selects.
fn descents_agree<const N: usize>(keys: &[u64], places: &[u32]) {
    let mut nodes: [[u64; N]; 4] =
        core::array::from_fn(|node| core::array::from_fn(|at| keys[(node * 5 + at) % keys.len()]));
    nodes.iter_mut().for_each(|node| node.sort_unstable());
    let nodes: [(u32, [u64; N]); 4] = core::array::from_fn(|at| (at as u32 * 100, nodes[at]));
    let below = |(&key, &place): (&u64, &u32)| {
        let (first, keys) = &nodes[place as usize];
        first + keys.partition_point(|&one| one <= key) as u32
    };
    let expected: Vec<u32> = keys.iter().zip(places).map(below).collect();
    for simd in levels() {
        let mut places = places.to_vec();
        let node = |place| &nodes[place as usize];
        simd.descend(keys, &mut places, node, |node| &node.1, |node, rank| node.0 + rank as u32);
        assert_eq!(places[..expected.len()], expected);
    }
}

/// Any numbers, and numbers on either side of the points at which signed and unsigned order differ.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), (1_u64 << 63) - 3..(1 << 63) + 3, 0..4_u64, u64::MAX - 3..=u64::MAX]
}

proptest! {
    #[test]
    fn ranks_agree_for_nodes_of_all_sizes(
        keys in prop::collection::vec(number(), 16),
        key in number(),
    ) {
        ranks_agree::<4>(&keys, key)?;
        ranks_agree::<8>(&keys, key)?;
        ranks_agree::<12>(&keys, key)?;
        ranks_agree::<16>(&keys, key)?;
        ranks_agree::<16>(&keys, keys[5])?;
    }

    #[test]
    fn descents_agree_for_nodes_of_all_sizes(
        keys in prop::collection::vec(number(), 1..40),
        places in prop::collection::vec(0..4_u32, 0..40),
    ) {
        descents_agree::<4>(&keys, &places);
        descents_agree::<8>(&keys, &places);
        descents_agree::<16>(&keys, &places);
    }

    #[test]
    fn matching_tags_agree(tags in prop::array::uniform16(0..4_u8), tag in 0..5_u8) {
        let expected = (0..16).filter(|&at| tags[at] == tag).fold(0_u16, |mask, at| mask | 1 << at);
        for simd in levels() {
            prop_assert_eq!(simd.matching_tags(&tags, tag), expected);
        }
    }
}

#[test]
fn a_prefetch_of_what_is_not_there_does_nothing() {
    prefetch_element::<u64>(&[], usize::MAX / 16);
    prefetch_address(core::ptr::null());
    prefetch(&7);
}
