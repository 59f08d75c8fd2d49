//! A queue of frames in blocks that are used again, the last emptied first.
//!
//! A ring as large as the queue has ever been is walked through from end to end however few are
//! in it, and each turn meets memory that the caches have forgotten. Here what is written next is
//! what was read last.
//!
//! Not for: frames that overtake.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Frames in a block: few, since thousands of links may each have some.
const BLOCK: usize = 32;

/// Empty blocks that are kept, beside as many as there are others.
const SPARE: usize = 2;

type Block<T> = Box<[T; BLOCK]>;

/// The queue.
///
/// # Invariants
/// 1. The frames are those from `next` on in the first block, all in those between, and those
///    before `end` in the last one. There is no block without a frame.
/// 2. `next` and `end` are 0 and [`BLOCK`] when there is no block.
pub(crate) struct Fifo<T> {
    blocks: VecDeque<Block<T>>,
    next: usize,
    end: usize,
    spare: Vec<Block<T>>,
}

impl<T: Copy> Fifo<T> {
    pub(crate) const fn new() -> Self {
        Self { blocks: VecDeque::new(), next: 0, end: BLOCK, spare: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len() * BLOCK - self.next - (BLOCK - self.end)
    }

    #[inline]
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.blocks.front_mut().map(|block| &mut block[self.next])
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        self.blocks.front().map(|block| &block[self.next])
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<&T> {
        self.blocks.back().map(|block| &block[self.end - 1])
    }

    #[inline]
    pub(crate) fn push(&mut self, frame: T) {
        if self.end == BLOCK {
            self.add_block(frame);
        }
        if let Some(block) = self.blocks.back_mut() {
            block[self.end] = frame;
            self.end += 1;
        }
    }

    #[inline]
    pub(crate) fn extend(&mut self, frames: impl ExactSizeIterator<Item = T>) {
        let mut frames = frames;
        while let Some(frame) = frames.next() {
            self.push(frame);
            let Some(block) = self.blocks.back_mut() else { return };
            let room = &mut block[self.end..];
            self.end += room.len().min(frames.len());
            room.iter_mut().zip(&mut frames).for_each(|(place, frame)| *place = frame);
        }
    }

    /// The frames that come first: all that lie together.
    #[inline]
    pub(crate) fn run(&self) -> &[T] {
        let end = if self.blocks.len() == 1 { self.end } else { BLOCK };
        self.blocks.front().map_or(&[], |block| &block[self.next..end])
    }

    /// Forgets as many, at most a whole run.
    #[inline]
    pub(crate) fn forget(&mut self, count: usize) {
        self.next += count;
        let last = self.blocks.len() == 1;
        if self.next == if last { self.end } else { BLOCK } {
            self.next = 0;
            if last {
                self.end = BLOCK;
            }
            let most = SPARE + self.blocks.len();
            let emptied = self.blocks.pop_front().filter(|_| self.spare.len() < most);
            self.spare.extend(emptied);
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let frame = *self.front()?;
        self.forget(1);
        Some(frame)
    }

    fn add_block(&mut self, fill: T) {
        let block = self.spare.pop().unwrap_or_else(|| Box::new([fill; BLOCK]));
        self.blocks.push_back(block);
        self.end = 0;
    }
}
