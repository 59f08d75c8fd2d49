use super::*;
use crate::assigned::{EtherType, VlanTag};
use crate::frame::{
    BuildError, EchoKind, EchoSpec, Fill, FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair,
    TagSpec, TcpSpec,
};
use crate::view::{FragmentPosition, Headers};
use etherparse::{PacketHeaders, TransportHeader};
use proptest::prelude::*;
use std::string::ToString;
use std::vec;

fn l4() -> impl Strategy<Value = L4Spec> {
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(src, dst)| L4Spec::Udp(PortPair { src, dst })),
        any::<(u16, u16, u32, u32, u8, u16)>().prop_map(|(src, dst, seq, ack, flags, window)| {
            L4Spec::Tcp(TcpSpec { ports: PortPair { src, dst }, seq, ack, flags, window })
        }),
        any::<(bool, u16, u16)>().prop_map(|(reply, id, seq)| {
            let kind = if reply { EchoKind::Reply } else { EchoKind::Request };
            L4Spec::Echo(EchoSpec { kind, id, seq })
        }),
    ]
}

fn ip() -> impl Strategy<Value = IpSpec> {
    prop_oneof![
        any::<([u8; 4], [u8; 4], u8, u8, u16, bool)>().prop_map(|(src, dst, ttl, tos, id, df)| {
            IpSpec::V4(Ipv4Spec {
                src: src.into(),
                dst: dst.into(),
                ttl,
                tos,
                id,
                dont_fragment: df,
            })
        }),
        any::<([u8; 16], [u8; 16], u8, u8, u32)>().prop_map(|(src, dst, hops, class, label)| {
            IpSpec::V6(Ipv6Spec {
                src: src.into(),
                dst: dst.into(),
                hop_limit: hops,
                traffic_class: class,
                flow_label: label & 0xf_ffff,
            })
        }),
    ]
}

fn fill() -> impl Strategy<Value = Fill> {
    prop_oneof![
        any::<u8>().prop_map(Fill::Byte),
        Just(Fill::Counting),
        prop::collection::vec(any::<u8>(), 0..6).prop_map(Fill::Pattern),
    ]
}

fn specs() -> impl Strategy<Value = FrameSpec> {
    (any::<([u8; 6], [u8; 6])>(), prop::collection::vec(any::<u16>(), 0..=2), ip(), l4(), fill())
        .prop_map(|((src, dst), tags, ip, l4, fill)| FrameSpec {
            src_mac: src.into(),
            dst_mac: dst.into(),
            tags: tags.into_iter().map(|tag| VlanTag(tag).into()).collect(),
            ip,
            l4,
            fill,
        })
}

/// Asserts that another implementation computes the same checksums.
fn assert_valid_for_etherparse(bytes: &[u8]) -> Result<(), TestCaseError> {
    let packet = PacketHeaders::from_ethernet_slice(bytes).unwrap();
    let payload = packet.payload.slice();
    match (packet.net.unwrap(), packet.transport.unwrap()) {
        (etherparse::NetHeaders::Ipv4(ip, _), transport) => {
            prop_assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            match transport {
                TransportHeader::Udp(udp) => {
                    let sum = udp.calc_checksum_ipv4(&ip, payload).unwrap();
                    prop_assert_eq!(udp.checksum, nonzero(sum));
                }
                TransportHeader::Tcp(tcp) => {
                    prop_assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, payload).unwrap());
                }
                TransportHeader::Icmpv4(icmp) => {
                    prop_assert_eq!(icmp.checksum, icmp.icmp_type.calc_checksum(payload));
                }
                other => panic!("{other:?}"),
            }
        }
        (etherparse::NetHeaders::Ipv6(ip, _), transport) => match transport {
            TransportHeader::Udp(udp) => {
                let sum = udp.calc_checksum_ipv6(&ip, payload).unwrap();
                prop_assert_eq!(udp.checksum, nonzero(sum));
            }
            TransportHeader::Tcp(tcp) => {
                prop_assert_eq!(tcp.checksum, tcp.calc_checksum_ipv6(&ip, payload).unwrap());
            }
            TransportHeader::Icmpv6(icmp) => {
                let sum = icmp.icmp_type.calc_checksum(ip.source, ip.destination, payload).unwrap();
                prop_assert_eq!(icmp.checksum, sum);
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn frames_have_the_exact_length_and_valid_checksums(spec in specs(), extra in 0usize..1500) {
        let len = spec.header_len() + extra;
        let template = spec.build(len).unwrap();
        prop_assert_eq!(template.bytes.len(), len);
        assert_valid_for_etherparse(&template.bytes)?;
        let headers = Headers::parse(&template.bytes).unwrap();
        let ip = headers.ip.unwrap();
        let layout = template.layout;
        prop_assert_eq!((usize::from(headers.l3), usize::from(ip.l4)), (layout.l3, layout.l4));
        prop_assert_eq!((ip.end as usize, ip.fragment), (len, FragmentPosition::Whole));
        prop_assert_eq!((ip.version, ip.proto), (layout.version, layout.proto));
    }

    /// The setters, used on a template, result in the same bytes as building a frame from the
    /// changed specification.
    #[test]
    fn setters_equal_a_fresh_build(
        before in specs(), macs in any::<([u8; 6], [u8; 6])>(), addresses in any::<[u8; 32]>(),
        fields in any::<(u16, u16, u32)>(), extra in 0usize..200,
    ) {
        let len = before.header_len() + extra;
        let template = before.build(len).unwrap();
        let layout = template.layout;
        let mut frame = template.bytes.clone();
        let mut after = before.clone();
        let (a, b, seq) = fields;

        (after.src_mac, after.dst_mac) = (macs.0.into(), macs.1.into());
        prop_assert!(layout.set_src_mac(&mut frame, after.src_mac).is_some());
        prop_assert!(layout.set_dst_mac(&mut frame, after.dst_mac).is_some());
        match &mut after.ip {
            IpSpec::V4(ip) => {
                let take = |at| Ipv4Addr::from(array::<4>(&addresses, at).unwrap());
                (ip.src, ip.dst) = (take(0), take(4));
                prop_assert!(layout.set_src_v4(&mut frame, ip.src).is_some());
                prop_assert!(layout.set_dst_v4(&mut frame, ip.dst).is_some());
                prop_assert!(layout.set_src_v6(&mut frame, Ipv6Addr::LOCALHOST).is_none());
            }
            IpSpec::V6(ip) => {
                let take = |at| Ipv6Addr::from(array::<16>(&addresses, at).unwrap());
                (ip.src, ip.dst) = (take(0), take(16));
                prop_assert!(layout.set_src_v6(&mut frame, ip.src).is_some());
                prop_assert!(layout.set_dst_v6(&mut frame, ip.dst).is_some());
                prop_assert!(layout.set_src_v4(&mut frame, Ipv4Addr::LOCALHOST).is_none());
            }
        }
        match &mut after.l4 {
            L4Spec::Udp(ports) => {
                *ports = PortPair { src: a, dst: b };
                prop_assert!(layout.set_src_port(&mut frame, a).is_some());
                prop_assert!(layout.set_dst_port(&mut frame, b).is_some());
                prop_assert!(layout.set_tcp_seq(&mut frame, seq).is_none());
            }
            L4Spec::Tcp(tcp) => {
                (tcp.ports, tcp.seq) = (PortPair { src: a, dst: b }, seq);
                prop_assert!(layout.set_src_port(&mut frame, a).is_some());
                prop_assert!(layout.set_dst_port(&mut frame, b).is_some());
                prop_assert!(layout.set_tcp_seq(&mut frame, seq).is_some());
            }
            L4Spec::Echo(echo) => {
                (echo.id, echo.seq) = (a, b);
                prop_assert!(layout.set_echo(&mut frame, a, b).is_some());
                prop_assert!(layout.set_src_port(&mut frame, a).is_none());
            }
        }
        prop_assert_eq!(frame, after.build(len).unwrap().bytes);
    }

    #[test]
    fn payload_edits_keep_the_checksum(spec in specs(), at in 0usize..20, bytes: [u8; 7]) {
        let mut template = spec.build(spec.header_len() + 64).unwrap();
        let offset = template.layout.payload + 2 * at;
        prop_assert!(template.layout.set_payload(&mut template.bytes, 2 * at, bytes).is_some());
        prop_assert_eq!(&template.bytes[offset..offset + 7], &bytes);
        assert_valid_for_etherparse(&template.bytes)?;
        let before = template.bytes.clone();
        prop_assert!(template.layout.set_payload(&mut template.bytes, 1, bytes).is_none());
        prop_assert!(template.layout.set_payload(&mut template.bytes, 60, bytes).is_none());
        prop_assert_eq!(template.bytes, before);
    }

    #[test]
    fn a_shortened_copy_equals_a_shorter_build(
        spec in specs(), long in 0usize..300, short in 0usize..300, room in 0usize..9,
    ) {
        let (long, short) = (long.max(short), long.min(short));
        let (long, short) = (spec.header_len() + long, spec.header_len() + short);
        let template = spec.build(long).unwrap();
        let mut frame = template.bytes;
        frame.resize(long + room, 0x5a);
        prop_assert!(template.layout.shorten(&mut frame, short).is_some());
        prop_assert_eq!(&frame[..short], &spec.build(short).unwrap().bytes[..]);
    }

    #[test]
    fn slices_too_short_for_a_copy_are_left_alone(spec in specs(), len in 0usize..100) {
        let template = spec.build(spec.header_len() + 20).unwrap();
        let layout = template.layout;
        let mut frame = template.bytes[..len.min(layout.payload - 1)].to_vec();
        let before = frame.clone();
        layout.set_src_v4(&mut frame, Ipv4Addr::BROADCAST);
        layout.set_dst_v6(&mut frame, Ipv6Addr::LOCALHOST);
        layout.set_src_port(&mut frame, 7);
        layout.set_echo(&mut frame, 7, 8);
        layout.set_tcp_seq(&mut frame, 9);
        layout.set_payload(&mut frame, 0, [0; 8]);
        layout.shorten(&mut frame, layout.payload);
        prop_assert_eq!(frame, before);
    }
}

#[test]
fn impossible_lengths_are_named() {
    let mut spec = FrameSpec::default();
    assert_eq!(spec.build(41), Err(BuildError::TooShort { len: 41, min: 42 }));
    assert!(spec.build(42).is_ok());
    assert_eq!(spec.build(65550), Err(BuildError::TooLong { len: 65550, max: 65549 }));
    assert_eq!(spec.build(65549).unwrap().bytes.len(), 65549);
    assert_eq!(
        spec.build(41).unwrap_err().to_string(),
        "41 bytes cannot hold the headers, which take 42"
    );
    spec.tags = vec![VlanTag::new(1, 1).into(); 3];
    assert_eq!(spec.build(100), Err(BuildError::TooManyTags { count: 3 }));
    spec.tags.clear();
    spec.ip = IpSpec::V6(Ipv6Spec::default());
    assert_eq!(spec.build(65590), Err(BuildError::TooLong { len: 65590, max: 65589 }));
    assert!(spec.build(65589).is_ok());
}

#[test]
fn qinq_is_written_outermost_first() {
    let spec = FrameSpec {
        tags: vec![
            TagSpec { ethertype: EtherType::QINQ, tag: VlanTag::new(100, 0) },
            VlanTag::new(7, 5).into(),
        ],
        ..FrameSpec::default()
    };
    let bytes = spec.build(80).unwrap().bytes;
    assert_eq!(bytes[12..22], [0x88, 0xa8, 0, 100, 0x81, 0, 0xa0, 7, 8, 0]);
}
