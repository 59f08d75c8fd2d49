//! Tests of counters, of names, and of the decisions that a program makes between two stages.

use alloc::collections::BTreeSet;

use super::kit::*;
use crate::{PuntClass, PuntReason, RouteBatch, RouteDropCause, RouteFrame, RouteVerdict};

#[test]
fn every_cause_class_and_reason_has_a_name_of_its_own() {
    let causes: BTreeSet<_> = RouteDropCause::ALL.iter().map(|cause| cause.name()).collect();
    assert_eq!(causes.len(), RouteDropCause::COUNT);
    let classes: BTreeSet<_> = PuntClass::ALL.iter().map(|class| class.name()).collect();
    assert_eq!(classes.len(), PuntClass::COUNT);
    let reasons: BTreeSet<_> = PuntReason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(reasons.len(), PuntReason::COUNT);
    assert!((0..).zip(RouteDropCause::ALL).all(|(at, cause)| *cause as usize == at));
    assert!((0..).zip(PuntClass::ALL).all(|(at, class)| class as usize == at));
    assert!((0..).zip(PuntReason::ALL).all(|(at, reason)| reason as usize == at));
}

#[test]
fn bytes_and_packets_count_at_the_ports_where_they_come_and_go() {
    let mut engine = engine();
    forward(&mut engine, &udp("10.1.0.2", "10.3.0.2", 100));
    forward(&mut engine, &udp("10.1.0.2", "10.100.0.2", 100));
    let ports = &engine.counters().ports;
    assert_eq!((ports[0].rx_packets, ports[0].rx_bytes), (2, 200));
    assert_eq!((ports[1].tx_packets, ports[1].tx_bytes), (1, 100));
    assert_eq!((ports[2].tx_packets, ports[2].tx_bytes), (1, 104));
}

#[test]
fn a_program_can_decide_between_two_stages() {
    let mut engine = engine();
    let mut bytes = [udp("10.1.0.2", "10.3.0.2", 60), udp("10.1.0.2", "10.3.0.2", 60)];
    let [one, two] = &mut bytes;
    let mut frames = [RouteFrame::new(one, LEFT), RouteFrame::new(two, LEFT)];
    let mut batch = RouteBatch::new();
    engine.parse(&mut batch, &frames);
    assert_eq!((batch.live(), batch.ingress(1), batch.ip_range(0)), (3, LEFT, 14..60));
    engine.settle(&mut batch, 0, RouteVerdict::Drop(RouteDropCause::Rules));
    let problem = slipring_neighbour::icmp::IcmpProblem::Prohibited;
    engine.reject(&mut batch, 1, RouteDropCause::Rules, problem);
    assert_eq!(batch.live(), 0);
    engine.look_up(&mut batch, &frames);
    engine.rewrite(&mut batch, &mut frames, 0);
    engine.answer(&mut batch, &frames, 0);
    assert_eq!(batch.verdict(0), Some(RouteVerdict::Drop(RouteDropCause::Rules)));
    assert_eq!(batch.verdict(1), Some(RouteVerdict::Answered(RouteDropCause::Rules)));
    assert_eq!(only_output(&mut engine).1[34..36], [3, 13]);
    assert!(engine.counters().is_balanced());
    assert_eq!(engine.counters().dropped(RouteDropCause::Rules), 2);
}

#[test]
fn a_frame_that_a_rule_changed_is_parsed_again() {
    let mut engine = engine();
    let mut bytes = udp("10.1.0.2", "192.0.2.1", 60);
    let mut frames = [RouteFrame::new(&mut bytes, LEFT)];
    let mut batch = RouteBatch::new();
    engine.parse(&mut batch, &frames);
    patch_v4(frames[0].bytes, 16, &[10, 3, 0, 2]);
    engine.parse_again(&mut batch, &frames, 0);
    engine.look_up(&mut batch, &frames);
    engine.rewrite(&mut batch, &mut frames, 0);
    assert!(matches!(batch.verdict(0), Some(RouteVerdict::Forward(_))));
    assert!(engine.counters().is_balanced());
}

#[test]
fn a_full_batch_of_64_frames_has_64_verdicts() {
    let mut engine = engine();
    let mut bytes = std::vec![udp("10.1.0.2", "10.3.0.2", 60); 64];
    let mut frames: std::vec::Vec<_> =
        bytes.iter_mut().map(|frame| RouteFrame::new(frame, LEFT)).collect();
    let mut batch = RouteBatch::new();
    engine.process(&mut batch, &mut frames, 0);
    assert!((0..64).all(|at| matches!(batch.verdict(at), Some(RouteVerdict::Forward(_)))));
    assert_eq!(engine.counters().forwarded, 64);
    engine.process(&mut batch, &mut [], 0);
    assert!(batch.is_empty());
}

#[test]
fn a_rule_can_name_another_next_hop() {
    let mut engine = engine();
    let mut bytes = [udp("10.1.0.2", "192.0.2.1", 60), udp("10.1.0.2", "192.0.2.1", 60)];
    let [one, two] = &mut bytes;
    let mut frames = [RouteFrame::new(one, LEFT), RouteFrame::new(two, LEFT)];
    let mut batch = RouteBatch::new();
    engine.parse(&mut batch, &frames);
    assert!(batch.set_next_hop(0, ip("10.3.0.2")));
    assert!(batch.set_next_hop(1, ip("10.3.0.9")));
    assert!(!batch.set_next_hop(1, ip("fd03::9")));
    engine.look_up(&mut batch, &frames);
    assert_eq!(engine.egress(&batch, 0), Some(RIGHT));
    engine.rewrite(&mut batch, &mut frames, 0);
    assert!(matches!(batch.verdict(0), Some(RouteVerdict::Forward(_))));
    let Some(RouteVerdict::Hold(held)) = batch.verdict(1) else { panic!("not held") };
    assert_eq!(held.next_hop, ip("10.3.0.9"));
}

#[test]
fn a_frame_that_no_stage_gets_counts_as_received_and_dropped() {
    let mut engine = engine();
    engine.refuse(LEFT, 60, RouteDropCause::ThreadQueueFull);
    let counters = engine.counters();
    assert!(counters.is_balanced());
    assert_eq!((counters.received(), counters.ports[0].rx_bytes), (1, 60));
    assert_eq!(counters.dropped(RouteDropCause::ThreadQueueFull), 1);
}

#[test]
fn a_full_transmit_queue_drops_and_counts() {
    let mut engine = engine();
    let mut frame = udp("10.1.0.2", "10.3.0.2", 60);
    let RouteVerdict::Forward(forwarded) = process(&mut engine, &mut frame) else {
        panic!("not forwarded")
    };
    engine.unsent(LEFT, &forwarded);
    let counters = engine.counters();
    assert!(counters.is_balanced());
    assert_eq!((counters.received(), counters.forwarded), (1, 0));
    assert_eq!(counters.ports[0].dropped[RouteDropCause::TransmitQueueFull as usize], 1);
    assert_eq!(counters.ports[1].tx_packets, 0);
}
