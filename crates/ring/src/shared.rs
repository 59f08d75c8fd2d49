//! Access to the bytes of a shared buffer by copying, while others may write to them.

use std::marker::PhantomData;
use std::ptr::NonNull;

use slipring_simd::prefetch_address;

use crate::peer_copy;

/// Bytes per prefetched cache line.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// A buffer or a part of a buffer, in memory that other processes may map. Its bytes are only
/// copied; no reference to them is ever created.
///
/// Each byte is read once, into private memory of the reader, and checked there. If another party
/// writes at the same time, the copy may mix old and new bytes; there is no other effect.
/// `peer_copy.rs` explains how these copies work, and why they are no data race.
///
/// ```compile_fail
/// # use slipring_ring::SharedBuf;
/// fn lend<'m>(buf: SharedBuf<'m>) -> &'m [u8] {
///     &buf[..]
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SharedBuf<'m> {
    data: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'m ()>,
}

impl<'m> SharedBuf<'m> {
    /// # Safety
    /// `len` bytes at `data` are mapped readable and writable for all of `'m`.
    #[inline(always)]
    pub(crate) unsafe fn new(data: NonNull<u8>, len: usize) -> Self {
        Self { data, len, memory: PhantomData }
    }

    /// Length in bytes.
    #[must_use]
    #[inline(always)]
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns whether the length is 0.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first `len` bytes, or all bytes if there are fewer.
    #[must_use]
    #[inline(always)]
    pub fn first(self, len: usize) -> Self {
        Self { len: len.min(self.len), ..self }
    }

    /// The bytes from `at` on; empty if `at` is beyond the end.
    #[must_use]
    #[inline(always)]
    pub fn skip(self, at: usize) -> Self {
        let at = at.min(self.len);
        // SAFETY:
        // - In bounds: `at` is at most `len`.
        let data = unsafe { self.data.add(at) };
        Self { data, len: self.len - at, ..self }
    }

    /// Prefetches the cache line of every 64th byte, without waiting for it; that of the first byte
    /// even if the length is 0.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        let mut at = 0;
        // The loop compares at its end. For most frames, which take one line, this needs only one
        // comparison and no division.
        loop {
            prefetch_address(self.data.as_ptr().wrapping_add(at));
            at += CACHE_LINE_BYTES;
            if at >= self.len {
                break;
            }
        }
    }

    /// The address of the first byte, for a system call.
    #[must_use]
    #[inline(always)]
    pub fn address(self) -> usize {
        self.data.as_ptr().expose_provenance()
    }

    /// Copies bytes from the start of the buffer to `out`, as many as both have; returns their
    /// number.
    #[inline(always)]
    pub fn copy_out(self, out: &mut [u8]) -> usize {
        let len = self.len.min(out.len());
        // SAFETY:
        // - In bounds: `len` is at most the length of both; the buffer is mapped for `'m`.
        // - No references: `out` is borrowed exclusively, and no reference points into the buffer.
        unsafe { peer_copy::copy(self.data.as_ptr(), out.as_mut_ptr(), len) };
        len
    }

    /// Copies `bytes` to the start of the buffer, as many bytes as both have; returns their number.
    #[inline(always)]
    pub fn copy_in(self, bytes: &[u8]) -> usize {
        let len = self.len.min(bytes.len());
        // SAFETY: as in `copy_out`, with source and destination exchanged.
        unsafe { peer_copy::copy(bytes.as_ptr(), self.data.as_ptr(), len) };
        len
    }

    /// Copies bytes to the start of another buffer, as many as both have; returns their number. The
    /// two buffers may overlap: a peer that breaks the rules may have put a buffer into two slots.
    #[inline(always)]
    pub fn copy_to(self, to: SharedBuf<'_>) -> usize {
        let len = self.len.min(to.len);
        // SAFETY:
        // - In bounds: `len` is at most the length of both buffers, which are mapped.
        unsafe { peer_copy::copy(self.data.as_ptr(), to.data.as_ptr(), len) };
        len
    }

    /// Returns the bytes `at..at + N`; `None` if they are not all within the buffer.
    #[must_use]
    #[inline(always)]
    pub fn read<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        let rest = self.skip(at);
        // SAFETY:
        // - In bounds: only called where `rest` has at least `N` bytes.
        (rest.len >= N).then(|| unsafe { peer_copy::load(rest.data.as_ptr()) })
    }

    /// Writes the bytes `at..at + N`. Returns false and does nothing if they are not all within the
    /// buffer.
    #[inline(always)]
    pub fn write<const N: usize>(self, at: usize, bytes: [u8; N]) -> bool {
        let rest = self.skip(at);
        let fits = rest.len >= N;
        if fits {
            // SAFETY:
            // - In bounds: checked above.
            unsafe { peer_copy::store(rest.data.as_ptr(), bytes) };
        }
        fits
    }

    /// Appends a copy of all bytes to `bytes`.
    pub fn append_to(self, bytes: &mut Vec<u8>) {
        let before = bytes.len();
        bytes.resize(before + self.len, 0);
        self.copy_out(&mut bytes[before..]);
    }

    /// A copy of all bytes.
    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.append_to(&mut bytes);
        bytes
    }

    /// Copies the first `len` bytes of the buffer to byte `at`. Returns false and does nothing if
    /// they do not fit.
    pub fn copy_within(self, len: usize, at: usize) -> bool {
        let fits = at.checked_add(len).is_some_and(|end| end <= self.len);
        if fits {
            let to = self.skip(at).data;
            // SAFETY:
            // - In bounds: checked above. `copy` allows overlap.
            unsafe { peer_copy::copy(self.data.as_ptr(), to.as_ptr(), len) };
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(memory: &mut [u8]) -> SharedBuf<'_> {
        let len = memory.len();
        // SAFETY: the slice is mapped as long as it is borrowed.
        unsafe { SharedBuf::new(NonNull::from(memory).cast(), len) }
    }

    #[test]
    fn copies_end_where_either_side_does() {
        let mut memory = *b"abcdef";
        let buf = over(&mut memory);
        let mut long = [0; 9];
        assert_eq!((buf.copy_out(&mut long), &long[..6]), (6, &b"abcdef"[..]));
        assert_eq!((buf.skip(4).copy_in(b"wxyz"), buf.to_vec()), (2, b"abcdwx".to_vec()));
        assert_eq!(buf.first(3).to_vec(), b"abc");
        assert_eq!((buf.first(9).len(), buf.skip(9).len(), buf.skip(6).is_empty()), (6, 0, true));
    }

    #[test]
    fn values_are_read_and_written_whole_or_not_at_all() {
        let mut memory = *b"abcdef";
        let buf = over(&mut memory);
        assert_eq!(
            (buf.read(4), buf.read::<3>(4), buf.read::<1>(usize::MAX)),
            (Some(*b"ef"), None, None)
        );
        assert!(buf.write(0, *b"xy") && !buf.write(5, *b"xy"));
        assert_eq!(buf.to_vec(), b"xycdef");
    }

    #[test]
    fn a_shift_moves_what_fits() {
        let mut memory = *b"abcdef";
        let buf = over(&mut memory);
        assert!(buf.copy_within(4, 2) && !buf.copy_within(4, 3) && !buf.copy_within(2, usize::MAX));
        assert_eq!(buf.to_vec(), b"ababcd");
    }
}
