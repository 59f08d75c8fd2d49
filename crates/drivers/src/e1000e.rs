//! The 82574 family: one port each, PCI Express, on server boards and add-in cards. The I217 to
//! I219 of laptops have the same rings, but need a driver for their management engine.

mod init;
mod regs;

use slipring_pci::{Bar, InterruptKind, PciDevice, config};
use slipring_port::OpenCause;

use crate::driver::{ChipId, refused};
use crate::intel::rings::{LegacyRx, LegacyTx};
use crate::intel::{INTEL, IntelDriver, IntelFamily};

pub(crate) static DRIVER: IntelDriver<E1000e> = IntelDriver::new();

pub(crate) struct E1000e;

impl IntelFamily for E1000e {
    const NAME: &'static str = "e1000e";
    const CHIPS: &'static [ChipId] = &[
        ChipId::new(INTEL, 0x10d3, "82574L"),
        ChipId::new(INTEL, 0x10f6, "82574LA"),
        ChipId::new(INTEL, 0x150c, "82583V"),
    ];
    const IS_EXPRESS: bool = true;
    // The device receives up to 9234 bytes with CRC.
    const MAX_PACKET: u32 = 9230;
    const INTERRUPTS: &'static [InterruptKind] = &[InterruptKind::Msi, InterruptKind::IntX];
    type Rx = LegacyRx;
    type Tx = LegacyTx;

    fn configure(device: &dyn PciDevice) -> Result<(), OpenCause> {
        // Erratum of the 82574: the device may stop in the power states L0s and L1, so they are
        // switched off.
        config::disable_aspm(device).map_err(refused)
    }

    fn reset(bar: &Bar) -> Result<(), OpenCause> {
        init::reset(bar)
    }

    fn set_control(bar: &Bar) {
        init::set_control(bar);
    }

    fn start(bar: &Bar, accepts_all: bool) {
        init::start(bar, accepts_all);
    }
}
