//! Allocates byte ranges of a region's ring area, lowest first, and frees them.

use std::collections::BTreeMap;

/// Alignment of allocated ranges, in bytes: a pair of cache lines. So memory of two parties never
/// shares such a pair.
pub(crate) const ARENA_ALIGN_BYTES: u64 = 128;

/// Free ranges by offset. Neighbouring free ranges are merged, so an arena without allocations is
/// one range.
#[derive(Debug)]
pub(crate) struct Arena {
    free: BTreeMap<u64, u64>,
}

impl Arena {
    /// Creates an arena over `start..end`; both are multiples of [`ARENA_ALIGN_BYTES`].
    pub(crate) fn new(start: u64, end: u64) -> Self {
        let mut free = BTreeMap::new();
        if end > start {
            free.insert(start, end - start);
        }
        Self { free }
    }

    /// Allocates `len` bytes, rounded up to a multiple of [`ARENA_ALIGN_BYTES`], at the start of
    /// the lowest free range that is long enough. Returns their offset; `None` if every free range
    /// is shorter.
    pub(crate) fn alloc(&mut self, len: u64) -> Option<u64> {
        let len = len.next_multiple_of(ARENA_ALIGN_BYTES);
        let (&at, &room) = self.free.iter().find(|&(_, &room)| room >= len)?;
        self.free.remove(&at);
        if room > len {
            self.free.insert(at + len, room - len);
        }
        Some(at)
    }

    /// Returns the length of the longest free range; 0 if nothing is free.
    pub(crate) fn longest(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }

    /// Allocates `len` bytes, rounded up as in [`Self::alloc`], at exactly `at`. Returns false if
    /// they are not all free.
    pub(crate) fn alloc_at(&mut self, at: u64, len: u64) -> bool {
        let Some(len) = len.checked_next_multiple_of(ARENA_ALIGN_BYTES) else { return false };
        let Some((&start, &room)) = self.free.range(..=at).next_back() else { return false };
        let Some(behind) = (start + room).checked_sub(at).and_then(|left| left.checked_sub(len))
        else {
            return false;
        };
        if len == 0 || !at.is_multiple_of(ARENA_ALIGN_BYTES) {
            return false;
        }
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        if behind > 0 {
            self.free.insert(at + len, behind);
        }
        true
    }

    /// Frees the range at `at`, which was allocated with the same `len`.
    pub(crate) fn release(&mut self, mut at: u64, len: u64) {
        let mut len = len.next_multiple_of(ARENA_ALIGN_BYTES);
        if let Some(after) = self.free.remove(&(at + len)) {
            len += after;
        }
        if let Some((&before, &room)) = self.free.range(..at).next_back()
            && before + room == at
        {
            at = before;
            len += room;
        }
        self.free.insert(at, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_lowest_hole_is_reused_first() {
        let mut arena = Arena::new(0, 1024);
        let [a, b, _] = [(); 3].map(|()| arena.alloc(100).unwrap());
        arena.release(b, 100);
        arena.release(a, 100);
        assert_eq!(arena.alloc(256), Some(0));
    }

    #[test]
    fn a_range_that_was_handed_out_before_is_taken_once_and_comes_back() {
        let mut arena = Arena::new(0, 1024);
        assert!(arena.alloc_at(256, 200) && arena.alloc_at(0, 128) && arena.alloc_at(512, 512));
        for (at, len) in [(256, 1), (384, 128), (128, 129), (1024, 1), (130, 4), (128, 0)] {
            assert!(!arena.alloc_at(at, len), "{at} {len}");
        }
        assert!(!arena.alloc_at(u64::MAX - 127, 128) && !arena.alloc_at(128, u64::MAX - 256));
        for (at, len) in [(0, 128), (512, 512), (256, 200)] {
            arena.release(at, len);
        }
        assert_eq!(arena.alloc(1024), Some(0));
    }

    #[test]
    fn what_lies_before_a_range_that_is_taken_ends_where_it_begins() {
        let mut arena = Arena::new(128, 1152);
        assert!(arena.alloc_at(512, 128));
        assert_eq!(arena.alloc(512), Some(640), "it does not fit before");
        assert_eq!((arena.alloc(384), arena.alloc(1)), (Some(128), None));
    }

    proptest! {
        #[test]
        fn ranges_never_overlap_and_all_come_back(ops in prop::collection::vec((any::<bool>(), 1u64..600), 1..80)) {
            let mut arena = Arena::new(128, 128 + 4096);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (take, len) in ops {
                if take {
                    if let Some(at) = arena.alloc(len) {
                        let end = at + len.next_multiple_of(ARENA_ALIGN_BYTES);
                        for &(other, other_len) in &held {
                            let other_end = other + other_len.next_multiple_of(ARENA_ALIGN_BYTES);
                            prop_assert!(end <= other || other_end <= at);
                        }
                        prop_assert!(end <= 128 + 4096);
                        held.push((at, len));
                    }
                } else if let Some((at, len)) = held.pop() {
                    arena.release(at, len);
                }
            }
            for (at, len) in held {
                arena.release(at, len);
            }
            prop_assert_eq!(arena.alloc(4096), Some(128));
        }
    }
}
