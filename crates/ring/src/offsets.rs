//! netmap's offsets: payloads that do not begin at the start of their buffer.
//!
//! A ring's `offset_mask` says which bits of a slot's `ptr` hold the offset. The program can
//! overwrite `offset_mask`, so the host uses its own copy.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The host's settings of a ring's offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingOffsets {
    /// The bits of `ptr` that hold an offset; never 0.
    pub mask: u64,
    /// The largest offset, in bytes; larger values are clamped to it.
    pub max: u32,
}

impl RingOffsets {
    /// The offset in a slot's `ptr`, in bytes; at most [`Self::max`].
    #[must_use]
    #[inline]
    pub fn of(self, ptr: u64) -> u32 {
        (ptr & self.mask).min(self.max.into()) as u32
    }
}

/// The host's copy of the settings, outside the ring.
#[derive(Debug, Default)]
pub(crate) struct HostOffsets {
    /// The bits of `ptr` that hold an offset; 0 if all payloads begin at byte 0.
    mask: AtomicU64,
    max: AtomicU32,
}

impl HostOffsets {
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<RingOffsets> {
        // Acquire: pairs with the release in `set`.
        let mask = self.mask.load(Ordering::Acquire);
        (mask != 0).then(|| RingOffsets { mask, max: self.max.load(Ordering::Relaxed) })
    }

    pub(crate) fn set(&self, offsets: Option<RingOffsets>) {
        if let Some(offsets) = offsets {
            self.max.store(offsets.max, Ordering::Relaxed);
        }
        self.mask.store(offsets.map_or(0, |offsets| offsets.mask), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_read_under_its_mask_and_cropped() {
        let offsets = RingOffsets { mask: 0xffff, max: 128 };
        assert_eq!(
            [0x7_0040, 0x80, 0x81, u64::MAX].map(|ptr| offsets.of(ptr)),
            [64, 128, 128, 128]
        );
    }
}
