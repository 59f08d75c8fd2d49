use super::*;
use crate::frame::{FrameSpec, IpSpec, Ipv6Spec, L4Spec, PortPair, TcpSpec};
use etherparse::{LinkExtSlice, NetSlice, SlicedPacket};
use proptest::prelude::*;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

/// Returns an Ethernet frame with an IPv6 header, the given chain of extension headers, and 8 bytes
/// of UDP.
fn v6_with(first: IpProto, chain: &[&[u8]]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    let payload_len = chain.iter().map(|header| header.len()).sum::<usize>() + 8;
    frame.extend((payload_len as u16).to_be_bytes());
    frame.extend([first.0, 64]);
    frame.extend([0xfd; 32]);
    chain.iter().for_each(|header| frame.extend(*header));
    frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
    frame
}

const UDP: u8 = IpProto::UDP.0;

#[test]
fn plain_ipv4_udp() {
    let frame = FrameSpec::default().build(60).unwrap().bytes;
    let headers = Headers::parse(&frame).unwrap();
    assert_eq!((headers.ethertype, headers.l3), (EtherType::IPV4, 14));
    assert!(headers.tags_found().is_empty());
    let ip = headers.ip.unwrap();
    assert_eq!((ip.proto, ip.l4, ip.end), (IpProto::UDP, 34, 60));
    assert_eq!((ip.l4_len(), ip.fragment), (26, FragmentPosition::Whole));
    assert_eq!(headers.ports(&frame), Some((1234, 1234)));
    assert_eq!(ip.l4_bytes(&frame).unwrap().len(), 26);
}

#[test]
fn two_tags_are_looked_through_and_a_third_is_not() {
    let tags = vec![VlanTag::new(100, 3).into(), VlanTag::new(200, 0).into()];
    let mut spec = FrameSpec { tags, ..FrameSpec::default() };
    spec.tags[0].ethertype = EtherType::QINQ;
    let mut frame = spec.build(100).unwrap().bytes;
    let headers = Headers::parse(&frame).unwrap();
    assert_eq!(headers.tags_found(), [VlanTag::new(100, 3), VlanTag::new(200, 0)]);
    assert_eq!((headers.l3, headers.ip.unwrap().l4), (22, 42));
    assert_eq!((headers.tags_found()[0].priority(), headers.tags_found()[0].vid()), (3, 100));

    frame[20..22].copy_from_slice(&[0x81, 0]);
    let headers = Headers::parse(&frame).unwrap();
    assert_eq!((headers.ethertype, headers.ip), (EtherType::VLAN, None));
}

#[test]
fn the_parts_of_a_vlan_tag_are_those_of_ieee_802_1q() {
    for control in [0, 0x0fff, 0x1000, 0xe000, 0x2001, 0xb064, 0xefff, u16::MAX] {
        let tag = VlanTag(control);
        let parts = (tag.priority(), u16::from(tag.drop_eligible()), tag.vid());
        assert_eq!(parts, ((control / 0x2000) as u8, control / 0x1000 % 2, control % 0x1000));
    }
}

#[test]
fn frames_without_ip_are_no_error() {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&EtherType::ARP.0.to_be_bytes());
    let headers = Headers::parse(&frame).unwrap();
    assert_eq!((headers.ethertype, headers.ip), (EtherType::ARP, None));
    assert_eq!(headers.ports(&frame), None);
}

#[test]
fn every_truncation_is_named_with_the_length_it_needs() {
    let mut spec = FrameSpec { tags: vec![VlanTag::new(1, 0).into()], ..FrameSpec::default() };
    let v4 = spec.build(80).unwrap().bytes;
    spec.ip = IpSpec::V6(Ipv6Spec::default());
    let v6 = spec.build(80).unwrap().bytes;
    let needs = |frame: &[u8], len| match Headers::parse(&frame[..len]) {
        Err(ViewError::Truncated { layer, need, have }) if have as usize == len => (layer, need),
        other => panic!("{len} bytes: {other:?}"),
    };
    for len in 0..14 {
        assert_eq!(needs(&v4, len), (HeaderLayer::Ethernet, 14));
    }
    for len in 14..18 {
        assert_eq!(needs(&v4, len), (HeaderLayer::Vlan, 18));
    }
    for len in 18..38 {
        assert_eq!(needs(&v4, len), (HeaderLayer::Ipv4, 38));
    }
    for len in 18..58 {
        assert_eq!(needs(&v6, len), (HeaderLayer::Ipv6, 58));
    }
    // The payload of IP is truncated, but the headers before it are complete. So parsing succeeds.
    // The payload is not available. The ports are available only if the frame has all their bytes.
    let headers = Headers::parse(&v4[..40]).unwrap();
    assert_eq!(headers.ip.unwrap().l4_bytes(&v4[..40]), None);
    assert_eq!(headers.ports(&v4[..40]), None);
    assert_eq!(headers.ports(&v4[..42]), Some((1234, 1234)));
}

#[test]
fn contradicting_headers_are_refused_by_name() {
    let good = FrameSpec::default().build(60).unwrap().bytes;
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        Headers::parse(&frame).unwrap_err()
    };
    assert_eq!(with(14, &[0x65]), ViewError::Version { layer: HeaderLayer::Ipv4, found: 6 });
    assert_eq!(with(14, &[0x44]), ViewError::HeaderLength { found: 16 });
    assert_eq!(
        with(16, &[0, 19]),
        ViewError::TotalLength { layer: HeaderLayer::Ipv4, found: 19, headers: 20 }
    );
    assert_eq!(with(12, &[0x86, 0xdd]), ViewError::Version { layer: HeaderLayer::Ipv6, found: 4 });
    assert_eq!(
        with(16, &[0, 19]).to_string(),
        "an IPv4 packet of 19 bytes ends inside its 20 bytes of headers"
    );
    assert_eq!(
        ViewError::Truncated { layer: HeaderLayer::Vlan, need: 18, have: 15 }.to_string(),
        "the frame ends at byte 15, its VLAN header at byte 18"
    );
}

#[test]
fn packets_as_short_as_their_headers_are_whole() {
    let (mut v4, mut v6) =
        (FrameSpec::default().build(60).unwrap().bytes, v6_with(IpProto::UDP, &[]));
    let with_end = |frame: &mut [u8], at: usize, len: u16| {
        frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
        let headers = Headers::parse(frame).unwrap();
        (headers.ip.unwrap().l4_len(), headers.ports(frame).is_some())
    };
    for (l4_len, has_ports) in [(0, false), (1, false), (3, false), (4, true), (5, true)] {
        assert_eq!(with_end(&mut v4, 16, 20 + l4_len as u16), (l4_len, has_ports));
        assert_eq!(with_end(&mut v6, 18, l4_len as u16), (l4_len, has_ports));
    }
}

#[test]
fn ipv4_options_belong_to_the_header_to_the_byte() {
    let mut frame = FrameSpec::default().build(60).unwrap().bytes;
    frame[14] = 0x46;
    let parse = |frame: &[u8]| Headers::parse(frame).map(|headers| headers.ip.unwrap().l4);
    assert_eq!(parse(&frame[..38]), Ok(38));
    let cut = ViewError::Truncated { layer: HeaderLayer::Ipv4, need: 38, have: 37 };
    assert_eq!(parse(&frame[..37]), Err(cut));
    frame[16..18].copy_from_slice(&[0, 24]);
    assert_eq!(parse(&frame), Ok(38));
    frame[17] = 23;
    let short = ViewError::TotalLength { layer: HeaderLayer::Ipv4, found: 23, headers: 24 };
    assert_eq!(parse(&frame), Err(short));
}

#[test]
fn every_extension_header_has_the_length_of_its_rfc() {
    // Lengths of extension headers: RFC 8200 counts words of 8 bytes after the first, RFC 4302
    // counts words of 4 bytes, minus two. In a fragment header, the second byte is reserved.
    let cases = [
        (IpProto::HOP_BY_HOP, 16),
        (IpProto::ROUTING, 16),
        (IpProto::DESTINATION, 16),
        (IpProto::MOBILITY, 16),
        (IpProto::AUTHENTICATION, 12),
        (IpProto::FRAGMENT, 8),
    ];
    for (proto, len) in cases {
        let mut header = vec![0; len];
        header[..2].copy_from_slice(&[UDP, 1]);
        let frame = v6_with(proto, &[&header]);
        let l4 = 54 + len;
        let parse = |frame: &[u8]| Headers::parse(frame).map(|headers| headers.ip.unwrap().l4);
        assert_eq!(parse(&frame), Ok(l4 as u16), "{proto}");
        assert_eq!(parse(&frame[..l4]), Ok(l4 as u16), "{proto}");
        let (need, have) = (l4 as u32, l4 as u32 - 1);
        let cut = ViewError::Truncated { layer: HeaderLayer::Ipv6Extension, need, have };
        assert_eq!(parse(&frame[..l4 - 1]), Err(cut), "{proto}");
        let mut ending = frame.clone();
        ending[18..20].copy_from_slice(&(len as u16).to_be_bytes());
        assert_eq!(parse(&ending), Ok(l4 as u16), "{proto}");
        ending[19] -= 1;
        let headers = 40 + len as u32;
        let short =
            ViewError::TotalLength { layer: HeaderLayer::Ipv6, found: headers - 1, headers };
        assert_eq!(parse(&ending), Err(short), "{proto}");
    }
}

#[test]
fn fragments_are_told_apart() {
    let good = FrameSpec::default().build(60).unwrap().bytes;
    let fragment = |bits: u16| {
        let mut frame = good.clone();
        frame[20..22].copy_from_slice(&bits.to_be_bytes());
        let headers = Headers::parse(&frame).unwrap();
        (headers.ip.unwrap().fragment, headers.ports(&frame).is_some())
    };
    assert_eq!(fragment(0x4000), (FragmentPosition::Whole, true));
    assert_eq!(fragment(0x2000), (FragmentPosition::First, true));
    assert_eq!(fragment(0x2001), (FragmentPosition::Later, false));
    assert_eq!(fragment(0x0001), (FragmentPosition::Later, false));
}

#[test]
fn ipv6_extensions_are_walked() {
    let frame = v6_with(
        IpProto::HOP_BY_HOP,
        &[
            &[IpProto::ROUTING.0, 0, 0, 0, 0, 0, 0, 0],
            &[[IpProto::AUTHENTICATION.0, 1, 4, 0], [0; 4], [0; 4], [0; 4]].concat(),
            &[[IpProto::DESTINATION.0, 2, 0, 0], [0; 4], [0; 4], [0; 4]].concat(),
            &[UDP, 0, 0, 0, 0, 0, 0, 0],
        ],
    );
    let headers = Headers::parse(&frame).unwrap();
    let ip = headers.ip.unwrap();
    assert_eq!((ip.proto, ip.l4, ip.rerouted), (IpProto::UDP, 54 + 8 + 16 + 16 + 8, false));
    assert_eq!(headers.ports(&frame), Some((1, 2)));
}

#[test]
fn ipv6_fragment_headers_end_the_walk_where_data_begins() {
    let fragment = |bits: [u8; 2]| {
        let frame = v6_with(IpProto::FRAGMENT, &[&[UDP, 0, bits[0], bits[1], 0, 0, 0, 7]]);
        let ip = Headers::parse(&frame).unwrap().ip.unwrap();
        (ip.fragment, ip.l4)
    };
    assert_eq!(fragment([0, 0]), (FragmentPosition::Whole, 62));
    assert_eq!(fragment([0, 1]), (FragmentPosition::First, 62));
    assert_eq!(fragment([0, 8]), (FragmentPosition::Later, 62));
    // In a fragment that is not the first, the next-header field describes the data of the first
    // fragment.
    let frame = v6_with(
        IpProto::FRAGMENT,
        &[&[IpProto::DESTINATION.0, 0, 0, 8, 0, 0, 0, 7], &[UDP, 200, 0, 0, 0, 0, 0, 0]],
    );
    let ip = Headers::parse(&frame).unwrap().ip.unwrap();
    assert_eq!((ip.proto, ip.l4), (IpProto::DESTINATION, 62));
}

#[test]
fn routing_stops_left_are_reported() {
    let frame = v6_with(IpProto::ROUTING, &[&[UDP, 0, 4, 1, 0, 0, 0, 0]]);
    assert!(Headers::parse(&frame).unwrap().ip.unwrap().rerouted);
}

#[test]
fn endless_extensions_are_refused() {
    let header: &[u8] = &[IpProto::DESTINATION.0, 0, 0, 0, 0, 0, 0, 0];
    let frame = v6_with(IpProto::DESTINATION, &[header; 20]);
    assert_eq!(Headers::parse(&frame), Err(ViewError::TooManyExtensions));
    let frame = v6_with(IpProto::DESTINATION, &[&[UDP, 3, 0, 0, 0, 0, 0, 0]]);
    assert_eq!(
        Headers::parse(&frame),
        Err(ViewError::Truncated { layer: HeaderLayer::Ipv6Extension, need: 86, have: 70 })
    );
    let mut frame = v6_with(IpProto::DESTINATION, &[&[UDP, 0, 0, 0, 0, 0, 0, 0]]);
    frame[18..20].copy_from_slice(&[0, 7]);
    assert_eq!(
        Headers::parse(&frame),
        Err(ViewError::TotalLength { layer: HeaderLayer::Ipv6, found: 47, headers: 48 })
    );
}

fn specs() -> impl Strategy<Value = FrameSpec> {
    (any::<bool>(), any::<bool>(), 0usize..=2, any::<u16>()).prop_map(|(v6, tcp, tags, port)| {
        let ports = PortPair { src: port, dst: 80 };
        FrameSpec {
            tags: vec![VlanTag(port).into(); tags],
            ip: if v6 { IpSpec::V6(Ipv6Spec::default()) } else { FrameSpec::default().ip },
            l4: if tcp {
                L4Spec::Tcp(TcpSpec { ports, ..TcpSpec::default() })
            } else {
                L4Spec::Udp(ports)
            },
            ..FrameSpec::default()
        }
    })
}

proptest! {
    #[test]
    fn agrees_with_etherparse(spec in specs(), extra in 0usize..64, padding in 0usize..8) {
        let mut frame = spec.build(spec.header_len() + extra).unwrap().bytes;
        frame.resize(frame.len() + padding, 0);
        let ours = Headers::parse(&frame).unwrap();
        let theirs = SlicedPacket::from_ethernet(&frame).unwrap();

        let vids: Vec<u16> = theirs.link_exts.iter().map(|ext| match ext {
            LinkExtSlice::Vlan(tag) => tag.vlan_identifier().value(),
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(ours.tags_found().iter().map(|tag| tag.vid()).collect::<Vec<_>>(), vids);
        let (proto, payload) = match theirs.net.unwrap() {
            NetSlice::Ipv4(ip) => (ip.payload_ip_number(), ip.payload().payload),
            NetSlice::Ipv6(ip) => (ip.payload().ip_number, ip.payload().payload),
            other => panic!("{other:?}"),
        };
        let ip = ours.ip.unwrap();
        prop_assert_eq!(ip.proto.0, proto.0);
        prop_assert_eq!(ip.l4_bytes(&frame).unwrap(), payload);
    }

    #[test]
    fn any_bytes_keep_the_invariants(
        mut frame in prop::collection::vec(any::<u8>(), 0..150),
        kind in prop::sample::select(vec![[8u8, 0], [0x86, 0xdd], [0x81, 0]]),
        version in prop::sample::select(vec![0x45u8, 0x46, 0x60]),
        next in prop::sample::select(vec![0u8, 17, 43, 44, 51, 60]),
    ) {
        for (at, byte) in [(12, kind[0]), (13, kind[1]), (14, version), (20, next), (54, next)] {
            if let Some(slot) = frame.get_mut(at) {
                *slot = byte;
            }
        }
        if let Some(headers) = Headers::plain_ipv4(&frame) {
            prop_assert_eq!(Headers::parse_any(&frame), Ok(headers));
        }
        if let Ok(headers) = Headers::parse(&frame) {
            let l3 = usize::from(headers.l3);
            prop_assert!(l3 <= frame.len());
            if let Some(ip) = headers.ip {
                prop_assert!(l3 < usize::from(ip.l4) && usize::from(ip.l4) <= frame.len());
                prop_assert!(u32::from(ip.l4) <= ip.end);
            }
            let _ = headers.ports(&frame);
        }
    }
}
