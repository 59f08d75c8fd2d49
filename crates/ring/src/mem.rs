//! One ring in shared memory: its header words and slots, as atomic words.
//!
//! A slot is two 64-bit words, which are read and written as relaxed atomics. That compiles to
//! plain moves. A peer that writes a slot while we read it can only give us a wrong value, never
//! undefined behaviour.

mod slot;
mod values;

use std::any::Any;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use slipring_abi::{NetmapRing, NetmapSlot};

pub(crate) use slot::SlotCell;
pub use slot::{Slot, SlotFlags};
pub(crate) use values::{MemValues, PrivateMem};

use crate::index::{BufIdx, SlotIdx};
use crate::layout::HEADROOM_BYTES;
use crate::offsets::{HostOffsets, RingOffsets};
use crate::peer_copy;
use crate::region::{Region, RegionError};
use crate::shared::SharedBuf;

/// Owns a ring's bytes and the buffers in its slots, as far as `owned` says, and returns them to
/// the region when the last half and the last view of the ring are dropped.
#[derive(Debug)]
struct RingBlock {
    region: Arc<Region>,
    slots: NonNull<SlotCell>,
    offset: u64,
    num_slots: u32,
    owned: RingOwnership,
    offsets: HostOffsets,
    /// The first slot that the driver has not processed; read by other threads of the host.
    hwcur: AtomicU32,
}

/// Which parts of a ring return to its region when the ring is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RingOwnership {
    /// Nothing, because another process created the ring.
    Nothing,
    /// The ring's bytes only, because its slots have no buffers, or buffers of another ring.
    Bytes,
    /// The ring's bytes and the buffers in its slots.
    BytesAndBufs,
}

impl Drop for RingBlock {
    fn drop(&mut self) {
        if self.owned == RingOwnership::Nothing {
            return;
        }
        if self.owned == RingOwnership::BytesAndBufs {
            let cells = cells(self.slots, self.num_slots);
            self.region.put_back(cells.iter().map(|cell| cell.get().buf));
        }
        self.region.release_ring_bytes(self.offset, ring_bytes(self.num_slots));
    }
}

/// A ring of a region: where its header, slots and buffers are. Cheap to clone: both halves of a
/// ring hold a clone.
#[derive(Debug, Clone)]
pub(crate) struct RingMem {
    header: NonNull<u8>,
    slots: NonNull<SlotCell>,
    num_slots: u32,
    buf_size: u32,
    num_bufs: u32,
    /// Whether the region is private, so that buffers can be lent.
    is_private: bool,
    /// Number of slots that code outside the two halves may write by index: all slots, or 0 in a
    /// private region. `open_bytes` is the number of bytes of each buffer that such code may copy.
    open_slots: u32,
    open_bytes: u32,
    /// First data byte of buffer 0.
    bufs: NonNull<u8>,
    block: Arc<RingBlock>,
    /// A value that must live as long as this ring, such as the pipe to which it belongs; `None`
    /// for most rings.
    _keeps: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: the pointers point into the region that `block` keeps alive. Slots and words are only
// accessed as atomics, and buffers only by their owner (`app.rs`).
unsafe impl Send for RingMem {}
// SAFETY: as for Send.
unsafe impl Sync for RingMem {}
// SAFETY: `slots` points into `region`, which the block keeps alive, and is accessed as atomics.
unsafe impl Send for RingBlock {}
// SAFETY: as for Send.
unsafe impl Sync for RingBlock {}

/// Returns the first data byte of a buffer, out of `count` buffers of `size` bytes from `first` on.
/// If the index is out of range, returns the address of buffer 0, which is reserved. So a wrong
/// index can never lead outside the region.
#[inline(always)]
fn data_of(first: NonNull<u8>, count: u32, size: u32, BufIdx(idx): BufIdx) -> NonNull<u8> {
    let idx = if idx < count { idx } else { 0 };
    // SAFETY:
    // - In bounds: both callers pass the values of a `RingMem`. `idx < num_bufs`, and each buffer
    //   has `buf_size` bytes from its data on, the last one thanks to the slack at the region's
    //   end.
    unsafe { first.add(idx as usize * size as usize) }
}

/// Maximum number of slots of a ring; the sum of two slot indices cannot overflow.
pub(crate) const MAX_SLOTS: u32 = 1 << 20;

/// Bytes that a ring of `num_slots` takes in the ring area.
#[must_use]
pub const fn ring_bytes(num_slots: u32) -> u64 {
    (size_of::<NetmapRing>() + num_slots as usize * size_of::<NetmapSlot>()) as u64
}

/// A ring's direction, as in `NetmapRing::dir`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
#[allow(unreachable_pub, missing_docs)]
pub enum RingDir {
    Tx = 0,
    Rx = 1,
}

/// Returns the cells of a ring of `num_slots` slots.
#[inline(always)]
fn cells<'a>(slots: NonNull<SlotCell>, num_slots: u32) -> &'a [SlotCell] {
    // SAFETY:
    // - In bounds and alive: every caller holds a region that has `num_slots` cells at `slots`.
    // - Aligned: a ring header is aligned for slots and 256 bytes long, and a slot has 16 bytes.
    // - Shared: `SlotCell` is made of atomics, so references may coexist with a peer.
    unsafe { std::slice::from_raw_parts(slots.as_ptr(), num_slots as usize) }
}

impl RingMem {
    /// Lays out a ring; its first slots get `bufs` in order, the remaining slots get no buffer.
    pub(crate) fn create(
        region: &Arc<Region>,
        dir: RingDir,
        ringid: u16,
        num_slots: u32,
        bufs: &[BufIdx],
    ) -> Result<Self, RegionError> {
        if !(1..=MAX_SLOTS).contains(&num_slots) {
            return Err(RegionError::Slots(num_slots));
        }
        let offset = region.alloc_ring_bytes(ring_bytes(num_slots))?;
        let owned =
            if bufs.is_empty() { RingOwnership::Bytes } else { RingOwnership::BytesAndBufs };
        let ring = Self::at(region, offset, num_slots, owned);
        let header = NetmapRing {
            buf_ofs: (region.buf_start() + HEADROOM_BYTES) as i64 - offset as i64,
            num_slots,
            nr_buf_size: region.buf_size(),
            ringid,
            dir: dir as u16,
            ..NetmapRing::default()
        };
        // SAFETY:
        // - In bounds and aligned: `alloc_ring_bytes` returned `ring_bytes` bytes, 128-aligned.
        // - Exclusive: no other code knows the offset yet.
        unsafe { ring.header.cast::<NetmapRing>().write(header) };
        let len = region.buf_size() as u16;
        for (i, &buf) in (0..num_slots).zip(bufs) {
            ring.slot(i).set(Slot { buf, len, flags: SlotFlags::default() });
        }
        Ok(ring)
    }

    /// Resumes a ring that a previous process laid out. `owned` says which parts the ring owned in
    /// that process.
    pub(crate) fn resume(
        region: &Arc<Region>,
        offset: u64,
        num_slots: u32,
        owned: RingOwnership,
    ) -> Result<Self, RegionError> {
        if !(1..=MAX_SLOTS).contains(&num_slots) {
            return Err(RegionError::Slots(num_slots));
        }
        if region.is_private() {
            return Err(RegionError::NotARegion("its rings have their halves already"));
        }
        region.reserve_ring_bytes(offset, ring_bytes(num_slots))?;
        Ok(Self::at(region, offset, num_slots, owned))
    }

    /// Attaches to a ring that another process laid out at `offset`; `None` if no ring can be at
    /// `offset`.
    pub(crate) fn attach(region: &Arc<Region>, offset: u64, num_slots: u32) -> Option<Self> {
        let possible = (1..=MAX_SLOTS).contains(&num_slots);
        let possible = possible && !region.is_private();
        let inside = possible && region.in_ring_area(offset, ring_bytes(num_slots));
        inside.then(|| Self::at(region, offset, num_slots, RingOwnership::Nothing))
    }

    /// Attaches to a ring that a netmap device or a host laid out at `offset`, anywhere before the
    /// buffers; `None` if no ring can be at `offset`.
    pub(crate) fn foreign(region: &Arc<Region>, offset: u64, num_slots: u32) -> Option<Self> {
        let possible = (1..=MAX_SLOTS).contains(&num_slots);
        let end = offset.checked_add(ring_bytes(num_slots).min(1 << 32));
        let inside = end.is_some_and(|end| end <= region.data_start());
        let aligned = offset.is_multiple_of(align_of::<SlotCell>() as u64);
        let fits = possible && inside && aligned && !region.is_private();
        fits.then(|| Self::at(region, offset, num_slots, RingOwnership::Nothing))
    }

    /// Creates the value for the ring at `offset`. From `offset` to the start of the buffers there
    /// must be at least `ring_bytes(num_slots)` bytes.
    fn at(region: &Arc<Region>, offset: u64, num_slots: u32, owned: RingOwnership) -> Self {
        // SAFETY:
        // - In bounds: every caller allocated or checked the range.
        let header = unsafe { region.base().add(offset as usize) };
        // SAFETY: as above; slots follow the header.
        let slots: NonNull<SlotCell> = unsafe { header.add(size_of::<NetmapRing>()) }.cast();
        let bufs = region.data(BufIdx(0)).expect("every region has the reserved buffers");
        let block = RingBlock {
            region: region.clone(),
            slots,
            offset,
            num_slots,
            owned,
            offsets: HostOffsets::default(),
            hwcur: AtomicU32::new(0),
        };
        Self {
            header,
            slots,
            num_slots,
            buf_size: region.buf_size(),
            num_bufs: region.num_bufs(),
            is_private: region.is_private(),
            open_slots: if region.is_private() { 0 } else { num_slots },
            open_bytes: if region.is_private() { 0 } else { region.buf_size() },
            bufs,
            block: Arc::new(block),
            _keeps: None,
        }
    }

    /// Returns a value for the same ring that also keeps `what` alive.
    pub(crate) fn with_keep_alive(&self, what: Arc<dyn Any + Send + Sync>) -> Self {
        Self { _keeps: Some(what), ..self.clone() }
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.block.region
    }

    pub(crate) fn offset(&self) -> u64 {
        self.block.offset
    }

    #[inline(always)]
    pub(crate) fn num_slots(&self) -> u32 {
        self.num_slots
    }

    #[inline(always)]
    pub(crate) fn buf_size(&self) -> u32 {
        self.buf_size
    }

    /// Returns slot `i`.
    ///
    /// # Panics
    /// If `i` is not below `num_slots`. The functions of `index.rs` never return such an index.
    #[inline(always)]
    pub(crate) fn slot(&self, i: SlotIdx) -> &SlotCell {
        &cells(self.slots, self.num_slots)[i as usize]
    }

    /// Like [`Self::slot`], but for code outside the two halves.
    ///
    /// # Panics
    /// If `i` is not below `num_slots`, or if the region is private: there, a wrong buffer index in
    /// a slot could make two slots lend one buffer.
    #[inline(always)]
    pub(crate) fn open_slot(&self, i: SlotIdx) -> &SlotCell {
        &cells(self.slots, self.open_slots)[i as usize]
    }

    /// Returns the ring as a ring whose buffers may be lent; `None` in a shared region.
    #[inline(always)]
    pub(crate) fn as_private(&self) -> Option<PrivateMem<'_>> {
        if self.is_private { Some(PrivateMem::of(self)) } else { None }
    }

    /// Returns the addresses and sizes of slots and buffers.
    #[inline(always)]
    pub(crate) fn values(&self) -> MemValues<'_> {
        MemValues::of(self)
    }

    /// Returns whether the region is private.
    #[inline(always)]
    pub(crate) fn is_private(&self) -> bool {
        self.is_private
    }

    /// The slots `from..to`, a contiguous range as [`crate::index::spans`] returns.
    #[inline(always)]
    pub(crate) fn slots(&self, (from, to): (SlotIdx, SlotIdx)) -> &[SlotCell] {
        &cells(self.slots, self.num_slots)[from as usize..to as usize]
    }

    /// Returns the address of a buffer's data; see [`data_of`].
    #[inline(always)]
    pub(crate) fn data(&self, buf: BufIdx) -> NonNull<u8> {
        data_of(self.bufs, self.num_bufs, self.buf_size, buf)
    }

    /// The first `len` bytes of a buffer, or the whole buffer if it is shorter.
    #[inline(always)]
    pub(crate) fn shared(&self, buf: BufIdx, len: u32) -> SharedBuf<'_> {
        self.values().shared(buf, len)
    }

    /// Like [`Self::shared`] with the whole buffer, but for code outside the two halves: empty in a
    /// private region.
    #[inline(always)]
    pub(crate) fn open_buf(&self, buf: BufIdx) -> SharedBuf<'_> {
        self.shared(buf, self.open_bytes)
    }

    /// Writes the first bytes of a buffer; `bytes` is at most `buf_size` long.
    #[inline(always)]
    pub(crate) fn write(&self, buf: BufIdx, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.buf_size as usize);
        // SAFETY:
        // - In bounds: `data` returns the address of `buf_size` bytes.
        // - Overlap is allowed for: `bytes` may be a frame of this region, and a peer that breaks
        //   the rules may have put one buffer into two slots.
        unsafe { peer_copy::copy(bytes.as_ptr(), self.data(buf).as_ptr(), bytes.len()) };
    }

    /// Copies the first `len` bytes of buffer `source` of the ring `from` to buffer `buf`; `len` is
    /// at most the `buf_size` of both rings.
    #[inline(always)]
    pub(crate) fn copy_from(&self, buf: BufIdx, from: &Self, source: BufIdx, len: usize) {
        debug_assert!(len <= self.buf_size.min(from.buf_size) as usize);
        // SAFETY: as in `write`, on both sides.
        unsafe { peer_copy::copy(from.data(source).as_ptr(), self.data(buf).as_ptr(), len) };
    }

    /// Copies `len` bytes from byte `from_at` of a buffer of `from` to byte `at` of a buffer of
    /// this ring; fewer if one of the buffers ends earlier, and none from or to a private region.
    /// Returns the number of copied bytes.
    #[inline(always)]
    pub(crate) fn copy_part(
        &self,
        (buf, at): (BufIdx, usize),
        from: &Self,
        (source, from_at): (BufIdx, usize),
        len: usize,
    ) -> usize {
        let room = (self.open_bytes as usize).saturating_sub(at);
        let held = (from.open_bytes as usize).saturating_sub(from_at);
        let len = len.min(room).min(held);
        if len == 0 {
            return 0;
        }
        let (to, from) = (self.data(buf), from.data(source));
        // SAFETY:
        // - In bounds: `len` is above 0, so `from_at` is within the buffer.
        let from = unsafe { from.add(from_at) };
        // SAFETY: as for `from`.
        let to = unsafe { to.add(at) };
        // SAFETY:
        // - In bounds: `len` reaches no further than either buffer's end.
        // - Overlap is allowed for, as in `write`.
        unsafe { peer_copy::copy(from.as_ptr(), to.as_ptr(), len) };
        len
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY:
        // - In bounds: callers pass field offsets of `NetmapRing`.
        let word = unsafe { self.header.add(offset) };
        // SAFETY: aligned as the field is; the word is atomic, so a peer may access it too.
        unsafe { word.cast::<AtomicU32>().as_ref() }
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> &AtomicU32 {
        self.word(offset_of!(NetmapRing, head))
    }

    #[inline(always)]
    pub(crate) fn cur(&self) -> &AtomicU32 {
        self.word(offset_of!(NetmapRing, cur))
    }

    #[inline(always)]
    pub(crate) fn tail(&self) -> &AtomicU32 {
        self.word(offset_of!(NetmapRing, tail))
    }

    /// `ring->flags`, as the application last wrote them.
    pub(crate) fn flags(&self) -> u32 {
        self.word(offset_of!(NetmapRing, flags)).load(Ordering::Relaxed)
    }

    /// Number of frames that did not fit into the rx ring of a netmap monitor, modulo 2^32.
    pub(crate) fn lost(&self) -> &AtomicU32 {
        self.word(offset_of!(NetmapRing, lost))
    }

    /// The first slot that the driver has not processed.
    #[inline(always)]
    pub(crate) fn hwcur(&self) -> &AtomicU32 {
        &self.block.hwcur
    }

    /// The settings of payload offsets, from the host's copy; `None` if all payloads begin at byte
    /// 0.
    #[inline(always)]
    pub(crate) fn offsets(&self) -> Option<RingOffsets> {
        self.block.offsets.get()
    }

    /// Sets the offsets, and publishes the mask and the required payload alignment to the program.
    pub(crate) fn set_offsets(&self, offsets: Option<RingOffsets>, align: u64) {
        let mask = offsets.map_or(0, |offsets| offsets.mask);
        self.long(offset_of!(NetmapRing, offset_mask)).store(mask, Ordering::Relaxed);
        self.long(offset_of!(NetmapRing, buf_align)).store(align, Ordering::Relaxed);
        self.block.offsets.set(offsets);
    }

    /// Returns whether another process created the ring.
    pub(crate) fn is_foreign(&self) -> bool {
        self.block.owned == RingOwnership::Nothing
    }

    /// The mask of payload offsets that the ring's creator has published in the ring; 0 for none.
    pub(crate) fn offset_mask(&self) -> u64 {
        self.long(offset_of!(NetmapRing, offset_mask)).load(Ordering::Relaxed)
    }

    /// Sets the offsets as [`Self::set_offsets`] does, but does not publish them, because a
    /// previous process did.
    pub(crate) fn set_host_offsets(&self, offsets: RingOffsets) {
        self.block.offsets.set(Some(offsets));
    }

    fn long(&self, offset: usize) -> &AtomicU64 {
        // SAFETY:
        // - In bounds: callers pass offsets of 64-bit fields of `NetmapRing`.
        let word = unsafe { self.header.add(offset) };
        // SAFETY: aligned as the field is; the word is atomic, so a peer may access it too.
        unsafe { word.cast::<AtomicU64>().as_ref() }
    }

    /// The buffer indices in all slots, unchecked.
    pub(crate) fn bufs(&self) -> impl Iterator<Item = BufIdx> {
        cells(self.slots, self.num_slots).iter().map(|cell| cell.get().buf)
    }

    /// Writes `ring->ts`: seconds and microseconds since the epoch.
    pub(crate) fn set_timestamp(&self, sec: i64, usec: i64) {
        let at = offset_of!(NetmapRing, ts);
        for (i, value) in [sec, usec].into_iter().enumerate() {
            // SAFETY:
            // - In bounds: `ts` is two 64-bit words.
            let word = unsafe { self.header.add(at + 8 * i) };
            // SAFETY: aligned as the field is; the word is atomic, so a peer may access it too.
            unsafe { word.cast::<AtomicI64>().as_ref() }.store(value, Ordering::Relaxed);
        }
    }
}
