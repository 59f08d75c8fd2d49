//! What Intel's gigabit chips have in common: most registers, and the layout of descriptors.
//!
//! Sections are those of the "PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's
//! Manual" (82540, 82545) and of the 82574 and 82576 datasheets, which use the same names.

pub(crate) mod mac;
pub(crate) mod regs;
pub(crate) mod rings;
