//! Copies from and to memory that a peer may write meanwhile.
//!
//! A plain copy of such memory would be a data race: the compiler may read a plain byte twice, and
//! assumes that it gets the same value. Two kinds of copies make no such assumption:
//!
//! 1. A small number of bytes that the compiler knows ([`load`], [`store`]): relaxed atomic loads
//!    and stores of aligned words, or of single bytes. Each load or store becomes one plain `mov`.
//! 2. Any number of bytes ([`copy`]): `memmove` of the C library, called through a pointer that the
//!    compiler has to read at each call. So the compiler cannot know which function is called, and
//!    must treat it as foreign code, which may do anything that could be written in Rust. The
//!    effect of `memmove` could be written as a relaxed atomic load and store of each byte: its
//!    control flow does not depend on the bytes that it copies, and it writes only the destination.
//!
//! In both cases, a copy may mix old bytes with bytes that the peer writes at the same time; there
//! is no other effect. Callers check the copy, never the original.
//!
//! A peer in this process is other code of this crate, so its accesses are also of these two kinds.
//! A peer in another process is outside the program that the compiler reasons about.

use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// Above this number of bytes, a call of `memmove` costs less than a load for each word.
const MAX_INLINE_BYTES: usize = 128;

type CopyFn = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

static MEMMOVE: CopyFn = libc::memmove;

/// Copies `len` bytes. The two ranges may overlap.
///
/// # Safety
/// `len` bytes at `from` are mapped readable, and `len` bytes at `to` are mapped writable. Except
/// for the caller's own references, no reference in use refers to bytes at `to`, and no unique
/// reference in use refers to bytes at `from`.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if len == 0 {
        // The compiler often knows that `len` is 0 and then removes the rest of the function.
        // Without this check it could not remove the call of `memmove`.
        return;
    }
    // SAFETY: a static is valid and aligned. Volatile, so that the compiler does not know the
    // value.
    let memmove = unsafe { (&raw const MEMMOVE).read_volatile() };
    // SAFETY: the caller guarantees what this requires.
    unsafe { memmove(to.cast(), from.cast(), len) };
}

/// Loads the `N` bytes at `from`.
///
/// # Safety
/// `N` bytes at `from` are mapped, and no unique reference to them is in use.
#[inline(always)]
pub(crate) unsafe fn load<const N: usize>(from: *const u8) -> [u8; N] {
    let mut bytes = [0; N];
    if N < 8 {
        for (i, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: in bounds by the caller.
            *byte = unsafe { byte_at(from, i) }.load(Relaxed);
        }
        return bytes;
    }
    if !has_words::<N>(from) {
        // SAFETY: the caller guarantees what this requires.
        return unsafe { load_unaligned(from) };
    }
    for (i, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        // SAFETY: in bounds by the caller, aligned by the check.
        *word = unsafe { word_at(from, i) }.load(Relaxed).to_ne_bytes();
    }
    bytes
}

/// Stores `bytes` at `to`.
///
/// # Safety
/// `N` bytes at `to` are mapped writable, and no reference to them is in use.
#[inline(always)]
pub(crate) unsafe fn store<const N: usize>(to: *mut u8, bytes: [u8; N]) {
    if N < 8 {
        for (i, &byte) in bytes.iter().enumerate() {
            // SAFETY: in bounds by the caller.
            unsafe { byte_at(to, i) }.store(byte, Relaxed);
        }
        return;
    }
    if !has_words::<N>(to) {
        // SAFETY: the caller guarantees what this requires.
        return unsafe { store_unaligned(to, bytes) };
    }
    for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
        // SAFETY: in bounds by the caller, aligned by the check.
        unsafe { word_at(to, i) }.store(u64::from_ne_bytes(*word), Relaxed);
    }
}

/// Like [`load`], but for any alignment and length. Not inlined: its array must have an address,
/// while the array of `load` can stay in registers.
///
/// # Safety
/// Same as [`load`].
#[cold]
#[inline(never)]
unsafe fn load_unaligned<const N: usize>(from: *const u8) -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: `bytes` is a local array; the caller guarantees the rest.
    unsafe { copy(from, bytes.as_mut_ptr(), N) };
    bytes
}

/// Like [`store`], but for any alignment and length. Not inlined, for the same reason as
/// [`load_unaligned`].
///
/// # Safety
/// Same as [`store`].
#[cold]
#[inline(never)]
unsafe fn store_unaligned<const N: usize>(to: *mut u8, bytes: [u8; N]) {
    // SAFETY: `bytes` is ours; the rest by the caller.
    unsafe { copy(bytes.as_ptr(), to, N) };
}

/// Returns whether the `N` bytes at `at` are aligned whole words, and at most [`MAX_INLINE_BYTES`].
#[inline(always)]
fn has_words<const N: usize>(at: *const u8) -> bool {
    N.is_multiple_of(8) && N <= MAX_INLINE_BYTES && at.addr().is_multiple_of(8)
}

/// The `i`-th word at `start`.
///
/// # Safety
/// The word is mapped for `'a` and aligned.
#[inline(always)]
unsafe fn word_at<'a>(start: *const u8, i: usize) -> &'a AtomicU64 {
    // SAFETY: by the caller; the word is an atomic, so a peer may access it too.
    unsafe { AtomicU64::from_ptr(start.wrapping_add(8 * i).cast_mut().cast()) }
}

/// The `i`-th byte at `start`.
///
/// # Safety
/// The byte is mapped for `'a`.
#[inline(always)]
unsafe fn byte_at<'a>(start: *const u8, i: usize) -> &'a AtomicU8 {
    // SAFETY: as in `word_at`; a byte is always aligned.
    unsafe { AtomicU8::from_ptr(start.wrapping_add(i).cast_mut()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered<const N: usize>() -> [u8; N] {
        std::array::from_fn(|i| i as u8)
    }

    /// Checks that `N` bytes can be stored and loaded at every alignment, and that the bytes around
    /// them stay unchanged.
    fn passes<const N: usize>() {
        for at in 0..16 {
            let mut memory = [0xee; 256];
            let start = memory.as_mut_ptr().wrapping_add(at);
            // SAFETY: `at + N` is within the array, to which there is no reference.
            unsafe { store(start, numbered::<N>()) };
            // SAFETY: as above.
            assert_eq!(unsafe { load::<N>(start) }, numbered(), "{N} bytes at {at}");
            let (before, rest) = memory.split_at(at);
            let is_untouched = |part: &[u8]| part.iter().all(|&byte| byte == 0xee);
            assert_eq!(rest[..N], numbered::<N>());
            assert!(is_untouched(before) && is_untouched(&rest[N..]), "{N} bytes at {at}");
        }
    }

    #[test]
    fn values_of_every_length_and_alignment_pass_whole() {
        passes::<0>();
        passes::<1>();
        passes::<6>();
        passes::<8>();
        passes::<14>();
        passes::<64>();
        passes::<128>();
        passes::<200>();
    }

    #[test]
    fn copies_may_overlap_and_be_empty() {
        let mut memory = numbered::<32>();
        let start = memory.as_mut_ptr();
        // SAFETY: within the array, to which there is no reference.
        unsafe { copy(start, start.wrapping_add(3), 20) };
        // SAFETY: nothing is copied.
        unsafe { copy(start, start, 0) };
        assert_eq!((&memory[..3], &memory[3..23]), (&[0, 1, 2][..], &numbered::<20>()[..]));
    }
}
