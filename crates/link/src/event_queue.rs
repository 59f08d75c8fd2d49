//! Finds the member with the earliest event.
//!
//! Each member has at most one valid entry. Stale entries stay in the wheel and are discarded when
//! they are first in the wheel, which costs less than searching for them.
//!
//! # Invariants
//! 1. An entry `(at_ns, member)` is valid if and only if `armed[member] == at_ns`.
//! 2. `stale` entries are invalid; the first entry is always valid.

use alloc::vec;
use alloc::vec::Vec;

use slipring_model::Wheel;

pub(crate) struct EventQueue {
    wheel: Wheel<(u64, u32)>,
    armed: Vec<u64>,
    stale: usize,
}

/// No event.
const NEVER_NS: u64 = u64::MAX;

impl EventQueue {
    pub(crate) fn new(members: usize) -> Self {
        Self { wheel: Wheel::new(), armed: vec![NEVER_NS; members], stale: 0 }
    }

    /// Sets the time of `member`'s next event; `None`: it has none.
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

    /// Removes the first member if its event is due; returns the member and the time.
    #[inline]
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<(u64, u32)> {
        let (at_ns, member) = self.wheel.pop_due(now_ns)?;
        self.armed[member as usize] = NEVER_NS;
        self.drop_stale();
        Some((at_ns, member))
    }

    /// Discards invalid entries at the front.
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
