//! The PHY: power, negotiation, and the link.
//!
//! The MAC takes speed, duplex and pause from its PHY, so only the PHY is set.

use super::ids::RtlChipId;
use super::regs::{Registers, at};
use crate::LinkState;
use crate::settings::{Duplex, LinkMode, LinkOffers, LinkPlan};

/// Registers of clause 22, at their addresses on the PHY's bus: basic control.
const CONTROL: u16 = 0xa400;
const CONTROL_AUTONEGOTIATE: u16 = 0x1000;
const CONTROL_RESTART: u16 = 0x0200;
const CONTROL_100_MBIT: u16 = 0x2000;
const CONTROL_FULL_DUPLEX: u16 = 0x0100;
/// The register of what this end offers up to 100 Mbit/s, and its bits: the kind of message, modes,
/// and pause in both directions.
const OFFER: u16 = 0xa408;
const OFFER_IEEE_802_3: u16 = 0x0001;
const OFFER_MODES: [(u32, Duplex, u16); 4] = [
    (10, Duplex::Half, 0x0020),
    (10, Duplex::Full, 0x0040),
    (100, Duplex::Half, 0x0080),
    (100, Duplex::Full, 0x0100),
];
const OFFER_PAUSE: u16 = 0x0400;
/// The register of what this end offers of 1 Gbit/s, and its bits: half and full duplex.
const OFFER_1000: u16 = 0xa412;
const OFFER_1000_HALF: u16 = 0x0100;
const OFFER_1000_FULL: u16 = 0x0200;
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
    match plan.mode {
        LinkMode::Negotiated(offers) => {
            set_offers(registers, offers, plan.pause);
            registers.phy_write(CONTROL, CONTROL_AUTONEGOTIATE | CONTROL_RESTART);
        }
        LinkMode::Forced { speed_mbit, duplex } => {
            let speed = if speed_mbit == 100 { CONTROL_100_MBIT } else { 0 };
            let duplex = if duplex == Duplex::Full { CONTROL_FULL_DUPLEX } else { 0 };
            registers.phy_write(CONTROL, speed | duplex);
        }
    }
}

fn set_offers(registers: &Registers, offers: LinkOffers, pause: bool) {
    let modes = OFFER_MODES.iter().filter(|(speed, duplex, _)| offers.has(*speed, *duplex));
    let modes = modes.fold(0, |all, (.., bit)| all | bit);
    let pause = if pause { OFFER_PAUSE } else { 0 };
    registers.phy_write(OFFER, OFFER_IEEE_802_3 | modes | pause);
    let offer = |speed, bit| if offers.has(speed, Duplex::Full) { bit } else { 0 };
    let both = OFFER_1000_HALF | OFFER_1000_FULL;
    registers.phy_modify(OFFER_1000, both, offer(1000, OFFER_1000_FULL));
    if registers.chip.is_8125() {
        registers.phy_modify(OFFER_2500, OFFER_2500_FULL, offer(2500, OFFER_2500_FULL));
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
