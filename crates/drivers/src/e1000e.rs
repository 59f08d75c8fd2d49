//! The 82574 family: one port each, PCI Express, on server boards and add-in cards. The I217 to
//! I219 of laptops have the same rings, but need a driver for their management engine.

mod chip;
mod init;
mod regs;

use slipring_pci::PciDevice;
use slipring_port::{OpenCause, Port};

use crate::driver::{ChipId, NicDriver};
use crate::open::{NicFacts, NicSetup, assemble};

pub(crate) static DRIVER: E1000eDriver = E1000eDriver;

pub(crate) struct E1000eDriver;

/// Vendor: Intel.
const INTEL: u16 = 0x8086;

static CHIPS: [ChipId; 3] = [
    ChipId::new(INTEL, 0x10d3, "82574L"),
    ChipId::new(INTEL, 0x10f6, "82574LA"),
    ChipId::new(INTEL, 0x150c, "82583V"),
];

/// Maximum number of slots: a ring has at most 4096 descriptors, and one is never used.
const MAX_SLOTS: u32 = 4088;
/// Longest frame without CRC. The device takes 9234 bytes with CRC.
const MAX_PACKET: u32 = 9230;

impl NicDriver for E1000eDriver {
    fn name(&self) -> &'static str {
        "e1000e"
    }

    fn chips(&self) -> &'static [ChipId] {
        &CHIPS
    }

    fn open(
        &self,
        device: Box<dyn PciDevice>,
        chip: &ChipId,
        setup: &NicSetup<'_>,
    ) -> Result<Port, OpenCause> {
        let slots = setup.slots(MAX_SLOTS);
        let (running, mac) = init::set_up(device, setup, slots)?;
        let facts = NicFacts {
            driver: self.name(),
            chip: chip.name,
            mac,
            slots,
            max_packet: MAX_PACKET,
            chains: true,
        };
        assemble(running, &facts, setup)
    }
}
