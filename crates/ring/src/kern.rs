//! The port driver's half of a ring: the role that netmap's kernel module has.

mod exchange;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::app::{AppRing, RingDirection};
use crate::index::{BufIdx, CyclicIndices, SlotIdx, add, cyclic, distance, next, prev};
use crate::mem::{RingMem, RingOwnership, Slot, SlotFlags};
use crate::offsets::RingOffsets;
use crate::region::{Region, RegionError};
use crate::shared::SharedBuf;
use crate::view::RingView;

/// The application wrote indices that no correct program writes, and the ring was reinitialised. In
/// a shared region, slots with an impossible buffer index were set to index 0 and length 0, and
/// impossible lengths to 0. If `head`, `cur` or `tail` was outside the ring, `head` and `cur` were
/// set to `hwcur`, and `tail` to `hwtail`. As in netmap, wrong values within the ring stay until
/// the application corrects them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ring reinitialised: head {head}, cur {cur} are not within {hwcur}..={hwtail}")]
pub struct Reinit {
    /// The `head` that the application wrote.
    pub head: u32,
    /// The `cur` that the application wrote.
    pub cur: u32,
    /// The first slot that the driver had not processed at that moment.
    pub hwcur: u32,
    /// The tail that the driver had published at that moment.
    pub hwtail: u32,
}

/// Both halves of a ring.
///
/// A driver may access slots up to the `head` that [`KernRing::released`] returned only while it
/// borrows `app` mutably. The reason is that frames lent by a batch of `app` live as long as the
/// borrow of `app`, which may be longer than the batch that released their slots. So one value,
/// such as a pipe end, owns both halves, and its sync takes `&mut self`.
#[derive(Debug)]
pub struct RingHalves<D> {
    /// The program's half.
    pub app: AppRing<D>,
    /// The driver's half.
    pub kern: KernRing,
}

impl<D: RingDirection> RingHalves<D> {
    /// Lays out a ring with a buffer in every slot. Every ring starts empty: in a tx ring, the
    /// application owns all slots but one; in an rx ring, the driver owns all slots.
    ///
    /// # Errors
    /// [`RegionError`] if the region does not have enough free memory.
    pub fn create(region: &Arc<Region>, ringid: u16, num_slots: u32) -> Result<Self, RegionError> {
        let bufs = region.alloc_bufs(num_slots)?;
        let mem = RingMem::create(region, D::DIR, ringid, num_slots, &bufs);
        // On failure the buffers are freed; on success the ring owns them.
        let mem = mem.inspect_err(|_| region.put_back(bufs.iter().copied()))?;
        Ok(Self::over(mem))
    }

    /// Lays out a ring of one slot without a buffer: for a direction that a port does not have.
    ///
    /// # Errors
    /// [`RegionError`] if the region does not have enough free memory.
    pub fn absent(region: &Arc<Region>, ringid: u16) -> Result<Self, RegionError> {
        Ok(Self::over(RingMem::create(region, D::DIR, ringid, 1, &[])?))
    }

    /// Creates both halves of an existing ring, with its current indices. The program keeps the
    /// slots that it owns and has not released.
    ///
    /// # Panics
    /// If the region of the ring is private, because the old and the new halves might lend the same
    /// buffer.
    #[must_use]
    pub fn resume_existing(ring: &RingView) -> Self {
        let mem = ring.mem();
        assert!(!mem.is_private(), "a ring of a private region has its halves already");
        Self { app: AppRing::from_indices(mem.clone()), kern: KernRing::from_indices(mem.clone()) }
    }

    pub(crate) fn over(mem: RingMem) -> Self {
        let kern = KernRing::start(mem.clone(), D::first_tail(mem.num_slots()));
        Self { app: AppRing::start(mem), kern }
    }
}

/// The driver's half: reads `head`, owns the slots `tail..head`, publishes `tail`.
#[derive(Debug)]
pub struct KernRing {
    mem: RingMem,
    hwcur: u32,
    hwtail: u32,
    /// The first slot that the application had not released at the last check. The application owns
    /// the slots from here to `hwtail`; all others are the driver's.
    released: u32,
}

impl KernRing {
    fn start(mem: RingMem, hwtail: u32) -> Self {
        mem.head().store(0, Ordering::Relaxed);
        mem.cur().store(0, Ordering::Relaxed);
        // Release: pairs with the acquire in `AppRing::refresh`.
        mem.tail().store(hwtail, Ordering::Release);
        Self { mem, hwcur: 0, hwtail, released: 0 }
    }

    /// Creates the driver's half with the indices that another process reached; indices outside the
    /// ring count as 0.
    pub(crate) fn resumed(mem: RingMem, hwcur: SlotIdx, hwtail: SlotIdx) -> Self {
        let within = |i: SlotIdx| if i < mem.num_slots() { i } else { 0 };
        let hwcur = within(hwcur);
        mem.hwcur().store(hwcur, Ordering::Relaxed);
        Self { hwcur, hwtail: within(hwtail), released: hwcur, mem }
    }

    /// Resumes a ring that a previous process created at `offset` of `region`; the ring owns the
    /// buffers in its slots. The application keeps the slots that it owns and has not released. The
    /// previous process may or may not have sent the frames that are queued on a tx ring.
    ///
    /// # Errors
    /// [`RegionError`] if a ring of this size cannot be at `offset`.
    pub fn resume(region: &Arc<Region>, offset: u64, num_slots: u32) -> Result<Self, RegionError> {
        RingMem::resume(region, offset, num_slots, RingOwnership::BytesAndBufs)
            .map(Self::from_indices)
    }

    /// Creates the driver's half of a ring that another process created, for a program that syncs
    /// the ring itself. `region` is a mapping of that process's memory. [`Self::resync`] sets the
    /// indices.
    ///
    /// # Errors
    /// [`RegionError::NotARegion`] if a ring of this size cannot be at `offset`.
    pub fn attach(region: &Arc<Region>, offset: u64, num_slots: u32) -> Result<Self, RegionError> {
        let impossible = RegionError::NotARegion("a ring lies outside of it");
        RingMem::foreign(region, offset, num_slots)
            .map(|mem| Self::resumed(mem, 0, 0))
            .ok_or(impossible)
    }

    fn from_indices(mem: RingMem) -> Self {
        let word = |word: &AtomicU32| word.load(Ordering::Acquire);
        let (head, tail) = (word(mem.head()), word(mem.tail()));
        Self::resumed(mem, head, tail)
    }

    /// Takes over the indices that another driver of the ring has reached. Returns false and does
    /// nothing if an index is outside the ring.
    pub fn resync(&mut self, hwcur: SlotIdx, hwtail: SlotIdx) -> bool {
        let possible = hwcur.max(hwtail) < self.mem.num_slots();
        if possible {
            self.complete_to(hwcur);
            self.hwtail = hwtail;
        }
        possible
    }

    /// Reads and returns `head`: the application has released the slots `hwcur..head`, which are
    /// the driver's now. The caller processes them and calls [`Self::complete_to`].
    ///
    /// # Errors
    /// [`Reinit`] if the indices are impossible. The driver then owns no new slots, and the caller
    /// may call again.
    #[inline]
    pub fn released(&mut self) -> Result<SlotIdx, Reinit> {
        let (head, cur) = self.app_indices();
        if !self.is_possible(head, cur) {
            return Err(self.reinit(head, cur));
        }
        self.released = head;
        Ok(head)
    }

    /// Like [`Self::released`], but changes nothing, and returns `None` if the indices are
    /// impossible.
    #[inline]
    #[must_use]
    pub fn peek_released(&self) -> Option<SlotIdx> {
        let (head, cur) = self.app_indices();
        self.is_possible(head, cur).then_some(head)
    }

    /// On a tx ring, the number of packets that the application has released and the driver has not
    /// yet taken. 0 if the indices are impossible.
    #[must_use]
    pub fn waiting_packets(&self) -> u64 {
        let Some(head) = self.peek_released() else { return 0 };
        let slots = self.slots(self.hwcur, head);
        slots.filter(|(_, slot)| !slot.flags.has(SlotFlags::MOREFRAG)).count() as u64
    }

    #[inline(always)]
    fn app_indices(&self) -> (u32, u32) {
        // Acquire: pairs with the release in `AppRing::publish`.
        let head = self.mem.head().load(Ordering::Acquire);
        (head, self.mem.cur().load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn is_possible(&self, head: u32, cur: u32) -> bool {
        let n = self.mem.num_slots();
        let held = distance(self.hwcur, self.hwtail, n);
        head < n
            && cur < n
            && distance(self.hwcur, head, n) <= held
            && distance(self.hwcur, head, n) <= distance(self.hwcur, cur, n)
            && distance(self.hwcur, cur, n) <= held
    }

    #[cold]
    fn reinit(&mut self, head: u32, cur: u32) -> Reinit {
        // In a private region only the halves write slots, so no slot has to be checked.
        let count = if self.mem.is_private() { 0 } else { self.mem.num_slots() };
        for i in 0..count {
            let cell = self.mem.slot(i);
            let slot = cell.get();
            if !self.mem.region().is_usable(slot.buf) {
                cell.set(Slot { buf: BufIdx(0), len: 0, ..slot });
            } else if u32::from(slot.len) > self.mem.buf_size() {
                cell.set(Slot { len: 0, ..slot });
            }
        }
        let tail = self.mem.tail().load(Ordering::Relaxed);
        if head.max(cur).max(tail) >= self.mem.num_slots() {
            self.mem.head().store(self.hwcur, Ordering::Relaxed);
            self.mem.cur().store(self.hwcur, Ordering::Relaxed);
            self.mem.tail().store(self.hwtail, Ordering::Release);
        }
        Reinit { head, cur, hwcur: self.hwcur, hwtail: self.hwtail }
    }

    /// The first slot that the driver has not processed.
    #[must_use]
    #[inline(always)]
    pub fn hwcur(&self) -> SlotIdx {
        self.hwcur
    }

    /// The tail that the driver published last.
    #[must_use]
    #[inline(always)]
    pub fn hwtail(&self) -> SlotIdx {
        self.hwtail
    }

    /// Marks the slots up to `head` processed.
    #[inline(always)]
    pub fn complete_to(&mut self, head: SlotIdx) {
        debug_assert!(head < self.mem.num_slots());
        self.hwcur = head;
        // Only observers in other threads read this word, and they need no ordering.
        self.mem.hwcur().store(head, Ordering::Relaxed);
    }

    /// Returns whether slot `i` is the driver's. Always true in a shared region, where a peer can
    /// change every slot anyway.
    #[inline(always)]
    fn is_held(&self, i: SlotIdx) -> bool {
        let n = self.mem.num_slots();
        let of_program = distance(self.released, self.hwtail, n);
        !self.mem.is_private() || (i < n && distance(self.released, i, n) >= of_program)
    }

    /// Publishes a tail: the application's slots end before it. Overwrites any value that the
    /// application may have written to the word. In a private region, a tail within the
    /// application's slots is ignored, because it would take back slots whose bytes may be lent to
    /// the application.
    #[inline(always)]
    pub fn set_tail(&mut self, tail: SlotIdx) {
        debug_assert!(tail < self.mem.num_slots());
        if tail != self.hwtail && !self.is_held(tail) {
            return;
        }
        self.hwtail = tail;
        // Release: pairs with the acquire in `AppRing::refresh`.
        self.mem.tail().store(tail, Ordering::Release);
    }

    /// Number of slots that the driver of an rx ring can still fill before the ring is full.
    #[must_use]
    #[inline(always)]
    pub fn free_slots(&self) -> u32 {
        let n = self.mem.num_slots();
        n - 1 - distance(self.hwcur, self.hwtail, n)
    }

    /// Number of slots from `hwcur` up to `head`.
    #[must_use]
    #[inline(always)]
    pub fn pending(&self, head: SlotIdx) -> u32 {
        distance(self.hwcur, head, self.mem.num_slots())
    }

    /// Number of slots in the ring.
    #[must_use]
    #[inline(always)]
    pub fn num_slots(&self) -> u32 {
        self.mem.num_slots()
    }

    /// The slot after `i`.
    #[must_use]
    #[inline(always)]
    pub fn next(&self, i: SlotIdx) -> SlotIdx {
        next(i, self.mem.num_slots())
    }

    /// The slot before `i`.
    #[must_use]
    #[inline(always)]
    pub fn prev(&self, i: SlotIdx) -> SlotIdx {
        prev(i, self.mem.num_slots())
    }

    /// The slot `count` slots after `i`; `count` is at most the number of slots.
    #[must_use]
    #[inline(always)]
    pub fn add(&self, i: SlotIdx, count: u32) -> SlotIdx {
        add(i, count, self.mem.num_slots())
    }

    /// A copy of slot `i`; its content is not checked.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring.
    #[must_use]
    #[inline(always)]
    pub fn slot(&self, i: SlotIdx) -> Slot {
        self.mem.slot(i).get()
    }

    /// Sets length and flags of slot `i`; the slot keeps its buffer.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring.
    #[inline(always)]
    pub fn set(&mut self, i: SlotIdx, len: u16, flags: SlotFlags) {
        let cell = self.mem.slot(i);
        cell.set(Slot { len, flags, ..cell.get() });
    }

    /// Copies of the slots `from..to`, in order.
    #[must_use]
    #[inline(always)]
    pub fn slots(&self, from: SlotIdx, to: SlotIdx) -> KernSlots<'_> {
        KernSlots { ring: self, at: cyclic(from, to, self.mem.num_slots()) }
    }

    /// The first `len` bytes of buffer `buf`, which is in slot `i`, for a driver that copies. Empty
    /// if the buffer index is out of range or reserved, or, in a private region, if the application
    /// owns the slot.
    #[must_use]
    #[inline(always)]
    fn whole(&self, i: SlotIdx, buf: BufIdx, len: u32) -> SharedBuf<'_> {
        let usable = self.mem.region().is_usable(buf) && self.is_held(i);
        self.mem.shared(buf, if usable { len } else { 0 })
    }

    /// The first `slot.len` bytes in the buffer of slot `i`; a payload offset is ignored.
    #[must_use]
    #[inline(always)]
    pub fn bytes(&mut self, i: SlotIdx) -> SharedBuf<'_> {
        let slot = self.slot(i);
        self.whole(i, slot.buf, slot.len.into())
    }

    /// The first `len` bytes of buffer `buf`, which must be in one of the driver's slots. Empty if
    /// the index is out of range or reserved, or, in a private region, if no slot of the driver has
    /// the buffer.
    #[must_use]
    pub fn bytes_of(&mut self, buf: BufIdx, len: u16) -> SharedBuf<'_> {
        let names = |&i: &SlotIdx| self.slot(i).buf == buf && self.is_held(i);
        let i = if self.mem.is_private() { (0..self.num_slots()).find(names) } else { Some(0) };
        self.whole(i.unwrap_or(0), buf, i.map_or(0, |_| len.into()))
    }

    /// The buffer of slot `i` from the payload offset to the end, for a driver that receives by
    /// copying.
    #[must_use]
    #[inline(always)]
    pub fn buffer(&mut self, i: SlotIdx) -> SharedBuf<'_> {
        let (slot, at) = (self.slot(i), self.payload_offset(i));
        self.whole(i, slot.buf, self.mem.buf_size()).skip(at)
    }

    /// The payload of slot `i`: `slot.len` bytes from the payload offset on. Shorter if the buffer
    /// ends before, and empty if the slot has no usable buffer.
    #[must_use]
    #[inline(always)]
    pub fn payload(&mut self, i: SlotIdx) -> SharedBuf<'_> {
        let (slot, at) = (self.slot(i), self.payload_offset(i));
        self.whole(i, slot.buf, self.mem.buf_size()).skip(at).first(slot.len.into())
    }

    /// Where in its buffer the payload of slot `i` begins, in bytes from the start.
    #[must_use]
    #[inline(always)]
    pub fn payload_offset(&self, i: SlotIdx) -> usize {
        self.offsets().map_or(0, |offsets| offsets.of(self.mem.slot(i).ptr()) as usize)
    }

    /// Returns where in their buffers payloads may begin; `None` if all begin at byte 0.
    #[must_use]
    #[inline(always)]
    pub fn offsets(&self) -> Option<RingOffsets> {
        self.mem.offsets()
    }

    /// The region that contains the ring.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        self.mem.region()
    }

    /// A view of the ring.
    #[must_use]
    pub fn view(&self) -> RingView {
        RingView::of(&self.mem)
    }

    /// Returns whether the ring says that payloads may begin at an offset within their buffers. The
    /// ring's creator has published this.
    #[must_use]
    pub fn has_published_offsets(&self) -> bool {
        self.mem.offset_mask() != 0
    }

    /// Returns whether another process created the ring. Then that process also frees the ring and
    /// the buffers in its slots.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.mem.is_foreign()
    }

    /// The slot after the last whole packet among the slots `hwcur..head`; an incomplete packet
    /// before `head` has to wait.
    #[must_use]
    #[inline(always)]
    pub fn whole_packets(&self, head: SlotIdx) -> SlotIdx {
        let mut end = head;
        while end != self.hwcur {
            let last = self.prev(end);
            if !self.slot(last).flags.has(SlotFlags::MOREFRAG) {
                break;
            }
            end = last;
        }
        end
    }

    /// Writes the time of the last rx sync, counted from the epoch, to `ring->ts`.
    pub fn set_timestamp(&self, seconds: i64, microseconds: i64) {
        self.mem.set_timestamp(seconds, microseconds);
    }
}

/// Iterator over slot copies; see [`KernRing::slots`].
#[derive(Debug)]
pub struct KernSlots<'r> {
    ring: &'r KernRing,
    at: CyclicIndices,
}

impl Iterator for KernSlots<'_> {
    type Item = (SlotIdx, Slot);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let i = self.at.next()?;
        Some((i, self.ring.slot(i)))
    }
}
