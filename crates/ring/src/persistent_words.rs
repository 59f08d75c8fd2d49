//! State that a host keeps for a ring or a file. It is in words of a region, so that a successor
//! process can resume it. Programs do not map that region. There is one exception: the words of a
//! queue that can be lent are in the region of the queue's rings.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::arena::ARENA_ALIGN_BYTES;
use crate::region::{Region, RegionError};

/// Words in `LINES` cache line pairs; dropping the value frees their bytes in the region.
#[derive(Debug)]
pub struct PersistentWords<const LINES: u64 = 1>(AttachedWords<LINES>);

impl<const LINES: u64> PersistentWords<LINES> {
    const LEN: u64 = LINES * ARENA_ALIGN_BYTES;

    /// Allocates words that are all 0.
    ///
    /// # Errors
    /// [`RegionError::OutOfRingSpace`] if the ring area has no space for the words.
    pub fn new(region: &Arc<Region>) -> Result<Self, RegionError> {
        let offset = region.alloc_ring_bytes(Self::LEN)?;
        Ok(Self(AttachedWords { region: region.clone(), offset }))
    }

    /// Resumes the words that a previous process had at offset `at`, with their values.
    ///
    /// # Errors
    /// [`RegionError::OutOfRingSpace`] if the range is not free, or not in the ring area.
    pub fn resume(region: &Arc<Region>, at: u64) -> Result<Self, RegionError> {
        region.reserve_ring_bytes(at, Self::LEN)?;
        Ok(Self(AttachedWords { region: region.clone(), offset: at }))
    }

    /// The words' offset in the region, for [`Self::resume`].
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Word `i` of line pair `line`.
    ///
    /// # Panics
    /// If `line` is not below `LINES`, or `i` is not below the number of words in a line pair.
    #[must_use]
    #[inline(always)]
    pub fn word(&self, line: u64, i: u64) -> &AtomicU64 {
        self.0.word(line, i)
    }
}

/// Like [`PersistentWords`], but another process created and owns the words. They are accessed in a
/// mapping of that process's memory.
#[derive(Debug)]
pub struct AttachedWords<const LINES: u64 = 1> {
    region: Arc<Region>,
    offset: u64,
}

impl<const LINES: u64> AttachedWords<LINES> {
    /// Returns access to the persistent words at `offset` of the region; `None` if they would not
    /// be within its ring area.
    #[must_use]
    pub fn attach(region: &Arc<Region>, offset: u64) -> Option<Self> {
        let inside = region.in_ring_area(offset, LINES * ARENA_ALIGN_BYTES);
        inside.then(|| Self { region: region.clone(), offset })
    }

    /// Same as [`PersistentWords::word`].
    ///
    /// # Panics
    /// If `line` is not below `LINES`, or `i` is not below the number of words in a line pair.
    #[must_use]
    #[inline(always)]
    pub fn word(&self, line: u64, i: u64) -> &AtomicU64 {
        assert!(line < LINES && i < ARENA_ALIGN_BYTES / 8, "a word of the cell");
        self.region.ring_word(self.offset + line * ARENA_ALIGN_BYTES + 8 * i)
    }
}

impl<const LINES: u64> Drop for PersistentWords<LINES> {
    fn drop(&mut self) {
        self.0.region.release_ring_bytes(self.0.offset, Self::LEN);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::region::{Geometry, HugePages};

    #[test]
    fn words_are_found_again_where_they_were() {
        let geometry = Geometry { ring_bytes: 4096, bufs: 2, buf_size: 2048 };
        let region = Region::create(geometry, HugePages::Never).unwrap();
        let cell = PersistentWords::<2>::new(&region).unwrap();
        cell.word(1, 3).store(7, Ordering::Relaxed);
        let at = cell.offset();
        assert!(PersistentWords::<1>::resume(&region, at).is_err(), "somebody has it");
        std::mem::forget(cell);
        region.release_ring_bytes(at, 256);
        let again = PersistentWords::<2>::resume(&region, at).unwrap();
        assert_eq!(again.word(1, 3).load(Ordering::Relaxed), 7);
    }

    #[test]
    fn words_lie_apart_are_found_by_others_and_go_back_to_their_region() {
        let geometry = Geometry { ring_bytes: 4096, bufs: 2, buf_size: 2048 };
        let region = Region::create_shared(geometry, HugePages::Never).unwrap();
        for _ in 0..40 {
            let words = PersistentWords::<2>::new(&region).unwrap();
            let others = AttachedWords::<2>::attach(&region, words.offset()).unwrap();
            for (line, i) in [(0, 0), (0, 15), (1, 0), (1, 15)] {
                words.word(line, i).store(1 + 100 * line + i, Ordering::Relaxed);
            }
            for (line, i) in [(0, 0), (0, 15), (1, 0), (1, 15)] {
                assert_eq!(others.word(line, i).load(Ordering::Relaxed), 1 + 100 * line + i);
            }
        }
        // Two line pairs do not fit before the end of the ring area.
        assert!(AttachedWords::<2>::attach(&region, region.buf_start() - 128).is_none());
        assert!(AttachedWords::<2>::attach(&region, region.buf_start() - 256).is_some());
    }
}
