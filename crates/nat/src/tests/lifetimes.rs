//! Tests of the lifetimes of flows.

use super::*;

/// Returns whether a reply to `own` still reaches the client.
fn is_known(fixture: &mut Fixture, own: At) -> bool {
    let mut answer = udp((SERVER, 53), own);
    let outcome =
        fixture.nat.translate(&mut answer, NatDirection::In, NatScope::Known, fixture.now);
    outcome == NatOutcome::Translated
}

#[test]
fn a_datagram_is_answered_within_a_minute_of_the_last() {
    let mut fixture = Fixture::new(NatConfig::default());
    let own = fixture.outside((CLIENT, 1), (SERVER, 53));
    fixture.wait(59);
    assert!(is_known(&mut fixture, own), "and that was one more packet");
    fixture.wait(59);
    assert!(is_known(&mut fixture, own));
    fixture.wait(60);
    assert!(!is_known(&mut fixture, own));
    let counters = fixture.nat.counters();
    assert_eq!((counters.created, counters.ended), (1, 1));
}

#[test]
fn the_next_tick_is_when_the_first_flow_may_end() {
    let mut fixture = Fixture::new(NatConfig::default());
    assert_eq!(fixture.nat.next_tick_ns(), None);
    fixture.outside((CLIENT, 1), (SERVER, 53));
    assert_eq!(fixture.nat.next_tick_ns(), Some(60 * SECOND));
    fixture.nat.tick(60 * SECOND);
    assert_eq!((fixture.nat.next_tick_ns(), fixture.nat.flows().count()), (None, 0));
}

#[test]
fn a_port_is_free_again_once_its_flow_has_ended() {
    let mut fixture = Fixture::new(NatConfig { ports: Some((4000, 4000)), ..NatConfig::default() });
    fixture.outside((CLIENT, 1), (SERVER, 53));
    assert!(fixture.out(udp((CLIENT_2, 1), (SERVER, 53))).is_err());
    fixture.wait(60);
    assert_eq!(fixture.outside((CLIENT_2, 1), (SERVER, 53)), (OWN, 4000));
}

/// Returns how many seconds after the given segments a connection expires. A segment is a direction
/// and TCP flags.
fn lifetime(segments: &[(NatDirection, u8)]) -> u64 {
    let mut fixture = Fixture::with(NatMode::SamePorts);
    for (direction, flags) in segments {
        let mut packet = match direction {
            NatDirection::Out => tcp((CLIENT, 1), (SERVER, 80), *flags),
            NatDirection::In => tcp((SERVER, 80), (OWN, 1), *flags),
        };
        assert_eq!(fixture.pass(&mut packet, *direction), NatOutcome::Translated);
    }
    let flow = fixture.nat.flows().next().unwrap();
    (flow.expires_ns - fixture.now) / SECOND
}

#[test]
fn a_connection_lives_by_what_both_sides_have_said() {
    use NatDirection::{In, Out};
    let open = [(Out, SYN), (In, SYN_ACK), (Out, ACK)];
    assert_eq!(lifetime(&open[..1]), 300);
    assert_eq!(lifetime(&open), 86_400);
    assert_eq!(lifetime(&[&open[..], &[(In, FIN_ACK)]].concat()), 90);
    assert_eq!(lifetime(&[&open[..], &[(In, FIN_ACK), (Out, FIN_ACK)]].concat()), 10);
    assert_eq!(lifetime(&[&open[..], &[(In, RST)]].concat()), 90);
    assert_eq!(lifetime(&[(Out, ACK), (In, ACK)]), 300, "seen from the middle on");
    assert_eq!(lifetime(&[&open[..2], &[(Out, SYN)]].concat()), 86_400, "sent once more");
    let again = [&open[..], &[(In, FIN_ACK), (Out, FIN_ACK), (Out, SYN)]].concat();
    assert_eq!(lifetime(&again), 300, "the same ports begin anew");
}

#[test]
fn each_protocol_has_a_lifetime_of_its_own() {
    let mut fixture = Fixture::new(NatConfig::default());
    fixture.nat.lifetimes =
        NatLifetimes { icmp: 1, udp: 2, tcp_opening: 3, other: 4, ..NatLifetimes::default() };
    let packets = [
        echo(EchoKind::Request, CLIENT, SERVER, 5),
        udp((CLIENT, 1), (SERVER, 53)),
        tcp((CLIENT, 1), (SERVER, 80), SYN),
        bare(47, CLIENT, SERVER),
    ];
    for packet in packets {
        fixture.out(packet).unwrap();
    }
    let ends = fixture.nat.flows().map(|flow| (flow.proto.0, flow.expires_ns / SECOND));
    assert_eq!(ends.collect::<Vec<_>>(), [(1, 1), (17, 2), (6, 3), (47, 4)]);
}

#[test]
fn a_closed_connection_is_forgotten_long_before_an_open_one_would_be() {
    let mut fixture = Fixture::with(NatMode::SamePorts);
    for flags in [SYN, FIN_ACK] {
        fixture.out(tcp((CLIENT, 1), (SERVER, 80), flags)).unwrap();
        fixture.inwards(tcp((SERVER, 80), (OWN, 1), flags | ACK)).unwrap();
    }
    fixture.nat.tick(10 * SECOND);
    assert_eq!(fixture.nat.flows().count(), 0);
}
