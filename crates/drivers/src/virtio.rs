//! Modern virtio-net: the card of virtual machines with an IOMMU. The interface is standardised
//! (virtio 1.2) and the same on every host.

mod chip;
mod control;
mod handshake;
mod init;
mod regs;
mod rings;

use slipring_pci::PciDevice;
use slipring_port::{OpenCause, Port};

use crate::driver::{ChipId, NicDriver};
use crate::open::{NicFacts, NicSetup, assemble};
use crate::settings::{FRAME_OVERHEAD, LinkAbilities};

pub(crate) static DRIVER: VirtioDriver = VirtioDriver;

pub(crate) struct VirtioDriver;

/// Vendor: Red Hat, which gives its number to all virtio devices.
const RED_HAT: u16 = 0x1af4;

/// The chips of the driver: only those with the device ID of modern devices. A device with the
/// transitional ID may have the modern interface too, but is not supported.
static CHIPS: [ChipId; 1] = [ChipId::new(RED_HAT, 0x1041, "virtio-net")];

/// The largest MTU of a device whose frames take one buffer.
const MTU_OF_ONE_BUFFER: u32 = 1500;
/// The largest MTU of a device whose frames take several buffers, unless the device reports a
/// smaller one.
const MTU_OF_SEVERAL_BUFFERS: u32 = 9000;

/// The settings that the most capable device supports. Another device may have a lower limit of the
/// MTU, or no filter.
const ABILITIES: LinkAbilities = LinkAbilities {
    chip: "virtio-net",
    // There are no speeds, because the host controls the link.
    speeds: &[],
    negotiates_pause: true,
    max_mtu: MTU_OF_SEVERAL_BUFFERS,
    has_filter: true,
};

impl NicDriver for VirtioDriver {
    fn name(&self) -> &'static str {
        "virtio"
    }

    fn chips(&self) -> &'static [ChipId] {
        &CHIPS
    }

    fn abilities(&self, _chip: &ChipId) -> LinkAbilities {
        ABILITIES
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
            max_packet: running.max_mtu + FRAME_OVERHEAD,
            chains: true,
        };
        assemble(running, &facts, setup)
    }
}
