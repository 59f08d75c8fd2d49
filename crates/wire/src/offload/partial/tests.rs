use super::*;
use crate::assigned::VlanTag;
use crate::checksum::of;
use crate::field::be16;
use crate::frame::{
    Fill, FrameSpec, FrameTemplate, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair, TcpSpec,
};
use proptest::prelude::*;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

fn specs() -> impl Strategy<Value = FrameSpec> {
    let payload = prop::collection::vec(any::<u8>(), 0..8);
    (any::<bool>(), any::<bool>(), 0usize..=2, any::<[u8; 16]>(), any::<u16>(), payload).prop_map(
        |(v6, tcp, tags, address, port, payload)| {
            let ports = PortPair { src: port, dst: 53 };
            let src4: [u8; 4] = *address.first_chunk().unwrap();
            FrameSpec {
                tags: vec![VlanTag::new(5, 0).into(); tags],
                ip: if v6 {
                    IpSpec::V6(Ipv6Spec { src: address.into(), ..Ipv6Spec::default() })
                } else {
                    IpSpec::V4(Ipv4Spec { src: src4.into(), ..Ipv4Spec::default() })
                },
                l4: if tcp {
                    L4Spec::Tcp(TcpSpec { ports, ..TcpSpec::default() })
                } else {
                    L4Spec::Udp(ports)
                },
                fill: Fill::Pattern(payload),
                ..FrameSpec::default()
            }
        },
    )
}

/// Returns the sum that Linux leaves in the checksum field. It is computed from the addresses in
/// the specification.
fn pseudo_of(spec: &FrameSpec, template: &FrameTemplate) -> u16 {
    let len = (template.bytes.len() - template.layout.l4) as u32;
    let proto = template.layout.proto;
    match spec.ip {
        IpSpec::V4(ip) => Sum::pseudo_v4(ip.src, ip.dst, proto, len).folded(),
        IpSpec::V6(ip) => Sum::pseudo_v6(ip.src, ip.dst, proto, len).folded(),
    }
}

/// Returns the frame as Linux would pass it on, with an incomplete checksum.
fn left_partial(spec: &FrameSpec, template: &FrameTemplate) -> Vec<u8> {
    let mut frame = template.bytes.clone();
    put_be16(&mut frame, template.layout.l4_check, pseudo_of(spec, template)).unwrap();
    frame
}

/// Returns whether the frame equals the template, in which a checksum of 0 counts as 0xffff.
fn same_checksum(template: &FrameTemplate, frame: &[u8]) -> bool {
    let mut expected = template.bytes.clone();
    let field = template.layout.l4_check;
    let checksum = nonzero(be16(&expected, field).unwrap());
    put_be16(&mut expected, field, checksum).unwrap();
    expected == frame
}

proptest! {
    #[test]
    fn an_unfinished_checksum_is_completed(
        spec in specs(), extra in 0usize..200, padding in 0usize..20,
    ) {
        let template = spec.build(spec.header_len() + extra).unwrap();
        let mut frame = left_partial(&spec, &template);
        frame.resize(frame.len() + padding, 0xee);
        prop_assert!(complete_partial(&mut frame));
        let (frame, pad) = frame.split_at(template.bytes.len());
        prop_assert!(same_checksum(&template, frame));
        prop_assert!(pad.iter().all(|byte| *byte == 0xee));
    }

    #[test]
    fn completing_at_the_given_place_does_the_same(spec in specs(), extra in 0usize..200) {
        let template = spec.build(spec.header_len() + extra).unwrap();
        let mut frame = left_partial(&spec, &template);
        let start = template.layout.l4;
        let offset = template.layout.l4_check - start;
        complete_at(&mut frame, start as u16, offset as u16).unwrap();
        prop_assert!(same_checksum(&template, &frame));
    }

    /// Tests a complete frame that looks incomplete: two payload bytes are chosen so that the
    /// *valid* checksum equals the pseudo header's sum. [`complete_partial`] takes it for
    /// incomplete, and must leave its bytes unchanged.
    #[test]
    fn a_valid_frame_that_looks_unfinished_stays_byte_for_byte(spec in specs(), extra in 2usize..200) {
        let template = spec.build(spec.header_len() + extra).unwrap();
        let layout = template.layout;
        let mut frame = left_partial(&spec, &template);
        put_be16(&mut frame, layout.payload, 0).unwrap();
        let pseudo = pseudo_of(&spec, &template);
        let rest = Sum::new().u16(pseudo).bytes(&frame[layout.l4..]).checksum();
        put_be16(&mut frame, layout.payload, rest).unwrap();
        let before = frame.clone();
        let sum = Sum::new().u16(pseudo).bytes(&frame[layout.l4..]).folded();
        prop_assert_eq!(sum, 0xffff, "the frame is valid");
        prop_assert!(complete_partial(&mut frame));
        prop_assert_eq!(frame, before);
    }

    #[test]
    fn other_values_of_the_field_are_left_alone(spec in specs(), extra in 0usize..64, field: u16) {
        let template = spec.build(spec.header_len() + extra).unwrap();
        prop_assume!(field != pseudo_of(&spec, &template));
        let mut frame = template.bytes;
        put_be16(&mut frame, template.layout.l4_check, field).unwrap();
        let before = frame.clone();
        prop_assert!(!complete_partial(&mut frame));
        prop_assert_eq!(frame, before);
    }

    #[test]
    fn frames_cut_short_are_left_alone(spec in specs(), extra in 0usize..64, cut in 1usize..100) {
        let template = spec.build(spec.header_len() + extra).unwrap();
        let mut frame = left_partial(&spec, &template);
        frame.truncate(frame.len().saturating_sub(cut));
        let before = frame.clone();
        prop_assert!(!complete_partial(&mut frame));
        prop_assert_eq!(frame, before);
    }

    #[test]
    fn any_bytes_and_any_place_do_no_harm(
        mut frame in prop::collection::vec(any::<u8>(), 0..120), start: u16, offset: u16,
    ) {
        let before = frame.clone();
        if complete_at(&mut frame, start % 130, offset % 130).is_err() {
            prop_assert_eq!(&frame, &before);
        }
        let _ = complete_partial(&mut frame);
    }
}

#[test]
fn fragments_are_left_alone() {
    let spec = FrameSpec::default();
    let template = spec.build(100).unwrap();
    let mut frame = left_partial(&spec, &template);
    frame[20..22].copy_from_slice(&[0x20, 0]);
    assert!(!complete_partial(&mut frame));
}

#[test]
fn other_protocols_are_left_alone() {
    let mut frame = FrameSpec::default().build(100).unwrap().bytes;
    frame[23] = IpProto::SCTP.0;
    assert!(!complete_partial(&mut frame));
}

#[test]
fn a_hop_by_hop_header_is_looked_through() {
    let spec = FrameSpec { ip: IpSpec::V6(Ipv6Spec::default()), ..FrameSpec::default() };
    let template = spec.build(80).unwrap();
    let mut frame = left_partial(&spec, &template);
    frame.splice(54..54, [IpProto::UDP.0, 0, 1, 4, 0, 0, 0, 0]);
    frame[20] = IpProto::HOP_BY_HOP.0;
    frame[18..20].copy_from_slice(&34u16.to_be_bytes());
    assert!(complete_partial(&mut frame));
    assert_eq!(frame[62..], template.bytes[54..]);
}

#[test]
fn a_place_outside_the_frame_is_named() {
    let mut frame = [1u8; 60];
    assert_eq!(
        complete_at(&mut frame, 34, 25),
        Err(CompleteError { start: 34, offset: 25, len: 60 })
    );
    assert_eq!(complete_at(&mut frame, 61, 0).unwrap_err().start, 61);
    assert_eq!(
        CompleteError { start: 34, offset: 25, len: 60 }.to_string(),
        "checksum at byte 34 + 25 asked of a frame of 60 bytes"
    );
    assert_eq!(frame, [1; 60]);
    assert_eq!(complete_at(&mut frame, 58, 0), Ok(()));
    assert_eq!(frame[58..], of(&[1, 1]).to_be_bytes());
}

proptest! {
    #[test]
    fn the_first_bytes_of_a_frame_tell_whether_to_look_at_all_of_it(
        spec in specs(),
        extra in 0usize..200,
        head in 0usize..160,
        change in (0usize..100, any::<u8>()),
        left in any::<bool>(),
    ) {
        let template = spec.build(spec.header_len() + extra).unwrap();
        let mut frame = if left { left_partial(&spec, &template) } else { template.bytes.clone() };
        let at = change.0 % frame.len();
        frame[at] ^= change.1;
        let would = complete_partial(&mut frame.clone());
        prop_assert_eq!(may_be_partial(&frame, frame.len()), would);
        let head = head.min(frame.len());
        prop_assert!(may_be_partial(&frame[..head], frame.len()) || !would);
        // 96 bytes are enough for two tags and the longest headers without options.
        if head >= 96 && change.1 == 0 {
            prop_assert_eq!(may_be_partial(&frame[..head], frame.len()), would);
        }
    }
}
