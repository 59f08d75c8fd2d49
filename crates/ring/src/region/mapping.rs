//! Allocating and mapping a region's memory.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use super::RegionError;
use crate::layout::{HUGE_PAGE_BYTES, RegionHeader};

pub(super) fn allocate(
    mut header: RegionHeader,
    huge: bool,
    how: MapFlags,
) -> Result<(OwnedFd, NonNull<u8>, RegionHeader), RegionError> {
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if huge {
        flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        header.total = header.total.next_multiple_of(HUGE_PAGE_BYTES);
    }
    let bytes = header.total;
    let fd = rustix::fs::memfd_create("slipring", flags).map_err(|e| memory("create", bytes, e))?;
    rustix::fs::ftruncate(&fd, bytes).map_err(|e| memory("reserve", bytes, e))?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .map_err(|e| memory("seal", bytes, e))?;
    let base = map(&fd, 0, bytes, how)?;
    Ok((fd, base, header))
}

pub(super) fn map(
    fd: impl AsFd,
    at: u64,
    bytes: u64,
    how: MapFlags,
) -> Result<NonNull<u8>, RegionError> {
    let flags = MapFlags::SHARED | how;
    // SAFETY:
    // - A null hint lets the kernel choose, so no other mapping is replaced.
    // - A region's file has `bytes` bytes from `at` on and is sealed against shrinking, so no
    //   access faults. For the memory of a device, its driver or server promises this; if the
    //   promise is broken, an access beyond the end of the memory ends the process (SIGBUS).
    let base = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            bytes as usize,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
            fd,
            at,
        )
    };
    let base = base.map_err(|e| memory("map", bytes, e))?;
    NonNull::new(base.cast()).ok_or(RegionError::NotARegion("mapped at address zero"))
}

pub(crate) fn memory(step: &'static str, bytes: u64, source: rustix::io::Errno) -> RegionError {
    RegionError::Memory { step, bytes, source: source.into() }
}
