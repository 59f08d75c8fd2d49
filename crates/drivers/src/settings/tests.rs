use super::*;

const GIGABIT: LinkAbilities = LinkAbilities {
    negotiates_pause: true,
    ..LinkAbilities::copper("RTL8168h", &[10, 100, 1000], 9212)
};

fn settings(text: &str) -> CardSettings {
    text.parse().unwrap()
}

fn refusal(text: &str, can: &LinkAbilities) -> (String, String) {
    let SettingRefusal { reason, help } = settings(text).check(can).unwrap_err();
    (reason, help)
}

#[test]
fn settings_are_written_as_they_are_read() {
    let all = "speed=100 duplex=half autoneg=off pause=on mtu=1500 promisc=off";
    assert_eq!(settings(all).to_string(), all);
    assert!(settings("").is_empty() && settings("").to_string().is_empty());
    for word in ["speed", "speed=x", "duplex=both", "autoneg=1", "colour=red", "mtu=-1"] {
        assert_eq!(word.parse::<CardSettings>(), Err(MalformedSettings(word.into())));
    }
}

#[test]
fn a_request_is_written_as_it_is_read_and_discards_settings_only_by_its_reset() {
    let before = settings("speed=100 promisc=on");
    for (text, after) in [
        ("", "speed=100 promisc=on"),
        ("mtu=1500", "speed=100 mtu=1500 promisc=on"),
        ("reset", ""),
        ("reset mtu=1500", "mtu=1500"),
    ] {
        let request: SettingsRequest = text.parse().unwrap();
        assert_eq!((request.to_string(), request.is_empty()), (text.to_owned(), text.is_empty()));
        assert_eq!(request.applied_to(before).to_string(), after);
    }
    for text in ["resets", "mtu=1500 reset", "reset=on"] {
        assert!(text.parse::<SettingsRequest>().is_err(), "{text}");
    }
}

#[test]
fn a_change_leaves_the_other_settings_and_negotiation_offers_all_again() {
    let forced = settings("speed=100 duplex=full autoneg=off mtu=1500");
    assert_eq!(
        forced.merged(settings("mtu=4000")).to_string(),
        "speed=100 duplex=full autoneg=off mtu=4000"
    );
    assert_eq!(forced.merged(settings("autoneg=on")).to_string(), "autoneg=on mtu=1500");
    let offered = forced.merged(settings("autoneg=on speed=10"));
    assert_eq!(offered.to_string(), "speed=10 duplex=full autoneg=on mtu=1500");
}

#[test]
fn without_a_setting_everything_is_offered_but_pause() {
    let plan = CardSettings::default().plan(&GIGABIT).unwrap().unwrap();
    let LinkMode::Negotiated(offers) = plan.mode else { panic!("{plan:?}") };
    assert!(!plan.pause);
    for (speed, half, full) in
        [(10, true, true), (100, true, true), (1000, false, true), (2500, false, false)]
    {
        assert_eq!(
            (offers.has(speed, Duplex::Half), offers.has(speed, Duplex::Full)),
            (half, full)
        );
    }
    let plan = settings("speed=100 duplex=full").plan(&GIGABIT).unwrap().unwrap();
    let LinkMode::Negotiated(offers) = plan.mode else { panic!("{plan:?}") };
    assert!(offers.has(100, Duplex::Full));
    assert!(
        !offers.has(100, Duplex::Half)
            && !offers.has(10, Duplex::Full)
            && !offers.has(1000, Duplex::Full)
    );
}

#[test]
fn a_link_of_100_mbit_without_negotiation_is_full_duplex_unless_said_otherwise() {
    let mode = |text| settings(text).plan(&GIGABIT).unwrap().unwrap().mode;
    let forced = |duplex| LinkMode::Forced { speed_mbit: 100, duplex };
    assert_eq!(mode("speed=100 autoneg=off"), forced(Duplex::Full));
    assert_eq!(mode("speed=100 autoneg=off duplex=half"), forced(Duplex::Half));
}

#[test]
fn what_a_chip_does_not_have_is_refused_by_name() {
    for (text, reason, help) in [
        ("speed=2500", "RTL8168h has no speed of 2500 Mbit/s", "its speeds: 10, 100, 1000"),
        ("speed=1000 duplex=half", "1000 Mbit/s with full duplex only", "--speed 100"),
        ("autoneg=off", "must be given a speed", "--autoneg off --speed 100"),
        (
            "autoneg=off speed=1000",
            "1000 Mbit/s by autonegotiation only",
            "--autoneg on --speed 1000",
        ),
        ("autoneg=off speed=100 pause=on", "pauses only if both ends", "--pause off"),
        ("mtu=9195", "an MTU of 68 to 9194 bytes, not 9195", "--mtu 9194"),
        ("mtu=67", "not 67", "--mtu 68"),
    ] {
        let (found, found_help) = refusal(text, &GIGABIT);
        assert!(
            found.contains(reason) && found_help.contains(help),
            "{text}: {found}; {found_help}"
        );
    }
}

#[test]
fn a_card_without_a_phy_refuses_all_of_the_link_and_takes_the_rest() {
    let virtual_card = LinkAbilities { speeds: &[], has_filter: false, ..GIGABIT };
    let (reason, _) = refusal("speed=100 autoneg=off", &virtual_card);
    assert_eq!(reason, "RTL8168h has no PHY, so no speed, autonegotiation");
    assert!(refusal("promisc=on", &virtual_card).0.contains("which frames to receive"));
    assert_eq!(settings("mtu=1500").plan(&virtual_card), Ok(None));
}
