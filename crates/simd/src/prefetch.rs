//! Prefetch hints, which only affect timing. They do nothing on processors other than x86-64.
#![allow(unsafe_code)]

/// Prefetches the first cache line of a value, without waiting for it.
///
/// Useful for memory that is accessed after other work: the processor itself looks only some
/// hundred instructions ahead, which is less than a memory access takes. Not for single accesses.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_address(core::ptr::from_ref(value).cast());
}

/// Like [`prefetch`], for the element `index`, which need not exist.
#[inline(always)]
pub fn prefetch_element<T>(slice: &[T], index: usize) {
    prefetch_address(slice.as_ptr().wrapping_add(index).cast());
}

/// Like [`prefetch`], for any address, mapped or not.
#[inline(always)]
pub fn prefetch_address(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch hint never faults, and every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
