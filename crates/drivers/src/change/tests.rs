use super::*;
use crate::fake::{ABILITIES, FakeChip, region};
use crate::settings::LinkPlan;

fn settings(text: &str) -> CardSettings {
    text.parse().unwrap()
}

fn plan(text: &str) -> Option<LinkPlan> {
    settings(text).plan(&ABILITIES).unwrap()
}

#[test]
fn a_change_whose_link_fails_changes_nothing_else_and_says_what_became_of_the_link() {
    let defaults = CardDefaults { promiscuous: true, max_packet: 9230 };
    let before = settings("speed=10 promisc=off mtu=1500");
    let request = "reset speed=100 mtu=9000".parse().unwrap();
    let mut chip = FakeChip::new(&region(64));
    chip.max_packet = 1518;
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
