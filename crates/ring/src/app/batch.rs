//! Received slots one by one.

use super::{AppRing, FrameMut, Rx, bytes_of};
use crate::index::{SlotIdx, next};

/// Received slots on loan; see [`RxRing::batch`](super::RxRing::batch). Its frames may be kept as long as the ring's
/// borrow, also when the batch is gone.
#[derive(Debug)]
pub struct RxBatch<'a> {
    pub(super) ring: &'a mut AppRing<Rx>,
    pub(super) at: SlotIdx,
    pub(super) remaining: u32,
}

impl<'a> Iterator for RxBatch<'a> {
    type Item = FrameMut<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<FrameMut<'a>> {
        if self.remaining == 0 {
            return None;
        }
        let slot = self.ring.mem.slot(self.at).get();
        self.at = next(self.at, self.ring.mem.num_slots());
        self.remaining -= 1;
        // Each slot is yielded once, and the ring stays borrowed for `'a`.
        Some(FrameMut { bytes: bytes_of(&self.ring.mem, slot), flags: slot.flags })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining as usize, Some(self.remaining as usize))
    }
}

impl ExactSizeIterator for RxBatch<'_> {}

impl Drop for RxBatch<'_> {
    fn drop(&mut self) {
        self.ring.head = self.at;
        self.ring.publish();
    }
}
