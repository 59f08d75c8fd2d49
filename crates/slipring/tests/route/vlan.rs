//! VLAN subinterfaces that the kernel does not have.
//!
//! ```text
//!   A -- e0 [ router ] e1 -- B: also 10.100.0.9 in VLAN 100, and 10.200.0.9 in VLAN 7 of VLAN 200
//!                      e1.100 10.100.0.1, e1.200.7 10.200.0.1: TAP devices of the program
//! ```

use std::net::IpAddr;
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;
use slipring_core::listen::InterfaceListener;
use slipring_test_support::{Program, eventually};

use crate::host::{BROADCAST, Frame, Mac};
use crate::icmp::IcmpError;
use crate::packet::{DF, ICMP, Packet, UDP};
use crate::resolution::{Arp, Discovery, OVERRIDE, ROUTER, SOLICITED, group_mac, solicited_node};
use crate::rig::{Rig, Setup, Subject, host_mac, ip, router_mac, v4, v6, wait_for_own_addresses};
use crate::topology::{SLIPRING, launch};

crate::program_checks! {
    for crate::rig::Setup:
    tagged_frames_leave_without_tag_and_back,
    frames_with_two_tags_leave_without_and_back,
    packets_pass_between_two_vlans_of_an_interface,
    a_priority_tag_is_no_tag_on_an_interface_with_vlans,
    an_unknown_vlan_is_left_to_the_kernel,
    the_priority_follows_the_dscp,
    the_mtu_of_a_vlan_does_not_count_tags,
    a_request_for_an_address_of_the_vlan_is_answered,
    requests_for_other_addresses_are_not_answered,
    a_solicitation_is_answered_as_a_router,
    packets_wait_for_a_neighbour_in_order_after_one_request,
    an_unanswered_neighbour_is_reported_after_three_requests,
    a_scan_costs_other_flows_nothing,
    a_vlan_whose_parent_has_no_address_routes,
    the_host_and_the_vlan_reach_each_other_by_ping,
    multicast_of_the_vlan_reaches_the_device,
    the_device_ends_with_a_killed_program,
    a_device_of_the_kernel_with_such_a_name_is_used,
    the_vlan_is_listed_with_its_counters,
    packets_from_and_to_the_vlan_are_explained,
    a_route_to_the_vlan_says_who_sends
}

/// A VLAN of B's link, with a host in it.
pub(crate) struct Vlan {
    pub(crate) tags: &'static [[u16; 2]],
    /// The addresses of the host and of the router, for each family.
    pub(crate) host: [&'static str; 2],
    pub(crate) router: [&'static str; 2],
    /// Addresses of another host, with which the rig checks whether the router answers.
    prober: [&'static str; 2],
    pub(crate) mac: Mac,
}

pub(crate) const ONE: Vlan = Vlan {
    tags: &[[0x8100, 100]],
    host: ["10.100.0.9", "fd64::9"],
    router: ["10.100.0.1", "fd64::1"],
    prober: ["10.100.0.10", "fd64::10"],
    mac: host_mac(3, 100),
};
pub(crate) const TWO: Vlan = Vlan {
    tags: &[[0x88a8, 200], [0x8100, 7]],
    host: ["10.200.0.9", "fdc8::9"],
    router: ["10.200.0.1", "fdc8::1"],
    prober: ["10.200.0.10", "fdc8::10"],
    mac: host_mac(3, 200),
};

/// Starts the router with both VLANs, and gives their devices addresses.
pub(crate) fn start(setup: Setup, flags: &str) -> Rig {
    let rig = setup.with_flags(&format!("e1.100 e1.200.7 {flags}")).start();
    address(&rig);
    rig
}

pub(crate) fn address(rig: &Rig) {
    rig.ip("addr add 10.100.0.1/24 dev e1.100
            addr add fd64::1/64 dev e1.100 nodad
            addr add 10.200.0.1/16 dev e1.200.7
            addr add fdc8::1/64 dev e1.200.7 nodad");
    wait_for_own_addresses(&rig.router);
    until_addresses_are_known(rig, &[&ONE, &TWO]);
}

/// Waits until the router answers for its addresses in these VLANs. It knows them then.
pub(crate) fn until_addresses_are_known(rig: &Rig, vlans: &[&Vlan]) {
    for vlan in vlans {
        let own = ip(vlan.router[0]);
        vlan.until_answered(rig, own);
        let (target, group) = (ip(vlan.router[1]), solicited_node(ip(vlan.router[1])));
        let option = Some((1, vlan.mac));
        let message = Discovery { kind: 135, flags: 0, target, option };
        let packet = message.packet(ip(vlan.prober[1]), group);
        rig.until(|| {
            vlan.send_frame(rig, Frame::of(vlan.mac, group_mac(group), &packet));
            let seen = rig.observe([0; 3]);
            let answered = |frame: &Frame| {
                let (_, message) = Discovery::parse(&vlan.untagged(frame)?)?;
                (message.kind == 136 && message.target == target).then_some(())
            };
            seen.resolution[1].iter().find_map(answered)
        });
    }
}

impl Vlan {
    /// Sends a frame of the VLAN's host.
    pub(crate) fn send_frame(&self, rig: &Rig, frame: Frame) {
        rig.b.send_frame(&Frame { tags: self.tags.to_vec(), ..frame });
    }

    pub(crate) fn send(&self, rig: &Rig, packet: &Packet) {
        self.send_frame(rig, Frame::of(self.mac, router_mac(3), packet));
    }

    /// The frame without the VLAN's tags, if it has them and comes from the router.
    pub(crate) fn untagged(&self, frame: &Frame) -> Option<Frame> {
        let is_ours = frame.tags == self.tags && frame.src == router_mac(3);
        is_ours.then(|| Frame { tags: Vec::new(), ..frame.clone() })
    }

    /// Waits for this packet in the VLAN, and returns its destination MAC address.
    #[track_caller]
    pub(crate) fn receive(&self, rig: &Rig, wanted: &Packet) -> Mac {
        rig.b.receive(&format!("{wanted:?} in {:?}", self.tags), |frame| {
            let frame = self.untagged(frame)?;
            (frame.packet()? == *wanted).then_some(frame.dst)
        })
    }

    /// Broadcasts an ARP request.
    pub(crate) fn ask(&self, rig: &Rig, sender: IpAddr, target: IpAddr) {
        let request = Arp { operation: 1, sender: (self.mac, sender), target: ([0; 6], target) };
        self.send_frame(rig, request.frame(self.mac, BROADCAST));
    }

    /// Repeats a request until there is an answer: the router learns its addresses a moment later.
    fn until_answered(&self, rig: &Rig, target: IpAddr) {
        rig.until(|| {
            self.ask(rig, ip(self.prober[0]), target);
            let seen = rig.observe([0; 3]);
            seen.resolution[1].iter().find_map(|frame| self.replied(frame, target)).map(drop)
        });
    }

    /// Parses a reply for an address.
    fn replied(&self, frame: &Frame, target: IpAddr) -> Option<(Frame, Arp)> {
        let frame = self.untagged(frame)?;
        let arp = Arp::parse(&frame)?;
        (arp.operation == 2 && arp.sender.1 == target).then_some((frame, arp))
    }

    /// Waits for a request for an address, and returns the addresses of its sender.
    pub(crate) fn request(&self, rig: &Rig, target: IpAddr) -> (Mac, IpAddr) {
        rig.b.receive(&format!("a request for {target}"), |frame| self.requested(frame, target))
    }

    pub(crate) fn requested(&self, frame: &Frame, target: IpAddr) -> Option<(Mac, IpAddr)> {
        let frame = self.untagged(frame)?;
        if target.is_ipv4() {
            let arp = Arp::parse(&frame).filter(|arp| (arp.operation, arp.target.1) == (1, target));
            return Some(arp?.sender);
        }
        let (packet, message) = Discovery::parse(&frame)?;
        ((message.kind, message.target) == (135, target)).then_some((frame.src, packet.src))
    }

    /// Answers for an address of the host.
    pub(crate) fn answer(&self, rig: &Rig, target: IpAddr, asker: (Mac, IpAddr)) {
        if target.is_ipv4() {
            let reply = Arp { operation: 2, sender: (self.mac, target), target: asker };
            return self.send_frame(rig, reply.frame(self.mac, asker.0));
        }
        let flags = SOLICITED | OVERRIDE;
        let message = Discovery { kind: 136, flags, target, option: Some((2, self.mac)) };
        self.send_frame(rig, Frame::of(self.mac, asker.0, &message.packet(target, asker.1)));
    }
}

/// Asserts that packets between A and the host of a VLAN are routed, in both families and
/// directions.
fn is_routed_both_ways(rig: &Rig, vlan: &Vlan) {
    for (family, host) in [v4(), v6()].iter().zip(vlan.host.map(ip)) {
        let there = Packet::udp(host, family.a, b"to A");
        vlan.send(rig, &there);
        let seen = rig.observe([1, 0, 0]);
        assert_eq!(seen.a.len(), 1, "{seen:?}");
        assert_eq!((seen.a[0].src, &seen.a[0].packet), (router_mac(1), &there.forwarded()));
        let back = Packet::udp(family.a, host, b"from A");
        rig.a.send(&back);
        vlan.answer(rig, host, vlan.request(rig, host));
        assert_eq!(vlan.receive(rig, &back.forwarded()), vlan.mac);
        rig.a.send(&back);
        assert_eq!(vlan.receive(rig, &back.forwarded()), vlan.mac, "now its address is known");
    }
}

fn tagged_frames_leave_without_tag_and_back(setup: Setup) {
    is_routed_both_ways(&start(setup, ""), &ONE);
}

fn frames_with_two_tags_leave_without_and_back(setup: Setup) {
    is_routed_both_ways(&start(setup, ""), &TWO);
}

fn packets_pass_between_two_vlans_of_an_interface(setup: Setup) {
    let rig = start(setup, "");
    for (from, to) in ONE.host.map(ip).into_iter().zip(TWO.host.map(ip)) {
        let packet = Packet::udp(from, to, b"across");
        ONE.send(&rig, &packet);
        TWO.answer(&rig, to, TWO.request(&rig, to));
        assert_eq!(TWO.receive(&rig, &packet.forwarded()), TWO.mac);
        let back = Packet::udp(to, from, b"and back");
        TWO.send(&rig, &back);
        ONE.answer(&rig, from, ONE.request(&rig, from));
        assert_eq!(ONE.receive(&rig, &back.forwarded()), ONE.mac);
    }
}

fn a_priority_tag_is_no_tag_on_an_interface_with_vlans(setup: Setup) {
    let rig = start(setup, "");
    for net in [v4(), v6()] {
        let packet = Packet::udp(net.b, net.a, b"priority");
        rig.b.send_frame(&Frame { tags: vec![[0x8100, 0xe000]], ..rig.b.frame(&packet) });
        let seen = rig.observe([1, 0, 0]);
        assert_eq!(seen.a[0].packet, packet.forwarded());
    }
}

fn an_unknown_vlan_is_left_to_the_kernel(setup: Setup) {
    let rig = start(setup, "");
    for tags in [vec![[0x8100, 101]], vec![[0x8100, 200]], vec![[0x88a8, 200], [0x8100, 8]]] {
        let packet = Packet::udp(v4().b, v4().a, b"unknown");
        rig.b.send_frame(&Frame { tags, ..rig.b.frame(&packet) });
    }
    rig.is_silent();
}

fn the_priority_follows_the_dscp(setup: Setup) {
    let rig = start(setup, "--vlan-priorities 0,1,2,3,4,6,5,7");
    let host = ip(ONE.host[0]);
    // Expedited forwarding (DSCP 46) belongs to class 5, for which `--vlan-priorities` above sets
    // priority 6. One packet comes from the other VLAN, and one from A.
    let packet = |from| Packet::udp(from, host, b"urgent").with(|packet| packet.class = 46 << 2);
    let tagged = |frame: &Frame, wanted: &Packet| {
        let plain = Frame { tags: Vec::new(), ..frame.clone() };
        (plain.packet()? == *wanted).then(|| frame.tags.clone())
    };
    let (own, foreign) = (packet(ip(TWO.host[0])), packet(v4().a));
    TWO.send(&rig, &own);
    ONE.answer(&rig, host, ONE.request(&rig, host));
    let tags = rig.b.receive("the packet", |frame| tagged(frame, &own.forwarded()));
    assert_eq!(tags, [[0x8100, 6 << 13 | 100]]);
    rig.a.send(&foreign);
    let tags = rig.b.receive("the packet", |frame| tagged(frame, &foreign.forwarded()));
    assert_eq!(tags, [[0x8100, 6 << 13 | 100]]);
}

fn the_mtu_of_a_vlan_does_not_count_tags(setup: Setup) {
    let rig = start(setup, "");
    rig.ip("link set e1.100 mtu 1496");
    // Linux does not send a frame with two tags that is longer than the MTU.
    rig.b.namespace.ip("link set e0 mtu 1600");
    let (from, host) = (ip(TWO.host[0]), ip(ONE.host[0]));
    let sized = |len: usize| {
        Packet::udp(from, host, &vec![7; len - 28]).with(|packet| packet.fragment = DF)
    };
    TWO.send(&rig, &sized(1000));
    ONE.answer(&rig, host, ONE.request(&rig, host));
    ONE.receive(&rig, &sized(1000).forwarded());
    TWO.send(&rig, &sized(1496));
    ONE.receive(&rig, &sized(1496).forwarded());
    // A packet from A with one more byte is refused: by the kernel because of the device's MTU, or
    // by the router's threads, which learn the MTU a moment later.
    let told = rig.until(|| {
        rig.a.send(&Packet { src: v4().a, ..sized(1497) });
        let seen = rig.observe([0; 3]);
        seen.a.into_iter().map(|arrival| arrival.packet).find(is_icmp)
    });
    assert_eq!(too_big(told), 1496);
    // Sets another MTU, which the router learns a moment later. The ARP request makes the sending
    // host known to the router.
    rig.ip("link set e1.100 mtu 1400");
    TWO.ask(&rig, from, ip(TWO.router[0]));
    let told = rig.until(|| {
        TWO.send(&rig, &sized(1401));
        let seen = rig.observe([0; 3]);
        let mut of_vlan =
            seen.resolution[1].iter().filter_map(|frame| TWO.untagged(frame)?.packet());
        of_vlan.find(is_icmp)
    });
    assert_eq!(too_big(told), 1400);
}

fn is_icmp(packet: &Packet) -> bool {
    packet.proto == ICMP
}

/// The MTU in a "fragmentation needed" message.
fn too_big(packet: Packet) -> u32 {
    assert_eq!(packet.payload[..2], [3, 4]);
    IcmpError::parse(packet).mtu()
}

/// RFC 826 defines the fields of the reply.
fn a_request_for_an_address_of_the_vlan_is_answered(setup: Setup) {
    let rig = start(setup, "");
    let own = ip(ONE.router[0]);
    ONE.ask(&rig, ip(ONE.host[0]), own);
    let (frame, reply) = rig.b.receive("an answer", |frame| {
        let (frame, arp) = ONE.replied(frame, own)?;
        (arp.target.1 == ip(ONE.host[0])).then_some((frame, arp))
    });
    assert_eq!((frame.src, frame.dst), (router_mac(3), ONE.mac));
    assert_eq!(reply.sender, (router_mac(3), own));
    assert_eq!(reply.target, (ONE.mac, ip(ONE.host[0])));
    // RFC 5227: a probe has no sender address.
    let nobody = ip("0.0.0.0");
    let probe = Arp { operation: 1, sender: (ONE.mac, nobody), target: ([0; 6], own) };
    ONE.send_frame(&rig, probe.frame(ONE.mac, BROADCAST));
    let reply = rig.b.receive("an answer to the probe", |frame| {
        Arp::parse(&ONE.untagged(frame)?).filter(|arp| arp.operation == 2)
    });
    assert_eq!((reply.sender, reply.target), ((router_mac(3), own), (ONE.mac, nobody)));
}

/// Requests for addresses of other hosts are not answered. Unlike in the kernel, neither are
/// requests for addresses of the router's other interfaces.
fn requests_for_other_addresses_are_not_answered(setup: Setup) {
    let rig = start(setup, "");
    let host = ip(ONE.host[0]);
    for target in ["10.100.0.77", "10.1.0.1", "10.3.0.1", "10.200.0.1"].map(ip) {
        ONE.ask(&rig, host, target);
    }
    // This request comes last: answers to earlier requests arrive before its answer.
    ONE.ask(&rig, host, ip(ONE.router[0]));
    let answered = rig.b.receive("the only answer to the host", |frame| {
        let arp = Arp::parse(&ONE.untagged(frame)?)?;
        ((arp.operation, arp.target.1) == (2, host)).then_some(arp.sender.1)
    });
    assert_eq!(answered, ip(ONE.router[0]));
}

/// RFC 4861, section 7.2.4, defines the answer of a router.
fn a_solicitation_is_answered_as_a_router(setup: Setup) {
    let rig = start(setup, "");
    let own = ip(ONE.router[1]);
    let all_nodes = ip("ff02::1");
    let cases = [
        (
            ip(ONE.host[1]),
            Some((1, ONE.mac)),
            ip(ONE.host[1]),
            ONE.mac,
            ROUTER | SOLICITED | OVERRIDE,
        ),
        // Duplicate address detection: the answer goes to all nodes and is not solicited.
        (ip("::"), None, all_nodes, group_mac(all_nodes), ROUTER | OVERRIDE),
    ];
    for (from, option, to, mac, flags) in cases {
        let group = solicited_node(own);
        let message = Discovery { kind: 135, flags: 0, target: own, option };
        let packet = message.packet(from, group);
        ONE.send_frame(&rig, Frame::of(ONE.mac, group_mac(group), &packet));
        let (frame, packet, answer) = rig.b.receive("an advertisement", |frame| {
            let frame = ONE.untagged(frame)?;
            let (packet, message) = Discovery::parse(&frame)?;
            // An answer to the rig's own request may be late, and is skipped.
            let is_ours = message.kind == 136 && packet.dst != ip(ONE.prober[1]);
            is_ours.then_some((frame, packet, message))
        });
        assert_eq!((frame.dst, packet.src, packet.dst), (mac, own, to));
        assert_eq!((answer.target, answer.flags), (own, flags));
        assert_eq!(answer.option, Some((2, router_mac(3))));
    }
}

/// The packets come once from another VLAN, so that the router itself keeps them, and once from A,
/// so that in XDP mode the kernel keeps them.
fn packets_wait_for_a_neighbour_in_order_after_one_request(setup: Setup) {
    let rig = start(setup, "");
    for (net, own, foreign) in
        [("10.100.0.", ip(TWO.host[0]), v4().a), ("fd64::", ip(TWO.host[1]), v6().a)]
    {
        for (from, last) in [(own, "7"), (foreign, "8")] {
            let to = ip(&format!("{net}{last}"));
            let packets: Vec<_> = (0..5).map(|i| Packet::udp(from, to, &[i])).collect();
            let started = Instant::now();
            for packet in &packets {
                match last {
                    "7" => TWO.send(&rig, packet),
                    _ => rig.a.send(packet),
                }
            }
            let asker = ONE.request(&rig, to);
            let seen = rig.observe([0; 3]);
            let repeated =
                seen.resolution[1].iter().filter(|frame| ONE.requested(frame, to).is_some());
            assert!(repeated.count() as u64 <= started.elapsed().as_secs(), "{seen:?}");
            ONE.answer(&rig, to, asker);
            for packet in &packets {
                let got = rig.b.receive("a packet that has waited", |frame| {
                    let packet = ONE.untagged(frame)?.packet()?;
                    ((packet.dst, packet.proto) == (to, UDP)).then_some(packet)
                });
                assert_eq!(got, packet.forwarded());
            }
        }
    }
}

/// The requests are a second apart; then the sender gets "host unreachable" (RFC 1812, 5.2.7.1; RFC
/// 4861, 7.2.2).
fn an_unanswered_neighbour_is_reported_after_three_requests(setup: Setup) {
    let rig = start(setup, "");
    // The router must know the sender, so the sender pings it first.
    for own in TWO.router.map(ip) {
        let packet = Packet::echo(ip(TWO.host[usize::from(own.is_ipv6())]), own, 1);
        TWO.send(&rig, &packet);
        let host = ip(TWO.host[usize::from(own.is_ipv6())]);
        TWO.answer(&rig, host, TWO.request(&rig, host));
    }
    for (from, to) in TWO.host.map(ip).into_iter().zip(["10.100.0.66", "fd64::66"].map(ip)) {
        let packet = Packet::udp(from, to, b"nobody");
        let started = Instant::now();
        TWO.send(&rig, &packet);
        for _ in 0..3 {
            ONE.request(&rig, to);
        }
        // The third request comes two seconds after the first.
        assert!(started.elapsed().as_millis() > 1500);
        let error = rig.b.receive("an ICMP error", |frame| {
            let packet = TWO.untagged(frame)?.packet()?;
            let is_error = [1, 3].contains(packet.payload.first()?) && packet.proto != UDP;
            is_error.then(|| IcmpError::parse(packet))
        });
        let unreachable = if to.is_ipv4() { [3, 1] } else { [1, 3] };
        assert_eq!(error.packet.payload[..2], unreachable);
        error.assert_quotes(&packet);
    }
}

/// Scans every fourth address of almost a whole /16, none of which answers, while another flow
/// continues.
fn a_scan_costs_other_flows_nothing(setup: Setup) {
    let rig = start(setup, "");
    let host = ip(ONE.host[0]);
    let flow = Packet::udp(host, v4().a, b"flow");
    for high in 1..=255_u8 {
        for low in (0..=255_u8).step_by(4) {
            let to = ip(&format!("10.200.{high}.{low}"));
            ONE.send(&rig, &Packet::udp(host, to, b"scan"));
        }
        ONE.send(&rig, &flow);
        let seen = rig.observe([1, 0, 0]);
        assert_eq!(seen.a[0].packet, flow.forwarded());
    }
}

/// A defect of netmap-fwd: it crashed when it started with such a VLAN.
fn a_vlan_whose_parent_has_no_address_routes(setup: Setup) {
    setup.wait_until_settled();
    let Setup { subject, router, a, b, .. } = setup;
    b.namespace.wait_for_carrier("e0");
    router.ip_batch("addr flush dev e1");
    let run_dir = tempfile::tempdir().unwrap();
    // The parent itself is not an interface of the router.
    let words = "e0 e1.100";
    let program = launch(&router, subject, words, run_dir.path()).unwrap();
    router.ip_batch("addr add 10.100.0.1/24 dev e1.100");
    let packet = Packet::udp(ip(ONE.host[0]), v4().a, b"to A");
    let frame = Frame { tags: ONE.tags.to_vec(), ..Frame::of(ONE.mac, b.router_mac, &packet) };
    b.send_frame(&frame);
    a.receive("the packet", |frame| (frame.packet()? == packet.forwarded()).then_some(()));
    drop(program);
}

fn the_host_and_the_vlan_reach_each_other_by_ping(setup: Setup) {
    let rig = start(setup, "");
    for (own, host) in ONE.router.map(ip).into_iter().zip(ONE.host.map(ip)) {
        ONE.send(&rig, &Packet::echo(host, own, 1));
        ONE.answer(&rig, host, ONE.request(&rig, host));
        let reply = if own.is_ipv4() { 0 } else { 129 };
        rig.b.receive("an answer", |frame| {
            let packet = ONE.untagged(frame)?.packet()?;
            ((packet.src, packet.payload[0]) == (own, reply)).then_some(())
        });
        let ping = Program::start(&rig.router, "ping", &format!("-n -c 1 -W 30 {host}"));
        let (asked, kind) = (if own.is_ipv4() { 8 } else { 128 }, reply);
        let request = rig.b.receive("an echo request", |frame| {
            let packet = ONE.untagged(frame)?.packet()?;
            (packet.payload.first() == Some(&asked)).then_some(packet)
        });
        assert_eq!((request.src, request.dst), (own, host));
        let mut message = request.payload.clone();
        message[0] = kind;
        ONE.send(&rig, &Packet::icmp(host, own, message));
        let ping = ping.finish().well();
        assert!(ping.stdout.contains(" 0% packet loss"), "{ping:?}");
    }
}

/// A packet to a group of OSPF reaches the device, and a program's packet to the group of RIP
/// leaves with the tag.
fn multicast_of_the_vlan_reaches_the_device(setup: Setup) {
    let rig = start(setup, "");
    let mut device = rig.router.run(|| InterfaceListener::open("e1.100").unwrap());
    let all_routers = ip("224.0.0.5");
    let hello = Packet::new(ip(ONE.host[0]), all_routers, 89, vec![2; 44]).hops(1);
    let frame = Frame::of(ONE.mac, [1, 0, 0x5e, 0, 0, 5], &hello);
    ONE.send_frame(&rig, frame);
    eventually("the hello at the device", || {
        loop {
            let got = device.recv().unwrap()?;
            if !got.outgoing && Frame::parse(got.frame).packet().as_ref() == Some(&hello) {
                return Some(());
            }
        }
    });
    let sender = rig.router.run(|| std::net::UdpSocket::bind("10.100.0.1:0").unwrap());
    sender.send_to(b"hello", "224.0.0.9:520").unwrap();
    rig.b.receive("the packet of the router itself", |frame| {
        let frame = ONE.untagged(frame)?;
        (frame.packet()?.dst == ip("224.0.0.9")).then_some(())
    });
}

fn the_device_ends_with_a_killed_program(setup: Setup) {
    let rig = start(setup, "");
    let listed = || rig.router.ip("-o link show").contains("e1.100");
    assert!(listed());
    rig.take_program().stop(Signal::KILL);
    eventually("the device and the programs to be gone", || {
        (!listed() && !rig.router.ip("-d link show").contains("xdp")).then_some(())
    });
    rig.forwards(&[Packet::udp(v4().a, v4().b, b"the kernel forwards the rest")]);
}

fn a_device_of_the_kernel_with_such_a_name_is_used(setup: Setup) {
    let Setup { subject, router, .. } = setup;
    router.ip_batch("link add e1.300 type veth peer name p0\nlink set e1.300 up\nlink set p0 up");
    let run_dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(SLIPRING);
    let Subject::Slipring(io) = subject else { return };
    command.args(["route", "e0", "e1.300", "--io", io]).env("SLIPRING_RUN", run_dir.path());
    let program = Program::launch(&router, command);
    let mode = if io == "xdp" { "xdp native" } else { io };
    program.wait_for_text(&format!("e1.300: {mode}"));
    program.wait_for_text("forwarding");
}

fn the_vlan_is_listed_with_its_counters(setup: Setup) {
    let rig = start(setup, "");
    let packet = Packet::udp(ip(ONE.host[0]), v4().a, b"counted");
    // The kernel may forward the first packets, and the thread publishes its counters only after
    // each iteration of its loop. So packets are sent until one is counted.
    let mut sent = 0;
    let row = eventually("a packet to be counted", || {
        ONE.send(&rig, &packet);
        sent += 1;
        rig.observe([1, 0, 0]);
        let row = rig.ask(&["interface", "e1.100"])["interfaces"][0].clone();
        let counted = row["forwarded"]["packets"].as_u64().unwrap();
        assert!(counted <= sent, "{row}");
        (counted > 0).then_some(row)
    });
    assert_eq!((&row["name"], &row["mode"]), (&"e1.100".into(), &"packet, tap".into()));
    assert!(row["addresses"].as_array().unwrap().contains(&"10.100.0.1/24".into()), "{row}");
}

fn packets_from_and_to_the_vlan_are_explained(setup: Setup) {
    let by_program = setup.subject == Subject::Slipring("xdp");
    let rig = start(setup, "");
    rig.until(|| {
        rig.all_arrive_at_b(&[Packet::udp(v4().a, v4().b, b"time passes")]);
        let answer = rig.why("udp 10.100.0.9 10.1.0.2 recv e1.100");
        (answer["action"] == "forwarded" && answer["dev"] == "e0").then_some(())
    });
    let answer = rig.why("udp 10.1.0.2 10.100.0.9 recv e0");
    let wanted = if by_program { "to the kernel" } else { "held, to resolve" };
    assert_eq!(answer["action"], wanted, "{answer}");
    let between = rig.why("udp 10.100.0.9 10.200.0.9 recv e1.100");
    assert_eq!(between["action"], "held, to resolve", "{between}");
}

/// In XDP mode, the kernel routes packets from other interfaces, because it has the VLAN's device.
/// In the other modes, the router's threads send them.
fn a_route_to_the_vlan_says_who_sends(setup: Setup) {
    let in_kernel = setup.subject == Subject::Slipring("xdp");
    let rig = start(setup, "");
    let answer = rig.until(|| {
        let answer = rig.ask(&["route", "get", ONE.host[0]]);
        (answer["action"] != "no route").then_some(answer)
    });
    let reason = "the router makes e1.100, and the kernel routes to its device";
    let expected =
        if in_kernel { ("to the kernel", Some(reason)) } else { ("held, to resolve", None) };
    let shown = (answer["action"].as_str().unwrap(), answer["reason"].as_str());
    assert_eq!(shown, expected, "{answer}");
}
