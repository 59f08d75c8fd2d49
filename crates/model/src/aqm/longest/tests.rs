use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn tournament_finds_what_a_scan_finds(
        first in prop::collection::vec((0u64..5, 0u32..3), 0..9),
        changes in prop::collection::vec((0u32..40, (0u64..5, 0u32..3)), 0..200),
    ) {
        let mut tree = LongestQueue::new(first.iter().map(|&(bytes, packets)| QueueLength::new(bytes, packets)));
        let mut lengths = first;
        for (index, length) in changes {
            if index as usize >= lengths.len() {
                lengths.resize(index as usize + 1, (0, 0));
            }
            lengths[index as usize] = length;
            tree.set(index, QueueLength::new(length.0, length.1));
            let longest = lengths.iter().max().unwrap();
            prop_assert_eq!(&lengths[tree.first() as usize], longest);
        }
    }

    #[test]
    fn lengths_are_ordered_by_bytes_then_packets(a: (u64, u32), b: (u64, u32)) {
        let cut = |(bytes, packets): (u64, u32)| (bytes >> 20, packets >> 12);
        let [(a, x), (b, y)] = [a, b].map(cut).map(|cut| (cut, QueueLength::new(cut.0, cut.1)));
        prop_assert_eq!(a.cmp(&b), x.cmp(&y));
    }
}

#[test]
fn absurd_lengths_saturate() {
    assert!(QueueLength::new(u64::MAX, u32::MAX) > QueueLength::new(1 << 40, 0));
    assert!(QueueLength::new(0, u32::MAX) < QueueLength::new(1, 0));
}
