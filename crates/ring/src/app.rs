//! The program's half of a ring.
//!
//! ```text
//!   slot   0   1   2   3   4   5   6   7
//!        | d | d | a | a | a | a | d | d |     a: ours    d: the driver's
//!                  ^ head          ^ tail
//! ```

mod attach;
mod batch;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use batch::RxBatch;

use crate::index::{SlotIdx, add, cyclic, distance, next, spans};
use crate::mem::{RingDir, RingMem, Slot, SlotFlags};
use crate::protocol::PeerFault;
use crate::region::Region;
use crate::view::RingView;

/// Marks a ring that sends.
#[derive(Debug, Clone, Copy)]
pub enum Tx {}
/// Marks a ring that receives.
#[derive(Debug, Clone, Copy)]
pub enum Rx {}

/// The two markers.
pub trait RingDirection: sealed::Sealed {
    #[doc(hidden)]
    const DIR: RingDir;
    #[doc(hidden)]
    fn first_tail(num_slots: u32) -> SlotIdx;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Tx {}
    impl Sealed for super::Rx {}
}

impl RingDirection for Tx {
    const DIR: RingDir = RingDir::Tx;
    fn first_tail(num_slots: u32) -> SlotIdx {
        num_slots - 1
    }
}

impl RingDirection for Rx {
    const DIR: RingDir = RingDir::Rx;
    fn first_tail(_: u32) -> SlotIdx {
        0
    }
}

/// A ring of free slots to be filled with frames.
pub type TxRing = AppRing<Tx>;
/// A ring of received frames.
pub type RxRing = AppRing<Rx>;

/// The program's half: owns the slots `head..tail`.
///
/// # Invariants
/// 1. `head` and `tail` are below the number of slots, which never changes.
/// 2. `tail` is a copy. The driver moves the shared one, so only [`Self::refresh`] reads it,
///    once, and checks it before anyone can use it.
#[derive(Debug)]
pub struct AppRing<D> {
    mem: RingMem,
    head: u32,
    tail: u32,
    direction: PhantomData<D>,
}

/// One slot's frame, or a part of it, lent to the program.
#[derive(Debug)]
pub struct FrameMut<'a> {
    /// The bytes in this slot's buffer.
    pub bytes: &'a mut [u8],
    /// The slot's flags.
    pub flags: SlotFlags,
}

impl FrameMut<'_> {
    /// Whether the packet goes on in the next slot.
    #[must_use]
    #[inline(always)]
    pub fn more(&self) -> bool {
        self.flags.has(SlotFlags::MOREFRAG)
    }
}

impl<D> AppRing<D> {
    pub(crate) fn start(mem: RingMem) -> Self {
        let (head, tail) = (0, mem.tail().load(Ordering::Acquire));
        let tail = if tail < mem.num_slots() { tail } else { head };
        Self { mem, head, tail, direction: PhantomData }
    }

    /// Takes over the slots that the driver has released since the last call; returns how many
    /// are ours now.
    ///
    /// # Errors
    /// [`PeerFault::OutOfRange`] if the shared tail is none; the ring stays as it was.
    #[inline(always)]
    pub fn refresh(&mut self) -> Result<u32, PeerFault> {
        // Acquire: pairs with the release in `KernRing::set_tail`.
        let tail = self.mem.tail().load(Ordering::Acquire);
        if tail >= self.mem.num_slots() {
            return Err(PeerFault::OutOfRange { index: tail, num_slots: self.mem.num_slots() });
        }
        self.tail = tail;
        Ok(self.owned_slots())
    }

    /// Slots that are ours: frames to read on an rx ring, free slots on a tx ring. A driver
    /// that published nonsense has released nothing.
    #[inline(always)]
    pub fn avail(&mut self) -> u32 {
        self.refresh().unwrap_or_else(|_| self.owned_slots())
    }

    #[inline(always)]
    fn owned_slots(&self) -> u32 {
        distance(self.head, self.tail, self.mem.num_slots())
    }

    /// Slots in the ring.
    #[must_use]
    pub fn num_slots(&self) -> u32 {
        self.mem.num_slots()
    }

    /// Slots with the driver, waiting or under way (tx: frames not yet completed).
    pub fn with_driver(&mut self) -> u32 {
        self.mem.num_slots() - 1 - self.avail()
    }

    /// Bytes per buffer.
    #[must_use]
    pub fn buf_size(&self) -> u32 {
        self.mem.buf_size()
    }

    /// The region that the ring and its buffers lie in.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        self.mem.region()
    }

    /// The ring from outside.
    #[must_use]
    pub fn view(&self) -> RingView {
        RingView::of(&self.mem)
    }

    /// Offset of the `netmap_ring` in its region.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.mem.offset()
    }

    /// The `i`-th of our slots, counted from head; `None` beyond the last known one.
    #[must_use]
    #[inline(always)]
    pub fn slot(&self, i: u32) -> Option<Slot> {
        (i < self.owned_slots()).then(|| self.mem.slot(self.index(i)).get())
    }

    /// The bytes of the `i`-th of our slots, `slot.len` of them.
    #[must_use]
    #[inline(always)]
    pub fn frame(&mut self, i: u32) -> Option<FrameMut<'_>> {
        let slot = self.slot(i)?;
        Some(FrameMut { bytes: bytes_of(&self.mem, slot), flags: slot.flags })
    }

    /// The whole buffer of the `i`-th of our slots.
    #[must_use]
    #[inline(always)]
    pub fn buffer(&mut self, i: u32) -> Option<&mut [u8]> {
        let slot = self.slot(i)?;
        Some(whole_buffer(&self.mem, slot.buf))
    }

    /// Sets length and flags of the `i`-th of our slots; the length is cut to the buffer.
    #[inline(always)]
    pub fn set(&mut self, i: u32, len: usize, flags: SlotFlags) {
        if let Some(slot) = self.slot(i) {
            let len = len.min(self.mem.buf_size() as usize) as u16;
            self.mem.slot(self.index(i)).set(Slot { len, flags, ..slot });
        }
    }

    /// Gives the first `count` of our slots to the driver, at most those last seen by
    /// [`Self::avail`].
    #[inline(always)]
    pub fn advance(&mut self, count: u32) {
        self.head = self.index(count.min(self.owned_slots()));
        self.publish();
    }

    /// Exchanges the buffers of our `i`-th slot and `other`'s `j`-th one; lengths and flags stay,
    /// but both say `NS_BUF_CHANGED`. False, with nothing done, when a slot is not ours or the
    /// rings lie in different regions.
    #[inline(always)]
    pub fn swap<E>(&mut self, i: u32, other: &mut AppRing<E>, j: u32) -> bool {
        let (Some(a), Some(b)) = (self.slot(i), other.slot(j)) else {
            return false;
        };
        if !self.same_region(other) {
            return false;
        }
        let changed = SlotFlags::BUF_CHANGED;
        self.mem.slot(self.index(i)).set(Slot { buf: b.buf, flags: a.flags | changed, ..a });
        other.mem.slot(other.index(j)).set(Slot { buf: a.buf, flags: b.flags | changed, ..b });
        true
    }

    /// Exchanges the buffers of our slots `i` and `j`, so that a frame can be moved within the
    /// ring; lengths and flags move along.
    pub fn exchange(&mut self, i: u32, j: u32) {
        if let (Some(a), Some(b)) = (self.slot(i), self.slot(j)) {
            let changed = SlotFlags::BUF_CHANGED;
            self.mem.slot(self.index(i)).set(Slot { flags: b.flags | changed, ..b });
            self.mem.slot(self.index(j)).set(Slot { flags: a.flags | changed, ..a });
        }
    }

    /// Exchanges the buffer of our `i`-th slot for `buf`, one outside all rings (an extra buffer);
    /// returns the one that was there.
    #[inline(always)]
    pub fn replace(&mut self, i: u32, buf: crate::BufIdx) -> Option<crate::BufIdx> {
        let slot = self.slot(i)?;
        let flags = slot.flags | SlotFlags::BUF_CHANGED;
        self.mem.slot(self.index(i)).set(Slot { buf, flags, ..slot });
        Some(slot.buf)
    }

    /// Index of our first slot.
    #[must_use]
    #[inline(always)]
    pub fn head(&self) -> SlotIdx {
        self.head
    }

    /// Index of the first slot that is not ours, as last refreshed.
    #[must_use]
    #[inline(always)]
    pub fn tail(&self) -> SlotIdx {
        self.tail
    }

    /// Shows the frames in slots `from..to`, whoever owns them, to `look`: for an observer that
    /// stands between program and driver while neither runs. Nothing if an index is no slot.
    pub fn for_each_frame(
        &mut self,
        from: SlotIdx,
        to: SlotIdx,
        mut look: impl FnMut(&[u8], SlotFlags),
    ) {
        let n = self.mem.num_slots();
        if from >= n || to >= n {
            return;
        }
        for i in cyclic(from, to, n) {
            let slot = self.mem.slot(i).get();
            look(bytes_of(&self.mem, slot), slot.flags);
        }
    }

    /// Whether buffers can be exchanged with `other`.
    #[must_use]
    #[inline(always)]
    pub fn same_region<E>(&self, other: &AppRing<E>) -> bool {
        Arc::ptr_eq(self.mem.region(), other.mem.region())
    }

    #[inline(always)]
    fn index(&self, i: u32) -> SlotIdx {
        add(self.head, i, self.mem.num_slots())
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.mem.cur().store(self.head, Ordering::Relaxed);
        // Release: pairs with the acquire in `KernRing::released`.
        self.mem.head().store(self.head, Ordering::Release);
    }

    pub(crate) fn mem(&self) -> &RingMem {
        &self.mem
    }
}

/// Slots in a row whose frames have one length.
struct SlotRun {
    start: SlotIdx,
    len: u16,
}

impl SlotRun {
    /// Writes the slots up to `end`, without flags.
    #[inline(never)]
    fn write(&self, mem: &RingMem, end: SlotIdx) {
        for span in spans(self.start, end, mem.num_slots()) {
            for cell in mem.slots(span) {
                cell.set(Slot { len: self.len, flags: SlotFlags::default(), ..cell.get() });
            }
        }
    }
}

/// The bytes that a slot of the program's names.
#[inline(always)]
fn bytes_of<'a>(mem: &RingMem, slot: Slot) -> &'a mut [u8] {
    let len = u32::from(slot.len).min(mem.buf_size()) as usize;
    let data = mem.data(slot.buf);
    // SAFETY:
    // - In bounds: `data` has `buf_size` bytes behind it and `len` is at most that.
    // - Exclusive: the slot is the program's, each buffer is in one slot (crate invariant 1), and
    //   every caller ties the result to a mutable borrow of the ring or yields each slot once.
    // - Initialised: memfd pages are zeroed; any byte is a valid `u8`.
    unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), len) }
}

/// All bytes of a buffer.
#[inline(always)]
fn whole_buffer<'a>(mem: &RingMem, buf: crate::BufIdx) -> &'a mut [u8] {
    let data = mem.data(buf);
    // SAFETY: as in `bytes_of`.
    unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), mem.buf_size() as usize) }
}

impl AppRing<Tx> {
    /// Offers free buffers to `write`, which fills one and returns the frame's length, or 0 to
    /// stop. At most `max`; returns how many frames were queued. They leave at the next tx sync.
    #[inline(always)]
    pub fn fill(&mut self, max: u32, mut write: impl FnMut(&mut [u8]) -> usize) -> u32 {
        let count = self.avail().min(max);
        let start = self.head;
        self.head = self.fill_slots(start, self.index(count), &mut write);
        self.publish();
        distance(start, self.head, self.mem.num_slots())
    }

    /// Has the buffers of the slots `from..to` filled; returns the slot where that ended.
    ///
    /// Slots are written per run of equal lengths. Stores commit in order: one to a slot between
    /// two frames, whose cache lines come from the core that read them last, keeps the processor
    /// from fetching these side by side, and costs a third of a pipe's rate.
    #[inline(always)]
    fn fill_slots(
        &self,
        from: SlotIdx,
        to: SlotIdx,
        write: &mut impl FnMut(&mut [u8]) -> usize,
    ) -> SlotIdx {
        let mem = &self.mem;
        let mut run = SlotRun { start: from, len: 0 };
        for span in spans(from, to, mem.num_slots()) {
            for (i, cell) in (span.0..).zip(mem.slots(span)) {
                let buf = whole_buffer(mem, cell.get().buf);
                let len = write(buf).min(mem.buf_size() as usize) as u16;
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

    /// Queues a copy of one frame, over several slots where it is longer than a buffer. False
    /// when there is no room for all of it. An empty frame takes no slot.
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

impl AppRing<Rx> {
    /// Lends up to `max` received slots, in order. Dropping the batch gives those that were
    /// looked at back to the driver.
    #[inline(always)]
    pub fn batch(&mut self, max: u32) -> RxBatch<'_> {
        let left = self.avail().min(max);
        RxBatch { at: self.head, remaining: left, ring: self }
    }

    /// Shows the frames in our first `max` slots to `read`, in order, and gives the slots back to
    /// the driver: [`TxRing::fill`] for the other direction. Returns how many there were.
    #[inline(always)]
    pub fn drain(&mut self, max: u32, mut read: impl FnMut(&mut [u8], SlotFlags)) -> u32 {
        let count = self.avail().min(max);
        let end = self.index(count);
        for span in spans(self.head, end, self.mem.num_slots()) {
            for cell in self.mem.slots(span) {
                let slot = cell.get();
                read(bytes_of(&self.mem, slot), slot.flags);
            }
        }
        self.head = end;
        self.publish();
        count
    }

    /// Adds up what `weigh` makes of our first `max` slots, of those last seen by [`Self::avail`].
    #[inline(always)]
    pub fn sum(&self, max: u32, weigh: impl Fn(Slot) -> u64) -> u64 {
        let end = self.index(max.min(self.owned_slots()));
        let spans = spans(self.head, end, self.mem.num_slots());
        let sum = |span| self.mem.slots(span).iter().map(|cell| weigh(cell.get())).sum::<u64>();
        spans.into_iter().map(sum).sum()
    }

    /// Whole packets among our first `max` slots: how many slots they take. Parts of a packet
    /// whose end is not there are left out.
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

    /// The flags of our first slot, of those last seen by [`Self::avail`].
    #[must_use]
    pub fn first_flags(&self) -> Option<SlotFlags> {
        self.slot(0).map(|slot| slot.flags)
    }

    /// Takes one packet off the ring, of however many slots, and shows it to `read`: in place
    /// when it is in one slot, gathered in `scratch` otherwise. `None` when there is none.
    pub fn packet<R>(
        &mut self,
        scratch: &mut Vec<u8>,
        read: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<R> {
        self.avail();
        let first = self.slot(0)?;
        if !first.flags.has(SlotFlags::MOREFRAG) {
            let result = read(bytes_of(&self.mem, first));
            self.advance(1);
            return Some(result);
        }
        let slots = self.gather(scratch, self.owned_slots())?;
        let result = read(scratch);
        self.advance(slots);
        Some(result)
    }

    /// Copies the first packet into `packet` and returns how many slots it has; `None` while it
    /// is not whole within the first `max` slots.
    pub(crate) fn peek_packet(&mut self, packet: &mut Vec<u8>, max: u32) -> Option<u32> {
        let count = self.avail().min(max);
        self.gather(packet, count)
    }

    fn gather(&self, packet: &mut Vec<u8>, max: u32) -> Option<u32> {
        packet.clear();
        for i in 0..max {
            let slot = self.slot(i)?;
            packet.extend_from_slice(bytes_of(&self.mem, slot));
            if !slot.flags.has(SlotFlags::MOREFRAG) {
                return Some(i + 1);
            }
        }
        None
    }
}
