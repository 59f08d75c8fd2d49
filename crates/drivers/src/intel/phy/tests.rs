use super::*;
use slipring_pci::{RegisterAccess, Width};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Registers that keep what is written, with a PHY behind MDIC.
#[derive(Clone, Default)]
struct FakeChip(Arc<Mutex<FakeRegisters>>);

#[derive(Default)]
struct FakeRegisters {
    mac: HashMap<u64, u32>,
    phy: HashMap<u32, u32>,
}

impl RegisterAccess for FakeChip {
    fn read(&self, at: u64, _width: Width) -> u32 {
        self.0.lock().unwrap().mac.get(&at).copied().unwrap_or(0)
    }

    fn write(&self, at: u64, _width: Width, value: u32) {
        let FakeRegisters { mac, phy } = &mut *self.0.lock().unwrap();
        mac.insert(at, value);
        if at != MDIC {
            return;
        }
        let register = value >> 16 & 31;
        assert_eq!(value >> 21 & 31, PHY_ADDRESS);
        if value & MDIC_READ == MDIC_READ {
            let answer = phy.get(&register).copied().unwrap_or(0);
            mac.insert(MDIC, value & !0xffff | answer | MDIC_READY);
        } else {
            phy.insert(register, value & 0xffff);
            mac.insert(MDIC, value | MDIC_READY);
        }
    }
}

impl FakeChip {
    fn bar(&self) -> Bar {
        Bar::new(0x20000, Vec::new(), Box::new(self.clone()))
    }

    fn phy(&self, register: u32) -> u32 {
        self.0.lock().unwrap().phy.get(&register).copied().unwrap_or(0)
    }
}

const ALL: crate::LinkAbilities = crate::LinkAbilities::copper("82574L", &[10, 100, 1000], 9230);

fn set(chip: &FakeChip, settings: &str) -> u32 {
    let plan = settings.parse::<crate::CardSettings>().unwrap().plan(&ALL).unwrap().unwrap();
    set_link(&chip.bar(), &plan).unwrap();
    chip.bar().read32(CTRL)
}

#[test]
fn without_negotiation_the_mac_is_told_what_the_phy_does() {
    let chip = FakeChip::default();
    let control = set(&chip, "speed=100 autoneg=off pause=on");
    let forced = CTRL_SLU | CTRL_FRCSPD | CTRL_FRCDPX | CTRL_SPEED_100 | CTRL_FD;
    assert_eq!(control, forced | CTRL_RFCE | CTRL_TFCE);
    assert_eq!(chip.phy(PHY_CONTROL), PHY_RESET | PHY_100_MBIT | PHY_FULL_DUPLEX);
    assert_eq!(
        set(&chip, "speed=10 duplex=half autoneg=off"),
        CTRL_SLU | CTRL_FRCSPD | CTRL_FRCDPX
    );
    assert_eq!(chip.phy(PHY_CONTROL), PHY_RESET);
}

#[test]
fn with_negotiation_the_phy_offers_and_the_mac_follows() {
    let chip = FakeChip::default();
    set(&chip, "speed=10 autoneg=off");
    assert_eq!(set(&chip, ""), CTRL_SLU | CTRL_ASDE);
    assert_eq!(chip.phy(PHY_CONTROL), PHY_NEGOTIATES | PHY_RESTART_NEGOTIATION);
    assert_eq!((chip.phy(PHY_OFFER), chip.phy(PHY_OFFER_1000)), (0x1e1, OFFER_1000_FULL));
    set(&chip, "speed=100 duplex=full pause=on");
    assert_eq!((chip.phy(PHY_OFFER), chip.phy(PHY_OFFER_1000)), (0x501, 0));
}

#[test]
fn a_pause_is_taken_only_if_the_partner_offers_it() {
    let chip = FakeChip::default();
    set(&chip, "pause=on");
    let pauses = || {
        resolve_pause(&chip.bar());
        chip.bar().read32(CTRL) & (CTRL_RFCE | CTRL_TFCE)
    };
    assert_eq!(pauses(), 0);
    chip.0.lock().unwrap().phy.insert(PHY_PARTNER, OFFER_PAUSE);
    assert_eq!(pauses(), CTRL_RFCE | CTRL_TFCE);
    const { assert!(RESUME_AT < PAUSE_AT) };
}
