//! What the drivers of NICs have in common: which buffers the device has, and in which slots they
//! come back.
//!
//! ```text
//!            TxSide                      RxSide                     LinkWatch, host rings
//!   slots -- InFlight, completion rule   PostedBufs, reserve        (crate::link_watch, crate::host)
//!              |                           |
//!              v  TxDescriptorRings        v  RxDescriptorRings     DmaMemory
//!   driver   descriptors, doorbell       descriptors                buffers, rings of descriptors
//! ```
//! A driver implements the three traits. `xdp` does, over the kernel's rings; one that drives a
//! device itself does over the device's.
//!
//! # Invariants
//! 1. The driver's slots name just the buffers that the device has, and those kept back. So a queue
//!    can be gone on with after its process was killed at any instruction.
//! 2. A buffer is given to the device once, and only if it is the port's: what a client wrote into a
//!    slot is checked before.
//! 3. The device reaches the port's own buffers, and descriptors lie where no client writes, unless
//!    the queue is lent to it ([`ownership`]).

mod descriptors;
pub mod dma;
mod in_flight;
mod offload_fixup;
pub(crate) mod ownership;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub(crate) use descriptors::{ResumableRxRings, ResumableTxRings};
pub use descriptors::{RxDescriptor, RxDescriptorRings, TxDescriptorRings};
pub use offload_fixup::OffloadFixup;
pub use rx::RxSide;
pub use tx::{TxLimits, TxSide};

/// Most descriptors of one packet: the fragments that a socket buffer of the kernel holds.
pub const MAX_PACKET_DESCRIPTORS: u32 = 17;
