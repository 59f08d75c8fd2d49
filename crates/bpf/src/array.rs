//! The values of an array map, mapped into this process.
//!
//! Programs in the kernel read and write the same words at the same time, so there are no
//! references to the bytes: each access is atomic, or a copy word by word.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::map::{BpfMapKind, BpfMapSpec};

/// Atomic integers in shared memory.
///
/// # Safety
/// The type must be valid for every bit pattern, aligned to its size, and usable through a shared
/// reference while other parties write it.
pub unsafe trait AtomicInt {}

macro_rules! atomic_ints {
    ($($int:ty)*) => {$(
        // SAFETY: `$int` is an atomic of the standard library: valid for any bits, aligned to its
        // size, and usable while shared.
        unsafe impl AtomicInt for $int {}
    )*};
}

atomic_ints!(AtomicU8 AtomicU16 AtomicU32 AtomicU64);

/// The mapped values of an array.
///
/// ```text
///   value 0          value 1          value 2
///   | bytes ... |pad| bytes ... |pad| bytes ...        pad: to a multiple of 8
///   ^ offset 0
/// ```
///
/// Access each location with one width only: the memory order between accesses of different widths
/// to the same bytes depends on the processor.
///
/// # Invariants
/// `base` points to at least `len * stride` mapped bytes until the drop. It is aligned to a page,
/// and `stride` is the size of a value rounded up to a multiple of 8.
#[derive(Debug)]
pub struct MappedArray {
    base: NonNull<u8>,
    mapped_bytes: usize,
    len: u32,
    stride: usize,
    value_size: usize,
}

// SAFETY: `base` is owned, like the pointer of a box, and its use does not depend on the thread.
unsafe impl Send for MappedArray {}
// SAFETY: all access through a shared reference is atomic.
unsafe impl Sync for MappedArray {}

impl MappedArray {
    pub(crate) fn map(fd: BorrowedFd<'_>, spec: &BpfMapSpec) -> io::Result<Self> {
        if spec.kind != BpfMapKind::Array || !spec.mappable {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a mappable array"));
        }
        let value_size = spec.value_size as usize;
        let stride = value_size.next_multiple_of(8);
        let bytes = stride * spec.max_entries as usize;
        let mapped_bytes = bytes.next_multiple_of(rustix::param::page_size());
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free address, so the new mapping replaces no other.
        let base =
            unsafe { mmap(std::ptr::null_mut(), mapped_bytes, rights, MapFlags::SHARED, fd, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { base, mapped_bytes, len: spec.max_entries, stride, value_size })
    }

    /// Creates an array of zeros that no program in the kernel uses. With it, the code that fills
    /// the tables of a program in the kernel can also fill those of the interpreter
    /// ([`SimulatedMap::copy_from`]), without a privilege.
    ///
    /// # Errors
    /// The kernel's error, if there is not enough memory; `InvalidInput` if `spec` is not that of a
    /// mappable array.
    ///
    /// [`SimulatedMap::copy_from`]: crate::SimulatedMap::copy_from
    pub fn in_memory(spec: &BpfMapSpec) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("slipring_array", MemfdFlags::CLOEXEC)?;
        let stride = u64::from(spec.value_size).next_multiple_of(8);
        let bytes = stride * u64::from(spec.max_entries);
        rustix::fs::ftruncate(&file, bytes.next_multiple_of(rustix::param::page_size() as u64))?;
        Self::map(file.as_fd(), spec)
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no values. The kernel does not create such maps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of a value.
    #[must_use]
    pub fn value_size(&self) -> usize {
        self.value_size
    }

    /// Returns the integer at `offset` in the value `index`; `None` if the integer is not within
    /// the value or not aligned to its size.
    #[must_use]
    pub fn atomic<A: AtomicInt>(&self, index: u32, offset: usize) -> Option<&A> {
        let end = offset.checked_add(size_of::<A>())?;
        if index >= self.len || end > self.value_size || !offset.is_multiple_of(size_of::<A>()) {
            return None;
        }
        Some(self.atomic_at(index as usize * self.stride + offset))
    }

    /// Copies a value out, word by word: during a simultaneous change, some words may be old and
    /// others new.
    ///
    /// # Panics
    /// If `index` is out of range, or `value` does not have the size of the map's values.
    pub fn read(&self, index: u32, value: &mut [u8]) {
        for (offset, part) in self.words(index, value.len()).zip(value.chunks_mut(8)) {
            let word = self.atomic_at::<AtomicU64>(offset).load(Ordering::Relaxed).to_ne_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }

    /// Sets a value word by word: a program may see some new and some old words. To change a value
    /// as a whole, write the new one to an unused index and then store that index in an atomic that
    /// programs read first, or use an array of maps.
    ///
    /// # Panics
    /// As [`Self::read`].
    pub fn write(&self, index: u32, value: &[u8]) {
        for (offset, part) in self.words(index, value.len()).zip(value.chunks(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            let word = u64::from_ne_bytes(word);
            self.atomic_at::<AtomicU64>(offset).store(word, Ordering::Relaxed);
        }
    }

    /// Offsets of the words of a value.
    fn words(&self, index: u32, len: usize) -> impl Iterator<Item = usize> + use<> {
        assert!(index < self.len, "value {index} of {}", self.len);
        assert_eq!(len, self.value_size, "size of a value");
        let start = index as usize * self.stride;
        (start..start + self.stride).step_by(8)
    }

    /// The integer at a byte offset into the array. Callers have checked that the offset is within
    /// a value, padding included, and aligned.
    fn atomic_at<A: AtomicInt>(&self, offset: usize) -> &A {
        debug_assert!(offset + size_of::<A>() <= self.mapped_bytes);
        debug_assert!(offset.is_multiple_of(size_of::<A>()));
        // SAFETY: `offset` is inside the mapping: the callers compute it from an index below `len`
        // and an offset within the stride.
        let address = unsafe { self.base.add(offset) };
        // SAFETY:
        // - The address is mapped and aligned: by the invariant, and because the callers have
        //   checked the offset.
        // - The mapping lives as long as `self`, and the reference has the lifetime of `self`.
        // - Programs and threads may write these bytes at any time: `A` is an atomic, valid for any
        //   bits.
        unsafe { address.cast::<A>().as_ref() }
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        // SAFETY: `map` made this mapping with this size; all references to it borrow from `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
