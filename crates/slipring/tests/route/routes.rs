//! Tests which route a packet takes.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::host::Mac;
use crate::icmp::{IcmpError, kinds};
use crate::packet::Packet;
use crate::rig::{Rig, Setup, families, host_mac, ip, v4, v6};

checks! {
    the_longest_prefix_wins,
    prefixes_of_every_length_nest,
    the_default_route_takes_the_rest,
    a_host_route_inside_a_connected_subnet_wins,
    an_ipv4_route_by_an_ipv6_next_hop,
    an_on_link_route_to_a_gateway_outside_the_subnet,
    a_route_through_a_host_route,
    a_rule_by_source_chooses_another_table,
    a_rule_by_interface_chooses_another_table,
    errors_to_an_interface_with_a_table_of_its_own_take_the_routers_routes,
    sources_are_looked_up_in_the_tables_of_the_egress_interface,
    a_rule_by_interface_that_goes_and_comes_back_is_obeyed,
}

/// Checks of the program only.
mod program_only {
    use super::*;

    crate::program_checks! {
        for crate::rig::Setup:
        an_interface_with_a_table_of_its_own_takes_the_fast_path,
        a_rule_that_needs_tables_that_are_not_there_leaves_the_interface_to_the_kernel,
    }
}

/// The MAC address of the second neighbour on B's link.
pub(crate) const SECOND: Mac = host_mac(3, 3);

/// Sends a packet to `to` from A's address of the same family, and returns the destination MAC
/// address with which it arrives at B or C.
pub(crate) fn next_hop(rig: &Rig, to: IpAddr) -> Mac {
    let src = if to.is_ipv4() { v4().a } else { v6().a };
    let packet = Packet::udp(src, to, b"which way");
    rig.a.send(&packet);
    let seen = rig.observe_until("a packet at B or C", |seen| seen.b.len() + seen.c.len() > 0);
    let arrivals = [&seen.b[..], &seen.c].concat();
    let [arrival] = &arrivals[..] else { panic!("not one packet to {to}: {seen:?}") };
    assert_eq!(arrival.packet, packet.forwarded());
    arrival.dst
}

/// Returns the MAC address with which a packet to `to` arrives at B or C, or `None`. Fences only
/// cross the links of A and B, so a packet to C may be seen late. Use it with [`Rig::until`].
pub(crate) fn destination(rig: &Rig, to: IpAddr) -> Option<Mac> {
    let src = if to.is_ipv4() { v4().a } else { v6().a };
    rig.a.send(&Packet::udp(src, to, b"where to"));
    let seen = rig.observe([0; 3]);
    seen.b.iter().chain(&seen.c).map(|arrival| arrival.dst).next()
}

fn the_longest_prefix_wins(setup: Setup) {
    let rig = setup
        .ip("route add 10.70.0.0/16 via 10.3.0.3
             route add 10.70.1.0/24 via 10.3.0.2
             route add 10.70.1.128/25 via 10.3.0.3
             route add unreachable 10.70.1.5/32
             route add fd70::/32 via fd03::3
             route add fd70:0:1::/48 via fd03::2
             route add fd70:0:1:1::/64 via fd03::3
             route add unreachable fd70:0:1::5/128")
        .start();
    let b = rig.b.mac;
    for (to, mac) in [
        ("10.70.2.1", SECOND),
        ("10.70.1.1", b),
        ("10.70.1.4", b),
        ("10.70.1.6", b),
        ("10.70.1.200", SECOND),
        ("fd70:0:2::1", SECOND),
        ("fd70:0:1::4", b),
        ("fd70:0:1::6", b),
        ("fd70:0:1:1::1", SECOND),
    ] {
        assert_eq!(next_hop(&rig, ip(to)), mac, "to {to}");
    }
    for (net, to) in families().iter().zip(["10.70.1.5", "fd70:0:1::5"]) {
        let error = rig.refuses(&Packet::udp(net.a, ip(to), b"hole"));
        assert_eq!(error.kind, if net.a.is_ipv4() { (3, 1) } else { kinds(net.a).no_route });
    }
}

/// The routes have all prefix lengths from /4 (IPv4) and /12 (IPv6) on, and alternating next hops.
/// For each route, there is an address of which it is the longest match.
fn prefixes_of_every_length_nest(setup: Setup) {
    let (base4, base6) = (0x4daa_55aa_u32, 0xfd77_5555_aaaa_3333_cccc_0f0f_f0f0_1234_u128);
    let mut lines = String::new();
    let mut expected = Vec::new();
    for len in 4..=128u32 {
        let number = 2 + len % 2;
        if len <= 32 {
            let net = Ipv4Addr::from(base4 & !(u64::from(u32::MAX) >> len) as u32);
            writeln!(lines, "route add {net}/{len} via 10.3.0.{number}").unwrap();
            let inside = if len < 32 { base4 ^ 1 << (31 - len) } else { base4 };
            expected.push((IpAddr::from(Ipv4Addr::from(inside)), host_mac(3, number as u8)));
        }
        if len >= 12 {
            let net = Ipv6Addr::from(base6 & !(u128::MAX.checked_shr(len).unwrap_or(0)));
            writeln!(lines, "route add {net}/{len} via fd03::{number}").unwrap();
            let inside = if len < 128 { base6 ^ 1 << (127 - len) } else { base6 };
            expected.push((IpAddr::from(Ipv6Addr::from(inside)), host_mac(3, number as u8)));
        }
    }
    let rig = setup.ip(&lines).start();
    for (to, mac) in expected {
        assert_eq!(next_hop(&rig, to), mac, "to {to}");
    }
}

fn the_default_route_takes_the_rest(setup: Setup) {
    let rig =
        setup.ip("route add default via 10.3.0.3").ip("route add default via fd03::3").start();
    for to in ["198.51.100.1", "1.0.0.1", "223.255.255.254", "2001:db8::1", "fdff::1"] {
        assert_eq!(next_hop(&rig, ip(to)), SECOND, "to {to}");
    }
}

fn a_host_route_inside_a_connected_subnet_wins(setup: Setup) {
    let rig = setup
        .ip("route add 10.1.0.64/32 via 10.3.0.3
                        route add fd01::64/128 via fd03::3")
        .start();
    for to in ["10.1.0.64", "fd01::64"] {
        assert_eq!(next_hop(&rig, ip(to)), SECOND, "to {to}");
    }
}

/// Routes of RFC 8950 have such next hops.
fn an_ipv4_route_by_an_ipv6_next_hop(setup: Setup) {
    let rig = setup
        .ip("route add 10.61.0.0/16 via inet6 fd03::3
             neigh add fe80::8 lladdr 02:00:00:00:03:08 dev e1 nud permanent
             route add 10.62.0.0/16 via inet6 fe80::8 dev e1")
        .start();
    assert_eq!(next_hop(&rig, ip("10.61.0.1")), SECOND);
    assert_eq!(next_hop(&rig, ip("10.62.0.1")), host_mac(3, 8));
    let error = rig.refuses(&Packet::udp(v4().a, ip("10.61.0.1"), b"last hop").hops(1));
    assert_eq!(error.kind, (11, 0));
}

fn an_on_link_route_to_a_gateway_outside_the_subnet(setup: Setup) {
    let rig = setup
        .ip("neigh add 10.99.0.1 lladdr 02:00:00:00:03:08 dev e1 nud permanent
             route add 10.71.0.0/16 via 10.99.0.1 dev e1 onlink")
        .start();
    assert_eq!(next_hop(&rig, ip("10.71.0.1")), host_mac(3, 8));
}

/// With point-to-point addressing, a host route leads to the gateway.
fn a_route_through_a_host_route(setup: Setup) {
    let rig = setup
        .ip("neigh add 10.98.0.1 lladdr 02:00:00:00:03:08 dev e1 nud permanent
             neigh add fd98::1 lladdr 02:00:00:00:03:08 dev e1 nud permanent
             route add 10.98.0.1/32 dev e1
             route add fd98::1/128 dev e1
             route add 10.71.0.0/16 via 10.98.0.1
             route add fd71::/64 via fd98::1")
        .start();
    for to in ["10.98.0.1", "10.71.0.1", "fd98::1", "fd71::1"] {
        assert_eq!(next_hop(&rig, ip(to)), host_mac(3, 8), "to {to}");
    }
}

/// Table 100, in which everything goes to the second neighbour.
const TABLE: &str = "route add default via 10.3.0.3 table 100
                     route add default via fd03::3 dev e1 table 100";

fn a_rule_by_source_chooses_another_table(setup: Setup) {
    let rig = setup
        .ip(TABLE)
        .ip("rule add from 10.1.0.7 table 100")
        .ip6("rule add from fd01::7 table 100")
        .start();
    for (net, from) in families().iter().zip(["10.1.0.7", "fd01::7"]) {
        rig.forwards(&[Packet::udp(net.a, net.b, b"main")]);
        rig.a.send(&Packet::udp(ip(from), net.b, b"table 100"));
        let seen = rig.observe([0, 1, 0]);
        assert_eq!(seen.b.iter().map(|arrival| arrival.dst).collect::<Vec<_>>(), [SECOND]);
    }
}

fn a_rule_by_interface_chooses_another_table(setup: Setup) {
    let rule = "rule add iif e2 table 100";
    let rig = setup.with_c().ip(TABLE).ip(rule).ip6(rule).start();
    for (net, from) in families().iter().zip(["10.5.0.2", "fd05::2"]) {
        rig.forwards(&[Packet::udp(net.a, net.b, b"main")]);
        rig.c().send(&Packet::udp(ip(from), net.b, b"table 100"));
        let seen = rig.observe([0, 1, 0]);
        assert_eq!(seen.b.iter().map(|arrival| arrival.dst).collect::<Vec<_>>(), [SECOND]);
    }
}

/// Packets that arrive on e2 are looked up in table 100.
const RULE: &str = "rule add iif e2 table 100";

/// Sends packets from C to B. Returns the destination MAC addresses with which they arrive at B.
fn ways_from_c(rig: &Rig) -> Vec<Mac> {
    for net in families() {
        rig.c().send(&Packet::udp(net.c, net.b, b"table 100"));
    }
    let seen = rig.observe([0, 2, 0]);
    seen.b.iter().map(|arrival| arrival.dst).collect()
}

/// Table 100 leads to B; the router's own packets are not looked up there.
fn errors_to_an_interface_with_a_table_of_its_own_take_the_routers_routes(setup: Setup) {
    let rig = setup.with_c().ip(TABLE).ip(RULE).ip6(RULE).start();
    for net in families() {
        rig.c().send(&Packet::udp(net.c, net.b, b"last hop").hops(1));
        let seen = rig.observe([0, 0, 1]);
        assert_eq!((seen.a.len(), seen.b.len(), seen.c.len()), (0, 0, 1));
        let error = IcmpError::parse(seen.c[0].packet.clone());
        assert_eq!(error.kind, kinds(net.c).time_exceeded);
    }
}

/// Sources are looked up in the tables in which answers would be looked up: for packets that leave
/// by e1, in table 100.
fn sources_are_looked_up_in_the_tables_of_the_egress_interface(setup: Setup) {
    let rig = setup
        .with_c()
        .set("ipv4/conf/e0/rp_filter", "1")
        .ip(TABLE)
        .ip("route add 10.1.0.0/24 dev e0 table 100
             route add 10.76.0.0/16 via 10.1.0.2
             rule add iif e1 table 100")
        .start();
    let from = |source, to| Packet::udp(ip(source), to, b"which table");
    rig.forwards(&[from("10.1.0.9", v4().b)]);
    rig.ignores(&[from("10.76.0.1", v4().b)]);
    rig.a.send(&from("10.76.0.1", v4().c));
    assert_eq!(rig.observe([0, 0, 1]).c.len(), 1);
}

fn a_rule_by_interface_that_goes_and_comes_back_is_obeyed(setup: Setup) {
    let rig = setup.with_c().ip(TABLE).ip(RULE).ip6(RULE).start();
    assert_eq!(ways_from_c(&rig), [SECOND; 2]);
    rig.ip("rule del iif e2 table 100");
    rig.router.ip("-6 rule del iif e2 table 100");
    rig.until(|| (ways_from_c(&rig) == [rig.b.mac; 2]).then_some(()));
    rig.ip(RULE);
    rig.router.ip(&format!("-6 {RULE}"));
    rig.until(|| (ways_from_c(&rig) == [SECOND; 2]).then_some(()));
}

/// Returns the program's answer about e2.
fn of_e2(rig: &Rig) -> serde_json::Value {
    rig.ask(&["interface", "e2"])["interfaces"][0].clone()
}

fn an_interface_with_a_table_of_its_own_takes_the_fast_path(setup: Setup) {
    let rig = setup.with_c().ip(TABLE).ip(RULE).ip6(RULE).start();
    let forwarded = || of_e2(&rig)["forwarded"]["packets"].as_u64().unwrap();
    rig.until(|| {
        let before = forwarded();
        assert_eq!(ways_from_c(&rig), [SECOND; 2]);
        (forwarded() >= before + 2).then_some(())
    });
    let verified = rig.ask(&["fib", "verify"]);
    for wrong in ["missing", "extra", "different"] {
        assert_eq!(verified[wrong], 0, "{verified}");
    }
    let answer = rig.ask(&["route", "get", "10.3.0.2"]);
    let exception = "packets from e2 are looked up in local, 100, main, default";
    assert_eq!(answer["other_tables"][0], exception, "{answer}");
}

/// The router creates its VRFs only when it starts: as many as the rules by interface need then.
/// The kernel's table 100 is there at that time, but the rule comes later, so no VRF is left for
/// e2.
fn a_rule_that_needs_tables_that_are_not_there_leaves_the_interface_to_the_kernel(setup: Setup) {
    let rig = setup.with_c().ip(TABLE).start();
    rig.ip(RULE);
    rig.router.ip(&format!("-6 {RULE}"));
    rig.until(|| {
        let is_by_table = ways_from_c(&rig) == [SECOND; 2];
        (is_by_table && of_e2(&rig)["state"] == "kernel").then_some(())
    });
}
