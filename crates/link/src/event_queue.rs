//! Finds the member (a link or component, by index) with the earliest event.
//!
//! Each member has at most one valid entry. Stale entries stay in the wheel and are discarded when
//! they are first in the wheel, which costs less than searching for them.
//!
//! # Invariants
//! 1. An entry `(at_ns, member)` is stale if `armed[member] != at_ns`. A member may have several
//!    entries with the time `armed[member]`; then one of them is valid, and the others are stale.
//! 2. `stale` is the number of stale entries. At least one of the entries with the earliest time is
//!    valid.

use alloc::vec;
use alloc::vec::Vec;

use slipring_model::Wheel;

pub(crate) struct EventQueue {
    wheel: Wheel<(u64, u32)>,
    armed: Vec<u64>,
    stale: usize,
}

/// The time of an event that never happens.
const NEVER_NS: u64 = u64::MAX;

impl EventQueue {
    pub(crate) fn new(members: usize) -> Self {
        Self { wheel: Wheel::new(), armed: vec![NEVER_NS; members], stale: 0 }
    }

    /// Sets the time of `member`'s next event; `None` if it has no event.
    #[inline]
    pub(crate) fn set(&mut self, member: u32, next_ns: Option<u64>) {
        let next_ns = next_ns.unwrap_or(NEVER_NS);
        let before_ns = core::mem::replace(&mut self.armed[member as usize], next_ns);
        if before_ns == next_ns {
            return;
        }
        self.stale += usize::from(before_ns != NEVER_NS);
        if next_ns != NEVER_NS {
            self.wheel.push(next_ns, (next_ns, member));
        }
        self.drop_stale();
    }

    /// Time of the earliest event.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.wheel.next_release_ns()
    }

    /// Removes the member with the earliest event if that event is due; returns the time and the
    /// member.
    #[inline]
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<(u64, u32)> {
        let (at_ns, member) = loop {
            let (at_ns, member) = self.wheel.pop_due(now_ns)?;
            if self.armed[member as usize] == at_ns {
                break (at_ns, member);
            }
            self.stale -= 1;
        };
        self.armed[member as usize] = NEVER_NS;
        self.drop_stale();
        Some((at_ns, member))
    }

    /// Discards stale entries at the front.
    #[inline]
    fn drop_stale(&mut self) {
        while self.stale > 0
            && let Some(first_ns) = self.wheel.next_release_ns()
            && let Some((at_ns, member)) = self.wheel.pop_due(first_ns)
        {
            let armed_ns = &mut self.armed[member as usize];
            if *armed_ns == at_ns {
                self.wheel.push(at_ns, (at_ns, member));
                return;
            }
            self.stale -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The earliest time of all members.
    fn earliest(times: &[Option<u64>]) -> Option<u64> {
        times.iter().flatten().min().copied()
    }

    #[test]
    fn a_member_without_an_event_never_takes_the_turn_of_another_at_the_same_time() {
        let mut queue = EventQueue::new(2);
        queue.set(0, Some(40));
        queue.set(1, Some(40));
        queue.set(1, None);
        assert_eq!(queue.pop_due(40), Some((40, 0)));
        assert_eq!(queue.pop_due(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn the_first_event_is_the_earliest_of_what_was_last_set(
            steps in prop::collection::vec((0u32..5, prop::option::of(0u64..50), any::<bool>()), 1..60),
        ) {
            let (mut queue, mut times) = (EventQueue::new(5), [None; 5]);
            for (member, next_ns, pops) in steps {
                queue.set(member, next_ns);
                times[member as usize] = next_ns;
                prop_assert_eq!(queue.next_ns(), earliest(&times));
                if !pops {
                    continue;
                }
                let Some(first_ns) = earliest(&times) else {
                    prop_assert_eq!(queue.pop_due(u64::MAX), None);
                    continue;
                };
                if let Some(before_ns) = first_ns.checked_sub(1) {
                    prop_assert_eq!(queue.pop_due(before_ns), None);
                }
                let (at_ns, member) = queue.pop_due(first_ns).unwrap();
                prop_assert_eq!((Some(at_ns), at_ns), (times[member as usize], first_ns));
                times[member as usize] = None;
                prop_assert_eq!(queue.next_ns(), earliest(&times));
            }
        }
    }
}
