//! Which of many has something to do next.
//!
//! Each member has at most one valid entry. Entries that no longer hold stay where they are until
//! they come first and are thrown away then, which costs less than finding them.
//!
//! # Invariants
//! 1. An entry `(at_ns, member)` is valid if and only if `armed[member] == at_ns`.
//! 2. Of the entries, `stale` are not valid; the first one always is.

use alloc::vec;
use alloc::vec::Vec;

use slipring_model::Wheel;

pub(crate) struct EventQueue {
    wheel: Wheel<(u64, u32)>,
    armed: Vec<u64>,
    stale: usize,
}

/// Nothing to do.
const NEVER_NS: u64 = u64::MAX;

impl EventQueue {
    pub(crate) fn new(members: usize) -> Self {
        Self { wheel: Wheel::new(), armed: vec![NEVER_NS; members], stale: 0 }
    }

    /// Sets when `member` has something to do; `None`: it has nothing.
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

    /// When the first of all has something to do.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.wheel.next_release_ns()
    }

    /// Takes out the first member, and its time, if that has come.
    #[inline]
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<(u64, u32)> {
        let (at_ns, member) = self.wheel.pop_due(now_ns)?;
        self.armed[member as usize] = NEVER_NS;
        self.drop_stale();
        Some((at_ns, member))
    }

    /// Throws entries away that come first and do not hold.
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
