//! A view of a ring, for code outside the ring's two halves.
//!
//! A host that serves other processes syncs their rings for them. It has to know when a ring is
//! worth reading and which slot holds which buffer. All values here are copies of what some process
//! wrote; the caller checks them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::index::{BufIdx, SlotIdx};
use crate::mem::{RingMem, Slot};
use crate::offsets::RingOffsets;
use crate::region::Region;
use crate::shared::SharedBuf;

/// Access to a ring's indices, slots and buffers; keeps the ring alive.
#[derive(Debug, Clone)]
pub struct RingView(RingMem);

impl RingView {
    pub(crate) fn of(mem: &RingMem) -> Self {
        Self(mem.clone())
    }

    pub(crate) fn mem(&self) -> &RingMem {
        &self.0
    }

    /// Offset of the `netmap_ring` in its region.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.0.offset()
    }

    /// Number of slots in the ring.
    #[must_use]
    pub fn num_slots(&self) -> u32 {
        self.0.num_slots()
    }

    /// The ring's `cur`, as the application wrote it: the application wants to be woken when the
    /// slot at `cur` becomes available.
    #[must_use]
    #[inline(always)]
    pub fn cur(&self) -> SlotIdx {
        self.0.cur().load(Ordering::Acquire)
    }

    /// The ring's `head` as the application wrote it: the first slot that it has not released.
    #[must_use]
    #[inline(always)]
    pub fn head(&self) -> SlotIdx {
        self.0.head().load(Ordering::Acquire)
    }

    /// The ring's `tail`: the first slot after the application's slots.
    #[must_use]
    #[inline(always)]
    pub fn tail(&self) -> SlotIdx {
        self.0.tail().load(Ordering::Acquire)
    }

    /// The first slot that the driver has not processed. The driver must be in this process.
    #[must_use]
    pub fn hwcur(&self) -> SlotIdx {
        self.0.hwcur().load(Ordering::Relaxed)
    }

    /// Stores head and cur without a check. For a host that gets these values from the application
    /// by another way than the ring.
    ///
    /// # Panics
    /// If the region is private.
    pub fn store_head_cur(&self, head: SlotIdx, cur: SlotIdx) {
        assert!(!self.0.is_private(), "who carries indices is in another process");
        self.0.cur().store(cur, Ordering::Relaxed);
        // Release: pairs with the acquire in `KernRing::released`.
        self.0.head().store(head, Ordering::Release);
    }

    /// Returns whether a slot is available at `cur`. If so, an application that waits has to be
    /// woken.
    #[must_use]
    #[inline(always)]
    pub fn is_ready(&self) -> bool {
        self.cur() != self.tail()
    }

    /// `NR_*` flags that the application has set in the ring.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.0.flags()
    }

    /// The buffer indices in all slots; they are not checked.
    pub fn bufs(&self) -> impl Iterator<Item = BufIdx> {
        self.0.bufs()
    }

    /// Writes the time of the last rx sync, counted from the epoch, to `ring->ts`.
    pub fn set_timestamp(&self, seconds: i64, microseconds: i64) {
        self.0.set_timestamp(seconds, microseconds);
    }

    /// Number of frames that did not fit into the ring of a netmap monitor, modulo 2^32; 0 for
    /// other rings.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.0.lost().load(Ordering::Relaxed)
    }

    /// Sets the value that [`Self::lost`] returns, for the host of a netmap monitor.
    pub fn set_lost(&self, frames: u32) {
        self.0.lost().store(frames, Ordering::Relaxed);
    }

    /// The region that contains the ring.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        self.0.region()
    }

    /// A copy of slot `i`; its content is not checked.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring.
    #[must_use]
    #[inline(always)]
    pub fn slot(&self, i: SlotIdx) -> Slot {
        self.0.slot(i).get()
    }

    /// Writes slot `i`. Only the slot's current owner, the application or the host, may call this.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring, or the region is private, where only the halves write
    /// slots.
    #[inline(always)]
    pub fn set_slot(&self, i: SlotIdx, slot: Slot) {
        self.0.open_slot(i).set(slot);
    }

    /// The second word of slot `i`: netmap's `ptr`.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring.
    #[must_use]
    pub fn slot_ptr(&self, i: SlotIdx) -> u64 {
        self.0.slot(i).ptr()
    }

    /// Sets the second word of slot `i`: netmap's `ptr`.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring.
    pub fn set_slot_ptr(&self, i: SlotIdx, ptr: u64) {
        self.0.slot(i).set_ptr(ptr);
    }

    /// Returns where in their buffers payloads may begin; `None` if all begin at byte 0.
    #[must_use]
    #[inline(always)]
    pub fn offsets(&self) -> Option<RingOffsets> {
        self.0.offsets()
    }

    /// Sets the offsets of the ring for all halves and views in this process. Publishes the mask
    /// and `align`, the required payload alignment in bytes, in the ring. Only the ring's host may
    /// call this.
    pub fn set_offsets(&self, offsets: Option<RingOffsets>, align: u64) {
        self.0.set_offsets(offsets, align);
    }

    /// Sets the offsets as [`Self::set_offsets`] does, but does not publish them, because a
    /// previous process has already done so.
    pub fn set_host_offsets(&self, offsets: RingOffsets) {
        self.0.set_host_offsets(offsets);
    }

    /// Offset in bytes of the payload of slot `i` in its buffer.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring.
    #[must_use]
    #[inline(always)]
    pub fn payload_offset(&self, i: SlotIdx) -> usize {
        self.offsets().map_or(0, |offsets| offsets.of(self.slot_ptr(i)) as usize)
    }

    /// Sets head and cur to `to`: releases the slots before `to` to the driver, on behalf of the
    /// ring's application.
    ///
    /// # Panics
    /// If `to` is not a slot of this ring, or the region is private.
    #[inline]
    pub fn advance_to(&self, to: SlotIdx) {
        assert!(to < self.num_slots() && !self.0.is_private(), "a slot of a ring that others map");
        self.0.cur().store(to, Ordering::Relaxed);
        // Release: pairs with the acquire in `KernRing::released`.
        self.0.head().store(to, Ordering::Release);
    }

    /// Prefetches the first `len` bytes of the buffer in slot `i`, without waiting. A buffer index
    /// out of range means buffer 0.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring.
    #[inline(always)]
    pub fn prefetch(&self, i: SlotIdx, len: u32) {
        self.0.shared(self.slot(i).buf, len).prefetch();
    }

    /// A buffer of the ring's region, to copy bytes from and to. It is empty in a private region,
    /// whose rings lend their buffers. An index out of range means buffer 0.
    #[must_use]
    #[inline(always)]
    pub fn shared_buf(&self, buf: BufIdx) -> SharedBuf<'_> {
        self.0.open_buf(buf)
    }

    /// Copies `len` bytes from byte `from_at` of a buffer of `from` to byte `at` of a buffer of
    /// this region. Copies fewer bytes if one of the buffers ends earlier, and none from or to a
    /// private region, whose rings lend their buffers. An index out of range means buffer 0.
    ///
    /// If others write at the same time, the copied bytes may be wrong; there is no other effect.
    #[inline(always)]
    pub fn copy(
        &self,
        (buf, at): (BufIdx, usize),
        from: &Self,
        (source, from_at): (BufIdx, usize),
        len: usize,
    ) -> usize {
        self.0.copy_part((buf, at), &from.0, (source, from_at), len)
    }
}
