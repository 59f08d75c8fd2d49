//! What counts as a frame, and how it is counted.

use super::*;

/// Sends a frame of `len` bytes, of which the switch sees the first 18.
fn sends(bed: &mut Bed, frame: &[u8], len: u32) -> bool {
    let packet = SwitchPacket { len, ..packet(frame, 0) };
    bed.switch.forward(0, SwitchPortId(0), 0, [packet], &mut bed.batch);
    let passes = !bed.batch.is_empty();
    deliver_all(&mut bed.batch);
    bed.switch.settle(&mut bed.batch);
    passes
}

#[test]
fn a_frame_has_at_least_a_header_and_its_tag() {
    let mut bed = Bed::plain(2);
    let plain = frame(ALL, 0x11, None);
    assert_eq!([0, 13, 14, 15].map(|len| sends(&mut bed, &plain, len)), [false, false, true, true]);
    assert!(sends(&mut bed, &plain[..14], 14));
    bed.switch.set_vlan_aware(true);
    let tagged = frame(ALL, 0x11, Some(1));
    assert_eq!([14, 17, 18].map(|len| sends(&mut bed, &tagged, len)), [false, false, true]);
    assert!(!sends(&mut bed, &tagged[..15], 15));
    assert!(sends(&mut bed, &plain, 14));
    assert_eq!(bed.dropped(0, SwitchDropReason::Runt), 5);
    let rx = bed.switch.counters(SwitchPortId(0)).unwrap().rx;
    assert_eq!((rx.packets, rx.bytes), (10, 13 + 14 + 15 + 14 + 14 + 17 + 18 + 15 + 14));
}

#[test]
fn a_batch_knows_whether_it_changes_tags_and_whether_it_is_empty() {
    let mut bed = Bed::plain(2);
    let all = frame(ALL, 0x11, None);
    assert!(bed.batch.is_empty());
    bed.switch.forward(0, SwitchPortId(0), 0, [packet(&all, 0)], &mut bed.batch);
    assert!(!bed.batch.is_empty() && bed.batch.destination(0).is_as_is());
    bed.switch.settle(&mut bed.batch);
    assert!(bed.batch.is_empty());
}

#[test]
fn only_frames_to_several_ports_count_as_flooded() {
    let mut bed = Bed::plain(2);
    bed.send(0, &frame(ALL, 0x11, None));
    let counters = |bed: &Bed| {
        let counters = bed.switch.counters(SwitchPortId(0)).unwrap();
        (counters.flooded, counters.copies)
    };
    assert_eq!(counters(&bed), (0, 0), "there is one other port");
    bed.switch.attach(SwitchPortConfig::default()).unwrap();
    bed.switch.attach(SwitchPortConfig::default()).unwrap();
    bed.send(0, &frame(ALL, 0x11, None));
    bed.send(0, &frame(ALL, 0x11, None));
    assert_eq!(counters(&bed), (2, 4));
}

#[test]
fn a_station_that_moves_is_counted_at_its_new_port() {
    let mut bed = Bed::plain(2);
    for source in [0, 1, 1, 0, 1] {
        bed.send(source, &frame(ALL, 0x22, None));
    }
    let counts = [0, 1].map(|port| {
        let counters = bed.switch.counters(SwitchPortId(port)).unwrap();
        (counters.learned, counters.moved)
    });
    assert_eq!(counts, [(1, 1), (0, 2)]);
}

#[test]
fn frames_lost_before_a_decision_are_counted_at_their_source() {
    let mut bed = Bed::plain(2);
    bed.switch.refuse(SwitchPortId(1), SwitchDropReason::TooLong, 3);
    bed.switch.refuse(SwitchPortId(1), SwitchDropReason::TooLong, 2);
    bed.switch.refuse(SwitchPortId(9), SwitchDropReason::TooLong, 1);
    let counters = bed.switch.counters(SwitchPortId(1)).unwrap();
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
