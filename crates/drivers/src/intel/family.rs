//! A driver for families of Intel's chips: the steps that are the same for all families, in order.

use std::marker::PhantomData;

use slipring_pci::{Bar, DeviceMemory, Interrupt, InterruptKind, PciDevice, config};
use slipring_port::nic::dma::DmaMemory;
use slipring_port::{OpenCause, Port};

use super::chip::IntelChip;
use super::mac::{self, MacDrops};
use super::phy::NegotiatedPause;
use super::regs::{RDT, TDT};
use super::rings::{ring_parts, ring_size, rings_len, set_rx_ring, set_tx_ring};
use crate::descriptors::{RxDescriptors, RxFormat, TxDescriptors, TxFormat};
use crate::driver::{ChipId, NicDriver, refused};
use crate::open::{NicFacts, NicSetup, assemble, memory_cause};
use crate::settings::LinkAbilities;

/// Vendor: Intel.
pub(crate) const INTEL: u16 = 0x8086;

/// Maximum number of slots: a ring has at most 4096 descriptors, and one is never used. Rounded
/// down to a multiple of 8.
const MAX_SLOTS: u32 = 4088;

/// All chips have these speeds, in Mbit/s.
static SPEEDS_MBIT: [u32; 3] = [10, 100, 1000];

/// What differs between the families of chips.
pub(crate) trait IntelFamily: Send + Sync + 'static {
    /// The name of the driver ([`NicDriver::name`]).
    const NAME: &'static str;
    /// The chips that the driver supports ([`NicDriver::chips`]).
    const CHIPS: &'static [ChipId];
    /// Whether the chips are on PCI Express.
    const IS_EXPRESS: bool;
    /// Longest frame in bytes, without CRC.
    const MAX_PACKET: u32;
    /// Kinds of interrupts that work, in order of preference.
    const INTERRUPTS: &'static [InterruptKind];
    /// The format of receive descriptors.
    type Rx: RxFormat;
    /// The format of transmit descriptors.
    type Tx: TxFormat;

    /// Whether the PHY of a chip must be reset to take over a speed and a duplex mode that are set
    /// without negotiation. A reset gives other PHYs their defaults instead.
    fn forces_by_reset(_chip: &ChipId) -> bool {
        true
    }

    /// Sets the configuration space, before the first access to a register.
    fn configure(_device: &dyn PciDevice) -> Result<(), OpenCause> {
        Ok(())
    }

    /// Resets all but the PHY.
    fn reset(bar: &Bar) -> Result<(), OpenCause>;

    /// Chooses the formats of descriptors, if the chip has several.
    fn choose_formats(_bar: &Bar) {}

    /// Brings the link up by the PHY's negotiation, keeps VLAN tags in frames, and writes the
    /// settings that do not change while the device runs.
    fn set_control(bar: &Bar);

    /// Starts both directions, for frames up to [`Self::MAX_PACKET`].
    fn start(bar: &Bar, accepts_all: bool);

    /// Sets the longest frame that is received, in bytes without CRC, while the device runs. Most
    /// families support only two limits: that of an MTU of 1500 bytes, and the longest frame of the
    /// chip.
    fn set_max_packet(bar: &Bar, bytes: u32) {
        mac::set_long_frames(bar, bytes);
    }
}

/// The driver of a family.
pub(crate) struct IntelDriver<F>(PhantomData<F>);

impl<F> IntelDriver<F> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<F: IntelFamily> NicDriver for IntelDriver<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn chips(&self) -> &'static [ChipId] {
        F::CHIPS
    }

    fn abilities(&self, chip: &ChipId) -> LinkAbilities {
        LinkAbilities::copper(chip.name, &SPEEDS_MBIT, F::MAX_PACKET)
    }

    fn open(
        &self,
        device: Box<dyn PciDevice>,
        chip: &ChipId,
        setup: &NicSetup<'_>,
    ) -> Result<Port, OpenCause> {
        let slots = setup.slots(MAX_SLOTS);
        let (mut running, mac) = set_up::<F>(device, self.abilities(chip), setup, slots)?;
        running.forces_by_reset = F::forces_by_reset(chip);
        let facts = NicFacts {
            driver: F::NAME,
            chip: chip.name,
            mac,
            slots,
            max_packet: F::MAX_PACKET,
            chains: true,
        };
        assemble(running, &facts, setup)
    }
}

/// Resets the device and sets it up with empty rings. Also returns its hardware address.
fn set_up<F: IntelFamily>(
    device: Box<dyn PciDevice>,
    abilities: LinkAbilities,
    setup: &NicSetup<'_>,
    slots: u32,
) -> Result<(IntelChip<F>, [u8; 6]), OpenCause> {
    config::enable_registers(device.as_ref()).map_err(refused)?;
    F::configure(device.as_ref())?;
    let bar = device.bar(0).map_err(refused)?;
    F::reset(&bar)?;
    config::enable(device.as_ref()).map_err(refused)?;
    let mac = mac::read_mac(&bar)?;
    mac::reset_filters(&bar, mac);
    let mut memory = DeviceMemory::new(device.dma());
    setup.map_buffers(&mut memory)?;
    let size = ring_size(slots);
    let rings = memory.make_rings(size).map_err(|error| memory_cause(error, rings_len(size)))?;
    F::choose_formats(&bar);
    set_rx_ring(&bar, &rings.rx, size);
    set_tx_ring(&bar, &rings.tx, size);
    F::set_control(&bar);
    let interrupt = Interrupt::open_one_of(device.as_ref(), F::INTERRUPTS).map_err(refused)?;
    let parts = ring_parts(&bar, &memory, &rings, size, [RDT, TDT]);
    let chip = IntelChip {
        bar,
        rx: RxDescriptors::new(parts.rx),
        tx: TxDescriptors::new(parts.tx),
        interrupt,
        drops: MacDrops::default(),
        abilities,
        pause: NegotiatedPause::default(),
        forces_by_reset: true,
        device,
        _memory: memory,
    };
    Ok((chip, mac))
}
