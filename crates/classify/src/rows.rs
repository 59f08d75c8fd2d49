//! Rows of bits: for each class of values of a field, which rules accept it.
//!
//! Bits come in bands of 64 words of 64: one word of summary tells which words of a band have any
//! bit set. Most rules of a long list want something of some field, so a row is kept as what is
//! its own: bits of rules that accept every value are in all rows, and stand once in `wild`.
//!
//! ```text
//!   class --> band 0: live own first | band 1: live own first | …
//!                     |    |    +--> words[first..]: own words, one for each bit of `own`
//!                     |    +-- words that have bits of the class's own
//!                     +------- words that have any bit, `wild` included
//! ```

use alloc::vec;
use alloc::vec::Vec;

/// Bits of a band.
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
    /// A word of the row, 0..=63.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, index: u32) -> u64 {
        let wild = self.wildcard[(index & 63) as usize];
        if self.own >> index & 1 == 0 {
            return wild;
        }
        let before = self.own & ((1 << index) - 1);
        // Mostly there is just one word; counting bits is slow where the CPU is not asked to.
        let rank = if before == 0 { 0 } else { before.count_ones() };
        wild | self.words[rank as usize]
    }
}

impl BitRows {
    /// No class yet; `wild` are the bits that are set for every class, in words.
    #[must_use]
    pub fn new(mut wildcard: Vec<u64>) -> Self {
        let bands = wildcard.len().div_ceil(64);
        wildcard.resize(bands * 64, 0);
        Self { bands, wildcard, blocks: Vec::new(), words: Vec::new() }
    }

    /// How many classes there are.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.blocks.len() / self.bands.max(1)
    }

    /// How many bands a row has.
    #[must_use]
    pub const fn bands(&self) -> usize {
        self.bands
    }

    /// Adds a class with some bits of its own, in words, as many as `wild` had or fewer.
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

    /// Whether the bits of its own of a class are these.
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

    /// One band of the row of a class.
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

    /// Bytes that it takes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        (self.wildcard.len() + self.words.len()) * 8 + self.blocks.len() * size_of::<RowBlock>()
    }
}

/// As many words as `bits` bits need, none set.
#[must_use]
pub(crate) fn zeroed_bits(bits: usize) -> Vec<u64> {
    vec![0; bits.div_ceil(64)]
}
