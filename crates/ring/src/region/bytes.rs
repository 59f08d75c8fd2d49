//! Copies between a buffer and private memory, for parties that do not trust each other.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::Region;
use crate::index::BufIdx;

impl Region {
    /// Copies bytes from the start of a buffer to `out`, as many as both have; returns their
    /// number. `None` if the index is out of range or the region is private. Creates no reference
    /// into the buffer. If another party writes at the same time, the copy may mix old and new
    /// bytes.
    #[inline]
    pub fn copy_out(&self, buf: BufIdx, out: &mut [u8]) -> Option<usize> {
        let data = self.data_by_value(buf)?;
        let len = out.len().min(self.header.buf_size as usize);
        let (words, rest) = out[..len].as_chunks_mut::<8>();
        let done = 8 * words.len();
        for (i, word) in words.iter_mut().enumerate() {
            *word = word_at(data, i).load(Ordering::Relaxed).to_ne_bytes();
        }
        for (i, byte) in rest.iter_mut().enumerate() {
            *byte = byte_at(data, done + i).load(Ordering::Relaxed);
        }
        Some(len)
    }

    /// Copies `bytes` to the start of a buffer, as many bytes as both have; returns their number.
    /// `None` if the index is out of range or the region is private.
    #[inline]
    pub fn copy_in(&self, buf: BufIdx, bytes: &[u8]) -> Option<usize> {
        let data = self.data_by_value(buf)?;
        let len = bytes.len().min(self.header.buf_size as usize);
        let (words, rest) = bytes[..len].as_chunks::<8>();
        let done = 8 * words.len();
        for (i, word) in words.iter().enumerate() {
            word_at(data, i).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        for (i, &byte) in rest.iter().enumerate() {
            byte_at(data, done + i).store(byte, Ordering::Relaxed);
        }
        Some(len)
    }

    /// Like [`Self::copy_out`], but starts at byte `at` of the buffer.
    pub fn copy_out_at(&self, buf: BufIdx, at: usize, out: &mut [u8]) -> Option<usize> {
        let data = self.data_by_value(buf)?;
        let len = out.len().min((self.header.buf_size as usize).saturating_sub(at));
        for (i, byte) in out[..len].iter_mut().enumerate() {
            *byte = byte_at(data, at + i).load(Ordering::Relaxed);
        }
        Some(len)
    }

    /// Like [`Self::copy_in`], but starts at byte `at` of the buffer.
    pub fn copy_in_at(&self, buf: BufIdx, at: usize, bytes: &[u8]) -> Option<usize> {
        let data = self.data_by_value(buf)?;
        let len = bytes.len().min((self.header.buf_size as usize).saturating_sub(at));
        for (i, &byte) in bytes[..len].iter().enumerate() {
            byte_at(data, at + i).store(byte, Ordering::Relaxed);
        }
        Some(len)
    }
}

/// The `i`-th 64-bit word of a buffer's data; `i` is below `buf_size / 8`. Atomic for the reason
/// given in `peer_copy.rs`.
#[inline(always)]
fn word_at<'a>(data: NonNull<u8>, i: usize) -> &'a AtomicU64 {
    // SAFETY:
    // - In bounds: both callers stay below the `buf_size` bytes that `Region::data` guarantees.
    // - Aligned: data starts at a multiple of 64 bytes from a page, or of 8 bytes in a mapping of a
    //   device (`DeviceMapping::into_region_of` checks it).
    // - Alive: both callers borrow the region meanwhile. Shared: the word is an atomic.
    unsafe { AtomicU64::from_ptr(data.as_ptr().wrapping_add(8 * i).cast()) }
}

/// The `i`-th byte of a buffer's data; `i` is below `buf_size`. See [`word_at`].
#[inline(always)]
fn byte_at<'a>(data: NonNull<u8>, i: usize) -> &'a AtomicU8 {
    // SAFETY: as in `word_at`; a byte is always aligned.
    unsafe { AtomicU8::from_ptr(data.as_ptr().wrapping_add(i)) }
}
