//! Reading the slots of an rx ring.

use super::{AppRing, Rx, RxBatch, bytes_of};
use crate::index::{SlotIdx, spans};
use crate::mem::{MemValues, Slot, SlotCell, SlotFlags};
use crate::shared::SharedBuf;

impl AppRing<Rx> {
    /// Lends up to `max` received slots, in order. Dropping the batch returns the slots that were
    /// iterated over to the driver.
    #[inline(always)]
    pub fn batch(&mut self, max: u32) -> RxBatch<'_> {
        let left = self.avail().min(max);
        RxBatch { at: self.head, remaining: left, ring: self }
    }

    /// Calls `read` for the frames in our first `max` slots, in order, and returns the slots to the
    /// driver: the counterpart of [`TxRing::fill`](crate::TxRing::fill). Returns the number of
    /// frames.
    #[inline(always)]
    pub fn drain(&mut self, max: u32, mut read: impl FnMut(&mut [u8], SlotFlags)) -> u32 {
        let count = self.avail().min(max);
        let end = self.index(count);
        if let Some(mem) = self.mem.as_private() {
            for span in spans(self.head, end, mem.num_slots()) {
                for cell in mem.slots(span) {
                    let slot = cell.get();
                    read(bytes_of(mem, slot), slot.flags);
                }
            }
        } else {
            let Some(copies) = &mut self.copies else { return 0 };
            copy_each(self.mem.values(), (self.head, end), &mut copies.scratch, &mut read);
        }
        self.head = end;
        self.publish();
        count
    }

    /// Like [`Self::drain`], but `read` gets the ring's own buffer as a [`SharedBuf`], from which
    /// it can only copy bytes. In a shared region no separate copies are needed.
    #[inline(always)]
    pub fn drain_by_value(
        &mut self,
        max: u32,
        mut read: impl FnMut(SharedBuf<'_>, SlotFlags),
    ) -> u32 {
        let count = self.avail().min(max);
        let (mem, end) = (self.mem.values(), self.index(count));
        for span in spans(self.head, end, mem.num_slots()) {
            for cell in mem.slots(span) {
                let slot = cell.get();
                read(mem.shared(slot.buf, slot.len.into()), slot.flags);
            }
        }
        self.head = end;
        self.publish();
        count
    }

    /// Calls `weigh` for our first `max` slots, or all our slots if they are fewer, and returns the
    /// sum of the results. Does not refresh the tail.
    #[inline(always)]
    pub fn sum(&self, max: u32, weigh: impl Fn(Slot) -> u64) -> u64 {
        let end = self.index(max.min(self.owned_slots()));
        let spans = spans(self.head, end, self.mem.num_slots());
        let sum = |span| self.mem.slots(span).iter().map(|cell| weigh(cell.get())).sum::<u64>();
        spans.into_iter().map(sum).sum()
    }

    /// Number of slots that the complete packets among our first `max` slots take.
    #[inline(always)]
    pub fn whole_packets(&self, max: u32) -> u32 {
        let mut count = self.owned_slots().min(max);
        while let Some(last) = count.checked_sub(1).and_then(|i| self.slot(i)) {
            if !last.flags.has(SlotFlags::MOREFRAG) {
                break;
            }
            count -= 1;
        }
        count
    }

    /// The flags of our first slot; `None` if no slot is ours.
    #[must_use]
    pub fn first_flags(&self) -> Option<SlotFlags> {
        self.slot(0).map(|slot| slot.flags)
    }

    /// Takes one packet, of one or more slots, off the ring and passes it to `read`: in place if it
    /// is in one slot of a private region, otherwise copied to `scratch`. Returns the result of
    /// `read`; `None` if no whole packet has arrived.
    pub fn packet<R>(
        &mut self,
        scratch: &mut Vec<u8>,
        read: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<R> {
        self.avail();
        let first = self.slot(0)?;
        if let Some(mem) = self.mem.as_private().filter(|_| !first.flags.has(SlotFlags::MOREFRAG)) {
            let result = read(bytes_of(mem, first));
            self.advance(1);
            return Some(result);
        }
        let slots = self.gather(scratch, self.owned_slots())?;
        let result = read(scratch);
        self.advance(slots);
        Some(result)
    }

    /// Copies the first packet into `packet` and returns how many slots it has; `None` if it is not
    /// complete within the first `max` slots.
    pub(crate) fn peek_packet(&mut self, packet: &mut Vec<u8>, max: u32) -> Option<u32> {
        let count = self.avail().min(max);
        self.gather(packet, count)
    }

    fn gather(&self, packet: &mut Vec<u8>, max: u32) -> Option<u32> {
        packet.clear();
        for i in 0..max {
            let slot = self.slot(i)?;
            self.mem.shared(slot.buf, slot.len.into()).append_to(packet);
            if !slot.flags.has(SlotFlags::MOREFRAG) {
                return Some(i + 1);
            }
        }
        None
    }
}

/// Copies each frame in the slots `from..to` to `copy` in turn, and calls `read` with the copy.
/// While a frame is copied and read, the next frame is prefetched.
#[inline(always)]
fn copy_each(
    mem: MemValues<'_>,
    (from, to): (SlotIdx, SlotIdx),
    copy: &mut [u8],
    read: &mut impl FnMut(&mut [u8], SlotFlags),
) {
    let shared = |slot: Slot| mem.shared(slot.buf, slot.len.into());
    for span in spans(from, to, mem.num_slots()) {
        let mut slots = mem.slots(span).iter().map(SlotCell::get);
        let mut current = slots.next();
        while let Some(slot) = current {
            current = slots.next();
            current.into_iter().for_each(|next| shared(next).prefetch());
            let len = shared(slot).copy_out(copy);
            read(&mut copy[..len], slot.flags);
        }
    }
}
