use super::*;
use crate::assigned::VlanTag;
use crate::frame::{
    EchoKind, EchoSpec, Fill, FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair, TcpSpec,
};
use proptest::prelude::*;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

fn ip(v6: bool, id: u16) -> IpSpec {
    if v6 {
        IpSpec::V6(Ipv6Spec { flow_label: 77, ..Ipv6Spec::default() })
    } else {
        IpSpec::V4(Ipv4Spec { id, tos: 2, ..Ipv4Spec::default() })
    }
}

fn spec(v6: bool, l4: L4Spec, tags: usize, id: u16) -> FrameSpec {
    let tags = vec![VlanTag::new(9, 1).into(); tags];
    FrameSpec { tags, ip: ip(v6, id), l4, fill: Fill::Counting, ..FrameSpec::default() }
}

fn segments(frame: &[u8], gso: Gso) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let count = segment(frame, gso, |header, payload| frames.push([header, payload].concat()));
    assert_eq!(count, Ok(frames.len()));
    frames
}

/// Builds each segment from scratch, as if an application had sent it separately.
fn naive(spec: &FrameSpec, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let chunks: Vec<&[u8]> =
        if payload.is_empty() { vec![&[]] } else { payload.chunks(size).collect() };
    let last = chunks.len() - 1;
    let build = |(index, chunk): (usize, &&[u8])| {
        let mut spec = spec.clone();
        if let IpSpec::V4(ip) = &mut spec.ip {
            ip.id = ip.id.wrapping_add(index as u16);
        }
        if let L4Spec::Tcp(tcp) = &mut spec.l4 {
            tcp.seq = tcp.seq.wrapping_add((index * size) as u32);
            if index != last {
                tcp.flags &= !0x09;
            }
            if index != 0 {
                tcp.flags &= !0x80;
            }
        }
        spec.fill = Fill::Pattern(chunk.to_vec());
        spec.build(spec.header_len() + chunk.len()).unwrap().bytes
    };
    chunks.iter().enumerate().map(build).collect()
}

fn tcp(seq: u32, flags: u8) -> L4Spec {
    L4Spec::Tcp(TcpSpec { seq, flags, ..TcpSpec::default() })
}

proptest! {
    #[test]
    fn tcp_segments_equal_frames_built_one_by_one(
        v6: bool, tags in 0usize..=2, seq: u32, flags: u8, id: u16,
        len in 0usize..9000, size in 1usize..3000, stale: u16,
    ) {
        let spec = spec(v6, tcp(seq, flags), tags, id);
        let template = spec.build(spec.header_len() + len).unwrap();
        let mut frame = template.bytes;
        let payload = frame[template.layout.payload..].to_vec();
        // The super-frame has a wrong checksum. The checksums of the segments must be correct.
        put_be16(&mut frame, template.layout.l4_check, stale);
        let size = size.max(len / 100 + 1);
        let kind = if v6 { GsoKind::Tcp6 } else { GsoKind::Tcp4 };
        prop_assert_eq!(
            segments(&frame, Gso { kind, size: size as u16 }),
            naive(&spec, &payload, size)
        );
    }

    #[test]
    fn udp_datagrams_equal_frames_built_one_by_one(
        v6: bool, tags in 0usize..=2, id: u16, len in 0usize..9000, size in 1usize..3000,
    ) {
        let spec = spec(v6, L4Spec::Udp(PortPair { src: 9, dst: 10 }), tags, id);
        let template = spec.build(spec.header_len() + len).unwrap();
        let payload = template.bytes[template.layout.payload..].to_vec();
        let size = size.max(len / 100 + 1);
        prop_assert_eq!(
            segments(&template.bytes, Gso { kind: GsoKind::Udp, size: size as u16 }),
            naive(&spec, &payload, size)
        );
    }

    #[test]
    fn segments_put_together_give_the_payload_back(len in 1usize..60000, size in 500u16..9000) {
        let spec = spec(false, tcp(u32::MAX - 5000, 0x18), 0, u16::MAX);
        let template = spec.build(spec.header_len() + len).unwrap();
        let mut stream = Vec::new();
        let mut next_seq = u32::MAX - 5000;
        for frame in segments(&template.bytes, Gso { kind: GsoKind::Tcp4, size }) {
            let headers = Headers::parse(&frame).unwrap();
            let tcp = headers.ip.unwrap().l4_bytes(&frame).unwrap();
            prop_assert_eq!(be32(tcp, 4), Some(next_seq));
            prop_assert_eq!(of(&frame[14..34]), 0);
            stream.extend_from_slice(&tcp[20..]);
            next_seq = next_seq.wrapping_add((tcp.len() - 20) as u32);
        }
        prop_assert_eq!(stream, &template.bytes[54..]);
    }

    #[test]
    fn any_bytes_are_cut_or_refused(
        mut frame in prop::collection::vec(any::<u8>(), 0..300), size: u16, tail: u8,
        kind in prop::sample::select(vec![GsoKind::Tcp4, GsoKind::Tcp6, GsoKind::Udp]),
    ) {
        let start = [8, 0, 0x45, 0, 1, tail];
        if let Some(header) = frame.get_mut(12..18) {
            header.copy_from_slice(&start);
        }
        if let Some(proto) = frame.get_mut(23) {
            *proto = if kind == GsoKind::Udp { 17 } else { 6 };
        }
        if let Some(fragment) = frame.get_mut(20..22) {
            fragment.fill(0);
        }
        let mut total = 0;
        if segment(&frame, Gso { kind, size }, |_, payload| total += payload.len()).is_ok() {
            prop_assert!(total < frame.len());
        }
    }
}

#[test]
fn options_of_ip_and_tcp_are_repeated() {
    let spec = spec(false, tcp(100, 0x18), 0, 7);
    let mut frame = spec.build(54 + 3000).unwrap().bytes;
    frame.splice(54..54, [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    frame[46] = 0x80;
    frame.splice(34..34, [1, 1, 1, 0]);
    frame[14] = 0x46;
    let total = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    let frames = segments(&frame, Gso { kind: GsoKind::Tcp4, size: 1000 });
    assert_eq!(frames.len(), 3);
    for segment in frames {
        assert_eq!(segment.len(), 70 + 1000);
        assert_eq!((&segment[34..38], &segment[58..70]), (&frame[34..38], &frame[58..70]));
        assert_eq!(of(&segment[14..38]), 0);
        let pseudo = Sum::pseudo::<8>(array(&segment, 26).unwrap(), IpProto::TCP, 1032);
        assert_eq!(pseudo.bytes(&segment[38..]).checksum(), 0);
    }
}

#[test]
fn padding_behind_the_ip_packet_is_no_payload() {
    let mut frame = spec(false, tcp(1, 0x10), 0, 0).build(58).unwrap().bytes;
    frame.extend([0xaa, 0xaa]);
    let frames = segments(&frame, Gso { kind: GsoKind::Tcp4, size: 3 });
    assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [57, 55]);
}

#[test]
fn udp_without_checksum_stays_without() {
    let mut frame = spec(false, L4Spec::Udp(PortPair::default()), 0, 0).build(142).unwrap().bytes;
    frame[40..42].fill(0);
    for segment in segments(&frame, Gso { kind: GsoKind::Udp, size: 50 }) {
        assert_eq!((be16(&segment, 38), be16(&segment, 40)), (Some(58), Some(0)));
    }
}

#[test]
fn a_caller_may_pause_between_segments() {
    let frame = spec(false, tcp(1, 0x10), 0, 0).build(54 + 250).unwrap().bytes;
    let mut segmenter = Segmenter::new(&frame, Gso { kind: GsoKind::Tcp4, size: 100 }).unwrap();
    let mut left = Vec::new();
    while segmenter.next_segment().is_some() {
        left.push(segmenter.remaining());
    }
    assert_eq!(left, [2, 1, 0]);
    assert!(segmenter.next_segment().is_none());
}

#[test]
fn what_cannot_be_cut_is_refused_by_name() {
    let spec = spec(false, tcp(1, 0x10), 0, 0);
    let good = spec.build(100).unwrap().bytes;
    let with = |at: usize, bytes: &[u8], kind, size| {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        Segmenter::new(&frame, Gso { kind, size }).map(|_| ()).unwrap_err()
    };
    let kind = GsoKind::Tcp4;
    assert_eq!(with(0, &[], kind, 0), SegmentError::ZeroSize);
    assert_eq!(with(0, &[], GsoKind::Udp, 9), SegmentError::Kind { expected: GsoKind::Udp });
    assert_eq!(with(12, &[8, 6], kind, 9), SegmentError::Kind { expected: kind });
    assert_eq!(with(20, &[0x20, 0], kind, 9), SegmentError::Fragment);
    assert_eq!(with(46, &[0x40], kind, 9), SegmentError::TcpHeaderLength { found: 16 });
    assert_eq!(with(16, &[0, 87], kind, 9), SegmentError::Truncated { need: 101, have: 100 });
    assert_eq!(with(16, &[0, 39], kind, 9), SegmentError::Truncated { need: 54, have: 53 });
    assert_eq!(with(16, &[0, 30], kind, 9), SegmentError::Truncated { need: 54, have: 44 });
    // The Linux kernel sets a total length of 0 in packets above 64 KiB.
    let view =
        ViewError::TotalLength { layer: crate::view::HeaderLayer::Ipv4, found: 0, headers: 20 };
    assert_eq!(with(16, &[0, 0], kind, 9), SegmentError::View(view));
    assert_eq!(
        SegmentError::Kind { expected: kind }.to_string(),
        "segmentation asks for Tcp4, the frame carries something else"
    );
}

#[test]
fn ping_is_not_segmented() {
    let echo = EchoSpec { kind: EchoKind::Request, id: 1, seq: 1 };
    let frame = spec(true, L4Spec::Echo(echo), 0, 0).build(2000).unwrap().bytes;
    let gso = Gso { kind: GsoKind::Udp, size: 1000 };
    assert_eq!(segment(&frame, gso, |_, _| ()), Err(SegmentError::Kind { expected: GsoKind::Udp }));
}

#[test]
fn headers_beyond_the_limit_are_refused() {
    let spec = spec(true, L4Spec::Udp(PortPair::default()), 0, 0);
    let mut frame = spec.build(162).unwrap().bytes;
    let mut options = vec![IpProto::UDP.0, 17];
    options.resize(144, 0);
    frame.splice(54..54, options);
    frame[20] = IpProto::DESTINATION.0;
    frame[18..20].copy_from_slice(&(144u16 + 108).to_be_bytes());
    let gso = Gso { kind: GsoKind::Udp, size: 50 };
    assert_eq!(segment(&frame, gso, |_, _| ()), Err(SegmentError::HeaderTooLong { found: 206 }));
}
