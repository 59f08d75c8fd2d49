//! The free memory of a region.

use crate::arena::Arena;
use crate::layout::{RESERVED_BUFS, RegionHeader};

/// Which buffers of a region were free at some moment. A successor process resumes the region with
/// this state ([`crate::Region::resume`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FreeBufs {
    /// Index of the first buffer that was never allocated. No buffer after it was allocated either.
    pub fresh: u32,
    /// A bit for each buffer below `fresh`, 64 bits to a word: set if the buffer is free again.
    /// Missing bits count as not set.
    pub released: Vec<u64>,
}

/// A set of numbers.
#[derive(Debug, Default)]
struct BitSet(Vec<u64>);

impl BitSet {
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

/// Free buffers and ring bytes. Needs memory only for buffers that were allocated at least once, so
/// a region may have many more buffers than are used.
#[derive(Debug)]
pub(super) struct FreeMemory {
    /// The buffers that were freed, as a stack: the buffer freed last is allocated next, because it
    /// is most likely to be in a cache.
    released: Vec<u32>,
    /// For each buffer index, whether the buffer is in `released`. Missing bits count as not set.
    is_released: BitSet,
    /// Index of the first buffer that was never allocated. No buffer after it was allocated either.
    fresh: u32,
    /// Total number of buffers.
    total: u32,
    pub(super) rings: Arena,
}

impl FreeMemory {
    pub(super) fn all(header: &RegionHeader) -> Self {
        Self {
            released: Vec::new(),
            is_released: BitSet::default(),
            fresh: RESERVED_BUFS,
            total: header.bufs,
            rings: Arena::new(header.ring_start, header.buf_start),
        }
    }

    /// Restores the state that [`Self::free_buf_state`] returned; `None` if a region of this size
    /// cannot have it.
    pub(super) fn restored(header: &RegionHeader, left: &FreeBufs) -> Option<Self> {
        let total = header.bufs;
        if !(RESERVED_BUFS..=total).contains(&left.fresh) {
            return None;
        }
        let is_given = BitSet(left.released.clone());
        let given: Vec<u32> = is_given.ones().collect();
        let right = |idx: &u32| (RESERVED_BUFS..left.fresh).contains(idx);
        given.iter().all(right).then(|| Self {
            released: given,
            is_released: is_given,
            fresh: left.fresh,
            total,
            rings: Arena::new(header.ring_start, header.buf_start),
        })
    }

    /// Returns which buffers are free.
    pub(super) fn free_buf_state(&self) -> FreeBufs {
        FreeBufs { fresh: self.fresh, released: self.is_released.0.clone() }
    }

    /// Number of free buffers.
    pub(super) fn bufs(&self) -> u32 {
        self.released.len() as u32 + (self.total - self.fresh)
    }

    /// Allocates `count` buffers; `None` if fewer are free.
    pub(super) fn alloc(&mut self, count: u32) -> Option<Vec<u32>> {
        if count > self.bufs() {
            return None;
        }
        let keep = self.released.len().saturating_sub(count as usize);
        let mut taken: Vec<u32> = self.released.drain(keep..).rev().collect();
        for &idx in &taken {
            self.is_released.set(idx, false);
        }
        let end = self.fresh + (count - taken.len() as u32);
        taken.extend(self.fresh..end);
        self.fresh = end;
        Some(taken)
    }

    /// Frees the buffer with this index, which must exist. Does nothing if the buffer is free
    /// already.
    pub(super) fn release(&mut self, idx: u32) {
        if idx < self.fresh && !self.is_released.get(idx) {
            self.is_released.set(idx, true);
            self.released.push(idx);
        }
    }
}
