use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn tournament_finds_what_a_scan_finds(
        first in prop::collection::vec((0u64..5, 0u32..3), 0..9),
        changes in prop::collection::vec((0u32..40, (0u64..5, 0u32..3)), 0..200),
    ) {
        let mut tree = Fattest::new(first.iter().copied());
        let mut lengths = first;
        for (index, length) in changes {
            if index as usize >= lengths.len() {
                lengths.resize(index as usize + 1, (0, 0));
            }
            lengths[index as usize] = length;
            tree.set(index, length);
            let longest = lengths.iter().max().unwrap();
            prop_assert_eq!(&lengths[tree.first() as usize], longest);
        }
    }
}
