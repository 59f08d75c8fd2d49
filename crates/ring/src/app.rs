//! The program's half of a ring.
//!
//! ```text
//!   slot   0   1   2   3   4   5   6   7
//!        | d | d | a | a | a | a | d | d |     a: ours    d: the driver's
//!                  ^ head          ^ tail
//! ```

mod attach;
mod batch;
mod copies;
mod rx;
mod tx;
mod whole_buffer;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use batch::{BatchFrames, RxBatch};
use copies::SlotCopies;
use whole_buffer::whole_buffer;

use crate::index::{SlotIdx, add, cyclic, distance, next};
use crate::kern::KernRing;
use crate::mem::{PrivateMem, RingDir, RingMem, Slot, SlotFlags};
use crate::owned::OwnedBuf;
use crate::protocol::PeerFault;
use crate::region::{Region, RegionError};
use crate::shared::SharedBuf;
use crate::view::RingView;

/// Marks a ring on which the program sends.
#[derive(Debug, Clone, Copy)]
pub enum Tx {}
/// Marks a ring on which the program receives.
#[derive(Debug, Clone, Copy)]
pub enum Rx {}

/// The direction of a ring. Implemented by the markers [`Tx`] and [`Rx`].
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

/// The program's half of a tx ring: its slots are free and can be filled with frames.
pub type TxRing = AppRing<Tx>;
/// The program's half of an rx ring: its slots contain received frames.
pub type RxRing = AppRing<Rx>;

/// The program's half of a ring: owns the slots `head..tail`, called *our slots* below. Our `i`-th
/// slot, counted from 0, is the slot `i` places after `head`.
///
/// # Invariants
/// 1. `head` and `tail` are below the number of slots, which never changes.
/// 2. `tail` is a copy of the shared tail, which the driver moves. Only the constructor and
///    [`Self::refresh`] read the shared tail: each once, and with a check before the value is used.
#[derive(Debug)]
pub struct AppRing<D> {
    mem: RingMem,
    head: u32,
    tail: u32,
    /// Copies of frames, which are lent in place of the buffers if other processes map the region.
    /// `None` in a private region, and if this half belongs to a program in another process.
    copies: Option<Box<SlotCopies>>,
    direction: PhantomData<D>,
}

/// One slot's frame, or a part of it, lent to the program.
#[derive(Debug)]
pub struct FrameMut<'a> {
    /// The frame's bytes in this slot's buffer, or a copy of them.
    pub bytes: &'a mut [u8],
    /// The slot's flags.
    pub flags: SlotFlags,
}

impl FrameMut<'_> {
    /// Returns whether the packet continues in the next slot.
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
        Self { mem, head, tail, copies: None, direction: PhantomData }
    }

    /// Makes this half lend copies of frames, if other processes map the region; otherwise returns
    /// it unchanged.
    pub(crate) fn with_copies(self) -> Result<Self, RegionError> {
        if self.mem.is_private() {
            return Ok(self);
        }
        let copies = Some(Box::new(SlotCopies::new(&self.mem)?));
        Ok(Self { copies, ..self })
    }

    /// Returns the memory to lend for the slots `from..to`: their buffers, or copies of the
    /// buffers. `None` if this half can lend neither.
    #[inline(always)]
    fn lend(&self, from: SlotIdx, to: SlotIdx) -> Option<PrivateMem<'_>> {
        match self.mem.as_private() {
            Some(mem) => Some(mem),
            None => self.lend_copies(from, to),
        }
    }

    #[cold]
    #[inline(never)]
    fn lend_copies(&self, from: SlotIdx, to: SlotIdx) -> Option<PrivateMem<'_>> {
        let slots = cyclic(from, to, self.mem.num_slots());
        self.copies.as_ref()?.of_slots(&self.mem, slots)
    }

    /// Takes over the slots that the driver has released since the last call; returns how many
    /// slots are ours now.
    ///
    /// # Errors
    /// [`PeerFault::OutOfRange`] if the shared tail is not a slot index; the ring stays as it was.
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

    /// Refreshes the tail and returns the number of our slots: frames to read on an rx ring, free
    /// slots on a tx ring. If the driver's tail is out of range, no slots are added.
    #[inline(always)]
    pub fn avail(&mut self) -> u32 {
        self.refresh().unwrap_or_else(|_| self.owned_slots())
    }

    #[inline(always)]
    fn owned_slots(&self) -> u32 {
        distance(self.head, self.tail, self.mem.num_slots())
    }

    /// Number of slots in the ring.
    #[must_use]
    pub fn num_slots(&self) -> u32 {
        self.mem.num_slots()
    }

    /// Number of slots that the driver owns, not counting the slot that always stays empty. On a tx
    /// ring: slots with frames that are queued or in flight.
    pub fn with_driver(&mut self) -> u32 {
        self.mem.num_slots() - 1 - self.avail()
    }

    /// Bytes per buffer.
    #[must_use]
    pub fn buf_size(&self) -> u32 {
        self.mem.buf_size()
    }

    /// The region that contains the ring and its buffers.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        self.mem.region()
    }

    /// A view of the ring.
    #[must_use]
    pub fn view(&self) -> RingView {
        RingView::of(&self.mem)
    }

    /// Offset of the ring's header (`netmap_ring`) in its region, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.mem.offset()
    }

    /// A copy of our `i`-th slot; `None` if fewer than `i + 1` slots were ours at the last refresh.
    #[must_use]
    #[inline(always)]
    pub fn slot(&self, i: u32) -> Option<Slot> {
        (i < self.owned_slots()).then(|| self.mem.slot(self.index(i)).get())
    }

    /// The frame in our `i`-th slot: the first `slot.len` bytes of its buffer, or a copy of them.
    /// `None` if the slot is not ours, or if this half can lend neither.
    #[must_use]
    #[inline(always)]
    pub fn frame(&mut self, i: u32) -> Option<FrameMut<'_>> {
        let at = (i < self.owned_slots()).then(|| self.index(i))?;
        let mem = self.lend(at, next(at, self.mem.num_slots()))?;
        let slot = mem.slot(at).get();
        Some(FrameMut { bytes: bytes_of(mem, slot), flags: slot.flags })
    }

    /// If [`Self::frame`] has lent a copy of the frame in our `i`-th slot, writes the copy, with
    /// the program's changes, back to the buffer. Does nothing in a private region, where the
    /// buffer itself was lent.
    #[inline(always)]
    pub fn write_back(&mut self, i: u32) {
        if !self.mem.is_private() && i < self.owned_slots() {
            self.store_copy(self.index(i));
        }
    }

    #[cold]
    fn store_copy(&mut self, at: SlotIdx) {
        if let Some(copies) = &self.copies {
            copies.store(&self.mem, at);
        }
    }

    /// The whole buffer of our `i`-th slot. `None` if the slot is not ours, or if other processes
    /// map the region.
    #[must_use]
    #[inline(always)]
    pub fn buffer(&mut self, i: u32) -> Option<&mut [u8]> {
        let slot = self.slot(i)?;
        Some(whole_buffer(self.mem.as_private()?, slot.buf))
    }

    /// The frame in our `i`-th slot, to be copied from or to. `None` if the slot is not ours.
    #[must_use]
    #[inline(always)]
    pub fn bytes(&mut self, i: u32) -> Option<SharedBuf<'_>> {
        let slot = self.slot(i)?;
        Some(self.mem.shared(slot.buf, slot.len.into()))
    }

    /// Sets length and flags of our `i`-th slot. The length is limited to the buffer size. A flag
    /// `NS_BUF_CHANGED` that is already set stays set, because a pipe's driver copies back only
    /// slots with this flag.
    #[inline(always)]
    pub fn set(&mut self, i: u32, len: usize, flags: SlotFlags) {
        if let Some(slot) = self.slot(i) {
            let len = len.min(self.mem.buf_size() as usize) as u16;
            let flags = flags | SlotFlags(slot.flags.0 & SlotFlags::BUF_CHANGED.0);
            self.mem.slot(self.index(i)).set(Slot { len, flags, ..slot });
        }
    }

    /// The word that our `i`-th slot has in addition to the frame (netmap's `ptr`). A pipe passes
    /// it on with the frame. `None` if the slot is not ours.
    #[must_use]
    #[inline(always)]
    pub fn word(&self, i: u32) -> Option<u64> {
        (i < self.owned_slots()).then(|| self.mem.slot(self.index(i)).ptr())
    }

    /// Sets the word of our `i`-th slot. Not for rings of devices: a device may read the word as a
    /// payload offset.
    #[inline(always)]
    pub fn set_word(&mut self, i: u32, word: u64) {
        if i < self.owned_slots() {
            self.mem.slot(self.index(i)).set_ptr(word);
        }
    }

    /// Releases our first `count` slots to the driver; all our slots if they are fewer.
    #[inline(always)]
    pub fn advance(&mut self, count: u32) {
        self.head = self.index(count.min(self.owned_slots()));
        self.publish();
    }

    /// Exchanges the buffers of our `i`-th slot and of the `j`-th slot of the program's half
    /// `other`. Lengths and flags stay, but both slots get `NS_BUF_CHANGED`. Returns false and does
    /// nothing if one of the slots is not the program's, or the rings are in different regions.
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

    /// Exchanges our slots `i` and `j`, with buffers, lengths and flags, so that a frame can be
    /// moved within the ring. Both slots get `NS_BUF_CHANGED`.
    pub fn exchange(&mut self, i: u32, j: u32) {
        if let (Some(a), Some(b)) = (self.slot(i), self.slot(j)) {
            let changed = SlotFlags::BUF_CHANGED;
            self.mem.slot(self.index(i)).set(Slot { flags: b.flags | changed, ..b });
            self.mem.slot(self.index(j)).set(Slot { flags: a.flags | changed, ..a });
        }
    }

    /// Moves the frame in our `i`-th slot to slot `at` of a driver's half, with the given flags, by
    /// exchanging the two buffers. Returns false and does nothing if one of the slots is not owned
    /// by its half, or the rings are in different regions.
    ///
    /// # Panics
    /// If `at` is not a slot of that ring.
    pub fn swap_to_driver(
        &mut self,
        i: u32,
        driver: &mut KernRing,
        at: SlotIdx,
        flags: SlotFlags,
    ) -> bool {
        let same_region = Arc::ptr_eq(self.mem.region(), driver.region());
        let Some(slot) = self.slot(i).filter(|_| same_region) else { return false };
        let Some(buf) = driver.swap_in(at, Slot { flags, ..slot }) else { return false };
        let flags = slot.flags | SlotFlags::BUF_CHANGED;
        self.mem.slot(self.index(i)).set(Slot { buf, flags, ..slot });
        true
    }

    /// Puts `buf` into our `i`-th slot and returns the slot's old buffer. Does nothing on an error.
    ///
    /// # Errors
    /// Returns `buf` itself if the slot is not ours or has no usable buffer, or if `buf` belongs to
    /// another region.
    #[inline(always)]
    pub fn replace(&mut self, i: u32, buf: OwnedBuf) -> Result<OwnedBuf, OwnedBuf> {
        let region = self.mem.region();
        let slot = self.slot(i).filter(|slot| buf.is_of(region) && region.is_usable(slot.buf));
        let Some(slot) = slot else { return Err(buf) };
        let flags = slot.flags | SlotFlags::BUF_CHANGED;
        self.mem.slot(self.index(i)).set(Slot { buf: buf.index(), flags, ..slot });
        Ok(region.own(slot.buf))
    }

    /// Index of our first slot.
    #[must_use]
    #[inline(always)]
    pub fn head(&self) -> SlotIdx {
        self.head
    }

    /// Index of the first slot after our slots, as of the last refresh.
    #[must_use]
    #[inline(always)]
    pub fn tail(&self) -> SlotIdx {
        self.tail
    }

    /// Calls `visit` for the frames in the slots `from..to`, whichever half owns the slots. For an
    /// observer that runs between program and driver, while neither of them runs. Does nothing if
    /// `from` or `to` is not a slot. `visit` gets copies of the frames, except for frames in our
    /// slots in a private region.
    pub fn for_each_frame(
        &mut self,
        from: SlotIdx,
        to: SlotIdx,
        mut visit: impl FnMut(&[u8], SlotFlags),
    ) {
        let (n, ours) = (self.mem.num_slots(), self.owned_slots());
        let mut copy = Vec::new();
        self.for_each_slot(from, to, |mem, i, slot| {
            let is_ours = distance(self.head, i, n) < ours;
            match mem.as_private().filter(|_| is_ours) {
                Some(mem) => visit(bytes_of(mem, slot), slot.flags),
                None => {
                    copy.clear();
                    mem.shared(slot.buf, slot.len.into()).append_to(&mut copy);
                    visit(&copy, slot.flags);
                }
            }
        });
    }

    /// Like [`Self::for_each_frame`], but `visit` gets only the length and the flags of each slot.
    pub fn for_each_len(&self, from: SlotIdx, to: SlotIdx, mut visit: impl FnMut(u32, SlotFlags)) {
        self.for_each_slot(from, to, |mem, _, slot| {
            visit(u32::from(slot.len).min(mem.buf_size()), slot.flags);
        });
    }

    fn for_each_slot(
        &self,
        from: SlotIdx,
        to: SlotIdx,
        mut visit: impl FnMut(&RingMem, SlotIdx, Slot),
    ) {
        let n = self.mem.num_slots();
        if from < n && to < n {
            cyclic(from, to, n).for_each(|i| visit(&self.mem, i, self.mem.slot(i).get()));
        }
    }

    /// Returns whether both rings are in one region, so that they can exchange buffers.
    #[must_use]
    #[inline(always)]
    pub fn same_region<E>(&self, other: &AppRing<E>) -> bool {
        Arc::ptr_eq(self.mem.region(), other.mem.region())
    }

    #[inline(always)]
    fn index(&self, i: u32) -> SlotIdx {
        add(self.head, i, self.mem.num_slots())
    }

    /// Moves `head` and `cur` to slot `at`, from which the next program continues.
    pub(crate) fn restart_at(&mut self, at: SlotIdx) {
        self.head = at;
        self.publish();
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

/// The bytes that a slot of the program refers to.
#[inline(always)]
fn bytes_of<'a>(mem: PrivateMem<'a>, slot: Slot) -> &'a mut [u8] {
    let len = u32::from(slot.len).min(mem.buf_size()) as usize;
    let data = mem.data(slot.buf);
    // SAFETY:
    // - In bounds: `data` is the address of `buf_size` bytes, and `len` is at most that.
    // - Exclusive: no other process maps the memory, the slot is the program's, each buffer is in
    //   one slot (crate invariant 1), and every caller ties the result to a mutable borrow of the
    //   ring or yields each slot once. Drivers in this process access only their own slots, and
    //   only by copying.
    // - Initialised: memfd pages are zeroed; any byte is a valid `u8`.
    unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), len) }
}
