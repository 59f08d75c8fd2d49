//! Random sequences of events of hosts, packets and the kernel, in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use slipring_fib::{
    Adjacency, AdjacencyIndex, FibPort, FibPortIndex, ForwardingTables, Ipv4Lookup, Ipv6Lookup,
    NextHopAddress, ReversePathMode, Target, TargetAction, TargetIndex, VlanTags, VrfIndex,
    VrfTables,
};
use slipring_model::Stream;
use slipring_neighbour::group;
use slipring_route::{RouteBatch, RouteConfig, RouteEngine, RouteFrame, RouteVerdict};
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec};

use super::*;

pub(crate) const OWN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OWN: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 1);
const SECOND_NS: u64 = 1_000_000_000;

/// A lookup that returns the same target for all addresses.
#[derive(Debug)]
struct Everything;

impl Ipv4Lookup for Everything {
    fn lookup(&self, _: &[u32], targets: &mut [TargetIndex]) {
        targets.fill(TargetIndex(0));
    }
}

impl Ipv6Lookup for Everything {
    fn lookup(&self, _: &[u128], targets: &mut [TargetIndex]) {
        targets.fill(TargetIndex(0));
    }
}

/// An engine that holds all packets. Their routes lead to the link of port 1, where no MAC address
/// is known.
pub(crate) fn engine() -> RouteEngine {
    let port = |ifindex, address: Ipv4Addr| FibPort {
        ifindex,
        name: format!("e{ifindex}"),
        mac: OWN_MAC,
        mtu: 1500,
        is_up: true,
        vrf: VrfIndex(0),
        reverse_path: ReversePathMode::Off,
        reverse_path_v6: ReversePathMode::Off,
        tags: VlanTags::default(),
        addresses: vec![(address.into(), 16)],
    };
    let action = TargetAction::Forward(AdjacencyIndex(0));
    let next_hop = NextHopAddress::OnLink;
    RouteEngine::new(
        RouteConfig::default(),
        Arc::new(ForwardingTables {
            generation: 1,
            ports: [port(1, Ipv4Addr::new(10, 1, 0, 1)), port(2, OWN)].into(),
            vrfs: [VrfTables { v4: Arc::new(Everything), v6: Arc::new(Everything) }].into(),
            targets: [Target { action, mtu: 0 }].into(),
            adjacencies: [Adjacency { port: FibPortIndex(1), next_hop, mac: None }].into(),
            buckets: [].into(),
        }),
    )
}

pub(crate) fn link(limits: NeighbourLimits) -> SubinterfaceLink {
    let mut link = SubinterfaceLink::new(OWN_MAC, limits, 7);
    link.set_addresses(OWN_MAC, &[(OWN.into(), 16)]);
    link
}

/// Makes a packet with this number, as the engine holds it.
pub(crate) fn packet(engine: &mut RouteEngine, to: Ipv4Addr, number: u16) -> WaitingPacket {
    let ip =
        Ipv4Spec { src: Ipv4Addr::new(10, 1, 0, 2), dst: to, id: number, ..Default::default() };
    let ip = IpSpec::V4(ip);
    let src_mac = MacAddr([2, 0, 0, 0, 9, 9]);
    let spec = FrameSpec { src_mac, dst_mac: OWN_MAC, ip, ..FrameSpec::default() };
    let mut frame = spec.build(100).unwrap().bytes;
    let mut batch = RouteBatch::new();
    engine.process(&mut batch, &mut [RouteFrame::new(&mut frame, FibPortIndex(0))], 0);
    match batch.verdict(0) {
        Some(RouteVerdict::Hold(held)) => WaitingPacket { owner: 0, held, frame },
        other => panic!("{other:?}"),
    }
}

pub(crate) fn number_of(packet: &WaitingPacket) -> u16 {
    u16::from_be_bytes([packet.frame[18], packet.frame[19]])
}

pub(crate) fn host(number: u64) -> Ipv4Addr {
    Ipv4Addr::new(10, 100, 0, 10 + number as u8)
}

fn request(from: MacAddr, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    ArpPacket::request(from, sender, target).frame(MacAddr::BROADCAST)
}

fn arp(frame: &[u8]) -> ArpPacket {
    assert_eq!(ethertype(frame), Some(EtherType::ARP));
    ArpPacket::parse(&frame[HEADER_LEN..]).unwrap()
}

/// The expected behaviour of a link with a few hosts.
#[derive(Default)]
struct Model {
    waiting: BTreeMap<IpAddr, VecDeque<u16>>,
    /// The MAC address that each host has announced last.
    told: BTreeMap<IpAddr, MacAddr>,
    /// The time of the last broadcast request for each host, and the number of such requests since
    /// the host's last message.
    asked: BTreeMap<IpAddr, (u64, u32)>,
    kernel_answers: u32,
}

impl Model {
    fn check(&mut self, output: SubinterfaceOutput, now_ns: u64) {
        match output {
            SubinterfaceOutput::Wire(frame) => {
                let arp = arp(&frame);
                if arp.operation == ArpOperation::Reply {
                    assert_eq!(arp.sender, OWN, "answers are for own addresses only");
                    return;
                }
                let target = IpAddr::V4(arp.target);
                assert_eq!((arp.sender_mac, arp.sender), (OWN_MAC, OWN));
                if frame[0] == 0xff {
                    let (last, _) = self.asked.get(&target).copied().unwrap_or_default();
                    assert!(last == 0 || now_ns >= last + SECOND_NS, "asked twice within a second");
                    let count = self.asked.get(&target).map_or(0, |asked| asked.1);
                    self.asked.insert(target, (now_ns, count + 1));
                }
            }
            SubinterfaceOutput::Kernel(frame) => {
                let arp = arp(&frame);
                assert_eq!(arp.operation, ArpOperation::Reply);
                assert_eq!(Some(&arp.sender_mac), self.told.get(&IpAddr::V4(arp.sender)));
                self.kernel_answers += 1;
            }
            SubinterfaceOutput::Released(packet, mac) => {
                let next_hop = packet.held.next_hop;
                assert_eq!(self.told.get(&next_hop), Some(&mac));
                let first = self.waiting.get_mut(&next_hop).and_then(VecDeque::pop_front);
                assert_eq!(first, Some(number_of(&packet)), "in order");
            }
            SubinterfaceOutput::Lost(packet, cause) => {
                let next_hop = packet.held.next_hop;
                assert_eq!(cause, HoldDropCause::Unanswered);
                assert_eq!(self.asked[&next_hop].1 % 3, 0, "after three requests");
                let first = self.waiting.get_mut(&next_hop).and_then(VecDeque::pop_front);
                assert_eq!(first, Some(number_of(&packet)));
            }
        }
    }
}

#[test]
fn random_programs_agree_with_the_model() {
    for seed in 0..200 {
        let mut random = Stream::new(seed, "router/subinterface");
        let (mut engine, mut link, mut model) = (engine(), link(LIMITS), Model::default());
        let (mut now_ns, mut number) = (1, 0_u16);
        for _ in 0..300 {
            let at = host(random.below(4));
            let mac = MacAddr([2, 0, 0, 1, random.below(2) as u8, at.octets()[3]]);
            match random.below(7) {
                0 | 1 => {
                    number += 1;
                    model.waiting.entry(at.into()).or_default().push_back(number);
                    link.hold(packet(&mut engine, at, number), now_ns).unwrap();
                }
                2 => {
                    let reply = ArpPacket::request(OWN_MAC, OWN, at).reply(mac).frame(OWN_MAC);
                    assert_eq!(link.receive(&reply, now_ns), LinkVerdict::Pass, "the kernel hears");
                    model.told.insert(at.into(), mac);
                    model.asked.remove(&at.into());
                }
                3 => {
                    let asks = request(mac, at, OWN);
                    assert_eq!(link.receive(&asks, now_ns), LinkVerdict::Consumed);
                    model.told.insert(at.into(), mac);
                    model.asked.remove(&at.into());
                }
                4 => {
                    let asks = request(OWN_MAC, OWN, at);
                    let verdict = link.accept_from_kernel(&asks, now_ns);
                    assert_eq!(verdict, LinkVerdict::Consumed, "requests leave from here only");
                }
                5 => now_ns += random.below(SECOND_NS / 2),
                _ => now_ns = link.next_ns().unwrap_or(now_ns).max(now_ns),
            }
            link.tick(now_ns);
            while let Some(output) = link.pop() {
                model.check(output, now_ns);
            }
            assert!(link.neighbours().cache().is_balanced());
            let waiting: usize = model.waiting.values().map(VecDeque::len).sum();
            assert_eq!(link.neighbours().cache().waiting(), waiting);
        }
    }
}

#[test]
fn a_scan_fills_bounded_tables() {
    let limits = NeighbourLimits { incomplete: 64, entries: 256, ..LIMITS };
    let (mut engine, mut link) = (engine(), link(limits));
    let known = host(1);
    let mac = MacAddr([2, 0, 0, 1, 0, 1]);
    link.receive(&request(mac, known, OWN), 1);
    let mut balance = 0_i64;
    for at in 0..65_534_u32 {
        // 10,000 packets a second.
        let now_ns = 1 + u64::from(at) * 100_000;
        let to = Ipv4Addr::from_bits(Ipv4Addr::new(10, 100, 0, 0).to_bits() + at);
        balance += i64::from(link.hold(packet(&mut engine, to, 0), now_ns).is_ok());
        link.tick(now_ns);
        while let Some(output) = link.pop() {
            let ends =
                matches!(output, SubinterfaceOutput::Released(..) | SubinterfaceOutput::Lost(..));
            balance -= i64::from(ends);
        }
        let cache = link.neighbours().cache();
        assert!(cache.len() <= 256 && cache.waiting() <= 64);
    }
    assert_eq!(balance, link.neighbours().cache().waiting() as i64, "each comes out once");
}

#[test]
fn requests_for_addresses_of_others_end_here_without_an_answer() {
    let mut link = link(LIMITS);
    let mac = MacAddr([2, 0, 0, 1, 0, 1]);
    assert_eq!(link.receive(&request(mac, host(1), host(2)), 1), LinkVerdict::Consumed);
    assert!(link.pop().is_none());
}

#[test]
fn the_kernel_hears_announcements_but_not_of_its_own_address() {
    let mut link = link(LIMITS);
    let mac = MacAddr([2, 0, 0, 1, 0, 1]);
    let announced = |address| ArpPacket::announcement(mac, address).frame(MacAddr::BROADCAST);
    assert_eq!(link.receive(&announced(host(1)), 1), LinkVerdict::Pass);
    // The link handles this announcement itself. The kernel would do the same.
    assert_eq!(link.receive(&announced(OWN), 1), LinkVerdict::Consumed);
    assert_eq!(link.neighbours().conflicts(), 1);
}

#[test]
fn probes_and_announcements_of_the_kernel_leave() {
    let mut link = link(LIMITS);
    let unspecified = Ipv4Addr::UNSPECIFIED;
    for frame in [
        request(OWN_MAC, OWN, OWN),
        request(OWN_MAC, unspecified, OWN),
        // A probe of the kernel that checks whether a known neighbour is still reachable.
        ArpPacket::request(OWN_MAC, OWN, host(1)).frame(MacAddr([2, 0, 0, 1, 0, 1])),
        // A request for a gateway that is not on the link.
        request(OWN_MAC, OWN, Ipv4Addr::new(192, 0, 2, 1)),
    ] {
        assert_eq!(link.accept_from_kernel(&frame, 1), LinkVerdict::Pass, "{frame:02x?}");
    }
}

#[test]
fn solicitations_of_the_kernel_are_answered_for_a_known_neighbour() {
    let [own, neighbour] = ["fd64::1", "fd64::9"].map(|it| it.parse().unwrap());
    let mac = MacAddr([2, 0, 0, 1, 0, 9]);
    let mut link = SubinterfaceLink::new(OWN_MAC, LIMITS, 7);
    link.set_addresses(OWN_MAC, &[(IpAddr::V6(own), 64)]);
    let asks = nd::solicitation(OWN_MAC, own, neighbour, None);
    assert_eq!(asks[..6], group::mac(group::solicited_node(neighbour).into()).unwrap().0);
    assert_eq!(link.accept_from_kernel(&asks, 1), LinkVerdict::Consumed);
    let Some(SubinterfaceOutput::Wire(asked)) = link.pop() else { panic!("the link asks") };
    assert_eq!(asked[6..12], OWN_MAC.0);
    let flags = NdFlags { router: true, solicited: true, override_cache: true };
    let answer = nd::advertisement(mac, neighbour, Some((OWN_MAC, own)), flags);
    assert_eq!(link.receive(&answer, 2), LinkVerdict::Pass);
    assert_eq!(link.accept_from_kernel(&asks, 3), LinkVerdict::Consumed);
    let Some(SubinterfaceOutput::Kernel(told)) = link.pop() else { panic!("the link answers") };
    assert_eq!(told, answer);
}

#[test]
fn invalid_messages_end_here_and_are_counted() {
    let mut link = link(LIMITS);
    let mut frame = request(MacAddr([2, 0, 0, 1, 0, 1]), host(1), OWN);
    frame[15] = 6;
    assert_eq!(link.receive(&frame, 1), LinkVerdict::Invalid);
    assert_eq!((link.invalid, link.pop().is_none()), (1, true));
}

#[test]
fn a_link_that_learns_what_another_one_knew_asks_for_no_address_again() {
    let (mut old, mut engine) = (link(LIMITS), engine());
    let mac = |last| MacAddr([2, 0, 0, 0, 9, last]);
    for number in [0, 1] {
        old.hold(packet(&mut engine, host(number), number as u16), 0).unwrap();
    }
    // One host answers, another one only asks, and a third one does not answer.
    let reply = ArpPacket::request(OWN_MAC, OWN, host(0)).reply(mac(0)).frame(OWN_MAC);
    old.receive(&reply, 1);
    old.receive(&request(mac(2), host(2), OWN), 1);
    let states = |link: &SubinterfaceLink| -> Vec<_> {
        let known = link.neighbours().cache().iter(2).filter(|entry| entry.mac.is_some());
        known.map(|entry| (entry.address, entry.mac, entry.state)).collect()
    };
    let mut new = link(LIMITS);
    new.learn(&old.known(2), 2);
    assert_eq!(states(&new), states(&old));
    assert_eq!(states(&new).len(), 2);
    assert!(new.pop().is_none(), "nothing is asked");
    let waiting: Vec<_> =
        old.waiting().into_iter().map(|(port, thread, _)| (port, thread)).collect();
    assert_eq!(waiting, [(FibPortIndex(0), 0)], "what waits for the host that does not answer");
}
