//! The 82540 and 82545: PCI and PCI-X cards, often emulated in virtual machines.

mod init;

use slipring_pci::{Bar, InterruptKind};
use slipring_port::OpenCause;

use crate::driver::ChipId;
use crate::intel::rings::{LegacyRx, LegacyTx};
use crate::intel::{INTEL, IntelDriver, IntelFamily};

pub(crate) static DRIVER: IntelDriver<E1000> = IntelDriver::new();

pub(crate) struct E1000;

impl IntelFamily for E1000 {
    const NAME: &'static str = "e1000";
    const CHIPS: &'static [ChipId] = &[
        ChipId::new(INTEL, 0x100e, "82540EM"),
        ChipId::new(INTEL, 0x1015, "82540EM"),
        ChipId::new(INTEL, 0x1016, "82540EP"),
        ChipId::new(INTEL, 0x1017, "82540EP"),
        ChipId::new(INTEL, 0x101e, "82540EP"),
        ChipId::new(INTEL, 0x100f, "82545EM"),
        ChipId::new(INTEL, 0x1026, "82545GM"),
    ];
    const IS_EXPRESS: bool = false;
    // Intel states 16,110 bytes as the maximum MTU of these cards, so frames have up to 16,128
    // bytes with the header (14) and the CRC (4). The register itself (RCTL.LPE) would accept
    // 16,384.
    const MAX_PACKET: u32 = 16_124;
    // The 82540 only supports the interrupt line; the messages of the 82545 have an erratum.
    const INTERRUPTS: &'static [InterruptKind] = &[InterruptKind::IntX];
    type Rx = LegacyRx;
    type Tx = LegacyTx;

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
