//! Tests of reass: rules see whole packets, and fragments share their verdict.

use super::*;

const RULES: &str = "disable one_pass\nadd 100 reass ip from any to any\n\
    add 200 allow udp from any to any 53 iplen 128\nadd 300 deny ip from any to any";

/// Builds a datagram of 108 bytes to a port, in fragments of up to 40 bytes of IP payload.
fn pieces(port: u16, id: u8) -> Vec<Vec<u8>> {
    let ports = PortPair { src: 1000, dst: port };
    let whole = spec(A, B, L4Spec::Udp(ports)).build(14 + 128).unwrap().bytes.to_vec();
    (0..3_usize)
        .map(|index| {
            let (from, to) = (34 + index * 40, (34 + index * 40 + 40).min(whole.len()));
            let mut frame = whole[..34].to_vec();
            frame.extend_from_slice(&whole[from..to]);
            let more = if index < 2 { 0x20 } else { 0 };
            let len = (20 + to - from) as u8;
            v4_with(&frame, |ip| (ip[3], ip[5], ip[6], ip[7]) = (len, id, more, (index * 5) as u8))
        })
        .collect()
}

#[test]
fn fragments_wait_and_go_on_together() {
    let mut fixture = Fixture::new(RULES);
    let [a, b, c]: [Vec<u8>; 3] = pieces(53, 1).try_into().unwrap();
    assert_eq!(
        (fixture.check(c.clone()), fixture.check(a.clone())),
        (RuleVerdict::Held, RuleVerdict::Held)
    );
    assert!(fixture.outputs.released.is_empty());
    assert_eq!(fixture.check(b), RuleVerdict::Accept);
    assert_eq!(fixture.outputs.released, [c, a], "in the order in which they came");
    assert_eq!(
        (fixture.count(200), fixture.firewall.fragments().whole, fixture.firewall.fragments_held()),
        (1, 1, 0)
    );
}

#[test]
fn fragments_share_a_denial() {
    let mut fixture = Fixture::new(RULES);
    let verdicts: Vec<_> = pieces(54, 1).into_iter().map(|piece| fixture.check(piece)).collect();
    assert_eq!(
        verdicts,
        [RuleVerdict::Held, RuleVerdict::Held, RuleVerdict::Deny(DenyReason::Rule)]
    );
    assert_eq!(fixture.outputs.released.len(), 2);
}

#[test]
fn with_one_pass_the_whole_is_accepted_at_once() {
    let mut fixture = Fixture::new(RULES);
    fixture.run("enable one_pass");
    let last = pieces(54, 1).into_iter().map(|piece| fixture.check(piece)).last();
    assert_eq!((last, fixture.count(300)), (Some(RuleVerdict::Accept), 0));
}

#[test]
fn packets_that_are_whole_pass_by() {
    let mut fixture =
        Fixture::new("add 100 reass ip from any to any\nadd 200 allow ip from any to any");
    assert!(fixture.passes(udp()) && fixture.passes(udp6()) && fixture.passes(arp()));
}

#[test]
fn fragments_of_different_packets_stay_apart() {
    let mut fixture = Fixture::new(RULES);
    let (one, two) = (pieces(53, 1), pieces(53, 2));
    for piece in [&one[0], &two[1], &two[0], &one[1]] {
        assert_eq!(fixture.check(piece.clone()), RuleVerdict::Held);
    }
    assert_eq!(fixture.check(one[2].clone()), RuleVerdict::Accept);
    assert_eq!(fixture.firewall.fragments_held(), 2);
}

#[test]
fn overlapping_fragments_are_dropped_with_their_packet() {
    let mut fixture = Fixture::new(RULES);
    let all = pieces(53, 1);
    let overlapping = v4_with(&all[1], |ip| ip[7] = 4);
    for piece in [all[0].clone(), overlapping, all[1].clone(), all[2].clone()] {
        assert_eq!(fixture.check(piece), RuleVerdict::Held);
    }
    assert_eq!(
        (fixture.firewall.fragments().overlapping, fixture.firewall.fragments_held()),
        (2, 2)
    );
}

#[test]
fn a_fragment_that_comes_twice_is_dropped_alone() {
    let mut fixture = Fixture::new(RULES);
    let all = pieces(53, 1);
    for piece in [&all[0], &all[0], &all[2], &all[2]] {
        assert_eq!(fixture.check(piece.clone()), RuleVerdict::Held);
    }
    assert_eq!(fixture.firewall.fragments_held(), 2);
    assert_eq!(fixture.check(all[1].clone()), RuleVerdict::Accept);
    let counters = fixture.firewall.fragments();
    assert_eq!((counters.repeated, counters.overlapping, counters.released), (2, 0, 3));
}

#[test]
fn fragments_wait_thirty_seconds_and_no_more_than_so_many() {
    let mut fixture = Fixture::new(RULES);
    fixture.check(pieces(53, 1)[0].clone());
    fixture.now = 30 * SECOND;
    fixture.firewall.tick(fixture.now, &mut fixture.outputs);
    assert_eq!((fixture.firewall.fragments().late, fixture.firewall.fragments_held()), (1, 0));
    for id in 0..2000_u16 {
        let piece = v4_with(&pieces(53, 1)[0], |ip| ip[4..6].copy_from_slice(&id.to_be_bytes()));
        fixture.check(piece);
    }
    assert_eq!(
        (fixture.firewall.fragments().crowded, fixture.firewall.fragments_held()),
        (976, 1024)
    );
}

#[test]
fn a_dscp_set_on_the_whole_reaches_its_fragments() {
    let mut fixture = Fixture::new(
        "disable one_pass\nadd 100 reass ip from any to any\nadd 200 setdscp ef ip from any to any\nadd 300 allow ip from any to any",
    );
    let mut last = Vec::new();
    for mut piece in pieces(53, 1) {
        fixture.cross(&mut piece, &mut PacketMetadata::incoming(0));
        last = piece;
    }
    for frame in fixture.outputs.released.iter().chain([&last]) {
        assert_eq!((frame[15] >> 2, slipring_wire::checksum::of(&frame[14..34])), (46, 0));
    }
}

#[test]
fn fragments_that_only_wait_still_ask_for_a_tick_when_they_are_late() {
    let mut fixture = Fixture::new(RULES);
    assert_eq!(fixture.firewall.next_tick_ns(), None);
    fixture.now = 5 * SECOND;
    let [a, b, _]: [Vec<u8>; 3] = pieces(53, 1).try_into().unwrap();
    assert_eq!(fixture.check(a), RuleVerdict::Held);
    fixture.now = 6 * SECOND;
    assert_eq!(fixture.check(b), RuleVerdict::Held);
    let due = fixture.firewall.next_tick_ns();
    assert_eq!(due, Some(35 * SECOND), "thirty seconds after the first");
    fixture.firewall.tick(35 * SECOND, &mut fixture.outputs);
    assert_eq!((fixture.firewall.fragments_held(), fixture.firewall.fragments().late), (0, 2));
    assert_eq!(fixture.firewall.next_tick_ns(), None);
}
