//! Tests of ICMP and ICMPv6 errors: their contents, recipients and routes, and when none is sent.

use alloc::vec::Vec;

use super::kit::*;
use crate::RouteDropCause as Cause;
use crate::{RouteConfig, RouteEngine, RouteVerdict};
use slipring_fib::FibPortIndex;
use slipring_neighbour::icmp::IcmpLimits;

/// The parts of an IPv4 ICMP error.
#[derive(Debug, PartialEq, Eq)]
struct Error4 {
    port: FibPortIndex,
    source: [u8; 4],
    destination: [u8; 4],
    kind: (u8, u8),
    rest: u32,
    quote: Vec<u8>,
}

/// Parses the ICMP error that the router made, and checks its checksums.
fn error4(engine: &mut RouteEngine) -> Error4 {
    let (port, frame) = only_output(engine);
    assert_eq!(frame[12..15], [8, 0, 0x45]);
    assert_eq!(frame[15] >> 5, 6, "internetwork control: RFC 1812, 4.3.2.5");
    assert!(has_valid_header(&frame));
    let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    assert_eq!(frame.len(), 14 + total);
    assert!(total <= 576, "RFC 1812, 4.3.2.3");
    assert_eq!(plain_sum(words(&frame[34..])), 0xffff);
    let quad = |at: usize| [frame[at], frame[at + 1], frame[at + 2], frame[at + 3]];
    Error4 {
        port,
        source: quad(26),
        destination: quad(30),
        kind: (frame[34], frame[35]),
        rest: u32::from_be_bytes(quad(38)),
        quote: frame[42..].to_vec(),
    }
}

/// Returns type, code, the 32 bits after the checksum, source, and quote of an ICMPv6 error.
fn error6(engine: &mut RouteEngine) -> (u8, u8, u32, Vec<u8>, Vec<u8>) {
    let (port, frame) = only_output(engine);
    assert_eq!(port, LEFT);
    assert_eq!(frame[..6], H1.0);
    assert_eq!((frame[14] >> 4, frame[20]), (6, 58));
    let length = u16::from_be_bytes([frame[18], frame[19]]);
    assert_eq!(frame.len(), 54 + usize::from(length));
    assert!(frame.len() - 14 <= 1280, "RFC 4443, 2.4 c");
    let pseudo = words(&frame[22..54]).chain([length, 58]);
    assert_eq!(plain_sum(pseudo.chain(words(&frame[54..]))), 0xffff);
    let rest = u32::from_be_bytes([frame[58], frame[59], frame[60], frame[61]]);
    (frame[54], frame[55], rest, frame[22..38].to_vec(), frame[62..].to_vec())
}

fn octets6(address: &str) -> Vec<u8> {
    match ip(address) {
        core::net::IpAddr::V6(address) => address.octets().to_vec(),
        core::net::IpAddr::V4(_) => panic!("not IPv6"),
    }
}

/// Asserts that an IPv4 packet is answered with an error from the ingress address.
fn assert_answered4(frame: &[u8], cause: Cause, kind: (u8, u8), rest: u32) {
    let mut engine = engine();
    let mut bytes = frame.to_vec();
    assert_eq!(process(&mut engine, &mut bytes), RouteVerdict::Answered(cause));
    assert_eq!(bytes, frame, "the frame is unchanged");
    let error = error4(&mut engine);
    assert_eq!((error.kind, error.rest), (kind, rest));
    assert_eq!((error.source, error.destination), ([10, 1, 0, 1], [10, 1, 0, 2]));
    assert_eq!(error.port, LEFT);
    let quoted = &frame[14..frame.len().min(14 + 548)];
    assert_eq!(error.quote, quoted, "the packet is quoted unchanged");
}

#[test]
fn an_expired_ttl_is_answered_with_time_exceeded_from_the_ingress_address() {
    for ttl in [0, 1] {
        let mut frame = udp("10.1.0.2", "10.3.0.2", 1000);
        patch_v4(&mut frame, 8, &[ttl]);
        assert_answered4(&frame, Cause::TtlExpired, (11, 0), 0);
    }
}

#[test]
fn each_kind_of_route_without_a_next_hop_has_its_answer() {
    assert_answered4(&udp("10.1.0.2", "10.55.0.1", 60), Cause::NoRoute, (3, 0), 0);
    assert_answered4(&udp("10.1.0.2", "10.91.0.1", 60), Cause::Unreachable, (3, 1), 0);
    assert_answered4(&udp("10.1.0.2", "10.92.0.1", 60), Cause::Prohibited, (3, 13), 0);
    let mut engine = engine();
    let verdict = process(&mut engine, &mut udp("10.1.0.2", "10.90.0.1", 60));
    assert_eq!((verdict, engine.pop()), (RouteVerdict::Drop(Cause::Blackhole), None));
}

#[test]
fn each_kind_of_ipv6_route_without_a_next_hop_has_its_answer() {
    for (to, cause, code) in [
        ("fd77::1", Cause::NoRoute, 0),
        ("fd91::1", Cause::Unreachable, 3),
        ("fd92::1", Cause::Prohibited, 1),
    ] {
        let (frame, mut engine) = (udp("fd01::2", to, 80), engine());
        assert_eq!(process(&mut engine, &mut frame.clone()), RouteVerdict::Answered(cause));
        let error = error6(&mut engine);
        assert_eq!(error, (1, code, 0, octets6("fd01::1"), frame[14..].to_vec()));
    }
}

#[test]
fn an_expired_hop_limit_is_answered_with_time_exceeded() {
    for hops in [0, 1] {
        let (mut frame, mut engine) = (udp("fd01::2", "fd03::2", 1400), engine());
        frame[21] = hops;
        let before = frame.clone();
        let verdict = process(&mut engine, &mut frame);
        assert_eq!(verdict, RouteVerdict::Answered(Cause::HopLimitExpired));
        let (kind, code, rest, source, quote) = error6(&mut engine);
        assert_eq!((kind, code, rest, source), (3, 0, 0, octets6("fd01::1")));
        assert_eq!(quote, before[14..14 + 1280 - 48]);
    }
}

#[test]
fn a_large_packet_that_must_not_be_fragmented_is_answered_with_the_mtu() {
    let mut builder = TableBuilder::usual();
    builder.ports[1].mtu = 1400;
    let mut engine = builder.engine();
    let mut frame = udp("10.1.0.2", "10.3.0.2", 1474);
    patch_v4(&mut frame, 6, &[0x40, 0]);
    assert_eq!(process(&mut engine, &mut frame), RouteVerdict::Answered(Cause::V4TooBig));
    let error = error4(&mut engine);
    assert_eq!((error.kind, error.rest), ((3, 4), 1400));
    // A packet whose length is exactly the MTU passes.
    let mut frame = udp("10.1.0.2", "10.3.0.2", 1414);
    patch_v4(&mut frame, 6, &[0x40, 0]);
    forward(&mut engine, &frame);
}

#[test]
fn a_large_ipv6_packet_is_answered_with_the_mtu_and_never_fragmented() {
    let mut builder = TableBuilder::usual();
    builder.ports[1].mtu = 1400;
    let mut engine = builder.engine();
    let verdict = process(&mut engine, &mut udp("fd01::2", "fd03::2", 1415));
    assert_eq!(verdict, RouteVerdict::Answered(Cause::V6TooBig));
    let (kind, code, mtu, ..) = error6(&mut engine);
    assert_eq!((kind, code, mtu), (2, 0, 1400));
    forward(&mut engine, &udp("fd01::2", "fd03::2", 1414));
}

#[test]
fn the_mtu_of_a_route_counts_if_it_is_less_than_that_of_the_port() {
    let mut builder = TableBuilder::usual();
    let target = builder.forward("10.20.0.0/16", RIGHT, via("10.3.0.3"), Some(GATEWAY));
    let target6 = builder.forward("fd20::/16", RIGHT, via("fd03::3"), Some(GATEWAY));
    builder.set_mtu(target, 1300);
    builder.set_mtu(target6, 1000);
    let mut engine = builder.engine();
    let mut frame = udp("10.1.0.2", "10.20.0.1", 1414);
    patch_v4(&mut frame, 6, &[0x40, 0]);
    assert_eq!(process(&mut engine, &mut frame), RouteVerdict::Answered(Cause::V4TooBig));
    assert_eq!(error4(&mut engine).rest, 1300);
    // IPv6 nodes never reduce packets below 1280 bytes (RFC 8201, 4), so the error does not report
    // less.
    process(&mut engine, &mut udp("fd01::2", "fd20::1", 1414));
    assert_eq!(error6(&mut engine).2, 1280);
    forward(&mut engine, &udp("fd01::2", "fd20::1", 1294));
}

#[test]
fn the_mtu_of_a_route_does_not_count_if_it_is_greater_than_that_of_the_port() {
    let mut builder = TableBuilder::usual();
    let target = builder.forward("10.20.0.0/16", RIGHT, via("10.3.0.3"), Some(GATEWAY));
    builder.set_mtu(target, 9000);
    let mut engine = builder.engine();
    let mut frame = udp("10.1.0.2", "10.20.0.1", 1515);
    patch_v4(&mut frame, 6, &[0x40, 0]);
    assert_eq!(process(&mut engine, &mut frame), RouteVerdict::Answered(Cause::V4TooBig));
    assert_eq!(error4(&mut engine).rest, 1500);
}

#[test]
fn a_port_that_is_down_is_answered_with_host_unreachable() {
    let mut builder = TableBuilder::usual();
    builder.ports[1].is_up = false;
    let mut engine = builder.engine();
    let verdict = process(&mut engine, &mut udp("10.1.0.2", "10.3.0.2", 60));
    assert_eq!(verdict, RouteVerdict::Answered(Cause::PortDown));
    assert_eq!(error4(&mut engine).kind, (3, 1));
    process(&mut engine, &mut udp("fd01::2", "fd03::2", 80));
    assert_eq!(error6(&mut engine).1, 3);
}

/// In netmap-fwd, errors left by the ingress port without a lookup. So traceroute worked only from
/// adjacent hosts.
#[test]
fn an_error_goes_where_the_route_to_the_sender_leads_and_not_back_where_the_packet_came_from() {
    let mut engine = engine();
    // The packet arrives on the left port. The route to its source leads to the right port.
    let verdict = process(&mut engine, &mut udp("10.8.0.1", "10.55.0.1", 60));
    assert_eq!(verdict, RouteVerdict::Answered(Cause::NoRoute));
    let (port, frame) = only_output(&mut engine);
    assert_eq!((port, &frame[..6], &frame[6..12]), (RIGHT, &GATEWAY.0[..], &RIGHT_MAC.0[..]));
    assert_eq!(frame[26..34], [10, 1, 0, 1, 10, 8, 0, 1], "still from the ingress address");
}

#[test]
fn an_error_is_looked_up_in_the_vrf_of_the_packet() {
    let mut engine = engine();
    let mut frame = udp("10.3.0.9", "10.55.0.1", 60);
    frame[..6].copy_from_slice(&RED_MAC.0);
    let verdict = process_from(&mut engine, &mut frame, RED);
    assert_eq!(verdict, RouteVerdict::Answered(Cause::NoRoute));
    let (port, error) = only_output(&mut engine);
    assert_eq!((port, &error[..6]), (RED, &GATEWAY.0[..]));
    assert_eq!(error[26..30], [10, 66, 0, 1]);
}

#[test]
fn an_error_is_looked_up_in_the_first_vrf_if_the_router_says_so() {
    let config = RouteConfig { answers_in_first_vrf: true, ..RouteConfig::default() };
    let mut engine = RouteEngine::new(config, TableBuilder::usual().build());
    let mut frame = udp("10.3.0.2", "10.55.0.1", 60);
    frame[..6].copy_from_slice(&RED_MAC.0);
    process_from(&mut engine, &mut frame, RED);
    let (port, error) = only_output(&mut engine);
    assert_eq!((port, &error[..6]), (RIGHT, &H2.0[..]));
}

#[test]
fn a_port_without_addresses_sends_errors_from_one_of_another_port_of_its_vrf() {
    let mut engine = engine();
    let mut frame = udp("10.1.0.2", "10.55.0.1", 60);
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 5]);
    assert_eq!(process_from(&mut engine, &mut frame, DOWN), RouteVerdict::Answered(Cause::NoRoute));
    assert_eq!(error4(&mut engine).source, [10, 1, 0, 1]);
    // The second VRF has no IPv6 address, so no error can be sent from it.
    let mut frame = udp("fd01::2", "fd77::1", 80);
    frame[..6].copy_from_slice(&RED_MAC.0);
    let generated = engine.counters().generated;
    process_from(&mut engine, &mut frame, RED);
    assert_eq!(engine.counters().generated, generated);
}

#[test]
fn no_error_is_sent_while_the_output_queue_is_full() {
    let mut builder = TableBuilder::usual();
    builder.ports[1].mtu = 28;
    let mut engine = builder.engine();
    while process(&mut engine, &mut udp("10.1.0.2", "10.3.0.2", 242)) == RouteVerdict::Fragmented {}
    while process(&mut engine, &mut udp("10.1.0.2", "10.3.0.2", 71)) == RouteVerdict::Fragmented {}
    let mut frame = udp("10.1.0.2", "10.55.0.1", 60);
    while process(&mut engine, &mut frame) == RouteVerdict::Answered(Cause::NoRoute) {}
    let suppressed = engine.counters().suppressed;
    assert_eq!(process(&mut engine, &mut frame), RouteVerdict::Drop(Cause::NoRoute));
    assert_eq!(engine.counters().suppressed, suppressed, "not by the limit");
    assert_eq!(core::iter::from_fn(|| engine.pop()).count(), 1024);
}

#[test]
fn an_error_to_a_sender_without_a_route_is_not_sent_and_the_counters_balance() {
    let mut engine = engine();
    process(&mut engine, &mut udp("10.55.0.9", "10.55.0.1", 60));
    assert_eq!(engine.pop(), None);
    assert_eq!(engine.counters().dropped(Cause::NoRoute), 2, "the packet and the error");
}

#[test]
fn an_error_whose_way_only_the_kernel_knows_is_left_to_the_kernel() {
    let mut engine = engine();
    let mut frame = udp("10.93.0.1", "10.55.0.1", 60);
    let verdict = process(&mut engine, &mut frame);
    assert_eq!(verdict, RouteVerdict::Kernel(crate::PuntClass::Icmp));
    assert_eq!(engine.counters().punted(crate::PuntReason::ErrorRoute), 1);
}

#[test]
fn an_error_to_an_unresolved_neighbour_waits_for_it() {
    let mut engine = engine();
    process(&mut engine, &mut udp("10.1.0.77", "10.55.0.1", 60));
    let Some(crate::RouteOutput::Hold { held, mut frame }) = engine.pop() else {
        panic!("not held")
    };
    assert_eq!((held.port, held.next_hop), (LEFT, ip("10.1.0.77")));
    let verdict = engine.release(&held, &mut frame, GATEWAY, 0);
    assert!(matches!(verdict, RouteVerdict::Forward(_)));
    assert_eq!((&frame[..6], frame[22]), (&GATEWAY.0[..], 64), "the router's own TTL");
    assert!(engine.counters().is_balanced());
}

/// Asserts that a frame for a destination without a route is dropped without an error.
fn assert_silent(mut frame: Vec<u8>) {
    let mut engine = engine();
    let verdict = process(&mut engine, &mut frame);
    assert!(matches!(verdict, RouteVerdict::Drop(_)), "{verdict:?}");
    assert_eq!(engine.pop(), None);
    assert_eq!(engine.counters().suppressed, 0);
}

#[test]
fn a_later_fragment_gets_no_error_but_the_first_one_does() {
    let mut frame = udp("10.1.0.2", "10.55.0.1", 60);
    patch_v4(&mut frame, 6, &[0, 1]);
    assert_silent(frame.clone());
    patch_v4(&mut frame, 6, &[0x20, 0]);
    assert_eq!(process(&mut engine(), &mut frame), RouteVerdict::Answered(Cause::NoRoute));
}

#[test]
fn an_icmp_error_gets_no_error_but_a_ping_does() {
    for kind in [3, 4, 5, 11, 12] {
        let mut frame = udp("10.1.0.2", "10.55.0.1", 60);
        patch_v4(&mut frame, 9, &[1]);
        frame[34] = kind;
        assert_silent(frame);
    }
    let mut ping = udp("10.1.0.2", "10.55.0.1", 60);
    patch_v4(&mut ping, 9, &[1]);
    ping[34] = 8;
    assert_eq!(process(&mut engine(), &mut ping), RouteVerdict::Answered(Cause::NoRoute));
    for kind in [1, 2, 3, 4, 127] {
        let mut frame = udp("fd01::2", "fd77::1", 80);
        (frame[20], frame[54]) = (58, kind);
        assert_silent(frame);
    }
}

#[test]
fn a_source_in_240_slash_4_gets_no_error() {
    assert_silent(udp("240.0.0.1", "10.55.0.1", 60));
}

/// netmap-fwd did not limit how many errors one sender gets.
#[test]
fn errors_to_one_sender_are_limited() {
    let mut engine = engine();
    let answered = (0..100)
        .filter(|_| {
            let verdict = process(&mut engine, &mut udp("10.1.0.2", "10.55.0.1", 60));
            matches!(verdict, RouteVerdict::Answered(_))
        })
        .count();
    assert_eq!(answered, 10, "the burst of the limit");
    assert_eq!(engine.counters().suppressed, 90);
}

#[test]
fn errors_to_all_senders_together_are_limited() {
    let mut engine = engine();
    let mut flood = |now_ns| {
        let mut answered = 0;
        for sender in 0..=255u8 {
            let mut frame = udp("10.1.0.2", "10.55.0.1", 60);
            patch_v4(&mut frame, 14, &[0, sender | 2]);
            let mut batch = crate::RouteBatch::new();
            engine.process(&mut batch, &mut [crate::RouteFrame::new(&mut frame, LEFT)], now_ns);
            answered += u32::from(matches!(batch.verdict(0), Some(RouteVerdict::Answered(_))));
        }
        answered
    };
    // A burst of 50 errors, then 1000 errors per second.
    assert_eq!((flood(0), flood(10_000_000)), (50, 10));
}

#[test]
fn a_packet_that_leaves_by_its_ingress_port_is_forwarded_with_a_redirect_if_switched_on() {
    let mut builder = TableBuilder::usual();
    builder.forward("10.30.0.0/16", LEFT, via("10.1.0.2"), Some(H1));
    builder.forward("10.31.0.0/16", LEFT, via("10.5.0.2"), Some(H1));
    let config = RouteConfig { sends_redirects: true, ..RouteConfig::default() };
    let mut engine = RouteEngine::new(config, builder.build());
    let frame = udp("10.1.0.2", "10.30.0.1", 60);
    assert_eq!(forward(&mut engine, &frame).0, LEFT);
    let error = error4(&mut engine);
    assert_eq!((error.kind, error.rest), ((5, 1), 0x0a01_0002));
    assert_eq!(error.quote, frame[14..]);
    assert_eq!(engine.counters().redirects, 1);
    // A source outside the gateway's subnet gets no redirect (RFC 1812, 5.2.7.2).
    forward(&mut engine, &udp("10.8.0.1", "10.30.0.1", 60));
    assert_eq!(engine.pop(), None);
    // An expiring packet gets an error, but no redirect.
    let mut expired = frame.clone();
    patch_v4(&mut expired, 8, &[1]);
    process(&mut engine, &mut expired);
    assert_eq!(error4(&mut engine).kind, (11, 0));
    // A gateway outside the subnets of the port is not a neighbour of the sender, so no redirect is
    // sent.
    forward(&mut engine, &udp("10.1.0.2", "10.31.0.1", 60));
    assert_eq!(engine.pop(), None);
    // With redirects switched off, none is sent.
    let mut engine = builder.engine();
    forward(&mut engine, &frame);
    assert_eq!(engine.pop(), None);
}

#[test]
fn redirects_are_limited_in_rate() {
    let mut builder = TableBuilder::usual();
    builder.forward("10.30.0.0/16", LEFT, via("10.1.0.2"), Some(H1));
    let icmp_limits =
        IcmpLimits { per_second: 1, burst: 1, destination_per_second: 1, destination_burst: 1 };
    let config = RouteConfig { sends_redirects: true, icmp_limits, ..RouteConfig::default() };
    let mut engine = RouteEngine::new(config, builder.build());
    let frame = udp("10.1.0.2", "10.30.0.1", 60);
    forward(&mut engine, &frame);
    assert_eq!(error4(&mut engine).kind, (5, 1));
    // The packet itself is forwarded, regardless of the limit on redirects.
    assert_eq!(forward(&mut engine, &frame).0, LEFT);
    assert_eq!(engine.pop(), None);
    assert_eq!(engine.counters().redirects, 1);
}

#[test]
fn an_error_about_a_tagged_packet_leaves_with_the_tags_of_its_way() {
    let mut frame = udp("10.100.0.2", "10.55.0.1", 60);
    frame.splice(12..12, [0x81, 0, 0, 100]);
    let mut engine = engine();
    process(&mut engine, &mut frame);
    let (port, error) = only_output(&mut engine);
    assert_eq!(port, TAGGED);
    assert_eq!(error[12..18], [0x81, 0, 0, 100, 8, 0]);
    assert_eq!(error[30..38], [10, 100, 0, 1, 10, 100, 0, 2]);
}

#[test]
fn an_ipv6_redirect_names_the_better_router_by_its_link_local_address() {
    let mut builder = TableBuilder::usual();
    builder.forward("fd30::/16", LEFT, via("fe80::99"), Some(GATEWAY));
    builder.forward("fd31::/16", LEFT, via("fd01::99"), Some(GATEWAY));
    let config = RouteConfig { sends_redirects: true, ..RouteConfig::default() };
    let mut engine = RouteEngine::new(config, builder.build());
    let frame = udp("fd01::2", "fd30::1", 1400);
    assert_eq!(forward(&mut engine, &frame).0, LEFT);
    let (kind, code, rest, source, body) = error6(&mut engine);
    assert_eq!((kind, code, rest, source), (137, 0, 0, octets6("fe80::1")));
    assert_eq!(body[..16], octets6("fe80::99"));
    assert_eq!(body[16..32], octets6("fd30::1"));
    // Options: the target's MAC address, then the packet; their lengths are in units of 8 bytes.
    assert_eq!(body[32..40], [2, 1, GATEWAY.0[0], 0, 0, 0, 1, 3]);
    let quote = &body[48..];
    assert_eq!((body[40], usize::from(body[41]) * 8), (4, 8 + quote.len()));
    assert!(1280 - (40 + 8 + body.len()) < 8, "as much as fits");
    assert_eq!(*quote, frame[14..14 + quote.len()]);
    // A target that is neither link-local nor the destination is not valid (RFC 4861, 8.1), so no
    // redirect is sent.
    forward(&mut engine, &udp("fd01::2", "fd31::1", 80));
    // A sender that is not a neighbour gets no redirect.
    forward(&mut engine, &udp("fd08::2", "fd30::1", 80));
    assert_eq!(engine.pop(), None);
}

#[test]
fn an_ipv6_redirect_has_a_hop_limit_of_255() {
    let mut builder = TableBuilder::usual();
    builder.forward("fd30::1/128", LEFT, via("fd30::1"), Some(GATEWAY));
    let config = RouteConfig { sends_redirects: true, ..RouteConfig::default() };
    let mut engine = RouteEngine::new(config, builder.build());
    forward(&mut engine, &udp("fd01::2", "fd30::1", 80));
    assert_eq!(only_output(&mut engine).1[21], 255, "RFC 4861, 8.1");
    assert_eq!(engine.counters().redirects, 1);
}
