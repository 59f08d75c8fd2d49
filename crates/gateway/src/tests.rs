//! The router's behaviour in virtual time, one test each.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use slipring_wire::MacAddr;
use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::{self, Sum};

use crate::arp::{Arp, Operation};
use crate::frame;
use crate::{
    GatewayDropReason, GatewayPort, GatewayVerdict, RouterInterface, RouterInterfaceError, Subnet,
    TtlPolicy, nd,
};

const SECOND: u64 = 1_000_000_000;
/// The router's MAC addresses at both ports.
const LEFT: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const RIGHT: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// The MAC address of a host on the right.
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

/// The gateway ports on both sides.
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

fn arp(frame: &[u8]) -> Arp {
    Arp::parse(frame).expect("an ARP frame")
}

/// An ARP reply of the host on the right.
fn reply(host: &str, to: MacAddr) -> Vec<u8> {
    let (operation, target) = (Operation::Reply, v4("10.2.0.1"));
    let arp = Arp { operation, sender_mac: HOST, sender: v4(host), target_mac: to, target };
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
    assert_eq!((asked.operation, asked.target), (Operation::Request, v4("10.2.0.9")));
    assert_eq!((asked.sender, asked.sender_mac), (v4("10.2.0.1"), RIGHT));
    assert_eq!(right.receive(&reply("10.2.0.9", RIGHT), 9), GatewayVerdict::Consumed);
    let sent = all(&mut right);
    assert_eq!(sent.len(), 1);
    assert_eq!((&sent[0][..6], &sent[0][6..12]), (&HOST.0[..], &RIGHT.0[..]));
    assert_eq!(sent[0][12..], frame[12..], "nothing but the addresses has changed");
    assert_eq!(right.waiting(), 0);
    // The next frame passes at once.
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
        assert_eq!(right.tick(second * SECOND - 1), 0);
        assert!(all(&mut right).is_empty(), "not before");
        assert_eq!(right.tick(second * SECOND), 0);
        assert_eq!(all(&mut right).len(), 1);
    }
    assert_eq!(right.tick(3 * SECOND), 2, "both packets are lost by name");
    assert_eq!((right.waiting(), right.next_ns()), (0, None));
    // A later packet starts new requests: a host is not given up for ever.
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
    assert_eq!(right.send(&mut packet("10.2.0.9", 64), 59 * SECOND), GatewayVerdict::Pass);
    assert!(all(&mut right).is_empty());
    let later = 61 * SECOND;
    assert_eq!(right.send(&mut packet("10.2.0.9", 64), later), GatewayVerdict::Pass);
    let asked = all(&mut right);
    assert_eq!(frame::dst_mac(&asked[0]), Some(HOST), "the one who had it is asked");
    right.tick(later + SECOND);
    right.tick(later + 2 * SECOND);
    right.tick(later + 3 * SECOND);
    all(&mut right);
    assert_eq!(
        right.send(&mut packet("10.2.0.9", 64), later + 4 * SECOND),
        GatewayVerdict::Consumed
    );
}

#[test]
fn the_router_answers_for_its_address_and_learns_who_asked() {
    let (mut left, mut right) = gates(TtlPolicy::Preserve);
    let asks = |target: &str| {
        Arp {
            operation: Operation::Request,
            sender_mac: HOST,
            sender: v4("10.2.0.9"),
            target_mac: MacAddr::ZERO,
            target: v4(target),
        }
        .frame(MacAddr::BROADCAST)
    };
    assert_eq!(right.receive(&asks("10.2.0.1"), 0), GatewayVerdict::Consumed);
    let answers = all(&mut right);
    let answer = arp(&answers[0]);
    assert_eq!((answer.operation, answer.sender_mac), (Operation::Reply, RIGHT));
    assert_eq!((answer.sender, answer.target), (v4("10.2.0.1"), v4("10.2.0.9")));
    assert_eq!(frame::dst_mac(&answers[0]), Some(HOST));
    // The sender of the request need not be requested itself.
    assert_eq!(right.send(&mut packet("10.2.0.9", 64), 1), GatewayVerdict::Pass);
    // The router does not answer for other hosts, and their traffic does not fill a table.
    assert_eq!(right.receive(&asks("10.2.0.77"), 0), GatewayVerdict::Consumed);
    assert_eq!(left.receive(&asks("10.1.0.1"), 0), GatewayVerdict::Consumed);
    assert!(all(&mut right).is_empty());
}

#[test]
fn nobody_can_take_the_routers_own_address() {
    let (_, mut right) = gates(TtlPolicy::Preserve);
    let claim = Arp {
        operation: Operation::Reply,
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
        ("169.254.1.1", GatewayDropReason::SameSubnet),
        ("10.1.0.1", GatewayDropReason::ToRouter),
        ("10.2.0.1", GatewayDropReason::ToRouter),
        ("10.1.0.255", GatewayDropReason::Broadcast),
        ("10.2.0.255", GatewayDropReason::Broadcast),
        ("255.255.255.255", GatewayDropReason::Broadcast),
        ("224.0.0.1", GatewayDropReason::Broadcast),
        ("10.3.0.1", GatewayDropReason::NoRoute),
        ("fd01::9", GatewayDropReason::SameSubnet),
        ("fe80::9", GatewayDropReason::SameSubnet),
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
    let nobody = RouterInterface::new(MacAddr::ZERO, vec![subnet], vec![]);
    assert_eq!(nobody, Err(RouterInterfaceError::Mac { mac: MacAddr::ZERO }));
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
    let request = nd::NdMessage::parse(&asked[0]).unwrap();
    assert_eq!(IpAddr::V6(request.target), ip("fd02::9"));
    assert_eq!((IpAddr::V6(request.from), request.mac), (ip("fd02::1"), Some(RIGHT)));
    let answer = nd::advertisement(HOST, request.target, (RIGHT, request.from));
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
        let answer = nd::NdMessage::parse(&answers[0]).unwrap();
        assert_eq!((answer.target, answer.mac), (own, Some(RIGHT)));
        assert_eq!(frame::dst_mac(&answers[0]), Some(HOST));
    }
    let other = "fd02::77".parse().unwrap();
    right.receive(&nd::solicitation(HOST, host, other, None), 0);
    assert!(all(&mut right).is_empty());
}

#[test]
fn a_damaged_or_routed_advertisement_is_not_believed() {
    let good =
        nd::advertisement(HOST, "fd02::9".parse().unwrap(), (RIGHT, "fd02::1".parse().unwrap()));
    assert!(nd::NdMessage::parse(&good).is_some());
    for at in [20, 21, 54, 57, 62, 80] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert_eq!(nd::NdMessage::parse(&bad), None, "byte {at}");
    }
    for len in 0..good.len() {
        assert_eq!(nd::NdMessage::parse(&good[..len]), None);
    }
}

#[test]
fn a_scan_of_a_large_subnet_is_bounded_and_known_hosts_go_on() {
    let own = side(RIGHT, &[("10.0.0.1", 8)], &[]);
    let mut gate = GatewayPort::new(own, left(), TtlPolicy::Preserve);
    gate.send(&mut packet("10.0.0.9", 64), 0);
    let told = Arp {
        operation: Operation::Reply,
        sender_mac: HOST,
        sender: v4("10.0.0.9"),
        target_mac: RIGHT,
        target: v4("10.0.0.1"),
    };
    gate.receive(&told.frame(RIGHT), 0);
    let mut refused = 0;
    for host in 0..20_000u32 {
        let to = std::format!("{}", Ipv4Addr::from(0x0a01_0000 + host));
        let verdict = gate.send(&mut packet(&to, 64), 1);
        refused += u32::from(verdict == GatewayVerdict::Drop(GatewayDropReason::Unresolved));
        gate.pop();
    }
    assert_eq!(refused as usize + gate.waiting(), 20_000);
    assert!(gate.waiting() <= 16_384 && refused > 0);
    assert_eq!(gate.send(&mut packet("10.0.0.9", 64), 2), GatewayVerdict::Pass);
}

/// Every packet is sent once, refused, or counted as lost, whatever the hosts do.
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
        let mut note = |frame: &[u8]| {
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
                        note(&frame);
                    }
                }
                Step::Answer(host) => {
                    right.receive(&reply(&std::format!("10.2.0.{host}"), RIGHT), now);
                }
                Step::Wait(time) => {
                    now += time;
                    lost += right.tick(now);
                }
            }
            while let Some(frame) = right.pop() {
                note(&frame);
            }
        }
        let passed: usize = sent.iter().map(VecDeque::len).sum();
        prop_assert_eq!(passed + right.waiting() + lost as usize, usize::from(count));
        for numbers in &sent {
            prop_assert!(numbers.iter().zip(numbers.iter().skip(1)).all(|(a, b)| a < b));
        }
    }

    #[test]
    fn no_frame_makes_it_panic(frame in prop::collection::vec(any::<u8>(), 0..120), kind in 0..4) {
        let (mut left, mut right) = gates(TtlPolicy::Decrement);
        let mut frame = frame;
        let start: &[u8] = match kind {
            0 => &[],
            1 => &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 8, 6, 0, 1, 8, 0, 6, 4, 0],
            2 => &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255],
            _ => &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 8, 0, 0x45],
        };
        frame.splice(..0, start.iter().copied());
        left.receive(&frame, 0);
        right.receive(&frame, 0);
        right.send(&mut frame, 0);
        right.tick(5 * SECOND);
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
        // The reply is a valid packet: checksums and lengths are correct.
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
    // Replies that are not fetched do not accumulate.
    let taken = (0..1_000).filter(|_| left.receive(&whole, 0) == GatewayVerdict::Consumed).count();
    assert_eq!(taken, all(&mut left).len());
    assert!(taken < 100, "{taken}");
}
