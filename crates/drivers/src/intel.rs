//! What Intel's gigabit chips have in common: most registers, the layout of descriptors, and the
//! steps from reset to running. Each family of chips is an [`IntelFamily`].
//!
//! Sections are those of the "PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's
//! Manual" (82540, 82545) and of the 82574 and 82576 datasheets, which use the same names.

mod chip;
mod family;
pub(crate) mod mac;
mod phy;
pub(crate) mod regs;
pub(crate) mod rings;

pub(crate) use family::{INTEL, IntelDriver, IntelFamily};
