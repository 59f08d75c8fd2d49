//! Compares the translator with the documentation of libalias, packet by packet. Also tests
//! invariants for arbitrary traffic.

mod any_traffic;
mod counters;
mod errors;
mod fragments;
mod headers;
mod lifetimes;
mod modes;
mod redirects;

use alloc::vec;
use alloc::vec::Vec;

use slipring_wire::FrameSpec;
use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::{self, Sum};
use slipring_wire::frame::{EchoKind, EchoSpec, IpSpec, Ipv4Spec, L4Spec, PortPair, TcpSpec};

use super::*;
use crate::packet::{FragmentPart, Ipv4View, L4Content, SrcOrDst};

const SECOND: u64 = 1_000_000_000;
/// Addresses: two clients inside, the outside address of the instance, and two servers outside.
const CLIENT: [u8; 4] = [10, 0, 0, 5];
const CLIENT_2: [u8; 4] = [10, 0, 0, 6];
const OWN: [u8; 4] = [203, 0, 113, 9];
const SERVER: [u8; 4] = [192, 0, 2, 1];
const SERVER_2: [u8; 4] = [192, 0, 2, 2];

/// An address and a port.
type At = ([u8; 4], u16);

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;
const FIN_ACK: u8 = 0x11;
const RST: u8 = 0x04;

/// A `nat` instance, and the current time in ns.
struct Fixture {
    nat: Translator,
    now: u64,
}

impl Fixture {
    fn new(settings: NatConfig) -> Self {
        let outside = match settings.outside {
            OutsideAddress::None => OutsideAddress::Address(OWN.into()),
            given => given,
        };
        Self { nat: Translator::new(NatConfig { outside, ..settings }, 7), now: 0 }
    }

    fn with(mode: NatMode) -> Self {
        Self::new(NatConfig { modes: NatModes::default().with(mode), ..NatConfig::default() })
    }

    fn redirecting(redirect: Redirect) -> Self {
        Self::new(NatConfig { redirects: vec![redirect], ..NatConfig::default() })
    }

    fn wait(&mut self, seconds: u64) {
        self.now += seconds * SECOND;
    }

    fn pass(&mut self, packet: &mut [u8], direction: NatDirection) -> NatOutcome {
        let outcome = self.nat.translate(packet, direction, NatScope::All, self.now);
        check(packet);
        outcome
    }

    /// Sends a packet outwards; returns its source and destination after translation.
    fn out(&mut self, mut packet: Vec<u8>) -> Result<(At, At), NatOutcome> {
        match self.pass(&mut packet, NatDirection::Out) {
            NatOutcome::Dropped(why) => Err(NatOutcome::Dropped(why)),
            _ => Ok(ends(&packet)),
        }
    }

    fn inwards(&mut self, mut packet: Vec<u8>) -> Result<(At, At), NatOutcome> {
        match self.pass(&mut packet, NatDirection::In) {
            NatOutcome::Dropped(why) => Err(NatOutcome::Dropped(why)),
            _ => Ok(ends(&packet)),
        }
    }

    /// Sends one more packet of a client; returns the outside end of the client's flow.
    fn outside(&mut self, client: At, server: At) -> At {
        self.out(udp(client, server)).unwrap().0
    }
}

fn l4_packet(src: [u8; 4], dst: [u8; 4], l4: L4Spec) -> Vec<u8> {
    let ip = Ipv4Spec { src: src.into(), dst: dst.into(), ..Default::default() };
    let spec = FrameSpec { ip: IpSpec::V4(ip), l4, ..Default::default() };
    spec.build(spec.header_len() + 9).unwrap().bytes[14..].to_vec()
}

fn udp(src: At, dst: At) -> Vec<u8> {
    l4_packet(src.0, dst.0, L4Spec::Udp(PortPair { src: src.1, dst: dst.1 }))
}

fn tcp(src: At, dst: At, flags: u8) -> Vec<u8> {
    let ports = PortPair { src: src.1, dst: dst.1 };
    l4_packet(src.0, dst.0, L4Spec::Tcp(TcpSpec { ports, flags, ..Default::default() }))
}

fn echo(kind: EchoKind, src: [u8; 4], dst: [u8; 4], id: u16) -> Vec<u8> {
    l4_packet(src, dst, L4Spec::Echo(EchoSpec { kind, id, seq: 1 }))
}

/// A packet of a protocol without ports.
fn bare(proto: u8, src: [u8; 4], dst: [u8; 4]) -> Vec<u8> {
    let mut packet = udp((src, 1), (dst, 2));
    packet[9] = proto;
    packet[26..28].fill(0);
    settle_header(&mut packet);
    packet
}

/// Recomputes the checksum of the IPv4 header.
fn settle_header(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let len = usize::from(packet[0] & 0xf) * 4;
    let sum = checksum::of(&packet[..len]).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
}

/// Returns the packet with `words` times four bytes of IP options added, which have no effect.
fn with_options(mut packet: Vec<u8>, words: u8) -> Vec<u8> {
    const NO_OPERATION: u8 = 1;
    packet.splice(20..20, vec![NO_OPERATION; usize::from(words) * 4]);
    packet[0] += words;
    packet[3] = packet.len() as u8;
    settle_header(&mut packet);
    packet
}

fn ends(packet: &[u8]) -> (At, At) {
    let view = Ipv4View::read(packet).unwrap();
    let load =
        if view.part == FragmentPart::Later { L4Content::Bare } else { view.load(packet).unwrap() };
    let [src, dst] = view.ends(load, SrcOrDst::Src);
    ((src.address.octets(), src.port), (dst.address.octets(), dst.port))
}

/// Asserts that the IP checksum of a packet is right and, unless the packet is a fragment, its TCP,
/// UDP or ICMP checksum, too.
fn check(packet: &[u8]) {
    let Some(view) = Ipv4View::read(packet) else { return };
    assert_eq!(checksum::of(&packet[..view.l4]), 0, "IP header");
    let (l4, whole) = (&packet[view.l4..], view.part == FragmentPart::Whole);
    let pseudo = Sum::pseudo_v4(view.src, view.dst, view.proto, l4.len() as u32).bytes(l4);
    match view.proto {
        IpProto::TCP if whole => assert_eq!(pseudo.checksum(), 0, "TCP"),
        IpProto::UDP if whole && l4[6..8] != [0, 0] => assert_eq!(pseudo.checksum(), 0, "UDP"),
        IpProto::ICMP if whole => assert_eq!(checksum::of(l4), 0, "ICMP"),
        _ => {}
    }
}

#[test]
fn a_client_shows_the_address_of_the_instance_and_gets_its_answers() {
    let mut fixture = Fixture::new(NatConfig::default());
    let (src, dst) = fixture.out(udp((CLIENT, 1025), (SERVER, 53))).unwrap();
    assert_eq!((src.0, dst), (OWN, (SERVER, 53)));
    assert!(src.1 >= 0x8000, "{}", src.1);
    let back = fixture.inwards(udp((SERVER, 53), src)).unwrap();
    assert_eq!(back, ((SERVER, 53), (CLIENT, 1025)));
    assert_eq!(fixture.outside((CLIENT, 1025), (SERVER, 53)), src, "a flow keeps its port");
    assert_eq!((fixture.nat.counters().out, fixture.nat.counters().inwards), (2, 1));
}

#[test]
fn clients_with_one_port_are_told_apart() {
    let mut fixture = Fixture::with(NatMode::SamePorts);
    let one = fixture.outside((CLIENT, 5000), (SERVER, 53));
    let other = fixture.outside((CLIENT_2, 5000), (SERVER, 53));
    assert_eq!(one, (OWN, 5000));
    assert_ne!(one, other);
    assert_eq!(fixture.inwards(udp((SERVER, 53), other)).unwrap().1, (CLIENT_2, 5000));
    assert_eq!(fixture.nat.counters().port_taken, 1);
}

#[test]
fn a_port_serves_several_remote_ends() {
    let mut fixture = Fixture::new(NatConfig { ports: Some((4000, 4000)), ..NatConfig::default() });
    assert_eq!(fixture.outside((CLIENT, 1), (SERVER, 53)), (OWN, 4000));
    assert_eq!(fixture.outside((CLIENT_2, 1), (SERVER_2, 53)), (OWN, 4000));
    assert_eq!(fixture.inwards(udp((SERVER_2, 53), (OWN, 4000))).unwrap().1, (CLIENT_2, 1));
}

#[test]
fn ports_run_out_one_remote_end_at_a_time_and_that_is_counted() {
    let mut fixture = Fixture::new(NatConfig { ports: Some((4000, 4009)), ..NatConfig::default() });
    let mut ports: Vec<u16> =
        (1..=10).map(|port| fixture.outside((CLIENT, port), (SERVER, 53)).1).collect();
    ports.sort_unstable();
    assert_eq!(ports, (4000..=4009).collect::<Vec<_>>());
    let eleventh = fixture.out(udp((CLIENT, 11), (SERVER, 53)));
    assert_eq!(eleventh, Err(NatOutcome::Dropped(NatDropReason::Exhausted)));
    assert!(fixture.out(udp((CLIENT, 11), (SERVER_2, 53))).is_ok());
    assert_eq!((fixture.nat.counters().exhausted, fixture.nat.counters().dropped()), (1, 1));
}

#[test]
fn the_last_free_port_of_a_large_range_is_found() {
    let mut fixture = Fixture::new(NatConfig { ports: Some((4000, 4255)), ..NatConfig::default() });
    for port in 1..=256 {
        assert!(fixture.out(udp((CLIENT, port), (SERVER, 53))).is_ok(), "{port}");
    }
}

#[test]
fn the_secret_decides_which_port_is_chosen() {
    let outside = OutsideAddress::Address(OWN.into());
    let chosen = |secret| {
        let config = NatConfig { outside: outside.clone(), ..NatConfig::default() };
        let mut fixture = Fixture { nat: Translator::new(config, secret), now: 0 };
        fixture.outside((CLIENT, 1025), (SERVER, 53)).1
    };
    assert_ne!(chosen(1), chosen(2));
    assert_eq!(chosen(1), chosen(1));
}

#[test]
fn there_are_no_more_flows_than_there_may_be() {
    let mut fixture = Fixture::new(NatConfig::default());
    fixture.nat.max_flows = 1;
    assert!(fixture.out(udp((CLIENT, 1), (SERVER, 53))).is_ok());
    let second = fixture.out(udp((CLIENT, 2), (SERVER, 53)));
    assert_eq!(
        (second, fixture.nat.counters().full),
        (Err(NatOutcome::Dropped(NatDropReason::Full)), 1)
    );
}

#[test]
fn pings_are_told_apart_by_their_identifier() {
    let mut fixture = Fixture::new(NatConfig::default());
    let one = fixture.out(echo(EchoKind::Request, CLIENT, SERVER, 9)).unwrap().0;
    let other = fixture.out(echo(EchoKind::Request, CLIENT_2, SERVER, 9)).unwrap().0;
    assert_eq!((one.0, other.0), (OWN, OWN));
    assert_ne!(one.1, other.1);
    let mut answer = echo(EchoKind::Reply, SERVER, OWN, other.1);
    assert_eq!(fixture.pass(&mut answer, NatDirection::In), NatOutcome::Translated);
    assert_eq!(answer[16..20], CLIENT_2);
    assert_eq!(answer[24..26], [0, 9]);
}

#[test]
fn a_protocol_without_ports_has_one_client_for_each_remote_address() {
    const GRE: u8 = 47;
    let mut fixture = Fixture::new(NatConfig::default());
    assert_eq!(fixture.out(bare(GRE, CLIENT, SERVER)).unwrap().0, (OWN, 0));
    let second = fixture.out(bare(GRE, CLIENT_2, SERVER));
    assert_eq!(second, Err(NatOutcome::Dropped(NatDropReason::Collision)));
    assert!(fixture.out(bare(GRE, CLIENT_2, SERVER_2)).is_ok());
    assert_eq!(fixture.inwards(bare(GRE, SERVER, OWN)).unwrap().1, (CLIENT, 0));
    assert_eq!(fixture.nat.counters().collision, 1);
}

#[test]
fn sctp_keeps_its_ports_and_its_checksum() {
    const SCTP: u8 = 132;
    let mut fixture = Fixture::new(NatConfig::default());
    let mut packet = bare(SCTP, CLIENT, SERVER);
    let before = packet.clone();
    assert_eq!(fixture.pass(&mut packet, NatDirection::Out), NatOutcome::Translated);
    assert_eq!((&packet[12..16], &packet[20..]), (&OWN[..], &before[20..]));
    assert_eq!(
        fixture.out(bare(SCTP, CLIENT_2, SERVER)),
        Err(NatOutcome::Dropped(NatDropReason::Collision))
    );
}

#[test]
fn a_datagram_without_a_checksum_gets_none() {
    let mut fixture = Fixture::new(NatConfig::default());
    let mut packet = udp((CLIENT, 1), (SERVER, 2));
    packet[26..28].fill(0);
    assert_eq!(fixture.pass(&mut packet, NatDirection::Out), NatOutcome::Translated);
    assert_eq!(packet[26..28], [0, 0]);
}

#[test]
fn a_packet_too_short_is_dropped_and_counted() {
    let mut fixture = Fixture::new(NatConfig::default());
    let packet = udp((CLIENT, 1), (SERVER, 2));
    for len in [0, 10, 22] {
        let mut cut = packet[..len].to_vec();
        let outcome = fixture.nat.translate(&mut cut, NatDirection::Out, NatScope::All, 0);
        assert_eq!(outcome, NatOutcome::Dropped(NatDropReason::Malformed));
    }
    assert_eq!(fixture.nat.counters().malformed, 3);
}

#[test]
fn an_instance_without_an_address_translates_nothing() {
    let outside = OutsideAddress::Interface("em0".into());
    let mut fixture = Fixture::new(NatConfig { outside, ..NatConfig::default() });
    let packet = udp((CLIENT, 1), (SERVER, 2));
    assert_eq!(fixture.out(packet.clone()), Err(NatOutcome::Dropped(NatDropReason::NoAddress)));
    fixture.nat.set_address(Some(OWN.into()));
    assert_eq!(fixture.out(packet).unwrap().0.0, OWN);
}
