//! Tests of next hops on the link on which the packet arrived (RFC 792; RFC 1812, section 5.2.7.2;
//! RFC 4861, 8.2).

use std::net::IpAddr;

use crate::packet::{ICMP6, Packet};
use crate::rig::{Arrival, Rig, Setup, host_mac, ip, v4, v6};

checks! {
    a_packet_whose_next_hop_is_on_its_link_is_forwarded_and_the_host_redirected,
    a_packet_to_a_neighbour_of_the_sender_is_forwarded_and_the_host_redirected,
    redirects_can_be_switched_off,
    a_sender_behind_another_router_is_not_redirected,
    an_ipv6_host_is_redirected_to_the_link_local_address_of_the_router,
}

/// A router with another router on A's link: 10.1.0.9, fe80::9.
fn with_neighbour_router(setup: Setup) -> Setup {
    setup.ip("neigh add 10.1.0.9 lladdr 02:00:00:00:01:09 dev e0 nud permanent
              neigh add fe80::9 lladdr 02:00:00:00:01:09 dev e0 nud permanent
              route add 10.53.0.0/16 via 10.1.0.9
              route add fd53::/64 via fe80::9 dev e0")
}

/// Asserts that a packet from A goes once to the neighbour with number 9. Returns the other packets
/// on A's link.
fn forwarded_on_the_link(rig: &Rig, packet: &Packet, others: usize) -> Vec<Packet> {
    rig.a.send(packet);
    let seen = rig.observe([1 + others, 0, 0]);
    assert_eq!(seen.b, []);
    let is_forwarded = |arrival: &Arrival| arrival.packet == packet.forwarded();
    let (forwarded, rest): (Vec<_>, Vec<_>) = seen.a.into_iter().partition(is_forwarded);
    assert_eq!(forwarded.iter().map(|arrival| arrival.dst).collect::<Vec<_>>(), [host_mac(1, 9)]);
    rest.into_iter().map(|arrival| arrival.packet).collect()
}

#[track_caller]
fn is_redirect(packets: &[Packet], original: &Packet, gateway: IpAddr) {
    let [redirect] = packets else { panic!("not one redirect: {packets:?}") };
    assert_eq!((redirect.src, redirect.dst), (v4().router_a, original.src));
    let error = crate::icmp::IcmpError::parse(redirect.clone());
    let IpAddr::V4(gateway) = gateway else { panic!("{gateway}") };
    assert_eq!((error.kind, error.rest), ((5, 1), gateway.octets()));
    error.assert_quotes(original);
}

fn a_packet_whose_next_hop_is_on_its_link_is_forwarded_and_the_host_redirected(setup: Setup) {
    let rig = with_neighbour_router(setup).start();
    let packet = Packet::udp(v4().a, ip("10.53.0.1"), b"redirected");
    let rest = forwarded_on_the_link(&rig, &packet, 1);
    is_redirect(&rest, &packet, ip("10.1.0.9"));
}

fn a_packet_to_a_neighbour_of_the_sender_is_forwarded_and_the_host_redirected(setup: Setup) {
    let rig = with_neighbour_router(setup).start();
    let packet = Packet::udp(v4().a, ip("10.1.0.9"), b"on the link");
    let rest = forwarded_on_the_link(&rig, &packet, 1);
    is_redirect(&rest, &packet, ip("10.1.0.9"));
}

fn redirects_can_be_switched_off(setup: Setup) {
    let rig = with_neighbour_router(setup)
        .set("ipv4/conf/all/send_redirects", "0")
        .set("ipv4/conf/e0/send_redirects", "0")
        .start();
    let packet = Packet::udp(v4().a, ip("10.53.0.1"), b"not redirected");
    assert_eq!(forwarded_on_the_link(&rig, &packet, 0), []);
}

/// A redirect would go to the sender, but only the router between could use it.
fn a_sender_behind_another_router_is_not_redirected(setup: Setup) {
    let rig = with_neighbour_router(setup)
        .ip("neigh add 10.1.0.8 lladdr 02:00:00:00:01:08 dev e0 nud permanent
             route add 10.54.0.0/16 via 10.1.0.8")
        .set("ipv4/conf/all/shared_media", "0")
        .set("ipv4/conf/e0/shared_media", "0")
        .start();
    let packet = Packet::udp(ip("10.54.0.1"), ip("10.53.0.1"), b"passing through");
    assert_eq!(forwarded_on_the_link(&rig, &packet, 0), []);
}

fn an_ipv6_host_is_redirected_to_the_link_local_address_of_the_router(setup: Setup) {
    let rig = with_neighbour_router(setup).start();
    let packet = Packet::udp(v6().a, ip("fd53::1"), b"redirected");
    let rest = forwarded_on_the_link(&rig, &packet, 1);
    let [redirect] = &rest[..] else { panic!("not one redirect: {rest:?}") };
    assert_eq!((redirect.proto, redirect.hops, redirect.dst), (ICMP6, 255, v6().a));
    let IpAddr::V6(source) = redirect.src else { panic!("{redirect:?}") };
    assert!(source.is_unicast_link_local(), "{redirect:?}");
    let address =
        |at: usize| IpAddr::from(<[u8; 16]>::try_from(&redirect.payload[at..at + 16]).unwrap());
    assert_eq!(redirect.payload[..2], [137, 0]);
    assert_eq!((address(8), address(24)), (ip("fe80::9"), ip("fd53::1")));
}
