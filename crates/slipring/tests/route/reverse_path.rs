//! Tests which sources are accepted on a link (RFC 3704), depending on the kernel's `rp_filter`.

use crate::icmp::{IcmpError, kinds};
use crate::packet::Packet;
use crate::rig::{Rig, Setup, ip, set, v4, v6};

checks! {
    the_strict_check_accepts_sources_behind_the_link,
    the_loose_check_accepts_sources_with_a_route,
    the_greater_value_of_all_and_of_the_interface_counts,
    an_interface_without_address_checks_strictly,
    sources_behind_an_interface_of_the_kernel_are_checked,
    packets_without_a_route_are_answered_whatever_their_source_is,
    ipv6_sources_are_not_checked,
    a_check_that_is_switched_on_and_off_later_is_obeyed,
    a_route_to_the_source_that_changes_is_obeyed,
    sources_are_looked_up_by_rules_for_the_egress_interface_that_come_later,
}

/// Checks of the program only.
mod program_only {
    use super::*;

    crate::program_checks! {
        for crate::rig::Setup:
        refused_sources_are_counted_by_their_cause,
        the_check_keeps_the_fast_path,
    }
}

/// A packet from A's link to B.
fn from(source: &str) -> Packet {
    Packet::udp(ip(source), v4().b, source.as_bytes())
}

fn strict(setup: Setup) -> Setup {
    setup.set("ipv4/conf/e0/rp_filter", "1")
}

fn the_strict_check_accepts_sources_behind_the_link(setup: Setup) {
    let rig = strict(setup)
        .ip("route add 10.75.0.0/16 via 10.3.0.3
             route add 10.76.0.0/16 via 10.1.0.2
             route add 10.77.0.0/16 nexthop via 10.1.0.2 nexthop via 10.3.0.3
             route add blackhole 10.78.0.0/16")
        .start();
    rig.forwards(&["10.1.0.2", "10.1.0.77", "10.76.0.1", "10.77.0.1"].map(from));
    for source in ["10.75.0.1", "10.3.0.9", "10.66.0.1", "10.78.0.1", "10.1.0.255"] {
        rig.ignores(&[from(source), from(source).hops(1)]);
    }
}

fn the_loose_check_accepts_sources_with_a_route(setup: Setup) {
    let rig = setup
        .set("ipv4/conf/e0/rp_filter", "2")
        .ip("route add 10.75.0.0/16 via 10.3.0.3
             route add 10.77.0.0/16 nexthop via 10.3.0.2 nexthop via 10.3.0.3
             route add blackhole 10.78.0.0/16
             route add unreachable 10.79.0.0/16")
        .start();
    rig.forwards(&["10.1.0.2", "10.75.0.1", "10.3.0.9", "10.77.0.1"].map(from));
    for source in ["10.66.0.1", "10.78.0.1", "10.79.0.1", "10.3.0.255"] {
        rig.ignores(&[from(source)]);
    }
}

fn the_greater_value_of_all_and_of_the_interface_counts(setup: Setup) {
    let rig = setup
        .set("ipv4/conf/all/rp_filter", "1")
        .set("ipv4/conf/e0/rp_filter", "2")
        .ip("route add 10.66.0.0/16 dev e0")
        .start();
    rig.forwards(&[from("10.3.0.9")]);
    // B's link has the strict check that is set for `all`.
    rig.b.send(&Packet::udp(ip("10.66.0.1"), v4().a, b"the wrong link"));
    rig.is_silent();
}

/// On an interface without an address, Linux accepts a source only if its route leads back through
/// the interface, even in loose mode.
fn an_interface_without_address_checks_strictly(setup: Setup) {
    let rig = setup
        .set("ipv4/conf/e0/rp_filter", "2")
        .ip("addr del 10.1.0.1/24 dev e0
             neigh replace 10.1.0.2 lladdr 02:00:00:00:01:02 dev e0 nud permanent
             route add 10.1.0.0/24 dev e0")
        .start();
    rig.forwards(&[from("10.1.0.77")]);
    rig.ignores(&["10.3.0.9", "10.66.0.1"].map(from));
}

/// The routes of `m0`, which is no port of the router, are not in the router's tables, so the
/// kernel decides about the packets.
fn sources_behind_an_interface_of_the_kernel_are_checked(setup: Setup) {
    let rig = strict(setup)
        .ip("link add m0 type veth peer name m1
             link set m1 up
             link set m0 up
             addr add 10.66.0.1/24 dev m0")
        .start();
    rig.ignores(&[from("10.66.0.9")]);
    set(&rig.router, "ipv4/conf/e0/rp_filter", "2");
    rig.until(|| rig.all_arrive_at_b(&[from("10.66.0.9")]));
}

fn packets_without_a_route_are_answered_whatever_their_source_is(setup: Setup) {
    let rig = strict(setup).start();
    rig.a.send(&Packet::udp(v4().b, ip("10.66.0.1"), b"from B, it says"));
    let mut seen = rig.observe([0, 1, 0]);
    assert_eq!((seen.a.len(), seen.b.len()), (0, 1), "{seen:?}");
    let error = IcmpError::parse(seen.b.remove(0).packet);
    assert_eq!(error.kind, kinds(v4().b).no_route);
}

fn ipv6_sources_are_not_checked(setup: Setup) {
    let rig = strict(setup).start();
    let sources = ["fd03::9", "fd66::1"].map(ip);
    rig.forwards(&sources.map(|source| Packet::udp(source, v6().b, b"any link")));
}

/// The router has no tables for rules that are added after its start, so the kernel decides.
fn sources_are_looked_up_by_rules_for_the_egress_interface_that_come_later(setup: Setup) {
    let rig = strict(setup)
        .ip("route add 10.76.0.0/16 via 10.1.0.2
             route add 10.76.0.0/16 via 10.3.0.3 table 100
             route add 10.1.0.0/24 dev e0 table 100")
        .start();
    rig.forwards(&[from("10.76.0.1")]);
    rig.ip("rule add iif e1 table 100");
    rig.until(|| is_refused(&rig, "10.76.0.1"));
    rig.ignores(&[from("10.76.0.1")]);
    rig.forwards(&[from("10.1.0.2")]);
}

fn is_refused(rig: &Rig, source: &str) -> Option<()> {
    rig.a.send(&from(source));
    rig.observe([0; 3]).b.is_empty().then_some(())
}

fn a_check_that_is_switched_on_and_off_later_is_obeyed(setup: Setup) {
    let rig = setup.start();
    rig.forwards(&[from("10.3.0.9"), from("10.66.0.1")]);
    set(&rig.router, "ipv4/conf/e0/rp_filter", "1");
    rig.until(|| is_refused(&rig, "10.3.0.9"));
    rig.ignores(&[from("10.3.0.9"), from("10.66.0.1")]);
    set(&rig.router, "ipv4/conf/e0/rp_filter", "2");
    rig.until(|| rig.all_arrive_at_b(&[from("10.3.0.9")]));
    rig.ignores(&[from("10.66.0.1")]);
    set(&rig.router, "ipv4/conf/e0/rp_filter", "0");
    rig.until(|| rig.all_arrive_at_b(&[from("10.66.0.1")]));
}

fn a_route_to_the_source_that_changes_is_obeyed(setup: Setup) {
    let rig = strict(setup).ip("route add 10.76.0.0/16 via 10.1.0.2").start();
    rig.forwards(&[from("10.76.0.1")]);
    rig.ip("route replace 10.76.0.0/16 via 10.3.0.2");
    rig.until(|| is_refused(&rig, "10.76.0.1"));
    rig.ip("route replace 10.76.0.0/16 via 10.1.0.2");
    rig.until(|| rig.all_arrive_at_b(&[from("10.76.0.1")]));
}

/// Returns the count of packets that arrived on e0, by outcome.
fn counted(rig: &Rig, kind: &str, name: &str) -> u64 {
    let answer = rig.ask(&["interface", "e0"]);
    answer["interfaces"][0][kind][name].as_u64().unwrap_or_default()
}

fn refused_sources_are_counted_by_their_cause(setup: Setup) {
    let rig = strict(setup).start();
    // While a thread of the router is late, the kernel drops the packets, and the router does not
    // count them. So the packets are sent again until one burst is counted completely.
    let is_counted = |source, cause| {
        rig.until(|| {
            let before = counted(&rig, "dropped", cause);
            rig.ignores(&[(); 20].map(|()| from(source)));
            (counted(&rig, "dropped", cause) == before + 20).then_some(())
        });
    };
    is_counted("10.3.0.9", "reverse-path-strict");
    set(&rig.router, "ipv4/conf/e0/rp_filter", "2");
    rig.until(|| rig.all_arrive_at_b(&[from("10.3.0.9")]));
    is_counted("10.66.0.1", "reverse-path-loose");
}

fn the_check_keeps_the_fast_path(setup: Setup) {
    let rig = strict(setup).start();
    rig.until(|| {
        let before = counted(&rig, "forwarded", "packets");
        rig.forwards(&[(); 100].map(|()| from("10.1.0.2")));
        (counted(&rig, "forwarded", "packets") >= before + 100).then_some(())
    });
}
