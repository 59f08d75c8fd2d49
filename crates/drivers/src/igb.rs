//! The 82576, I210, I211 and I350: several queues, of which one is used. Kernels from 6.14 on
//! support AF_XDP zero copy for them; this driver is for older kernels.

mod init;
mod regs;
mod rings;

use slipring_pci::{Bar, InterruptKind};
use slipring_port::OpenCause;

use crate::driver::ChipId;
use crate::intel::{INTEL, IntelDriver, IntelFamily};
use regs::{SRRCTL, SRRCTL_2K_ADVANCED};
use rings::{AdvancedRx, AdvancedTx};

pub(crate) static DRIVER: IntelDriver<Igb> = IntelDriver::new();

pub(crate) struct Igb;

impl IntelFamily for Igb {
    const NAME: &'static str = "igb";
    const CHIPS: &'static [ChipId] = &[
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
    const IS_EXPRESS: bool = true;
    // The device receives up to 9728 bytes, including 4 bytes of CRC.
    const MAX_PACKET: u32 = 9724;
    const INTERRUPTS: &'static [InterruptKind] = &[InterruptKind::Msi, InterruptKind::IntX];
    type Rx = AdvancedRx;
    type Tx = AdvancedTx;

    /// Returns true for the I210 and the I211: their PHYs, like those of older chips, take over a
    /// forced speed only when they are reset. The PHYs of the 82576 and the I350 descend from the
    /// 82541's.
    fn forces_by_reset(chip: &ChipId) -> bool {
        matches!(chip.name, "I210" | "I211")
    }

    fn reset(bar: &Bar) -> Result<(), OpenCause> {
        init::reset(bar)
    }

    fn choose_formats(bar: &Bar) {
        bar.write32(SRRCTL, SRRCTL_2K_ADVANCED);
    }

    fn set_control(bar: &Bar) {
        init::set_control(bar);
    }

    fn start(bar: &Bar, accepts_all: bool) {
        init::start(bar, accepts_all);
    }

    fn set_max_packet(bar: &Bar, bytes: u32) {
        init::set_max_packet(bar, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_phys_of_the_i210_and_i211_take_over_a_speed_by_a_reset() {
        let by_reset: Vec<_> = Igb::CHIPS
            .iter()
            .filter(|chip| Igb::forces_by_reset(chip))
            .map(|chip| chip.id.device)
            .collect();
        assert_eq!(by_reset, [0x1533, 0x157b, 0x1539]);
    }
}
