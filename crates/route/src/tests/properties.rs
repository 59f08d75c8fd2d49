//! Properties that hold for any frame.

use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::kit::*;
use crate::{
    ExceedAction, PolicerSpec, PortPolicer, PortPolicy, RouteBatch, RouteConfig, RouteEngine,
    RouteFrame, RouteOutput, RouteVerdict,
};
use slipring_fib::{FibPortIndex, ReversePathMode};
use slipring_neighbour::icmp::IcmpLimits;

/// Destinations and sources of every kind.
const V4: [&str; 14] = [
    "10.1.0.2",
    "10.3.0.2",
    "10.3.0.9",
    "10.8.0.1",
    "10.40.0.1",
    "10.55.0.1",
    "10.90.0.1",
    "10.92.0.1",
    "10.93.0.1",
    "10.100.0.2",
    "10.7.0.2",
    "10.99.0.1",
    "224.0.0.5",
    "127.0.0.1",
];
const V6: [&str; 8] =
    ["fd01::2", "fd03::2", "fd03::9", "fd40::1", "fd77::1", "fe80::2", "ff02::1", "::"];

fn pair() -> impl Strategy<Value = (&'static str, &'static str)> {
    let pairs = |all: &'static [&'static str]| {
        (proptest::sample::select(all), proptest::sample::select(all))
    };
    prop_oneof![pairs(&V4), pairs(&V6)]
}

/// A nearly valid frame: some bytes changed, a tag added, or the frame cut.
fn nearly_valid() -> impl Strategy<Value = Vec<u8>> {
    let tag = prop_oneof![
        3 => Just(Vec::new()),
        1 => Just(Vec::from([0x81u8, 0, 0, 100])),
        1 => Just(Vec::from([0x88u8, 0xa8, 0, 7, 0x81, 0, 0, 8])),
        1 => Just(Vec::from([0x81u8, 0, 0, 0])),
    ];
    let changes = vec((0usize..70, any::<u8>()), 0..4);
    (pair(), 62usize..1700, tag, changes, any::<bool>(), 0usize..1700).prop_map(
        |((from, to), len, tag, changes, is_repaired, cut)| {
            let mut frame = udp(from, to, len);
            for (at, value) in changes {
                frame[at.min(len - 1)] = value;
            }
            if is_repaired && frame[14] == 0x45 {
                patch_v4(&mut frame, 0, &[0x45]);
            }
            frame.splice(12..12, tag);
            if cut < 60 {
                frame.truncate(cut);
            }
            frame
        },
    )
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => nearly_valid(), 1 => vec(any::<u8>(), 0..200)]
}

/// An engine with most features in use.
fn busy_engine() -> RouteEngine {
    let mut builder = TableBuilder::usual();
    builder.ports[1].mtu = 1300;
    let all = [
        builder.adjacency(RIGHT, via("10.3.0.3"), Some(GATEWAY)),
        builder.adjacency(LEFT, via("10.1.0.9"), None),
    ];
    builder.balance("10.40.0.0/16", &all);
    builder.balance("fd40::/16", &all);
    let config =
        RouteConfig { sends_redirects: true, uses_flow_label: true, ..RouteConfig::default() };
    let mut engine = RouteEngine::new(config, builder.build());
    let exceed = ExceedAction::Remark(8);
    let policer = PolicerSpec { bps: 1000, burst_bytes: 3000, conform_dscp: None, exceed };
    let policy =
        |reverse_path| PortPolicy { reverse_path, priorities: [7; 8], ..PortPolicy::default() };
    engine.set_policies([policy(ReversePathMode::Off), policy(ReversePathMode::Loose)].into());
    engine.set_policers(PortPolicer::renewed(&[], &[Some(policer); 2]));
    engine
}

proptest! {
    #[test]
    fn no_frame_makes_the_engine_panic_and_every_frame_is_counted_once(
        mut bytes in vec(frame(), 0..64),
        ingress in vec(0u16..8, 64),
        is_partial: bool,
    ) {
        let mut engine = busy_engine();
        let mut batch = RouteBatch::new();
        let before = bytes.clone();
        let mut frames: Vec<_> = bytes.iter_mut().zip(&ingress).map(|(frame, port)| {
            RouteFrame { is_partial, ..RouteFrame::new(frame, FibPortIndex(*port)) }
        }).collect();
        engine.process(&mut batch, &mut frames, 0);
        let mut held = Vec::new();
        for (at, frame) in before.iter().enumerate() {
            let verdict = batch.verdict(at).expect("every frame has a verdict");
            match verdict {
                RouteVerdict::Forward(out) => prop_assert!(out.range().end <= frame.len()),
                RouteVerdict::Fragmented => {}
                _ => prop_assert_eq!(&*frames[at].bytes, &frame[..], "unchanged"),
            }
            if let RouteVerdict::Hold(packet) = verdict {
                held.push((packet, frame.clone()));
            }
        }
        prop_assert_eq!(engine.counters().received(), before.len() as u64);
        prop_assert!(engine.counters().is_balanced());
        while let Some(output) = engine.pop() {
            match output {
                RouteOutput::Hold { held: packet, frame } => held.push((packet, frame)),
                RouteOutput::Send { frame, .. } => engine.recycle(frame),
            }
        }
        prop_assert_eq!(engine.counters().held, held.len() as u64);
        for (at, (packet, mut frame)) in held.into_iter().enumerate() {
            if at % 2 == 0 {
                engine.release(&packet, &mut frame, H2, 0);
            } else {
                engine.unanswered(&packet, &frame, 0);
            }
        }
        // The ICMP errors about packets whose next hop has not answered may also wait for a
        // neighbour, so they count as held, too.
        let waiting = core::iter::from_fn(|| engine.pop())
            .filter(|output| matches!(output, RouteOutput::Hold { .. }))
            .count();
        prop_assert_eq!(engine.counters().held, waiting as u64);
        prop_assert!(engine.counters().is_balanced());
    }

    #[test]
    fn a_batch_decides_about_each_frame_as_if_it_were_alone(bytes in vec(frame(), 1..20)) {
        let mut together = bytes.clone();
        let mut frames: Vec<_> =
            together.iter_mut().map(|frame| RouteFrame::new(frame, LEFT)).collect();
        let mut batch = RouteBatch::new();
        // There are no limits on ICMP errors, because the frames of a batch would share them.
        let unlimited = || {
            let mut engine = busy_engine();
            engine.set_icmp_limits(IcmpLimits {
                per_second: u32::MAX,
                burst: u32::MAX,
                destination_per_second: u32::MAX,
                destination_burst: u32::MAX,
            });
            engine
        };
        unlimited().process(&mut batch, &mut frames, 0);
        for (at, frame) in bytes.iter().enumerate() {
            let mut alone = frame.clone();
            let verdict = process(&mut unlimited(), &mut alone);
            let same_kind = match (verdict, batch.verdict(at).unwrap()) {
                (RouteVerdict::Hold(a), RouteVerdict::Hold(b)) => a.next_hop == b.next_hop,
                (a, b) => a == b,
            };
            prop_assert!(same_kind, "{:?} but {:?}", verdict, batch.verdict(at));
        }
    }

    #[test]
    fn a_forwarded_packet_differs_only_in_hops_checksum_and_link_header(frame in nearly_valid()) {
        let mut engine = engine();
        let mut bytes = frame.clone();
        if let RouteVerdict::Forward(out) = process(&mut engine, &mut bytes) {
            let sent = [out.prepend(), &bytes[out.range()]].concat();
            let link_len = |frame: &[u8]| match [frame[12], frame[13]] {
                [0x81, 0] => 18,
                [0x88, 0xa8] => 22,
                _ => 14,
            };
            let sent = &sent[link_len(&sent)..];
            let mut expected = frame[link_len(&frame)..][..sent.len()].to_vec();
            if expected[0] >> 4 == 6 {
                expected[7] -= 1;
            } else {
                prop_assert_eq!(plain_sum(words(&sent[..20])), 0xffff);
                expected[8] -= 1;
                expected[10..12].copy_from_slice(&sent[10..12]);
            }
            prop_assert_eq!(sent, &expected[..]);
        }
    }
}
