//! VLAN tags: arriving frames get the port that their tags select, and leaving frames get the tags
//! of the egress port.

use alloc::vec::Vec;

use super::kit::*;
use crate::{PortPolicy, PuntClass, RouteFrame, RouteVerdict};
use slipring_wire::assigned::{EtherType, VlanTag};
use slipring_wire::frame::TagSpec;

/// Inserts bytes after the MAC addresses.
fn tagged(mut frame: Vec<u8>, tags: &[u8]) -> Vec<u8> {
    frame.splice(12..12, tags.iter().copied());
    frame
}

#[test]
fn a_tagged_frame_leaves_untagged_and_is_otherwise_the_same() {
    let plain = udp("10.100.0.2", "10.3.0.2", 80);
    let (port, expected) = forward(&mut engine(), &plain);
    let sent = forward(&mut engine(), &tagged(plain, &[0x81, 0, 0, 100]));
    assert_eq!(sent, (port, expected));
}

#[test]
fn an_untagged_frame_leaves_tagged() {
    let (port, sent) = forward(&mut engine(), &udp("10.1.0.2", "10.100.0.2", 80));
    assert_eq!((port, sent.len()), (TAGGED, 84));
    assert_eq!(sent[..18], [&H2.0[..], &LEFT_MAC.0, &[0x81, 0, 0, 100, 8, 0]].concat());
    let (port, sent) = forward(&mut engine(), &udp("10.1.0.2", "10.7.0.2", 80));
    assert_eq!((port, sent.len()), (QINQ, 88));
    assert_eq!(sent[12..22], [0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0]);
    assert_eq!(sent[22..42].len(), 20);
}

#[test]
fn tags_are_exchanged_between_subinterfaces_both_ways() {
    let one = tagged(udp("10.100.0.2", "10.7.0.2", 80), &[0x81, 0, 0, 100]);
    let (port, sent) = forward(&mut engine(), &one);
    assert_eq!((port, &sent[12..22]), (QINQ, &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0][..]));
    let two = tagged(udp("10.7.0.2", "10.100.0.2", 80), &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]);
    let (port, sent) = forward(&mut engine(), &two);
    assert_eq!((port, &sent[12..18]), (TAGGED, &[0x81, 0, 0, 100, 8, 0][..]));
    let two = tagged(udp("10.7.0.2", "10.3.0.2", 80), &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]);
    assert_eq!(forward(&mut engine(), &two).1[12..14], [8, 0]);
}

#[test]
fn priority_and_drop_eligibility_of_a_tag_do_not_matter() {
    let frame = tagged(udp("10.100.0.2", "10.3.0.2", 80), &[0x81, 0, 0xf0, 100]);
    assert_eq!(forward(&mut engine(), &frame).0, RIGHT);
}

#[test]
fn a_priority_tag_counts_as_no_tag() {
    let plain = udp("10.1.0.2", "10.3.0.2", 80);
    let expected = forward(&mut engine(), &plain);
    assert_eq!(forward(&mut engine(), &tagged(plain.clone(), &[0x81, 0, 0xe0, 0])), expected);
    let inside = tagged(udp("10.100.0.2", "10.3.0.2", 80), &[0x81, 0, 0, 0, 0x81, 0, 0, 100]);
    assert_eq!(forward(&mut engine(), &inside).0, RIGHT);
}

#[test]
fn an_unknown_vlan_is_left_to_the_kernel() {
    for tags in [
        &[0x81, 0, 0, 101][..],
        &[0x88, 0xa8, 0, 100],
        &[0x88, 0xa8, 0, 7],
        &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9],
        &[0x81, 0, 0, 7, 0x81, 0, 0, 8],
        &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 0x81, 0, 0, 1],
    ] {
        let mut frame = tagged(udp("10.100.0.2", "10.3.0.2", 80), tags);
        let before = frame.clone();
        let verdict = process(&mut engine(), &mut frame);
        assert_eq!((verdict, &frame), (RouteVerdict::Kernel(PuntClass::Other), &before));
    }
}

#[test]
fn a_tag_that_the_kernel_stripped_names_the_port() {
    let mut frame = udp("10.100.0.2", "10.3.0.2", 80);
    let tag = TagSpec { ethertype: EtherType::VLAN, tag: VlanTag::new(100, 5) };
    let received = RouteFrame { stripped_tag: Some(tag), ..RouteFrame::new(&mut frame, LEFT) };
    let mut engine = engine();
    let verdict = process_frame(&mut engine, received);
    assert!(matches!(verdict, RouteVerdict::Forward(frame) if frame.port == RIGHT));
    assert_eq!(engine.counters().ports[usize::from(TAGGED.0)].rx_packets, 1);
}

#[test]
fn the_priority_of_a_tag_follows_the_dscp_by_the_map_of_the_port() {
    let mut engine = engine();
    let mut policies = std::vec![PortPolicy::default(); 6];
    policies[usize::from(TAGGED.0)].priorities = [0, 1, 2, 3, 4, 5, 6, 7];
    engine.set_policies(policies);
    let mut frame = udp("10.1.0.2", "10.100.0.2", 80);
    // Expedited forwarding is DSCP 46. Its upper three bits are the tag's priority: 5.
    patch_v4(&mut frame, 1, &[46 << 2]);
    assert_eq!(forward(&mut engine, &frame).1[14..16], [5 << 5, 100]);
}

#[test]
fn tags_do_not_count_for_the_mtu() {
    let (_, sent) = forward(&mut engine(), &udp("10.1.0.2", "10.100.0.2", 1514));
    assert_eq!(sent.len(), 1518);
    let mut builder = TableBuilder::usual();
    builder.ports[usize::from(TAGGED.0)].mtu = 1496;
    let verdict = process(&mut builder.engine(), &mut udp("10.1.0.2", "10.100.0.2", 1514));
    assert_eq!(verdict, RouteVerdict::Fragmented);
}
