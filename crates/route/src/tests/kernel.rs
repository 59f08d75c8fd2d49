//! Packets for the kernel: unchanged, with the class that limits their rate.

use alloc::vec::Vec;

use super::kit::*;
use crate::{PuntClass, PuntReason, RouteVerdict};
use slipring_wire::MacAddr;

/// Asserts that the kernel gets a frame unchanged.
fn assert_kernel(mut frame: Vec<u8>, class: PuntClass, reason: PuntReason) {
    let (before, mut engine) = (frame.clone(), engine());
    assert_eq!(process(&mut engine, &mut frame), RouteVerdict::Kernel(class));
    assert_eq!(frame, before);
    let counters = engine.counters();
    assert_eq!((counters.kernel(class), counters.punted(reason)), (1, 1));
    assert_eq!(engine.pop(), None);
}

/// An IPv4 packet with this protocol and these first bytes of data.
fn v4(destination: &str, proto: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = udp("10.1.0.2", destination, 80);
    patch_v4(&mut frame, 9, &[proto]);
    frame[34..34 + data.len()].copy_from_slice(data);
    frame
}

fn v6(source: &str, destination: &str, next: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = udp(source, destination, 100);
    frame[20] = next;
    frame[54..54 + data.len()].copy_from_slice(data);
    frame
}

fn to_mac(mut frame: Vec<u8>, mac: [u8; 6]) -> Vec<u8> {
    frame[..6].copy_from_slice(&mac);
    frame
}

fn link(mac: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&mac[..], &H1.0, &ethertype.to_be_bytes(), payload].concat();
    frame.resize(60, 0);
    frame
}

#[test]
fn arp_reaches_the_kernel_as_broadcast_and_unicast() {
    for mac in [MacAddr::BROADCAST, LEFT_MAC] {
        assert_kernel(link(mac.0, 0x0806, &[0, 1, 8, 0]), PuntClass::Arp, PuntReason::Protocol);
    }
}

#[test]
fn lldp_stp_and_is_is_reach_the_kernel() {
    let lldp = link([1, 0x80, 0xc2, 0, 0, 0x0e], 0x88cc, &[2, 7]);
    assert_kernel(lldp, PuntClass::Other, PuntReason::Protocol);
    let stp = link([1, 0x80, 0xc2, 0, 0, 0], 38, &[0x42, 0x42, 3]);
    assert_kernel(stp, PuntClass::Other, PuntReason::Protocol);
    let is_is = link([1, 0x80, 0xc2, 0, 0, 0x14], 46, &[0xfe, 0xfe, 3, 0x83]);
    assert_kernel(is_is, PuntClass::Igp, PuntReason::Protocol);
}

#[test]
fn ospf_hellos_reach_the_kernel_by_multicast_and_unicast() {
    let hello = to_mac(v4("224.0.0.5", 89, &[2, 1]), [1, 0, 0x5e, 0, 0, 5]);
    assert_kernel(hello, PuntClass::Igp, PuntReason::Group);
    assert_kernel(v4("10.1.0.1", 89, &[2, 1]), PuntClass::Igp, PuntReason::Route);
    let hello = to_mac(v6("fe80::2", "ff02::5", 89, &[3, 1]), [0x33, 0x33, 0, 0, 0, 5]);
    assert_kernel(hello, PuntClass::Igp, PuntReason::Group);
    assert_kernel(v6("fe80::2", "fe80::1", 89, &[3, 1]), PuntClass::Igp, PuntReason::LinkLocal);
}

#[test]
fn bgp_to_an_own_address_reaches_the_kernel_with_any_ttl() {
    for ttl in [0, 1, 255] {
        let mut frame = v4("10.1.0.1", 6, &[0xb0, 0, 0, 179]);
        patch_v4(&mut frame, 8, &[ttl]);
        assert_kernel(frame, PuntClass::Bgp, PuntReason::Route);
    }
    assert_kernel(v4("10.3.0.1", 6, &[0, 179, 0xb0, 0]), PuntClass::Bgp, PuntReason::Route);
    let frame = v6("fd01::2", "fd01::1", 6, &[0xb0, 0, 0, 179]);
    assert_kernel(frame, PuntClass::Bgp, PuntReason::Route);
}

#[test]
fn a_later_fragment_has_no_ports_to_be_classified_by() {
    let mut frame = v4("10.1.0.1", 6, &[0, 179, 0, 179]);
    patch_v4(&mut frame, 6, &[0, 9]);
    assert_kernel(frame, PuntClass::Other, PuntReason::Route);
}

#[test]
fn bfd_reaches_the_kernel_with_its_ttl_of_255_untouched() {
    for port in [3784u16, 3785, 4784] {
        let [high, low] = port.to_be_bytes();
        let mut frame = v4("10.1.0.1", 17, &[0xc0, 0, high, low]);
        patch_v4(&mut frame, 8, &[255]);
        assert_kernel(frame, PuntClass::Bfd, PuntReason::Route);
    }
}

#[test]
fn transit_packets_of_these_protocols_are_forwarded() {
    forward(&mut engine(), &v4("10.3.0.2", 6, &[0xb0, 0, 0, 179]));
    forward(&mut engine(), &v4("10.3.0.2", 89, &[2, 1]));
    forward(&mut engine(), &v4("10.3.0.2", 1, &[8, 0]));
}

#[test]
fn neighbour_discovery_and_other_icmp_have_their_own_classes() {
    for kind in 133..=137 {
        let frame =
            to_mac(v6("fe80::2", "ff02::1:ff00:1", 58, &[kind]), [0x33, 0x33, 0xff, 0, 0, 1]);
        assert_kernel(frame, PuntClass::Nd, PuntReason::Group);
    }
    // A duplicate address detection probe has no source.
    let frame = to_mac(v6("::", "ff02::1:ff00:1", 58, &[135]), [0x33, 0x33, 0xff, 0, 0, 1]);
    assert_kernel(frame, PuntClass::Nd, PuntReason::Group);
    // A neighbour with a link-local address checks whether a global address is reachable.
    assert_kernel(v6("fe80::2", "fd01::1", 58, &[135]), PuntClass::Nd, PuntReason::Route);
    assert_kernel(v6("fd01::2", "fd01::1", 58, &[128]), PuntClass::Icmp, PuntReason::Route);
    assert_kernel(v4("10.1.0.1", 1, &[8, 0]), PuntClass::Icmp, PuntReason::Route);
}

#[test]
fn dhcp_from_a_host_without_an_address_reaches_the_kernel() {
    let discover = to_mac(udp("0.0.0.0", "255.255.255.255", 300), [0xff; 6]);
    assert_kernel(discover, PuntClass::Other, PuntReason::Group);
    let solicit = to_mac(udp("fe80::2", "ff02::1:2", 300), [0x33, 0x33, 0, 1, 0, 2]);
    assert_kernel(solicit, PuntClass::Other, PuntReason::Group);
}

#[test]
fn igmp_from_a_host_without_an_address_reaches_the_kernel() {
    let mut query = udp("0.0.0.0", "224.0.0.1", 60);
    patch_v4(&mut query, 9, &[2]);
    assert_kernel(to_mac(query, [1, 0, 0x5e, 0, 0, 1]), PuntClass::Other, PuntReason::Group);
}

#[test]
fn a_broadcast_frame_for_an_own_address_reaches_the_kernel() {
    let frame = to_mac(udp("10.1.0.2", "10.1.0.1", 60), [0xff; 6]);
    assert_kernel(frame, PuntClass::Other, PuntReason::Route);
}

#[test]
fn ipv4_options_other_than_source_routes_are_left_to_the_kernel() {
    // Router alert, record route, timestamp, an option of length 0.
    for options in [[148, 4, 0, 0], [7, 3, 4, 0], [68, 4, 5, 0], [99, 0, 0, 0]] {
        let frame = with_options(udp("10.1.0.2", "10.3.0.2", 60), &options);
        assert_kernel(frame, PuntClass::Other, PuntReason::Options);
    }
}

/// netmap-fwd dropped packets with any option. So hosts lost their multicast groups.
#[test]
fn igmp_with_its_router_alert_reaches_the_kernel() {
    let mut report = udp("10.1.0.2", "224.0.0.251", 60);
    patch_v4(&mut report, 9, &[2]);
    let report = to_mac(with_options(report, &[148, 4, 0, 0]), [1, 0, 0x5e, 0, 0, 0xfb]);
    assert_kernel(report, PuntClass::Other, PuntReason::Options);
}

#[test]
fn hop_by_hop_options_are_left_to_the_kernel() {
    let frame = v6("fd01::2", "fd03::2", 0, &[17, 0, 5, 2, 0, 0, 1, 0]);
    assert_kernel(frame, PuntClass::Other, PuntReason::HopByHop);
    let mld = v6("fd01::2", "fd03::2", 0, &[58, 0, 5, 2, 0, 0, 1, 0, 143]);
    assert_kernel(mld, PuntClass::Icmp, PuntReason::HopByHop);
}

#[test]
fn a_route_that_the_tables_cannot_represent_is_left_to_the_kernel() {
    assert_kernel(udp("10.1.0.2", "10.93.1.1", 60), PuntClass::Other, PuntReason::Route);
}

#[test]
fn other_mac_addresses_go_to_the_kernel_if_configured() {
    let config = crate::RouteConfig { punts_other_macs: true, ..crate::RouteConfig::default() };
    let mut engine = crate::RouteEngine::new(config, TableBuilder::usual().build());
    let mut frame = to_mac(udp("10.1.0.2", "10.3.0.2", 60), [2, 9, 9, 9, 9, 9]);
    assert_eq!(process(&mut engine, &mut frame), RouteVerdict::Kernel(PuntClass::Other));
}

#[test]
fn a_port_that_does_not_exist_leaves_everything_to_the_kernel() {
    let mut engine = engine();
    let mut frame = udp("10.1.0.2", "10.3.0.2", 60);
    let verdict = process_from(&mut engine, &mut frame, slipring_fib::FibPortIndex(999));
    assert_eq!(verdict, RouteVerdict::Kernel(PuntClass::Other));
    assert_eq!(engine.counters().unknown_port.rx_packets, 1);
}
