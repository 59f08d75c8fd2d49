//! Registers of RTL8168g/h and RTL8125A/B, and registers that are accessed through them.
//!
//! Realtek publishes no data sheet of these chips. Offsets and bits are those on which Realtek's
//! BSD driver (DPDK, `drivers/net/r8169`) and the kernel's driver agree.

use std::thread::sleep;
use std::time::Duration;

use slipring_pci::Bar;

use super::ids::RtlChipId;

/// Offsets in BAR 2.
pub(super) mod at {
    /// The card's address, 6 bytes. Writing requires an unlock.
    pub(crate) const MAC: u64 = 0x00;
    /// Multicast hash, 8 bytes.
    pub(crate) const MULTICAST: u64 = 0x08;
    /// Address of the tally block. The low bits contain commands.
    pub(crate) const TALLY_LOW: u64 = 0x10;
    pub(crate) const TALLY_HIGH: u64 = 0x14;
    pub(crate) const TX_RING_LOW: u64 = 0x20;
    pub(crate) const TX_RING_HIGH: u64 = 0x24;
    pub(crate) const COMMAND: u64 = 0x37;
    pub(crate) const TX_CONFIG: u64 = 0x40;
    pub(crate) const RX_CONFIG: u64 = 0x44;
    /// 9346CR: locks the configuration registers.
    pub(crate) const LOCK: u64 = 0x50;
    pub(crate) const CONFIG1: u64 = 0x52;
    pub(crate) const CONFIG2: u64 = 0x53;
    pub(crate) const CONFIG3: u64 = 0x54;
    pub(crate) const CONFIG5: u64 = 0x56;
    pub(crate) const PHY_STATUS: u64 = 0x6c;
    pub(crate) const ERI_DATA: u64 = 0x70;
    pub(crate) const ERI_COMMAND: u64 = 0x74;
    pub(crate) const MAC_OCP: u64 = 0xb0;
    pub(crate) const PHY_OCP: u64 = 0xb8;
    pub(crate) const DLL: u64 = 0xd0;
    pub(crate) const MCU: u64 = 0xd3;
    pub(crate) const RX_MAX_SIZE: u64 = 0xda;
    pub(crate) const CPLUS_COMMAND: u64 = 0xe0;
    pub(crate) const MITIGATE: u64 = 0xe2;
    pub(crate) const RX_RING_LOW: u64 = 0xe4;
    pub(crate) const RX_RING_HIGH: u64 = 0xe8;
    /// Frames from this size on are sent before they are fetched completely; in units of 128 bytes.
    pub(crate) const MAX_TX: u64 = 0xec;
    pub(crate) const MISC: u64 = 0xf0;
    pub(crate) const MISC_1: u64 = 0xf2;
    /// RTL8125: configuration of interrupts.
    pub(crate) const INTERRUPT_CONFIG0: u64 = 0x34;
    pub(crate) const INTERRUPT_CONFIG1: u64 = 0x7a;
    /// RTL8125: moderation timers, 32 bits each.
    pub(crate) const MODERATION: std::ops::Range<u64> = 0xa00..0xa80;
    /// RTL8125: the card's address, copied from its fuses.
    pub(crate) const MAC_COPY: u64 = 0x19e0;
}

pub(super) const COMMAND_STOP: u8 = 0x80;
pub(super) const COMMAND_RESET: u8 = 0x10;
pub(super) const COMMAND_RX: u8 = 0x08;
pub(super) const COMMAND_TX: u8 = 0x04;
pub(super) const UNLOCKED: u8 = 0xc0;
pub(super) const TX_CONFIG_EMPTY: u32 = 1 << 11;
pub(super) const MCU_OUT_OF_BAND: u8 = 0x80;
pub(super) const MCU_FIFOS_EMPTY: u8 = 0x30;
pub(super) const MCU_LIST_READY: u8 = 0x02;
pub(super) const MISC_RX_GATE: u32 = 1 << 19;
pub(super) const TALLY_DUMP: u32 = 8;
pub(super) const TALLY_RESET: u32 = 1;

/// Events, and the bits of the interrupt mask.
pub(super) mod event {
    pub(crate) const RX_OK: u32 = 0x01;
    pub(crate) const RX_ERROR: u32 = 0x02;
    pub(crate) const TX_OK: u32 = 0x04;
    pub(crate) const TX_ERROR: u32 = 0x08;
    pub(crate) const RX_NO_DESCRIPTOR: u32 = 0x10;
    pub(crate) const LINK_CHANGE: u32 = 0x20;
    pub(crate) const RX_FIFO_OVERFLOW: u32 = 0x40;
}

/// The flag of the windows: set when a read is done, clear when a write is done.
const FLAG: u32 = 1 << 31;

/// The registers of a chip, and the windows to further registers.
#[derive(Debug, Clone)]
pub(super) struct Registers {
    pub(super) bar: Bar,
    pub(super) chip: RtlChipId,
}

impl Registers {
    /// Sets and clears bits of an 8-bit register.
    pub(super) fn modify8(&self, at: u64, clear: u8, set: u8) {
        self.bar.write8(at, (self.bar.read8(at) & !clear) | set);
    }

    /// Sets and clears bits of a 32-bit register.
    pub(super) fn modify32(&self, at: u64, clear: u32, set: u32) {
        self.bar.write32(at, (self.bar.read32(at) & !clear) | set);
    }

    /// Returns whether the chip was removed: TxConfig has bits that are always zero, and a removed
    /// chip reads as ones.
    pub(super) fn is_gone(&self) -> bool {
        self.bar.read32(at::TX_CONFIG) == u32::MAX
    }

    /// Reads a word of the extended registers (through the ERI window).
    pub(super) fn eri_read(&self, address: u32) -> u32 {
        self.bar.write32(at::ERI_COMMAND, 0xf000 | address);
        wait(100, || self.bar.read32(at::ERI_COMMAND) & FLAG != 0);
        self.bar.read32(at::ERI_DATA)
    }

    /// Writes the bytes of an extended register that `bytes` (bits 0 to 3) selects.
    pub(super) fn eri_write(&self, address: u32, bytes: u32, value: u32) {
        self.bar.write32(at::ERI_DATA, value);
        self.bar.write32(at::ERI_COMMAND, FLAG | bytes << 12 | address);
        wait(100, || self.bar.read32(at::ERI_COMMAND) & FLAG == 0);
    }

    /// Sets and clears bits of an extended register.
    pub(super) fn eri_modify(&self, address: u32, clear: u32, set: u32) {
        self.eri_write(address, 0xf, (self.eri_read(address) & !clear) | set);
    }

    /// Reads a word of the MAC's bus.
    pub(super) fn mac_ocp_read(&self, address: u16) -> u16 {
        self.bar.write32(at::MAC_OCP, u32::from(address) << 15);
        self.bar.read32(at::MAC_OCP) as u16
    }

    /// Writes a word of the MAC's bus.
    pub(super) fn mac_ocp_write(&self, address: u16, value: u16) {
        self.bar.write32(at::MAC_OCP, FLAG | u32::from(address) << 15 | u32::from(value));
    }

    /// Sets and clears bits of a word of the MAC's bus.
    pub(super) fn mac_ocp_modify(&self, address: u16, clear: u16, set: u16) {
        self.mac_ocp_write(address, (self.mac_ocp_read(address) & !clear) | set);
    }

    /// Reads a word of the PHY's bus.
    pub(super) fn phy_read(&self, address: u16) -> u16 {
        self.bar.write32(at::PHY_OCP, u32::from(address) << 15);
        wait(10, || self.bar.read32(at::PHY_OCP) & FLAG != 0);
        self.bar.read32(at::PHY_OCP) as u16
    }

    /// Sets and clears bits of a word of the PHY's bus.
    pub(super) fn phy_modify(&self, address: u16, clear: u16, set: u16) {
        self.phy_write(address, (self.phy_read(address) & !clear) | set);
    }

    /// Writes a word of the PHY's bus.
    pub(super) fn phy_write(&self, address: u16, value: u16) {
        self.bar.write32(at::PHY_OCP, FLAG | u32::from(address) << 15 | u32::from(value));
        wait(10, || self.bar.read32(at::PHY_OCP) & FLAG == 0);
    }

    /// Sets the mask of interrupts. On an RTL8125, it has another address and 32 bits.
    pub(super) fn set_mask(&self, events: u32) {
        if self.chip.is_8125() {
            self.bar.write32(0x38, events);
        } else {
            self.bar.write16(0x3c, events as u16);
        }
    }

    /// Returns the events since the last acknowledgement; all ones if the chip was removed.
    pub(super) fn events(&self) -> u32 {
        if self.chip.is_8125() {
            self.bar.read32(0x3c)
        } else {
            match self.bar.read16(0x3e) {
                u16::MAX => u32::MAX,
                events => events.into(),
            }
        }
    }

    /// Acknowledges events.
    pub(super) fn acknowledge(&self, events: u32) {
        if self.chip.is_8125() {
            self.bar.write32(0x3c, events);
        } else {
            self.bar.write16(0x3e, events as u16);
        }
    }

    /// Makes the chip check the transmit ring. It fetches descriptors until it finds one that it
    /// does not own.
    #[inline]
    pub(super) fn ring_doorbell(&self) {
        if self.chip.is_8125() {
            self.bar.write16(0x90, 1);
        } else {
            self.bar.write8(0x38, 0x40);
        }
    }
}

/// Waits up to `tries` times 100 µs for a condition; returns whether it holds.
pub(super) fn wait(tries: u32, is_done: impl Fn() -> bool) -> bool {
    for _ in 0..tries {
        if is_done() {
            return true;
        }
        sleep(Duration::from_micros(100));
    }
    is_done()
}
