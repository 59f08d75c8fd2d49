//! A ring from outside: what somebody needs to know who is neither of its halves.
//!
//! A host that serves other processes syncs their rings for them and has to say when a ring is
//! worth reading, and who holds which buffer. Everything here is a copy of what some process
//! wrote, and is checked by whoever uses it.

use std::sync::atomic::Ordering;

use crate::index::{BufIdx, SlotIdx};
use crate::mem::RingMem;

/// A ring that is only looked at; keeps it alive.
#[derive(Debug, Clone)]
pub struct RingView(RingMem);

impl RingView {
    pub(crate) fn of(mem: &RingMem) -> Self {
        Self(mem.clone())
    }

    /// Offset of the `netmap_ring` in its region.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.0.offset()
    }

    /// Slots in the ring.
    #[must_use]
    pub fn num_slots(&self) -> u32 {
        self.0.num_slots()
    }

    /// Where the application wants to be woken behind, as it wrote it.
    #[must_use]
    #[inline(always)]
    pub fn cur(&self) -> SlotIdx {
        self.0.cur().load(Ordering::Acquire)
    }

    /// The first slot that the application has not given back, as it wrote it.
    #[must_use]
    #[inline(always)]
    pub fn head(&self) -> SlotIdx {
        self.0.head().load(Ordering::Acquire)
    }

    /// The first slot that is not the application's, as it stands in the ring.
    #[must_use]
    #[inline(always)]
    pub fn tail(&self) -> SlotIdx {
        self.0.tail().load(Ordering::Acquire)
    }

    /// Whether there are slots beyond the one that the application waits for.
    #[must_use]
    #[inline(always)]
    pub fn is_ready(&self) -> bool {
        self.cur() != self.tail()
    }

    /// `NR_*` flags that the application has set in the ring.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.0.flags()
    }

    /// The buffers that the slots name, unchecked.
    pub fn bufs(&self) -> impl Iterator<Item = BufIdx> {
        self.0.bufs()
    }

    /// Writes `ring->ts`, the time of the last rx sync.
    pub fn set_timestamp(&self, seconds: i64, microseconds: i64) {
        self.0.set_timestamp(seconds, microseconds);
    }
}
