//! Descriptors.
//!
//! ```text
//!   word 0:  OWN EOR FS LS ... length | options        OWN: the chip's    EOR: last of the ring
//!   word 1:  address of the buffer                     FS, LS: first and last of a frame
//! ```
//! The chip walks both rings by itself and stops at a descriptor that it does not own. Only OWN
//! shows how far it is: there are no indices to read.

mod rx;
mod tx;

pub(super) use rx::RtlRx;
pub(super) use tx::RtlTx;

const OWN: u32 = 1 << 31;
const END_OF_RING: u32 = 1 << 30;
const FIRST: u32 = 1 << 29;
const LAST: u32 = 1 << 28;

/// Maximum number of descriptors of a ring, as in Realtek's driver.
pub(super) const MAX_DESCRIPTORS: u32 = 4096;

/// Returns the index after `i` in a ring of `count`.
#[inline(always)]
fn after(i: u32, count: u32) -> u32 {
    if i + 1 == count { 0 } else { i + 1 }
}
