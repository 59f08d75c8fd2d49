//! Tests of the mode switches of `nat N config`.

use super::*;

#[test]
fn without_deny_in_a_stranger_reaches_the_host_itself_and_is_answered() {
    let mut fixture = Fixture::new(NatConfig::default());
    let knock = tcp((SERVER, 4000), (OWN, 22), SYN);
    assert_eq!(fixture.inwards(knock).unwrap().1, (OWN, 22));
    let answer = fixture.out(tcp((OWN, 22), (SERVER, 4000), SYN_ACK)).unwrap();
    assert_eq!(answer, ((OWN, 22), (SERVER, 4000)), "the answer keeps its port");
}

#[test]
fn deny_in_lets_only_answers_in() {
    let mut fixture = Fixture::with(NatMode::DenyIn);
    let knock = tcp((SERVER, 4000), (OWN, 22), SYN);
    assert_eq!(fixture.inwards(knock), Err(NatOutcome::Dropped(NatDropReason::Refused)));
    let own = fixture.outside((CLIENT, 1), (SERVER, 53));
    assert_eq!(fixture.inwards(udp((SERVER, 53), own)).unwrap().1, (CLIENT, 1));
    assert_eq!(fixture.nat.counters().refused, 1);
}

#[test]
fn same_ports_keeps_a_port_that_is_free() {
    let mut fixture = Fixture::with(NatMode::SamePorts);
    assert_eq!(fixture.outside((CLIENT, 1025), (SERVER, 53)), (OWN, 1025));
}

#[test]
fn unreg_only_translates_private_sources_only() {
    const PUBLIC: [u8; 4] = [198, 51, 100, 7];
    const SHARED: [u8; 4] = [100, 64, 0, 1];
    let private = [CLIENT, [172, 31, 255, 255], [192, 168, 1, 1]];
    let mut fixture = Fixture::with(NatMode::UnregOnly);
    for source in private {
        assert_eq!(fixture.outside((source, 1), (SERVER, 53)).0, OWN);
    }
    for source in [PUBLIC, SHARED, [172, 32, 0, 1]] {
        assert_eq!(fixture.outside((source, 1), (SERVER, 53)), (source, 1));
    }
    // RFC 6598 defines 100.64.0.0/10 as shared address space, which this mode translates, too.
    let mut fixture = Fixture::with(NatMode::UnregCgn);
    for source in [SHARED, [100, 127, 255, 255], CLIENT] {
        assert_eq!(fixture.outside((source, 1), (SERVER, 53)).0, OWN);
    }
    for source in [PUBLIC, [100, 63, 255, 255], [100, 128, 0, 0], [101, 64, 0, 1]] {
        assert_eq!(fixture.outside((source, 1), (SERVER, 53)), (source, 1));
    }
}

#[test]
fn a_mode_given_twice_is_on() {
    let modes = NatModes::default().with(NatMode::DenyIn).with(NatMode::DenyIn);
    assert!(modes.has(NatMode::DenyIn) && !modes.has(NatMode::Log));
}

#[test]
fn registered_sources_are_answered_in_spite_of_deny_in() {
    let modes = NatModes::default().with(NatMode::UnregOnly).with(NatMode::DenyIn);
    let mut fixture = Fixture::new(NatConfig { modes, ..NatConfig::default() });
    let source = ([198, 51, 100, 7], 9);
    assert_eq!(fixture.outside(source, (SERVER, 53)), source);
    assert_eq!(fixture.inwards(udp((SERVER, 53), source)).unwrap().1, source);
}

#[test]
fn reset_ends_flows_when_the_address_changes() {
    const MOVED: [u8; 4] = [203, 0, 113, 10];
    for (modes, left) in [(NatModes::default(), 1), (NatModes::default().with(NatMode::Reset), 0)] {
        let outside = OutsideAddress::Interface("em0".into());
        let mut fixture = Fixture::new(NatConfig { outside, modes, ..NatConfig::default() });
        fixture.nat.set_address(Some(OWN.into()));
        fixture.outside((CLIENT, 1), (SERVER, 53));
        fixture.nat.set_address(Some(OWN.into()));
        assert_eq!(fixture.nat.flows().count(), 1, "the same address is no change");
        fixture.nat.set_address(Some(MOVED.into()));
        assert_eq!(
            (fixture.nat.flows().count(), fixture.nat.counters().ended),
            (left, 1 - left as u64)
        );
        assert_eq!(fixture.outside((CLIENT, 2), (SERVER, 53)).0, MOVED);
    }
}

#[test]
fn reverse_takes_in_for_out() {
    let mut fixture = Fixture::with(NatMode::Reverse);
    let mut packet = udp((CLIENT, 1), (SERVER, 53));
    assert_eq!(fixture.pass(&mut packet, NatDirection::In), NatOutcome::Translated);
    let own = ends(&packet).0;
    assert_eq!(own.0, OWN);
    let mut answer = udp((SERVER, 53), own);
    assert_eq!(fixture.pass(&mut answer, NatDirection::Out), NatOutcome::Translated);
    assert_eq!(ends(&answer).1, (CLIENT, 1));
}

#[test]
fn proxy_only_leaves_everything_alone() {
    let mut fixture = Fixture::with(NatMode::ProxyOnly);
    let packet = udp((CLIENT, 1), (SERVER, 53));
    let mut after = packet.clone();
    assert_eq!(fixture.pass(&mut after, NatDirection::Out), NatOutcome::Untouched);
    assert_eq!((packet, fixture.nat.counters().untouched), (after, 1));
}

#[test]
fn a_search_in_all_instances_makes_no_flow() {
    let mut fixture = Fixture::with(NatMode::DenyIn);
    let mut known = |packet: &[u8], direction| {
        let mut packet = packet.to_vec();
        (fixture.nat.translate(&mut packet, direction, NatScope::Known, 0), packet)
    };
    let packet = udp((CLIENT, 1), (SERVER, 53));
    assert_eq!(known(&packet, NatDirection::Out), (NatOutcome::Untouched, packet.clone()));
    let stranger = udp((SERVER, 53), (OWN, 9));
    assert_eq!(known(&stranger, NatDirection::In), (NatOutcome::Untouched, stranger));
    let own = fixture.outside((CLIENT, 1), (SERVER, 53));
    let mut answer = udp((SERVER, 53), own);
    let outcome = fixture.nat.translate(&mut answer, NatDirection::In, NatScope::Known, 0);
    assert_eq!((outcome, ends(&answer).1), (NatOutcome::Translated, (CLIENT, 1)));
}

#[test]
fn flows_outlive_a_new_configuration() {
    let mut fixture = Fixture::new(NatConfig::default());
    let own = fixture.outside((CLIENT, 1), (SERVER, 53));
    let settings = fixture.nat.config().clone();
    fixture
        .nat
        .configure(NatConfig { modes: NatModes::default().with(NatMode::DenyIn), ..settings });
    assert_eq!(fixture.inwards(udp((SERVER, 53), own)).unwrap().1, (CLIENT, 1));
    let knock = fixture.inwards(tcp((SERVER, 4000), (OWN, 22), SYN));
    assert_eq!(knock, Err(NatOutcome::Dropped(NatDropReason::Refused)));
}

#[test]
fn a_new_configuration_with_reset_and_another_address_ends_flows() {
    let mut fixture = Fixture::new(NatConfig::default());
    fixture.outside((CLIENT, 1), (SERVER, 53));
    let outside = OutsideAddress::Address([203, 0, 113, 10].into());
    let modes = NatModes::default().with(NatMode::Reset);
    fixture.nat.configure(NatConfig { outside, modes, ..NatConfig::default() });
    assert_eq!((fixture.nat.flows().count(), fixture.nat.counters().ended), (0, 1));
}

#[test]
fn settings_are_written_as_ipfw_lists_them() {
    let modes =
        NatMode::ALL.iter().rev().fold(NatModes::default(), |all, (_, mode)| all.with(*mode));
    let settings = NatConfig {
        modes,
        ports: Some((2000, 3000)),
        outside: OutsideAddress::Address(OWN.into()),
        redirects: vec![],
    };
    assert_eq!(
        alloc::string::ToString::to_string(&settings),
        " ip 203.0.113.9 log deny_in same_ports skip_global unreg_only unreg_cgn reset reverse \
         proxy_only port_range 2000-3000"
    );
}

#[test]
fn what_keeps_its_ends_is_left_alone_to_the_last_byte() {
    let mut fixture = Fixture::with(NatMode::SamePorts);
    // The checksum fields have arbitrary values, most of them wrong, including 0 and all ones.
    // Packets that are not translated keep them.
    for (port, sum) in [(1, [0, 0]), (2, [0xff, 0xff]), (3, [1, 2])] {
        let mut stranger = udp((SERVER, 53), (CLIENT, port));
        stranger[26..28].copy_from_slice(&sum);
        let before = stranger.clone();
        assert_eq!(
            fixture.nat.translate(&mut stranger, NatDirection::In, NatScope::All, 0),
            NatOutcome::Unmodified
        );
        assert_eq!(stranger, before);
    }
    let counters = fixture.nat.counters();
    assert_eq!((counters.untouched, counters.inwards, counters.created), (3, 0, 3));
}
