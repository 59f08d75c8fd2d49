//! What of a region nobody owns.

use crate::arena::Arena;
use crate::layout::{Header, RESERVED_BUFS};

/// Which buffers of a region nobody had at some moment: what a later process needs to go on with
/// it ([`crate::Region::resume`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BufsLeft {
    /// The first buffer that was never taken; none behind it was.
    pub fresh: u32,
    /// A bit for each of those that were given back, 64 to a word.
    pub given: Vec<u64>,
}

/// A set of numbers.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn get(&self, i: u32) -> bool {
        self.0.get(i as usize / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    fn set(&mut self, i: u32, is_in: bool) {
        let at = i as usize / 64;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        let bit = 1 << (i % 64);
        self.0[at] = if is_in { self.0[at] | bit } else { self.0[at] & !bit };
    }

    fn ones(&self) -> impl Iterator<Item = u32> {
        let words = (0..).step_by(64).zip(&self.0);
        words.flat_map(|(first, word)| {
            (0..64).filter(move |i| word >> i & 1 == 1).map(move |i| first + i)
        })
    }
}

/// Buffers and ring bytes to be had. Costs memory only for buffers that were taken once, so a
/// region may well be made larger than what is ever used of it.
#[derive(Debug)]
pub(super) struct Free {
    /// A stack: the buffer freed last is the likeliest to be in a cache, and goes next.
    given: Vec<u32>,
    /// By index, whether a buffer is in `given`; at least as long as `fresh` says.
    is_given: Bits,
    /// The first buffer that was never taken; none behind it was.
    fresh: u32,
    /// Buffers in all.
    total: u32,
    pub(super) rings: Arena,
}

impl Free {
    pub(super) fn all(header: &Header) -> Self {
        Self {
            given: Vec::new(),
            is_given: Bits::default(),
            fresh: RESERVED_BUFS,
            total: header.bufs,
            rings: Arena::new(header.ring_start, header.buf_start),
        }
    }

    /// As it was when [`Self::bufs_left`] told; `None` if that was of another region.
    pub(super) fn resumed(header: &Header, left: &BufsLeft) -> Option<Self> {
        let total = header.bufs;
        if !(RESERVED_BUFS..=total).contains(&left.fresh) {
            return None;
        }
        let is_given = Bits(left.given.clone());
        let given: Vec<u32> = is_given.ones().collect();
        let right = |idx: &u32| (RESERVED_BUFS..left.fresh).contains(idx);
        given.iter().all(right).then(|| Self {
            given,
            is_given,
            fresh: left.fresh,
            total,
            rings: Arena::new(header.ring_start, header.buf_start),
        })
    }

    /// Which buffers nobody has.
    pub(super) fn bufs_left(&self) -> BufsLeft {
        BufsLeft { fresh: self.fresh, given: self.is_given.0.clone() }
    }

    /// How many buffers there are.
    pub(super) fn bufs(&self) -> u32 {
        self.given.len() as u32 + (self.total - self.fresh)
    }

    /// Takes as many; none if there are fewer.
    pub(super) fn take(&mut self, count: u32) -> Option<Vec<u32>> {
        if count > self.bufs() {
            return None;
        }
        let keep = self.given.len().saturating_sub(count as usize);
        let mut taken: Vec<u32> = self.given.drain(keep..).rev().collect();
        for &idx in &taken {
            self.is_given.set(idx, false);
        }
        let end = self.fresh + (count - taken.len() as u32);
        taken.extend(self.fresh..end);
        self.fresh = end;
        Some(taken)
    }

    /// Gives back a buffer of those that exist; one that was not taken is left alone.
    pub(super) fn give(&mut self, idx: u32) {
        if idx < self.fresh && !self.is_given.get(idx) {
            self.is_given.set(idx, true);
            self.given.push(idx);
        }
    }
}
