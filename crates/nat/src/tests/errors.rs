//! Tests of ICMP errors.

use super::*;

const ROUTER: [u8; 4] = [198, 51, 100, 1];
const UNREACHABLE: u8 = 3;

/// An ICMP error from `src` about `packet`, quoting the first `quoted` bytes of the packet.
fn error(src: [u8; 4], dst: [u8; 4], packet: &[u8], quoted: usize) -> Vec<u8> {
    let mut error = bare(1, src, dst)[..20].to_vec();
    error.extend([UNREACHABLE, 3, 0, 0, 0, 0, 5, 0]);
    error.extend_from_slice(&packet[..packet.len().min(quoted)]);
    let len = (error.len() as u16).to_be_bytes();
    error[2..4].copy_from_slice(&len);
    settle_header(&mut error);
    let sum = checksum::of(&error[20..]).to_be_bytes();
    error[22..24].copy_from_slice(&sum);
    error
}

#[test]
fn an_error_from_outside_reaches_the_client_with_its_own_packet() {
    for quoted in [28, 29, 60] {
        let mut fixture = Fixture::new(NatConfig::default());
        let asked = udp((CLIENT, 1025), (SERVER, 53));
        let mut seen = asked.clone();
        fixture.pass(&mut seen, NatDirection::Out);
        let mut error = error(ROUTER, OWN, &seen, quoted);
        assert_eq!(fixture.pass(&mut error, NatDirection::In), NatOutcome::Translated);
        assert_eq!((&error[12..16], &error[16..20]), (&ROUTER[..], &CLIENT[..]));
        assert_eq!(error[28..], asked[..quoted.min(asked.len())]);
        assert_eq!(error[26..28], [5, 0], "the MTU stays");
    }
}

#[test]
fn an_error_about_tcp_or_a_ping_reaches_the_client_too() {
    let asked = [tcp((CLIENT, 9), (SERVER, 80), SYN), echo(EchoKind::Request, CLIENT, SERVER, 5)];
    for asked in asked {
        let mut fixture = Fixture::new(NatConfig::default());
        let mut seen = asked.clone();
        fixture.pass(&mut seen, NatDirection::Out);
        let mut error = error(ROUTER, OWN, &seen, 28);
        assert_eq!(fixture.pass(&mut error, NatDirection::In), NatOutcome::Translated);
        assert_eq!(error[28..], asked[..28]);
    }
}

#[test]
fn an_error_from_inside_shows_the_address_outside() {
    let mut fixture = Fixture::new(NatConfig::default());
    let own = fixture.outside((CLIENT, 1025), (SERVER, 53));
    let answer = udp((SERVER, 53), own);
    let mut inside = answer.clone();
    fixture.pass(&mut inside, NatDirection::In);
    let mut error = error(CLIENT, SERVER, &inside, 28);
    assert_eq!(fixture.pass(&mut error, NatDirection::Out), NatOutcome::Translated);
    assert_eq!((&error[12..16], &error[28..]), (&OWN[..], &answer[..28]));
}

#[test]
fn the_pointer_of_a_parameter_problem_stays() {
    const PARAMETER_PROBLEM: u8 = 12;
    let mut fixture = Fixture::new(NatConfig::default());
    let mut seen = udp((CLIENT, 1025), (SERVER, 53));
    fixture.pass(&mut seen, NatDirection::Out);
    let mut error = error(ROUTER, OWN, &seen, 28);
    (error[20], error[21], error[24]) = (PARAMETER_PROBLEM, 0, 20);
    error[22..24].fill(0);
    let sum = checksum::of(&error[20..]).to_be_bytes();
    error[22..24].copy_from_slice(&sum);
    assert_eq!(fixture.pass(&mut error, NatDirection::In), NatOutcome::Translated);
    assert_eq!(error[24..28], [20, 0, 5, 0]);
}

#[test]
fn a_quoted_packet_with_options_is_translated_to_its_last_checksum() {
    let mut fixture = Fixture::new(NatConfig::default());
    let asked = with_options(tcp((CLIENT, 9), (SERVER, 80), SYN), 10);
    let mut seen = asked.clone();
    fixture.pass(&mut seen, NatDirection::Out);
    let mut error = error(ROUTER, OWN, &seen, 100);
    assert_eq!(fixture.pass(&mut error, NatDirection::In), NatOutcome::Translated);
    assert_eq!(error[28..], asked);
}

#[test]
fn an_error_about_a_flow_that_keeps_its_ends_stays_as_it_is() {
    let mut fixture = Fixture::new(NatConfig::default());
    fixture.inwards(tcp((SERVER, 4000), (OWN, 22), SYN)).unwrap();
    let stays = error(ROUTER, OWN, &tcp((OWN, 22), (SERVER, 4000), SYN_ACK), 28);
    let mut after = stays.clone();
    assert_eq!(fixture.pass(&mut after, NatDirection::In), NatOutcome::Unmodified);
    assert_eq!(after, stays);
}

#[test]
fn a_router_inside_is_hidden_even_if_the_host_is_not() {
    const PUBLIC: [u8; 4] = [198, 51, 100, 7];
    let mut fixture = Fixture::with(NatMode::UnregOnly);
    fixture.outside((PUBLIC, 9), (SERVER, 53));
    let about = udp((SERVER, 53), (PUBLIC, 9));
    let mut error = error(CLIENT, SERVER, &about, 28);
    assert_eq!(fixture.pass(&mut error, NatDirection::Out), NatOutcome::Translated);
    assert_eq!((&error[12..16], &error[28..]), (&PUBLIC[..], &about[..28]));
}

#[test]
fn an_error_about_a_flow_that_keeps_its_address_shows_the_port_inside() {
    let mut fixture = Fixture::new(NatConfig::default());
    let (src, dst) = fixture.out(udp((OWN, 5000), (SERVER, 53))).unwrap();
    assert_ne!(src, (OWN, 5000));
    let mut error = error(ROUTER, OWN, &udp(src, dst), 28);
    assert_eq!(fixture.pass(&mut error, NatDirection::In), NatOutcome::Translated);
    assert_eq!(error[28..48], udp((OWN, 5000), (SERVER, 53))[..20]);
    assert_eq!(error[48..50], 5000_u16.to_be_bytes());
}

#[test]
fn an_error_about_nothing_known_stays_as_it_is_or_is_denied() {
    let about = udp((OWN, 9), (SERVER, 53));
    let stray = error(ROUTER, OWN, &about, 28);
    let mut after = stray.clone();
    assert_eq!(
        Fixture::new(NatConfig::default()).pass(&mut after, NatDirection::In),
        NatOutcome::Untouched
    );
    assert_eq!(after, stray);
    let refused = Fixture::with(NatMode::DenyIn).pass(&mut after, NatDirection::In);
    assert_eq!(refused, NatOutcome::Dropped(NatDropReason::Refused));
}

#[test]
fn errors_about_errors_and_cut_ones_are_left_alone() {
    let mut fixture = Fixture::new(NatConfig::default());
    let about = udp((OWN, 9), (SERVER, 53));
    let inner = error(ROUTER, OWN, &about, 28);
    for mut odd in [error(ROUTER, OWN, &inner, 60), error(ROUTER, OWN, &about, 22)] {
        assert_eq!(fixture.pass(&mut odd, NatDirection::In), NatOutcome::Untouched);
    }
}

#[test]
fn redirects_and_other_messages_pass_as_they_are_and_are_denied_on_the_way_in() {
    // ICMP type 5 is a redirect, 9 a router advertisement, 10 a router solicitation.
    for kind in [5, 9, 10] {
        for direction in [NatDirection::Out, NatDirection::In] {
            let mut fixture = Fixture::new(NatConfig::default());
            let mut message = known_error(&mut fixture, direction);
            assert_eq!(fixture.pass(&mut message.clone(), direction), NatOutcome::Translated);
            message[20] = kind;
            message[22..24].fill(0);
            let sum = checksum::of(&message[20..]).to_be_bytes();
            message[22..24].copy_from_slice(&sum);
            let before = message.clone();
            assert_eq!(
                fixture.pass(&mut message, direction),
                NatOutcome::Untouched,
                "{kind} {direction:?}"
            );
            assert_eq!(message, before);
            let expected = match direction {
                NatDirection::In => NatOutcome::Dropped(NatDropReason::Refused),
                NatDirection::Out => NatOutcome::Untouched,
            };
            let mut fixture = Fixture::with(NatMode::DenyIn);
            known_error(&mut fixture, direction);
            assert_eq!(fixture.pass(&mut message, direction), expected, "{kind} {direction:?}");
        }
    }
}

/// Creates a flow. Returns an error that quotes a packet of this flow, and that arrives in this
/// direction.
fn known_error(fixture: &mut Fixture, direction: NatDirection) -> Vec<u8> {
    let own = fixture.outside((CLIENT, 1025), (SERVER, 53));
    match direction {
        NatDirection::In => error(ROUTER, OWN, &udp(own, (SERVER, 53)), 28),
        NatDirection::Out => error(CLIENT, SERVER, &udp((SERVER, 53), (CLIENT, 1025)), 28),
    }
}
