//! A slot that has been read once: a fragment of a frame, and where in its buffer that begins.

use slipring_ring::{BufIdx, RingView, SlotFlags, SlotIdx};

/// The fragment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotSnapshot {
    /// The buffer.
    pub(crate) buf: BufIdx,
    /// Bytes; never more than the buffer has from [`Self::at`] on.
    pub(crate) len: u16,
    /// `NS_*`.
    pub(crate) flags: SlotFlags,
    /// The first byte in the buffer; 0 on rings without offsets.
    pub(crate) offset: u16,
}

impl SlotSnapshot {
    /// What slot `i` holds, or a fragment without bytes if it makes no sense.
    #[inline(always)]
    pub(crate) fn read(ring: &RingView, i: SlotIdx) -> Self {
        let (slot, region) = (ring.slot(i), ring.region());
        let size = region.buf_size();
        if !region.is_usable(slot.buf) || u32::from(slot.len) > size {
            return Self { buf: BufIdx(0), len: 0, flags: slot.flags, offset: 0 };
        }
        let Some(offsets) = ring.offsets() else {
            return Self { buf: slot.buf, len: slot.len, flags: slot.flags, offset: 0 };
        };
        // An offset that leaves room was asked for when it was set, so it is below `size`.
        let at = offsets.of(ring.slot_ptr(i)).min(size);
        let len = u32::from(slot.len).min(size - at) as u16;
        Self { buf: slot.buf, len, flags: slot.flags, offset: at as u16 }
    }

    /// Copies its first bytes.
    #[inline(always)]
    pub(crate) fn copy_out(&self, ring: &RingView, out: &mut [u8]) {
        match self.offset {
            0 => ring.region().copy_out(self.buf, out),
            at => ring.region().copy_out_at(self.buf, at.into(), out),
        };
    }
}
