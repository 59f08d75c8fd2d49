use core::net::{Ipv4Addr, Ipv6Addr};
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::assigned::VlanTag;
use crate::frame::{FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair};
use crate::mac::MacAddr;

fn v4(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> FrameSpec {
    let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
    FrameSpec {
        ip: IpSpec::V4(Ipv4Spec { src, dst, ..Ipv4Spec::default() }),
        l4: L4Spec::Udp(PortPair { src: ports.0, dst: ports.1 }),
        ..FrameSpec::default()
    }
}

fn bytes(spec: &FrameSpec) -> Vec<u8> {
    spec.build(80).unwrap().bytes
}

#[test]
fn key_of_udp_over_ipv4_is_the_5_tuple() {
    let frame = bytes(&v4([10, 0, 0, 1], [10, 0, 0, 2], (53, 4000)));
    let key = FlowKey {
        kind: FlowKind::V4(IpProto::UDP),
        vlans: 0,
        src: FlowEndpoint { address: 0x0a00_0001, port: 53 },
        dst: FlowEndpoint { address: 0x0a00_0002, port: 4000 },
    };
    assert_eq!(FlowKey::of(&frame), key);
}

#[test]
fn key_of_tagged_ipv6_has_addresses_ports_and_vlans() {
    let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9));
    let mut spec = v4([0; 4], [0; 4], (1, 2));
    spec.ip = IpSpec::V6(Ipv6Spec { src, dst, ..Ipv6Spec::default() });
    spec.tags = vec![VlanTag::new(1, 7).into(), VlanTag::new(2, 0).into()];
    let key = FlowKey::of(&bytes(&spec));
    assert_eq!((key.kind, key.vlans), (FlowKind::V6(IpProto::UDP), 0x1002));
    assert_eq!(key.src, FlowEndpoint { address: src.to_bits(), port: 1 });
    assert_eq!(key.dst, FlowEndpoint { address: dst.to_bits(), port: 2 });
}

#[test]
fn ipv6_fragments_with_headers_after_the_fragment_header_are_one_flow() {
    // The fragmentable part of the packet is a destination-options header and a UDP datagram.
    let options = [IpProto::UDP.0, 0, 1, 4, 0, 0, 0, 0, 0, 1, 0, 2, 0, 8, 0, 0];
    let fragment = |next: IpProto, bits: u16, data: &[u8]| {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((data.len() as u16 + 8).to_be_bytes());
        frame.extend([IpProto::FRAGMENT.0, 64]);
        frame.extend([0xfd; 32]);
        frame.extend([next.0, 0]);
        frame.extend(bits.to_be_bytes());
        frame.extend([0, 0, 0, 7]);
        frame.extend(data);
        FlowKey::of(&frame)
    };
    let first = fragment(IpProto::DESTINATION, 1, &options);
    assert_eq!(first, fragment(IpProto::DESTINATION, 0x10, &[9; 32]));
    // Only the first fragment has to name the right header.
    assert_eq!(first, fragment(IpProto::UDP, 0x10, &[9; 32]));
    assert_eq!((first.src.port, first.dst.port), (0, 0));
    let atomic = fragment(IpProto::DESTINATION, 0, &options);
    assert_eq!((atomic.kind, atomic.src.port), (FlowKind::V6(IpProto::UDP), 1));
}

#[test]
fn all_fragments_of_a_packet_are_one_flow() {
    let whole = bytes(&v4([1, 2, 3, 4], [5, 6, 7, 8], (9, 10)));
    let [first, later] = [0x2000u16, 0x0010].map(|bits| {
        let mut frame = whole.clone();
        frame[20..22].copy_from_slice(&bits.to_be_bytes());
        FlowKey::of(&frame)
    });
    assert_eq!(first, later);
    assert_eq!((first.src.port, first.dst.port), (0, 0));
    assert_eq!(first.src.address, FlowKey::of(&whole).src.address);
}

#[test]
fn frames_without_ip_go_by_their_mac_addresses() {
    let mut spec = FrameSpec { src_mac: MacAddr([2, 0, 0, 0, 0, 7]), ..FrameSpec::default() };
    spec.tags = vec![VlanTag::new(5, 0).into()];
    let mut frame = bytes(&spec);
    frame[16..18].copy_from_slice(&EtherType::ARP.0.to_be_bytes());
    let key = FlowKey::of(&frame);
    assert_eq!((key.kind, key.vlans), (FlowKind::Link(EtherType::ARP), 5));
    assert_eq!(key.src.address, 0x0200_0000_0007);
    assert_eq!(key.dst.address, 0xffff_ffff_ffff);
}

#[test]
fn every_field_counts_in_the_hash() {
    let base = FlowKey::of(&bytes(&v4([10, 0, 0, 1], [10, 0, 0, 2], (1, 2))));
    let port = |end: FlowEndpoint| FlowEndpoint { port: end.port + 7, ..end };
    let address = |end: FlowEndpoint| FlowEndpoint { address: end.address | 1 << 127, ..end };
    let keys = [
        base,
        base.reversed(),
        FlowKey { src: port(base.src), ..base },
        FlowKey { dst: port(base.dst), ..base },
        FlowKey { src: address(base.src), ..base },
        FlowKey { dst: address(base.dst), ..base },
        FlowKey { vlans: 1, ..base },
        FlowKey { vlans: 0xff_ffff, ..base },
        FlowKey { kind: FlowKind::V6(IpProto::UDP), ..base },
        FlowKey { kind: FlowKind::V4(IpProto::TCP), ..base },
        FlowKey { kind: FlowKind::Link(EtherType(17)), ..base },
    ];
    let hashes: BTreeSet<u64> = keys.iter().map(|key| FlowHasher::new([1, 2]).hash(key)).collect();
    assert_eq!(hashes.len(), keys.len());
}

#[test]
fn hash_depends_on_both_secret_words_and_on_nothing_else() {
    let frame = bytes(&FrameSpec::default());
    let hash = |secret| FlowHasher::new(secret).hash_frame(&frame);
    assert_eq!(hash([1, 2]), hash([1, 2]));
    assert_ne!(hash([1, 2]), hash([2, 2]));
    assert_ne!(hash([1, 2]), hash([1, 3]));
    // This number was computed without this code, from the published definition of SipHash-1-3.
    assert_eq!(hash([1, 2]), 9_906_780_969_528_134_122);
}

#[test]
fn neighbouring_flows_spread_evenly() {
    let hasher = FlowHasher::new([3, 4]);
    let mut seen = [0u32; 64];
    for flow in 0..64_000u32 {
        let [_, _, a, b] = flow.to_be_bytes();
        let frame = bytes(&v4([10, 0, a, b], [10, 0, 0, 2], (1, 2)));
        seen[(hasher.hash_frame(&frame) >> 58) as usize] += 1;
    }
    let chi2: f64 = seen.iter().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
    // With 63 degrees of freedom, chi-square is above 103.4 in one of a thousand tests.
    assert!(chi2 < 103.4, "{chi2}");
}

proptest! {
    #[test]
    fn symmetric_hash_is_the_same_both_ways(src: [u8; 4], dst: [u8; 4], a: u16, b: u16) {
        let request = bytes(&v4(src, dst, (a, b)));
        let back = bytes(&v4(dst, src, (b, a)));
        let hasher = FlowHasher::new([5, 6]).symmetric();
        prop_assert_eq!(hasher.hash_frame(&request), hasher.hash_frame(&back));
    }

    #[test]
    fn any_bytes_have_a_flow(frame in prop::collection::vec(any::<u8>(), 0..120)) {
        let key = FlowKey::of(&frame);
        prop_assert_eq!(key, key.reversed().reversed());
    }
}
