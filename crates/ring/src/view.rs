//! A view of a ring for a process that has neither of its halves.
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
use crate::shared::CACHE_LINE_BYTES;
use slipring_simd::prefetch_address;

/// Read access to a ring, mostly; keeps the ring alive.
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

    /// Slots in the ring.
    #[must_use]
    pub fn num_slots(&self) -> u32 {
        self.0.num_slots()
    }

    /// The slot after which the application wants to be woken, as it wrote it.
    #[must_use]
    #[inline(always)]
    pub fn cur(&self) -> SlotIdx {
        self.0.cur().load(Ordering::Acquire)
    }

    /// The first slot that the application has not released, as it wrote it.
    #[must_use]
    #[inline(always)]
    pub fn head(&self) -> SlotIdx {
        self.0.head().load(Ordering::Acquire)
    }

    /// The first slot that is not the application's, as the ring says.
    #[must_use]
    #[inline(always)]
    pub fn tail(&self) -> SlotIdx {
        self.0.tail().load(Ordering::Acquire)
    }

    /// The first slot that the driver, in this process, has not processed.
    #[must_use]
    pub fn hwcur(&self) -> SlotIdx {
        self.0.hwcur().load(Ordering::Relaxed)
    }

    /// Stores head and cur, unchecked, for a host that receives them from the application by other
    /// means.
    pub fn store_head_cur(&self, head: SlotIdx, cur: SlotIdx) {
        assert!(!self.0.is_private(), "who carries indices is in another process");
        self.0.cur().store(cur, Ordering::Relaxed);
        // Release: pairs with the acquire in `KernRing::released`.
        self.0.head().store(head, Ordering::Release);
    }

    /// Whether there are slots beyond the one that the application waits for.
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

    /// The buffers that the slots name, unchecked.
    pub fn bufs(&self) -> impl Iterator<Item = BufIdx> {
        self.0.bufs()
    }

    /// Writes `ring->ts`, the time of the last rx sync.
    pub fn set_timestamp(&self, seconds: i64, microseconds: i64) {
        self.0.set_timestamp(seconds, microseconds);
    }

    /// Frames that did not fit into the ring of a netmap monitor, modulo 2^32; 0 for other rings.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.0.lost().load(Ordering::Relaxed)
    }

    /// Sets [`Self::lost`], for the host of a netmap monitor.
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

    /// Writes slot `i`, for its current owner: the application or the host.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring, or its region is private: then only the halves write.
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

    /// Sets the second word of slot `i`.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring.
    pub fn set_slot_ptr(&self, i: SlotIdx, ptr: u64) {
        self.0.slot(i).set_ptr(ptr);
    }

    /// Where in their buffers its payloads may begin; `None` where they begin with the buffer.
    #[must_use]
    #[inline(always)]
    pub fn offsets(&self) -> Option<RingOffsets> {
        self.0.offsets()
    }

    /// Sets the offsets for all holders of the ring in this process and publishes the mask and
    /// `align`, the
    /// required payload alignment in bytes, in the ring: for the ring's host.
    pub fn set_offsets(&self, offsets: Option<RingOffsets>, align: u64) {
        self.0.set_offsets(offsets, align);
    }

    /// As [`Self::set_offsets`], if a previous process has already published them in the ring.
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

    /// Releases the slots before `to` to the driver, on behalf of this ring's application.
    ///
    /// # Panics
    /// If `to` is not a slot of this ring.
    #[inline]
    pub fn advance_to(&self, to: SlotIdx) {
        assert!(to < self.num_slots() && !self.0.is_private(), "a slot of a ring that others map");
        self.0.cur().store(to, Ordering::Relaxed);
        // Release: pairs with the acquire in `KernRing::released`.
        self.0.head().store(to, Ordering::Release);
    }

    /// Prefetches the first `len` bytes of the buffer in slot `i`, without waiting.
    ///
    /// # Panics
    /// If `i` is not a slot of this ring.
    #[inline(always)]
    pub fn prefetch(&self, i: SlotIdx, len: u32) {
        let region = self.region();
        if let Some(data) = region.data(self.slot(i).buf) {
            for at in (0..len.min(region.buf_size()) as usize).step_by(CACHE_LINE_BYTES) {
                prefetch_address(data.as_ptr().wrapping_add(at));
            }
        }
    }

    /// Copies `len` bytes from byte `from_at` of a buffer of `from` to byte `at` of a buffer of this
    /// region; fewer where a buffer ends, and none into a private region, whose rings lend their
    /// buffers. An index out of range means buffer 0.
    ///
    /// Concurrent writers can corrupt the copied bytes, and nothing else.
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
