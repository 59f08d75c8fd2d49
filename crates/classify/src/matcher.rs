//! Finds the rules that accept every field of a packet, in rule order.
//!
//! The search proceeds by bands of rules, so a caller that stops at the first match searches no
//! later band. Up to [`MAX_DENSE_RULES`] rules have dense rows: a band has 256 rules, and all its
//! words are intersected. With more rules, a band has 4096: the summaries of all fields are
//! intersected first, then the remaining words. Within such a band, rules with conditions on the
//! same fields are adjacent in the rows, sorted by condition, so that few words remain. The results
//! are put back into rule order.

use alloc::vec::Vec;

use crate::partition::Partition;
use crate::ranges::RangeSet;
use crate::rows::{BAND_BITS, BitRow, BitRows};

/// Maximum number of fields in a matcher.
pub const MAX_FIELDS: usize = 24;

/// Maximum number of rules for dense rows: dense rows of more rules could take too much memory.
pub const MAX_DENSE_RULES: usize = 16384;
/// Words of dense rows that are intersected together.
const CHUNK_WORDS: usize = 4;

/// The rows of all fields.
#[derive(Clone, Debug)]
pub struct Matcher {
    rows: Vec<BitRows>,
    /// For each bit, the position of its rule in the rule's band of [`BAND_BITS`] rules.
    positions: Vec<u16>,
    dense: Option<DenseRows>,
}

/// Uncompressed rows: for each field, the rows of its classes one after the other.
#[derive(Clone, Debug)]
struct DenseRows {
    width: usize,
    rows: Vec<Vec<u64>>,
}

impl Matcher {
    /// Builds a matcher from the values that each rule accepts in each field: `wants[field][rule]`,
    /// where `None` means all values. Also returns the classes of each field, from which the caller
    /// builds lookups.
    ///
    /// # Panics
    /// If there are more than [`MAX_FIELDS`] fields, or the fields have different numbers of rules.
    #[must_use]
    pub fn build(wants: &[Vec<Option<RangeSet>>]) -> (Self, Vec<Partition>) {
        Self::with_dense(wants, MAX_DENSE_RULES)
    }

    /// Like [`Self::build`], but with `most` instead of [`MAX_DENSE_RULES`].
    ///
    /// # Panics
    /// As [`Self::build`].
    #[must_use]
    pub fn with_dense(wants: &[Vec<Option<RangeSet>>], most: usize) -> (Self, Vec<Partition>) {
        assert!(wants.len() <= MAX_FIELDS, "more fields than a matcher has");
        let rules = wants.first().map_or(0, Vec::len);
        assert!(wants.iter().all(|field| field.len() == rules), "fields differ in their rules");
        let order = if rules <= most { (0..rules).collect() } else { order(wants, rules) };
        let partitions: Vec<_> = wants
            .iter()
            .map(|field| {
                let sets: Vec<_> = order.iter().map(|&rule| field[rule].as_ref()).collect();
                Partition::of(&sets)
            })
            .collect();
        let rows: Vec<_> = partitions.iter().map(|part| part.clone().into_rows()).collect();
        let positions = order.iter().map(|rule| (rule % BAND_BITS) as u16).collect();
        if rules > most || rows.is_empty() {
            return (Self { rows, positions, dense: None }, partitions);
        }
        let dense = Some(DenseRows::new(&rows, rules));
        (Self { rows: Vec::new(), positions, dense }, partitions)
    }

    /// Adds to `found`, which must be empty, the rules of a band that accept the given class in
    /// each field, as positions within the band, in ascending order. `classes` has one element for
    /// each field.
    #[inline]
    pub fn candidates(&self, classes: &[u32], band: usize, found: &mut Vec<u16>) {
        if let Some(dense) = &self.dense {
            dense.candidates(classes, band, found);
            return;
        }
        match self.rows.len() {
            // A matcher without fields has no rules.
            0 => {}
            1..=4 => self.search::<4>(classes, band, found),
            5..=8 => self.search::<8>(classes, band, found),
            _ => self.search::<MAX_FIELDS>(classes, band, found),
        }
    }

    /// Searches a band, for a matcher with up to `N` fields.
    fn search<const N: usize>(&self, classes: &[u32], band: usize, found: &mut Vec<u16>) {
        let last = self.rows.len() - 1;
        // Unused array elements repeat the last field, which does not change the intersection.
        let rows: [BitRow<'_>; N] = core::array::from_fn(|field| {
            let field = field.min(last);
            self.rows[field].row(classes[field], band)
        });
        let positions = &self.positions[band * BAND_BITS..];
        let mut live = rows.iter().fold(u64::MAX, |live, row| live & row.live);
        while live != 0 {
            let index = live.trailing_zeros();
            live &= live - 1;
            let mut word = rows[0].word(index);
            for row in &rows[1..=last] {
                word &= row.word(index);
                if word == 0 {
                    break;
                }
            }
            while word != 0 {
                found.push(positions[(index * 64 + word.trailing_zeros()) as usize]);
                word &= word - 1;
            }
        }
        if !found.is_sorted() {
            found.sort_unstable();
        }
    }

    /// The number of bands.
    #[must_use]
    pub fn bands(&self) -> usize {
        self.positions.len().div_ceil(1 << self.band_bits())
    }

    /// The binary logarithm of the number of rules in a band.
    #[inline]
    #[must_use]
    pub const fn band_bits(&self) -> u32 {
        if self.dense.is_some() { (CHUNK_WORDS * 64).ilog2() } else { BAND_BITS.ilog2() }
    }

    /// Returns whether the rows are dense and have at most one band. A search then reads so few
    /// words that no other method is faster.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.dense.is_some() && self.bands() <= 1
    }

    /// The memory that the matcher takes, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let dense = self.dense.iter().flat_map(|dense| &dense.rows).map(|row| row.len() * 8);
        let rows = self.rows.iter().map(BitRows::size_bytes);
        self.positions.len() * 2 + dense.chain(rows).sum::<usize>()
    }
}

impl DenseRows {
    fn new(rows: &[BitRows], rules: usize) -> Self {
        let width = rules.div_ceil(64).next_multiple_of(CHUNK_WORDS);
        let plain = |field: &BitRows| {
            let classes = 0..field.classes() as u32;
            let word = |class, at: usize| match at / 64 {
                band if band < field.bands() => field.row(class, band).word(at as u32 % 64),
                // The row has no more words, so zeros complete the chunk.
                _ => 0,
            };
            let words = |class| (0..width).map(move |at| word(class, at));
            classes.flat_map(words).collect()
        };
        Self { width, rows: rows.iter().map(plain).collect() }
    }

    #[inline]
    fn candidates(&self, classes: &[u32], band: usize, found: &mut Vec<u16>) {
        let mut words = [u64::MAX; CHUNK_WORDS];
        for (row, &class) in self.rows.iter().zip(classes) {
            let part = &row[class as usize * self.width + band * CHUNK_WORDS..][..CHUNK_WORDS];
            words.iter_mut().zip(part).for_each(|(word, part)| *word &= part);
        }
        for (at, mut word) in (0..).zip(words) {
            while word != 0 {
                found.push(at * 64 + word.trailing_zeros() as u16);
                word &= word - 1;
            }
        }
    }
}

/// Returns the rule of each bit. Bands stay in rule order; within a band, rules are sorted by the
/// fields that they do not restrict, then by the first range of values that they accept in each
/// field.
fn order(wants: &[Vec<Option<RangeSet>>], rules: usize) -> Vec<usize> {
    let shape = |rule: usize| {
        let open = wants.iter().map(|field| field[rule].is_none());
        open.fold(0_u32, |shape, open| shape << 1 | u32::from(open))
    };
    let firsts = |rule: usize| wants.iter().map(move |field| field[rule].as_ref().map(first));
    let mut order: Vec<_> = (0..rules).collect();
    for band in order.chunks_mut(BAND_BITS) {
        band.sort_by(|&a, &b| shape(a).cmp(&shape(b)).then_with(|| firsts(a).cmp(firsts(b))));
    }
    order
}

fn first(set: &RangeSet) -> &[crate::ranges::PointRange] {
    &set.ranges()[..set.ranges().len().min(1)]
}

/// A matcher without rules.
impl Default for Matcher {
    fn default() -> Self {
        Self { rows: Vec::new(), positions: Vec::new(), dense: None }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ranges::FieldPoint;

    fn sets() -> impl Strategy<Value = Option<RangeSet>> {
        let range = (0..40_u128, 0..40_u128).prop_map(|(first, len)| (first, first + len / 8));
        let ranges = prop::collection::vec(range, 0..3);
        let set = ranges.prop_map(|ranges| {
            let points =
                ranges.iter().map(|&(a, b)| (FieldPoint::new(0, a), FieldPoint::new(0, b)));
            points.collect::<RangeSet>()
        });
        prop::option::weighted(0.6, set)
    }

    fn check(wants: &[Vec<Option<RangeSet>>], values: &[u128]) {
        for most in [0, MAX_DENSE_RULES] {
            check_with(wants, values, Matcher::with_dense(wants, most));
        }
    }

    fn check_with(
        wants: &[Vec<Option<RangeSet>>],
        values: &[u128],
        (matcher, partitions): (Matcher, Vec<Partition>),
    ) {
        let points: Vec<_> = values.iter().map(|&value| FieldPoint::new(0, value)).collect();
        let classes: Vec<_> = partitions.iter().zip(&points).map(|(p, &at)| p.class(at)).collect();
        for (class, (partition, at)) in classes.iter().zip(partitions.iter().zip(&points)) {
            let (wide, narrow) = (partition.trie::<u32>(0), partition.direct(0));
            assert_eq!(wide.get(at.value as u32), *class);
            assert_eq!(narrow.get(at.value as u16), *class);
        }
        let rules = wants[0].len();
        let accepts = |rule: &usize| {
            let mut fields = wants.iter().zip(&points);
            fields.all(|(field, &at)| field[*rule].as_ref().is_none_or(|set| set.contains(at)))
        };
        let expected: Vec<_> = (0..rules).filter(accepts).collect();
        let mut got = Vec::new();
        for band in 0..matcher.bands() {
            let mut found = Vec::new();
            matcher.candidates(&classes, band, &mut found);
            let first = band << matcher.band_bits();
            got.extend(found.iter().map(|&position| first + usize::from(position)));
        }
        assert_eq!(got, expected);
    }

    proptest! {
        #[test]
        fn candidates_are_the_rules_that_accept_all_fields(
            rules in prop::collection::vec([sets(), sets(), sets()], 1..200),
            values in prop::collection::vec(0..50_u128, 3),
        ) {
            let wants: Vec<Vec<_>> =
                (0..3).map(|field| rules.iter().map(|rule| rule[field].clone()).collect()).collect();
            check(&wants, &values);
        }
    }

    #[test]
    fn bands_follow_each_other() {
        let want = |rule: usize| match rule % 7 {
            0 => None,
            rest => Some(RangeSet::of(0, rest as u128, (rest + rule / 3000) as u128)),
        };
        let field = (0..10_000).map(want).collect::<Vec<_>>();
        let other = (0..10_000).map(|rule| want(rule / 5)).collect::<Vec<_>>();
        for value in 0..12 {
            check(&[field.clone(), other.clone()], &[value, 3]);
        }
    }

    #[test]
    fn without_fields_there_are_no_rules() {
        for matcher in [Matcher::build(&[]).0, Matcher::default()] {
            let mut found = Vec::new();
            matcher.candidates(&[], 0, &mut found);
            assert_eq!((matcher.bands(), found.len()), (0, 0));
        }
    }

    #[test]
    fn a_rule_without_conditions_is_always_a_candidate() {
        let (matcher, partitions) = Matcher::build(&[alloc::vec![None; 3]]);
        let (mut found, class) = (Vec::new(), partitions[0].class(FieldPoint::MAX));
        matcher.candidates(&[class], 0, &mut found);
        assert_eq!(found, [0, 1, 2]);
    }

    #[test]
    fn rows_are_dense_up_to_a_number_of_rules() {
        let wants = |rules| [alloc::vec![None; rules]];
        let band_bits = |rules, most| Matcher::with_dense(&wants(rules), most).0.band_bits();
        assert_eq!([band_bits(3, 3), band_bits(3, 2), band_bits(3, 0)], [8, 12, 12]);
        let is_short = |rules, most| Matcher::with_dense(&wants(rules), most).0.is_short();
        assert!(is_short(256, 256) && !is_short(257, 257) && !is_short(256, 255));
    }

    /// Returns the bytes of the rows of one band: the wildcard words, `words` own words of all
    /// classes together, and the summaries of `classes` classes.
    fn row_bytes(words: usize, classes: usize) -> usize {
        (64 + words) * 8 + classes * 24
    }

    #[test]
    fn the_size_is_that_of_all_rows_and_positions() {
        let wants = [alloc::vec![None; 3], alloc::vec![Some(RangeSet::of(0, 1, 1)); 3]];
        let dense = Matcher::with_dense(&wants, 3).0;
        assert_eq!(dense.size_bytes(), 3 * 2 + (1 + 2) * 4 * 8);
        let sparse = Matcher::with_dense(&wants, 0).0;
        assert_eq!(sparse.size_bytes(), 3 * 2 + row_bytes(0, 1) + row_bytes(1, 2));
    }

    #[test]
    fn rules_with_the_same_open_fields_and_values_share_words() {
        let value = |value: usize| Some(RangeSet::of(0, value as u128, value as u128));
        let alternating = [(0..128).map(|rule| value(rule % 2)).collect()];
        let by_value = Matcher::with_dense(&alternating, 0).0;
        assert_eq!(by_value.size_bytes(), 128 * 2 + row_bytes(2, 3));
        // Every second rule accepts all values of the second field.
        let wants = [
            (0..128).map(value).collect(),
            (0..128).map(|rule| value(0).filter(|_| rule % 2 == 1)).collect(),
            (0..128).map(|_| value(0)).collect(),
        ];
        let by_open_fields = Matcher::with_dense(&wants, 0).0;
        let expected = row_bytes(128, 129) + row_bytes(1, 2) + row_bytes(2, 2);
        assert_eq!(by_open_fields.size_bytes(), 128 * 2 + expected);
    }
}
