//! Copies of the buffers of a shared ring, lent in place of the buffers.
//!
//! ```text
//!   ring that others map    slot i ----> buffer of any index
//!                                          | copied once           ^ written back
//!   private ring            slot i ----> buffer of slot i, always the same one: lent
//! ```

use super::whole_buffer::whole_buffer;
use crate::index::SlotIdx;
use crate::mem::{PrivateMem, RingDir, RingMem, Slot};
use crate::region::{Geometry, Region, RegionError};

/// A private ring parallel to the shared one, slot for slot.
#[derive(Debug)]
pub(super) struct SlotCopies(RingMem);

impl SlotCopies {
    /// Allocates a copy buffer for each slot of `of`.
    pub(super) fn new(of: &RingMem) -> Result<Self, RegionError> {
        let slots = of.num_slots();
        let geometry = Geometry {
            ring_bytes: crate::mem::ring_bytes(slots),
            bufs: slots + 2,
            buf_size: of.buf_size().next_multiple_of(64),
        };
        let region = Region::create_sparse(geometry)?;
        let bufs = region.alloc_bufs(slots)?;
        Ok(Self(RingMem::create(&region, RingDir::Rx, 0, slots, &bufs)?))
    }

    fn private(&self) -> Option<PrivateMem<'_>> {
        self.0.as_private()
    }

    /// Copies what slot `i` of `from` holds; its flags and length are read once.
    fn load(&self, from: &RingMem, i: SlotIdx) {
        let slot = from.slot(i).get();
        let own = self.0.slot(i).get().buf;
        let len = u32::from(slot.len).min(from.buf_size());
        let bytes = from.shared(slot.buf, len);
        bytes.copy_to(self.0.shared(own, len));
        self.0.slot(i).set(Slot { buf: own, len: len as u16, ..slot });
    }

    /// Copies of what the slots `slots` of `from` hold.
    pub(super) fn of_slots(
        &self,
        from: &RingMem,
        slots: impl Iterator<Item = SlotIdx>,
    ) -> Option<PrivateMem<'_>> {
        slots.for_each(|i| self.load(from, i));
        self.private()
    }

    /// Writes the copy of slot `i`, which may have been changed, to the buffer that the slot of `to`
    /// names.
    pub(super) fn store(&self, to: &RingMem, i: SlotIdx) {
        let (own, slot) = (self.0.slot(i).get(), to.slot(i).get());
        self.0.shared(own.buf, own.len.into()).copy_to(to.shared(slot.buf, own.len.into()));
    }

    /// Calls `write` to fill the copy of the buffer in slot `i` of `to`, and copies the result
    /// there;
    /// returns the number of bytes.
    pub(super) fn fill(
        &self,
        to: &RingMem,
        i: SlotIdx,
        write: &mut impl FnMut(&mut [u8]) -> usize,
    ) -> u16 {
        let Some(mem) = self.private() else { return 0 };
        let own = mem.slot(i).get().buf;
        let size = to.buf_size() as usize;
        let buf = whole_buffer(mem, own);
        let len = write(&mut buf[..size]).min(size) as u16;
        self.0.slot(i).set(Slot { buf: own, len, ..self.0.slot(i).get() });
        self.store(to, i);
        len
    }
}
