//! Tests of packets that are forwarded, and of packets that the router ignores.

use super::kit::*;
use crate::{RouteDropCause, RouteFrame, RouteVerdict};
use slipring_wire::MacAddr;

#[test]
fn a_forwarded_ipv4_packet_differs_only_in_ttl_checksum_and_mac_addresses() {
    let frame = udp("10.1.0.2", "10.3.0.2", 80);
    let (port, sent) = forward(&mut engine(), &frame);
    assert_eq!(port, RIGHT);
    let mut expected = frame.clone();
    expected[..6].copy_from_slice(&H2.0);
    expected[6..12].copy_from_slice(&RIGHT_MAC.0);
    patch_v4(&mut expected, 8, &[63]);
    assert_eq!(sent, expected);
    assert!(has_valid_header(&sent));
}

#[test]
fn a_forwarded_ipv6_packet_keeps_traffic_class_and_flow_label() {
    let frame = udp("fd01::2", "fd03::2", 80);
    let (port, sent) = forward(&mut engine(), &frame);
    let mut expected = frame.clone();
    expected[..6].copy_from_slice(&H2.0);
    expected[6..12].copy_from_slice(&RIGHT_MAC.0);
    expected[21] = 63;
    assert_eq!((port, sent), (RIGHT, expected));
}

#[test]
fn every_ttl_above_one_is_decremented_with_a_valid_checksum() {
    for ttl in 2..=255 {
        let mut frame = udp("10.1.0.2", "10.3.0.2", 60);
        patch_v4(&mut frame, 8, &[ttl]);
        let (_, sent) = forward(&mut engine(), &frame);
        assert_eq!(sent[22], ttl - 1);
        assert!(has_valid_header(&sent), "TTL {ttl}");
    }
}

#[test]
fn a_checksum_that_carries_is_updated_without_becoming_the_other_zero() {
    // The loop runs over all values of the identification, so the checksum takes all its values.
    let mut frame = udp("10.1.0.2", "10.3.0.2", 60);
    let mut engine = engine();
    for id in 0..=u16::MAX {
        patch_v4(&mut frame, 4, &id.to_be_bytes());
        let (_, sent) = forward(&mut engine, &frame);
        let mut recomputed = sent.clone();
        patch_v4(&mut recomputed, 4, &id.to_be_bytes());
        assert_eq!(sent, recomputed, "identification {id}");
    }
}

#[test]
fn dscp_and_ecn_bits_pass_unchanged() {
    for tos in 0..=255 {
        let mut frame = udp("10.1.0.2", "10.3.0.2", 60);
        patch_v4(&mut frame, 1, &[tos]);
        assert_eq!(forward(&mut engine(), &frame).1[15], tos);
    }
}

#[test]
fn a_packet_with_a_gateway_goes_to_the_gateways_mac_address() {
    let (port, sent) = forward(&mut engine(), &udp("10.1.0.2", "10.8.1.1", 60));
    assert_eq!((port, &sent[..6]), (RIGHT, &GATEWAY.0[..]));
}

#[test]
fn a_trailer_after_the_ip_packet_is_removed() {
    for (from, to) in [("10.1.0.2", "10.3.0.2"), ("fd01::2", "fd03::2")] {
        let frame = udp(from, to, 70);
        let padded = [&frame[..], &[0xaa; 30]].concat();
        let (_, sent) = forward(&mut engine(), &padded);
        assert_eq!(sent.len(), frame.len());
        assert_eq!(sent[34..], frame[34..]);
    }
}

#[test]
fn a_frame_for_another_mac_address_is_ignored() {
    let mut frame = udp("10.1.0.2", "10.3.0.2", 60);
    frame[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    let before = frame.clone();
    let mut engine = engine();
    assert_eq!(process(&mut engine, &mut frame), RouteVerdict::Drop(RouteDropCause::OtherMac));
    assert_eq!((frame, engine.pop()), (before, None));
}

#[test]
fn a_broadcast_or_multicast_frame_with_a_unicast_packet_is_never_forwarded() {
    for mac in
        [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 0, 0, 5]), MacAddr([0x33, 0x33, 0, 0, 0, 1])]
    {
        for (from, to) in
            [("10.1.0.2", "10.3.0.2"), ("fd01::2", "fd03::2"), ("10.1.0.2", "10.55.0.1")]
        {
            let mut frame = udp(from, to, 80);
            frame[..6].copy_from_slice(&mac.0);
            let mut engine = engine();
            let verdict = process(&mut engine, &mut frame);
            assert_eq!(verdict, RouteVerdict::Drop(RouteDropCause::LinkGroup));
            assert_eq!(engine.pop(), None);
        }
    }
}

#[test]
fn a_fragment_header_of_ipv6_passes_untouched() {
    let mut frame = udp("fd01::2", "fd03::2", 100);
    // Next header: fragment. The fragment header: UDP, offset 8, more fragments.
    frame[20] = 44;
    frame[54..62].copy_from_slice(&[17, 0, 0, 9, 1, 2, 3, 4]);
    let (_, sent) = forward(&mut engine(), &frame);
    assert_eq!(sent[22..], frame[22..]);
}

#[test]
fn an_incomplete_checksum_of_a_local_sender_is_completed() {
    for (from, to) in [("10.1.0.2", "10.3.0.2"), ("fd01::2", "fd03::2")] {
        let whole = udp(from, to, 90);
        let (l4, addresses) = if whole[12] == 8 { (34, 26..34) } else { (54, 22..54) };
        let length = (whole.len() - l4) as u16;
        let pseudo = words(&whole[addresses]).chain([17, length]);
        let mut partial = whole.clone();
        partial[l4 + 6..l4 + 8].copy_from_slice(&plain_sum(pseudo).to_be_bytes());
        let mut engine = engine();
        let frame = RouteFrame { is_partial: true, ..RouteFrame::new(&mut partial, LEFT) };
        let verdict = process_frame(&mut engine, frame);
        assert!(matches!(verdict, RouteVerdict::Forward(_)), "{verdict:?}");
        assert_eq!(partial[l4..], whole[l4..]);
    }
}

#[test]
fn frames_of_two_vrfs_in_one_batch_are_looked_up_in_their_own_tables() {
    let mut blue = udp("10.1.0.2", "10.3.0.2", 60);
    let mut red = udp("10.66.0.9", "10.3.0.2", 60);
    red[..6].copy_from_slice(&RED_MAC.0);
    let mut engine = engine();
    let mut batch = crate::RouteBatch::new();
    let (red, blue) = (RouteFrame::new(&mut red, RED), RouteFrame::new(&mut blue, LEFT));
    engine.process(&mut batch, &mut [red, blue], 0);
    let port = |at| match batch.verdict(at) {
        Some(RouteVerdict::Forward(frame)) => frame.port,
        other => panic!("{other:?}"),
    };
    assert_eq!((port(0), port(1)), (RED, RIGHT));
}

#[test]
fn explanations_agree_with_verdicts_and_change_nothing() {
    let mut engine = engine();
    for to in ["10.3.0.2", "10.55.0.1", "10.3.0.9", "10.90.0.1", "10.1.0.1", "127.0.0.1"] {
        let mut frame = udp("10.1.0.2", to, 60);
        let before = (engine.counters().clone(), frame.clone());
        let steps = engine.explain(&RouteFrame::new(&mut frame, LEFT), 0);
        assert_eq!((engine.counters(), &frame), (&before.0, &before.1));
        let said = steps.iter().find_map(|step| match step {
            crate::RouteStep::Decided(verdict, _) => Some(*verdict),
            _ => None,
        });
        assert_eq!(said, Some(process(&mut engine, &mut frame)));
        assert!(steps.iter().all(|step| !std::string::ToString::to_string(step).is_empty()));
    }
}
