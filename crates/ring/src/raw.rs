//! The same loops written the C way, with raw pointers and no checks: what the safe API is
//! measured against. Not for use.

use std::sync::atomic::{Ordering, fence};

use slipring_abi::{NetmapRing, NetmapSlot};

use crate::app::AppRing;

/// A ring as a C program sees it.
#[derive(Debug, Clone, Copy)]
pub struct RawRing {
    ring: *mut NetmapRing,
}

impl RawRing {
    /// A view of a ring's memory.
    #[must_use]
    pub fn of<D>(ring: &AppRing<D>) -> Self {
        let at = ring.region().base().as_ptr().wrapping_add(ring.offset() as usize);
        Self { ring: at.cast() }
    }

    /// Slots between head and tail, and head.
    ///
    /// # Safety
    /// The ring must be alive, and its safe half unused meanwhile.
    #[inline(always)]
    unsafe fn avail(self) -> (u32, u32) {
        // SAFETY: alive, by the caller.
        let ring = unsafe { &*self.ring };
        let tail = ring.tail;
        fence(Ordering::Acquire);
        let held =
            if tail >= ring.head { tail - ring.head } else { tail + ring.num_slots - ring.head };
        (held, ring.head)
    }

    #[inline(always)]
    fn slots(self) -> *mut NetmapSlot {
        self.ring.wrapping_add(1).cast()
    }

    /// # Safety
    /// As [`Self::avail`].
    #[inline(always)]
    unsafe fn publish(self, head: u32) {
        fence(Ordering::Release);
        // SAFETY: alive, by the caller.
        let ring = unsafe { &mut *self.ring };
        ring.head = head;
        ring.cur = head;
    }

    /// Offers each free buffer to `write`; as `TxRing::fill`.
    ///
    /// # Safety
    /// The ring must be alive, and its safe half unused meanwhile.
    #[inline(always)]
    pub unsafe fn fill(self, max: u32, mut write: impl FnMut(*mut u8) -> u16) -> u32 {
        // SAFETY: by the caller, here and for the two calls below.
        let (held, mut at) = unsafe { self.avail() };
        // SAFETY: alive, by the caller.
        let (n, size, ofs) =
            unsafe { ((*self.ring).num_slots, (*self.ring).nr_buf_size, (*self.ring).buf_ofs) };
        let count = held.min(max);
        for _ in 0..count {
            let slot = self.slots().wrapping_add(at as usize);
            // SAFETY: `at` is below `num_slots`.
            let slot = unsafe { &mut *slot };
            let at_buf = ofs as usize + slot.buf_idx as usize * size as usize;
            slot.len = write(self.ring.cast::<u8>().wrapping_add(at_buf));
            slot.flags = 0;
            at = if at + 1 == n { 0 } else { at + 1 };
        }
        // SAFETY: by the caller.
        unsafe { self.publish(at) };
        count
    }

    /// Shows each received buffer to `read`; as `RxRing::batch`.
    ///
    /// # Safety
    /// The ring must be alive, and its safe half unused meanwhile.
    #[inline(always)]
    pub unsafe fn drain(self, max: u32, mut read: impl FnMut(*const u8, u16)) -> u32 {
        // SAFETY: by the caller, here and for the two calls below.
        let (held, mut at) = unsafe { self.avail() };
        // SAFETY: alive, by the caller.
        let (n, size, ofs) =
            unsafe { ((*self.ring).num_slots, (*self.ring).nr_buf_size, (*self.ring).buf_ofs) };
        let count = held.min(max);
        for _ in 0..count {
            let slot = self.slots().wrapping_add(at as usize);
            // SAFETY: `at` is below `num_slots`.
            let slot = unsafe { &*slot };
            let at_buf = ofs as usize + slot.buf_idx as usize * size as usize;
            read(self.ring.cast::<u8>().wrapping_add(at_buf), slot.len);
            at = if at + 1 == n { 0 } else { at + 1 };
        }
        // SAFETY: by the caller.
        unsafe { self.publish(at) };
        count
    }
}
