//! The lookup structures: DIR-24-8 for IPv4, which is changed in place; interval trees for IPv6,
//! which are replaced.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt::Debug;

use slipring_classify::dir24::{
    BLOCK_CELLS, Cells, Dir24, Dir24Writer, HeapCells, NoBlocks, ROOT_CELLS,
};
use slipring_classify::intervals::IntervalTree;

use crate::tables::{Ipv4Lookup, Ipv6Lookup, TargetIndex};

/// The IPv4 table of a VRF, as its writer uses it.
pub trait Ipv4Table: Send + Debug {
    /// The table, for lookups.
    fn reader(&self) -> Arc<dyn Ipv4Lookup>;

    /// Sets the targets of the addresses from `start` to `end`. The form of `ranges` is that of
    /// [`Dir24Writer::set`].
    ///
    /// # Errors
    /// If there is no space. Nothing has changed then.
    fn set(&mut self, start: u32, end: u32, ranges: &[(u32, u16)]) -> Result<(), NoBlocks>;

    /// Returns the number of blocks that changes have freed, but that lookups may still use.
    fn retired_blocks(&self) -> usize;

    /// Makes the `count` blocks available that were freed first. Only call this when every lookup
    /// that was running when they were freed has ended.
    fn reclaim(&mut self, count: usize);

    /// Returns a lower bound of the number of blocks that are free.
    fn free_blocks(&self) -> usize;
}

/// Returns `table` together with a writer for it. All addresses of the table must have the value 0.
/// Its cells may be in any memory: on the heap, or in a BPF map.
#[must_use]
pub fn dir24_table<C: Cells + 'static>(table: Dir24<C>) -> Box<dyn Ipv4Table> {
    let writer = Dir24Writer::new(&table);
    Box::new(Dir24Table { table: Arc::new(table), writer })
}

/// Makes a table on the heap, of 32 MiB and 512 bytes for each of `blocks`. A block is needed for
/// each /24 in which addresses have different routes.
///
/// # Panics
/// If there are more than 2¹⁵ blocks.
#[must_use]
pub fn heap_table(blocks: usize) -> Box<dyn Ipv4Table> {
    let (root, tail) = (HeapCells::new(ROOT_CELLS), HeapCells::new(blocks * BLOCK_CELLS));
    dir24_table(Dir24::new(root, tail))
}

#[derive(Debug)]
struct Dir24Table<C> {
    table: Arc<Dir24<C>>,
    writer: Dir24Writer,
}

impl<C: Cells + 'static> Ipv4Table for Dir24Table<C> {
    fn reader(&self) -> Arc<dyn Ipv4Lookup> {
        Arc::new(Dir24Reader(self.table.clone()))
    }

    fn set(&mut self, start: u32, end: u32, ranges: &[(u32, u16)]) -> Result<(), NoBlocks> {
        self.writer.set(&self.table, start, end, ranges)
    }

    fn retired_blocks(&self) -> usize {
        self.writer.retired_blocks()
    }

    fn reclaim(&mut self, count: usize) {
        self.writer.reclaim_first(count);
    }

    fn free_blocks(&self) -> usize {
        self.writer.free_blocks()
    }
}

#[derive(Debug)]
struct Dir24Reader<C>(Arc<Dir24<C>>);

impl<C: Cells> Ipv4Lookup for Dir24Reader<C> {
    fn lookup(&self, destinations: &[u32], targets: &mut [TargetIndex]) {
        self.0.lookup_with(destinations, targets, TargetIndex);
    }
}

/// The IPv6 table of a VRF.
#[derive(Debug)]
pub(crate) struct Ipv6Tree(pub IntervalTree);

/// Number of destinations that are looked up together.
const BATCH: usize = 64;

impl Ipv6Lookup for Ipv6Tree {
    fn lookup(&self, destinations: &[u128], targets: &mut [TargetIndex]) {
        assert_eq!(destinations.len(), targets.len(), "a target for each destination");
        for (destinations, targets) in destinations.chunks(BATCH).zip(targets.chunks_mut(BATCH)) {
            let mut numbers = [0; BATCH];
            self.0.get_all(destinations, &mut numbers);
            for (target, number) in targets.iter_mut().zip(numbers) {
                // The tree contains only 16-bit numbers.
                *target = TargetIndex(number as u16);
            }
        }
    }

    fn intervals(&self) -> Option<&IntervalTree> {
        Some(&self.0)
    }
}
