//! Rows of bits: for each class of values of a field, the rules that accept it.
//!
//! Bits are grouped in bands of 64 words of 64 bits. One summary word per band says which words of
//! the band have any bit set. In a long list, most rules have a condition on the field, and each of
//! them is in few rows, so a row stores only its nonzero words. A rule without such a condition
//! accepts every value and is in all rows; the bits of these rules are stored once, in `wildcard`.
//!
//! ```text
//!   class --> band 0: live own first | band 1: live own first | …
//!                     |    |    +--> words[first..]: own words, one for each bit of `own`
//!                     |    +-- words that have bits of the class itself
//!                     +------- words that have any bit, `wildcard` included
//! ```

use alloc::vec;
use alloc::vec::Vec;

/// Bits in a band.
pub const BAND_BITS: usize = 64 * 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RowBlock {
    live: u64,
    own: u64,
    first: u32,
}

/// A row of bits for each class.
#[derive(Clone, Debug)]
pub struct BitRows {
    bands: usize,
    wildcard: Vec<u64>,
    blocks: Vec<RowBlock>,
    words: Vec<u64>,
}

/// One band of one row.
#[derive(Clone, Copy, Debug)]
pub struct BitRow<'r> {
    /// Bit `n` is set if word `n` has any bit set.
    pub live: u64,
    own: u64,
    words: &'r [u64],
    wildcard: &'r [u64; 64],
}

impl BitRow<'_> {
    /// Returns a word of the row; `index` is 0 to 63.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, index: u32) -> u64 {
        let wild = self.wildcard[(index & 63) as usize];
        if self.own >> index & 1 == 0 {
            return wild;
        }
        let before = self.own & ((1 << index) - 1);
        // Usually there is only one own word. The check avoids counting bits, which is slow on the
        // baseline CPU target.
        let rank = if before == 0 { 0 } else { before.count_ones() };
        wild | self.words[rank as usize]
    }
}

impl BitRows {
    /// Makes rows without classes. `wildcard` contains, as 64-bit words, the bits that are set for
    /// every class.
    #[must_use]
    pub fn new(mut wildcard: Vec<u64>) -> Self {
        let bands = wildcard.len().div_ceil(64);
        wildcard.resize(bands * 64, 0);
        Self { bands, wildcard, blocks: Vec::new(), words: Vec::new() }
    }

    /// The number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.blocks.len() / self.bands.max(1)
    }

    /// The number of bands in a row.
    #[must_use]
    pub const fn bands(&self) -> usize {
        self.bands
    }

    /// Adds a class. `own` contains its own bits, in at most as many words as `wildcard`.
    pub fn push(&mut self, own: &[u64]) {
        for band in 0..self.bands {
            let mut block = RowBlock { first: self.words.len() as u32, ..RowBlock::default() };
            for index in 0..64 {
                let own = own.get(band * 64 + index).copied().unwrap_or(0);
                let any = own | self.wildcard[band * 64 + index];
                block.live |= u64::from(any != 0) << index;
                if own != 0 {
                    block.own |= 1 << index;
                    self.words.push(own);
                }
            }
            self.blocks.push(block);
        }
    }

    /// Returns whether the class's own bits are equal to `own`.
    pub(crate) fn row_equals(&self, class: u32, own: &[u64]) -> bool {
        let blocks = &self.blocks[class as usize * self.bands..][..self.bands];
        let kept = blocks.iter().enumerate().flat_map(|(band, block)| {
            (0..64).map(move |index| {
                let rank = (block.own & ((1 << index) - 1)).count_ones();
                let word = block.own >> index & 1;
                let at = band * 64 + index;
                (at, if word == 1 { self.words[(block.first + rank) as usize] } else { 0 })
            })
        });
        kept.into_iter().all(|(at, word)| own.get(at).copied().unwrap_or(0) == word)
    }

    /// Returns one band of the row of a class.
    ///
    /// # Panics
    /// If there is no such class or band.
    #[inline(always)]
    #[must_use]
    pub fn row(&self, class: u32, band: usize) -> BitRow<'_> {
        let block = &self.blocks[class as usize * self.bands + band];
        let wild =
            self.wildcard[band * 64..].first_chunk().expect("wild has 64 words for each band");
        BitRow {
            live: block.live,
            own: block.own,
            words: &self.words[block.first as usize..],
            wildcard: wild,
        }
    }

    /// The memory that the rows take, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        (self.wildcard.len() + self.words.len()) * 8 + self.blocks.len() * size_of::<RowBlock>()
    }
}

/// Returns as many zeroed words as `bits` bits need.
#[must_use]
pub(crate) fn zeroed_bits(bits: usize) -> Vec<u64> {
    vec![0; bits.div_ceil(64)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates words, most of which are 0. Nonzero words are at the ends and in the middle of
    /// bands.
    fn words() -> impl Strategy<Value = Vec<u64>> {
        let places = prop::sample::select(vec![0, 1, 5, 62, 63, 64, 65, 127, 129]);
        let bits = prop::sample::select(vec![1, 2, 3, u64::MAX]);
        prop::collection::vec((places, bits), 0..7).prop_map(|all| {
            let mut words = vec![0; 130];
            all.into_iter().for_each(|(at, bits)| words[at] = bits);
            words
        })
    }

    proptest! {
        #[test]
        fn a_row_has_the_bits_of_all_classes_and_its_own(
            wildcard in words(),
            classes in prop::collection::vec(words(), 1..6),
        ) {
            let mut rows = BitRows::new(wildcard.clone());
            classes.iter().for_each(|own| rows.push(own));
            prop_assert_eq!((rows.classes(), rows.bands()), (classes.len(), 3));
            for (class, own) in (0..).zip(&classes) {
                for at in 0..3 * 64 {
                    let word = |words: &[u64]| words.get(at).copied().unwrap_or(0);
                    let (row, index) = (rows.row(class, at / 64), at as u32 % 64);
                    let expected = word(&wildcard) | word(own);
                    prop_assert_eq!(row.word(index), expected);
                    prop_assert_eq!(row.live >> index & 1 == 1, expected != 0);
                }
                for other in &classes {
                    prop_assert_eq!(rows.row_equals(class, other), own == other);
                }
            }
        }
    }

    #[test]
    fn the_size_is_that_of_wildcards_own_words_and_summaries() {
        let mut rows = BitRows::new(vec![0; 65]);
        rows.push(&[1, 0, 2]);
        rows.push(&[4]);
        assert_eq!(rows.size_bytes(), (2 * 64 + 3) * 8 + 2 * 2 * 24);
    }
}
