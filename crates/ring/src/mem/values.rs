//! Addresses and sizes of the slots and buffers of a ring, as plain values.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::{RingMem, SlotCell, cells, data_of};
use crate::index::{BufIdx, SlotIdx};
use crate::shared::SharedBuf;

/// Addresses and sizes of the slots and buffers of a ring.
///
/// The struct holds values and not a reference to the ring. So the compiler knows that a write to a
/// buffer does not change where buffers are, and a loop need not reload these values for each
/// frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemValues<'m> {
    slots: NonNull<SlotCell>,
    num_slots: u32,
    /// Distance in bytes from one buffer to the next.
    stride: u32,
    /// Bytes of a buffer; at most `stride`.
    buf_size: u32,
    num_bufs: u32,
    bufs: NonNull<u8>,
    ring: PhantomData<&'m RingMem>,
}

impl<'m> MemValues<'m> {
    #[inline(always)]
    pub(super) fn of(ring: &'m RingMem) -> Self {
        let RingMem { slots, num_slots, buf_size, num_bufs, bufs, .. } = *ring;
        Self { slots, num_slots, stride: buf_size, buf_size, num_bufs, bufs, ring: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn num_slots(self) -> u32 {
        self.num_slots
    }

    #[inline(always)]
    pub(crate) fn buf_size(self) -> u32 {
        self.buf_size
    }

    /// Returns the slots `from..to`, as [`RingMem::slots`] does.
    #[inline(always)]
    pub(crate) fn slots(self, (from, to): (SlotIdx, SlotIdx)) -> &'m [SlotCell] {
        &cells(self.slots, self.num_slots)[from as usize..to as usize]
    }

    /// Returns slot `i`, as [`RingMem::slot`] does.
    #[inline(always)]
    pub(crate) fn slot(self, i: SlotIdx) -> &'m SlotCell {
        &cells(self.slots, self.num_slots)[i as usize]
    }

    /// Returns the address of a buffer's data, as [`RingMem::data`] does.
    #[inline(always)]
    pub(crate) fn data(self, buf: BufIdx) -> NonNull<u8> {
        data_of(self.bufs, self.num_bufs, self.stride, buf)
    }

    /// The first `len` bytes of a buffer, or the whole buffer if it is shorter.
    #[inline(always)]
    pub(crate) fn shared(self, buf: BufIdx, len: u32) -> SharedBuf<'m> {
        let len = len.min(self.buf_size) as usize;
        // SAFETY:
        // - In bounds: `data` returns the address of `stride` bytes, and `len` is at most that.
        // - Mapped: the ring, which holds the region, is borrowed for `'m`.
        unsafe { SharedBuf::new(self.data(buf), len) }
    }
}

/// A ring of a private region. Only the ring's two halves access its buffers, so the buffers may be
/// lent as references.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrivateMem<'m>(MemValues<'m>);

impl<'m> PrivateMem<'m> {
    /// Wraps a ring, which must be in a private region.
    #[inline(always)]
    pub(super) fn of(ring: &'m RingMem) -> Self {
        Self(MemValues::of(ring))
    }

    /// The same ring, with the buffer size reduced to `size` bytes.
    #[inline(always)]
    pub(crate) fn with_buf_size(self, size: u32) -> Self {
        Self(MemValues { buf_size: size.min(self.0.buf_size), ..self.0 })
    }
}

impl<'m> Deref for PrivateMem<'m> {
    type Target = MemValues<'m>;

    #[inline(always)]
    fn deref(&self) -> &MemValues<'m> {
        &self.0
    }
}
