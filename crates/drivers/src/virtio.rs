//! virtio-net, modern: the card of virtual machines whose guests have an IOMMU. The interface is a
//! standard (virtio 1.2), and the same on every host.

mod chip;
mod control;
mod init;
mod regs;
mod rings;

use slipring_pci::PciDevice;
use slipring_port::{OpenCause, Port};

use crate::driver::{ChipId, NicDriver};
use crate::open::{NicFacts, NicSetup, assemble};

pub(crate) static DRIVER: VirtioDriver = VirtioDriver;

pub(crate) struct VirtioDriver;

/// Vendor: Red Hat, which gives its number to all virtio devices.
const RED_HAT: u16 = 0x1af4;

/// A device of the second number may be a modern one, too: its capabilities say so.
static CHIPS: [ChipId; 1] = [ChipId::new(RED_HAT, 0x1041, "virtio-net")];

/// Longest frame: that of an MTU of 1500 bytes, with a VLAN tag.
const MAX_PACKET: u32 = 1518;

impl NicDriver for VirtioDriver {
    fn name(&self) -> &'static str {
        "virtio"
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
        let (running, mac, slots) = init::set_up(device, setup)?;
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
