//! The chip: what reading and writing its registers does.

use crate::chip::Chip;
use crate::dma::DmaMap;
use crate::interrupts::Interrupts;
use crate::pci::ConfigSpace;
use crate::phy::{Phy, Speed};
use crate::registers::{RegisterMap, Rule, at};
use crate::rings::{Faults, Ring, RxFault};
use crate::tally::Tally;
use crate::violations::{Access, Violation, Violations};
use crate::windows::{FLAG, Words};
use crate::wire::Wire;

const COMMAND_RESET: u8 = 0x10;
const COMMAND_RX: u8 = 0x08;
const COMMAND_TX: u8 = 0x04;
/// The chip is in out-of-band mode: its management controller has the FIFOs.
const MCU_OUT_OF_BAND: u8 = 0x80;
/// The list of buffers is ready, and both FIFOs are empty.
const MCU_READY: u32 = 0x32;
const TX_CONFIG_EMPTY: u32 = 1 << 11;
/// The bits of TxConfig that are the chip's identity.
const IDENTITY: u32 = 0xfcf << 20;
const MISC_RX_GATE: u32 = 1 << 19;
const TALLY_RESET: u32 = 1;
const TALLY_DUMP: u32 = 8;
/// MAC-OCP word by which a driver asks an RTL8125 for the extended tally.
const EXTENDED_TALLY: u32 = 0xea84;

/// A region of the device, with VFIO's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Region {
    /// BAR 0: the first 256 bytes of registers, by I/O ports.
    Ports = 0,
    /// BAR 2: the registers.
    Registers = 2,
    /// BAR 4: the table of MSI-X.
    MsiXTable = 4,
    /// The configuration space.
    Config = 7,
}

impl Region {
    /// Number of regions.
    pub const COUNT: u32 = 9;

    /// The region with this number; `None` if the device has none.
    #[must_use]
    pub fn new(index: u32) -> Option<Self> {
        let all = [Self::Ports, Self::Registers, Self::MsiXTable, Self::Config];
        all.into_iter().find(|region| *region as u32 == index)
    }
}

/// How often a driver accessed the registers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Accesses {
    /// Reads.
    pub reads: u64,
    /// Writes, doorbells included.
    pub writes: u64,
    /// Doorbells.
    pub doorbells: u64,
}

/// A network card.
pub struct Device {
    pub(crate) chip: Chip,
    pub(crate) config: ConfigSpace,
    pub(crate) interrupts: Interrupts,
    pub(crate) dma: DmaMap,
    pub(crate) violations: Violations,
    pub(crate) tally: Tally,
    pub(crate) phy: Phy,
    pub(crate) faults: Faults,
    pub(crate) wire: Box<dyn Wire>,
    pub(crate) tx: Ring,
    pub(crate) rx: Ring,
    /// The frame that is being sent, kept for its memory.
    pub(crate) frame: Vec<u8>,
    /// The frame that is being received, kept for its memory.
    pub(crate) received: Vec<u8>,
    pub(crate) is_gone: bool,
    map: RegisterMap,
    /// The registers that only keep a value, and the stored parts of others.
    values: Vec<u8>,
    msix_table: Vec<u8>,
    address: [u8; 6],
    eri: Words<u32>,
    csi: Words<u32>,
    ephy: Words<u16>,
    mac_ocp: Words<u16>,
    phy_command: u32,
    /// A doorbell that rang while there was no link.
    is_doorbell_pending: bool,
    accesses: Accesses,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("chip", &self.chip).finish_non_exhaustive()
    }
}

impl Device {
    /// A chip after power-on, with a cable plugged in.
    #[must_use]
    pub fn new(chip: Chip, address: [u8; 6], wire: Box<dyn Wire>) -> Self {
        let mut device = Self {
            chip,
            config: ConfigSpace::new(chip),
            interrupts: Interrupts::default(),
            dma: DmaMap::default(),
            violations: Violations::default(),
            tally: Tally::default(),
            phy: Phy::new(chip.is_8125()),
            faults: Faults::default(),
            wire,
            tx: Ring::default(),
            rx: Ring::default(),
            frame: Vec::new(),
            received: Vec::new(),
            is_gone: false,
            map: RegisterMap::new(chip),
            values: vec![0; chip.window() as usize],
            msix_table: vec![0; Self::MSIX_BYTES],
            address,
            eri: Words::default(),
            csi: Words::default(),
            ephy: Words::default(),
            mac_ocp: Words::default(),
            phy_command: 0,
            is_doorbell_pending: false,
            accesses: Accesses::default(),
        };
        device.values[..6].copy_from_slice(&address);
        let [a, b, c, d, e, f] = address;
        device.eri.set(0xe0, u32::from_le_bytes([a, b, c, d]));
        device.eri.set(0xe4, u32::from_le_bytes([e, f, 0, 0]));
        device.values[at::MCU as usize] = MCU_OUT_OF_BAND;
        device
    }

    const MSIX_BYTES: usize = 4096;

    /// The device's access to the driver's memory.
    pub fn dma(&mut self) -> &mut DmaMap {
        &mut self.dma
    }

    /// The device's interrupts.
    pub fn interrupts(&mut self) -> &mut Interrupts {
        &mut self.interrupts
    }

    /// The faults of the driver so far.
    #[must_use]
    pub fn violations(&self) -> &Violations {
        &self.violations
    }

    /// The counters.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// How often the registers were accessed.
    #[must_use]
    pub fn accesses(&self) -> Accesses {
        self.accesses
    }

    /// The link's speed; `None` if there is no link.
    #[must_use]
    pub fn link(&self) -> Option<Speed> {
        self.phy.link()
    }

    /// The wire.
    #[must_use]
    pub fn wire(&self) -> &dyn Wire {
        &*self.wire
    }

    /// Returns the size of a region, in bytes.
    #[must_use]
    pub fn size_of(&self, region: Region) -> u64 {
        match region {
            Region::Ports => 256,
            Region::Registers => self.chip.window(),
            Region::MsiXTable => Self::MSIX_BYTES as u64,
            Region::Config => crate::pci::CONFIG_BYTES as u64,
        }
    }

    /// Receives what has come over the wire.
    pub fn poll(&mut self) {
        self.receive();
    }

    /// Plugs in a cable to a partner of this speed, or unplugs it.
    pub fn set_cable(&mut self, cable: Option<Speed>) {
        self.change_link(|phy| {
            phy.set_cable(cable);
            false
        });
    }

    /// Loses the next `count` doorbells.
    pub fn lose_doorbells(&mut self, count: u32) {
        self.faults.lost_doorbells = count;
    }

    /// Loses the next `count` frames by an overflow of the receive FIFO.
    pub fn overflow_fifo(&mut self, count: u32) {
        self.faults.fifo_overflows = count;
    }

    /// Fails to send the next `count` frames.
    pub fn fail_sends(&mut self, count: u32) {
        self.faults.tx_errors = count;
    }

    /// Delivers the next frame with an error. Further errors are for the frames after it.
    pub fn fail_receive(&mut self, fault: RxFault) {
        self.faults.rx.push_back(fault);
    }

    /// Removes the card from the bus, or puts it back: without it, reads give all ones.
    pub fn set_gone(&mut self, is_gone: bool) {
        self.is_gone = is_gone;
    }

    /// Detaches a driver that has ended: its memory and events are released, and the device is no
    /// bus master. This is what VFIO does when the device is closed. The registers stay as the
    /// driver left them.
    pub fn detach(&mut self) {
        self.dma.clear();
        for index in (0..3).filter_map(crate::InterruptIndex::new) {
            self.interrupts.set_event(index, None);
        }
        let mut command = [0; 1];
        self.config.read(4, &mut command);
        self.config.write(4, &[command[0] & !4]);
    }

    /// Resets the function, as the bus does it.
    pub fn reset(&mut self) {
        self.reset_chip();
        self.values[at::LOCK as usize] = 0;
    }

    /// Reads from a region. Bytes beyond its end are all ones.
    pub fn read(&mut self, region: Region, offset: u64, out: &mut [u8]) {
        if self.is_gone {
            out.fill(0xff);
            return;
        }
        match region {
            Region::Config => self.config.read(offset, out),
            Region::MsiXTable => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                for (i, byte) in out.iter_mut().enumerate() {
                    let at = start.saturating_add(i);
                    *byte = self.msix_table.get(at).copied().unwrap_or(0xff);
                }
            }
            Region::Registers | Region::Ports => {
                let width = u8::try_from(out.len()).unwrap_or(u8::MAX);
                let value = self.read_register(offset, width).to_le_bytes();
                let known = value.len().min(out.len());
                out.fill(0xff);
                out[..known].copy_from_slice(&value[..known]);
            }
        }
    }

    /// Writes to a region. Bytes beyond its end are ignored.
    pub fn write(&mut self, region: Region, offset: u64, bytes: &[u8]) {
        if self.is_gone {
            return;
        }
        match region {
            Region::Config => self.config.write(offset, bytes),
            Region::MsiXTable => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                for (i, byte) in bytes.iter().enumerate() {
                    if let Some(at) = self.msix_table.get_mut(start.saturating_add(i)) {
                        *at = *byte;
                    }
                }
            }
            Region::Registers | Region::Ports => {
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
            at::TX_CONFIG => self.chip.xid() << 20 | (stored & !IDENTITY) | TX_CONFIG_EMPTY,
            at::MCU => stored | MCU_READY,
            at::MITIGATE if is_8125 => stored | 0x0103,
            at::PHY_STATUS => self.phy_status(),
            at::CSI_DATA => self.csi.data,
            at::CSI_COMMAND => self.csi.command,
            at::ERI_DATA => self.eri.data,
            at::ERI_COMMAND => self.eri.command,
            at::EPHY => self.ephy.command,
            at::MAC_OCP => self.mac_ocp.command,
            at::PHY_OCP => self.phy_command,
            _ if is_8125 && (at::MAC_COPY_8125..at::MAC_COPY_8125 + 6).contains(&offset) => {
                u32::from(self.address[(offset - at::MAC_COPY_8125) as usize])
            }
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
            Some(Rule::Free) => {}
            Some(Rule::Locked) if !self.is_locked() => {}
            Some(Rule::Locked) => return self.violations.add(Violation::LockedWrite { offset }),
            Some(Rule::ReadOnly) => return self.violations.add(Violation::ReadOnly { offset }),
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

    /// Writes the registers in which a write is a command. Returns whether it was one.
    fn write_own(&mut self, offset: u64, value: u32) -> bool {
        let is_8125 = self.chip.is_8125();
        match offset {
            at::COMMAND => self.command(value as u8),
            at::DOORBELL if !is_8125 && value & 0x40 != 0 => self.doorbell(),
            at::DOORBELL_8125 if is_8125 && value & 1 != 0 => self.doorbell(),
            at::MASK if !is_8125 => self.interrupts.set_mask(value),
            at::STATUS if !is_8125 => self.interrupts.acknowledge(value),
            at::MASK_8125 if is_8125 => self.interrupts.set_mask(value),
            at::STATUS_8125 if is_8125 => self.interrupts.acknowledge(value),
            at::TALLY_LOW => self.tally_command(value),
            _ => return false,
        }
        true
    }

    /// Writes the registers through which others are accessed. Returns whether it was one.
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
        match Words::<u16>::ocp_command(command) {
            (address, Some(value)) => {
                self.mac_ocp.set(address, value);
                self.mac_ocp.command = command & !FLAG;
            }
            (address, None) => self.mac_ocp.command = u32::from(self.mac_ocp.get(address)),
        }
    }

    fn phy_ocp_command(&mut self, command: u32) {
        match Words::<u16>::ocp_command(command) {
            (address, Some(value)) => {
                self.change_link(|phy| phy.write(address as u16, value));
                self.phy_command = command & !FLAG;
            }
            (address, None) => {
                self.phy_command = FLAG | u32::from(self.phy.read(address as u16));
            }
        }
    }

    /// Changes what the link depends on; tells the driver if the link has changed, or went down
    /// for a moment.
    fn change_link(&mut self, change: impl FnOnce(&mut Phy) -> bool) {
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

    /// Writes or resets the counters. Without a receiver the chip does not write them: the bit
    /// stays set.
    fn tally_command(&mut self, value: u32) {
        let mut kept = value;
        if value & TALLY_RESET != 0 {
            self.tally = Tally::default();
            kept &= !TALLY_RESET;
        }
        if value & TALLY_DUMP != 0 && self.values[at::COMMAND as usize] & COMMAND_RX != 0 {
            self.dump_tally(u64::from(self.stored(at::TALLY_HIGH, 4)) << 32 | u64::from(value & !63));
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

    /// What follows from a stored value.
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
        Ring { base: base & !0xff, index: 0 }
    }

    /// Resets the chip: engines, masks and events, and where it is in the rings. Addresses and the
    /// PHY stay.
    fn reset_chip(&mut self) {
        self.halt();
        self.interrupts.reset();
        self.store(at::RX_CONFIG, 4, 0);
        (self.tx.index, self.rx.index) = (0, 0);
        self.is_doorbell_pending = false;
    }

    /// Stops both engines.
    pub(crate) fn halt(&mut self) {
        self.values[at::COMMAND as usize] = 0;
    }

    pub(crate) fn is_transmitting(&self) -> bool {
        self.values[at::COMMAND as usize] & COMMAND_TX != 0 && !self.is_gone
    }

    pub(crate) fn is_receiving(&self) -> bool {
        self.values[at::COMMAND as usize] & COMMAND_RX != 0
            && self.stored(at::MISC, 4) & MISC_RX_GATE == 0
            && self.config.is_bus_master()
    }

    pub(crate) fn rx_config(&self) -> u32 {
        self.stored(at::RX_CONFIG, 4)
    }

    pub(crate) fn rx_max_size(&self) -> usize {
        self.stored(at::RX_MAX_SIZE, 2) as usize
    }

    pub(crate) fn own_address(&self) -> [u8; 6] {
        self.values.first_chunk().copied().unwrap_or_default()
    }

    pub(crate) fn multicast(&self) -> [u8; 8] {
        let bytes = self.values.get(at::MULTICAST as usize..);
        bytes.and_then(|bytes| bytes.first_chunk().copied()).unwrap_or_default()
    }

    fn is_locked(&self) -> bool {
        self.values[at::LOCK as usize] & 0xc0 != 0xc0
    }

    /// Link, speed and full duplex, in the bits of PHYstatus.
    fn phy_status(&self) -> u32 {
        let speed = match self.phy.link() {
            None => return 0,
            Some(Speed::M10) => 0x04,
            Some(Speed::M100) => 0x08,
            Some(Speed::G1) => 0x10,
            Some(Speed::G2_5) => 0x400,
        };
        speed | 0x03
    }

    /// Reads stored bytes. The register map has checked that they exist.
    fn stored(&self, offset: u64, width: u8) -> u32 {
        let mut bytes = [0; 4];
        for (byte, at) in bytes.iter_mut().zip(offset as usize..).take(width.into()) {
            *byte = self.values.get(at).copied().unwrap_or(0);
        }
        u32::from_le_bytes(bytes)
    }

    fn store(&mut self, offset: u64, width: u8, value: u32) {
        for (byte, at) in value.to_le_bytes().into_iter().zip(offset as usize..).take(width.into()) {
            if let Some(place) = self.values.get_mut(at) {
                *place = byte;
            }
        }
    }
}
