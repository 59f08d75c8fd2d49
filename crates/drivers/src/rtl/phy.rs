//! The PHY: power, negotiation, and the link.
//!
//! The MAC takes speed, duplex and pause from its PHY, so only the PHY is set.

use super::ids::RtlChipId;
use super::regs::{Registers, at};
use crate::LinkState;
use crate::mii;
use crate::settings::{Duplex, LinkMode, LinkOffers, LinkPlan};

/// Registers of [`mii`], at their addresses on the PHY's bus: basic control, and what this end
/// offers.
const CONTROL: u16 = 0xa400;
const OFFER: u16 = 0xa408;
const OFFER_1000: u16 = 0xa412;
/// Page a5d, register 18: whether 2.5 Gbit/s is offered.
const OFFER_2500: u16 = 0xa5d4;
const OFFER_2500_FULL: u16 = 0x0080;

/// Wakes the PHY and sets it. The kernel's driver powers the PHY down when it releases the card.
pub(super) fn set_link(registers: &Registers, plan: &LinkPlan) {
    if registers.chip == RtlChipId::Rtl8168g {
        // Turns the interrupts of the PHY's controller on. They are off while the PHY is powered
        // down.
        registers.eri_modify(0x1a8, 0, 0xfc00_0000);
    }
    if let LinkMode::Negotiated(offers) = &plan.mode {
        set_offers(registers, offers, plan.pause);
    }
    registers.phy_write(CONTROL, mii::control_of(&plan.mode));
}

fn set_offers(registers: &Registers, offers: &LinkOffers, pause: bool) {
    registers.phy_write(OFFER, mii::offer_of(offers, pause));
    registers.phy_write(OFFER_1000, mii::offer_1000_of(offers, registers.phy_read(OFFER_1000)));
    if registers.chip.is_8125() {
        let full = if offers.has(2500, Duplex::Full) { OFFER_2500_FULL } else { 0 };
        registers.phy_modify(OFFER_2500, OFFER_2500_FULL, full);
    }
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
        // Links of 1 Gbit/s and more are always full duplex.
        is_full_duplex: status & 0x01 != 0 || status & 0x410 != 0,
    }
}
