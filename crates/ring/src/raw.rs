//! The loops of the safe API written as in C, with raw pointers and without checks. Only a
//! reference for benchmarks; programs must not use this module.

use std::sync::atomic::{Ordering, fence};

use slipring_abi::{NetmapRing, NetmapSlot};

use crate::app::AppRing;
use crate::pipe::{PipeEnd, PipePair, SyncFault};
use crate::region::{BUF_SIZE, Geometry, HugePages, Region, RegionError};

/// A ring as a C program sees it.
#[derive(Debug, Clone, Copy)]
pub struct RawRing {
    ring: *mut NetmapRing,
}

/// Ring state that a loop needs, read once.
#[derive(Clone, Copy)]
struct RawSpan {
    slots: *mut NetmapSlot,
    bufs: *mut u8,
    buf_size: usize,
    num_slots: u32,
    head: u32,
    owned_slots: u32,
}

impl RawSpan {
    /// Returns the addresses of slot `at` and of its buffer.
    #[inline(always)]
    fn slot(&self, at: u32) -> (*mut NetmapSlot, *mut u8) {
        let slot = self.slots.wrapping_add(at as usize);
        // SAFETY: `at` is below `num_slots`, and the ring is alive (`RawRing::span`).
        let buf_idx = unsafe { (*slot).buf_idx } as usize;
        (slot, self.bufs.wrapping_add(buf_idx * self.buf_size))
    }

    /// Sets the length of the slots `from..to` to `len`, and clears their flags.
    #[inline(never)]
    fn set_run(&self, mut from: u32, to: u32, len: u16) {
        while from != to {
            let (slot, _) = self.slot(from);
            // SAFETY: `from` is below `num_slots`.
            let slot = unsafe { &mut *slot };
            slot.len = len;
            slot.flags = 0;
            from = self.next(from);
        }
    }

    #[inline(always)]
    fn next(&self, at: u32) -> u32 {
        if at + 1 == self.num_slots { 0 } else { at + 1 }
    }
}

impl RawRing {
    /// A view of a ring's memory.
    #[must_use]
    pub fn of<D>(ring: &AppRing<D>) -> Self {
        let at = ring.region().base().as_ptr().wrapping_add(ring.offset() as usize);
        Self { ring: at.cast() }
    }

    /// Reads the state of the ring: the slots between head and tail.
    ///
    /// # Safety
    /// The ring must be alive, and the [`AppRing`] of this view must not be used meanwhile.
    #[inline(always)]
    unsafe fn span(self) -> RawSpan {
        // SAFETY: alive, by the caller.
        let ring = unsafe { &*self.ring };
        fence(Ordering::Acquire);
        let (head, tail, num_slots) = (ring.head, ring.tail, ring.num_slots);
        RawSpan {
            slots: self.ring.wrapping_add(1).cast(),
            bufs: self.ring.cast::<u8>().wrapping_offset(ring.buf_ofs as isize),
            buf_size: ring.nr_buf_size as usize,
            num_slots,
            head,
            owned_slots: if tail >= head { tail - head } else { tail + num_slots - head },
        }
    }

    /// Moves `head` of the ring, so that the driver owns the slots before it.
    ///
    /// # Safety
    /// Same as [`Self::span`].
    #[inline(always)]
    unsafe fn publish(self, head: u32) {
        fence(Ordering::Release);
        // SAFETY: alive, by the caller.
        let ring = unsafe { &mut *self.ring };
        ring.head = head;
        ring.cur = head;
    }

    /// Offers up to `max` free buffers to `write`, and returns how many frames were queued, as
    /// `TxRing::fill` does. But a frame of length 0 does not end the loop.
    ///
    /// # Safety
    /// The ring must be alive, and the [`AppRing`] of this view must not be used meanwhile.
    #[inline(always)]
    pub unsafe fn fill(self, max: u32, mut write: impl FnMut(*mut u8) -> u16) -> u32 {
        // SAFETY: the caller guarantees what this requires.
        let span = unsafe { self.span() };
        let count = span.owned_slots.min(max);
        // Slots are written per run of equal lengths, for the reason explained at `fill_slots`.
        let (mut at, mut run, mut run_len) = (span.head, span.head, 0);
        for _ in 0..count {
            let len = write(span.slot(at).1);
            if len != run_len {
                span.set_run(run, at, run_len);
                (run, run_len) = (at, len);
            }
            at = span.next(at);
        }
        span.set_run(run, at, run_len);
        // SAFETY: the caller guarantees what this requires.
        unsafe { self.publish(at) };
        count
    }

    /// Calls `read` for up to `max` received buffers, and returns their number, as `RxRing::drain`
    /// does.
    ///
    /// # Safety
    /// The ring must be alive, and the [`AppRing`] of this view must not be used meanwhile.
    #[inline(always)]
    pub unsafe fn drain(self, max: u32, mut read: impl FnMut(*const u8, u16)) -> u32 {
        // SAFETY: the caller guarantees what this requires.
        let span = unsafe { self.span() };
        let count = span.owned_slots.min(max);
        let mut at = span.head;
        for _ in 0..count {
            let (slot, buf) = span.slot(at);
            // SAFETY: `at` is below `num_slots`.
            let len = unsafe { (*slot).len };
            read(buf, len);
            at = span.next(at);
        }
        // SAFETY: the caller guarantees what this requires.
        unsafe { self.publish(at) };
        count
    }

    /// Exchanges buffers between this rx ring and `tx`, as `forward` does, but also the buffers of
    /// incomplete packets. Returns how many slots were moved.
    ///
    /// # Safety
    /// Both rings must be alive and in one region, and the [`AppRing`]s of both views must not be
    /// used meanwhile.
    #[inline(always)]
    pub unsafe fn swap_to(self, tx: Self, max: u32) -> u32 {
        // SAFETY: the caller guarantees what this requires.
        let from = unsafe { self.span() };
        // SAFETY: the caller guarantees what this requires.
        let to = unsafe { tx.span() };
        let count = from.owned_slots.min(to.owned_slots).min(max);
        let (mut i, mut j) = (from.head, to.head);
        for _ in 0..count {
            // SAFETY: `i` is below `num_slots`.
            let frame = unsafe { &mut *from.slots.wrapping_add(i as usize) };
            // SAFETY: `j` is below `num_slots`, and the rings do not overlap.
            let free = unsafe { &mut *to.slots.wrapping_add(j as usize) };
            std::mem::swap(&mut frame.buf_idx, &mut free.buf_idx);
            free.len = frame.len;
            free.flags = frame.flags | slipring_abi::NS_BUF_CHANGED;
            frame.flags = slipring_abi::NS_BUF_CHANGED;
            (i, j) = (from.next(i), to.next(j));
        }
        // SAFETY: the caller guarantees what this requires.
        unsafe { self.publish(i) };
        // SAFETY: the caller guarantees what this requires.
        unsafe { tx.publish(j) };
        count
    }
}

/// A frame of 64 bytes.
pub type RawFrame = [u64; 8];

/// Creates a pipe whose ends are driven by raw loops. Safe to use: the memory is private, and the
/// [`AppRing`]s stay unused.
///
/// # Errors
/// [`RegionError`] if the memory cannot be allocated.
pub fn pipe(slots: u32) -> Result<(RawWriter, RawReader), RegionError> {
    let geometry = Geometry { ring_bytes: 1 << 20, bufs: 2 * slots + 2, buf_size: BUF_SIZE };
    let PipePair { a, b } = PipePair::create(&Region::create(geometry, HugePages::Try)?, 0, slots)?;
    Ok((RawWriter(a), RawReader(b)))
}

/// The sending end; see [`pipe`].
#[derive(Debug)]
pub struct RawWriter(PipeEnd);

impl RawWriter {
    /// Fills up to `max` slots with the frames that `next` returns, and sends these frames. Returns
    /// their number.
    ///
    /// # Errors
    /// Same as [`PipeEnd::tx_sync`].
    #[inline(always)]
    pub fn step(&mut self, max: u32, mut next: impl FnMut() -> RawFrame) -> Result<u32, SyncFault> {
        let write = |buf: *mut u8| {
            // SAFETY: a buffer has `BUF_SIZE` bytes, at an address that is a multiple of 64.
            unsafe { buf.cast::<RawFrame>().write(next()) };
            size_of::<RawFrame>() as u16
        };
        // SAFETY: `self` is borrowed, and nothing else uses the ring.
        let filled = unsafe { RawRing::of(&self.0.tx).fill(max, write) };
        self.0.tx_sync()?;
        Ok(filled)
    }
}

/// The receiving end; see [`pipe`].
#[derive(Debug)]
pub struct RawReader(PipeEnd);

impl RawReader {
    /// Receives, and calls `visit` for up to `max` frames. Returns their number.
    ///
    /// # Errors
    /// Same as [`PipeEnd::rx_sync`].
    #[inline(always)]
    pub fn step(&mut self, max: u32, mut visit: impl FnMut(RawFrame)) -> Result<u32, SyncFault> {
        self.0.rx_sync()?;
        let read = |buf: *const u8, _: u16| {
            // SAFETY: a buffer has `BUF_SIZE` bytes, at an address that is a multiple of 64.
            visit(unsafe { buf.cast::<RawFrame>().read() });
        };
        // SAFETY: `self` is borrowed, and nothing else uses the ring.
        Ok(unsafe { RawRing::of(&self.0.rx).drain(max, read) })
    }
}
