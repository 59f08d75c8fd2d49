//! A slot that has been read once: a fragment of a frame and its position in the buffer.

use slipring_ring::{BufIdx, RingView, SlotFlags, SlotIdx};

/// A snapshot of a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotSnapshot {
    /// The slot's buffer; buffer 0 for an invalid slot.
    pub(crate) buf: BufIdx,
    /// Bytes of the fragment; at most what the buffer has from `offset` on.
    pub(crate) len: u16,
    /// The slot's `NS_*` flags.
    pub(crate) flags: SlotFlags,
    /// Offset of the first byte in the buffer; 0 on rings without offsets.
    pub(crate) offset: u16,
}

impl SlotSnapshot {
    /// Reads slot `i`; an invalid slot becomes a fragment without bytes.
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
        // The option OFFSETS limits offsets, so `at` is below `size`.
        let at = offsets.of(ring.slot_ptr(i)).min(size);
        let len = u32::from(slot.len).min(size - at) as u16;
        Self { buf: slot.buf, len, flags: slot.flags, offset: at as u16 }
    }

    /// Copies the first bytes of the fragment to `out`.
    #[inline(always)]
    pub(crate) fn copy_out(&self, ring: &RingView, out: &mut [u8]) {
        match self.offset {
            0 => ring.region().copy_out(self.buf, out),
            at => ring.region().copy_out_at(self.buf, at.into(), out),
        };
    }
}
