//! Moving buffers between slots by exchange, and restoring slots that a peer has overwritten.

use std::sync::Arc;

use super::KernRing;
use crate::index::{BufIdx, SlotIdx};
use crate::mem::{Slot, SlotFlags};
use crate::owned::OwnedBuf;

impl KernRing {
    /// Exchanges the buffers of two of the driver's slots and sets the given lengths and flags. The
    /// second slot is written first: if the process is killed between the two writes, its successor
    /// finds one buffer in both slots and the other buffer in no slot. Returns false and does
    /// nothing if one of the slots is the application's.
    ///
    /// # Panics
    /// If one of the indices is not a slot of this ring.
    #[inline]
    pub fn exchange(
        &mut self,
        (i, len, flags): (SlotIdx, u16, SlotFlags),
        (j, other_len, other_flags): (SlotIdx, u16, SlotFlags),
    ) -> bool {
        if !self.is_held(i) || !self.is_held(j) {
            return false;
        }
        let (one, other) = (self.mem.slot(i), self.mem.slot(j));
        let (buf, other_buf) = (one.get().buf, other.get().buf);
        other.set(Slot { buf, len: other_len, flags: other_flags });
        one.set(Slot { buf: other_buf, len, flags });
        true
    }

    /// Like [`Self::exchange`], but the second slot is in another ring of the same driver. Also
    /// returns false if the two rings are in different regions.
    ///
    /// # Panics
    /// If one of the indices is not a slot of its ring.
    #[inline]
    pub fn exchange_with(
        &mut self,
        (i, len, flags): (SlotIdx, u16, SlotFlags),
        other: &mut Self,
        (j, other_len, other_flags): (SlotIdx, u16, SlotFlags),
    ) -> bool {
        let same_region = Arc::ptr_eq(self.region(), other.region());
        if !same_region || !self.is_held(i) || !other.is_held(j) {
            return false;
        }
        let (one, other) = (self.mem.slot(i), other.mem.slot(j));
        let (buf, other_buf) = (one.get().buf, other.get().buf);
        other.set(Slot { buf, len: other_len, flags: other_flags });
        one.set(Slot { buf: other_buf, len, flags });
        true
    }

    /// Used by the program's half of another ring: writes `slot`, one of that program's slots, to
    /// slot `i` of this ring, and returns the buffer that slot `i` had. If slot `i` is not the
    /// driver's, does nothing and returns `None`.
    pub(crate) fn swap_in(&mut self, i: SlotIdx, slot: Slot) -> Option<BufIdx> {
        let cell = self.mem.slot(i);
        let other_buf = cell.get().buf;
        self.is_held(i).then(|| cell.set(slot))?;
        Some(other_buf)
    }

    /// Puts `buf` into slot `i`, one of the driver's, with the given length and flags; returns the
    /// slot's old buffer. Does nothing on an error.
    ///
    /// # Errors
    /// Returns `buf` itself if the slot is the application's or has no usable buffer, or if `buf`
    /// belongs to another region.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring.
    #[inline]
    pub fn replace(
        &mut self,
        i: SlotIdx,
        buf: OwnedBuf,
        len: u16,
        flags: SlotFlags,
    ) -> Result<OwnedBuf, OwnedBuf> {
        let (cell, region) = (self.mem.slot(i), self.mem.region());
        let other_buf = cell.get().buf;
        if !self.is_held(i) || !buf.is_of(region) || !region.is_usable(other_buf) {
            return Err(buf);
        }
        cell.set(Slot { buf: buf.index(), len, flags });
        Ok(region.own(other_buf))
    }

    /// Writes `slot` to slot `i`, to restore a buffer that a peer may have removed from the ring by
    /// overwriting slots. Returns false and does nothing in a private region, where peers cannot
    /// write slots and buffers are only exchanged.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring.
    #[inline]
    pub fn rename(&mut self, i: SlotIdx, slot: Slot) -> bool {
        let may = !self.mem.is_private();
        if may {
            self.mem.slot(i).set(slot);
        }
        may
    }
}
