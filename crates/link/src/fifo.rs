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

use crate::carrier::{Flight, Handle};

/// Frames in a block: few, since thousands of links may each have some.
const BLOCK: usize = 32;

/// Empty blocks that are kept, beside as many as there are others.
const SPARE: usize = 2;

type Block = Box<[Flight; BLOCK]>;

/// The queue.
///
/// # Invariants
/// 1. The frames are those from `next` on in the first block, all in those between, and those
///    before `end` in the last one. There is no block without a frame.
/// 2. `next` and `end` are 0 and [`BLOCK`] when there is no block.
pub(crate) struct Fifo {
    blocks: VecDeque<Block>,
    next: usize,
    end: usize,
    spare: Vec<Block>,
}

impl Fifo {
    pub(crate) const fn new() -> Self {
        Self { blocks: VecDeque::new(), next: 0, end: BLOCK, spare: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len() * BLOCK - self.next - (BLOCK - self.end)
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&Flight> {
        self.blocks.front().map(|block| &block[self.next])
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<&Flight> {
        self.blocks.back().map(|block| &block[self.end - 1])
    }

    #[inline]
    pub(crate) fn push(&mut self, flight: Flight) {
        if self.end == BLOCK {
            self.add_block();
        }
        if let Some(block) = self.blocks.back_mut() {
            block[self.end] = flight;
            self.end += 1;
        }
    }

    #[inline]
    pub(crate) fn extend(&mut self, flights: impl ExactSizeIterator<Item = Flight>) {
        let mut flights = flights;
        while flights.len() > 0 {
            if self.end == BLOCK {
                self.add_block();
            }
            let Some(block) = self.blocks.back_mut() else { return };
            let room = &mut block[self.end..];
            self.end += room.len().min(flights.len());
            room.iter_mut().zip(&mut flights).for_each(|(place, flight)| *place = flight);
        }
    }

    /// The frames that come first: all that lie together.
    #[inline]
    pub(crate) fn run(&self) -> &[Flight] {
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
    pub(crate) fn pop(&mut self) -> Option<Flight> {
        let flight = *self.front()?;
        self.forget(1);
        Some(flight)
    }

    fn add_block(&mut self) {
        let fill = Flight { release_ns: 0, handle: Handle(0), len: 0 };
        let block = self.spare.pop().unwrap_or_else(|| Box::new([fill; BLOCK]));
        self.blocks.push_back(block);
        self.end = 0;
    }
}
