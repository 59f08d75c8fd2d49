//! Registers that every copper PHY has (IEEE 802.3, 22.2.4): their bits, and their values for a
//! link. Each driver has its own way to access them.

use crate::settings::{Duplex, LinkMode, LinkOffers};

/// Basic control, register 0. `RESET` and `RESTART_NEGOTIATION` clear themselves.
pub(crate) mod control {
    pub(crate) const RESET: u16 = 1 << 15;
    pub(crate) const LOOPBACK: u16 = 1 << 14;
    pub(crate) const SPEED_100: u16 = 1 << 13;
    pub(crate) const NEGOTIATES: u16 = 1 << 12;
    pub(crate) const POWERED_DOWN: u16 = 1 << 11;
    pub(crate) const ISOLATED: u16 = 1 << 10;
    pub(crate) const RESTART_NEGOTIATION: u16 = 1 << 9;
    pub(crate) const FULL_DUPLEX: u16 = 1 << 8;
    pub(crate) const SPEED_1000: u16 = 1 << 6;
}

/// Basic status, register 1.
pub(crate) mod status {
    /// Negotiation is complete, so the partner's offer is valid.
    pub(crate) const NEGOTIATED: u16 = 1 << 5;
    /// The link was up all the time since the last read.
    pub(crate) const LINK_STAYED_UP: u16 = 1 << 2;
}

/// What this end offers up to 100 Mbit/s (register 4), and what the partner offers (register 5).
pub(crate) mod offer {
    /// The kind of message.
    pub(crate) const IEEE_802_3: u16 = 1;
    /// Pause in both directions.
    pub(crate) const PAUSE: u16 = 1 << 10;
}

/// The modes of [`offer`], with their bits.
const OFFER_MODES: [(u32, Duplex, u16); 4] = [
    (10, Duplex::Half, 1 << 5),
    (10, Duplex::Full, 1 << 6),
    (100, Duplex::Half, 1 << 7),
    (100, Duplex::Full, 1 << 8),
];

/// What this end offers of 1 Gbit/s, register 9.
pub(crate) mod offer_1000 {
    pub(crate) const HALF: u16 = 1 << 8;
    pub(crate) const FULL: u16 = 1 << 9;
}

/// Returns the value of the control register that starts the link. A speed without negotiation is
/// 10 or 100 Mbit/s.
pub(crate) fn control_of(mode: &LinkMode) -> u16 {
    match *mode {
        LinkMode::Negotiated(_) => control::NEGOTIATES | control::RESTART_NEGOTIATION,
        LinkMode::Forced { speed_mbit, duplex } => {
            let speed = if speed_mbit == 100 { control::SPEED_100 } else { 0 };
            speed | if duplex == Duplex::Full { control::FULL_DUPLEX } else { 0 }
        }
    }
}

/// Returns the value of register 4.
pub(crate) fn offer_of(offers: &LinkOffers, pause: bool) -> u16 {
    let modes = OFFER_MODES.iter().filter(|(speed, duplex, _)| offers.has(*speed, *duplex));
    let modes = modes.fold(0, |all, (.., bit)| all | bit);
    offer::IEEE_802_3 | modes | if pause { offer::PAUSE } else { 0 }
}

/// Returns the value of register 9 with the modes of an offer. The other bits of `present`, the
/// register's value, stay.
pub(crate) fn offer_1000_of(offers: &LinkOffers, present: u16) -> u16 {
    let full = if offers.has(1000, Duplex::Full) { offer_1000::FULL } else { 0 };
    present & !(offer_1000::HALF | offer_1000::FULL) | full
}
