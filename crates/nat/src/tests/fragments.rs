//! Tests of fragmented packets.

use super::*;

/// Returns a datagram as two fragments with the identification `id`.
fn pieces(src: At, dst: At, id: u8) -> [Vec<u8>; 2] {
    let whole = udp(src, dst);
    let piece = |from: usize, to: usize, more: u8, offset: u8| {
        let mut piece = whole[..20].to_vec();
        piece.extend_from_slice(&whole[from..to]);
        (piece[3], piece[5], piece[6], piece[7]) = (piece.len() as u8, id, more, offset);
        settle_header(&mut piece);
        piece
    };
    [piece(20, 28, 0x20, 0), piece(28, whole.len(), 0, 1)]
}

/// Reassembles a datagram, and asserts that its checksum is right.
fn whole([first, later]: [Vec<u8>; 2]) -> Vec<u8> {
    let mut whole = [&first[..], &later[20..]].concat();
    whole[3] = whole.len() as u8;
    whole[6..8].fill(0);
    settle_header(&mut whole);
    check(&whole);
    whole
}

#[test]
fn later_pieces_go_the_way_of_the_first() {
    let mut fixture = Fixture::new(NatConfig::default());
    let mut out = pieces((CLIENT, 1), (SERVER, 53), 3);
    for piece in &mut out {
        assert_eq!(fixture.pass(piece, NatDirection::Out), NatOutcome::Translated);
    }
    let (own, _) = ends(&whole(out));
    assert_eq!(own.0, OWN);
    let mut back = pieces((SERVER, 53), own, 4);
    for piece in &mut back {
        assert_eq!(fixture.pass(piece, NatDirection::In), NatOutcome::Translated);
    }
    assert_eq!(ends(&whole(back)).1, (CLIENT, 1));
}

#[test]
fn a_later_piece_that_comes_in_first_is_dropped_and_counted() {
    let mut fixture = Fixture::new(NatConfig::default());
    let own = fixture.outside((CLIENT, 1), (SERVER, 53));
    let [_, mut later] = pieces((SERVER, 53), own, 4);
    assert_eq!(
        fixture.pass(&mut later, NatDirection::In),
        NatOutcome::Dropped(NatDropReason::UnknownFragment)
    );
    assert_eq!(fixture.nat.counters().unknown_fragment, 1);
}

#[test]
fn a_later_piece_that_goes_out_first_has_the_usual_address() {
    let mut fixture = Fixture::new(NatConfig::default());
    let [mut first, mut later] = pieces((CLIENT, 1), (SERVER, 53), 3);
    assert_eq!(fixture.pass(&mut later, NatDirection::Out), NatOutcome::Translated);
    assert_eq!(fixture.pass(&mut first, NatDirection::Out), NatOutcome::Translated);
    assert_eq!(ends(&whole([first, later])).0.0, OWN);
}

#[test]
fn pieces_are_remembered_for_ten_seconds() {
    let mut fixture = Fixture::new(NatConfig::default());
    let own = fixture.outside((CLIENT, 1), (SERVER, 53));
    let [mut first, later] = pieces((SERVER, 53), own, 4);
    fixture.pass(&mut first, NatDirection::In);
    assert_eq!(fixture.nat.fragments(), 1);
    fixture.wait(9);
    assert_eq!(fixture.pass(&mut later.clone(), NatDirection::In), NatOutcome::Translated);
    fixture.wait(1);
    assert!(matches!(fixture.pass(&mut later.clone(), NatDirection::In), NatOutcome::Dropped(_)));
    assert_eq!(fixture.nat.fragments(), 0);
}

#[test]
fn pieces_of_several_packets_are_not_mixed_up() {
    let mut fixture = Fixture::new(NatConfig::default());
    let clients = [(CLIENT, SERVER, 4), (CLIENT_2, SERVER, 5), ([10, 0, 0, 7], SERVER_2, 4)];
    let mut all = clients.map(|(client, server, id)| {
        let own = fixture.outside((client, 1), (server, 53));
        pieces((server, 53), own, id)
    });
    for index in 0..2 {
        for packet in &mut all {
            assert_eq!(fixture.pass(&mut packet[index], NatDirection::In), NatOutcome::Translated);
        }
    }
    let came_to = all.map(|packet| ends(&whole(packet)).1.0);
    assert_eq!(came_to, clients.map(|(client, ..)| client));
}

#[test]
fn an_identification_used_again_belongs_to_the_last_packet() {
    let mut fixture = Fixture::new(NatConfig::default());
    for client in [CLIENT, CLIENT_2] {
        let own = fixture.outside((client, 1), (SERVER, 53));
        let [mut first, _] = pieces((SERVER, 53), own, 4);
        fixture.pass(&mut first, NatDirection::In);
        fixture.wait(6);
    }
    let [_, mut later] = pieces((SERVER, 53), (OWN, 1), 4);
    assert_eq!(fixture.pass(&mut later, NatDirection::In), NatOutcome::Translated);
    assert_eq!(ends(&later).1.0, CLIENT_2);
}

#[test]
fn the_usual_address_of_a_later_piece_is_that_of_its_source() {
    const PUBLIC: [u8; 4] = [198, 51, 100, 7];
    const ALIAS: [u8; 4] = [203, 0, 113, 20];
    let redirect = Redirect {
        kind: RedirectKind::Address,
        targets: vec![NatEndpoint::new(CLIENT_2.into(), 0)],
        alias: ALIAS.into(),
        remote: RedirectRemote::ANY,
    };
    let modes = NatModes::default().with(NatMode::UnregOnly);
    let config = NatConfig { modes, redirects: vec![redirect], ..NatConfig::default() };
    for (source, address) in [(CLIENT, OWN), (PUBLIC, PUBLIC), (CLIENT_2, ALIAS)] {
        let [_, later] = pieces((source, 1), (SERVER, 53), 3);
        assert_eq!(Fixture::new(config.clone()).out(later).unwrap().0.0, address);
    }
    let outside = OutsideAddress::Interface("em0".into());
    let [_, later] = pieces((CLIENT, 1), (SERVER, 53), 3);
    let mut fixture = Fixture::new(NatConfig { outside, ..NatConfig::default() });
    assert_eq!(fixture.out(later), Err(NatOutcome::Dropped(NatDropReason::NoAddress)));
}

#[test]
fn a_search_in_all_instances_passes_unknown_later_pieces() {
    for way in [NatDirection::Out, NatDirection::In] {
        let mut fixture = Fixture::new(NatConfig::default());
        let [_, later] = pieces((CLIENT, 1), (SERVER, 53), 3);
        let mut after = later.clone();
        let outcome = fixture.nat.translate(&mut after, way, NatScope::Known, 0);
        assert_eq!((outcome, after), (NatOutcome::Untouched, later));
    }
}
