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

/// A ring of a private region. For each slot of the shared ring, it has a slot and a buffer for a
/// copy of the frame.
#[derive(Debug)]
pub(super) struct SlotCopies {
    mem: RingMem,
    /// Bytes of a buffer of the shared ring; the buffers for copies may be a little larger.
    buf_size: u32,
    /// Memory for a copy of one frame, from any slot.
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

    /// The ring of the copies, which holds the lengths of the filled copies.
    pub(super) fn mem(&self) -> &RingMem {
        &self.mem
    }

    /// Copies the frame in slot `i` of the shared ring `from`; flags and length of that slot are
    /// read once.
    fn load(&self, from: &RingMem, i: SlotIdx) {
        let slot = from.slot(i).get();
        let own = self.mem.slot(i).get().buf;
        let len = u32::from(slot.len).min(from.buf_size());
        let bytes = from.shared(slot.buf, len);
        bytes.copy_to(self.mem.shared(own, len));
        self.mem.slot(i).set(Slot { buf: own, len: len as u16, ..slot });
    }

    /// Copies the frames in the slots `slots` of the shared ring `from`; returns the memory with
    /// the copies.
    pub(super) fn of_slots(
        &self,
        from: &RingMem,
        slots: impl Iterator<Item = SlotIdx>,
    ) -> Option<PrivateMem<'_>> {
        slots.for_each(|i| self.load(from, i));
        self.private()
    }

    /// Writes the copy of slot `i`, which the program may have changed, to the buffer in slot `i`
    /// of the shared ring `to`.
    pub(super) fn store(&self, to: &RingMem, i: SlotIdx) {
        let (own, slot) = (self.mem.slot(i).get(), to.slot(i).get());
        self.mem.shared(own.buf, own.len.into()).copy_to(to.shared(slot.buf, own.len.into()));
    }

    /// Writes the filled copies of the slots `from..to` to the buffers in the same slots of the
    /// shared ring `ring`, sets the lengths of these slots, and clears their flags.
    pub(super) fn store_filled(&self, ring: &RingMem, from: SlotIdx, to: SlotIdx) {
        for i in cyclic(from, to, ring.num_slots()) {
            self.store(ring, i);
            let (len, cell) = (self.mem.slot(i).get().len, ring.slot(i));
            cell.set(Slot { len, flags: SlotFlags::default(), ..cell.get() });
        }
    }
}
