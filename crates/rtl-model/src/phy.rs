//! The PHY: its registers, and the link, which depends on them and on the cable.
//!
//! On these chips a register is a word of the PHY's bus: register `r` of clause 22 is at
//! `0xa400 + 2 r`, and register `r` (16 or more) of page `p` at `(p << 4) + 2 (r - 16)`.

use std::collections::HashMap;

/// Speed of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speed {
    /// 10 Mbit/s.
    M10,
    /// 100 Mbit/s.
    M100,
    /// 1 Gbit/s.
    G1,
    /// 2.5 Gbit/s.
    G2_5,
}

impl Speed {
    /// All speeds, the fastest first.
    const DESCENDING: [Self; 4] = [Self::G2_5, Self::G1, Self::M100, Self::M10];

    /// Returns the speed of this many Mbit/s.
    #[must_use]
    pub fn from_mbits(mbits: u32) -> Option<Self> {
        Self::DESCENDING.into_iter().find(|speed| speed.mbits() == mbits)
    }

    /// The speed in Mbit/s.
    #[must_use]
    pub fn mbits(self) -> u32 {
        match self {
            Self::M10 => 10,
            Self::M100 => 100,
            Self::G1 => 1000,
            Self::G2_5 => 2500,
        }
    }
}

const BMCR: u16 = 0xa400;
const BMSR: u16 = 0xa402;
const ANAR: u16 = 0xa408;
const ANLPAR: u16 = 0xa40a;
const GBCR: u16 = 0xa412;
const GBSR: u16 = 0xa414;
/// Page a43, register 18: the present speed, duplex mode and link.
const PHYSR: u16 = 0xa434;
/// Page a5d, registers 18 and 19: whether this PHY and its partner offer 2.5 Gbit/s.
const OFFER_2500: u16 = 0xa5d4;
const PARTNER_2500: u16 = 0xa5d6;
/// Page a61, register 19: the speeds beyond 1 Gbit/s that the PHY supports.
const ABILITIES: u16 = 0xa616;

const BMCR_RESET: u16 = 0x8000;
const BMCR_AUTONEGOTIATE: u16 = 0x1000;
const BMCR_POWER_DOWN: u16 = 0x0800;
const BMCR_ISOLATE: u16 = 0x0400;
const BMCR_RESTART: u16 = 0x0200;
const BMCR_FULL_DUPLEX: u16 = 0x0100;
const ANAR_PAUSE: u16 = 0x0400;

/// A link, as the MAC takes it from the PHY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhyLink {
    /// The speed of both ends.
    pub speed: Speed,
    /// Whether both ends may send at the same time.
    pub is_full_duplex: bool,
    /// Whether both ends have offered to pause.
    pub pauses: bool,
}

/// The PHY of a chip.
#[derive(Debug)]
pub(crate) struct Phy {
    words: HashMap<u16, u16>,
    has_2500: bool,
    /// The fastest speed of the partner; `None` if the cable is unplugged.
    cable: Option<Speed>,
}

impl Phy {
    /// A PHY as a kernel driver leaves it: powered down, with a cable plugged in.
    pub(crate) fn new(has_2500: bool) -> Self {
        let defaults = [
            (BMCR, BMCR_AUTONEGOTIATE | BMCR_POWER_DOWN),
            (0xa404, 0x001c),
            (0xa406, 0xc800),
            (ANAR, 0x0de1),
            (GBCR, 0x0200),
            (0xa41e, 0x2000),
            (OFFER_2500, if has_2500 { 0x0080 } else { 0 }),
            (ABILITIES, if has_2500 { 0x2000 } else { 0 }),
        ];
        Self { words: defaults.into(), has_2500, cable: Some(Speed::G2_5) }
    }

    /// Plugs in a cable to a partner of this speed, or unplugs the cable.
    pub(crate) fn set_cable(&mut self, cable: Option<Speed>) {
        self.cable = cable;
    }

    /// Reads a word.
    pub(crate) fn read(&self, address: u16) -> u16 {
        let link = self.link();
        match address {
            BMSR => 0x7949 | if link.is_some() { 0x0024 } else { 0 },
            ANLPAR if link.is_some() => 0xcde1,
            GBSR => match link {
                Some(_) if self.cable >= Some(Speed::G1) => 0x3800,
                _ => 0,
            },
            PARTNER_2500 if link.is_some() && self.cable == Some(Speed::G2_5) => 0x0020,
            ANLPAR | PARTNER_2500 => 0,
            PHYSR => link.map_or(0, |speed| speed_bits(speed) | 0x000c),
            _ => self.word(address),
        }
    }

    /// Writes a word. Returns whether the link goes down for a moment because the speed is
    /// negotiated again.
    pub(crate) fn write(&mut self, address: u16, value: u16) -> bool {
        let restarts = address == BMCR && value & (BMCR_RESET | BMCR_RESTART) != 0;
        // A reset or restart completes immediately, so its bit is clear when it is read.
        let kept = if address == BMCR { value & !(BMCR_RESET | BMCR_RESTART) } else { value };
        self.words.insert(address, kept);
        restarts
    }

    /// Returns the link; `None` if there is none. The partner offers everything up to its speed.
    pub(crate) fn whole_link(&self) -> Option<PhyLink> {
        let speed = self.link()?;
        let (control, offer) = (self.word(BMCR), self.word(ANAR));
        let negotiates = control & BMCR_AUTONEGOTIATE != 0;
        let is_full_duplex = match speed {
            _ if !negotiates => control & BMCR_FULL_DUPLEX != 0,
            Speed::M10 => offer & 0x0040 != 0,
            Speed::M100 => offer & 0x0100 != 0,
            Speed::G1 | Speed::G2_5 => true,
        };
        let pauses = negotiates && is_full_duplex && offer & ANAR_PAUSE != 0;
        Some(PhyLink { speed, is_full_duplex, pauses })
    }

    /// Returns the link's speed; `None` if there is no link.
    pub(crate) fn link(&self) -> Option<Speed> {
        let control = self.word(BMCR);
        let partner = self.cable?;
        if control & (BMCR_POWER_DOWN | BMCR_ISOLATE) != 0 {
            return None;
        }
        if control & BMCR_AUTONEGOTIATE == 0 {
            let forced = if control & 0x2000 != 0 { Speed::M100 } else { Speed::M10 };
            return (forced <= partner).then_some(forced);
        }
        Speed::DESCENDING.into_iter().find(|&speed| speed <= partner && self.offers(speed))
    }

    fn offers(&self, speed: Speed) -> bool {
        match speed {
            Speed::M10 => self.word(ANAR) & 0x0060 != 0,
            Speed::M100 => self.word(ANAR) & 0x0180 != 0,
            Speed::G1 => self.word(GBCR) & 0x0300 != 0,
            Speed::G2_5 => self.has_2500 && self.word(OFFER_2500) & 0x0080 != 0,
        }
    }

    fn word(&self, address: u16) -> u16 {
        self.words.get(&address).copied().unwrap_or(0)
    }
}

/// The bits of a speed in the status word of the PHY.
fn speed_bits(speed: Speed) -> u16 {
    match speed {
        Speed::M10 => 0,
        Speed::M100 => 0x0010,
        Speed::G1 => 0x0020,
        Speed::G2_5 => 0x0210,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_the_fastest_speed_that_both_ends_offer() {
        let mut phy = Phy::new(true);
        assert_eq!(phy.link(), None, "powered down");
        assert!(phy.write(BMCR, BMCR_AUTONEGOTIATE | BMCR_RESTART));
        assert_eq!(phy.read(BMCR), BMCR_AUTONEGOTIATE, "restarting is done at once");
        assert_eq!(phy.link(), Some(Speed::G2_5));
        phy.write(OFFER_2500, 0);
        assert_eq!(phy.link(), Some(Speed::G1));
        phy.set_cable(Some(Speed::M100));
        assert_eq!((phy.link(), phy.read(PHYSR)), (Some(Speed::M100), 0x1c));
        phy.set_cable(None);
        assert_eq!((phy.link(), phy.read(BMSR) & 4), (None, 0));
    }

    #[test]
    fn a_forced_speed_needs_no_partner_that_negotiates() {
        let mut phy = Phy::new(false);
        phy.write(BMCR, 0x2100);
        assert_eq!(phy.link(), Some(Speed::M100));
        phy.set_cable(Some(Speed::M10));
        assert_eq!(phy.link(), None);
    }

    #[test]
    fn duplex_and_pause_are_what_is_offered_or_what_is_forced() {
        let mut phy = Phy::new(false);
        let link = |phy: &Phy| phy.whole_link().map(|link| (link.is_full_duplex, link.pauses));
        phy.write(BMCR, 0x2100);
        assert_eq!(link(&phy), Some((true, false)), "nothing is negotiated");
        phy.write(BMCR, 0x2000);
        assert_eq!(link(&phy), Some((false, false)));
        phy.write(GBCR, 0);
        phy.write(BMCR, BMCR_AUTONEGOTIATE);
        assert_eq!(link(&phy), Some((true, true)));
        phy.write(ANAR, 0x0081 | ANAR_PAUSE);
        assert_eq!(link(&phy), Some((false, false)), "half duplex has no pause");
    }
}
