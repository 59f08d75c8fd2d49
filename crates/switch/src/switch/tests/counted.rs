//! Tests of what counts as a frame, and of how it is counted.

use super::*;

/// Sends a frame of `len` bytes with this header; returns whether the frame has a destination.
fn sends(fixture: &mut Fixture, frame: &[u8], len: u32) -> bool {
    let packet = SwitchPacket { len, ..packet(frame, 0) };
    fixture.switch.forward(0, SwitchPortId(0), 0, [packet], &mut fixture.batch);
    let passes = !fixture.batch.is_empty();
    deliver_all(&mut fixture.batch);
    fixture.switch.settle(&mut fixture.batch);
    passes
}

#[test]
fn a_frame_has_at_least_a_header_and_its_tag() {
    let mut fixture = Fixture::plain(2);
    let plain = frame(ALL, 0x11, None);
    assert_eq!(
        [0, 13, 14, 15].map(|len| sends(&mut fixture, &plain, len)),
        [false, false, true, true]
    );
    assert!(sends(&mut fixture, &plain[..14], 14));
    fixture.switch.set_vlan_aware(true);
    let tagged = frame(ALL, 0x11, Some(1));
    assert_eq!([14, 17, 18].map(|len| sends(&mut fixture, &tagged, len)), [false, false, true]);
    assert!(!sends(&mut fixture, &tagged[..15], 15));
    assert!(sends(&mut fixture, &plain, 14));
    assert_eq!(fixture.dropped(0, SwitchDropReason::Runt), 5);
    let rx = fixture.switch.counters(SwitchPortId(0)).unwrap().rx;
    assert_eq!((rx.packets, rx.bytes), (10, 13 + 14 + 15 + 14 + 14 + 17 + 18 + 15 + 14));
}

#[test]
fn a_batch_knows_whether_it_changes_tags_and_whether_it_is_empty() {
    let mut fixture = Fixture::plain(2);
    let all = frame(ALL, 0x11, None);
    assert!(fixture.batch.is_empty());
    fixture.switch.forward(0, SwitchPortId(0), 0, [packet(&all, 0)], &mut fixture.batch);
    assert!(!fixture.batch.is_empty() && fixture.batch.destination(0).is_as_is());
    fixture.switch.settle(&mut fixture.batch);
    assert!(fixture.batch.is_empty());
}

#[test]
fn only_frames_to_several_ports_count_as_flooded() {
    let mut fixture = Fixture::plain(2);
    fixture.send(0, &frame(ALL, 0x11, None));
    let counters = |fixture: &Fixture| {
        let counters = fixture.switch.counters(SwitchPortId(0)).unwrap();
        (counters.flooded, counters.copies)
    };
    assert_eq!(counters(&fixture), (0, 0), "there is one other port");
    fixture.switch.attach(SwitchPortConfig::default()).unwrap();
    fixture.switch.attach(SwitchPortConfig::default()).unwrap();
    fixture.send(0, &frame(ALL, 0x11, None));
    fixture.send(0, &frame(ALL, 0x11, None));
    assert_eq!(counters(&fixture), (2, 4));
}

#[test]
fn a_station_that_moves_is_counted_at_its_new_port() {
    let mut fixture = Fixture::plain(2);
    for source in [0, 1, 1, 0, 1] {
        fixture.send(source, &frame(ALL, 0x22, None));
    }
    let counts = [0, 1].map(|port| {
        let counters = fixture.switch.counters(SwitchPortId(port)).unwrap();
        (counters.learned, counters.moved)
    });
    assert_eq!(counts, [(1, 1), (0, 2)]);
}

#[test]
fn frames_lost_before_a_decision_are_counted_at_their_source() {
    let mut fixture = Fixture::plain(2);
    fixture.switch.refuse(SwitchPortId(1), SwitchDropReason::TooLong, 3);
    fixture.switch.refuse(SwitchPortId(1), SwitchDropReason::TooLong, 2);
    fixture.switch.refuse(SwitchPortId(9), SwitchDropReason::TooLong, 1);
    let counters = fixture.switch.counters(SwitchPortId(1)).unwrap();
    assert_eq!((counters.rx.packets, counters.rx.bytes), (5, 0));
    assert!(counters.drops().eq([(SwitchDropReason::TooLong, 5)]));
}

#[test]
fn reasons_have_stable_names() {
    let names = SwitchDropReason::ALL.map(SwitchDropReason::name);
    let expected = "runt same_port unknown_unicast no_destination no_such_port isolated \
        vlan_ingress vlan_egress storm_broadcast storm_multicast storm_unknown lookup \
        destination_full too_long restart";
    assert!(names.into_iter().eq(expected.split_whitespace()));
}
