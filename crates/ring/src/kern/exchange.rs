//! How buffers change places: by exchange, or for one that somebody has.

use std::sync::Arc;

use super::KernRing;
use crate::index::{BufIdx, SlotIdx};
use crate::mem::{Slot, SlotFlags};
use crate::owned::OwnedBuf;

impl KernRing {
    /// Exchanges the buffers of two of the driver's slots, which get the lengths and flags that are
    /// given. The second is written first: whoever goes on with the ring after a kill between the
    /// two finds one buffer twice, and the other one nowhere. False, with nothing done, where one of
    /// them is the application's.
    ///
    /// # Panics
    /// If one is not a slot of this ring.
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
        let (here, there) = (one.get().buf, other.get().buf);
        other.set(Slot { buf: here, len: other_len, flags: other_flags });
        one.set(Slot { buf: there, len, flags });
        true
    }

    /// As [`Self::exchange`], with a slot of another ring, whose driver this is, too. False as well
    /// where that lies in another region.
    ///
    /// # Panics
    /// As [`Self::exchange`].
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
        let (here, there) = (one.get().buf, other.get().buf);
        other.set(Slot { buf: here, len: other_len, flags: other_flags });
        one.set(Slot { buf: there, len, flags });
        true
    }

    /// For the program's half of another ring: exchanges the buffer of slot `i`, one of the driver's,
    /// for that of a slot which the program has; the buffer that was there.
    pub(crate) fn swap_in(&mut self, i: SlotIdx, slot: Slot) -> Option<BufIdx> {
        let cell = self.mem.slot(i);
        let there = cell.get().buf;
        self.is_held(i).then(|| cell.set(slot))?;
        Some(there)
    }

    /// Exchanges the buffer of slot `i`, one of the driver's, for `buf`, and sets length and flags;
    /// the buffer that was there. `Err` with `buf`, and nothing done, where the slot is the
    /// application's, or the buffer is one of another region.
    ///
    /// # Errors
    /// See above.
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
        let there = cell.get().buf;
        if !self.is_held(i) || !buf.is_of(region) || !region.is_usable(there) {
            return Err(buf);
        }
        cell.set(Slot { buf: buf.index(), len, flags });
        Ok(region.own(there))
    }

    /// Has slot `i` name a buffer that a peer may have taken out of the ring's slots by writing to
    /// them. False, with nothing done, in a private region, where nobody can: there buffers are only
    /// exchanged.
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
