//! Drivers of network cards, in user space.
//!
//! ```text
//!   program -- rings -- CardQueue --+-- RxSide, TxSide     which buffer is whose (slipring-port)
//!                                  |
//!                                  '-- NicChip            one folder per family of chips
//!                                        | registers, descriptors, interrupt
//!                                        v
//!                                      PciDevice          VFIO, a model, QEMU (slipring-pci)
//! ```
//! A driver is one folder with the same files:
//!
//! | file | contents |
//! |---|---|
//! | `NAME.rs` | the chips by identifier, limits, and how a port is opened |
//! | `regs.rs` | registers, with the section of the datasheet |
//! | `init.rs` | from reset to running, and how it is stopped |
//! | `rings.rs` | descriptors |
//! | `chip.rs` | while it runs: interrupts, link, statistics |
//! | `phy.rs` | the settings of the link, if the chip has a PHY |
//!
//! The Intel drivers share `chip.rs`, descriptors and the steps of `open()`: `intel`.
//!
//! [`CardQueue`] has all that the drivers have in common: a sync in each direction without a system
//! call, sleep with the device's causes unmasked, the detection of a removed or stuck device.
//! `docs/design/driver.md` shows how to write one.
//!
//! # Not for
//! Several queues, offloads, virtual functions, wake on LAN, firmware.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod change;
mod chip;
mod control;
pub mod descriptors;
mod driver;
#[cfg(test)]
mod fake;
mod listener;
mod mii;
mod open;
mod queue;
mod saved;
mod settings;
mod table;

mod e1000;
mod e1000e;
mod igb;
mod intel;
mod rtl;
mod virtio;

pub use chip::{ChipEvents, ChipFault, LinkState, NicChip};
pub use control::{CardControl, CardStatus};
pub use driver::{ChipId, NicDriver, refused};
pub use listener::{ask, listen};
pub use open::{NicFacts, NicSetup, assemble, memory_cause};
pub use queue::CardQueue;
pub use saved::TakenPeriod;
pub use settings::{
    CardSettings, Duplex, LinkAbilities, LinkMode, LinkOffers, LinkPlan, MalformedSettings,
    SettingRefusal, SettingsRequest,
};
pub use slipring_pci::config::PciId;
pub use table::{driver_of, drivers, open_port, supported_chips, unknown_chip};
