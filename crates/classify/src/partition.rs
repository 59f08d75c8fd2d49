//! Groups the values of a field into classes: the same rules accept all values of a class.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::direct::DirectTable;
use crate::ranges::{FieldPoint, RangeSet};
use crate::rows::{BitRows, zeroed_bits};
use crate::trie::{Trie, TrieKey};

/// The classes of a field, and the class of each of its values.
#[derive(Clone, Debug)]
pub struct Partition {
    /// The points at which the class changes, with the new class, ascending; the first is
    /// [`FieldPoint::MIN`].
    starts: Vec<(FieldPoint, u32)>,
    rows: BitRows,
}

impl Partition {
    /// Makes the classes from the values that each rule accepts; `None` means all.
    #[must_use]
    pub fn of(sets: &[Option<&RangeSet>]) -> Self {
        let mut wild = zeroed_bits(sets.len());
        for (bit, _) in sets.iter().enumerate().filter(|(_, set)| set.is_none()) {
            wild[bit / 64] |= 1 << (bit % 64);
        }
        let mut classes = ClassBuilder {
            rows: BitRows::new(wild),
            own: zeroed_bits(sets.len()),
            hash: 0,
            classes_by_hash: BTreeMap::new(),
        };
        let changes = changes(sets);
        let mut starts = Vec::new();
        let mut rest = changes.as_slice();
        let mut point = FieldPoint::MIN;
        loop {
            let (here, later) = rest.split_at(rest.partition_point(|change| change.0 <= point));
            here.iter().for_each(|&(_, bit)| classes.flip(bit));
            let class = classes.intern();
            if starts.last().is_none_or(|&(_, before)| before != class) {
                starts.push((point, class));
            }
            rest = later;
            match later.first() {
                Some(next) => point = next.0,
                None => return Self { starts, rows: classes.rows },
            }
        }
    }

    /// The class of a point, by binary search.
    #[must_use]
    pub fn class(&self, point: FieldPoint) -> u32 {
        self.starts[self.starts.partition_point(|start| start.0 <= point) - 1].1
    }

    /// The number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.rows.classes()
    }

    /// The rows of the classes.
    #[must_use]
    pub fn into_rows(self) -> BitRows {
        self.rows
    }

    /// Builds a trie of the classes of a family's values.
    #[must_use]
    pub fn trie<K: TrieKey + TryFrom<u128>>(&self, family: u8) -> Trie<K> {
        Trie::build(&self.family(family))
    }

    /// Builds a table of the classes of a family's values.
    #[must_use]
    pub fn direct(&self, family: u8) -> DirectTable {
        DirectTable::build(&self.family(family))
    }

    /// The value 0 of a family and the values at which the class changes, with their classes,
    /// except values that `K` cannot hold.
    fn family<K: TryFrom<u128>>(&self, family: u8) -> Vec<(K, u32)> {
        let first = FieldPoint::new(family, 0);
        let later = self.starts.iter().skip_while(|start| start.0 <= first);
        let inside = later.take_while(|start| start.0.family == family);
        let first = (first, self.class(first));
        let points = core::iter::once(&first).chain(inside);
        points.filter_map(|&(point, class)| Some((point.value.try_into().ok()?, class))).collect()
    }
}

/// The points at which each rule starts and stops accepting values, ascending.
fn changes(sets: &[Option<&RangeSet>]) -> Vec<(FieldPoint, u32)> {
    let mut changes = Vec::new();
    for (bit, set) in (0_u32..).zip(sets) {
        for &(first, last) in set.map_or(&[][..], RangeSet::ranges) {
            changes.push((first, bit));
            changes.extend(last.after().map(|end| (end, bit)));
        }
    }
    changes.sort_unstable();
    changes
}

/// The classes found so far, and the bits at the current point of the sweep.
struct ClassBuilder {
    rows: BitRows,
    own: Vec<u64>,
    /// Hash of the bits that are set at the current point.
    hash: u64,
    /// Classes by hash; classes with equal hashes are compared.
    classes_by_hash: BTreeMap<u64, Vec<u32>>,
}

impl ClassBuilder {
    fn flip(&mut self, bit: u32) {
        self.own[bit as usize / 64] ^= 1 << (bit % 64);
        self.hash ^= mixed(bit.into());
    }

    fn intern(&mut self) -> u32 {
        let same = self.classes_by_hash.entry(self.hash).or_default();
        if let Some(&class) = same.iter().find(|&&class| self.rows.row_equals(class, &self.own)) {
            return class;
        }
        let class = self.rows.classes() as u32;
        same.push(class);
        self.rows.push(&self.own);
        class
    }
}

/// The finalizer (output mixing function) of SplitMix64 (Steele, Lea and Flood).
const fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_the_same_rules_accept_are_one_class() {
        let (low, high) = (RangeSet::of(0, 5, 9), RangeSet::of(0, 7, 20));
        let partition = Partition::of(&[Some(&low), None, Some(&high)]);
        let class = |value| partition.class(FieldPoint::new(0, value));
        assert_eq!(partition.classes(), 4);
        assert_eq!([class(4), class(6), class(9)], [class(21), class(5), class(7)]);
        assert_eq!(class(0), partition.class(FieldPoint::new(1, 6)));
        let four = [0, 5, 7, 20].map(class);
        assert!((0..4).all(|at| four[..at].iter().all(|other| *other != four[at])));
    }

    #[test]
    fn each_family_has_its_own_classes() {
        let some = RangeSet::of(1, 0, 9).union(&RangeSet::of(2, 3, 5));
        let partition = Partition::of(&[Some(&some), Some(&RangeSet::family(2))]);
        for family in 0..4 {
            let (trie, direct) = (partition.trie::<u32>(family), partition.direct(family));
            for value in [0, 1, 2, 3, 5, 6, 9, 10, 65_535] {
                let class = partition.class(FieldPoint::new(family, value));
                assert_eq!([trie.get(value as u32), direct.get(value as u16)], [class; 2]);
            }
        }
    }

    #[test]
    fn the_hash_is_that_of_the_bits_that_are_set() {
        let (rows, own) = (BitRows::new(zeroed_bits(3)), zeroed_bits(3));
        let mut classes = ClassBuilder { rows, own, hash: 0, classes_by_hash: BTreeMap::new() };
        let hashes = [0, 1, 0, 2, 1, 2].map(|bit| {
            classes.flip(bit);
            classes.hash
        });
        let expected = [mixed(0), mixed(0) ^ mixed(1), mixed(1)];
        assert_eq!(hashes[..3], expected);
        assert_eq!(hashes[3..], [mixed(1) ^ mixed(2), mixed(2), 0]);
    }

    #[test]
    fn numbers_are_mixed_as_by_splitmix64() {
        // These are the first outputs of the published generator with seed 0.
        let outputs = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!([0, 1, 2].map(mixed), outputs);
    }
}
