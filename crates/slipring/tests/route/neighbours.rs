//! Tests of ARP and neighbour discovery, and of packets that wait for a neighbour's answer.

use std::net::IpAddr;

use crate::host::{BROADCAST, Frame, Mac};
use crate::icmp::{IcmpError, kinds};
use crate::packet::Packet;
use crate::resolution::{Arp, Discovery, OVERRIDE, ROUTER, SOLICITED, group_mac, solicited_node};
use crate::rig::{Rig, Seen, Setup, families, host_mac, ip, v4, v6};

checks! {
    packets_wait_for_a_neighbour_and_arrive_in_order_after_one_request,
    the_first_packet_of_a_flow_arrives,
    the_next_hop_is_asked_for_and_not_the_destination,
    requests_have_the_fields_of_the_rfc,
    an_unanswered_neighbour_is_asked_three_times_and_then_reported_unreachable,
    the_router_answers_requests_for_its_own_address_only,
    an_arp_probe_is_answered,
    a_solicitation_is_answered_with_router_solicited_and_override,
    a_probe_for_a_duplicate_address_is_answered_to_all_nodes,
    a_solicitation_that_has_crossed_a_router_is_ignored,
    a_permanent_neighbour_is_not_overwritten_by_a_reply,
    a_neighbour_with_a_new_mac_gets_its_packets_there,
    a_neighbour_that_is_removed_is_asked_for_again,
    a_scan_costs_other_flows_nothing,
}

/// A neighbour on B's link that the router does not know.
const UNKNOWN: [&str; 2] = ["10.3.0.7", "fd03::7"];
const UNKNOWN_MAC: Mac = host_mac(3, 7);

/// Makes the router repeat requests only after a long time, so that there is only one request even
/// on a busy machine.
fn patient(setup: Setup) -> Setup {
    setup
        .set("ipv4/neigh/e1/retrans_time_ms", "60000")
        .set("ipv6/neigh/e1/retrans_time_ms", "60000")
}

/// Waits at B for a request for `target`; returns the sender's addresses.
fn request(rig: &Rig, target: IpAddr) -> (Mac, IpAddr) {
    rig.b.receive(&format!("a request for {target}"), |frame| requested(frame, target))
}

/// Returns the sender if `frame` is a request for `target`.
fn requested(frame: &Frame, target: IpAddr) -> Option<(Mac, IpAddr)> {
    if target.is_ipv4() {
        let arp = Arp::parse(frame).filter(|arp| (arp.operation, arp.target.1) == (1, target))?;
        Some(arp.sender)
    } else {
        let (packet, message) = Discovery::parse(frame)?;
        ((message.kind, message.target) == (135, target)).then_some((frame.src, packet.src))
    }
}

/// Answers a request for `target` from B's link with this MAC address.
fn answer(rig: &Rig, target: IpAddr, mac: Mac, asker: (Mac, IpAddr)) {
    if target.is_ipv4() {
        let reply = Arp { operation: 2, sender: (mac, target), target: asker };
        rig.b.send_frame(&reply.frame(mac, asker.0));
    } else {
        let flags = SOLICITED | OVERRIDE;
        let message = Discovery { kind: 136, flags, target, option: Some((2, mac)) };
        rig.b.send_frame(&Frame::of(mac, asker.0, &message.packet(target, asker.1)));
    }
}

/// Asserts that exactly these packets arrive at B's link for this MAC address.
#[track_caller]
fn arrive(rig: &Rig, packets: &[Packet], mac: Mac) {
    let seen = rig.observe([0, packets.len(), 0]);
    let got: Vec<_> = seen.b.into_iter().map(|arrival| (arrival.dst, arrival.packet)).collect();
    assert_eq!(got, packets.iter().map(|packet| (mac, packet.forwarded())).collect::<Vec<_>>());
    assert_eq!(seen.a, []);
}

/// RFC 1122, section 2.3.2.2, recommends that at least one packet is kept; the router keeps all
/// packets of a burst.
fn packets_wait_for_a_neighbour_and_arrive_in_order_after_one_request(setup: Setup) {
    let rig = patient(setup).start();
    for (net, to) in families().iter().zip(UNKNOWN.map(ip)) {
        let packets: Vec<_> = (0..5).map(|i| Packet::udp(net.a, to, &[i])).collect();
        packets.iter().for_each(|packet| rig.a.send(packet));
        let asker = request(&rig, to);
        let seen = rig.observe([0; 3]);
        assert_eq!((&seen.a[..], &seen.b[..]), (&[][..], &[][..]), "nothing leaks");
        let repeated = seen.resolution[1].iter().filter(|frame| requested(frame, to).is_some());
        assert_eq!(repeated.count(), 0, "one request");
        answer(&rig, to, UNKNOWN_MAC, asker);
        arrive(&rig, &packets, UNKNOWN_MAC);
        // From now on, the router knows the neighbour's MAC address.
        let later = Packet::udp(net.a, to, b"later");
        rig.a.send(&later);
        arrive(&rig, &[later], UNKNOWN_MAC);
    }
}

/// netmap-fwd dropped the packet that caused the ARP request. The router must not.
fn the_first_packet_of_a_flow_arrives(setup: Setup) {
    let rig = setup.start();
    for (net, to) in families().iter().zip(UNKNOWN.map(ip)) {
        let packet = Packet::echo(net.a, to, 1);
        rig.a.send(&packet);
        answer(&rig, to, UNKNOWN_MAC, request(&rig, to));
        arrive(&rig, &[packet], UNKNOWN_MAC);
    }
}

fn the_next_hop_is_asked_for_and_not_the_destination(setup: Setup) {
    let rig = setup
        .ip("route add 10.55.0.0/16 via 10.3.0.7
             route add fd55::/64 via fd03::7
             route add fd56::/64 via fe80::7 dev e1")
        .start();
    for (net, to, gateway) in [
        (v4(), "10.55.0.1", "10.3.0.7"),
        (v6(), "fd55::1", "fd03::7"),
        (v6(), "fd56::1", "fe80::7"),
    ] {
        let packet = Packet::udp(net.a, ip(to), b"via");
        resolve(&rig, &packet, ip(gateway));
    }
}

/// Sends a packet, and answers the requests for `target`, until the packet arrives at the address
/// in the answers. A router may have asked and given up before; an answer has no effect then.
fn resolve(rig: &Rig, packet: &Packet, target: IpAddr) {
    rig.until(|| {
        rig.a.send(packet);
        let seen = rig.observe([0; 3]);
        let askers = seen.resolution[1].iter().filter_map(|frame| requested(frame, target));
        askers.for_each(|asker| answer(rig, target, UNKNOWN_MAC, asker));
        let expected = (UNKNOWN_MAC, packet.forwarded());
        seen.b.into_iter().find(|arrival| (arrival.dst, arrival.packet.clone()) == expected)
    });
}

fn requests_have_the_fields_of_the_rfc(setup: Setup) {
    let rig = setup.start();
    let mac = rig.b.router_mac;
    rig.a.send(&Packet::udp(v4().a, ip("10.3.0.7"), b"ask"));
    let (frame, arp) =
        rig.b.receive("an ARP request", |frame| Arp::parse(frame).map(|arp| (frame.clone(), arp)));
    assert_eq!((frame.src, frame.dst, arp.operation), (mac, BROADCAST, 1));
    assert_eq!((arp.sender, arp.target), ((mac, v4().router_b), ([0; 6], ip("10.3.0.7"))));
    let target = ip("fd03::7");
    rig.a.send(&Packet::udp(v6().a, target, b"ask"));
    let (frame, packet, message) = rig.b.receive("a solicitation", |frame| {
        let (packet, message) = Discovery::parse(frame)?;
        (message.target == target).then(|| (frame.clone(), packet, message))
    });
    let group = solicited_node(target);
    assert_eq!((frame.src, frame.dst, packet.dst), (mac, group_mac(group), group));
    assert_eq!(message, Discovery { kind: 135, flags: 0, target, option: Some((1, mac)) });
    // RFC 4861, section 7.2.2: the source is one of the interface's addresses.
    let IpAddr::V6(source) = packet.src else { panic!("{packet:?}") };
    assert!(packet.src == v6().router_b || source.is_unicast_link_local(), "{packet:?}");
}

/// ARP requests are limited in rate (RFC 1122, section 2.3.2.1), and neighbour solicitations in
/// rate and number (RFC 4861, section 7.2.2).
fn an_unanswered_neighbour_is_asked_three_times_and_then_reported_unreachable(setup: Setup) {
    let rig = setup
        .set("ipv4/neigh/e1/retrans_time_ms", "50")
        .set("ipv6/neigh/e1/retrans_time_ms", "50")
        .start();
    for (net, to) in families().iter().zip(UNKNOWN.map(ip)) {
        let packet = Packet::udp(net.a, to, b"no host there");
        rig.a.send(&packet);
        let seen = rig.observe([1, 0, 0]);
        let requests = seen.resolution[1].iter().filter(|frame| requested(frame, to).is_some());
        assert_eq!((requests.count(), &seen.b[..]), (3, &[][..]));
        let [arrival] = &seen.a[..] else { panic!("not one error: {seen:?}") };
        let error = IcmpError::parse(arrival.packet.clone());
        assert_eq!((error.kind, error.packet.src), (kinds(net.a).host_unreachable, net.router_a));
        error.assert_quotes(&packet);
    }
}

/// Sends an ARP request from A for `target`, and waits for `count` replies; returns all replies.
fn replies(rig: &Rig, sender: IpAddr, target: &str, count: usize) -> Vec<(Frame, Arp)> {
    let request = Arp { operation: 1, sender: (rig.a.mac, sender), target: ([0; 6], ip(target)) };
    rig.a.send_frame(&request.frame(rig.a.mac, BROADCAST));
    let reply = |frame: &Frame| {
        let arp = Arp::parse(frame).filter(|arp| arp.operation == 2)?;
        Some((frame.clone(), arp))
    };
    let replies = |seen: &Seen| seen.resolution[0].iter().filter_map(reply).collect::<Vec<_>>();
    replies(&rig.observe_until("ARP replies", |seen| replies(seen).len() >= count))
}

fn the_router_answers_requests_for_its_own_address_only(setup: Setup) {
    let rig = setup.start();
    let (a, mac) = ((rig.a.mac, v4().a), rig.a.router_mac);
    let answered = replies(&rig, v4().a, "10.1.0.1", 1);
    let [(frame, arp)] = &answered[..] else { panic!("not one reply: {answered:?}") };
    assert_eq!((frame.src, frame.dst), (mac, rig.a.mac));
    assert_eq!((arp.sender, arp.target), ((mac, v4().router_a), a));
    for other in ["10.1.0.77", "10.1.0.2", "10.3.0.2", "10.66.0.1", "255.255.255.255"] {
        assert_eq!(replies(&rig, v4().a, other, 0), [], "for {other}");
    }
    // Linux also answers for its addresses on other links (arp_ignore 0), with this link's MAC.
    assert_eq!(replies(&rig, v4().a, "10.3.0.1", 1)[0].1.sender, (mac, v4().router_b));
    let solicited = |target| solicit(&rig, v6().a, ip(target), 255, 0);
    assert_eq!(solicited("fd01::77"), []);
    assert_eq!(solicited("fd03::1"), [], "no IPv6 router answers for another link");
}

/// RFC 5227, section 2.1.1: the sender's address in a probe is 0.0.0.0.
fn an_arp_probe_is_answered(setup: Setup) {
    let rig = setup.start();
    let answered = replies(&rig, ip("0.0.0.0"), "10.1.0.1", 1);
    let [(frame, arp)] = &answered[..] else { panic!("not one reply: {answered:?}") };
    assert_eq!(frame.dst, rig.a.mac);
    assert_eq!(arp.sender, (rig.a.router_mac, v4().router_a));
    assert_eq!(arp.target, (rig.a.mac, ip("0.0.0.0")));
}

/// Sends a solicitation from A for `target`, and waits for `count` advertisements; returns all
/// advertisements.
fn solicit(
    rig: &Rig,
    src: IpAddr,
    target: IpAddr,
    hops: u8,
    count: usize,
) -> Vec<(Mac, IpAddr, Discovery)> {
    let group = solicited_node(target);
    let option = (src != ip("::")).then_some((1, rig.a.mac));
    let packet = Discovery { kind: 135, flags: 0, target, option }.packet(src, group).hops(hops);
    rig.a.send_frame(&Frame::of(rig.a.mac, group_mac(group), &packet));
    let advertisement = |frame: &Frame| {
        let (packet, message) = Discovery::parse(frame)?;
        (message.kind == 136).then_some((frame.dst, packet.dst, message))
    };
    let found =
        |seen: &Seen| seen.resolution[0].iter().filter_map(advertisement).collect::<Vec<_>>();
    found(&rig.observe_until("advertisements", |seen| found(seen).len() >= count))
}

/// The flags are those that RFC 4861, section 7.2.4, requires of a router.
fn a_solicitation_is_answered_with_router_solicited_and_override(setup: Setup) {
    let rig = setup.start();
    let target = v6().router_a;
    let option = Some((2, rig.a.router_mac));
    let flags = ROUTER | SOLICITED | OVERRIDE;
    let expected = Discovery { kind: 136, flags, target, option };
    assert_eq!(solicit(&rig, v6().a, target, 255, 1), [(rig.a.mac, v6().a, expected)]);
}

/// A probe for a duplicate address has no source address (RFC 4862, section 5.4). So the answer
/// goes to all nodes (RFC 4861, section 7.2.4).
fn a_probe_for_a_duplicate_address_is_answered_to_all_nodes(setup: Setup) {
    let rig = setup.start();
    let target = v6().router_a;
    let option = Some((2, rig.a.router_mac));
    let expected = Discovery { kind: 136, flags: ROUTER | OVERRIDE, target, option };
    let all = ip("ff02::1");
    assert_eq!(solicit(&rig, ip("::"), target, 255, 1), [(group_mac(all), all, expected)]);
}

/// RFC 4861, section 7.1.1: the hop limit must be 255. A packet that has crossed a router has a
/// lower one.
fn a_solicitation_that_has_crossed_a_router_is_ignored(setup: Setup) {
    let rig = setup.start();
    assert_eq!(solicit(&rig, v6().a, v6().router_a, 254, 0), []);
}

/// In netmap-fwd, any reply overwrote a permanent entry.
fn a_permanent_neighbour_is_not_overwritten_by_a_reply(setup: Setup) {
    let rig = setup.start();
    for net in families() {
        answer(&rig, net.b, UNKNOWN_MAC, (rig.b.router_mac, net.router_b));
        rig.forwards(&[Packet::udp(net.a, net.b, b"not stolen")]);
    }
}

fn a_neighbour_with_a_new_mac_gets_its_packets_there(setup: Setup) {
    let rig = setup.start();
    rig.ip("neigh replace 10.3.0.3 lladdr 02:00:00:00:03:07 dev e1 nud permanent
            neigh replace fd03::3 lladdr 02:00:00:00:03:07 dev e1 nud permanent");
    for (net, to) in families().iter().zip(["10.3.0.3", "fd03::3"]) {
        rig.until(|| {
            rig.a.send(&Packet::udp(net.a, ip(to), b"moved"));
            let seen = rig.observe([0; 3]);
            (seen.b.first()?.dst == UNKNOWN_MAC).then_some(())
        });
    }
}

fn a_neighbour_that_is_removed_is_asked_for_again(setup: Setup) {
    let rig = patient(setup).start();
    for (net, to) in families().iter().zip(["10.3.0.3", "fd03::3"].map(ip)) {
        rig.ip(&format!("neigh del {to} dev e1"));
        resolve(&rig, &Packet::udp(net.a, to, b"asked again"), to);
    }
}

/// netmap-fwd kept a list entry and a timer for each address, and searched the list for each
/// packet. The kernel's table is shared by all namespaces of the machine, so the scan is small.
fn a_scan_costs_other_flows_nothing(setup: Setup) {
    let rig = setup.start();
    let flow: Vec<_> = (0..200).map(|i| Packet::udp(v4().a, v4().b, &[i])).collect();
    for (number, packet) in flow.iter().enumerate() {
        rig.a.send(&Packet::udp(v4().a, ip(&format!("10.3.0.{}", 20 + number)), b"scan"));
        rig.a.send(packet);
    }
    let seen = rig.observe([0, flow.len(), 0]);
    let got: Vec<_> = seen.b.into_iter().map(|arrival| arrival.packet).collect();
    assert_eq!(got, flow.iter().map(Packet::forwarded).collect::<Vec<_>>());
}
