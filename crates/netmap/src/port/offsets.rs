//! Payload offsets (option OFFSETS): a frame begins where its slot's `ptr` says, not at the start
//! of the buffer.
//!
//! The first bind of a ring with this option fixes which offsets the slots can hold. Later binds
//! may ask for offsets within these limits, not for more. On most ports the limits end when the
//! last program unbinds the ring. Rings of a pipe keep their offsets, since frames may wait in
//! them.

use rustix::io::Errno;
use slipring_abi::NmreqOptOffsets;
use slipring_ring::{RingOffsets, RingView};

use crate::port::adapter::Adapter;
use crate::port::claims::Claim;
use crate::types::shape::TxRx;

/// The minimum number of bytes that a buffer has after the largest offset. The headers before a
/// frame always take less.
const MIN_PAYLOAD_BYTES: u64 = 64;

/// The payload offsets that a request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OffsetsRequest {
    offsets: RingOffsets,
    initial: u64,
    tx_align: u32,
    /// The error if the request is valid but cannot be granted; `None` if it can be granted.
    refused: Option<Errno>,
}

impl OffsetsRequest {
    /// Reads an option, for buffers of `buf_size` bytes.
    ///
    /// # Errors
    /// [`Errno::INVAL`] if bits are outside `ptr`, if the offsets do not fit the bits or leave too
    /// little of a buffer, if the initial offset is above the maximum, or if the alignment is
    /// invalid.
    pub(crate) fn from_option(option: &NmreqOptOffsets, buf_size: u32) -> Result<Self, Errno> {
        let mask = match option.nro_offset_bits {
            0 | 64 => u64::MAX,
            bits @ 1..64 => (1 << bits) - 1,
            _ => return Err(Errno::INVAL),
        };
        let (max, initial) = (option.nro_max_offset, option.nro_initial_offset);
        let room = u64::from(buf_size).checked_sub(option.nro_min_gap.max(MIN_PAYLOAD_BYTES));
        let fits = room.is_some_and(|room| max <= room) && max & mask == max && initial <= max;
        let align = option.nro_tx_align;
        if !fits || align != 0 && !align.is_power_of_two() {
            return Err(Errno::INVAL);
        }
        // `max` fits in 32 bits, because it is below the size of a buffer.
        Ok(Self {
            offsets: RingOffsets { mask, max: max as u32 },
            initial,
            tx_align: align,
            refused: None,
        })
    }

    /// Returns the option with the granted values, which may be greater than requested.
    ///
    /// # Errors
    /// [`Errno::BUSY`] if earlier binds fixed smaller offsets; [`Errno::INVAL`] if the port
    /// supports only smaller offsets.
    pub(crate) fn granted(&self, option: &NmreqOptOffsets) -> Result<NmreqOptOffsets, Errno> {
        if let Some(why) = self.refused {
            return Err(why);
        }
        let bits = self.offsets.mask.count_ones();
        let (nro_max_offset, nro_offset_bits) = (self.offsets.max.into(), bits);
        Ok(NmreqOptOffsets { nro_max_offset, nro_offset_bits, ..*option })
    }

    /// Replaces the requested offsets by those that the rings already have. Fails if these do not
    /// suffice, or if the largest requested offset is above `most`.
    fn merge_existing(mut self, rings: &[OffsetRing<'_>], most: u32) -> Result<Self, Errno> {
        if self.offsets.max > most {
            return Err(Errno::INVAL);
        }
        for offsets in rings.iter().filter_map(|ring| ring.view.offsets()) {
            let wanted = self.offsets;
            if offsets.mask & wanted.mask != wanted.mask || offsets.max < wanted.max {
                return Err(Errno::BUSY);
            }
            self.offsets = offsets;
        }
        Ok(self)
    }

    fn apply(&self, ring: &OffsetRing<'_>, keeps_frames: bool) {
        let align = if ring.dir == TxRx::Tx { self.tx_align } else { 0 };
        if ring.view.offsets().is_none() {
            ring.view.set_offsets(Some(self.offsets), align.into());
        }
        // Slots of a pipe's rx ring keep their offsets, because the sender has put the frames
        // there.
        if !ring.exclusive || self.initial == 0 || keeps_frames && ring.dir == TxRx::Rx {
            return;
        }
        for i in 0..ring.view.num_slots() {
            let rest = ring.view.slot_ptr(i) & !self.offsets.mask;
            ring.view.set_slot_ptr(i, rest | self.initial);
        }
    }
}

/// A ring that a bind is setting up.
struct OffsetRing<'p> {
    dir: TxRx,
    view: &'p RingView,
    /// Whether no other file has the ring bound.
    exclusive: bool,
}

/// Sets up the offsets of all rings of a bind. First removes the old offsets of rings that no other
/// file has bound, except rings in which frames may wait. `wish` is the request; it is updated to
/// the granted values.
///
/// # Errors
/// [`Errno::OPNOTSUPP`] if there is a request and the port supports no offsets; [`Errno::BUSY`] if
/// earlier binds fixed smaller offsets; [`Errno::INVAL`] if the port supports only smaller offsets.
pub(crate) fn apply_offsets(
    port: &dyn Adapter,
    claim: &Claim,
    wish: Option<&mut OffsetsRequest>,
) -> Result<(), Errno> {
    let Some(limits) = port.offset_limits() else {
        return wish.map_or(Ok(()), |_| Err(Errno::OPNOTSUPP));
    };
    let rings: Vec<OffsetRing<'_>> = claim.each(|dir, i, alone| {
        port.ring(dir, i).map(|view| OffsetRing { dir, view, exclusive: alone })
    });
    for ring in rings.iter().filter(|ring| ring.exclusive && !limits.preserves_frames) {
        ring.view.set_offsets(None, 0);
    }
    let Some(wish) = wish else { return Ok(()) };
    let agreed = wish.merge_existing(&rings, limits.max);
    wish.refused = agreed.as_ref().err().copied();
    *wish = agreed?;
    rings.iter().for_each(|ring| wish.apply(ring, limits.preserves_frames));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(max: u64, initial: u64, bits: u32) -> NmreqOptOffsets {
        NmreqOptOffsets {
            nro_max_offset: max,
            nro_initial_offset: initial,
            nro_offset_bits: bits,
            ..NmreqOptOffsets::default()
        }
    }

    fn is_right(option: &NmreqOptOffsets) -> bool {
        OffsetsRequest::from_option(option, 2048).is_ok()
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let right = option(128, 128, 16);
        assert!(is_right(&right) && is_right(&option(1984, 0, 0)) && is_right(&option(1, 1, 64)));
        assert!(!is_right(&option(128, 129, 16)), "begins beyond the largest");
        assert!(!is_right(&option(128, 0, 7)), "seven bits say 127");
        assert!(!is_right(&option(0, 0, 65)));
        assert!(!is_right(&option(2049, 0, 0)) && !is_right(&option(1985, 0, 0)));
        assert!(!is_right(&option(u64::MAX, u64::MAX, 0)));
        assert!(is_right(&NmreqOptOffsets { nro_tx_align: 64, ..right }));
        assert!(!is_right(&NmreqOptOffsets { nro_tx_align: 48, ..right }));
        assert!(is_right(&NmreqOptOffsets { nro_min_gap: 1920, ..right }));
        assert!(!is_right(&NmreqOptOffsets { nro_min_gap: 1921, ..right }));
        assert!(!is_right(&NmreqOptOffsets { nro_min_gap: u64::MAX, ..right }));
    }
}
