//! Iteration over received slots.

use super::{AppRing, FrameMut, Rx, bytes_of};
use crate::index::{SlotIdx, next};
use crate::mem::PrivateMem;

/// Received slots on loan; see [`RxRing::batch`](super::RxRing::batch). When the batch is dropped,
/// the slots that the caller has iterated over go back to the driver.
#[derive(Debug)]
pub struct RxBatch<'a> {
    pub(super) ring: &'a mut AppRing<Rx>,
    pub(super) at: SlotIdx,
    pub(super) remaining: u32,
}

impl RxBatch<'_> {
    /// Iterates over the remaining frames. The frames live as long as the batch is borrowed, so no
    /// frame can be kept after its slot has been returned to the driver:
    ///
    /// ```compile_fail
    /// # use slipring_ring::RxRing;
    /// fn keep(ring: &mut RxRing) -> Option<&mut [u8]> {
    ///     ring.batch(1).frames().next().map(|frame| frame.bytes)
    /// }
    /// ```
    #[inline(always)]
    pub fn frames(&mut self) -> BatchFrames<'_> {
        let (at, remaining) = (self.at, self.remaining);
        let end = crate::index::add(at, remaining, self.ring.mem.num_slots());
        let mem = self.ring.lend(at, end);
        let remaining = if mem.is_some() { remaining } else { 0 };
        let done = (&mut self.at, &mut self.remaining);
        BatchFrames { mem, at, remaining, done }
    }

    /// Ends the loan without returning slots to the driver: the frames are still our first slots,
    /// and can be passed on, or exchanged with slots of another ring.
    #[inline(always)]
    pub fn keep(mut self) {
        self.at = self.ring.head;
    }
}

/// Iterator over frames; see [`RxBatch::frames`].
#[derive(Debug)]
pub struct BatchFrames<'b> {
    mem: Option<PrivateMem<'b>>,
    at: SlotIdx,
    remaining: u32,
    /// Position and remaining count of the batch, updated when the iterator is dropped.
    done: (&'b mut SlotIdx, &'b mut u32),
}

impl<'b> Iterator for BatchFrames<'b> {
    type Item = FrameMut<'b>;

    #[inline(always)]
    fn next(&mut self) -> Option<FrameMut<'b>> {
        if self.remaining == 0 {
            return None;
        }
        let mem = self.mem?;
        let slot = mem.slot(self.at).get();
        self.at = next(self.at, mem.num_slots());
        self.remaining -= 1;
        // No frame is lent twice: each slot is yielded once, and the batch stays borrowed for `'b`.
        Some(FrameMut { bytes: bytes_of(mem, slot), flags: slot.flags })
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining as usize, Some(self.remaining as usize))
    }
}

impl ExactSizeIterator for BatchFrames<'_> {}

impl Drop for BatchFrames<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // If there was no memory to lend, no frame was yielded, and the batch stays as it was.
        if self.mem.is_some() {
            (*self.done.0, *self.done.1) = (self.at, self.remaining);
        }
    }
}

impl Drop for RxBatch<'_> {
    fn drop(&mut self) {
        self.ring.head = self.at;
        self.ring.publish();
    }
}
