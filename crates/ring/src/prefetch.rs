//! Software prefetching.

/// Prefetches the cache line of a byte, without waiting for it. It has no effect but on timing.
///
/// For memory that is used sequentially with other work in between: the processor looks some
/// hundred instructions ahead, which is less than a memory access takes. Not for single accesses.
#[inline(always)]
pub fn prefetch(byte: &u8) {
    prefetch_at(byte);
}

/// As [`prefetch`], for any address, mapped or not.
#[inline(always)]
pub(crate) fn prefetch_at(byte: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch hint never faults, and every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(byte.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
