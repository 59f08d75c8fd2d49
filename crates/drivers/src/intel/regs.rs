//! Registers that all of Intel's gigabit chips have (82574 datasheet, section 10; 8254x manual,
//! section 13).

/// Device control.
pub(crate) const CTRL: u64 = 0x0000;
/// Forbids the device to start new accesses to memory (PCI Express only).
pub(crate) const CTRL_MASTER_DISABLE: u32 = 1 << 2;
/// Full duplex, if the driver sets the duplex mode.
pub(crate) const CTRL_FD: u32 = 1 << 0;
/// Detects the speed of the PHY.
pub(crate) const CTRL_ASDE: u32 = 1 << 5;
/// Brings the link up.
pub(crate) const CTRL_SLU: u32 = 1 << 6;
/// The bits with the speed, if the driver sets the speed. The value 0 means 10 Mbit/s.
pub(crate) const CTRL_SPEED: u32 = 3 << 8;
/// Speed of 100 Mbit/s, if the driver sets the speed.
pub(crate) const CTRL_SPEED_100: u32 = 1 << 8;
/// The driver sets the speed, instead of the PHY.
pub(crate) const CTRL_FRCSPD: u32 = 1 << 11;
/// The driver sets the duplex mode, instead of the PHY.
pub(crate) const CTRL_FRCDPX: u32 = 1 << 12;
/// Resets the device; clears itself.
pub(crate) const CTRL_RST: u32 = 1 << 26;
/// Obeys pause frames.
pub(crate) const CTRL_RFCE: u32 = 1 << 27;
/// Sends pause frames.
pub(crate) const CTRL_TFCE: u32 = 1 << 28;
/// All bits that determine speed and duplex mode.
pub(crate) const CTRL_LINK_MODE: u32 = CTRL_FD | CTRL_ASDE | CTRL_SPEED | CTRL_FRCSPD | CTRL_FRCDPX;
/// Removes VLAN tags from received frames.
pub(crate) const CTRL_VME: u32 = 1 << 30;

/// Device status.
pub(crate) const STATUS: u64 = 0x0008;
/// Full duplex.
pub(crate) const STATUS_FD: u32 = 1 << 0;
/// Link up.
pub(crate) const STATUS_LU: u32 = 1 << 1;
/// The device may still access memory (PCI Express only).
pub(crate) const STATUS_MASTER_ENABLED: u32 = 1 << 19;

/// Access to the device's EEPROM.
pub(crate) const EECD: u64 = 0x0010;
/// The settings were read after a reset (not in PCI and PCI-X chips).
pub(crate) const EECD_AUTO_READ_DONE: u32 = 1 << 9;

/// Access to the PHY by MDIO.
pub(crate) const MDIC: u64 = 0x0020;
/// Operation: write.
pub(crate) const MDIC_WRITE: u32 = 1 << 26;
/// Operation: read.
pub(crate) const MDIC_READ: u32 = 2 << 26;
/// The operation has ended.
pub(crate) const MDIC_READY: u32 = 1 << 28;
/// The PHY did not answer.
pub(crate) const MDIC_ERROR: u32 = 1 << 30;

/// Destination address of pause frames, low word.
pub(crate) const FCAL: u64 = 0x0028;
/// Destination address of pause frames, high word.
pub(crate) const FCAH: u64 = 0x002c;
/// Type of pause frames.
pub(crate) const FCT: u64 = 0x0030;
/// Length of a pause.
pub(crate) const FCTTV: u64 = 0x0170;
/// Fill level of the receiver below which a pause is ended.
pub(crate) const FCRTL: u64 = 0x2160;
/// Ends pauses by a frame.
pub(crate) const FCRTL_XONE: u32 = 1 << 31;
/// Fill level of the receiver from which on the partner has to pause.
pub(crate) const FCRTH: u64 = 0x2168;

/// Interrupt causes; reading acknowledges them.
pub(crate) const ICR: u64 = 0x00c0;
/// Minimum time between interrupts, in units of 256 ns.
pub(crate) const ITR: u64 = 0x00c4;
/// Unmasks causes.
pub(crate) const IMS: u64 = 0x00d0;
/// Masks causes.
pub(crate) const IMC: u64 = 0x00d8;
/// Cause: a descriptor with a requested report was written back.
pub(crate) const CAUSE_TXDW: u32 = 1 << 0;
/// Cause: the link has changed.
pub(crate) const CAUSE_LSC: u32 = 1 << 2;
/// Cause: few receive descriptors are left.
pub(crate) const CAUSE_RXDMT0: u32 = 1 << 4;
/// Cause: a frame was lost because there were no descriptors.
pub(crate) const CAUSE_RXO: u32 = 1 << 6;
/// Cause: a frame was received.
pub(crate) const CAUSE_RXT0: u32 = 1 << 7;

/// Receive control.
pub(crate) const RCTL: u64 = 0x0100;
/// Enables receiving.
pub(crate) const RCTL_EN: u32 = 1 << 1;
/// Accepts unicast frames for other hosts.
pub(crate) const RCTL_UPE: u32 = 1 << 3;
/// Accepts all multicast frames.
pub(crate) const RCTL_MPE: u32 = 1 << 4;
/// Accepts frames longer than 1522 bytes.
pub(crate) const RCTL_LPE: u32 = 1 << 5;
/// Accepts broadcasts.
pub(crate) const RCTL_BAM: u32 = 1 << 15;
/// Strips the CRC. The size of buffers is 2048 bytes if the bits for the size are 0.
pub(crate) const RCTL_SECRC: u32 = 1 << 26;

/// Transmit control.
pub(crate) const TCTL: u64 = 0x0400;
/// Enables sending.
pub(crate) const TCTL_EN: u32 = 1 << 1;
/// Pads short frames.
pub(crate) const TCTL_PSP: u32 = 1 << 3;
/// Collision threshold and distance for full duplex, as the manuals recommend: 15 and 64.
pub(crate) const TCTL_COLLISIONS: u32 = 0x0f << 4 | 0x40 << 12;
/// Repeats a frame after a late collision.
pub(crate) const TCTL_RTLC: u32 = 1 << 24;

/// Gaps between frames.
pub(crate) const TIPG: u64 = 0x0410;
/// `TIPG` for copper: the gaps 8, 8 and 6.
pub(crate) const TIPG_COPPER: u32 = 8 | 8 << 10 | 6 << 20;

/// Receive ring 0: base address, low and high word.
pub(crate) const RDBA: [u64; 2] = [0x2800, 0x2804];
/// Receive ring 0: bytes.
pub(crate) const RDLEN: u64 = 0x2808;
/// Receive ring 0: index of the next descriptor that the device uses.
pub(crate) const RDH: u64 = 0x2810;
/// Receive ring 0: index after the last descriptor that the device owns.
pub(crate) const RDT: u64 = 0x2818;
/// Delay of interrupts for received frames.
pub(crate) const RDTR: u64 = 0x2820;
/// Absolute limit of the delay of interrupts for received frames.
pub(crate) const RADV: u64 = 0x282c;

/// Transmit ring 0: base address, low and high word.
pub(crate) const TDBA: [u64; 2] = [0x3800, 0x3804];
/// Transmit ring 0: bytes.
pub(crate) const TDLEN: u64 = 0x3808;
/// Transmit ring 0: index of the next descriptor that the device uses.
pub(crate) const TDH: u64 = 0x3810;
/// Transmit ring 0: index after the last descriptor that the device owns.
pub(crate) const TDT: u64 = 0x3818;
/// Delay of interrupts for sent frames.
pub(crate) const TIDV: u64 = 0x3820;
/// Transmit ring 0: thresholds for fetching and writing back descriptors.
pub(crate) const TXDCTL: u64 = 0x3828;
/// Counts thresholds in descriptors instead of cache lines.
pub(crate) const TXDCTL_GRAN: u32 = 1 << 24;
/// Writes every completed descriptor back immediately: WTHRESH 1.
pub(crate) const TXDCTL_WTHRESH_1: u32 = 1 << 16;

/// Frames with a wrong CRC, since the last read.
pub(crate) const CRCERRS: u64 = 0x4000;
/// Frames with a symbol error, since the last read.
pub(crate) const RXERRC: u64 = 0x400c;
/// Frames for which the device had no space, since the last read.
pub(crate) const MPC: u64 = 0x4010;
/// Frames that were too short, since the last read.
pub(crate) const RUC: u64 = 0x40a4;
/// Frames that were too long, since the last read.
pub(crate) const ROC: u64 = 0x40ac;

/// Hash table of multicast addresses: 128 words of bits.
pub(crate) const MTA: u64 = 0x5200;
/// Number of words in the table.
pub(crate) const MTA_WORDS: u64 = 128;
/// The first address that the device accepts: low word.
pub(crate) const RAL0: u64 = 0x5400;
/// The first address that the device accepts: high word.
pub(crate) const RAH0: u64 = 0x5404;
/// The address is valid.
pub(crate) const RAH_VALID: u32 = 1 << 31;
