//! Mapped memory: registers, and memory to which a device writes.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A readable and writable mapping, which is unmapped when the value is dropped.
///
/// # Invariants
/// 1. `base..base + len` is mapped for reading and writing as long as the value exists.
/// 2. `base` is aligned to a page.
/// 3. The only references to the memory are references to atomics.
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

    /// Creates a file of `len` zeroed bytes, whose size cannot change, and maps it.
    pub(crate) fn of_new_file(len: usize) -> io::Result<(Self, MemoryFile)> {
        let file =
            memfd_create("slipring-descriptors", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, len as u64)?;
        // A server that maps the file cannot truncate it. Otherwise, an access here would cause
        // SIGBUS.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
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
                /// If the register is not within the mapping, or not aligned.
                #[inline(always)]
                pub(crate) fn $read(&self, at: usize) -> $int {
                    let register = self.register::<$int>(at);
                    // SAFETY: `register` has checked bounds and alignment for this width (the base
                    // is aligned by invariant 2); the memory is mapped (invariant 1). Any value is
                    // valid.
                    unsafe { register.read_volatile() }
                }

                /// Writes a register at a multiple of its width.
                ///
                /// # Panics
                /// If the register is not within the mapping, or not aligned.
                #[inline(always)]
                pub(crate) fn $write(&self, at: usize, value: $int) {
                    let register = self.register::<$int>(at);
                    // SAFETY: as for the read; the only references to the memory are references to
                    // atomics (invariant 3).
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
    /// Returns the address of a register after checking that it is aligned and completely within
    /// the mapping.
    #[inline(always)]
    fn register<T>(&self, at: usize) -> NonNull<T> {
        let width = size_of::<T>();
        assert!(at < self.len && width <= self.len - at, "a register within the mapping");
        assert!(at.is_multiple_of(align_of::<T>()), "a register at a multiple of its width");
        // SAFETY: within the mapping, as just checked.
        unsafe { self.base.add(at) }.cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it any longer.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// The file of a mapping.
#[derive(Debug)]
pub(crate) struct MemoryFile(OwnedFd);

impl MemoryFile {
    /// Returns the descriptor, to be passed to another process that maps the memory.
    pub(crate) fn as_ref(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_is_whole_and_aligned() {
        let mapping = Mapping::anonymous(4096).unwrap();
        mapping.write_u32(4092, 7);
        assert_eq!((mapping.read_u32(4092), mapping.read_u8(4095)), (7, 0));
        let panics = |read: fn(&Mapping) -> u32| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(&mapping))).is_err()
        };
        assert!(panics(|mapping| mapping.read_u32(4094)), "beyond the end");
        assert!(panics(|mapping| mapping.read_u32(2)), "unaligned");
        assert!(panics(|mapping| u32::from(mapping.read_u16(1))), "unaligned");
        assert!(panics(|mapping| u32::from(mapping.read_u8(4096))), "beyond the end");
    }

    #[test]
    fn nobody_who_has_the_file_can_change_its_size() {
        let (_mapping, file) = Mapping::of_new_file(4096).unwrap();
        assert!(ftruncate(file.as_ref(), 0).is_err());
        assert!(ftruncate(file.as_ref(), 8192).is_err());
    }
}
