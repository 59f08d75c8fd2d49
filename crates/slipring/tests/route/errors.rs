//! Tests of ICMP errors: when they are sent, from which address, along which route, and how many.

use crate::host::{BROADCAST, Frame};
use crate::icmp::{IcmpError, kinds};
use crate::packet::{ICMP, ICMP6, MF, Packet};
use crate::rig::{Addresses, Arrival, Rig, Setup, Subject, families, host_mac, ip, v4, v6};

checks! {
    a_packet_on_its_last_hop_is_answered_with_time_exceeded,
    a_packet_without_hops_is_never_forwarded,
    a_long_packet_is_quoted_within_the_limit_of_the_rfc,
    a_packet_without_route_is_answered_with_no_route,
    a_blackhole_route_is_silent,
    an_unreachable_route_is_answered_with_host_unreachable,
    a_prohibit_route_is_answered_with_prohibited,
    an_echo_request_on_its_last_hop_is_answered,
    an_error_is_never_answered_with_an_error,
    later_fragments_are_not_answered,
    broadcast_and_multicast_frames_are_not_answered,
    multicast_destinations_are_not_answered,
    a_traceroute_from_behind_another_router_is_answered_through_that_router,
    an_error_is_routed_and_does_not_return_by_the_ingress_interface,
    an_error_to_a_source_without_route_is_not_sent,
    an_error_comes_from_the_address_of_the_subnet_that_the_sender_is_in,
    errors_are_limited_in_rate,
    echo_replies_are_not_limited_with_the_errors,
    an_error_has_hops_for_a_long_way_back,
}

fn a_packet_on_its_last_hop_is_answered_with_time_exceeded(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        let error = rig.refuses(&Packet::udp(net.a, net.b, b"last hop").hops(1));
        assert_eq!(error.kind, kinds(net.a).time_exceeded, "{error:?}");
        assert_eq!(error.rest, [0; 4], "{error:?}");
    }
}

/// A router may answer or not. Linux answers.
fn a_packet_without_hops_is_never_forwarded(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        rig.a.send(&Packet::udp(net.a, net.b, b"no hop").hops(0));
        let seen = rig.observe([0; 3]);
        assert_eq!(seen.b, []);
        for arrival in seen.a {
            let error = IcmpError::parse(arrival.packet);
            assert_eq!(error.kind, kinds(net.a).time_exceeded, "{error:?}");
        }
    }
}

fn a_long_packet_is_quoted_within_the_limit_of_the_rfc(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        rig.refuses(&Packet::udp(net.a, net.b, &[0x5a; 1400]).hops(1));
    }
}

/// Sends a packet of each family to 10.66.0.9 or fd66::9 and checks the kind of the error.
fn is_refused(setup: Setup, kind: impl Fn(&Addresses) -> (u8, u8)) {
    let rig = setup.start();
    for (net, to) in families().iter().zip(["10.66.0.9", "fd66::9"]) {
        let error = rig.refuses(&Packet::udp(net.a, ip(to), b"refused"));
        assert_eq!(error.kind, kind(net), "{error:?}");
    }
}

fn a_packet_without_route_is_answered_with_no_route(setup: Setup) {
    is_refused(setup, |net| kinds(net.a).no_route);
}

/// For such an IPv6 route, Linux sends the code "no route to destination".
fn an_unreachable_route_is_answered_with_host_unreachable(setup: Setup) {
    let setup =
        setup.ip("route add unreachable 10.66.0.0/16").ip("route add unreachable fd66::/64");
    is_refused(setup, |net| if net.a.is_ipv4() { (3, 1) } else { (1, 0) });
}

fn a_prohibit_route_is_answered_with_prohibited(setup: Setup) {
    let setup = setup.ip("route add prohibit 10.66.0.0/16").ip("route add prohibit fd66::/64");
    is_refused(setup, |net| kinds(net.a).prohibited);
}

fn a_blackhole_route_is_silent(setup: Setup) {
    let rig =
        setup.ip("route add blackhole 10.66.0.0/16").ip("route add blackhole fd66::/64").start();
    for (net, to) in families().iter().zip(["10.66.0.9", "fd66::9"]) {
        for hops in [64, 1] {
            // A packet on its last hop may be answered; RFC 1812 does not say which check comes
            // first.
            rig.a.send(&Packet::udp(net.a, ip(to), b"into the dark").hops(hops));
            let seen = rig.observe([0; 3]);
            assert_eq!(seen.b, []);
            assert!(hops == 1 || seen.a.is_empty(), "{seen:?}");
        }
    }
}

fn an_echo_request_on_its_last_hop_is_answered(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        let error = rig.refuses(&Packet::echo(net.a, net.b, 7).hops(1));
        assert_eq!(error.kind, kinds(net.a).time_exceeded, "{error:?}");
    }
}

/// RFC 1122, section 3.2.2, and RFC 4443, section 2.4 (e.1), forbid such answers.
fn an_error_is_never_answered_with_an_error(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        let errors: &[u8] = if net.a.is_ipv4() { &[3, 4, 5, 11, 12] } else { &[1, 2, 3, 4, 100] };
        for kind in errors {
            let quoted = Packet::udp(net.b, net.a, b"quoted").bytes();
            let message = [&[*kind, 0, 0, 0, 0, 0, 0, 0], &quoted[..]].concat();
            rig.ignores(&[Packet::icmp(net.a, net.b, message).hops(1)]);
        }
    }
}

/// RFC 1122, section 3.2.2, forbids such answers.
fn later_fragments_are_not_answered(setup: Setup) {
    let (rig, net) = (setup.start(), v4());
    let fragment = |offset| {
        Packet::new(net.a, net.b, 17, vec![1; 64]).hops(1).with(|packet| packet.fragment = offset)
    };
    rig.ignores(&[fragment(8), fragment(8 | MF)]);
    let error = rig.refuses(&fragment(MF));
    assert_eq!(error.kind, (11, 0), "the first fragment is answered: {error:?}");
}

/// RFC 1122, section 3.2.2, and RFC 4443, section 2.4 (e.4) and (e.5), forbid such answers.
fn broadcast_and_multicast_frames_are_not_answered(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        for dst in [BROADCAST, [1, 0, 0x5e, 1, 2, 3], [0x33, 0x33, 0, 0, 0, 1]] {
            for (to, hops) in [(net.b, 1), (ip("10.66.0.9"), 64)] {
                if net.a.is_ipv4() == to.is_ipv4() {
                    let frame = rig.a.frame(&Packet::udp(net.a, to, b"to all").hops(hops));
                    rig.a.send_frame(&Frame { dst, ..frame });
                }
            }
        }
    }
    rig.is_silent();
}

/// RFC 1122, section 3.2.2, and RFC 4443, section 2.4 (e.3), forbid such answers.
fn multicast_destinations_are_not_answered(setup: Setup) {
    let rig = setup.start();
    for (src, dst, mac) in [
        (v4().a, "224.1.2.3", [1, 0, 0x5e, 1, 2, 3]),
        (v6().a, "ff0e::1234", [0x33, 0x33, 0, 0, 0x12, 0x34]),
    ] {
        for mac in [mac, rig.a.router_mac] {
            for hops in [64, 1] {
                let frame = rig.a.frame(&Packet::udp(src, ip(dst), b"to a group").hops(hops));
                rig.a.send_frame(&Frame { dst: mac, ..frame });
            }
        }
    }
    rig.is_silent();
}

/// netmap-fwd sent errors to the source's own MAC address, by ARP on the ingress link.
fn a_traceroute_from_behind_another_router_is_answered_through_that_router(setup: Setup) {
    let rig = setup
        .ip("neigh add 10.1.0.9 lladdr 02:00:00:00:01:09 dev e0 nud permanent
             neigh add fd01::9 lladdr 02:00:00:00:01:09 dev e0 nud permanent
             route add 10.50.0.0/16 via 10.1.0.9
             route add fd50::/64 via fd01::9")
        .start();
    for (net, from) in families().iter().zip(["10.50.0.7", "fd50::7"]) {
        let packet = Packet::udp(ip(from), net.b, b"from far away").hops(1);
        rig.a.send_frame(&Frame { src: host_mac(1, 9), ..rig.a.frame(&packet) });
        let arrival = only_arrival_at_a(&rig);
        assert_eq!(arrival.dst, host_mac(1, 9), "{arrival:?}");
        let error = IcmpError::parse(arrival.packet);
        assert_eq!((error.kind, error.packet.src), (kinds(net.a).time_exceeded, net.router_a));
        error.assert_quotes(&packet);
    }
}

fn only_arrival_at_a(rig: &Rig) -> Arrival {
    let mut seen = rig.observe([1, 0, 0]);
    assert_eq!((seen.a.len(), seen.b.len()), (1, 0), "{seen:?}");
    seen.a.remove(0)
}

/// The route to the source uses another interface than the one on which its packet arrived. RFC
/// 1812, section 4.3.2.4, requires that the source of an IPv4 error is an address of the interface
/// by which the error leaves; for IPv6, it is one of the router's addresses (RFC 4443, section
/// 2.2).
fn an_error_is_routed_and_does_not_return_by_the_ingress_interface(setup: Setup) {
    let rig = setup
        .ip("route add 10.51.0.0/16 via 10.3.0.3
             route add fd51::/64 via fd03::3")
        .start();
    for (net, from) in families().iter().zip(["10.51.0.7", "fd51::7"]) {
        let packet = Packet::udp(ip(from), net.b, b"the long way round").hops(1);
        rig.a.send(&packet);
        let mut seen = rig.observe([0, 1, 0]);
        assert_eq!((seen.a.len(), seen.b.len()), (0, 1), "{seen:?}");
        let arrival = seen.b.remove(0);
        assert_eq!(arrival.dst, host_mac(3, 3), "{arrival:?}");
        let error = IcmpError::parse(arrival.packet);
        let source = error.packet.src;
        // For IPv4, Linux uses the address of the egress interface. The engine in user space uses
        // that of the ingress interface.
        assert!([net.router_a, net.router_b].contains(&source), "{error:?}");
        assert_eq!(error.kind, kinds(net.a).time_exceeded);
        error.assert_quotes(&packet);
    }
}

fn an_error_to_a_source_without_route_is_not_sent(setup: Setup) {
    let rig = setup.start();
    for (net, from) in families().iter().zip(["10.52.0.7", "fd52::7"]) {
        rig.ignores(&[Packet::udp(ip(from), net.b, b"from nowhere").hops(1)]);
    }
}

fn an_error_comes_from_the_address_of_the_subnet_that_the_sender_is_in(setup: Setup) {
    let rig = setup
        .ip("addr add 10.11.0.1/24 dev e0
             addr add fd11::1/64 dev e0 nodad
             neigh add 10.11.0.2 lladdr 02:00:00:00:01:02 dev e0 nud permanent
             neigh add fd11::2 lladdr 02:00:00:00:01:02 dev e0 nud permanent")
        .start();
    for (net, [own, from]) in
        families().iter().zip([["10.11.0.1", "10.11.0.2"], ["fd11::1", "fd11::2"]])
    {
        rig.forwards(&[Packet::udp(ip(from), net.b, b"second subnet")]);
        rig.a.send(&Packet::udp(ip(from), net.b, b"second subnet").hops(1));
        let error = rig.only_error();
        assert_eq!(error.packet.src, ip(own), "{error:?}");
    }
}

/// RFC 1812, section 4.3.2.8, recommends a limit, and RFC 4443, section 2.4 (f), requires one.
/// netmap-fwd had none.
fn errors_are_limited_in_rate(setup: Setup) {
    let rig = setup
        .set("ipv4/icmp_ratemask", "6168")
        .set("ipv4/icmp_ratelimit", "1000")
        .set("ipv6/icmp/ratelimit", "1000")
        .start();
    for net in families() {
        for _ in 0..200 {
            rig.a.send(&Packet::udp(net.a, net.b, b"flood").hops(1));
        }
        let seen = rig.observe([1, 0, 0]);
        // Linux sends a burst of 6 and then 1 per second for each destination; our router sends 10
        // per second.
        let most = if rig.subject == Subject::Kernel { 20 } else { 50 };
        assert!(seen.a.len() <= most, "{} errors for 200 packets", seen.a.len());
        assert_eq!(seen.b, []);
    }
}

fn echo_replies_are_not_limited_with_the_errors(setup: Setup) {
    let rig = setup.set("ipv4/icmp_ratemask", "6168").set("ipv6/icmp/ratelimit", "1000").start();
    for net in families() {
        for sequence in 0..100 {
            rig.a.send(&Packet::echo(net.a, net.router_a, sequence));
        }
        let seen = rig.observe([100, 0, 0]);
        for (sequence, arrival) in seen.a.iter().enumerate() {
            let reply = &arrival.packet.payload;
            assert_eq!(reply[0], if net.a.is_ipv4() { 0 } else { 129 }, "{arrival:?}");
            assert_eq!(reply[6..8], (sequence as u16).to_be_bytes(), "{arrival:?}");
        }
    }
}

/// The default TTL of RFC 1700 is 64.
fn an_error_has_hops_for_a_long_way_back(setup: Setup) {
    let rig = setup.start();
    for (net, proto) in [(v4(), ICMP), (v6(), ICMP6)] {
        let error = rig.refuses(&Packet::udp(net.a, net.b, b"last hop").hops(1));
        assert!(error.packet.hops >= 64 && error.packet.proto == proto, "{error:?}");
    }
}
