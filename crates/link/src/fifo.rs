//! A queue of frames in blocks that are used again, the last emptied first.
//!
//! A ring as large as the queue has ever been is walked through from end to end however few are
//! in it, and each turn meets memory that the caches have forgotten. Here what is written next is
//! what was read last.
//!
//! Not for: frames that overtake.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Frames in the first blocks: few, since thousands of links may each have some.
const SMALL_BLOCK_FRAMES: usize = 32;

/// How many blocks have so few. Later ones have more, as whoever has many frames goes from block to
/// block all the time, and what lies together is fetched before it is asked for.
const SMALL_BLOCKS: usize = 4;

/// Bytes of a later block: as far as processors fetch by themselves.
const LARGE_BLOCK_BYTES: usize = 4096;

/// Empty blocks that are kept, beside as many as there are others.
const MIN_SPARE_BLOCKS: usize = 2;

/// The queue.
///
/// The first block is apart, so that who has few frames goes to them straight: where links are
/// thousands, each step on the way there is one that no cache remembers.
///
/// # Invariants
/// 1. The frames are those from `next` on in the first block, all of those between, and those before
///    `end` in the last one, which has room for `size`.
/// 2. Only the first block may be without a frame, when there are no `more`; `next` and `end` are 0
///    then.
/// 3. `room` is that of all blocks.
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
            room.iter_mut().zip(&mut frames).for_each(|(place, frame)| *place = frame);
        }
    }

    /// The frames that come first: all that lie together.
    #[inline]
    pub(crate) fn run(&self) -> &[T] {
        let end = if self.more.is_empty() { self.end } else { self.first.len() };
        &self.first[self.next..end]
    }

    /// Forgets as many, at most a whole run.
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

    /// Goes on to the second block.
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

    use super::BlockFifo;

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
