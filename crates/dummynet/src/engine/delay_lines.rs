//! The packets in the delay. There is one delay line per scheduler. Packets leave all lines
//! together in the order of their times.
//!
//! All instances of a scheduler have the same delay. Without a mask, only one instance gets
//! packets, and these do not overtake each other. So the line is a [`DelayLine`], which is fast.
//! With a mask, there are several links with different loads, whose packets can overtake each
//! other. So the line is a timing wheel.
//!
//! # Invariants
//! 1. Each line with packets has an entry with its `head_ns`, the time at which its first packet is
//!    due. All other entries of a line are outdated and are skipped.
//! 2. The earliest entry is in `first`, and all other entries are in `heads`. So with a single
//!    pipe, `heads` is empty.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::vec::Vec;
use core::cmp::Reverse;

use slipring_model::{DelayLine, Wheel};

use super::instance::NEVER_NS;

/// An entry: the time in ns at which a line must be checked, and the line's index.
type LineEvent = (u64, u32);

/// All delay lines. The index of a line is that of its scheduler.
#[derive(Clone, Debug)]
pub(crate) struct DelayLines<T> {
    lines: Vec<SchedDelayLine<T>>,
    /// The earliest entry. If there are no entries, its time is [`NEVER_NS`].
    first: LineEvent,
    heads: BinaryHeap<Reverse<LineEvent>>,
}

#[derive(Clone, Debug)]
struct SchedDelayLine<T> {
    packets: LinePackets<T>,
    /// Time in ns at which the line's first packet is due; [`NEVER_NS`] if the line is empty.
    head_ns: u64,
}

#[derive(Clone, Debug)]
enum LinePackets<T> {
    InOrder(DelayLine<T>),
    Any(Box<Wheel<T>>),
}

impl<T: Copy> LinePackets<T> {
    fn new(overtakes: bool) -> Self {
        if overtakes { Self::Any(Box::default()) } else { Self::InOrder(DelayLine::new()) }
    }

    #[inline]
    fn push(&mut self, out_ns: u64, packet: T) {
        match self {
            Self::InOrder(line) => line.push(out_ns, packet),
            Self::Any(wheel) => wheel.push(out_ns, packet),
        }
    }

    #[inline]
    fn pop_due(&mut self, now_ns: u64) -> Option<T> {
        match self {
            Self::InOrder(line) => line.pop_due(now_ns),
            Self::Any(wheel) => wheel.pop_due(now_ns),
        }
    }

    #[inline]
    fn first_ns(&self) -> Option<u64> {
        match self {
            Self::InOrder(line) => line.next_release_ns(),
            Self::Any(wheel) => wheel.next_release_ns(),
        }
    }
}

impl<T: Copy> DelayLines<T> {
    pub(crate) const fn new() -> Self {
        Self { lines: Vec::new(), first: (NEVER_NS, 0), heads: BinaryHeap::new() }
    }

    /// Returns whether the line of scheduler `sched` is empty.
    pub(crate) fn is_clear(&self, sched: u32) -> bool {
        self.lines.get(sched as usize).is_none_or(|line| line.head_ns == NEVER_NS)
    }

    /// Returns the earliest time at which a packet may be due, in ns; `None` if all lines are
    /// empty.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        (self.first.0 != NEVER_NS).then_some(self.first.0)
    }

    /// Adds a packet that is due at `out_ns`. `overtakes` should be true if packets of this
    /// scheduler that were added earlier may be due later. It selects the structure of the line,
    /// which is exact in both cases.
    #[inline]
    pub(crate) fn push(&mut self, sched: u32, out_ns: u64, packet: T, overtakes: bool) {
        if self.lines.len() <= sched as usize {
            self.grow(sched);
        }
        let line = &mut self.lines[sched as usize];
        if out_ns < line.head_ns {
            if line.head_ns == NEVER_NS && overtakes != matches!(line.packets, LinePackets::Any(_))
            {
                line.packets = LinePackets::new(overtakes);
            }
            line.head_ns = out_ns;
            line.packets.push(out_ns, packet);
            self.enter((out_ns, sched));
        } else {
            line.packets.push(out_ns, packet);
        }
    }

    #[inline]
    fn enter(&mut self, entry: LineEvent) {
        if entry.0 >= self.first.0 {
            self.heads.push(Reverse(entry));
            return;
        }
        let first = core::mem::replace(&mut self.first, entry);
        // If the replaced entry belongs to the same line, it is later than the new entry. So the
        // replaced entry is outdated and is dropped.
        if first.0 != NEVER_NS && first.1 != entry.1 {
            self.heads.push(Reverse(first));
        }
    }

    /// Removes the first packet of all lines if it is due by `now_ns`. Returns its due time, its
    /// scheduler and the packet.
    #[inline]
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<(u64, u32, T)> {
        loop {
            let (at_ns, sched) = self.first;
            if at_ns > now_ns || at_ns == NEVER_NS {
                return None;
            }
            let line = &mut self.lines[sched as usize];
            let packet = if line.head_ns == at_ns { line.packets.pop_due(at_ns) } else { None };
            if packet.is_some() {
                line.head_ns = line.packets.first_ns().unwrap_or(NEVER_NS);
            }
            // If the entry is outdated, the line has another entry with the correct time.
            let next_ns = if packet.is_some() { line.head_ns } else { NEVER_NS };
            if next_ns != at_ns {
                self.reenter((next_ns, sched));
            }
            if let Some(packet) = packet {
                return Some((at_ns, sched, packet));
            }
        }
    }

    /// Replaces the first entry by `entry`, which must not be earlier.
    #[inline]
    fn reenter(&mut self, entry: LineEvent) {
        self.first = match self.heads.peek_mut() {
            Some(mut head) if head.0.0 < entry.0 && entry.0 != NEVER_NS => {
                core::mem::replace(&mut *head, Reverse(entry)).0
            }
            Some(head) if head.0.0 < entry.0 => PeekMut::pop(head).0,
            _ => entry,
        };
    }

    #[cold]
    fn grow(&mut self, sched: u32) {
        let empty = || SchedDelayLine { packets: LinePackets::new(false), head_ns: NEVER_NS };
        self.lines.resize_with(sched as usize + 1, empty);
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_behave_as_one_sorted_list(
            steps in prop::collection::vec((0u8..3, 0u32..4, 0u64..60), 0..300)
        ) {
            let mut delays = DelayLines::new();
            let mut list: Vec<(u64, u32, usize)> = Vec::new();
            let mut now_ns = 0;
            for (number, (step, sched, ns)) in steps.into_iter().enumerate() {
                if step > 0 {
                    // Packets may overtake each other in all lines. `push` is told this only for
                    // the lines 0 and 1. `ns` is relative to the current time.
                    delays.push(sched, now_ns + ns, (sched, number), sched < 2);
                    list.push((now_ns + ns, sched, number));
                } else {
                    now_ns += ns / 4;
                    while let Some((at_ns, index, (sched, number))) = delays.pop(now_ns) {
                        prop_assert_eq!(index, sched);
                        prop_assert_eq!(Some(at_ns), list.iter().map(|one| one.0).min());
                        // Packets of one line with equal times leave in the order in which they
                        // were added.
                        let first = list.iter().filter(|one| (one.0, one.1) == (at_ns, sched));
                        prop_assert_eq!(first.map(|one| one.2).min(), Some(number));
                        list.retain(|one| one.2 != number);
                    }
                    prop_assert!(list.iter().all(|one| one.0 > now_ns));
                }
                prop_assert!((0..4).all(|n| delays.is_clear(n) != list.iter().any(|one| one.1 == n)));
                let first_ns = list.iter().map(|one| one.0).min();
                prop_assert!(first_ns.is_none() || delays.next_ns() <= first_ns);
            }
        }
    }
}
