use slipring_pci::{Interrupt, PciDevice};
use slipring_port::{DropCause, Interest};

use super::*;
use crate::chip::{ChipEvents, ChipFault, LinkState};
use crate::descriptors::{RxDescriptors, TxDescriptors};
use crate::intel::rings::{LegacyRx, LegacyTx};
use crate::settings::{LinkAbilities, LinkPlan};

/// A chip that records its settings, and whose PHY answers only some calls.
struct FakeChip {
    link: Option<LinkPlan>,
    accepts_all: bool,
    max_packet: u32,
    /// Whether the PHY answers the next calls; it answers all calls after them.
    answers: Vec<bool>,
}

impl NicChip for FakeChip {
    type Rx = RxDescriptors<LegacyRx>;
    type Tx = TxDescriptors<LegacyTx>;

    fn device(&self) -> &dyn PciDevice {
        unreachable!("settings only")
    }

    fn rx(&mut self) -> &mut Self::Rx {
        unreachable!("settings only")
    }

    fn tx(&mut self) -> &mut Self::Tx {
        unreachable!("settings only")
    }

    fn interrupt(&self) -> &Interrupt {
        unreachable!("settings only")
    }

    fn start(&mut self, _accepts_all: bool) -> Result<(), OpenCause> {
        Ok(())
    }

    fn unmask(&mut self, _interest: Interest) -> ChipEvents {
        ChipEvents::default()
    }

    fn mask(&mut self) -> ChipEvents {
        ChipEvents::default()
    }

    fn probe(&mut self) -> Result<LinkState, ChipFault> {
        Ok(LinkState::DOWN)
    }

    fn count_drops(&mut self, _set: &mut dyn FnMut(DropCause, u64)) {}

    fn set_promiscuous(&mut self, all: bool) -> Result<(), OpenCause> {
        self.accepts_all = all;
        Ok(())
    }

    fn abilities(&self) -> LinkAbilities {
        LinkAbilities::copper("82574L", &[10, 100, 1000], 9230)
    }

    fn set_link(&mut self, plan: &LinkPlan) -> Result<(), OpenCause> {
        if !self.answers.pop().unwrap_or(true) {
            return Err(ChipFault::Gone.into());
        }
        self.link = Some(*plan);
        Ok(())
    }

    fn set_max_packet(&mut self, bytes: u32) {
        self.max_packet = bytes;
    }

    fn stop(&mut self) {}
}

fn settings(text: &str) -> CardSettings {
    text.parse().unwrap()
}

fn plan(text: &str) -> Option<LinkPlan> {
    settings(text).plan(&LinkAbilities::copper("82574L", &[10, 100, 1000], 9230)).unwrap()
}

#[test]
fn a_change_whose_link_fails_changes_nothing_else_and_says_what_became_of_the_link() {
    let defaults = CardDefaults { promiscuous: true, max_packet: 9230 };
    let before = settings("speed=10 promisc=off mtu=1500");
    let request = "reset speed=100 mtu=9000".parse().unwrap();
    let mut chip =
        FakeChip { link: None, accepts_all: false, max_packet: 1518, answers: Vec::new() };
    let mut tx_limit = 1518;
    for (answers, state) in [
        (vec![true, false], "its settings are as before"),
        (
            vec![false, false],
            "its link, or what it receives, may have changed; the MTU is as before",
        ),
    ] {
        chip.answers = answers;
        let refusal = execute(&mut chip, &defaults, before, &request, |bytes| tx_limit = bytes);
        let SettingRefusal { reason, .. } = refusal.unwrap_err();
        assert!(reason.contains("does not answer") && reason.ends_with(state), "{reason}");
        assert_eq!((chip.accepts_all, chip.max_packet, tx_limit), (false, 1518, 1518));
        assert_eq!(chip.link, plan("speed=10"));
    }
    let after = execute(&mut chip, &defaults, before, &request, |bytes| tx_limit = bytes);
    assert_eq!(after.unwrap().to_string(), "speed=100 mtu=9000");
    assert_eq!((chip.accepts_all, chip.max_packet, tx_limit), (true, 9018, 9018));
    assert_eq!(chip.link, plan("speed=100"));
}
