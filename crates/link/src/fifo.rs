//! A queue of frames in blocks that are reused, the most recently emptied first.
//!
//! A ring buffer with the capacity of the longest queue so far is traversed completely even when it
//! holds few frames, so every round touches memory that has left the caches. This queue writes to
//! the memory that it has read last.
//!
//! Not for: frames that overtake.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Frames per small block. The block is small, because each of thousands of links may have such
/// blocks.
const SMALL_BLOCK_FRAMES: usize = 32;

/// Maximum number of small blocks in a queue. Further blocks are large: a long queue moves from
/// block to block all the time, and hardware prefetches contiguous memory.
const SMALL_BLOCKS: usize = 4;

/// Bytes of a large block: about as far as hardware prefetch reaches.
const LARGE_BLOCK_BYTES: usize = 4096;

/// An emptied block is kept if there are fewer spare blocks than this number plus one for each
/// block that is still in use.
const MIN_SPARE_BLOCKS: usize = 2;

/// A FIFO of blocks.
///
/// The first block is a field, so that a short queue reaches its frames directly. With thousands of
/// links, each pointer on the path is a cache miss.
///
/// # Invariants
/// 1. The queue consists of the frames from `next` on in the first block, all frames in the blocks
///    in between, and the frames before `end` in the last block, which has space for `size` frames.
/// 2. Only the first block may be empty, and only when `more` is empty; `next` and `end` are then
///    0.
/// 3. `capacity` is the number of frames for which all blocks together, without the spare blocks,
///    have space.
pub(crate) struct BlockFifo<T> {
    first: Box<[T]>,
    more: VecDeque<Box<[T]>>,
    next: usize,
    end: usize,
    size: usize,
    capacity: usize,
    spare: Vec<Box<[T]>>,
}

impl<T: Copy> BlockFifo<T> {
    pub(crate) fn new() -> Self {
        let (first, more, spare) = (Box::default(), VecDeque::new(), Vec::new());
        Self { first, more, next: 0, end: 0, size: 0, capacity: 0, spare }
    }

    pub(crate) fn len(&self) -> usize {
        self.capacity - self.next - (self.size - self.end)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.next == self.end && self.more.is_empty()
    }

    #[inline]
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        if self.is_empty() { None } else { self.first.get_mut(self.next) }
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        if self.is_empty() { None } else { self.first.get(self.next) }
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<&T> {
        let last = self.more.back().unwrap_or(&self.first);
        if self.is_empty() { None } else { last.get(self.end - 1) }
    }

    #[inline]
    pub(crate) fn push(&mut self, frame: T) {
        if self.end == self.size {
            self.add_block(frame);
        }
        let last = self.more.back_mut().unwrap_or(&mut self.first);
        last[self.end] = frame;
        self.end += 1;
    }

    #[inline]
    pub(crate) fn extend(&mut self, frames: impl ExactSizeIterator<Item = T>) {
        let mut frames = frames;
        while let Some(frame) = frames.next() {
            self.push(frame);
            let last = self.more.back_mut().unwrap_or(&mut self.first);
            let room = &mut last[self.end..];
            self.end += room.len().min(frames.len());
            room.iter_mut().zip(&mut frames).for_each(|(slot, frame)| *slot = frame);
        }
    }

    /// Returns the leading frames that are contiguous in memory: those in the first block.
    #[inline]
    pub(crate) fn run(&self) -> &[T] {
        let end = if self.more.is_empty() { self.end } else { self.first.len() };
        &self.first[self.next..end]
    }

    /// Removes the first `count` frames, at most one whole [run](Self::run).
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.next += count;
        if self.more.is_empty() {
            if self.next == self.end {
                (self.next, self.end) = (0, 0);
            }
        } else if self.next == self.first.len() {
            self.drop_block();
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let frame = *self.front()?;
        self.consume(1);
        Some(frame)
    }

    /// Removes the first block, which is used up, and advances to the second.
    fn drop_block(&mut self) {
        let most = MIN_SPARE_BLOCKS + self.more.len();
        let Some(next) = self.more.pop_front() else { return };
        let emptied = core::mem::replace(&mut self.first, next);
        self.next = 0;
        self.capacity -= emptied.len();
        if self.spare.len() < most {
            self.spare.push(emptied);
        }
    }

    fn add_block(&mut self, fill: T) {
        let size = if self.more.len() < SMALL_BLOCKS - 1 {
            SMALL_BLOCK_FRAMES
        } else {
            LARGE_BLOCK_BYTES / size_of::<T>()
        };
        let spare = self.spare.pop().filter(|block| block.len() >= size);
        let block = spare.unwrap_or_else(|| vec![fill; size].into_boxed_slice());
        (self.end, self.size) = (0, block.len());
        self.capacity += block.len();
        if self.first.is_empty() {
            self.first = block;
        } else {
            self.more.push_back(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    use super::{BlockFifo, LARGE_BLOCK_BYTES, MIN_SPARE_BLOCKS, SMALL_BLOCK_FRAMES, SMALL_BLOCKS};

    const SMALL: usize = SMALL_BLOCKS * SMALL_BLOCK_FRAMES;
    const LARGE_BLOCK: usize = LARGE_BLOCK_BYTES / size_of::<u64>();

    #[test]
    fn a_queue_has_four_small_blocks_and_then_large_ones() {
        let mut fifo = BlockFifo::new();
        for frame in 1..=SMALL + 2 * LARGE_BLOCK {
            fifo.push(frame as u64);
            let large = frame.saturating_sub(SMALL).div_ceil(LARGE_BLOCK) * LARGE_BLOCK;
            let small = frame.min(SMALL).next_multiple_of(SMALL_BLOCK_FRAMES);
            assert_eq!(fifo.capacity, small + large, "{frame} frames");
        }
    }

    #[test]
    fn an_emptied_queue_keeps_about_half_of_its_blocks() {
        let mut fifo = BlockFifo::new();
        fifo.extend((0..10_000u64).collect::<Vec<_>>().into_iter());
        let half = fifo.more.len().div_ceil(2);
        while fifo.pop().is_some() {}
        assert_eq!((fifo.len(), fifo.more.len()), (0, 0));
        assert!((half..=half + MIN_SPARE_BLOCKS).contains(&fifo.spare.len()));
    }

    #[test]
    fn a_spare_block_is_used_again() {
        let mut fifo = BlockFifo::new();
        fifo.extend((0..SMALL as u64).collect::<Vec<_>>().into_iter());
        (0..SMALL_BLOCK_FRAMES).for_each(|_| _ = fifo.pop());
        let spare = fifo.spare.last().unwrap().as_ptr();
        fifo.push(7);
        assert_eq!((fifo.spare.len(), fifo.more.back().unwrap().as_ptr()), (0, spare));
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in(
            steps in prop::collection::vec((0u32..700, 0usize..700), 1..40),
        ) {
            let (mut fifo, mut list, mut next) = (BlockFifo::new(), VecDeque::new(), 0u64);
            for (pushed, popped) in steps {
                let frames: Vec<u64> = (next..next + u64::from(pushed)).collect();
                next += u64::from(pushed);
                list.extend(&frames);
                let (alone, together) = frames.split_at(frames.len().min(3));
                alone.iter().for_each(|&frame| fifo.push(frame));
                fifo.extend(together.iter().copied());
                prop_assert_eq!(fifo.back(), list.back());
                let mut left = popped.min(list.len());
                while left > 0 {
                    let run = fifo.run();
                    let run = &run[..run.len().min(left)];
                    left -= run.len();
                    prop_assert!(!run.is_empty());
                    prop_assert!(run.iter().eq(list.drain(..run.len()).collect::<Vec<_>>().iter()));
                    fifo.consume(run.len());
                }
                if popped % 2 == 0 {
                    prop_assert_eq!(fifo.pop(), list.pop_front());
                }
                prop_assert_eq!(fifo.len(), list.len());
                prop_assert_eq!(fifo.front(), list.front());
            }
        }
    }
}
