//! Packets that wait for a neighbour.

use alloc::vec::Vec;

use super::kit::*;
use crate::RouteDropCause as Cause;
use crate::{HeldPacket, RouteEngine, RouteVerdict};

fn hold(engine: &mut RouteEngine, frame: &mut [u8]) -> HeldPacket {
    match process(engine, frame) {
        RouteVerdict::Hold(held) => held,
        other => panic!("not held but {other:?}"),
    }
}

#[test]
fn five_packets_to_an_unresolved_neighbour_are_all_delivered_in_order() {
    let mut engine = engine();
    let mut waiting: Vec<_> = (1..=5u16)
        .map(|id| {
            let mut frame = udp("10.1.0.2", "10.3.0.9", 60);
            patch_v4(&mut frame, 4, &id.to_be_bytes());
            let before = frame.clone();
            let held = hold(&mut engine, &mut frame);
            assert_eq!((held.port, held.next_hop), (RIGHT, ip("10.3.0.9")));
            assert_eq!(frame, before, "held frames are unchanged");
            (held, frame)
        })
        .collect();
    assert_eq!(engine.counters().held, 5);
    for (id, (held, frame)) in (1..=5u16).zip(&mut waiting) {
        let verdict = engine.release(held, frame, GATEWAY, 9);
        let RouteVerdict::Forward(out) = verdict else { panic!("{verdict:?}") };
        assert_eq!((out.port, out.range()), (RIGHT, 0..60));
        let mut expected = udp("10.1.0.2", "10.3.0.9", 60);
        expected[..6].copy_from_slice(&GATEWAY.0);
        expected[6..12].copy_from_slice(&RIGHT_MAC.0);
        patch_v4(&mut expected, 8, &[63]);
        patch_v4(&mut expected, 4, &id.to_be_bytes());
        assert_eq!(*frame, expected);
    }
    let counters = engine.counters();
    assert_eq!((counters.held, counters.forwarded), (0, 5));
    assert!(counters.is_balanced());
}

#[test]
fn the_next_hop_of_an_ipv6_packet_on_the_link_is_its_destination() {
    let held = hold(&mut engine(), &mut udp("fd01::2", "fd03::9", 80));
    assert_eq!((held.port, held.next_hop, held.frame_len()), (RIGHT, ip("fd03::9"), 80));
}

#[test]
fn a_held_packet_that_is_given_back_too_short_is_dropped_by_the_cause_of_its_family() {
    for (from, to, cause) in [
        ("10.1.0.2", "10.3.0.9", Cause::V4BeyondFrame),
        ("fd01::2", "fd03::9", Cause::V6BeyondFrame),
    ] {
        let (mut engine, mut frame) = (engine(), udp(from, to, 80));
        let held = hold(&mut engine, &mut frame);
        let verdict = engine.release(&held, &mut frame[..79], GATEWAY, 0);
        assert_eq!(verdict, RouteVerdict::Drop(cause));
        assert!(engine.counters().is_balanced());
    }
}

#[test]
fn an_unresolved_gateway_is_the_next_hop_even_of_the_other_family() {
    let mut builder = TableBuilder::usual();
    builder.forward("10.20.0.0/16", RIGHT, via("fe80::9"), None);
    let held = hold(&mut builder.engine(), &mut udp("10.1.0.2", "10.20.0.1", 60));
    assert_eq!(held.next_hop, ip("fe80::9"));
}

#[test]
fn an_unanswered_neighbour_is_reported_to_the_sender_as_host_unreachable() {
    for (from, to, kind_at, kind) in
        [("10.1.0.2", "10.3.0.9", 34, [3, 1]), ("fd01::2", "fd03::9", 54, [1, 3])]
    {
        let mut engine = engine();
        let mut frame = udp(from, to, 80);
        let before = frame.clone();
        let held = hold(&mut engine, &mut frame);
        let verdict = engine.unanswered(&held, &frame, 3_000_000_000);
        assert_eq!(verdict, RouteVerdict::Answered(Cause::NeighbourUnanswered));
        let (port, error) = only_output(&mut engine);
        assert_eq!((port, &error[kind_at..kind_at + 2]), (LEFT, &kind[..]));
        assert_eq!(error[kind_at + 8..], before[14..]);
        assert!(engine.counters().is_balanced());
        assert_eq!(engine.counters().dropped(Cause::NeighbourUnanswered), 1);
    }
}

#[test]
fn a_discarded_packet_counts_by_its_cause() {
    let mut engine = engine();
    let held = hold(&mut engine, &mut udp("10.1.0.2", "10.3.0.9", 60));
    engine.discard(&held, Cause::HoldQueueFull);
    assert_eq!(engine.counters().dropped(Cause::HoldQueueFull), 1);
    assert!(engine.counters().is_balanced() && engine.pop().is_none());
}

#[test]
fn what_expires_or_is_too_big_does_not_wait() {
    let mut builder = TableBuilder::usual();
    builder.ports[1].mtu = 1400;
    let mut engine = builder.engine();
    let mut frame = udp("10.1.0.2", "10.3.0.9", 60);
    patch_v4(&mut frame, 8, &[1]);
    assert_eq!(process(&mut engine, &mut frame), RouteVerdict::Answered(Cause::TtlExpired));
    let verdict = process(&mut engine, &mut udp("fd01::2", "fd03::9", 1450));
    assert_eq!(verdict, RouteVerdict::Answered(Cause::V6TooBig));
}

#[test]
fn a_packet_is_fragmented_when_it_is_released() {
    let mut builder = TableBuilder::usual();
    builder.ports[1].mtu = 600;
    let mut engine = builder.engine();
    let mut frame = udp("10.1.0.2", "10.3.0.9", 1000);
    let held = hold(&mut engine, &mut frame);
    assert_eq!(engine.release(&held, &mut frame, GATEWAY, 0), RouteVerdict::Fragmented);
    assert_eq!(core::iter::from_fn(|| engine.pop()).count(), 2);
    assert!(engine.counters().is_balanced());
}

#[test]
fn a_packet_whose_port_went_down_while_it_waited_is_answered() {
    let mut builder = TableBuilder::usual();
    let mut engine = builder.engine();
    let mut frame = udp("10.1.0.2", "10.3.0.9", 60);
    let held = hold(&mut engine, &mut frame);
    builder.ports[1].is_up = false;
    engine.set_tables(builder.build());
    let verdict = engine.release(&held, &mut frame, GATEWAY, 0);
    assert_eq!(verdict, RouteVerdict::Answered(Cause::PortDown));
    assert!(engine.counters().is_balanced());
}

#[test]
fn a_scan_of_a_subnet_takes_no_memory_in_the_engine() {
    let mut builder = TableBuilder::usual();
    builder.forward("10.50.0.0/16", RIGHT, slipring_fib::NextHopAddress::OnLink, None);
    let mut engine = builder.engine();
    for host in 1..=65_534u16 {
        let mut frame = udp("10.1.0.2", "10.50.0.0", 60);
        patch_v4(&mut frame, 18, &host.to_be_bytes());
        let held = hold(&mut engine, &mut frame);
        engine.discard(&held, Cause::HoldQueueFull);
    }
    assert_eq!((engine.pop(), engine.counters().held), (None, 0));
    assert_eq!(engine.counters().dropped(Cause::HoldQueueFull), 65_534);
    assert!(engine.counters().is_balanced());
}
