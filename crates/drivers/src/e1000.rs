//! The 82540 and 82545: PCI and PCI-X, and the card that virtual machines see most often.

mod chip;
mod init;

use slipring_pci::PciDevice;
use slipring_port::{OpenCause, Port};

use crate::driver::{ChipId, NicDriver};
use crate::open::{NicFacts, NicSetup, assemble};

pub(crate) static DRIVER: E1000Driver = E1000Driver;

pub(crate) struct E1000Driver;

/// Vendor: Intel.
const INTEL: u16 = 0x8086;

static CHIPS: [ChipId; 7] = [
    ChipId::new(INTEL, 0x100e, "82540EM"),
    ChipId::new(INTEL, 0x1015, "82540EM"),
    ChipId::new(INTEL, 0x1016, "82540EP"),
    ChipId::new(INTEL, 0x1017, "82540EP"),
    ChipId::new(INTEL, 0x101e, "82540EP"),
    ChipId::new(INTEL, 0x100f, "82545EM"),
    ChipId::new(INTEL, 0x1026, "82545GM"),
];

/// Maximum number of slots: a ring has at most 4096 descriptors, and one is never used.
const MAX_SLOTS: u32 = 4088;
/// Longest frame without CRC. The device takes 16,128 bytes with CRC.
const MAX_PACKET: u32 = 16_110;

impl NicDriver for E1000Driver {
    fn name(&self) -> &'static str {
        "e1000"
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
