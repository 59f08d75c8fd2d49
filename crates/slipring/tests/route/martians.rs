//! Tests of addresses that a router does not forward (RFC 1812, section 5.3.7; RFC 4291).

use std::net::IpAddr;

use crate::icmp::IcmpError;
use crate::packet::Packet;
use crate::rig::{Setup, ip, v4, v6};

checks! {
    ipv4_sources_that_no_host_has_are_not_forwarded,
    a_source_of_class_e_or_net_0_is_forwarded_as_the_kernel_does,
    the_routers_own_address_as_a_source_is_not_forwarded,
    ipv6_sources_that_no_host_has_are_not_forwarded,
    a_link_local_source_does_not_leave_its_link,
    ipv4_destinations_beyond_unicast_are_not_forwarded,
    the_broadcast_address_of_another_link_is_not_forwarded,
    ipv6_destinations_beyond_global_unicast_are_not_forwarded,
    a_loopback_destination_is_not_forwarded,
}

/// Asserts that packets from these sources, with and without remaining hops, are neither forwarded
/// nor answered.
fn are_ignored(setup: Setup, dst: IpAddr, sources: &[&str]) {
    let rig = setup.start();
    for source in sources {
        for hops in [64, 1] {
            rig.ignores(&[Packet::udp(ip(source), dst, source.as_bytes()).hops(hops)]);
        }
    }
}

fn ipv4_sources_that_no_host_has_are_not_forwarded(setup: Setup) {
    let sources =
        ["127.0.0.1", "127.255.255.254", "224.0.0.1", "239.1.2.3", "255.255.255.255", "0.0.0.0"];
    are_ignored(setup, v4().b, &sources);
}

/// 240.0.0.0/4 is reserved (RFC 1112, section 4), and 0.0.0.0/8 has no hosts (RFC 1122, section
/// 3.2.1.3). Linux treats both as normal addresses, the former since 2.6.25 and the latter since
/// 5.3, and the program leaves such packets to the kernel.
fn a_source_of_class_e_or_net_0_is_forwarded_as_the_kernel_does(setup: Setup) {
    let rig = setup.start();
    for source in ["240.0.0.1", "255.255.255.254", "0.1.2.3"] {
        rig.forwards(&[Packet::udp(ip(source), v4().b, b"reserved")]);
    }
}

/// Linux checks this only for IPv4.
fn the_routers_own_address_as_a_source_is_not_forwarded(setup: Setup) {
    let (rig, net) = (setup.start(), v4());
    rig.ignores(&[net.router_a, net.router_b].map(|own| Packet::udp(own, net.b, b"own")));
}

fn ipv6_sources_that_no_host_has_are_not_forwarded(setup: Setup) {
    are_ignored(setup, v6().b, &["::", "::1", "ff02::1", "ff05::2", "ff0e::1234"]);
}

/// RFC 4291, section 2.5.6. The router may send an error "beyond scope of source address".
fn a_link_local_source_does_not_leave_its_link(setup: Setup) {
    let rig = setup.start();
    rig.ip("neigh add fe80::a lladdr 02:00:00:00:01:02 dev e0 nud permanent");
    rig.a.send(&Packet::udp(ip("fe80::a"), v6().b, b"link-local"));
    let seen = rig.observe([0; 3]);
    assert_eq!(seen.b, []);
    for arrival in seen.a {
        let error = IcmpError::parse(arrival.packet);
        assert_eq!(error.kind, (1, 2), "{error:?}");
    }
}

/// The packets have a unicast MAC address, so that only the IP address decides.
fn ipv4_destinations_beyond_unicast_are_not_forwarded(setup: Setup) {
    // Even a default route must not make these destinations unicast.
    let rig = setup.ip("route add default via 10.3.0.2").start();
    for to in ["224.0.0.5", "239.1.2.3", "255.255.255.255", "0.0.0.0", "10.1.0.255"] {
        for hops in [64, 1] {
            rig.ignores(&[Packet::udp(v4().a, ip(to), to.as_bytes()).hops(hops)]);
        }
    }
}

/// RFC 2644: a router does not forward directed broadcasts by default.
fn the_broadcast_address_of_another_link_is_not_forwarded(setup: Setup) {
    let rig = setup.start();
    rig.a.send(&Packet::udp(v4().a, ip("10.3.0.255"), b"directed broadcast"));
    let seen = rig.observe([0; 3]);
    assert_eq!(seen.b, []);
}

fn ipv6_destinations_beyond_global_unicast_are_not_forwarded(setup: Setup) {
    let rig = setup.ip("route add default via fd03::2").start();
    for to in ["ff02::1", "ff02::5", "ff01::1", "fe80::2"] {
        rig.a.send(&Packet::udp(v6().a, ip(to), to.as_bytes()));
        let seen = rig.observe([0; 3]);
        assert_eq!(seen.b, [], "to {to}");
    }
}

fn a_loopback_destination_is_not_forwarded(setup: Setup) {
    let rig =
        setup.ip("route add default via 10.3.0.2").ip("route add default via fd03::2").start();
    rig.ignores(&[
        Packet::udp(v4().a, ip("127.0.0.1"), b"loopback"),
        Packet::udp(v4().a, ip("127.1.2.3"), b"loopback"),
        Packet::udp(v6().a, ip("::1"), b"loopback"),
    ]);
}
