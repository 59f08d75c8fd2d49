//! A region: one mapping, usually of a sealed memfd, that holds netmap's interface records, rings
//! and buffers.
//!
//! Buffer `k` is chunk `k` of the buffer area. Its data begins 256 bytes (`HEADROOM_BYTES`) into
//! the chunk and ends 256 bytes into the next chunk. So data areas never overlap. AF_XDP reserves
//! 256 bytes before each frame, and in this way receives frames where netmap expects them.

mod buffers;
mod bytes;
mod error;
mod foreign;
mod free;
mod geometry;
mod mapping;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, SealFlags};
use rustix::mm::MapFlags;

pub use error::RegionError;
pub use foreign::DeviceMapping;
pub use free::FreeBufs;
use free::FreeMemory;
pub use geometry::{BUF_SIZE, BUF_SIZE_FOR_DEVICES, Geometry, HugePages, is_buf_size};
pub(crate) use mapping::memory;
use mapping::{allocate, map};

use crate::index::BufIdx;
use crate::layout::{HEADROOM_BYTES, PAGE_BYTES, RegionHeader};
use crate::revocable::RevocableMapping;

/// Shared memory for rings and buffers.
#[derive(Debug)]
pub struct Region {
    /// Number of the region; unique within this process, and never reused.
    id: u64,
    /// The file that contains the region; several regions may share a file. `None` for a private
    /// region, and for a region that does not keep its file open: memory that another program
    /// lends, or a device whose descriptor the caller keeps.
    fd: Option<Arc<OwnedFd>>,
    /// Offset of the region in the file; 0 unless several regions share the file.
    file_offset: u64,
    base: NonNull<u8>,
    header: RegionHeader,
    huge: bool,
    /// Whether no other process can map the region.
    is_private: bool,
    /// Any code that has the index of a buffer may copy from and to the buffer, if the index is
    /// below this number. 0 in a private region: its rings lend references to the buffers, and such
    /// a copy would alias them.
    by_value: u32,
    /// Whether dropping the region frees its pages by punching a hole in the file, which outlives
    /// the region.
    punch: bool,
    /// The free memory; `None` in a process that attached: only the creator of a region allocates
    /// memory in it.
    free: Option<Mutex<FreeMemory>>,
    /// The mapping, if another program lends the memory.
    revocable: Option<RevocableMapping>,
    /// Reserves the region's range of the file; dropped last.
    _lease: Option<Box<dyn Any + Send + Sync>>,
}

// SAFETY:
// - `base` is the only field that is not Send and Sync by itself. The mapping that `base` points to
//   lives as long as the region and is never moved.
// - Everything reached through `base` is an atomic word or a raw copy. Code that lends references
//   into buffers (`app.rs`) ensures that each buffer has one owner.
unsafe impl Send for Region {}
// SAFETY: as for Send.
unsafe impl Sync for Region {}

impl Region {
    /// Creates a private region: no other process can map it, so its rings may lend their buffers
    /// as slices. The memfd is never passed to another process.
    ///
    /// # Errors
    /// [`RegionError`] when the geometry is out of range or the kernel refuses the memory.
    pub fn create(geometry: Geometry, huge: HugePages) -> Result<Arc<Self>, RegionError> {
        let mut region = Self::make(geometry, huge)?;
        (region.fd, region.is_private, region.by_value) = (None, true, 0);
        Ok(Arc::new(region))
    }

    /// Like [`Self::create`], but buffers may have any size, and pages are allocated on first
    /// access.
    pub(crate) fn create_sparse(geometry: Geometry) -> Result<Arc<Self>, RegionError> {
        let header = RegionHeader::lay_out(geometry);
        let (_, base, header) = allocate(header, false, MapFlags::empty())?;
        let mut region = Self::from_mapping(None, base, header);
        (region.is_private, region.by_value) = (true, 0);
        region.free = Some(Mutex::new(FreeMemory::all(&header)));
        Ok(Arc::new(region))
    }

    /// Creates a region for several processes: any process with its descriptor can map it.
    ///
    /// # Errors
    /// Same as [`Self::create`].
    pub fn create_shared(geometry: Geometry, huge: HugePages) -> Result<Arc<Self>, RegionError> {
        Self::make(geometry, huge).map(Arc::new)
    }

    fn make(geometry: Geometry, huge: HugePages) -> Result<Self, RegionError> {
        let header = RegionHeader::compute(geometry)?;
        // Page faults happen when the region is created, and not with the first frames.
        let how = MapFlags::POPULATE;
        let huge_region = match huge {
            HugePages::Never => None,
            HugePages::Try => allocate(header, true, how).ok(),
            HugePages::Require => Some(allocate(header, true, how).map_err(RegionError::of_huge)?),
        };
        let (fd, base, header, huge) = match huge_region {
            Some((fd, base, header)) => (fd, base, header, true),
            None => {
                let (fd, base, header) = allocate(header, false, how)?;
                (fd, base, header, false)
            }
        };
        // SAFETY:
        // - In bounds: `compute` puts `ring_start` at one page, so the header's 48 bytes fit.
        // - Aligned: a mapping starts at a page.
        // - Exclusive: the memfd is known to no other process yet.
        unsafe { base.cast::<RegionHeader>().write(header) };
        let free = Some(Mutex::new(FreeMemory::all(&header)));
        let mut region = Self::from_mapping(Some(Arc::new(fd)), base, header);
        (region.huge, region.free) = (huge, free);
        Ok(region)
    }

    /// Maps a region that another process created and whose descriptor it passed on.
    ///
    /// # Errors
    /// [`RegionError::NotARegion`] if the file behind the descriptor is not a region.
    pub fn attach(fd: OwnedFd) -> Result<Arc<Self>, RegionError> {
        let file_size = rustix::fs::fstat(&fd).map_err(|e| memory("stat", 0, e))?.st_size;
        let file_size = u64::try_from(file_size)
            .ok()
            .filter(|&size| size >= PAGE_BYTES)
            .ok_or(RegionError::NotARegion("the file is shorter than a page"))?;
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|e| memory("read seals of", 0, e))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(RegionError::NotARegion("the file may still shrink"));
        }
        // The header is read and checked before mapping; later writes by a peer change nothing.
        let header = RegionHeader::read(&fd)?;
        header.check(file_size)?;
        let base = map(&fd, 0, file_size, MapFlags::POPULATE)?;
        Ok(Arc::new(Self::from_mapping(Some(Arc::new(fd)), base, header)))
    }

    /// Creates a region in a larger, sparse file, at offset `at`, in a range that no other region
    /// uses. Pages are allocated on first access and freed when the region is dropped. `lease` is
    /// dropped after that; it stands for the right to use the range.
    ///
    /// # Errors
    /// [`RegionError`] if the geometry is out of range, `at` is not a multiple of 4,096, the file
    /// can shrink or ends before the region does, or the kernel refuses the memory.
    pub fn within(
        file: &Arc<OwnedFd>,
        at: u64,
        geometry: Geometry,
        lease: Box<dyn Any + Send + Sync>,
    ) -> Result<Arc<Self>, RegionError> {
        let free = FreeMemory::all(&RegionHeader::compute(geometry)?);
        Self::map_at(file, at, geometry, free, lease)
    }

    /// Resumes a region that a previous process created by [`Self::within`] and did not drop.
    /// `left` is the last result of [`Self::free_buf_state`] in that process. All ring bytes count
    /// as free until the rings and records in them are resumed.
    ///
    /// # Errors
    /// Same as for [`Self::within`]; also [`RegionError::NotARegion`] if `left` names buffers that
    /// do not exist.
    pub fn resume(
        file: &Arc<OwnedFd>,
        at: u64,
        geometry: Geometry,
        left: &FreeBufs,
        lease: Box<dyn Any + Send + Sync>,
    ) -> Result<Arc<Self>, RegionError> {
        let free = FreeMemory::restored(&RegionHeader::compute(geometry)?, left);
        let free = free.ok_or(RegionError::NotARegion("it has no such free buffers"))?;
        Self::map_at(file, at, geometry, free, lease)
    }

    fn map_at(
        file: &Arc<OwnedFd>,
        at: u64,
        geometry: Geometry,
        free: FreeMemory,
        lease: Box<dyn Any + Send + Sync>,
    ) -> Result<Arc<Self>, RegionError> {
        let header = RegionHeader::compute(geometry)?;
        let stat = rustix::fs::fstat(file).map_err(|e| memory("stat", header.total, e))?;
        let seals = rustix::fs::fcntl_get_seals(file).map_err(|e| memory("read seals of", 0, e))?;
        let fits = at.checked_add(header.total).is_some_and(|end| end <= stat.st_size as u64);
        if !fits || !at.is_multiple_of(PAGE_BYTES) || !seals.contains(SealFlags::SHRINK) {
            return Err(RegionError::NotARegion("the file has no room for one there"));
        }
        let base = map(file, at, header.total, MapFlags::empty())?;
        // SAFETY:
        // - In bounds: `compute` puts `ring_start` at one page, so the header's 48 bytes fit.
        // - Aligned: a mapping starts at a page.
        // - A client may have the page mapped; every process checks the header that it reads.
        unsafe { base.cast::<RegionHeader>().write_volatile(header) };
        let free = Some(Mutex::new(free));
        let mut region = Self::from_mapping(Some(file.clone()), base, header);
        (region.file_offset, region.punch, region.free) = (at, true, free);
        region._lease = Some(lease);
        Ok(Arc::new(region))
    }

    /// Creates a region in the first `len` bytes of memory that another program has lent, with as
    /// many buffers as fit into the whole pages, but no more than `geometry` says.
    ///
    /// # Errors
    /// [`RegionError`] when the geometry is out of range, or not even one buffer fits.
    pub fn from_revocable(
        memory: RevocableMapping,
        len: u64,
        geometry: Geometry,
    ) -> Result<Arc<Self>, RegionError> {
        let len = len.min(memory.len() as u64);
        let header = RegionHeader::compute_within(geometry, len - len % PAGE_BYTES)?;
        let free = Some(Mutex::new(FreeMemory::all(&header)));
        let mut region = Self::from_mapping(None, memory.base(), header);
        (region.free, region.revocable) = (free, Some(memory));
        Ok(Arc::new(region))
    }

    /// Wraps a mapping as a shared region that has no free memory.
    fn from_mapping(fd: Option<Arc<OwnedFd>>, base: NonNull<u8>, header: RegionHeader) -> Self {
        let (file_offset, huge, punch) = (0, false, false);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            is_private: false,
            by_value: header.bufs,
            fd,
            file_offset,
            base,
            header,
            huge,
            punch,
            free: None,
            revocable: None,
            _lease: None,
        }
    }

    /// Returns the size in bytes of a region of this geometry.
    ///
    /// # Errors
    /// [`RegionError`] when the geometry is out of range.
    pub fn size_of(geometry: Geometry) -> Result<u64, RegionError> {
        Ok(RegionHeader::compute(geometry)?.total)
    }

    /// Returns the offset of the region in its file, in bytes; 0 unless the region was created by
    /// [`Self::within`] or [`Self::resume`].
    #[must_use]
    pub fn file_offset(&self) -> u64 {
        self.file_offset
    }

    /// Returns the memfd, which the caller can pass to another process or register with a device.
    ///
    /// # Panics
    /// If the region is private, so that no other process may map it, or if the region does not
    /// keep its file open ([`Self::from_revocable`], [`DeviceMapping::borrowing`]).
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("a region that may be passed on").as_fd()
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether no other process can map the region. If so, rings lend slices of its
    /// buffers, and buffers cannot be copied by index.
    #[must_use]
    #[inline(always)]
    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// Returns whether another program lent the memory and has revoked it
    /// ([`RevocableMapping::is_revoked`]).
    #[must_use]
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.revocable.as_ref().is_some_and(RevocableMapping::is_revoked)
    }

    /// Returns whether the region has huge pages. Always false in a process that attached, because
    /// that process cannot find out.
    #[must_use]
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// Size of the region in bytes, with header, rings and buffers.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.header.total
    }

    /// Bytes per buffer.
    #[must_use]
    pub fn buf_size(&self) -> u32 {
        self.header.buf_size
    }

    /// Total number of buffers, including the two reserved buffers 0 and 1.
    #[must_use]
    pub fn num_bufs(&self) -> u32 {
        self.header.bufs
    }

    /// Offset of the buffer area in the region, in bytes; page-aligned unless a device laid out the
    /// memory.
    #[must_use]
    pub fn buf_start(&self) -> u64 {
        self.header.buf_start
    }

    /// Offset of the ring area in the region, in bytes.
    #[must_use]
    pub fn ring_start(&self) -> u64 {
        self.header.ring_start
    }

    /// Offset of the data of buffer 0 in the region, in bytes.
    #[must_use]
    pub fn data_start(&self) -> u64 {
        self.header.buf_start + HEADROOM_BYTES
    }

    /// Length in bytes of all chunks in the buffer area, without the slack after the last chunk.
    #[must_use]
    pub fn buf_area_len(&self) -> u64 {
        u64::from(self.header.bufs) * u64::from(self.header.buf_size)
    }

    /// Address of the mapping in this process; valid while `self` lives.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Number of free buffers; 0 in a process that attached.
    #[must_use]
    pub fn free_bufs(&self) -> u32 {
        self.free().map_or(0, |free| free.bufs())
    }

    /// Length in bytes of the longest free range for rings; 0 in a process that attached.
    #[must_use]
    pub fn max_free_ring_bytes(&self) -> u64 {
        self.free().map_or(0, |free| free.rings.longest())
    }

    /// Returns which buffers are free, for [`Self::resume`].
    #[must_use]
    pub fn free_buf_state(&self) -> FreeBufs {
        self.free().map(|free| free.free_buf_state()).unwrap_or_default()
    }

    /// The region's geometry, with the ring bytes rounded up to whole pages.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        let RegionHeader { ring_start, buf_start, bufs, buf_size, .. } = self.header;
        Geometry { ring_bytes: buf_start - ring_start, bufs, buf_size }
    }

    /// Like [`Self::data`], but `None` also in a private region, where only rings give access to
    /// buffers.
    #[inline(always)]
    fn data_by_value(&self, buf: BufIdx) -> Option<NonNull<u8>> {
        if buf.0 < self.by_value { self.data(buf) } else { None }
    }

    /// Returns the address of a buffer's data, which has `buf_size` bytes; `None` if the index is
    /// out of range.
    #[inline(always)]
    pub(crate) fn data(&self, BufIdx(idx): BufIdx) -> Option<NonNull<u8>> {
        if idx >= self.header.bufs {
            return None;
        }
        let at = self.header.buf_start
            + HEADROOM_BYTES
            + u64::from(idx) * u64::from(self.header.buf_size);
        // SAFETY:
        // - In bounds: `idx < bufs`, and `compute` (or `check`) made the mapping reach HEADROOM
        //   bytes beyond the last chunk.
        Some(unsafe { self.base.add(at as usize) })
    }

    /// Reserves the `len` bytes at offset `at` of the region, in the ring area, and keeps their
    /// content, which a previous process wrote.
    ///
    /// # Errors
    /// [`RegionError::OutOfRingSpace`] if the range is not free or not in the ring area.
    pub(crate) fn reserve_ring_bytes(&self, at: u64, len: u64) -> Result<(), RegionError> {
        let taken = self.free().is_some_and(|mut free| free.rings.alloc_at(at, len));
        if taken { Ok(()) } else { Err(RegionError::OutOfRingSpace { wanted: len }) }
    }

    /// Allocates `len` zeroed bytes in the ring area and returns their offset in the region.
    ///
    /// # Errors
    /// [`RegionError::OutOfRingSpace`] if no free range is long enough.
    pub(crate) fn alloc_ring_bytes(&self, len: u64) -> Result<u64, RegionError> {
        let full = RegionError::OutOfRingSpace { wanted: len };
        let at = self.free().and_then(|mut free| free.rings.alloc(len)).ok_or(full)?;
        // SAFETY:
        // - In bounds: the arena covers `ring_start..buf_start` only.
        let start = unsafe { self.base.add(at as usize) };
        // SAFETY:
        // - In bounds as above. Exclusive: the arena allocates each byte once.
        unsafe { start.write_bytes(0, len as usize) };
        Ok(at)
    }

    /// Frees the `len` bytes at offset `at`, in the ring area; nothing may refer to them any more.
    pub(crate) fn release_ring_bytes(&self, at: u64, len: u64) {
        if let Some(mut free) = self.free() {
            free.rings.release(at, len);
        }
    }

    /// Returns the 64-bit word at offset `at` of the region, in the ring area.
    ///
    /// # Panics
    /// If the word is outside the ring area or not aligned.
    pub(crate) fn ring_word(&self, at: u64) -> &AtomicU64 {
        assert!(
            at >= self.header.ring_start && at + 8 <= self.header.buf_start,
            "in the ring area"
        );
        assert!(at.is_multiple_of(8), "aligned");
        // SAFETY:
        // - In bounds: checked above.
        let word = unsafe { self.base.add(at as usize) };
        // SAFETY:
        // - Aligned: checked above, and a mapping starts at a page. Alive: `self` is borrowed.
        // - Shared: the word is an atomic.
        unsafe { word.cast::<AtomicU64>().as_ref() }
    }

    /// Returns whether the `len` bytes at offset `at` are in the ring area, and `at` is aligned as
    /// the arena aligns.
    pub(crate) fn in_ring_area(&self, at: u64, len: u64) -> bool {
        at >= self.header.ring_start
            && at.is_multiple_of(crate::arena::ARENA_ALIGN_BYTES)
            && at.checked_add(len).is_some_and(|end| end <= self.header.buf_start)
    }

    fn free(&self) -> Option<MutexGuard<'_, FreeMemory>> {
        // Poisoning is ignored: a panic between two operations leaves the lists of free memory
        // valid.
        self.free.as_ref().map(|free| free.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.revocable.is_some() {
            // A revocable mapping unmaps itself.
            return;
        }
        // SAFETY:
        // - `base` and `total` describe exactly the mapping that `map` created; it is unmapped only
        //   here.
        // - Rings hold an `Arc` of the region, so nothing points into it any more.
        let unmapped =
            unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.header.total as usize) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
        if let Some(fd) = self.fd.as_ref().filter(|_| self.punch) {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // If the kernel refuses, the pages stay allocated; the next region in this range uses
            // them.
            let _ = rustix::fs::fallocate(fd, hole, self.file_offset, self.header.total);
        }
    }
}
