//! The chip: its state, the changes that a test may make, and its reset.

use crate::chip::Chip;
use crate::dma::DmaMap;
use crate::interrupts::Interrupts;
use crate::pci::ConfigSpace;
use crate::phy::{Phy, PhyLink, Speed};
use crate::registers::{RegisterMap, at};
use crate::rings::{Descriptor, Faults, Ring, RxFault};
use crate::tally::Tally;
use crate::violations::Violations;
use crate::windows::IndirectWords;
use crate::wire::Wire;

const COMMAND_RX: u8 = 0x08;
const COMMAND_TX: u8 = 0x04;
/// The chip is in out-of-band mode: its management controller owns the FIFOs.
const MCU_OUT_OF_BAND: u8 = 0x80;
const MISC_RX_GATE: u32 = 1 << 19;
/// The bit of TxConfig for the mode of [`Device::is_tx_no_close`].
const TX_CONFIG_NO_CLOSE: u32 = 1 << 6;

/// A region of the device, with VFIO's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceRegion {
    /// BAR 0: the first 256 bytes of registers, as I/O ports.
    Ports = 0,
    /// BAR 2: the registers.
    Registers = 2,
    /// BAR 4: the table of MSI-X.
    MsiXTable = 4,
    /// The configuration space.
    Config = 7,
}

impl DeviceRegion {
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
    /// Number of reads.
    pub reads: u64,
    /// Number of writes, including doorbells.
    pub writes: u64,
    /// Number of doorbells, including lost ones.
    pub doorbells: u64,
}

/// A network card.
pub struct Device {
    pub(crate) chip: Chip,
    pub(crate) xid: u32,
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
    /// The frame that is being sent. Kept to reuse its memory.
    pub(crate) frame: Vec<u8>,
    /// The frame that is being received. Kept to reuse its memory.
    pub(crate) received: Vec<u8>,
    /// The descriptors of the frame that is being sent or received. Kept to reuse its memory.
    pub(crate) chain: Vec<Descriptor>,
    pub(crate) is_gone: bool,
    pub(crate) map: RegisterMap,
    /// Registers that only store a value, and the stored parts of other registers.
    pub(crate) values: Vec<u8>,
    pub(crate) msix_table: Vec<u8>,
    /// Numbers of descriptors that the driver has queued (`tx_tail`) and that the chip has sent
    /// (`tx_closed`), both modulo 2^16. Used in the mode of [`Self::is_tx_no_close`].
    pub(crate) tx_tail: u16,
    pub(crate) tx_closed: u16,
    pub(crate) eri: IndirectWords<u32>,
    pub(crate) csi: IndirectWords<u32>,
    pub(crate) ephy: IndirectWords<u16>,
    pub(crate) mac_ocp: IndirectWords<u16>,
    pub(crate) phy_command: u32,
    /// Whether a doorbell rang while there was no link. The chip then sends when the link comes up.
    pub(crate) is_doorbell_pending: bool,
    pub(crate) accesses: Accesses,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("chip", &self.chip).finish_non_exhaustive()
    }
}

impl Device {
    /// Creates a chip after power-on, with a cable plugged in.
    #[must_use]
    pub fn new(chip: Chip, address: [u8; 6], wire: Box<dyn Wire>) -> Self {
        let mut device = Self {
            chip,
            xid: chip.xid(),
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
            chain: Vec::new(),
            is_gone: false,
            map: RegisterMap::new(chip),
            values: vec![0; chip.window() as usize],
            msix_table: vec![0; Self::MSIX_BYTES],
            tx_tail: 0,
            tx_closed: 0,
            eri: IndirectWords::default(),
            csi: IndirectWords::default(),
            ephy: IndirectWords::default(),
            mac_ocp: IndirectWords::default(),
            phy_command: 0,
            is_doorbell_pending: false,
            accesses: Accesses::default(),
        };
        device.values[..6].copy_from_slice(&address);
        if chip.is_8125() {
            let copy = at::MAC_COPY_8125 as usize;
            device.values[copy..copy + 6].copy_from_slice(&address);
        }
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

    /// Returns the driver's violations so far.
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

    /// The link with its duplex mode and pause; `None` if there is no link.
    #[must_use]
    pub fn whole_link(&self) -> Option<PhyLink> {
        self.phy.whole_link()
    }

    /// The longest frame that the receiver takes, in bytes with checksum.
    #[must_use]
    pub fn max_frame(&self) -> usize {
        self.rx_max_size()
    }

    /// The cable that is plugged into the chip.
    #[must_use]
    pub fn wire(&self) -> &dyn Wire {
        &*self.wire
    }

    /// Returns the size of a region, in bytes.
    #[must_use]
    pub fn size_of(&self, region: DeviceRegion) -> u64 {
        match region {
            DeviceRegion::Ports => 256,
            DeviceRegion::Registers => self.chip.window(),
            DeviceRegion::MsiXTable => Self::MSIX_BYTES as u64,
            DeviceRegion::Config => crate::pci::CONFIG_BYTES as u64,
        }
    }

    /// Receives frames that have arrived over the wire.
    pub fn poll(&mut self) {
        self.receive();
    }

    /// Plugs in a cable to a partner of this speed, or unplugs the cable.
    pub fn set_cable(&mut self, cable: Option<Speed>) {
        self.change_link(|phy| {
            phy.set_cable(cable);
            false
        });
    }

    /// Makes the chip miss the next `count` doorbells.
    pub fn lose_doorbells(&mut self, count: u32) {
        self.faults.lost_doorbells = count;
    }

    /// Makes the chip lose the next `count` frames by an overflow of the receive FIFO.
    pub fn overflow_fifo(&mut self, count: u32) {
        self.faults.fifo_overflows = count;
    }

    /// Makes the chip fail to send the next `count` frames.
    pub fn fail_sends(&mut self, count: u32) {
        self.faults.tx_errors = count;
    }

    /// Makes the chip deliver the next frame with an error. Several calls apply to as many frames,
    /// in order.
    pub fn fail_receive(&mut self, fault: RxFault) {
        self.faults.rx.push_back(fault);
    }

    /// Removes the card from the bus, or puts it back. Reads from a removed card return all ones.
    pub fn set_gone(&mut self, is_gone: bool) {
        self.is_gone = is_gone;
    }

    /// Makes the chip report another identity.
    pub fn pretend_xid(&mut self, xid: u32) {
        self.xid = xid;
    }

    /// Detaches a driver that has ended: its memory and events are released, and the device is no
    /// longer a bus master. This is what VFIO does when the device is closed. The registers stay as
    /// the driver left them.
    pub fn detach(&mut self) {
        self.dma.clear();
        for index in (0..3).filter_map(crate::InterruptIndex::new) {
            self.interrupts.set_event(index, None);
        }
        let mut command = [0; 1];
        self.config.read(4, &mut command);
        self.config.write(4, &[command[0] & !4]);
    }

    /// Resets the chip and locks its configuration registers, like a reset by the bus. The
    /// configuration space keeps its contents.
    pub fn reset(&mut self) {
        self.reset_chip();
        self.values[at::LOCK as usize] = 0;
    }

    /// Resets the chip: engines, interrupt mask and status, RxConfig, and its positions in the
    /// rings. Addresses and the PHY keep their state.
    pub(crate) fn reset_chip(&mut self) {
        self.halt();
        self.interrupts.reset();
        self.store(at::RX_CONFIG, 4, 0);
        (self.tx.index, self.rx.index) = (0, 0);
        (self.tx_tail, self.tx_closed) = (0, 0);
        self.is_doorbell_pending = false;
    }

    /// Stops both engines.
    pub(crate) fn halt(&mut self) {
        self.values[at::COMMAND as usize] = 0;
    }

    pub(crate) fn is_transmitting(&self) -> bool {
        self.values[at::COMMAND as usize] & COMMAND_TX != 0 && !self.is_gone
    }

    /// Whether the transmitter of an RTL8125 writes no descriptor back: it stops where the tail
    /// register says, and a register counts what it has sent.
    pub(crate) fn is_tx_no_close(&self) -> bool {
        self.chip.is_8125() && self.stored(at::TX_CONFIG, 4) & TX_CONFIG_NO_CLOSE != 0
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

    pub(crate) fn is_locked(&self) -> bool {
        self.values[at::LOCK as usize] & 0xc0 != 0xc0
    }

    /// Returns link, speed, duplex and pause in the bits of PHYstatus.
    pub(crate) fn phy_status(&self) -> u32 {
        let Some(link) = self.phy.whole_link() else { return 0 };
        let speed = match link.speed {
            Speed::M10 => 0x04,
            Speed::M100 => 0x08,
            Speed::G1 => 0x10,
            Speed::G2_5 => 0x400,
        };
        let duplex = if link.is_full_duplex { 0x01 } else { 0 };
        let pause = if link.pauses { 0x60 } else { 0 };
        speed | 0x02 | duplex | pause
    }

    /// Reads stored bytes. The register map has checked that they exist.
    pub(crate) fn stored(&self, offset: u64, width: u8) -> u32 {
        let mut bytes = [0; 4];
        for (byte, at) in bytes.iter_mut().zip(offset as usize..).take(width.into()) {
            *byte = self.values.get(at).copied().unwrap_or(0);
        }
        u32::from_le_bytes(bytes)
    }

    pub(crate) fn store(&mut self, offset: u64, width: u8, value: u32) {
        for (byte, at) in value.to_le_bytes().into_iter().zip(offset as usize..).take(width.into())
        {
            if let Some(place) = self.values.get_mut(at) {
                *place = byte;
            }
        }
    }
}
