//! Maps every IPv4 address to a 15-bit number: a DIR-24-8 table that one writer can change while
//! others read.
//!
//! ```text
//!   address  | 24 bits: slot | 8 bits |
//!                  |             |
//!   root[2^24] --> cell          |
//!                  |             |
//!                  +- 0nnn…  number of all 256 addresses
//!                  +- 1bbb…  block b --> tail[256 b + low 8 bits]: number of one address
//! ```
//!
//! DIR-24-8 (Gupta, Lin, McKeown: "Routing Lookups in Hardware at Memory Access Speeds", Infocom
//! 1998) needs one memory access for an address, or two if the addresses of its /24 have different
//! numbers. The root takes 32 MiB, a block 512 bytes. The cells lie in any [`Cells`]: the heap, or
//! memory that is shared with a BPF program.
//!
//! [`Dir24`] looks up; [`Dir24Writer`] changes the numbers. The table does not know prefixes: for a
//! changed prefix, its owner computes the final numbers of all addresses in it, as ranges.
//!
//! # Concurrency
//! There is one writer. Each lookup of a reader finds a number that its address had at some moment
//! during the lookup, never one of another address:
//! 1. A cell is stored whole. So a number, in the root or in a block, is replaced atomically.
//! 2. All cells of a block are stored before the root cell that names the block. That cell is
//!    stored with release and loaded with acquire: a reader that finds the block finds its
//!    contents.
//! 3. The cells of a block do not change after the root cell has stopped naming it, because the
//!    block is retired, not free. A reader that still holds the block's index finds the numbers
//!    that the addresses had until then.
//! 4. A retired block is free after [`Dir24Writer::reclaim`] or [`Dir24Writer::reclaim_first`],
//!    which the owner calls when no reader can hold the block's index: each reader has begun
//!    another batch since, or an RCU grace period is over.
//!
//! The numbers of different addresses change one after the other: a reader of two addresses may
//! find only one of them changed.
//!
//! # Invariants
//! 1. A root cell with the top bit set names a block of the tail. All other cells are numbers.
//! 2. A block is named by one root cell, or free, or retired. While it is named, its numbers are
//!    not all equal.

mod cells;
#[cfg(test)]
mod models;
#[cfg(test)]
mod tests;
mod writer;

pub use cells::{Cells, HeapCells};
pub use writer::{Dir24Writer, NoBlocks};

/// The number of cells in the root.
pub const ROOT_CELLS: usize = 1 << 24;
/// The number of cells in a block of the tail.
pub const BLOCK_CELLS: usize = 1 << 8;
/// The greatest number to which an address can be mapped.
pub const MAX_NUMBER: u16 = BLOCK_FLAG - 1;
/// The greatest number of blocks in the tail.
pub const MAX_BLOCKS: usize = BLOCK_FLAG as usize;
/// Set in root cells that name blocks.
const BLOCK_FLAG: u16 = 1 << 15;
/// The number of addresses that are looked up together.
const LOOKUP_BATCH: usize = 64;

/// The cells of a table, for lookups.
#[derive(Clone, Debug)]
pub struct Dir24<C> {
    root: C,
    tail: C,
}

impl<C: Cells> Dir24<C> {
    /// Makes a table of [`ROOT_CELLS`] cells, and a tail of whole blocks. If all cells are 0, every
    /// address has the number 0.
    ///
    /// # Panics
    /// If `root` has another length, or if `tail` has a part of a block or more than [`MAX_BLOCKS`]
    /// blocks.
    #[must_use]
    pub fn new(root: C, tail: C) -> Self {
        assert_eq!(root.len(), ROOT_CELLS, "cells of the root");
        assert!(tail.len().is_multiple_of(BLOCK_CELLS), "the tail has whole blocks");
        assert!(tail.len() / BLOCK_CELLS <= MAX_BLOCKS, "blocks of the tail");
        Self { root, tail }
    }

    /// The cells of the root, for programs that search without this crate.
    pub const fn root(&self) -> &C {
        &self.root
    }

    /// The cells of the tail, for programs that search without this crate.
    pub const fn tail(&self) -> &C {
        &self.tail
    }

    /// Returns the number of `address`, which is in host byte order.
    #[inline]
    #[must_use]
    pub fn lookup(&self, address: u32) -> u16 {
        self.resolve(self.root.get(slot_of(address)), address)
    }

    /// Writes the number of each address to the same index of `numbers`. This is cheaper than
    /// single lookups if many addresses are in blocks: only one branch for each batch depends on
    /// cells, so memory accesses overlap.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn lookup_all(&self, addresses: &[u32], numbers: &mut [u16]) {
        assert_eq!(addresses.len(), numbers.len(), "addresses and numbers");
        let batches = addresses.chunks(LOOKUP_BATCH).zip(numbers.chunks_mut(LOOKUP_BATCH));
        batches.for_each(|(addresses, numbers)| self.lookup_batch(addresses, numbers));
    }

    /// Like [`Self::lookup_all`], but converts each number with `new`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn lookup_with<T>(&self, addresses: &[u32], numbers: &mut [T], new: impl Fn(u16) -> T) {
        assert_eq!(addresses.len(), numbers.len(), "addresses and numbers");
        let mut batch = [0; LOOKUP_BATCH];
        let batches = addresses.chunks(LOOKUP_BATCH).zip(numbers.chunks_mut(LOOKUP_BATCH));
        for (addresses, numbers) in batches {
            self.lookup_batch(addresses, &mut batch[..addresses.len()]);
            numbers.iter_mut().zip(batch).for_each(|(number, found)| *number = new(found));
        }
    }

    #[inline(always)]
    fn lookup_batch(&self, addresses: &[u32], numbers: &mut [u16]) {
        let mut all = 0;
        for (cell, &address) in numbers.iter_mut().zip(addresses) {
            *cell = self.root.get(slot_of(address));
            all |= *cell;
        }
        if block_of(all).is_some() {
            for (cell, &address) in numbers.iter_mut().zip(addresses) {
                *cell = self.resolve_without_branch(*cell, address);
            }
        }
    }

    /// Returns the number of an address whose root cell is known.
    #[inline(always)]
    fn resolve(&self, cell: u16, address: u32) -> u16 {
        block_of(cell).map_or(cell, |block| self.tail.get(tail_cell(block, address)))
    }

    /// Like [`Self::resolve`], for a table that has blocks. If the cell is a number, loads the
    /// first cell of the tail nevertheless and ignores it.
    #[inline(always)]
    fn resolve_without_branch(&self, cell: u16, address: u32) -> u16 {
        let names_block = cell >> BLOCK_FLAG.trailing_zeros();
        let at = usize::from(names_block) * tail_cell(cell & !BLOCK_FLAG, address);
        let in_tail = self.tail.get(at);
        if names_block == 1 { in_tail } else { cell }
    }
}

/// The index of an address in the root.
#[inline(always)]
const fn slot_of(address: u32) -> usize {
    (address >> 8) as usize
}

/// The index of an address in its block.
#[inline(always)]
const fn low(address: u32) -> usize {
    address as usize % BLOCK_CELLS
}

/// The block that a root cell names; `None` if the cell does not name a block.
#[inline(always)]
const fn block_of(cell: u16) -> Option<u16> {
    if cell & BLOCK_FLAG != 0 { Some(cell & !BLOCK_FLAG) } else { None }
}

/// The index in the tail of an address whose slot has a block.
#[inline(always)]
const fn tail_cell(block: u16, address: u32) -> usize {
    block as usize * BLOCK_CELLS + low(address)
}
