//! Copies of the buffers of a shared ring, lent in place of the buffers.
//!
//! ```text
//!   ring that others map    slot i ----> buffer of any index
//!                                          | copied once           ^ written back
//!   private ring            slot i ----> buffer of slot i, always the same one: lent
//! ```

use crate::index::{SlotIdx, cyclic};
use crate::mem::{PrivateMem, RingDir, RingMem, Slot, SlotFlags};
use crate::region::{Geometry, Region, RegionError};

/// A private ring parallel to the shared one, slot for slot.
#[derive(Debug)]
pub(super) struct SlotCopies {
    mem: RingMem,
    /// Bytes of a buffer of the shared ring; ours may have a few more.
    buf_size: u32,
    /// Memory for a copy of one frame, of any slot.
    pub(super) scratch: Box<[u8]>,
}

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
        let mem = RingMem::create(&region, RingDir::Rx, 0, slots, &bufs)?;
        let scratch = vec![0; of.buf_size() as usize].into();
        Ok(Self { mem, buf_size: of.buf_size(), scratch })
    }

    /// The copies, to be filled or read.
    pub(super) fn private(&self) -> Option<PrivateMem<'_>> {
        Some(self.mem.as_private()?.with_buf_size(self.buf_size))
    }

    /// The ring of the copies, which holds the lengths of the filled ones.
    pub(super) fn mem(&self) -> &RingMem {
        &self.mem
    }

    /// Copies the frame in slot `i` of `from`; the slot's flags and length are read once.
    fn load(&self, from: &RingMem, i: SlotIdx) {
        let slot = from.slot(i).get();
        let own = self.mem.slot(i).get().buf;
        let len = u32::from(slot.len).min(from.buf_size());
        let bytes = from.shared(slot.buf, len);
        bytes.copy_to(self.mem.shared(own, len));
        self.mem.slot(i).set(Slot { buf: own, len: len as u16, ..slot });
    }

    /// Copies of the frames in the slots `slots` of `from`.
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
        let (own, slot) = (self.mem.slot(i).get(), to.slot(i).get());
        self.mem.shared(own.buf, own.len.into()).copy_to(to.shared(slot.buf, own.len.into()));
    }

    /// Writes the copies of the slots `from..to`, which were filled, to the buffers that those slots
    /// of `ring` name, and sets their lengths.
    pub(super) fn store_filled(&self, ring: &RingMem, from: SlotIdx, to: SlotIdx) {
        for i in cyclic(from, to, ring.num_slots()) {
            self.store(ring, i);
            let (len, cell) = (self.mem.slot(i).get().len, ring.slot(i));
            cell.set(Slot { len, flags: SlotFlags::default(), ..cell.get() });
        }
    }
}
