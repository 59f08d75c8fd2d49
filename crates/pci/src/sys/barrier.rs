//! The order of memory accesses and register accesses, as the device sees it.
//!
//! On x86-64, loads happen in program order, stores become visible to devices in program order, and
//! a store to a register is not combined with stores to memory. So it is enough that the compiler
//! keeps these orders; only [`full`] needs an instruction. On other architectures, Rust's fences
//! only order accesses as seen by other processors, so a barrier for the whole system is needed.

use std::sync::atomic::{Ordering, fence};

// On other processors, the fences of Rust may order nothing for a device: frames would be damaged
// now and then. Another processor can be added here if each function uses its barrier for the
// whole system.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "slipring-pci has no barriers between processor and device for this architecture: \
     it is known on x86_64 and aarch64"
);
// Descriptors and registers are little-endian, and are accessed as they are.
#[cfg(target_endian = "big")]
compile_error!("slipring-pci needs a little-endian processor");

/// Orders all stores to descriptors and buffers before a store to a register that makes the device
/// read them.
#[inline(always)]
pub fn before_doorbell() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction changes no register and no memory.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags))
    };
    fence(Ordering::Release);
}

/// Orders the load of a descriptor's status, which the device writes last, before loads of data
/// that the device wrote earlier.
#[inline(always)]
pub fn after_status() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction changes no register and no memory.
    unsafe {
        std::arch::asm!("dmb oshld", options(nostack, preserves_flags))
    };
    fence(Ordering::Acquire);
}

/// Orders a store to memory before a later load, for protocols in which both sides write and then
/// check whether the other side sleeps.
#[inline(always)]
pub fn full() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction changes no register and no memory.
    unsafe {
        std::arch::asm!("dmb osh", options(nostack, preserves_flags))
    };
    fence(Ordering::SeqCst);
}
