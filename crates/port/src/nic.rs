//! Common code of the NIC drivers: which buffers the device has, and into which slots they return.
//!
//! ```text
//!            TxSide                      RxSide                     LinkWatch, host rings
//!   slots -- InFlight, completion rule   PostedBufs, reserve        (link_watch.rs, host.rs)
//!              |                           |
//!              v  TxDescriptorRings        v  RxDescriptorRings     DmaMemory
//!   driver   descriptors, doorbell       descriptors                buffers, rings of descriptors
//! ```
//! A driver implements the two traits of descriptor rings: `xdp` over the kernel's rings, a driver
//! that programs a device itself over the device's rings. `DmaMemory` is implemented by `xdp`, and
//! by the crate `slipring-pci` for the other drivers.
//!
//! The modules `rx`, `tx` and `in_flight` call the other side of the descriptors "the kernel". With
//! a driver that programs a device itself, it is the device.
//!
//! # Invariants
//! 1. The slots that were handed over and not returned (`tail..hwcur`; in a tx ring, without the
//!    slot at `tail`) contain exactly the buffers that the device has and the reserve buffers. So a
//!    successor can resume a queue even if its process was killed in the middle of an operation.
//! 2. A buffer is given to the device only if the device does not have it already, and only if it
//!    belongs to the port: slots that a client wrote are checked first.
//! 3. The device accesses the port's own buffers only. No client can write to descriptors, unless
//!    the queue is lent to it (`ownership`).

mod descriptors;
pub mod dma;
mod in_flight;
mod offload_fixup;
pub(crate) mod ownership;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use descriptors::{MAX_INSPECTED, RxDescriptor, RxDescriptorRings, TxDescriptorRings};
pub(crate) use descriptors::{ResumableRxRings, ResumableTxRings};
pub use offload_fixup::OffloadFixup;
pub use rx::RxSide;
pub use tx::{TxLimits, TxSide};

/// Maximum number of descriptors per packet: as many as the fragments that a socket buffer of the
/// kernel can hold by default (`MAX_SKB_FRAGS`).
pub const MAX_PACKET_DESCRIPTORS: u32 = 17;
