//! Reads and writes of the registers, and their effects.

use crate::device::{Device, DeviceRegion};
use crate::interrupts::Interrupts;
use crate::phy::Phy;
use crate::registers::{WriteRule, at};
use crate::rings::Ring;
use crate::tally::Tally;
use crate::violations::{Access, Violation};
use crate::windows::{FLAG, IndirectWords};

const COMMAND_RESET: u8 = 0x10;
const COMMAND_RX: u8 = 0x08;
const COMMAND_TX: u8 = 0x04;
/// The chip is in out-of-band mode: its management controller owns the FIFOs.
const MCU_OUT_OF_BAND: u8 = 0x80;
/// The list of buffers is ready, and both FIFOs are empty.
const MCU_READY: u32 = 0x32;
const TX_CONFIG_EMPTY: u32 = 1 << 11;
/// The bits of TxConfig that contain the chip's identity.
const IDENTITY: u32 = 0xfcf << 20;
const TALLY_RESET: u32 = 1;
const TALLY_DUMP: u32 = 8;
/// The MAC-OCP word by which a driver requests the extended tally of an RTL8125.
const EXTENDED_TALLY: u32 = 0xea84;

impl Device {
    /// Reads from a region. Bytes beyond the end of the configuration space or of the MSI-X table
    /// are all ones.
    pub fn read(&mut self, region: DeviceRegion, offset: u64, out: &mut [u8]) {
        if self.is_gone {
            out.fill(0xff);
            return;
        }
        match region {
            DeviceRegion::Config => self.config.read(offset, out),
            DeviceRegion::MsiXTable => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                for (i, byte) in out.iter_mut().enumerate() {
                    let at = start.saturating_add(i);
                    *byte = self.msix_table.get(at).copied().unwrap_or(0xff);
                }
            }
            DeviceRegion::Registers | DeviceRegion::Ports => {
                let width = u8::try_from(out.len()).unwrap_or(u8::MAX);
                let value = self.read_register(offset, width).to_le_bytes();
                let known = value.len().min(out.len());
                out.fill(0xff);
                out[..known].copy_from_slice(&value[..known]);
            }
        }
    }

    /// Writes to a region. Bytes beyond its end are ignored.
    pub fn write(&mut self, region: DeviceRegion, offset: u64, bytes: &[u8]) {
        if self.is_gone {
            return;
        }
        match region {
            DeviceRegion::Config => self.config.write(offset, bytes),
            DeviceRegion::MsiXTable => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                for (i, byte) in bytes.iter().enumerate() {
                    if let Some(at) = self.msix_table.get_mut(start.saturating_add(i)) {
                        *at = *byte;
                    }
                }
            }
            DeviceRegion::Registers | DeviceRegion::Ports => {
                let mut value = [0; 4];
                let known = bytes.len().min(4);
                value[..known].copy_from_slice(&bytes[..known]);
                let width = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
                self.write_register(offset, width, u32::from_le_bytes(value));
            }
        }
    }

    /// Reads a register of 1, 2 or 4 bytes.
    pub fn read_register(&mut self, offset: u64, width: u8) -> u32 {
        if self.is_gone || !self.config.has_memory() {
            return u32::MAX;
        }
        self.accesses.reads += 1;
        if self.map.rule(offset, width).is_none() {
            let access = Access::Read;
            self.violations.add(Violation::UnknownRegister { offset, width, access });
            return 0;
        }
        let stored = self.stored(offset, width);
        let is_8125 = self.chip.is_8125();
        match offset {
            at::STATUS if !is_8125 => self.interrupts.status,
            at::MASK if !is_8125 => self.interrupts.mask,
            at::MASK_8125 if is_8125 => self.interrupts.mask,
            at::STATUS_8125 if is_8125 => self.interrupts.status,
            at::TX_CONFIG => self.xid << 20 | (stored & !IDENTITY) | TX_CONFIG_EMPTY,
            at::MCU => stored | MCU_READY,
            at::TWI_COMMAND if width > 1 => stored | MCU_READY << 8,
            at::MITIGATE if is_8125 => stored | 0x0103,
            at::PHY_STATUS => self.phy_status(),
            at::CSI_DATA => self.csi.data,
            at::CSI_COMMAND => self.csi.command,
            at::ERI_DATA => self.eri.data,
            at::ERI_COMMAND => self.eri.command,
            at::EPHY => self.ephy.command,
            at::MAC_OCP => self.mac_ocp.command,
            at::PHY_OCP => self.phy_command,
            at::TX_CLOSED_8125 if is_8125 => u32::from(self.tx_closed),
            _ => stored,
        }
    }

    /// Writes a register of 1, 2 or 4 bytes.
    pub fn write_register(&mut self, offset: u64, width: u8, value: u32) {
        if self.is_gone || !self.config.has_memory() {
            return;
        }
        self.accesses.writes += 1;
        match self.map.rule(offset, width) {
            Some(WriteRule::Free) => {}
            Some(WriteRule::Locked) if !self.is_locked() => {}
            Some(WriteRule::Locked) => {
                return self.violations.add(Violation::LockedWrite { offset });
            }
            Some(WriteRule::ReadOnly) => {
                return self.violations.add(Violation::ReadOnly { offset });
            }
            None => {
                let access = Access::Write;
                let unknown = Violation::UnknownRegister { offset, width, access };
                return self.violations.add(unknown);
            }
        }
        if !self.write_own(offset, value) && !self.write_window(offset, value) {
            self.store(offset, width, value);
            self.after_store(offset);
        }
    }

    /// Writes a register for which a write is a command. Returns false if this write is no command.
    fn write_own(&mut self, offset: u64, value: u32) -> bool {
        let is_8125 = self.chip.is_8125();
        match offset {
            at::COMMAND => self.command(value as u8),
            at::DOORBELL if !is_8125 && value & 0x40 != 0 => self.doorbell(),
            at::DOORBELL_8125 if is_8125 && value & 1 != 0 => self.doorbell(),
            at::TX_TAIL_8125 if is_8125 => self.move_tx_tail(value as u16),
            at::MASK if !is_8125 => self.interrupts.set_mask(value),
            at::STATUS if !is_8125 => self.interrupts.acknowledge(value),
            at::MASK_8125 if is_8125 => self.interrupts.set_mask(value),
            at::STATUS_8125 if is_8125 => self.interrupts.acknowledge(value),
            at::TALLY_LOW => self.tally_command(value),
            _ => return false,
        }
        true
    }

    /// Writes a register through which further registers are accessed. Returns false if this
    /// register is not one of these.
    fn write_window(&mut self, offset: u64, value: u32) -> bool {
        let address = match offset {
            at::CSI_COMMAND => self.csi.command(value),
            at::ERI_COMMAND => self.eri.command(value),
            at::CSI_DATA => {
                self.csi.data = value;
                Ok(())
            }
            at::ERI_DATA => {
                self.eri.data = value;
                Ok(())
            }
            at::EPHY => {
                self.ephy.ephy_command(value);
                Ok(())
            }
            at::MAC_OCP => {
                self.mac_ocp_command(value);
                Ok(())
            }
            at::PHY_OCP => {
                self.phy_ocp_command(value);
                Ok(())
            }
            _ => return false,
        };
        if let Err(address) = address {
            self.violations.add(Violation::BadWindowAddress { window: offset, address });
        }
        true
    }

    fn mac_ocp_command(&mut self, command: u32) {
        match IndirectWords::<u16>::ocp_command(command) {
            (address, Some(value)) => {
                self.mac_ocp.set(address, value);
                self.mac_ocp.command = command & !FLAG;
            }
            (address, None) => self.mac_ocp.command = u32::from(self.mac_ocp.get(address)),
        }
    }

    fn phy_ocp_command(&mut self, command: u32) {
        match IndirectWords::<u16>::ocp_command(command) {
            (address, Some(value)) => {
                self.change_link(|phy| phy.write(address as u16, value));
                self.phy_command = command & !FLAG;
            }
            (address, None) => {
                self.phy_command = FLAG | u32::from(self.phy.read(address as u16));
            }
        }
    }

    /// Calls `change`, which returns whether the link goes down for a moment. Notifies the driver
    /// in this case, or if the link has changed. Then serves a doorbell that rang without a link.
    pub(crate) fn change_link(&mut self, change: impl FnOnce(&mut Phy) -> bool) {
        let before = self.phy.link();
        let restarts = change(&mut self.phy);
        if restarts || before != self.phy.link() {
            self.interrupts.raise(Interrupts::LINK_CHANGE);
        }
        if self.is_doorbell_pending && self.phy.link().is_some() {
            self.is_doorbell_pending = false;
            self.transmit();
            self.receive();
        }
    }

    fn command(&mut self, value: u8) {
        if value & COMMAND_RESET != 0 {
            return self.reset_chip();
        }
        let engines = COMMAND_RX | COMMAND_TX;
        let started = value & engines & !self.values[at::COMMAND as usize];
        if started != 0 && self.values[at::MCU as usize] & MCU_OUT_OF_BAND != 0 {
            self.violations.add(Violation::StartedOutOfBand);
        }
        if started != 0 && !self.config.is_bus_master() {
            self.violations.add(Violation::NotBusMaster);
        }
        self.values[at::COMMAND as usize] = value;
        self.receive();
    }

    fn doorbell(&mut self) {
        self.accesses.doorbells += 1;
        if self.faults.lost_doorbells > 0 {
            self.faults.lost_doorbells -= 1;
        } else if !self.is_transmitting() {
            self.violations.add(Violation::DoorbellWhileStopped);
        } else if !self.config.is_bus_master() {
            self.violations.add(Violation::NotBusMaster);
        } else {
            self.is_doorbell_pending = self.phy.link().is_none();
            self.transmit();
            self.receive();
        }
    }

    /// Moves the end of the queued descriptors. In the mode of [`Self::is_tx_no_close`], this also
    /// rings the doorbell.
    fn move_tx_tail(&mut self, tail: u16) {
        self.tx_tail = tail;
        self.store(at::TX_TAIL_8125, 2, tail.into());
        if self.is_tx_no_close() {
            self.doorbell();
        }
    }

    /// Executes a command about the counters: writes them to the driver's memory, or resets them.
    /// While the receiver is off, the chip does not write the counters, and the command's bit stays
    /// set.
    fn tally_command(&mut self, value: u32) {
        let mut kept = value;
        if value & TALLY_RESET != 0 {
            self.tally = Tally::default();
            kept &= !TALLY_RESET;
        }
        if value & TALLY_DUMP != 0 && self.values[at::COMMAND as usize] & COMMAND_RX != 0 {
            self.dump_tally(
                u64::from(self.stored(at::TALLY_HIGH, 4)) << 32 | u64::from(value & !63),
            );
            kept &= !TALLY_DUMP;
        }
        self.store(at::TALLY_LOW, 4, kept);
    }

    fn dump_tally(&mut self, address: u64) {
        let is_extended = self.chip.is_8125() && self.mac_ocp.get(EXTENDED_TALLY) & 3 == 3;
        let len = if is_extended { Tally::EXTENDED_BLOCK } else { Tally::BLOCK };
        if !self.config.is_bus_master() {
            self.violations.add(Violation::NotBusMaster);
        } else if !self.dma.write(address, &self.tally.block()[..len]) {
            let (len, access) = (len as u64, Access::Write);
            self.violations.add(Violation::DmaOutsideMappings { address, len, access });
        }
    }

    /// Performs the effects of the value that was just stored in the register at `offset`.
    fn after_store(&mut self, offset: u64) {
        match offset {
            at::TX_RING_LOW | at::TX_RING_HIGH => {
                self.check_ring(offset, COMMAND_TX);
                self.tx = self.ring(at::TX_RING_LOW);
            }
            at::RX_RING_LOW | at::RX_RING_HIGH => {
                self.check_ring(offset, COMMAND_RX);
                self.rx = self.ring(at::RX_RING_LOW);
            }
            at::RX_CONFIG | at::MISC => self.receive(),
            _ => {}
        }
    }

    fn check_ring(&mut self, offset: u64, engine: u8) {
        if self.values[at::COMMAND as usize] & engine != 0 {
            self.violations.add(Violation::RingMovedWhileRunning { offset });
        }
        let address = u64::from(self.stored(offset, 4));
        if matches!(offset, at::TX_RING_LOW | at::RX_RING_LOW) && address & 0xff != 0 {
            self.violations.add(Violation::UnalignedRing { address });
        }
    }

    fn ring(&self, low: u64) -> Ring {
        let base = u64::from(self.stored(low + 4, 4)) << 32 | u64::from(self.stored(low, 4));
        Ring { base: base & !0xff, ..Ring::default() }
    }
}
