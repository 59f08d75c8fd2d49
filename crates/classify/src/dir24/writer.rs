//! The writer of a table.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::{BLOCK_CELLS, BLOCK_FLAG, Cells, Dir24, MAX_NUMBER, block_of, low, slot_of, tail_cell};

/// The tail has too few free blocks for a change.
///
/// The caller can [`reclaim`](Dir24Writer::reclaim) retired blocks and try again, or give all
/// addresses of the /24 one number, which never needs a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoBlocks;

impl fmt::Display for NoBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no free block for prefixes longer than /24")
    }
}

impl core::error::Error for NoBlocks {}

/// The only writer of a [`Dir24`]. It keeps track of the free blocks of the tail.
#[derive(Debug)]
pub struct Dir24Writer {
    /// Free blocks. The last element is used next.
    free: Vec<u16>,
    /// Blocks that no root cell names, but whose index readers may still hold.
    retired: Vec<u16>,
}

impl Dir24Writer {
    /// Makes the writer of a table in which every address has the same number, such as a table of
    /// zeroed cells.
    #[must_use]
    pub fn new(table: &Dir24<impl Cells>) -> Self {
        let blocks = (table.tail.len() / BLOCK_CELLS) as u16;
        Self { free: (0..blocks).rev().collect(), retired: Vec::new() }
    }

    /// Sets the numbers of the addresses from `start` to `end`, both included. Each element of
    /// `ranges` has the first address of a range, and the number of all addresses up to the next
    /// range or up to `end`. The first range begins at `start`, and the ranges ascend.
    ///
    /// For a changed prefix, the ranges are the final numbers of all addresses in it: each longer
    /// prefix inside has its own range, followed by a range for the addresses after it.
    ///
    /// # Errors
    /// If the tail has too few free blocks. In this case nothing has changed.
    ///
    /// # Panics
    /// If `ranges` is not of this form, or a number is above [`MAX_NUMBER`].
    pub fn set(
        &mut self,
        table: &Dir24<impl Cells>,
        start: u32,
        end: u32,
        ranges: &[(u32, u16)],
    ) -> Result<(), NoBlocks> {
        check(start, end, ranges);
        let parts = || RangeParts { at: start.into(), end, ranges };
        let needed = parts().filter(|part| part.needs_block(table)).count();
        if needed > self.free.len() {
            return Err(NoBlocks);
        }
        for part in parts() {
            match part {
                RangePart::Slots(slots, number) => self.set_slots(table, slots, number),
                RangePart::Within(addresses) => self.set_within(table, &addresses),
            }
        }
        Ok(())
    }

    /// Frees the retired blocks. The caller must know that every lookup that had begun by the last
    /// [`Self::set`] has ended.
    pub fn reclaim(&mut self) {
        self.free.append(&mut self.retired);
    }

    /// Frees the `count` blocks that were retired first, or all if fewer are retired. The caller
    /// must know that every lookup that had begun when these were retired has ended.
    pub fn reclaim_first(&mut self, count: usize) {
        let count = count.min(self.retired.len());
        self.free.extend(self.retired.drain(..count));
    }

    /// The number of blocks that changes can use.
    #[must_use]
    pub const fn free_blocks(&self) -> usize {
        self.free.len()
    }

    /// The number of blocks that wait for [`Self::reclaim`].
    #[must_use]
    pub const fn retired_blocks(&self) -> usize {
        self.retired.len()
    }

    /// Gives all addresses of whole slots one number.
    fn set_slots(&mut self, table: &Dir24<impl Cells>, slots: Range<usize>, number: u16) {
        self.retired.extend(slots.clone().filter_map(|slot| block_of(table.root.get(slot))));
        table.root.fill(slots, number);
    }

    /// Sets the numbers of addresses of one slot.
    fn set_within(&mut self, table: &Dir24<impl Cells>, addresses: &SlotAddresses<'_>) {
        let slot = slot_of(addresses.first);
        let cell = table.root.get(slot);
        let before = slot_numbers(table, cell);
        let after = addresses.applied_to(before);
        let block = block_of(cell);
        if is_uniform(&after) {
            table.root.set(slot, after[0]);
            self.retired.extend(block);
        } else if let Some(block) = block {
            let changed = (0..BLOCK_CELLS).filter(|&at| before[at] != after[at]);
            changed.for_each(|at| table.tail.set(tail_cell(block, at as u32), after[at]));
        } else {
            let block = self.free.pop().expect("free blocks were counted");
            let cells = (0..BLOCK_CELLS as u32).map(|at| tail_cell(block, at));
            cells.zip(after).for_each(|(at, number)| table.tail.set(at, number));
            // This store makes the block visible to readers.
            table.root.set(slot, BLOCK_FLAG | block);
        }
    }
}

/// Panics if the arguments do not satisfy the requirements of [`Dir24Writer::set`].
fn check(start: u32, end: u32, ranges: &[(u32, u16)]) {
    assert!(
        ranges.first().is_some_and(|first| first.0 == start),
        "the first range is at the start"
    );
    assert!(ranges.last().is_some_and(|last| last.0 <= end), "ranges end at {end}");
    assert!(ranges.is_sorted_by(|a, b| a.0 < b.0), "ranges ascend");
    assert!(ranges.iter().all(|range| range.1 <= MAX_NUMBER), "a number above {MAX_NUMBER}");
}

/// Returns the numbers of a slot's addresses. `cell` is the root cell of the slot.
fn slot_numbers(table: &Dir24<impl Cells>, cell: u16) -> [u16; BLOCK_CELLS] {
    core::array::from_fn(|at| table.resolve(cell, at as u32))
}

fn is_uniform(numbers: &[u16; BLOCK_CELLS]) -> bool {
    numbers.iter().all(|&number| number == numbers[0])
}

/// A part of a change.
enum RangePart<'r> {
    /// All addresses of these slots get one number.
    Slots(Range<usize>, u16),
    /// Some addresses of one slot change, or get different numbers.
    Within(SlotAddresses<'r>),
}

impl RangePart<'_> {
    /// Returns whether this part turns one number of a slot into several, so that it needs a block.
    fn needs_block(&self, table: &Dir24<impl Cells>) -> bool {
        let Self::Within(addresses) = self else { return false };
        let cell = table.root.get(slot_of(addresses.first));
        block_of(cell).is_none() && !is_uniform(&addresses.applied_to([cell; BLOCK_CELLS]))
    }
}

/// The addresses of one slot that change.
struct SlotAddresses<'r> {
    first: u32,
    last: u32,
    /// The range that contains `first`, and all ranges after it.
    ranges: &'r [(u32, u16)],
}

impl SlotAddresses<'_> {
    /// Returns the numbers of the slot's addresses after the change.
    fn applied_to(&self, mut numbers: [u16; BLOCK_CELLS]) -> [u16; BLOCK_CELLS] {
        // Each range is written up to the last address that changes; the next range then overwrites
        // its part.
        for &(start, number) in self.ranges.iter().take_while(|range| range.0 <= self.last) {
            numbers[low(start.max(self.first))..=low(self.last)].fill(number);
        }
        numbers
    }
}

/// Cuts ranges into parts: runs of whole slots, and the remaining parts of slots.
struct RangeParts<'r> {
    /// The first address of the next part.
    at: u64,
    end: u32,
    /// The range that contains `at`, and all ranges after it.
    ranges: &'r [(u32, u16)],
}

impl RangeParts<'_> {
    /// Advances to the address `at`.
    fn advance(&mut self, at: u64) {
        self.at = at;
        while let [_, rest @ ..] = self.ranges
            && rest.first().is_some_and(|next| u64::from(next.0) <= at)
        {
            self.ranges = rest;
        }
    }
}

impl<'r> Iterator for RangeParts<'r> {
    type Item = RangePart<'r>;

    fn next(&mut self) -> Option<RangePart<'r>> {
        let first = u32::try_from(self.at).ok().filter(|&at| at <= self.end)?;
        let ranges = self.ranges;
        let range_end = ranges.get(1).map_or(u64::from(self.end) + 1, |next| next.0.into());
        let slots = (range_end - self.at) as usize / BLOCK_CELLS;
        if low(first) == 0 && slots > 0 {
            self.advance(self.at + (slots * BLOCK_CELLS) as u64);
            let slot = slot_of(first);
            return Some(RangePart::Slots(slot..slot + slots, ranges[0].1));
        }
        let last = (first | (BLOCK_CELLS as u32 - 1)).min(self.end);
        self.advance(u64::from(last) + 1);
        Some(RangePart::Within(SlotAddresses { first, last, ranges }))
    }
}
