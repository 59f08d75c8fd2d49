//! A file as shared memory.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapped file, as words that other processes may read at any time.
#[derive(Debug)]
pub(crate) struct MappedWords {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to no thread, and all access is atomic.
unsafe impl Send for MappedWords {}
// SAFETY: as for `Send`.
unsafe impl Sync for MappedWords {}

impl MappedWords {
    /// Maps the first `words` words of a file that we created, which must be long enough.
    pub(crate) fn map(file: &File, words: usize) -> io::Result<Self> {
        let length = words * size_of::<AtomicU64>();
        if length == 0 || file.metadata()?.len() < length as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free address, so the new mapping replaces no other.
        let base =
            unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { base, words })
    }

    /// Returns all words of the mapping.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY:
        // - In bounds: `map` made the mapping `words` words long, of a file that is as long.
        // - Aligned: mappings begin at a page.
        // - Mapped: until `Drop`, so during the whole borrow of `self`.
        // - Shared: other processes may write too; the words are atomics, and every bit pattern is
        //   valid.
        // - Complete: only a process that may write our files could shorten this one, which would
        //   end us by SIGBUS; such a process could kill us anyway.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        let length = self.words * size_of::<AtomicU64>();
        // SAFETY: `map` made exactly this mapping, and no borrow of it outlives `self`. If the call
        // fails, the memory only stays mapped.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), length) };
    }
}
