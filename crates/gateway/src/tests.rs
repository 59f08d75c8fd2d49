//! Tests of the router. The tests choose the times, so no clock is read.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use slipring_neighbour::arp::{ArpOperation, ArpPacket};
use slipring_neighbour::nd::{self, NdFlags, NdMessage};
use slipring_wire::MacAddr;
use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::{self, Sum};

use crate::frame;
use crate::{
    GatewayDropReason, GatewayPort, GatewayVerdict, RouterInterface, RouterInterfaceError, Subnet,
    TtlPolicy,
};

const SECOND: u64 = 1_000_000_000;
/// The router's MAC address at the left port. At the right port it is `RIGHT`.
const LEFT: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const RIGHT: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// The MAC address of a host at the right port.
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 9, 9]);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn side(mac: MacAddr, subnets: &[(&str, u8)], gateways: &[&str]) -> RouterInterface {
    let subnets = subnets.iter().map(|(address, len)| Subnet::new(ip(address), *len).unwrap());
    RouterInterface::new(mac, subnets.collect(), gateways.iter().map(|text| ip(text)).collect())
        .unwrap()
}

fn left() -> RouterInterface {
    side(LEFT, &[("10.1.0.1", 24), ("fd01::1", 64)], &[])
}

fn right() -> RouterInterface {
    side(RIGHT, &[("10.2.0.1", 24), ("fd02::1", 64), ("fe80::2", 64)], &[])
}

/// Returns the two halves of the router: the one at the left port and the one at the right port.
fn gates(life: TtlPolicy) -> (GatewayPort, GatewayPort) {
    (GatewayPort::new(left(), right(), life), GatewayPort::new(right(), left(), life))
}

/// An IP packet that the router should forward.
fn packet(to: &str, life: u8) -> Vec<u8> {
    let mut frame = [&LEFT.0[..], &[2, 0, 0, 0, 0, 7]].concat();
    match ip(to) {
        IpAddr::V4(to) => {
            frame.extend([8, 0]);
            let mut header = vec![0x45, 0, 0, 46, 0, 0, 0, 0, life, 17, 0, 0, 10, 1, 0, 7];
            header.extend(to.octets());
            let sum = checksum::of(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend(header);
            frame.extend([0xaa; 26]);
        }
        IpAddr::V6(to) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 10, 17, life]);
            frame.extend(Ipv6Addr::from([0xfd01, 0, 0, 0, 0, 0, 0, 7]).octets());
            frame.extend(to.octets());
            frame.extend([0xaa; 10]);
        }
    }
    frame
}

fn all(gate: &mut GatewayPort) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| gate.pop()).collect()
}

fn arp(frame: &[u8]) -> ArpPacket {
    ArpPacket::parse(&frame[14..]).expect("an ARP frame")
}

fn neighbour_message(frame: &[u8]) -> NdMessage {
    NdMessage::parse(&frame[14..]).expect("a neighbour message").expect("a valid one")
}

/// A neighbour advertisement from the host on the right.
fn advertisement(target: Ipv6Addr, to: (MacAddr, Ipv6Addr)) -> Vec<u8> {
    let flags = NdFlags { solicited: true, override_cache: true, ..NdFlags::default() };
    nd::advertisement(HOST, target, Some(to), flags)
}

/// An ARP reply from the host on the right.
fn reply(host: &str, to: MacAddr) -> Vec<u8> {
    let (operation, target) = (ArpOperation::Reply, v4("10.2.0.1"));
    let arp = ArpPacket { operation, sender_mac: HOST, sender: v4(host), target_mac: to, target };
    arp.frame(to)
}

#[test]
fn a_packet_waits_for_its_next_hop_and_goes_on_when_it_answers() {
    let (mut left, mut right) = gates(TtlPolicy::Preserve);
    let mut frame = packet("10.2.0.9", 64);
    assert_eq!(left.receive(&frame, 0), GatewayVerdict::Pass);
    assert_eq!(right.send(&mut frame, 5), GatewayVerdict::Consumed);
    assert_eq!(right.waiting(), 1);
    let asked = all(&mut right);
    let [request] = &asked[..] else { panic!("one request: {asked:?}") };
    assert_eq!(frame::dst_mac(request), Some(MacAddr::BROADCAST));
    let asked = arp(request);
    assert_eq!((asked.operation, asked.target), (ArpOperation::Request, v4("10.2.0.9")));
    assert_eq!((asked.sender, asked.sender_mac), (v4("10.2.0.1"), RIGHT));
    assert_eq!(right.receive(&reply("10.2.0.9", RIGHT), 9), GatewayVerdict::Consumed);
    let sent = all(&mut right);
    assert_eq!(sent.len(), 1);
    assert_eq!((&sent[0][..6], &sent[0][6..12]), (&HOST.0[..], &RIGHT.0[..]));
    assert_eq!(sent[0][12..], frame[12..], "nothing but the addresses has changed");
    assert_eq!(right.waiting(), 0);
    // The next frame passes without waiting, because the next hop is known.
    assert_eq!(right.send(&mut frame, 10), GatewayVerdict::Pass);
    assert_eq!(frame, sent[0]);
}

#[test]
fn packets_that_wait_keep_their_order() {
    let (_, mut right) = gates(TtlPolicy::Preserve);
    for number in 0..100 {
        let mut frame = packet("10.2.0.9", 64);
        *frame.last_mut().unwrap() = number;
        assert_eq!(right.send(&mut frame, 0), GatewayVerdict::Consumed);
    }
    assert_eq!(all(&mut right).len(), 1, "one request for all of them");
    right.receive(&reply("10.2.0.9", RIGHT), 1);
    let numbers: Vec<_> = all(&mut right).iter().map(|frame| *frame.last().unwrap()).collect();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_host_that_is_silent_is_asked_three_times_and_the_packets_are_counted() {
    let (_, mut right) = gates(TtlPolicy::Preserve);
    right.send(&mut packet("10.2.0.9", 64), 0);
    right.send(&mut packet("10.2.0.9", 64), SECOND / 2);
    assert_eq!(all(&mut right).len(), 1);
    for second in 1..=2 {
        assert_eq!(right.next_ns(), Some(second * SECOND), "one second after the last request");
        right.tick(second * SECOND - 1);
        assert!(all(&mut right).is_empty(), "not before");
        right.tick(second * SECOND);
        assert_eq!(all(&mut right).len(), 1);
    }
    assert_eq!(right.take_unresolved(), 0);
    right.tick(3 * SECOND);
    assert!(!right.is_tx_empty() && all(&mut right).is_empty());
    assert_eq!(right.take_unresolved(), 2, "both packets are lost by name");
    assert_eq!(right.take_unresolved(), 0, "once");
    assert_eq!((right.waiting(), right.next_ns()), (0, None));
    // A later packet makes the router send new requests. So it tries again to reach a host that did
    // not answer before.
    assert_eq!(right.send(&mut packet("10.2.0.9", 64), 9 * SECOND), GatewayVerdict::Consumed);
    assert_eq!(all(&mut right).len(), 1);
}

#[test]
fn a_late_tick_does_not_ask_in_a_burst() {
    let (_, mut right) = gates(TtlPolicy::Preserve);
    right.send(&mut packet("10.2.0.9", 64), 0);
    all(&mut right);
    right.tick(60 * SECOND);
    assert_eq!(all(&mut right).len(), 1);
    assert_eq!(right.next_ns(), Some(61 * SECOND));
}

#[test]
fn an_old_address_is_used_while_it_is_asked_for_again_and_then_given_up() {
    let (_, mut right) = gates(TtlPolicy::Preserve);
    right.send(&mut packet("10.2.0.9", 64), 0);
    right.receive(&reply("10.2.0.9", RIGHT), 0);
    all(&mut right);
    // RFC 4861, 10: an answer is valid for 15 to 45 seconds.
    assert_eq!(right.send(&mut packet("10.2.0.9", 64), 14 * SECOND), GatewayVerdict::Pass);
    assert_eq!((right.next_ns(), all(&mut right)), (None, vec![]));
    // RFC 4861, DELAY state: the router uses the entry for five more seconds before it sends a
    // request.
    let later = 50 * SECOND;
    assert_eq!(right.send(&mut packet("10.2.0.9", 64), later), GatewayVerdict::Pass);
    for second in 5..8 {
        right.tick(later + second * SECOND - 1);
        assert!(all(&mut right).is_empty());
        right.tick(later + second * SECOND);
        let asked = all(&mut right);
        assert_eq!(frame::dst_mac(&asked[0]), Some(HOST), "the one who had it is asked");
        assert_eq!(
            right.send(&mut packet("10.2.0.9", 64), later + second * SECOND),
            GatewayVerdict::Pass
        );
    }
    right.tick(later + 8 * SECOND);
    assert_eq!(
        right.send(&mut packet("10.2.0.9", 64), later + 8 * SECOND),
        GatewayVerdict::Consumed
    );
}

#[test]
fn the_router_answers_for_its_address_and_learns_who_asked() {
    let (mut left, mut right) = gates(TtlPolicy::Preserve);
    let asks = |sender: &str, target: &str| {
        ArpPacket {
            operation: ArpOperation::Request,
            sender_mac: HOST,
            sender: v4(sender),
            target_mac: MacAddr::ZERO,
            target: v4(target),
        }
        .frame(MacAddr::BROADCAST)
    };
    assert_eq!(right.receive(&asks("10.2.0.9", "10.2.0.1"), 0), GatewayVerdict::Consumed);
    let answers = all(&mut right);
    let answer = arp(&answers[0]);
    assert_eq!((answer.operation, answer.sender_mac), (ArpOperation::Reply, RIGHT));
    assert_eq!((answer.sender, answer.target), (v4("10.2.0.1"), v4("10.2.0.9")));
    assert_eq!(frame::dst_mac(&answers[0]), Some(HOST));
    // The router has learned the host's MAC address from the host's own request, so it sends no
    // request for it.
    assert_eq!(right.send(&mut packet("10.2.0.9", 64), 1), GatewayVerdict::Pass);
    // The router does not answer a request for another host. A request for its address at the left
    // port is answered, but only at that port.
    assert_eq!(right.receive(&asks("10.2.0.8", "10.2.0.77"), 0), GatewayVerdict::Consumed);
    assert_eq!(left.receive(&asks("10.2.0.9", "10.1.0.1"), 0), GatewayVerdict::Consumed);
    assert!(all(&mut right).is_empty());
    let answers = all(&mut left);
    assert_eq!((answers.len(), arp(&answers[0]).sender_mac), (1, LEFT));
    // The sender of a request that is not answered is not learned.
    assert_eq!(right.send(&mut packet("10.2.0.8", 64), 1), GatewayVerdict::Consumed);
}

#[test]
fn nobody_can_take_the_routers_own_address() {
    let (_, mut right) = gates(TtlPolicy::Preserve);
    let claim = ArpPacket {
        operation: ArpOperation::Reply,
        sender_mac: HOST,
        sender: v4("10.2.0.1"),
        target_mac: RIGHT,
        target: v4("10.2.0.1"),
    };
    assert_eq!(right.receive(&claim.frame(RIGHT), 0), GatewayVerdict::Consumed);
    assert!(all(&mut right).is_empty());
}

#[test]
fn what_does_not_pass_is_named() {
    let (mut left, _) = gates(TtlPolicy::Preserve);
    for (to, why) in [
        ("10.1.0.9", GatewayDropReason::SameSubnet),
        ("169.254.1.1", GatewayDropReason::LinkLocal),
        ("127.0.0.1", GatewayDropReason::Martian),
        ("0.0.0.0", GatewayDropReason::Martian),
        ("10.1.0.1", GatewayDropReason::ToRouter),
        ("10.2.0.1", GatewayDropReason::ToRouter),
        ("10.1.0.255", GatewayDropReason::Broadcast),
        ("10.2.0.255", GatewayDropReason::Broadcast),
        ("255.255.255.255", GatewayDropReason::Broadcast),
        ("224.0.0.1", GatewayDropReason::Broadcast),
        ("10.3.0.1", GatewayDropReason::NoRoute),
        ("fd01::9", GatewayDropReason::SameSubnet),
        ("fe80::9", GatewayDropReason::LinkLocal),
        ("::1", GatewayDropReason::Martian),
        ("ff02::1", GatewayDropReason::Broadcast),
        ("fd02::1", GatewayDropReason::ToRouter),
        ("fd03::1", GatewayDropReason::NoRoute),
    ] {
        assert_eq!(left.receive(&packet(to, 64), 0), GatewayVerdict::Drop(why), "{to}");
    }
    let good = packet("10.2.0.9", 64);
    let mut edit = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        edit(&mut frame);
        left.receive(&frame, 0)
    };
    assert_eq!(edit(&|frame| frame[5] = 0x55), GatewayVerdict::Drop(GatewayDropReason::OtherHost));
    assert_eq!(
        edit(&|frame| frame[..6].fill(0xff)),
        GatewayVerdict::Drop(GatewayDropReason::Broadcast)
    );
    assert_eq!(edit(&|frame| frame[12] = 0x86), GatewayVerdict::Drop(GatewayDropReason::NotIp));
    assert_eq!(
        edit(&|frame| frame[24] ^= 1),
        GatewayVerdict::Drop(GatewayDropReason::Malformed),
        "its checksum"
    );
    assert_eq!(
        edit(&|frame| frame.truncate(50)),
        GatewayVerdict::Drop(GatewayDropReason::Malformed)
    );
    assert_eq!(
        edit(&|frame| frame.truncate(5)),
        GatewayVerdict::Drop(GatewayDropReason::Malformed)
    );
    let tagged = |frame: &mut Vec<u8>| drop(frame.splice(12..12, [0x81, 0, 0, 5]));
    assert_eq!(edit(&tagged), GatewayVerdict::Drop(GatewayDropReason::NotIp));
    assert_eq!(edit(&|_| ()), GatewayVerdict::Pass);
}

#[test]
fn packets_age_only_where_that_is_asked() {
    let (mut kept, mut kept_out) = gates(TtlPolicy::Preserve);
    let (mut spent, mut spent_out) = gates(TtlPolicy::Decrement);
    for to in ["10.2.0.9", "fd02::9"] {
        for life in [1, 0] {
            assert_eq!(kept.receive(&packet(to, life), 0), GatewayVerdict::Pass);
            let expired = GatewayVerdict::Drop(GatewayDropReason::Expired);
            assert_eq!(spent.receive(&packet(to, life), 0), expired, "{to}");
        }
        let before = packet(to, 64);
        let (mut same, mut older) = (before.clone(), before.clone());
        kept_out.send(&mut same, 0);
        spent_out.send(&mut older, 0);
        assert_eq!(same, before);
        assert_eq!(older, packet(to, 63), "with the checksum of a packet made so");
    }
}

#[test]
fn a_gateway_takes_what_is_beyond_the_subnet() {
    let right = side(RIGHT, &[("10.2.0.1", 24)], &["10.2.0.254"]);
    let mut in_gate = GatewayPort::new(left(), right.clone(), TtlPolicy::Preserve);
    let mut out_gate = GatewayPort::new(right, left(), TtlPolicy::Preserve);
    let mut frame = packet("198.51.100.1", 64);
    assert_eq!(in_gate.receive(&frame, 0), GatewayVerdict::Pass);
    assert_eq!(out_gate.send(&mut frame, 0), GatewayVerdict::Consumed);
    assert_eq!(arp(&all(&mut out_gate)[0]).target, v4("10.2.0.254"));
    // There is no gateway for IPv6.
    assert_eq!(
        in_gate.receive(&packet("fd03::1", 64), 0),
        GatewayVerdict::Drop(GatewayDropReason::NoRoute)
    );
}

#[test]
fn a_port_without_a_usable_address_is_refused() {
    for (address, len, why) in [
        ("10.0.0.1", 33, "prefix"),
        ("10.0.0.255", 24, "no address of a host"),
        ("10.0.0.0", 24, "no address of a host"),
        ("224.0.0.1", 24, "no address of a host"),
        ("0.0.0.0", 0, "no address of a host"),
        ("fd00::1", 129, "prefix"),
    ] {
        let error = Subnet::new(ip(address), len).unwrap_err();
        assert!(std::format!("{error}").contains(why), "{address}/{len}: {error}");
    }
    assert!(Subnet::new(ip("10.0.0.0"), 31).is_ok(), "RFC 3021: no broadcast address");
    let subnet = Subnet::new(ip("10.0.0.1"), 24).unwrap();
    for gateway in ["10.0.1.1", "10.0.0.1", "10.0.0.255"] {
        let error = RouterInterface::new(LEFT, vec![subnet], vec![ip(gateway)]);
        assert!(matches!(error, Err(RouterInterfaceError::Gateway { .. })), "{gateway}");
    }
    assert_eq!(RouterInterface::new(LEFT, vec![], vec![]), Err(RouterInterfaceError::NoSubnet));
    let no_mac = RouterInterface::new(MacAddr::ZERO, vec![subnet], vec![]);
    assert_eq!(no_mac, Err(RouterInterfaceError::Mac { mac: MacAddr::ZERO }));
}

#[test]
fn two_ports_of_one_subnet_are_noticed_but_for_link_local_ones() {
    let port = |address, len| side(LEFT, &[(address, len), ("fe80::1", 64)], &[]);
    assert_eq!(port("10.1.0.1", 24).overlap(&port("10.2.0.1", 24)), None);
    assert_eq!(port("10.1.0.1", 24).overlap(&port("10.1.0.2", 24)), Some(ip("10.1.0.2")));
    assert_eq!(port("10.1.9.1", 24).overlap(&port("10.0.0.1", 8)), Some(ip("10.1.9.1")));
}

#[test]
fn a_host_of_ipv6_is_found_by_neighbour_discovery() {
    let (mut left, mut right) = gates(TtlPolicy::Preserve);
    let mut frame = packet("fd02::9", 64);
    assert_eq!(left.receive(&frame, 0), GatewayVerdict::Pass);
    assert_eq!(right.send(&mut frame, 0), GatewayVerdict::Consumed);
    let asked = all(&mut right);
    assert_eq!(frame::dst_mac(&asked[0]), Some(MacAddr([0x33, 0x33, 0xff, 0, 0, 9])));
    let request = neighbour_message(&asked[0]);
    assert_eq!(IpAddr::V6(request.target), ip("fd02::9"));
    assert_eq!((IpAddr::V6(request.source), request.mac), (ip("fd02::1"), Some(RIGHT)));
    let answer = advertisement(request.target, (RIGHT, request.source));
    assert_eq!(right.receive(&answer, 1), GatewayVerdict::Consumed);
    let sent = all(&mut right);
    assert_eq!((&sent[0][..6], &sent[0][12..]), (&HOST.0[..], &frame[12..]));
}

#[test]
fn the_router_answers_solicitations_for_any_of_its_addresses() {
    let (_, mut right) = gates(TtlPolicy::Preserve);
    let host: Ipv6Addr = "fd02::9".parse().unwrap();
    for own in ["fd02::1", "fe80::2"] {
        let own = own.parse().unwrap();
        assert_eq!(
            right.receive(&nd::solicitation(HOST, host, own, None), 0),
            GatewayVerdict::Consumed
        );
        let answers = all(&mut right);
        let answer = neighbour_message(&answers[0]);
        assert_eq!((answer.target, answer.mac), (own, Some(RIGHT)));
        assert_eq!(frame::dst_mac(&answers[0]), Some(HOST));
    }
    let other = "fd02::77".parse().unwrap();
    right.receive(&nd::solicitation(HOST, host, other, None), 0);
    assert!(all(&mut right).is_empty());
}

#[test]
fn a_damaged_or_routed_advertisement_is_not_believed() {
    let (_, mut right) = gates(TtlPolicy::Preserve);
    right.send(&mut packet("fd02::9", 64), 0);
    let good = advertisement("fd02::9".parse().unwrap(), (RIGHT, "fd02::1".parse().unwrap()));
    for at in [21, 57, 62, 80] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let malformed = GatewayVerdict::Drop(GatewayDropReason::Malformed);
        assert_eq!(right.receive(&bad, 1), malformed, "byte {at}");
    }
    assert_eq!(right.waiting(), 1);
    assert_eq!(right.receive(&good, 1), GatewayVerdict::Consumed);
    assert_eq!(right.waiting(), 0);
}

#[test]
fn a_sender_is_told_when_its_packet_expires_or_has_no_route() {
    for (to, ttl, message) in [
        ("10.2.0.9", 1, [11, 0]),
        ("10.3.0.1", 64, [3, 0]),
        ("fd02::9", 1, [3, 0]),
        ("fd03::1", 64, [1, 0]),
    ] {
        let (mut left, _) = gates(TtlPolicy::Decrement);
        let frame = packet(to, ttl);
        assert!(matches!(left.receive(&frame, 0), GatewayVerdict::Drop(_)));
        let errors = all(&mut left);
        let [error] = &errors[..] else { panic!("one error: {errors:?}") };
        assert_eq!(
            (&error[..6], &error[6..14]),
            (&frame[6..12], &[&LEFT.0, &frame[12..14]].concat()[..])
        );
        let (own, host, at) = match ip(to).is_ipv4() {
            true => (&error[26..30], &frame[26..30], 34),
            false => (&error[22..38], &frame[22..38], 54),
        };
        let expected = match ip(to).is_ipv4() {
            true => vec![10, 1, 0, 1],
            false => "fd01::1".parse::<Ipv6Addr>().unwrap().octets().to_vec(),
        };
        assert_eq!(own, expected, "from the address on the sender's side");
        assert_eq!(&error[at - host.len()..at], host);
        assert_eq!(error[at..at + 2], message);
        assert_eq!(error[at + 8..], frame[14..], "with the packet as it came");
    }
}

#[test]
fn nobody_is_told_about_errors_or_too_often() {
    let (mut left, _) = gates(TtlPolicy::Decrement);
    let mut error = packet("10.2.0.9", 1);
    (error[23], error[34]) = (1, 3);
    error[24..26].fill(0);
    let sum = checksum::of(&error[14..34]);
    error[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(left.receive(&error, 0), GatewayVerdict::Drop(GatewayDropReason::Expired));
    assert!(all(&mut left).is_empty());
    let sent = (0..1_000).filter(|ms| {
        left.receive(&packet("10.2.0.9", 1), ms * SECOND / 1_000);
        !all(&mut left).is_empty()
    });
    let sent = sent.count();
    assert!((15..=21).contains(&sent), "{sent} in a second");
}

#[test]
fn a_scan_of_a_large_subnet_is_bounded_and_known_hosts_go_on() {
    let own = side(RIGHT, &[("10.0.0.1", 8)], &[]);
    let mut gate = GatewayPort::new(own, left(), TtlPolicy::Preserve);
    gate.send(&mut packet("10.0.0.9", 64), 0);
    let sent = ArpPacket {
        operation: ArpOperation::Reply,
        sender_mac: HOST,
        sender: v4("10.0.0.9"),
        target_mac: RIGHT,
        target: v4("10.0.0.1"),
    };
    gate.receive(&sent.frame(RIGHT), 0);
    let mut refused = 0;
    for host in 0..20_000u32 {
        let to = std::format!("{}", Ipv4Addr::from(0x0a01_0000 + host));
        let verdict = gate.send(&mut packet(&to, 64), 1);
        refused += u32::from(verdict == GatewayVerdict::Drop(GatewayDropReason::Unresolved));
        gate.pop();
    }
    while gate.pop().is_some() {}
    let lost = gate.take_unresolved() as usize;
    assert_eq!(refused as usize + lost + gate.waiting(), 20_000);
    assert!(gate.waiting() <= 4_096 && lost > 0);
    assert_eq!(gate.send(&mut packet("10.0.0.9", 64), 2), GatewayVerdict::Pass);
}

/// A random event. After any sequence of events, each packet must have been sent once, still wait,
/// or be counted as lost.
#[derive(Debug, Clone)]
enum Step {
    Send(u8),
    Answer(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (2u8..8).prop_map(Step::Send),
        (2u8..8).prop_map(Step::Answer),
        (0..2 * SECOND).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn no_packet_is_lost_uncounted_doubled_or_overtaken(steps in prop::collection::vec(step(), 1..200)) {
        let (_, mut right) = gates(TtlPolicy::Preserve);
        let (mut now, mut lost) = (0, 0);
        let mut sent: [VecDeque<u16>; 8] = Default::default();
        let mut count = 0u16;
        let note = |sent: &mut [VecDeque<u16>], frame: &[u8]| {
            if frame[12..14] == [8, 0] {
                let number = u16::from_be_bytes([frame[58], frame[59]]);
                sent[usize::from(frame[33])].push_back(number);
            }
        };
        for step in steps {
            match step {
                Step::Send(host) => {
                    let mut frame = packet(&std::format!("10.2.0.{host}"), 64);
                    frame[58..60].copy_from_slice(&count.to_be_bytes());
                    count += 1;
                    if right.send(&mut frame, now) == GatewayVerdict::Pass {
                        note(&mut sent, &frame);
                    }
                }
                Step::Answer(host) => {
                    right.receive(&reply(&std::format!("10.2.0.{host}"), RIGHT), now);
                }
                Step::Wait(time) => {
                    now += time;
                    right.tick(now);
                }
            }
            while let Some(frame) = right.pop() {
                note(&mut sent, &frame);
            }
            lost += right.take_unresolved();
        }
        let passed: usize = sent.iter().map(VecDeque::len).sum();
        prop_assert_eq!(passed + right.waiting() + lost as usize, usize::from(count));
        // When all hosts have answered, no packet waits any more.
        for host in 2..8 {
            right.receive(&reply(&std::format!("10.2.0.{host}"), RIGHT), now);
        }
        while let Some(frame) = right.pop() {
            note(&mut sent, &frame);
        }
        lost += right.take_unresolved();
        let passed: usize = sent.iter().map(VecDeque::len).sum();
        prop_assert_eq!((passed + lost as usize, right.waiting()), (usize::from(count), 0));
        for numbers in &sent {
            prop_assert!(numbers.iter().zip(numbers.iter().skip(1)).all(|(a, b)| a < b));
        }
    }

    #[test]
    fn no_frame_makes_it_panic(frame in prop::collection::vec(any::<u8>(), 0..120), kind in 0..4) {
        let (mut left, mut right) = gates(TtlPolicy::Decrement);
        let mut frame = frame;
        let mut arrives = |frame: &mut [u8]| {
            left.receive(frame, 0);
            right.receive(frame, 0);
            right.send(frame, 0);
            right.tick(5 * SECOND);
        };
        let start: &[u8] = match kind {
            0 => &[],
            1 => &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 8, 6, 0, 1, 8, 0, 6, 4, 0],
            2 => &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255],
            _ => &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 8, 0, 0x45],
        };
        frame.splice(..0, start.iter().copied());
        arrives(&mut frame.clone());
        correct(&mut frame);
        arrives(&mut frame);
    }
}

/// Makes lengths and checksums of a frame correct, as far as the frame has them, so that the router
/// reads more of the frame.
fn correct(frame: &mut [u8]) {
    let len = frame.len();
    match frame.get(12..15) {
        Some([8, 0, 0x45]) if len >= 34 => {
            frame[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
            frame[24..26].fill(0);
            let sum = checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        Some([0x86, 0xdd, _]) if len >= 58 => {
            let payload = len as u16 - 54;
            frame[18..20].copy_from_slice(&payload.to_be_bytes());
            let address =
                |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&frame[at..at + 16]).unwrap());
            let pseudo = Sum::pseudo_v6(address(22), address(38), IpProto::ICMPV6, payload.into());
            frame[56..58].fill(0);
            let sum = pseudo.bytes(&frame[54..]).checksum();
            frame[56..58].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {}
    }
}

/// A ping to the router from a host on the left.
fn ping(from: &str, to: &str) -> Vec<u8> {
    let mut frame = [&LEFT.0[..], &[2, 0, 0, 0, 0, 7]].concat();
    let body = [0x12, 0x34, 0, 1, 1, 2, 3, 4, 5];
    match (ip(from), ip(to)) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = vec![0x45, 0, 0, 33, 9, 9, 0x40, 0, 5, 1, 0, 0];
            header.extend([from.octets(), to.octets()].concat());
            let sum = checksum::of(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            let mut packet = [&[8, 0, 0, 0][..], &body].concat();
            let sum = checksum::of(&packet);
            packet[2..4].copy_from_slice(&sum.to_be_bytes());
            [frame, vec![8, 0], header, packet, vec![0; 13]].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 13, 58, 5]);
            frame.extend([from.octets(), to.octets()].concat());
            let mut packet = [&[128, 0, 0, 0][..], &body].concat();
            let sum = Sum::pseudo_v6(from, to, IpProto::ICMPV6, 13).bytes(&packet).checksum();
            packet[2..4].copy_from_slice(&sum.to_be_bytes());
            [frame, packet].concat()
        }
        _ => panic!("addresses of one kind"),
    }
}

#[test]
fn pings_of_the_router_at_either_address_are_answered() {
    for (from, to) in [
        ("10.1.0.7", "10.1.0.1"),
        ("10.1.0.7", "10.2.0.1"),
        ("fd01::7", "fd01::1"),
        ("fd01::7", "fd02::1"),
    ] {
        let (mut left, _) = gates(TtlPolicy::Decrement);
        assert_eq!(left.receive(&ping(from, to), 0), GatewayVerdict::Consumed, "{to}");
        let answers = all(&mut left);
        let [answer] = &answers[..] else { panic!("one answer: {answers:?}") };
        assert_eq!((&answer[..6], &answer[6..12]), (&[2, 0, 0, 0, 0, 7][..], &LEFT.0[..]));
        // The reply is a valid packet: its checksums and lengths are correct.
        assert_eq!(frame::classify(answer), frame::GatewayFrameKind::Ip { to: ip(from), ttl: 64 });
        let (at, kind) = if ip(to).is_ipv4() { (34, 0) } else { (54, 129) };
        assert_eq!((answer[at], &answer[at + 4..]), (kind, &ping(from, to)[at + 4..at + 13]));
        let sum = match (ip(to), ip(from)) {
            (IpAddr::V6(to), IpAddr::V6(from)) => {
                Sum::pseudo_v6(to, from, IpProto::ICMPV6, 13).bytes(&answer[at..]).checksum()
            }
            _ => checksum::of(&answer[at..]),
        };
        assert_eq!(sum, 0, "{to}");
    }
}

#[test]
fn what_is_no_whole_ping_of_the_router_stays_unanswered() {
    let whole = ping("10.1.0.7", "10.1.0.1");
    let change = |at: usize, byte: u8| {
        let mut frame = whole.clone();
        frame[at] = byte;
        let sum = {
            frame[24..26].fill(0);
            checksum::of(&frame[14..34])
        };
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    let (mut left, _) = gates(TtlPolicy::Preserve);
    for (what, frame) in [
        ("a damaged one", change(40, 0xff)),
        ("a part of one", change(20, 0x20)),
        ("an answer", change(34, 0)),
        ("another protocol", change(23, 17)),
    ] {
        assert_eq!(
            left.receive(&frame, 0),
            GatewayVerdict::Drop(GatewayDropReason::ToRouter),
            "{what}"
        );
    }
    // If no one fetches the replies, only a limited number of them is queued.
    let taken = (0..1_000).filter(|_| left.receive(&whole, 0) == GatewayVerdict::Consumed).count();
    assert_eq!(taken, all(&mut left).len());
    assert!(taken < 100, "{taken}");
}
