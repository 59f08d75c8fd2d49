//! The 82576, I210, I211 and I350: several queues, of which one is used. Kernels from 6.14 on have
//! AF_XDP zero copy for them; this driver is for those before.

mod chip;
mod init;
mod regs;
mod rings;

use slipring_pci::PciDevice;
use slipring_port::{OpenCause, Port};

use crate::driver::{ChipId, NicDriver};
use crate::open::{NicFacts, NicSetup, assemble};

pub(crate) static DRIVER: IgbDriver = IgbDriver;

pub(crate) struct IgbDriver;

/// Vendor: Intel.
const INTEL: u16 = 0x8086;

static CHIPS: [ChipId; 9] = [
    ChipId::new(INTEL, 0x10c9, "82576"),
    ChipId::new(INTEL, 0x10e8, "82576"),
    ChipId::new(INTEL, 0x150a, "82576"),
    ChipId::new(INTEL, 0x1526, "82576"),
    ChipId::new(INTEL, 0x1533, "I210"),
    ChipId::new(INTEL, 0x157b, "I210"),
    ChipId::new(INTEL, 0x1539, "I211"),
    ChipId::new(INTEL, 0x1521, "I350"),
    ChipId::new(INTEL, 0x1546, "I350"),
];

/// Maximum number of slots: a ring has at most 4096 descriptors, and one is never used.
const MAX_SLOTS: u32 = 4088;
/// Longest frame without CRC. The device takes 9728 bytes with CRC.
const MAX_PACKET: u32 = 9724;

impl NicDriver for IgbDriver {
    fn name(&self) -> &'static str {
        "igb"
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
