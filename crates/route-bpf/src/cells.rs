//! The cells of an IPv4 table in a mapped array.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use slipring_bpf::MappedArray;
use slipring_classify::dir24::Cells;

use crate::layout::ROOT_CELLS;

/// A part of an IPv4 table in which programs look up destinations: the root, with a cell for each
/// /24, or the tail, with blocks of 256 cells.
#[derive(Debug, Clone)]
pub struct MappedCells {
    array: Arc<MappedArray>,
    first: usize,
    len: usize,
}

impl MappedCells {
    /// The root and the tail of a table.
    pub(crate) fn of(array: &Arc<MappedArray>) -> (Self, Self) {
        let root = ROOT_CELLS as usize;
        let all = array.value_size() / 2;
        let part = |first, len| Self { array: Arc::clone(array), first, len };
        (part(0, root), part(root, all - root))
    }

    #[inline]
    fn cell(&self, at: usize) -> &AtomicU16 {
        assert!(at < self.len, "cell {at} of {}", self.len);
        self.array.atomic(0, 2 * (self.first + at)).expect("the array has all cells")
    }
}

impl Cells for MappedCells {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn get(&self, at: usize) -> u16 {
        self.cell(at).load(Ordering::Acquire)
    }

    /// Release: the program loads a cell of a block at an index that it has loaded from the root.
    /// So this load sees everything that was stored before the block's number was stored in the
    /// root.
    #[inline]
    fn set(&self, at: usize, value: u16) {
        self.cell(at).store(value, Ordering::Release);
        #[cfg(test)]
        crate::testing::note_store(&self.array);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{BpfLimits, map};

    #[test]
    fn root_and_tail_are_next_to_each_other() {
        let limits = BpfLimits { tail_blocks: 2, ..BpfLimits::default() };
        let spec = limits.array(map::V4).unwrap();
        let array = Arc::new(MappedArray::in_memory(&spec).unwrap());
        let (root, tail) = MappedCells::of(&array);
        assert_eq!((root.len(), tail.len()), (1 << 24, 512));
        tail.fill(0..512, 7);
        root.set((1 << 24) - 1, 9);
        assert_eq!((root.get((1 << 24) - 1), tail.get(0), tail.get(511)), (9, 7, 7));
    }
}
