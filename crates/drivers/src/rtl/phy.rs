//! The PHY: power, autonegotiation, and the link.

use super::ids::RtlChipId;
use super::regs::{Registers, at};
use crate::LinkState;

/// Basic control of clause 22, at its address on the PHY's bus.
const CONTROL: u16 = 0xa400;
const CONTROL_AUTONEGOTIATE: u16 = 0x1000;
const CONTROL_RESTART: u16 = 0x0200;

/// Wakes the PHY and starts autonegotiation. The kernel's driver powers the PHY down when it lets
/// go of the card.
pub(super) fn power_up(registers: &Registers) {
    if registers.chip == RtlChipId::Rtl8168g {
        // The interrupts of the PHY's controller are off while it is powered down.
        registers.eri_modify(0x1a8, 0, 0xfc00_0000);
    }
    registers.phy_write(CONTROL, CONTROL_AUTONEGOTIATE | CONTROL_RESTART);
}

/// Reads the link.
pub(super) fn link(registers: &Registers) -> LinkState {
    let status = registers.bar.read16(at::PHY_STATUS);
    if status & 0x02 == 0 {
        return LinkState::DOWN;
    }
    let speeds = [(0x400, 2500), (0x10, 1000), (0x08, 100), (0x04, 10)];
    let speed = speeds.iter().find(|(bit, _)| status & bit != 0);
    LinkState {
        is_up: true,
        mbit_per_s: speed.map_or(0, |(_, speed)| *speed),
        // 1 Gbit/s and more is always full duplex.
        is_full_duplex: status & 0x01 != 0 || status & 0x410 != 0,
    }
}
