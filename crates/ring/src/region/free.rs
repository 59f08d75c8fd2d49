//! What of a region nobody owns.

use crate::arena::Arena;
use crate::layout::{Header, RESERVED_BUFS};

/// Buffers and ring bytes to be had. Costs memory only for buffers that were taken once, so a
/// region may well be made larger than what is ever used of it.
#[derive(Debug)]
pub(super) struct Free {
    /// A stack: the buffer freed last is the likeliest to be in a cache, and goes next.
    given: Vec<u32>,
    /// By index, whether a buffer is in `given`; as long as `fresh` says.
    is_given: Vec<bool>,
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
            is_given: vec![false; RESERVED_BUFS as usize],
            fresh: RESERVED_BUFS,
            total: header.bufs,
            rings: Arena::new(header.ring_start, header.buf_start),
        }
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
            self.is_given[idx as usize] = false;
        }
        let end = self.fresh + (count - taken.len() as u32);
        taken.extend(self.fresh..end);
        self.fresh = end;
        self.is_given.resize(end as usize, false);
        Some(taken)
    }

    /// Gives back a buffer of those that exist; one that was not taken is left alone.
    pub(super) fn give(&mut self, idx: u32) {
        if let Some(is_given @ false) = self.is_given.get_mut(idx as usize) {
            *is_given = true;
            self.given.push(idx);
        }
    }
}
