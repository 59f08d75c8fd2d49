//! A delay line: returns each handle at its release time.
//!
//! The line has two queues behind one interface. Handles pushed in release order (constant delay,
//! or any delay with which no handle overtakes another) go through a FIFO at constant cost; a
//! handle that overtakes others goes to a heap. Each push chooses its queue separately, so a line
//! with rare reordering costs little more than one without.
//!
//! # Invariants
//! 1. The FIFO is sorted by (release time, order of pushing).
//! 2. Handles of both queues leave in the order of invariant 1.
//!
//! Not for: reading the clock or owning packets. Handles are opaque.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Ordering;

/// Handles waiting for their release times, in nanoseconds.
///
/// ```
/// let mut line = slipring_model::DelayLine::new();
/// line.push(200, "late");
/// line.push(100, "early");
/// assert_eq!((line.next_release_ns(), line.first()), (Some(100), Some(&"early")));
/// assert_eq!(line.pop_due(99), None);
/// assert_eq!(line.pop_due(150), Some("early"));
/// assert_eq!(line.len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct DelayLine<H> {
    in_order: VecDeque<DelayLineEntry<H>>,
    overtaking: BinaryHeap<DelayLineEntry<H>>,
    pushed: u64,
}

#[derive(Clone, Debug)]
struct DelayLineEntry<H> {
    release_ns: u64,
    order: u64,
    handle: H,
}

impl<H> DelayLine<H> {
    /// Makes an empty line.
    #[must_use]
    pub const fn new() -> Self {
        Self { in_order: VecDeque::new(), overtaking: BinaryHeap::new(), pushed: 0 }
    }

    /// Creates an empty line that holds `capacity` handles in release order before it allocates
    /// again.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { in_order: VecDeque::with_capacity(capacity), ..Self::new() }
    }

    /// Adds `handle`, which leaves at `release_ns`.
    ///
    /// Constant time if no queued handle is due later; otherwise logarithmic in the number of
    /// handles in the heap.
    #[inline]
    pub fn push(&mut self, release_ns: u64, handle: H) {
        let order = self.pushed;
        self.pushed += 1;
        let entry = DelayLineEntry { release_ns, order, handle };
        match self.in_order.back() {
            Some(last) if last.release_ns > release_ns => self.overtaking.push(entry),
            _ => self.in_order.push_back(entry),
        }
    }

    /// Removes the first handle if its release time is `now_ns` or earlier; otherwise returns
    /// `None`.
    #[inline]
    pub fn pop_due(&mut self, now_ns: u64) -> Option<H> {
        if self.next_release_ns()? > now_ns {
            return None;
        }
        self.pop().map(|(_, handle)| handle)
    }

    /// Removes the first handle, even if its release time is in the future, and returns it with
    /// this time; `None` if the line is empty.
    pub fn pop(&mut self) -> Option<(u64, H)> {
        let entry = if self.first_overtakes() {
            self.overtaking.pop()?
        } else {
            self.in_order.pop_front()?
        };
        Some((entry.release_ns, entry.handle))
    }

    /// Release time of the first handle in ns, so that the caller can sleep until then; `None` if
    /// the line is empty.
    #[must_use]
    #[inline]
    pub fn next_release_ns(&self) -> Option<u64> {
        let first =
            if self.first_overtakes() { self.overtaking.peek() } else { self.in_order.front() };
        first.map(|entry| entry.release_ns)
    }

    /// The first handle; `None` if the line is empty.
    #[must_use]
    pub fn first(&self) -> Option<&H> {
        let first =
            if self.first_overtakes() { self.overtaking.peek() } else { self.in_order.front() };
        first.map(|entry| &entry.handle)
    }

    /// All handles, in no particular order.
    pub fn handles(&self) -> impl Iterator<Item = &H> {
        self.in_order.iter().chain(&self.overtaking).map(|entry| &entry.handle)
    }

    /// How many handles are in the line.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_order.len() + self.overtaking.len()
    }

    /// Returns whether the line is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_order.is_empty() && self.overtaking.is_empty()
    }

    /// Returns whether the next handle to leave is in the heap, because it overtakes a handle in
    /// the FIFO.
    fn first_overtakes(&self) -> bool {
        match (self.overtaking.peek(), self.in_order.front()) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(over), Some(front)) => over.key() < front.key(),
        }
    }
}

impl<H> Default for DelayLine<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H> DelayLineEntry<H> {
    const fn key(&self) -> (u64, u64) {
        (self.release_ns, self.order)
    }
}

/// The order is reversed, because [`BinaryHeap`] pops the greatest element first, and the line
/// needs the earliest element.
impl<H> Ord for DelayLineEntry<H> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<H> PartialOrd for DelayLineEntry<H> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<H> PartialEq for DelayLineEntry<H> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<H> Eq for DelayLineEntry<H> {}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// The reference: a list that a stable sort keeps sorted. It is slow, but obviously correct.
    #[derive(Default)]
    struct SortedList(Vec<(u64, usize)>);

    impl SortedList {
        fn push(&mut self, release_ns: u64, handle: usize) {
            self.0.push((release_ns, handle));
            self.0.sort_by_key(|&(release_ns, _)| release_ns);
        }

        fn pop_due(&mut self, now_ns: u64) -> Option<usize> {
            let &(release_ns, handle) = self.0.first()?;
            (release_ns <= now_ns).then(|| {
                self.0.remove(0);
                handle
            })
        }
    }

    #[test]
    fn constant_delay_never_touches_the_heap() {
        let mut line = DelayLine::new();
        for now_ns in 0..1000 {
            line.push(now_ns / 3 + 50, now_ns);
            line.pop_due(now_ns / 3);
            assert!(line.overtaking.is_empty());
        }
    }

    #[test]
    fn a_line_is_empty_when_neither_the_ordered_nor_the_overtaking_are_left() {
        let mut line = DelayLine::with_capacity(7);
        assert!(line.is_empty() && line.in_order.capacity() >= 7);
        line.push(9, 'a');
        line.push(5, 'b');
        for left in [2, 1] {
            assert_eq!((line.len(), line.is_empty()), (left, false));
            line.pop();
        }
        assert!(line.is_empty());
    }

    #[test]
    fn equal_release_times_keep_the_order_of_pushing() {
        let mut line = DelayLine::new();
        for (release_ns, handle) in [(20, 'c'), (10, 'a'), (10, 'b'), (20, 'd')] {
            line.push(release_ns, handle);
        }
        let out: Vec<char> = core::iter::from_fn(|| line.pop_due(20)).collect();
        assert_eq!(out, ['a', 'b', 'c', 'd']);
    }

    proptest! {
        #[test]
        fn line_behaves_as_a_stably_sorted_list(
            steps in prop::collection::vec((any::<bool>(), 0u64..40), 0..200)
        ) {
            let mut line = DelayLine::new();
            let mut list = SortedList::default();
            for (handle, (push, time_ns)) in steps.into_iter().enumerate() {
                if push {
                    line.push(time_ns, handle);
                    list.push(time_ns, handle);
                } else {
                    prop_assert_eq!(line.pop_due(time_ns), list.pop_due(time_ns));
                }
                prop_assert_eq!(line.len(), list.0.len());
                prop_assert_eq!(line.next_release_ns(), list.0.first().map(|&(at, _)| at));
            }
        }
    }
}
