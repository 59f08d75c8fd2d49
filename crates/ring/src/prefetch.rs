//! Telling the processor what will be used soon.

/// Has the processor bring the cache line of a byte near, without waiting for it. Nothing but time
/// can come of it.
///
/// For memory that is used from front to back with other work in between: the processor looks some
/// hundred instructions ahead, which is less far than memory is away. Not for single accesses.
#[inline(always)]
pub fn prefetch(byte: &u8) {
    prefetch_at(byte);
}

/// The same wherever it is, be there memory or not.
#[inline(always)]
pub(crate) fn prefetch_at(byte: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it is a hint that faults nowhere, and every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(byte.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
