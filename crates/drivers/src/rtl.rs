//! RTL8168g/h and RTL8125A/B: the network cards of most mainboards.
//!
//! | file | contents |
//! |---|---|
//! | `ids.rs` | which chip it is |
//! | `regs.rs` | registers, and the windows to further ones |
//! | `init.rs` | from reset to running, and how it is stopped |
//! | `phy.rs` | power, speed, negotiation, link |
//! | `rings.rs` | descriptors |
//! | `short_udp.rs` | frames at which a chip may stop |
//! | `stats.rs` | the chip's counters |
//! | `chip.rs` | the running chip: interrupts, link, counters |
//!
//! # Known faults of the chips
//! - A doorbell may be lost if it comes close to the end of a burst. It is rung again by the sync
//!   that finds all older frames complete and no newer one, and by a probe after 5 ms without a
//!   completion.
//! - An RTL8125 does not pad frames below 60 bytes. So the driver pads them, for all chips.
//! - With ASPM, frames are lost while the PCIe link wakes up. So the driver turns ASPM off.
//! - An RTL8125A or B may stop at UDP packets to the ports of PTP (319, 320) with less than 47
//!   bytes after the IP header. So the driver looks into short frames, and lengthens these.
//!
//! The driver is tested with a model (`slipring-rtl-model`), not with real chips: no one has
//! reported a board yet.

mod chip;
mod ids;
mod init;
mod phy;
mod regs;
mod rings;
mod short_udp;
mod stats;

use slipring_pci::{DeviceMemory, Interrupt, PciDevice, config};
use slipring_port::{OpenCause, Port};

use crate::chip::ChipFault;
use crate::driver::{ChipId, NicDriver, refused};
use crate::open::{NicFacts, NicSetup, assemble, memory_cause, unresponsive};
use crate::settings::LinkAbilities;
use chip::RtlChip;
use ids::RtlChipId;
use init::{RingAddresses, TimedOut};
use regs::{Registers, at};
use rings::{MAX_DESCRIPTORS, RtlRx, RtlTx};
use stats::TallyReader;

/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: usize = 16;
/// Size of the page that contains the tally block. From `ZEROS_AT` on, the page contains zeros for
/// padding.
const PAGE_BYTES: usize = 4096;
const ZEROS_AT: u64 = 2048;
/// Delay of interrupts by the chip. It is 0: interrupts are masked while the port is polled, which
/// limits their number better than a delay.
const MODERATION: u16 = 0;

/// The BAR with the registers.
const REGISTERS_BAR: u8 = 2;

/// The driver of RTL8168g/h and RTL8125A/B.
pub(crate) struct RtlDriver;

/// The driver's entry in the table of drivers.
pub(crate) static DRIVER: RtlDriver = RtlDriver;

/// The name of the chips that have a speed of 2.5 Gbit/s.
const RTL8125: &str = "RTL8125A/B";

const CHIPS: &[ChipId] = &[
    ChipId::new(0x10ec, 0x8168, "RTL8168g/h"),
    ChipId::new(0x10ec, 0x8161, "RTL8168g/h"),
    ChipId::new(0x10ec, 0x8125, RTL8125),
    ChipId::new(0x10ec, 0x8162, RTL8125),
];

impl NicDriver for RtlDriver {
    fn name(&self) -> &'static str {
        "rtl"
    }

    fn chips(&self) -> &'static [ChipId] {
        CHIPS
    }

    /// The PCI identifier shows only the family of a chip, not its version. So these are the
    /// abilities of the best chip of the family.
    fn abilities(&self, chip: &ChipId) -> LinkAbilities {
        let best = if chip.name == RTL8125 { RtlChipId::Rtl8125b } else { RtlChipId::Rtl8168h };
        LinkAbilities { chip: chip.name, ..best.abilities() }
    }

    fn open(
        &self,
        device: Box<dyn PciDevice>,
        _chip: &ChipId,
        setup: &NicSetup<'_>,
    ) -> Result<Port, OpenCause> {
        let registers = find(device.as_ref())?;
        let mac = init::mac_of(&registers);
        let slots = setup.slots(MAX_DESCRIPTORS / 2);
        let facts = NicFacts {
            driver: self.name(),
            chip: registers.chip.name(),
            mac,
            slots,
            max_packet: registers.chip.max_frame(),
            chains: true,
        };
        let chip = set_up(device, registers, mac, slots, setup)?;
        assemble(chip, &facts, setup)
    }
}

/// Finds out which chip the device is, stops the chip, and returns its registers.
fn find(device: &dyn PciDevice) -> Result<Registers, OpenCause> {
    // The device must answer, but not access memory: its rings may be those of a dead process.
    config::enable_registers(device).map_err(refused)?;
    let bar = device.bar(REGISTERS_BAR).map_err(refused)?;
    let tx_config = bar.read32(at::TX_CONFIG);
    if tx_config == u32::MAX {
        return Err(ChipFault::Gone.into());
    }
    let xid = RtlChipId::xid_of(tx_config);
    let chip = RtlChipId::from_xid(xid).ok_or_else(|| unknown(device.address(), xid))?;
    let registers = Registers { bar, chip };
    init::stop_chip(&registers).map_err(late)?;
    init::leave_oob(&registers).map_err(late)?;
    Ok(registers)
}

/// Gives the device memory, and configures it.
fn set_up(
    device: Box<dyn PciDevice>,
    registers: Registers,
    mac: [u8; 6],
    slots: u32,
    setup: &NicSetup<'_>,
) -> Result<RtlChip, OpenCause> {
    let mut memory = DeviceMemory::new(device.dma());
    setup.map_buffers(&mut memory)?;
    let mut alloc = |len| memory.alloc(len).map_err(|error| memory_cause(error, len as u64));
    let tx_ring = alloc(2 * slots as usize * DESCRIPTOR_BYTES)?;
    let rx_ring = alloc(slots as usize * DESCRIPTOR_BYTES)?;
    let page = alloc(PAGE_BYTES)?;
    config::disable_aspm(device.as_ref()).map_err(refused)?;
    config::enable(device.as_ref()).map_err(refused)?;
    let rings = RingAddresses { tx: tx_ring.address(), rx: rx_ring.address() };
    init::configure(&registers, mac, rings, MODERATION).map_err(late)?;
    let zeros = page.address() + ZEROS_AT;
    let addresses = memory.addresses();
    Ok(RtlChip {
        rx: RtlRx::new(rx_ring, addresses, slots),
        tx: RtlTx::new(registers.clone(), tx_ring, addresses, zeros, 2 * slots),
        tally: TallyReader::new(page),
        interrupt: Interrupt::open(device.as_ref()).map_err(refused)?,
        registers,
        memory: Some(memory),
        device,
    })
}

/// Returns the error for a chip that this driver does not support. It contains the chip's name, if
/// the name is known.
fn unknown(address: &str, xid: u32) -> OpenCause {
    let name = RtlChipId::name_of(xid).map_or(String::new(), |name| format!(" {name}"));
    let reason = format!("{address} is a Realtek chip{name} (XID {xid:03x}) without a driver here");
    let known =
        "chips with a driver: RTL8168g (4c0), RTL8168h (541), RTL8125A (609), RTL8125B (641)";
    OpenCause::Card { reason, help: Some(known.into()) }
}

fn late(TimedOut(step): TimedOut) -> OpenCause {
    unresponsive(step)
}
