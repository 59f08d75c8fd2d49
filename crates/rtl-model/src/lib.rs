//! A model of Realtek's RTL8168 and RTL8125 network cards, for tests of drivers.
//!
//! ```text
//!   driver, or QEMU with a guest                      the test
//!      |  registers, configuration                       |  faults in, violations out
//!      v                                                 v
//!   vfio_user::Server --> Device (device.rs) ------> faults, Violations
//!      ^  or ModelDevice,   |  access.rs, registers.rs  what an access does, and which are allowed
//!      |  in process        |  windows.rs, phy.rs  registers behind registers
//!      |                    |  rings.rs     descriptors, frames
//!   eventfds <-- interrupts.rs             |
//!                                          v
//!                            dma.rs (the driver's memory)   wire.rs (the cable)
//! ```
//! The model is strict where real chips do not report errors: an access to an unknown register, a
//! write in an order that the chip forbids, and DMA outside of the mapped memory are recorded as
//! [`Violation`]s. It needs no clock: operations that take a real chip milliseconds complete
//! immediately.
//!
//! # Invariants
//! 1. Nothing that a driver or a peer on the socket does makes the model panic.
//! 2. The model accesses only memory that the driver has mapped, and only as a bus master.
//! 3. Every frame of the wire is delivered, or counted in [`Tally`] with its cause.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod chip;
mod device;
mod dma;
mod filter;
mod interrupts;
mod model_device;
mod pci;
mod phy;
mod registers;
mod rings;
mod tally;
pub mod vfio_user;
mod violations;
mod windows;
mod wire;

pub use chip::Chip;
pub use device::{Accesses, Device, DeviceRegion};
pub use dma::{DmaError, DmaMap, DmaPermissions};
pub use interrupts::{InterruptIndex, Interrupts};
pub use model_device::{ModelDevice, SharedModel, locked};
pub use phy::{PhyLink, Speed};
pub use rings::RxFault;
pub use tally::Tally;
pub use violations::{Access, Violation, Violations};
pub use wire::{Loop, MemoryWire, Peer, SocketWire, Wire, WireEnd};
