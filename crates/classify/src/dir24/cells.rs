//! The storage of a table's cells.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt::Debug;
use core::ops::Range;
use core::sync::atomic::AtomicU16;
use core::sync::atomic::Ordering::{Acquire, Release};

/// Storage of 16-bit cells, which many threads may read while one thread writes.
///
/// # Contract
/// 1. A cell is loaded and stored whole.
/// 2. A load that returns a stored value also makes visible all earlier stores, in any cell.
pub trait Cells: Send + Sync + Debug {
    /// The number of cells.
    fn len(&self) -> usize;

    /// Returns whether there are no cells.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Loads a cell, with acquire ordering.
    ///
    /// # Panics
    /// If there is no such cell.
    fn get(&self, at: usize) -> u16;

    /// Stores a cell, with release ordering.
    ///
    /// # Panics
    /// If there is no such cell.
    fn set(&self, at: usize, value: u16);

    /// Stores the same value in many cells, as [`Self::set`] does.
    ///
    /// # Panics
    /// If there are no such cells.
    fn fill(&self, range: Range<usize>, value: u16) {
        range.for_each(|at| self.set(at, value));
    }
}

/// Cells on the heap.
#[derive(Debug)]
pub struct HeapCells(Box<[AtomicU16]>);

impl HeapCells {
    /// Makes cells with the value 0, which take two bytes each.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self((0..len).map(|_| AtomicU16::new(0)).collect())
    }
}

impl Cells for HeapCells {
    #[inline(always)]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn get(&self, at: usize) -> u16 {
        self.0[at].load(Acquire)
    }

    #[inline(always)]
    fn set(&self, at: usize, value: u16) {
        self.0[at].store(value, Release);
    }

    fn fill(&self, range: Range<usize>, value: u16) {
        self.0[range].iter().for_each(|cell| cell.store(value, Release));
    }
}

impl<C: Cells + ?Sized> Cells for Arc<C> {
    #[inline(always)]
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline(always)]
    fn get(&self, at: usize) -> u16 {
        (**self).get(at)
    }

    #[inline(always)]
    fn set(&self, at: usize, value: u16) {
        (**self).set(at, value);
    }

    fn fill(&self, range: Range<usize>, value: u16) {
        (**self).fill(range, value);
    }
}
