//! This process's ends of the four rings of an AF_XDP socket. Their indices count on beyond the
//! size of the ring, and are published once per batch.

use std::sync::atomic::Ordering;

use super::sys::SharedRing;
use crate::nic::ownership::CorruptWords;

/// A ring that this process writes and the kernel reads: fill ring or TX ring.
#[derive(Debug)]
pub(super) struct Producer<const W: usize> {
    ring: SharedRing<W>,
    /// Index of the next entry to be written; published by [`Self::publish`].
    next: u32,
    published: u32,
    /// The kernel's consumer index when it was last read.
    consumed: u32,
}

impl<const W: usize> Producer<W> {
    pub(super) fn new(ring: SharedRing<W>) -> Self {
        let next = ring.producer().load(Ordering::Relaxed);
        let consumed = ring.consumer().load(Ordering::Acquire);
        Self { ring, next, published: next, consumed }
    }

    /// Returns whether `count` more entries fit.
    #[inline(always)]
    pub(super) fn has_room(&mut self, count: u32) -> bool {
        if self.room() >= count {
            return true;
        }
        self.refresh();
        self.room() >= count
    }

    /// Returns the number of entries that fit. The kernel's index is not trusted, because a program
    /// that borrowed the ring may have written it.
    #[inline(always)]
    fn room(&self) -> u32 {
        self.ring.size().saturating_sub(self.next.wrapping_sub(self.consumed))
    }

    /// Writes an entry. The caller has checked that there is space.
    #[inline(always)]
    pub(super) fn push(&mut self, words: [u64; W]) {
        self.ring.put(self.next, words);
        self.next = self.next.wrapping_add(1);
    }

    /// Makes pushed entries visible to the kernel.
    #[inline(always)]
    pub(super) fn publish(&mut self) {
        if self.published != self.next {
            self.published = self.next;
            // Release: the kernel reads the producer index with acquire before it reads the cells.
            self.ring.producer().store(self.next, Ordering::Release);
        }
    }

    #[inline(always)]
    fn refresh(&mut self) {
        // Acquire: the kernel read the cells before it advanced this index.
        self.consumed = self.ring.consumer().load(Ordering::Acquire);
    }

    /// Returns how many published entries the kernel has not taken.
    #[inline(always)]
    pub(super) fn unconsumed(&mut self) -> u32 {
        self.refresh();
        self.published.wrapping_sub(self.consumed)
    }

    /// Returns whether published entries, including those of a borrower, wait to be taken by the
    /// kernel.
    pub(super) fn is_stuck(&self) -> bool {
        self.ring.producer().load(Ordering::Relaxed) != self.ring.consumer().load(Ordering::Acquire)
    }

    /// Skips the entries that a borrower has pushed; returns their number.
    pub(super) fn resync(&mut self) -> Result<u32, CorruptWords> {
        let next = self.ring.producer().load(Ordering::Acquire);
        let consumed = self.ring.consumer().load(Ordering::Acquire);
        if next.wrapping_sub(consumed) > self.ring.size() {
            return Err(CorruptWords);
        }
        let moved = next.wrapping_sub(self.next);
        (self.next, self.published, self.consumed) = (next, next, consumed);
        Ok(moved)
    }

    /// Index of the next entry.
    pub(super) fn position(&self) -> u32 {
        self.next
    }

    /// Number of entries of the ring.
    pub(super) fn size(&self) -> u32 {
        self.ring.size()
    }

    /// Returns the `back`-th entry before the one that the kernel takes next.
    #[inline]
    pub(super) fn consumed_cell(&self, back: u32) -> [u64; W] {
        self.ring.get(self.consumed.wrapping_sub(back))
    }

    /// Returns the entry that the kernel takes after `i` others.
    pub(super) fn waiting_cell(&self, i: u32) -> [u64; W] {
        self.ring.get(self.consumed.wrapping_add(i))
    }

    #[inline(always)]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// A ring that the kernel writes and this process reads: completion ring or RX ring.
#[derive(Debug)]
pub(super) struct Consumer<const W: usize> {
    ring: SharedRing<W>,
    next: u32,
    /// The kernel's producer index when it was last read.
    produced: u32,
}

impl<const W: usize> Consumer<W> {
    pub(super) fn new(ring: SharedRing<W>) -> Self {
        let next = ring.consumer().load(Ordering::Relaxed);
        Self { ring, next, produced: next }
    }

    /// Returns how many entries can be read.
    #[inline(always)]
    pub(super) fn refresh(&mut self) -> u32 {
        // Acquire: pairs with the kernel's release after it wrote the cells.
        self.produced = self.ring.producer().load(Ordering::Acquire);
        // The number is limited, because a program that borrowed the ring may have written any
        // index.
        self.produced.wrapping_sub(self.next).min(self.ring.size())
    }

    /// Skips the entries that a borrower has taken; returns their number.
    pub(super) fn resync(&mut self) -> Result<u32, CorruptWords> {
        let next = self.ring.consumer().load(Ordering::Acquire);
        let produced = self.ring.producer().load(Ordering::Acquire);
        if produced.wrapping_sub(next) > self.ring.size() {
            return Err(CorruptWords);
        }
        let moved = next.wrapping_sub(self.next);
        (self.next, self.produced) = (next, produced);
        Ok(moved)
    }

    /// Index of the next entry to read.
    pub(super) fn position(&self) -> u32 {
        self.next
    }

    /// Returns the `i`-th of the entries that [`Self::refresh`] counted.
    #[inline(always)]
    pub(super) fn peek(&self, i: u32) -> [u64; W] {
        self.ring.get(self.next.wrapping_add(i))
    }

    /// Gives `count` entries back to the kernel.
    #[inline(always)]
    pub(super) fn release(&mut self, count: u32) {
        if count > 0 {
            self.next = self.next.wrapping_add(count);
            // Release: the entries were read before the kernel may overwrite them.
            self.ring.consumer().store(self.next, Ordering::Release);
        }
    }
}
