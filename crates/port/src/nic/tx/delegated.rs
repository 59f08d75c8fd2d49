//! The sending half of a queue, in a program to which the queue is lent.

use std::sync::Arc;

use slipring_ring::{KernRing, SlotFlags};

use super::{TxLimits, TxSide};
use crate::nic::descriptors::ResumableTxRings;
use crate::nic::ownership::{self, CorruptWords};
use crate::stats::QueueCounters;

impl TxSide {
    /// Creates the program's side, for a ring that the daemon created. [`Self::resume_delegated`]
    /// sets its positions.
    pub(crate) fn attach(ring: KernRing, limits: TxLimits, counters: Arc<QueueCounters>) -> Self {
        debug_assert!(ring.is_foreign(), "its buffers are the daemon's to free");
        Self::new(ring, limits, counters)
    }

    /// Continues where the previous owner stopped. `anchors` are the slots that correspond to index
    /// 0 of the TX ring and of the completion ring. If `rebuild` is true, this side does not know
    /// yet which buffers are in flight, and learns them from the slots. Returns whether a program
    /// can handle all pending slots.
    #[inline]
    pub(crate) fn resume_delegated(
        &mut self,
        ends: &mut impl ResumableTxRings,
        anchors: [u32; 2],
        rebuild: bool,
    ) -> Result<bool, CorruptWords> {
        let n = self.ring.num_slots();
        let moved = [ends.resume_queued()?, ends.resume_completed()?] != [0, 0];
        let [queued, completed] = ends.positions();
        let hwcur = ownership::advance_slot(anchors[0], queued, n);
        self.tail = ownership::advance_slot(anchors[1], completed, n);
        let matches = (hwcur, self.tail) == (self.ring.hwcur(), self.ring.hwtail());
        if rebuild || moved || !matches {
            self.ring.resync(hwcur, self.tail);
            self.ring.set_tail(self.tail);
            self.rebuild_in_flight(ends);
        }
        Ok(self.is_ordinary(ends.max_part()))
    }

    /// Returns whether the indices are possible, payloads have no offsets, and every released slot
    /// is a packet that can be sent in one descriptor. Everything else is left to the daemon.
    #[inline]
    fn is_ordinary(&self, max_part: u32) -> bool {
        let Some(head) = self.ring.peek_released() else { return false };
        let lengths = 1..=max_part.min(self.limits.packet) as u16;
        let mut slots = self.ring.slots(self.ring.hwcur(), head);
        !self.ring.has_published_offsets()
            && slots.all(|(_, slot)| {
                !slot.flags.has(SlotFlags::MOREFRAG)
                    && lengths.contains(&slot.len)
                    && self.ring.region().is_usable(slot.buf)
            })
    }
}
