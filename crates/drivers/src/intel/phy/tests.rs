use super::*;
use crate::intel::mac;
use crate::mii::offer_1000;
use slipring_pci::{RegisterAccess, Width};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Registers that keep what is written, with a PHY behind MDIC.
#[derive(Clone, Default)]
struct FakeChip(Arc<Mutex<FakeRegisters>>);

#[derive(Default)]
struct FakeRegisters {
    mac: HashMap<u64, u32>,
    phy: HashMap<u32, u16>,
    /// Whether the PHY was reset by the last write to its control register.
    was_reset: bool,
    /// What the PHY's control register contains after a reset; `None` if it keeps what was written.
    after_reset: Option<u16>,
    /// Whether each access to the PHY fails.
    fails: bool,
    /// Number of accesses to the PHY so far.
    accesses: u32,
}

impl RegisterAccess for FakeChip {
    fn read(&self, at: u64, _width: Width) -> u32 {
        let mac = &mut self.0.lock().unwrap().mac;
        // Reading the causes of an interrupt clears them.
        let value = if at == ICR { mac.remove(&at) } else { mac.get(&at).copied() };
        value.unwrap_or(0)
    }

    fn write(&self, at: u64, _width: Width, value: u32) {
        let FakeRegisters { mac, phy, was_reset, after_reset, fails, accesses } =
            &mut *self.0.lock().unwrap();
        mac.insert(at, value);
        if at != MDIC {
            return;
        }
        let register = value >> 16 & 31;
        assert_eq!(value >> 21 & 31, PHY_ADDRESS);
        *accesses += 1;
        if *fails {
            mac.insert(MDIC, value | MDIC_READY | MDIC_ERROR);
        } else if value & MDIC_READ == MDIC_READ {
            let answer = phy.get(&register).copied().unwrap_or(0);
            mac.insert(MDIC, value & !0xffff | u32::from(answer) | MDIC_READY);
        } else {
            let mut stored = value as u16;
            if register == PHY_CONTROL {
                *was_reset = stored & control::RESET != 0;
                stored &= !(control::RESET | control::RESTART_NEGOTIATION);
                stored = after_reset.filter(|_| *was_reset).unwrap_or(stored);
            }
            phy.insert(register, stored);
            mac.insert(MDIC, value | MDIC_READY);
        }
    }
}

impl FakeChip {
    fn bar(&self) -> Bar {
        Bar::new(0x20000, Vec::new(), Box::new(self.clone()))
    }

    fn phy(&self, register: u32) -> u16 {
        self.0.lock().unwrap().phy.get(&register).copied().unwrap_or(0)
    }

    fn accesses(&self) -> u32 {
        self.0.lock().unwrap().accesses
    }

    /// Sets the status of the MAC, that of the PHY, and what the partner offers, and signals a
    /// change of the link.
    fn set(&self, status: u32, phy_status: u16, partner: u16) {
        let FakeRegisters { mac, phy, .. } = &mut *self.0.lock().unwrap();
        mac.extend([(STATUS, status), (ICR, CAUSE_LSC)]);
        phy.extend([(PHY_STATUS, phy_status), (PHY_PARTNER, partner)]);
    }
}

const ALL: crate::LinkAbilities = crate::LinkAbilities::copper("82574L", &[10, 100, 1000], 9230);

fn plan(settings: &str) -> LinkPlan {
    settings.parse::<crate::CardSettings>().unwrap().plan(&ALL).unwrap().unwrap()
}

fn set(chip: &FakeChip, settings: &str) -> u32 {
    set_link(&chip.bar(), &plan(settings), true).unwrap();
    chip.bar().read32(CTRL)
}

#[test]
fn without_negotiation_the_mac_is_told_what_the_phy_does() {
    let chip = FakeChip::default();
    let control = set(&chip, "speed=100 autoneg=off pause=on");
    let forced = CTRL_SLU | CTRL_FRCSPD | CTRL_FRCDPX | CTRL_SPEED_100 | CTRL_FD;
    assert_eq!(control, forced | CTRL_RFCE | CTRL_TFCE);
    assert_eq!(chip.phy(PHY_CONTROL), control::SPEED_100 | control::FULL_DUPLEX);
    assert_eq!(
        set(&chip, "speed=10 duplex=half autoneg=off"),
        CTRL_SLU | CTRL_FRCSPD | CTRL_FRCDPX
    );
    assert_eq!(chip.phy(PHY_CONTROL), 0);
}

#[test]
fn with_negotiation_the_phy_offers_and_the_mac_follows() {
    let chip = FakeChip::default();
    set(&chip, "speed=10 autoneg=off");
    assert_eq!(set(&chip, ""), CTRL_SLU | CTRL_ASDE);
    assert_eq!(chip.phy(PHY_CONTROL), control::NEGOTIATES);
    assert_eq!((chip.phy(PHY_OFFER), chip.phy(PHY_OFFER_1000)), (0x1e1, offer_1000::FULL));
    set(&chip, "speed=100 duplex=full pause=on");
    assert_eq!((chip.phy(PHY_OFFER), chip.phy(PHY_OFFER_1000)), (0x501, 0));
}

#[test]
fn a_speed_is_forced_by_a_reset_only_where_the_phy_needs_one() {
    let forced = plan("speed=100 autoneg=off");
    for forces_by_reset in [true, false] {
        let chip = FakeChip::default();
        set_link(&chip.bar(), &forced, forces_by_reset).unwrap();
        assert_eq!(chip.0.lock().unwrap().was_reset, forces_by_reset);
        assert_eq!(chip.phy(PHY_CONTROL), control::SPEED_100 | control::FULL_DUPLEX);
    }
}

#[test]
fn a_phy_that_does_not_keep_what_it_is_set_to_is_an_error() {
    let chip = FakeChip::default();
    let default = control::NEGOTIATES | control::SPEED_1000 | control::FULL_DUPLEX;
    chip.0.lock().unwrap().after_reset = Some(default);
    let error = set_link(&chip.bar(), &plan("speed=100 autoneg=off"), true).unwrap_err();
    assert!(error.to_string().contains("keep the settings of its PHY"), "{error}");
    // With negotiation, speed and duplex mode are the PHY's.
    chip.0.lock().unwrap().after_reset = None;
    set_link(&chip.bar(), &plan(""), true).unwrap();
}

/// Reads the status of the link as a probe after a sleep does; returns whether pause frames are on,
/// and whether a further probe is needed.
fn probe(chip: &FakeChip, pause: &mut NegotiatedPause) -> (bool, bool) {
    pause.note(mac::mask(&chip.bar()));
    let link = mac::link(&chip.bar()).unwrap();
    pause.follow(&chip.bar(), link);
    let pauses = chip.bar().read32(CTRL) & (CTRL_RFCE | CTRL_TFCE);
    assert!([0, CTRL_RFCE | CTRL_TFCE].contains(&pauses));
    (pauses != 0, pause.is_pending())
}

const UP: u32 = STATUS_LU | STATUS_FD;
const DONE: u16 = status::NEGOTIATED | status::LINK_STAYED_UP;

#[test]
fn a_pause_is_what_each_link_has_negotiated() {
    let chip = FakeChip::default();
    let plan = plan("pause=on");
    let (off, pending, on) = ((false, false), (false, true), (true, false));
    // Before the settings are made, the link is up, and the partner offers nothing.
    chip.set(UP, status::LINK_STAYED_UP, 0);
    set_link(&chip.bar(), &plan, true).unwrap();
    let mut pause = NegotiatedPause::new(&plan);
    for (status, phy_status, partner, expected) in [
        // The link is still up, or up again, but both ends still negotiate.
        (UP, status::LINK_STAYED_UP, 0, pending),
        (STATUS_FD, 0, offer::PAUSE, off),
        (UP, 0, offer::PAUSE, pending),
        (UP, status::NEGOTIATED, offer::PAUSE, on),
        (UP, DONE, offer::PAUSE, on),
        // Another partner, after the link was seen to be down.
        (STATUS_FD, 0, 0, on),
        (UP, DONE, 0, off),
        // And another, without a probe in between.
        (UP, status::NEGOTIATED, offer::PAUSE, on),
        // At half duplex there are no pause frames.
        (STATUS_LU, status::NEGOTIATED, offer::PAUSE, off),
    ] {
        chip.set(status, phy_status, partner);
        let found = probe(&chip, &mut pause);
        assert_eq!(found, expected, "{status:#x} {phy_status:#x} {partner:#x}");
    }
    const { assert!(RESUME_AT < PAUSE_AT) };
}

#[test]
fn once_pause_is_resolved_the_phy_is_read_only_after_a_change_of_the_link() {
    let chip = FakeChip::default();
    let mut pause = NegotiatedPause::new(&plan("pause=on"));
    chip.set(UP, DONE, offer::PAUSE);
    assert_eq!(probe(&chip, &mut pause), (true, false));
    let before = chip.accesses();
    assert_eq!(probe(&chip, &mut pause), (true, false));
    assert_eq!(chip.accesses(), before);
    chip.set(UP, 0, 0);
    assert_eq!(probe(&chip, &mut pause), (true, true));
    // The negotiation ends without a further change, so each probe reads the PHY until then.
    chip.0.lock().unwrap().phy.insert(PHY_STATUS, DONE);
    assert_eq!(probe(&chip, &mut pause), (false, false));
}

#[test]
fn a_phy_that_does_not_answer_leaves_pause_frames_as_they_are() {
    let chip = FakeChip::default();
    let mut pause = NegotiatedPause::new(&plan("pause=on"));
    chip.set(UP, DONE, offer::PAUSE);
    assert_eq!(probe(&chip, &mut pause), (true, false));
    chip.0.lock().unwrap().fails = true;
    chip.set(UP, 0, 0);
    assert_eq!(probe(&chip, &mut pause), (true, false));
    // On a new link pause frames are off, and each new link costs one failed access to the PHY.
    chip.set(STATUS_FD, 0, 0);
    probe(&chip, &mut pause);
    let before = chip.accesses();
    chip.set(UP, DONE, offer::PAUSE);
    assert_eq!(probe(&chip, &mut pause), (false, false));
    assert_eq!(probe(&chip, &mut pause), (false, false));
    assert_eq!(chip.accesses(), before + 1);
}

#[test]
fn without_an_offer_of_pause_frames_the_phy_is_not_asked() {
    let chip = FakeChip::default();
    chip.set(STATUS_LU | STATUS_FD, 0, offer::PAUSE);
    let mut pause = NegotiatedPause::new(&plan("pause=off"));
    assert_eq!(probe(&chip, &mut pause), (false, false));
    assert_eq!(chip.bar().read32(MDIC), 0);
}
