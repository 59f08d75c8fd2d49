//! Mapped memory: registers, and memory that a device writes to.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping, which is readable and writable and ends with the value.
///
/// # Invariants
/// 1. `base..base + len` is mapped for reading and writing as long as the value lives.
/// 2. `base` is aligned to a page.
/// 3. There are no references to the memory but those to atomics.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is accessed by volatile accesses and atomics only, and stays mapped until the
// value is dropped, by whatever thread.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file at offset `at`, shared.
    pub(crate) fn of_file(file: BorrowedFd<'_>, at: u64, len: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an address that nothing else uses.
        let base =
            unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, at) };
        Self::wrap(base?, len)
    }

    /// Creates a file of `len` zeroed bytes, which no other process has, and maps it.
    pub(crate) fn of_new_file(len: usize) -> io::Result<(Self, MemoryFile)> {
        let file = memfd_create("slipring-descriptors", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, len as u64)?;
        Ok((Self::of_file(file.as_fd(), 0, len)?, MemoryFile(file)))
    }

    /// Maps `len` zeroed bytes.
    #[cfg(test)]
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        Self::of_new_file(len).map(|(mapping, _)| mapping)
    }

    fn wrap(base: *mut c_void, len: usize) -> io::Result<Self> {
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }

    /// Number of bytes.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Address of the first byte in this process.
    pub(crate) fn address(&self) -> u64 {
        self.base.as_ptr().addr() as u64
    }

    /// The memory as 64-bit words.
    #[inline(always)]
    pub(crate) fn words64(&self) -> &[AtomicU64] {
        // SAFETY:
        // - Mapped for the lifetime of the slice (invariant 1), and aligned (invariant 2).
        // - Atomics may be shared with whatever writes to the memory (invariant 3).
        unsafe { std::slice::from_raw_parts(self.base.cast().as_ptr(), self.len / 8) }
    }

    /// The memory as 32-bit words.
    #[inline(always)]
    pub(crate) fn words32(&self) -> &[AtomicU32] {
        // SAFETY: as for `words64`.
        unsafe { std::slice::from_raw_parts(self.base.cast().as_ptr(), self.len / 4) }
    }

    /// The memory as 16-bit words.
    #[inline(always)]
    pub(crate) fn words16(&self) -> &[AtomicU16] {
        // SAFETY: as for `words64`.
        unsafe { std::slice::from_raw_parts(self.base.cast().as_ptr(), self.len / 2) }
    }
}

/// Defines the volatile accesses of one width.
macro_rules! accesses {
    ($($read:ident $write:ident $int:ty;)*) => {
        impl Mapping {
            $(
                /// Reads a register at a multiple of its width.
                ///
                /// # Panics
                /// If the register is not within the mapping.
                #[inline(always)]
                pub(crate) fn $read(&self, at: usize) -> $int {
                    let register = self.register(at).cast::<$int>();
                    // SAFETY: `register` has checked bounds and alignment; the memory is mapped
                    // (invariant 1). Any value is valid.
                    unsafe { register.read_volatile() }
                }

                /// Writes a register at a multiple of its width.
                ///
                /// # Panics
                /// If the register is not within the mapping.
                #[inline(always)]
                pub(crate) fn $write(&self, at: usize, value: $int) {
                    let register = self.register(at).cast::<$int>();
                    // SAFETY: as for the read; there are no references to the memory (invariant 3).
                    unsafe { register.write_volatile(value) };
                }
            )*
        }
    };
}

accesses! {
    read_u8 write_u8 u8;
    read_u16 write_u16 u16;
    read_u32 write_u32 u32;
}

impl Mapping {
    /// Returns the address of a register of at most four bytes.
    #[inline(always)]
    fn register(&self, at: usize) -> NonNull<u8> {
        assert!(at < self.len, "a register within the mapping");
        // SAFETY: within the mapping, as just checked.
        unsafe { self.base.add(at) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it any longer.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// The file behind a mapping.
#[derive(Debug)]
pub(crate) struct MemoryFile(OwnedFd);

impl MemoryFile {
    /// The descriptor, to be passed to whatever maps the memory, too.
    pub(crate) fn as_ref(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
