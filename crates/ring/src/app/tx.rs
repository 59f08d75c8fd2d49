//! Filling the slots of a tx ring.

use super::whole_buffer::whole_buffer;
use super::{AppRing, RxRing, Tx};
use crate::index::{BufIdx, SlotIdx, distance, next, spans};
use crate::mem::{MemValues, PrivateMem, RingMem, Slot, SlotFlags};
use crate::shared::SharedBuf;

impl AppRing<Tx> {
    /// Offers up to `max` free buffers to `write`, which fills one and returns the frame's length,
    /// or 0 to stop. Returns how many frames were queued. The next tx sync sends them.
    #[inline(always)]
    pub fn fill(&mut self, max: u32, mut write: impl FnMut(&mut [u8]) -> usize) -> u32 {
        let count = self.avail().min(max);
        let (start, end) = (self.head, self.index(count));
        let Some((free, mem)) = self.free_bufs() else { return 0 };
        let end = fill_slots(free, mem, (start, end), &mut write);
        if !self.mem.is_private() {
            self.store_filled(start, end);
        }
        self.head = end;
        self.publish();
        distance(start, end, self.mem.num_slots())
    }

    /// Returns the buffers to fill, and the ring whose slots get the lengths. Both are this ring's
    /// own in a private region; in a shared region, both belong to the copies.
    ///
    /// The caller uses one loop for both kinds of buffers. With a second loop, in a separate
    /// function for copies, the compiler would keep the variables that `write` captures in memory.
    /// A captured counter would then be stored between two frames, with the effect described at
    /// [`fill_slots`].
    #[inline(always)]
    fn free_bufs(&self) -> Option<(PrivateMem<'_>, &RingMem)> {
        match self.mem.as_private() {
            Some(free) => Some((free, &self.mem)),
            None => self.free_copies(),
        }
    }

    #[cold]
    #[inline(never)]
    fn free_copies(&self) -> Option<(PrivateMem<'_>, &RingMem)> {
        let copies = self.copies.as_ref()?;
        Some((copies.private()?, copies.mem()))
    }

    /// In a shared region, writes the copies that were filled for the slots `from..to` to the
    /// buffers of those slots.
    #[cold]
    #[inline(never)]
    fn store_filled(&self, from: SlotIdx, to: SlotIdx) {
        if let Some(copies) = &self.copies {
            copies.store_filled(&self.mem, from, to);
        }
    }

    /// Like [`Self::fill`], but `write` gets the ring's own buffer as a [`SharedBuf`], to which it
    /// can only copy bytes. In a shared region no separate copies are needed.
    #[inline(always)]
    pub fn fill_by_value(
        &mut self,
        max: u32,
        mut write: impl FnMut(SharedBuf<'_>) -> usize,
    ) -> u32 {
        let count = self.avail().min(max);
        let (start, end) = (self.head, self.index(count));
        self.head = fill_slots(self.mem.values(), &self.mem, (start, end), &mut write);
        self.publish();
        distance(start, self.head, self.mem.num_slots())
    }

    /// Copies `bytes` into our `i`-th slot and sets length and flags. Bytes beyond the size of the
    /// buffer are left out. Returns false if the slot is not ours.
    #[inline(always)]
    pub fn write(&mut self, i: u32, bytes: &[u8], flags: SlotFlags) -> bool {
        let Some(slot) = self.slot(i) else { return false };
        let len = bytes.len().min(self.mem.buf_size() as usize);
        self.mem.write(slot.buf, &bytes[..len]);
        self.mem.slot(self.index(i)).set(Slot { len: len as u16, flags, ..slot });
        true
    }

    /// Copies the frame in the `j`-th slot of `from` into our `i`-th slot and sets length and
    /// flags. Bytes beyond the size of the buffer are left out. Returns false if one of the slots
    /// is not owned by its program's half.
    #[inline(always)]
    pub fn write_copy(&mut self, i: u32, from: &RxRing, j: u32, flags: SlotFlags) -> bool {
        let (Some(to), Some(frame)) = (self.slot(i), from.slot(j)) else { return false };
        let len = u32::from(frame.len).min(from.mem.buf_size()).min(self.mem.buf_size());
        self.mem.copy_from(to.buf, &from.mem, frame.buf, len as usize);
        self.mem.slot(self.index(i)).set(Slot { len: len as u16, flags, ..to });
        true
    }

    /// Queues a copy of a frame; a frame that is longer than a buffer takes several slots. Returns
    /// false if the free slots are too few. An empty frame takes no slot.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        let size = self.mem.buf_size() as usize;
        let slots = frame.len().div_ceil(size);
        if slots > self.avail() as usize {
            return false;
        }
        let mut at = self.head;
        for (i, part) in frame.chunks(size).enumerate() {
            let flags = if i + 1 < slots { SlotFlags::MOREFRAG } else { SlotFlags::default() };
            let cell = self.mem.slot(at);
            let slot = Slot { buf: cell.get().buf, len: part.len() as u16, flags };
            self.mem.write(slot.buf, part);
            cell.set(slot);
            at = next(at, self.mem.num_slots());
        }
        self.head = at;
        self.publish();
        true
    }
}

/// A run of consecutive slots whose frames have the same length.
struct SlotRun {
    start: SlotIdx,
    len: u16,
}

impl SlotRun {
    /// Writes length and flags (none) to the slots of the run, up to `end`.
    #[inline(never)]
    fn write(&self, mem: &RingMem, end: SlotIdx) {
        for span in spans(self.start, end, mem.num_slots()) {
            for cell in mem.slots(span) {
                cell.set(Slot { len: self.len, flags: SlotFlags::default(), ..cell.get() });
            }
        }
    }
}

/// Calls `write` for the buffers of the slots `from..to`, until it returns 0; returns the first
/// slot that was not filled.
///
/// Slots are written once per run of equal lengths, not after each frame, for the following reason.
/// Stores commit in order. A store to a slot between the stores to two frames prevents the
/// processor from fetching the cache lines of both frames in parallel; these lines are in the cache
/// of the core that last read the frames. This would cost a third of a pipe's rate.
#[inline(always)]
fn fill_slots<'m, M: FreeBufs<'m>>(
    free: M,
    mem: &RingMem,
    (from, to): (SlotIdx, SlotIdx),
    write: &mut impl FnMut(M::Buf) -> usize,
) -> SlotIdx {
    let mut run = SlotRun { start: from, len: 0 };
    let values = free.values();
    let size = values.buf_size() as usize;
    for span in spans(from, to, values.num_slots()) {
        for (i, cell) in (span.0..).zip(values.slots(span)) {
            let len = write(free.buf(cell.get().buf)).min(size) as u16;
            if len != run.len {
                run.write(mem, i);
                run = SlotRun { start: i, len };
            }
            if len == 0 {
                return i;
            }
        }
    }
    run.write(mem, to);
    to
}

/// A source of tx buffers to fill: slices for buffers that may be lent, otherwise [`SharedBuf`]s.
trait FreeBufs<'m>: Copy {
    type Buf;

    fn values(self) -> MemValues<'m>;
    fn buf(self, buf: BufIdx) -> Self::Buf;
}

impl<'m> FreeBufs<'m> for PrivateMem<'m> {
    type Buf = &'m mut [u8];

    #[inline(always)]
    fn values(self) -> MemValues<'m> {
        *self
    }

    #[inline(always)]
    fn buf(self, buf: BufIdx) -> &'m mut [u8] {
        whole_buffer(self, buf)
    }
}

impl<'m> FreeBufs<'m> for MemValues<'m> {
    type Buf = SharedBuf<'m>;

    #[inline(always)]
    fn values(self) -> MemValues<'m> {
        self
    }

    #[inline(always)]
    fn buf(self, buf: BufIdx) -> SharedBuf<'m> {
        self.shared(buf, self.buf_size())
    }
}
