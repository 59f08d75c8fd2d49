//! Tests of reverse path checks and policers.

use alloc::vec::Vec;

use super::kit::*;
use crate::RouteDropCause as Cause;
use crate::{
    ExceedAction, PolicerSpec, PortPolicer, PortPolicy, PuntClass, RouteEngine, RouteVerdict,
};
use slipring_fib::ReversePathMode;

fn checked(mode: ReversePathMode) -> RouteEngine {
    let mut builder = TableBuilder::usual();
    let all = [
        builder.adjacency(RIGHT, via("10.3.0.3"), Some(GATEWAY)),
        builder.adjacency(LEFT, via("10.1.0.2"), Some(H1)),
    ];
    builder.balance("10.40.0.0/16", &all);
    let mut engine = builder.engine();
    let policy = PortPolicy { reverse_path: mode, ..PortPolicy::default() };
    engine.set_policies([policy].into());
    engine
}

fn verdict(mode: ReversePathMode, source: &str) -> Option<Cause> {
    let to = if source.contains(':') { "fd03::2" } else { "10.3.0.2" };
    match process(&mut checked(mode), &mut udp(source, to, 80)) {
        RouteVerdict::Forward(_) => None,
        RouteVerdict::Drop(cause) => Some(cause),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_strict_check_accepts_only_sources_behind_the_ingress_port() {
    use ReversePathMode::Strict;
    for source in ["10.1.0.2", "10.1.0.9", "fd01::2", "10.40.0.1"] {
        assert_eq!(verdict(Strict, source), None, "{source}");
    }
    for source in ["10.3.0.9", "10.8.0.1", "10.55.0.1", "10.90.0.1", "fd03::9", "fd77::1"] {
        assert_eq!(verdict(Strict, source), Some(Cause::ReversePathStrict), "{source}");
    }
}

#[test]
fn the_loose_check_accepts_sources_with_a_route_that_is_no_black_hole() {
    use ReversePathMode::Loose;
    for source in ["10.1.0.2", "10.3.0.9", "10.8.0.1", "10.40.0.1", "fd03::9"] {
        assert_eq!(verdict(Loose, source), None, "{source}");
    }
    for source in ["10.55.0.1", "10.90.0.1", "10.91.0.1", "fd77::1", "fd90::1"] {
        assert_eq!(verdict(Loose, source), Some(Cause::ReversePathLoose), "{source}");
    }
}

/// An engine whose left port has this kernel setting for the reverse path check.
fn kernels(mode: ReversePathMode) -> RouteEngine {
    let mut builder = TableBuilder::usual();
    builder.ports[usize::from(LEFT.0)].reverse_path = mode;
    builder.engine()
}

#[test]
fn the_kernels_setting_concerns_ipv4_only() {
    let mut engine = kernels(ReversePathMode::Strict);
    let verdict = process(&mut engine, &mut udp("10.3.0.9", "10.3.0.2", 60));
    assert_eq!(verdict, RouteVerdict::Drop(Cause::ReversePathStrict));
    let verdict = process(&mut engine, &mut udp("fd03::9", "fd03::2", 80));
    assert!(matches!(verdict, RouteVerdict::Forward(_)));
}

#[test]
fn the_tables_can_have_a_check_of_ipv6_sources() {
    let mut builder = TableBuilder::usual();
    builder.ports[usize::from(LEFT.0)].reverse_path_v6 = ReversePathMode::Strict;
    let mut engine = builder.engine();
    let verdict = process(&mut engine, &mut udp("fd03::9", "fd03::2", 80));
    assert_eq!(verdict, RouteVerdict::Drop(Cause::ReversePathStrict));
    let verdict = process(&mut engine, &mut udp("10.3.0.9", "10.3.0.2", 60));
    assert!(matches!(verdict, RouteVerdict::Forward(_)));
}

#[test]
fn the_stricter_one_of_the_kernels_setting_and_the_policy_counts() {
    let mut engine = kernels(ReversePathMode::Loose);
    let mut refused = |mode| {
        let policy = PortPolicy { reverse_path: mode, ..PortPolicy::default() };
        engine.set_policies([policy].into());
        ["10.3.0.9", "10.55.0.1"].map(|source| {
            let verdict = process(&mut engine, &mut udp(source, "10.3.0.2", 60));
            matches!(verdict, RouteVerdict::Drop(_))
        })
    };
    assert_eq!(refused(ReversePathMode::Off), [false, true]);
    assert_eq!(refused(ReversePathMode::Strict), [true, true]);
}

/// Like Linux, the router looks up the destination before it checks the source.
#[test]
fn a_packet_without_a_route_is_answered_whatever_its_source_is() {
    let mut engine = kernels(ReversePathMode::Strict);
    let verdict = process(&mut engine, &mut udp("10.3.0.2", "10.55.0.1", 60));
    assert_eq!(verdict, RouteVerdict::Answered(Cause::NoRoute));
    let mut late = udp("10.3.0.2", "10.3.0.9", 60);
    patch_v4(&mut late, 8, &[1]);
    assert_eq!(process(&mut engine, &mut late), RouteVerdict::Drop(Cause::ReversePathStrict));
}

#[test]
fn without_a_check_any_source_passes() {
    assert_eq!(verdict(ReversePathMode::Off, "10.55.0.1"), None);
}

#[test]
fn a_source_whose_route_only_the_kernel_knows_is_checked_by_the_kernel() {
    let mut engine = checked(ReversePathMode::Strict);
    let verdict = process(&mut engine, &mut udp("10.93.0.1", "10.3.0.2", 60));
    assert_eq!(verdict, RouteVerdict::Kernel(PuntClass::Other));
}

#[test]
fn the_check_of_one_port_does_not_concern_the_others() {
    let mut engine = checked(ReversePathMode::Strict);
    let mut frame = udp("10.55.0.1", "10.1.0.2", 60);
    frame[..6].copy_from_slice(&RIGHT_MAC.0);
    let verdict = process_from(&mut engine, &mut frame, RIGHT);
    assert!(matches!(verdict, RouteVerdict::Forward(_)));
}

fn policed(conform_dscp: Option<u8>, exceed: ExceedAction) -> RouteEngine {
    let mut engine = engine();
    // The policer passes two frames of 100 bytes immediately, and then one every 100 us.
    let spec = PolicerSpec { bps: 8_000_000, burst_bytes: 200, conform_dscp, exceed };
    engine.set_policers(PortPolicer::renewed(&[], &[Some(spec)]));
    engine
}

#[test]
fn a_policer_drops_what_exceeds_its_rate() {
    let mut engine = policed(None, ExceedAction::Drop);
    let frame = udp("10.1.0.2", "10.3.0.2", 100);
    forward(&mut engine, &frame);
    forward(&mut engine, &frame);
    let verdict = process(&mut engine, &mut frame.clone());
    assert_eq!(verdict, RouteVerdict::Drop(Cause::Policed));
    let mut batch = crate::RouteBatch::new();
    let mut bytes = frame.clone();
    let mut frames = [crate::RouteFrame::new(&mut bytes, LEFT)];
    engine.process(&mut batch, &mut frames, 100_000);
    assert!(matches!(batch.verdict(0), Some(RouteVerdict::Forward(_))));
}

#[test]
fn a_policer_marks_packets_and_leaves_ecn_and_checksums_right() {
    for (from, to) in [("10.1.0.2", "10.3.0.2"), ("fd01::2", "fd03::2")] {
        let mut engine = policed(Some(46), ExceedAction::Remark(8));
        let mut frame = udp(from, to, 100);
        let dscps = [(); 3].map(|()| {
            let is_v6 = frame[12] == 0x86;
            if !is_v6 {
                patch_v4(&mut frame, 1, &[10 << 2 | 1]);
            }
            let (_, sent) = forward(&mut engine, &frame);
            let class = u16::from_be_bytes([sent[14], sent[15]]);
            if is_v6 {
                assert_eq!(class & 0xf03f, 0x6010 | 0x1, "version, ECN and flow label");
                class >> 6 & 0x3f
            } else {
                assert!(has_valid_header(&sent));
                assert_eq!(class & 0xff03, 0x4501);
                class >> 2 & 0x3f
            }
        });
        assert_eq!(dscps, [46, 46, 8]);
    }
}

fn small_burst(burst_bytes: u64) -> Option<PolicerSpec> {
    Some(PolicerSpec { bps: 8, burst_bytes, conform_dscp: None, exceed: ExceedAction::Drop })
}

fn passes(engine: &mut RouteEngine) -> bool {
    let mut frame = udp("10.1.0.2", "10.3.0.2", 100);
    matches!(process(engine, &mut frame), RouteVerdict::Forward(_))
}

#[test]
fn engines_with_a_common_policer_together_admit_its_rate() {
    let (mut first, mut second) = (engine(), engine());
    let policers = PortPolicer::renewed(&[], &[small_burst(300)]);
    first.set_policers(policers.clone());
    second.set_policers(policers);
    let passed = [(); 4].map(|()| [passes(&mut first), passes(&mut second)]);
    assert_eq!(passed, [[true, true], [true, false], [false, false], [false, false]]);
}

#[test]
fn to_explain_a_packet_takes_no_tokens() {
    let mut engine = engine();
    engine.set_policers(PortPolicer::renewed(&[], &[small_burst(100)]));
    let mut frame = udp("10.1.0.2", "10.3.0.2", 100);
    let steps = [(); 2].map(|()| engine.explain(&crate::RouteFrame::new(&mut frame, LEFT), 0));
    assert_eq!(steps[0], steps[1]);
    assert!(passes(&mut engine) && !passes(&mut engine));
}

#[test]
fn a_policer_that_is_replaced_or_removed_counts_at_once() {
    let mut engine = policed(None, ExceedAction::Drop);
    let mut policers = Vec::new();
    let mut set = |engine: &mut RouteEngine, burst| {
        policers = PortPolicer::renewed(&policers, &[small_burst(burst)]);
        engine.set_policers(policers.clone());
    };
    set(&mut engine, 100);
    assert_eq!([(); 2].map(|()| passes(&mut engine)), [true, false]);
    set(&mut engine, 300);
    assert_eq!([(); 4].map(|()| passes(&mut engine)), [true, true, true, false]);
    set(&mut engine, 300);
    assert!(!passes(&mut engine), "the same one keeps its tokens");
    engine.set_policers(Vec::new());
    assert!(passes(&mut engine));
}

#[test]
fn link_local_sources_are_not_checked_because_they_have_no_route() {
    let mut engine = checked(ReversePathMode::Strict);
    let verdict = process(&mut engine, &mut udp("fe80::2", "fd01::1", 80));
    assert_eq!(verdict, RouteVerdict::Kernel(PuntClass::Other));
    let verdict = process(&mut engine, &mut udp("fe80::2", "fd03::2", 80));
    assert_eq!(verdict, RouteVerdict::Drop(Cause::V6SourceLinkLocal));
}

#[test]
fn a_dscp_of_more_than_six_bits_changes_nothing_else() {
    let mut engine = policed(Some(0xff), ExceedAction::Drop);
    let (_, sent) = forward(&mut engine, &udp("fd01::2", "fd03::2", 100));
    assert_eq!(sent[14..16], [0x6f, 0xd1], "version 6, DSCP 63, ECN 1, flow label 1…");
}
