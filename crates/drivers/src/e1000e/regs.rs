//! Registers that the 82574 has in addition to those of [`crate::intel::regs`].

/// Transmit arbitration (82574 datasheet, 10.2.6.13).
pub(super) const TARC0: u64 = 0x3840;
/// Bit of `TARC0` that the kernel's driver sets for this chip. The datasheet gives no reason.
pub(super) const TARC0_BIT_26: u32 = 1 << 26;
/// Transmit control: the device may have several reads of memory in progress at a time.
pub(super) const TCTL_MULR: u32 = 1 << 28;
/// Transmit descriptor control: must be set (10.2.6.11).
pub(super) const TXDCTL_COUNT_DESC: u32 = 1 << 22;
