//! Registers of the 82576 in addition to those of [`crate::intel::regs`] (82576 datasheet, section
//! 8). The registers of queue 0 also have the addresses that older chips use.

/// Split and replication receive control of queue 0 (8.10.2).
pub(super) const SRRCTL: u64 = 0x280c;
/// Buffers of 2 KiB, and advanced descriptors with one buffer.
pub(super) const SRRCTL_2K_ADVANCED: u32 = 2 | 1 << 25;
/// Receive descriptor control of queue 0 (8.10.9).
pub(super) const RXDCTL: u64 = 0x2828;
/// Thresholds in `RXDCTL` and `TXDCTL`: the device fetches descriptors when it has fewer than 8 of
/// them and the ring has at least 8 more, and writes each one back immediately.
pub(super) const XDCTL_THRESHOLDS: u32 = 8 | 8 << 8 | 1 << 16;
/// Enables the queue, in `RXDCTL` and `TXDCTL`.
pub(super) const XDCTL_ENABLE: u32 = 1 << 25;
/// Minimum time between interrupts of the first vector (8.8.14). With MSI or an interrupt line, it
/// is the only vector.
pub(super) const EITR0: u64 = 0x1680;
/// Longest frame that is received, with CRC (8.10.4).
pub(super) const RLPML: u64 = 0x5004;
