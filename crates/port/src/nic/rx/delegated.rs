//! The receiving half of a queue, in a program to which the queue is lent.

use std::sync::Arc;

use slipring_ring::KernRing;

use super::RxSide;
use crate::nic::descriptors::ResumableRxRings;
use crate::nic::in_flight::PostedBufs;
use crate::nic::offload_fixup::OffloadFixup;
use crate::nic::ownership::{self, CorruptWords};
use crate::stats::{QueueCounters, TrafficCounts};

impl RxSide {
    /// Creates the program's side, for a ring that the daemon created. [`Self::resume_delegated`]
    /// sets its positions.
    pub(crate) fn attach(
        ring: KernRing,
        fixup: OffloadFixup,
        counters: Arc<QueueCounters>,
    ) -> Self {
        debug_assert!(ring.is_foreign(), "its buffers are the daemon's to free");
        Self {
            posted: PostedBufs::new(ring.region().num_bufs()),
            reserve_size: 0,
            reserve: Vec::new(),
            ahead: 0,
            fixup,
            tail: ring.hwtail(),
            free_slots: 0,
            received: TrafficCounts::default(),
            counters,
            ring,
        }
    }

    /// Continues where the previous owner stopped. `anchors` are the slots that correspond to index
    /// 0 of the fill ring and of the RX ring. If `rebuild` is true, this side does not know yet
    /// which buffers are posted, and learns them from the slots. Returns whether a program can
    /// handle all pending slots.
    #[inline]
    pub(crate) fn resume_delegated(
        &mut self,
        ends: &mut impl ResumableRxRings,
        anchors: [u32; 2],
        rebuild: bool,
    ) -> Result<bool, CorruptWords> {
        let n = self.ring.num_slots();
        let moved = [ends.resume_posted()?, ends.resume_read()?] != [0, 0];
        let [posted, read] = ends.positions();
        let hwcur = ownership::advance_slot(anchors[0], posted, n);
        self.tail = ownership::advance_slot(anchors[1], read, n);
        let matches = (hwcur, self.tail) == (self.ring.hwcur(), self.ring.hwtail());
        if rebuild || moved || !matches {
            self.ring.resync(hwcur, self.tail);
            self.ring.set_tail(self.tail);
            self.rebuild_posted(ends);
        }
        Ok(self.is_ordinary())
    }

    /// Returns whether the indices are possible, payloads have no offsets, and every released slot
    /// names a usable buffer.
    #[inline]
    fn is_ordinary(&self) -> bool {
        let Some(head) = self.ring.peek_released() else { return false };
        let mut slots = self.ring.slots(self.ring.hwcur(), head);
        !self.ring.has_published_offsets()
            && slots.all(|(_, slot)| self.ring.region().is_usable(slot.buf))
    }
}
