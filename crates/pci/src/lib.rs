//! PCI devices that are driven from user space.
//!
//! ```text
//!   driver --PciDevice--> config space, Bar (registers), DmaMapper, Interrupt (eventfd), reset
//!                            |
//!            .---------------+----------------.
//!            v               v                v
//!          vfio          vfio_user          qtest
//!          the kernel    another process    QEMU without a guest (feature `qtest`)
//! ```
//! A driver only uses [`PciDevice`], so the same code drives a card, a model of the card in another
//! process, and QEMU's model of the card.
//!
//! | module | contents |
//! |---|---|
//! | [`vfio`] | a device bound to `vfio-pci`, by the kernel's container and group interface |
//! | [`vfio_user`] | a device model that another process serves on a socket; the messages, too |
//! | `qtest` | a device model of QEMU, whose processor does not run |
//! | [`config`] | configuration space: identifiers, the command register, capabilities |
//!
//! # Registers
//! An access to a register cannot fail. With every transport, a device that no longer answers reads
//! as all ones, as on the bus. A driver that reads all ones from a register in which some bits are
//! always zero ends its port.
//!
//! # Not for
//! Binding a device to `vfio-pci`, power management, devices without an IOMMU. The removal of a
//! device is only reported ([`vfio::VfioDevice::removal_event`]).
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bar;
pub mod config;
mod device;
mod error;
mod interrupt;
mod iova;
mod memory;
#[cfg(feature = "qtest")]
pub mod qtest;
mod sys;
pub mod vfio;
pub mod vfio_user;

pub use bar::{Bar, MappedRegisters, RegisterAccess, Width};
pub use device::{PciDevice, ResetResult};
pub use error::PciError;
pub use interrupt::{Interrupt, InterruptKind};
pub use memory::{
    BufferAddresses, DescriptorMemory, DeviceMemory, DmaMapper, MemoryRange, RingPairMemory,
};
pub use sys::barrier;
