//! Tests with frames that are built byte by byte, as RFC 791, 8200 and 9293 draw their headers and
//! options.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::options::{ip_options, tcp_data_len, tcp_mss, tcp_options, tcp_word};
use super::{IpFamily, MalformedCounters, MalformedReason, PacketHeaders};

/// An IPv4 frame with these IP options, protocol and payload.
fn v4(options: &[u8], proto: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let words = 5 + options.len().div_ceil(4);
    let total = (words * 4 + payload.len()) as u16;
    frame.extend([0x40 | words as u8, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 7, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(options);
    frame.resize(14 + words * 4, 0);
    frame.extend(payload);
    frame
}

/// A TCP header with these options and data.
fn tcp(options: &[u8], data: &[u8]) -> Vec<u8> {
    let words = 5 + options.len().div_ceil(4);
    let mut header = vec![3, 232, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8];
    header.extend([(words << 4) as u8, 0x12, 0x12, 0x34, 0, 0, 0, 0]);
    header.extend(options);
    header.resize(words * 4, 0);
    header.extend(data);
    header
}

fn parsed(frame: &[u8]) -> PacketHeaders {
    PacketHeaders::parse(frame).unwrap()
}

/// Generates options as kind and value, of at most `most` bytes in total. An option of kind 1 is a
/// single byte.
fn options(kinds: &'static [u8], most: usize) -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let kind = prop_oneof![3 => prop::sample::select(kinds), 1 => Just(1), 1 => 14_u8..=255];
    let option = (kind, prop::collection::vec(any::<u8>(), 0..7));
    prop::collection::vec(option, 0..8).prop_map(move |mut all| {
        while encoded(&all).len() > most {
            all.pop();
        }
        all
    })
}

fn encoded(options: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let bytes = |(kind, value): &(u8, Vec<u8>)| match kind {
        1 => vec![1],
        _ => [&[*kind, value.len() as u8 + 2][..], value.as_slice()].concat(),
    };
    options.iter().flat_map(bytes).collect()
}

fn bits_of(options: &[(u8, Vec<u8>)], table: &[(u8, u8)]) -> u8 {
    let bit = |kind: u8| table.iter().find(|one| one.0 == kind).map_or(0, |one| one.1);
    options.iter().fold(0, |seen, (kind, _)| seen | bit(*kind))
}

const IP_KINDS: [(u8, u8); 4] = [(137, 1), (131, 2), (7, 4), (68, 8)];
const TCP_KINDS: [(u8, u8); 8] =
    [(2, 1), (3, 2), (4, 4), (5, 4), (8, 8), (11, 16), (12, 16), (13, 16)];

proptest! {
    #[test]
    fn ip_options_are_found_wherever_they_stand(
        all in options(&[137, 131, 7, 68], 38), junk in any::<bool>(),
    ) {
        let mut bytes = encoded(&all);
        if junk {
            // Bytes after the end of the option list are ignored.
            bytes.extend([0, 137]);
        }
        let frame = v4(&bytes, 17, &[0; 8]);
        prop_assert_eq!(ip_options(&frame, &parsed(&frame)), bits_of(&all, &IP_KINDS));
    }

    #[test]
    fn tcp_options_are_found_wherever_they_stand(
        before in options(&[137, 7], 20),
        all in options(&[2, 3, 4, 5, 8, 11, 12, 13], 38),
        data in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let mut bytes = encoded(&all);
        bytes.extend([0, 2]);
        let ip = encoded(&before);
        let frame = v4(&ip, 6, &tcp(&bytes, &data));
        let packet = parsed(&frame);
        prop_assert_eq!(tcp_options(&frame, &packet), bits_of(&all, &TCP_KINDS));
        prop_assert_eq!(tcp_data_len(&frame, &packet) as usize, data.len());
        let mss = all.iter().position(|(kind, value)| *kind == 2 && value.len() == 2).map(|at| {
            let place = 34 + ip.len().div_ceil(4) * 4 + 20 + encoded(&all[..at]).len() + 2;
            (u16::from_be_bytes([all[at].1[0], all[at].1[1]]), place)
        });
        prop_assert_eq!(tcp_mss(&frame, &packet), mss);
        let words = [4, 8, 12].map(|at| tcp_word(&frame, &packet, at));
        prop_assert_eq!(&words[..2], &[0x0102_0304, 0x0506_0708]);
        prop_assert_eq!(words[2] & 0xffff, 0x1234);
    }
}

#[test]
fn options_that_do_not_fit_end_the_list() {
    for (bytes, seen) in [
        (&[7, 4, 0, 0, 68, 5][..], 4),
        (&[7, 4, 0, 0, 68, 4, 0, 0], 12),
        (&[7, 4, 0, 0, 68, 1, 137, 3], 4),
        (&[7, 0, 137, 3], 0),
        (&[7, 2, 137, 2], 5),
        (&[7, 2, 0, 137], 4),
        (&[1, 1, 1, 7], 0),
    ] {
        let frame = v4(bytes, 17, &[0; 8]);
        assert_eq!(ip_options(&frame, &parsed(&frame)), seen, "{bytes:?}");
    }
    let plain = v4(&[], 17, &[0; 8]);
    assert_eq!(ip_options(&plain, &parsed(&plain)), 0);
    assert_eq!((tcp_options(&plain, &parsed(&plain)), tcp_mss(&plain, &parsed(&plain))), (0, None));
}

#[test]
fn what_follows_the_packet_in_its_frame_is_no_option() {
    let mut header = tcp(&[], &[]);
    // The header claims 60 bytes, of which the packet has 24.
    header[12] = 0xf0;
    header.extend([1, 1, 1, 1]);
    let mut frame = v4(&[], 6, &header);
    frame.extend([2, 4, 5, 180]);
    let packet = parsed(&frame);
    assert_eq!((tcp_options(&frame, &packet), tcp_mss(&frame, &packet)), (0, None));
    assert_eq!(tcp_data_len(&frame, &packet), 0);
}

/// An IPv6 frame with extension headers, each with its protocol number and the bytes after its
/// next-header field.
fn v6(first_word: u32, chain: &[(u8, Vec<u8>)], proto: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    frame.extend(first_word.to_be_bytes());
    let len: usize = chain.iter().map(|(_, bytes)| bytes.len() + 1).sum();
    frame.extend(((len + payload.len()) as u16).to_be_bytes());
    let numbers: Vec<u8> = chain.iter().map(|one| one.0).chain([proto]).collect();
    frame.extend([numbers[0], 63]);
    frame.extend((0x2001_0db8_u128 << 96 | 1).to_be_bytes());
    frame.extend((0x2001_0db8_u128 << 96 | 2).to_be_bytes());
    for ((_, bytes), next) in chain.iter().zip(&numbers[1..]) {
        frame.push(*next);
        frame.extend(bytes);
    }
    frame.extend(payload);
    frame
}

/// Returns an extension header of `8 + 8 * len` bytes with `kind` as its third byte.
fn units_of_8(number: u8, len: u8, kind: u8) -> (u8, Vec<u8>) {
    let mut bytes = vec![0; 7 + 8 * usize::from(len)];
    (bytes[0], bytes[1]) = (len, kind);
    (number, bytes)
}

/// Returns an authentication header. Its length field is the number of 4-byte words minus two.
fn authentication(len: u8) -> (u8, Vec<u8>) {
    let mut bytes = vec![0; 7 + 4 * usize::from(len)];
    bytes[0] = len;
    (51, bytes)
}

#[test]
fn every_ipv6_extension_header_has_its_bit_and_ports_follow_them() {
    let udp = [3, 232, 0, 53, 0, 8, 0, 0];
    let headers = [
        (units_of_8(0, 0, 1), 0x02),
        (units_of_8(0, 2, 1), 0x02),
        (units_of_8(60, 1, 1), 0x20),
        (units_of_8(43, 2, 0), 0x44),
        (units_of_8(43, 0, 2), 0x84),
        (units_of_8(43, 1, 4), 0x04),
        (authentication(4), 0x08),
        (authentication(2), 0x08),
        ((44, vec![0, 0, 0, 0, 0, 0, 9]), 0x01),
    ];
    let ports = |frame: &[u8]| (parsed(frame).src_port, parsed(frame).dst_port);
    for (header, bit) in &headers {
        let frame = v6(0x6000_0000, core::slice::from_ref(header), 17, &udp);
        assert_eq!((parsed(&frame).extensions, ports(&frame)), (*bit, (1000, 53)), "{header:?}");
        assert_eq!((parsed(&frame).proto, parsed(&frame).later_fragment), (17, false));
    }
    let chain: Vec<_> = [1, 5, 6, 8, 2].map(|at| headers[at].0.clone()).into();
    let frame = v6(0x6000_0000, &chain, 17, &udp);
    assert_eq!(
        (parsed(&frame).extensions, ports(&frame)),
        (0x02 | 0x04 | 0x08 | 0x01 | 0x20, (1000, 53))
    );
    let bare = v6(0x6000_0000, &[], 17, &udp);
    assert_eq!((parsed(&bare).extensions, ports(&bare)), (0, (1000, 53)));
    let esp = v6(0x6000_0000, &[], 50, &udp);
    assert_eq!((parsed(&esp).extensions, parsed(&esp).has_ports), (0x10, false));
}

#[test]
fn an_ipv6_extension_header_is_found_behind_any_other_of_any_length() {
    let padded = |(number, bytes): (u8, Vec<u8>)| {
        // Fills the bytes after the first 8, which contain neither a length nor a type nor a next
        // header.
        let padding = |at: usize, byte: u8| if at < 7 { byte } else { 0x3c };
        (number, bytes.iter().enumerate().map(|(at, &byte)| padding(at, byte)).collect())
    };
    let mut headers: Vec<((u8, Vec<u8>), u8)> = Vec::new();
    for len in [0, 1, 2, 5] {
        headers.push((padded(units_of_8(0, len, 1)), 0x02));
        headers.push((padded(units_of_8(60, len, 1)), 0x20));
        headers.push((padded(units_of_8(43, len, 0)), 0x44));
        headers.push((padded(units_of_8(43, len, 2)), 0x84));
        headers.push((padded(units_of_8(43, len, 4)), 0x04));
        // The mobility header (RFC 6275) sets no bit in `extensions`.
        headers.push((padded(units_of_8(135, len, 1)), 0));
        headers.push((padded(authentication(len.max(1))), 0x08));
    }
    headers.push(((44, vec![0, 0, 0, 0, 0, 0, 9]), 0x01));
    for (first, bit) in &headers {
        for (second, other) in &headers {
            let frame = v6(0x6000_0000, &[first.clone(), second.clone()], 59, &[]);
            assert_eq!(parsed(&frame).extensions, bit | other, "{first:?} {second:?}");
        }
    }
}

#[test]
fn tcp_options_end_where_the_header_does() {
    // The bytes after the header look like another option.
    let segment = tcp(&[1, 1, 1, 1], &[2, 4, 5, 180, 4, 2, 1, 1]);
    let frame = v4(&[], 6, &segment);
    assert_eq!(tcp_options(&frame, &parsed(&frame)), 0);
    assert_eq!(tcp_mss(&frame, &parsed(&frame)), None);
    assert_eq!(tcp_data_len(&frame, &parsed(&frame)), 8);
}

#[test]
fn fields_of_ipv6_are_where_its_header_has_them() {
    let frame = v6(0x6a5b_cdef, &[], 58, &[128, 3, 0, 0]);
    let packet = parsed(&frame);
    assert_eq!((packet.version, packet.tos, packet.flow_label), (IpFamily::V6, 0xa5, 0xb_cdef));
    assert_eq!((packet.dscp(), packet.ttl, packet.icmp), (0xa5 >> 2, 63, (128, 3)));
    assert_eq!((packet.src >> 96, packet.src as u32, packet.dst as u32), (0x2001_0db8, 1, 2));
    assert_eq!((packet.l3, packet.l4, packet.end), (14, 54, 58));
    assert_eq!((packet.ip_len, packet.counted_len, packet.ethertype), (44, 44, 0x86dd));
    let flow = packet.flow();
    assert_eq!((flow.is_v6, flow.src, flow.dst, flow.proto), (true, packet.src, packet.dst, 58));
}

#[test]
fn a_transport_header_is_whole_or_the_packet_is_malformed() {
    for (proto, need) in [(6, 20), (17, 8), (136, 8), (132, 12), (1, 8)] {
        let mut header = tcp(&[], &[]);
        header.truncate(need);
        assert!(PacketHeaders::parse(&v4(&[], proto, &header)).is_ok(), "{proto}");
        header.pop();
        let short = PacketHeaders::parse(&v4(&[], proto, &header));
        assert_eq!(short, Err(MalformedReason::ShortTransport), "{proto}");
    }
    // Rules do not test ICMP in IPv6, or ICMPv6 in IPv4.
    for frame in [v4(&[], 58, &[]), v6(0x6000_0000, &[], 1, &[])] {
        assert_eq!((parsed(&frame).icmp, parsed(&frame).has_ports), ((0, 0), false));
    }
    let mut offset = tcp(&[], &[]);
    for (words, fits) in [(4, false), (5, true), (6, true)] {
        offset[12] = words << 4;
        assert_eq!(PacketHeaders::parse(&v4(&[], 6, &offset)).is_ok(), fits, "{words} words");
    }
}

#[test]
fn multicast_is_a_group_of_ip_or_of_ethernet() {
    let to = |last: [u8; 4]| {
        let mut frame = v4(&[], 17, &[0; 8]);
        frame[30..34].copy_from_slice(&last);
        frame
    };
    for (dst, expected) in [
        ([223, 255, 255, 255], false),
        ([224, 0, 0, 0], true),
        ([255; 4], true),
        ([10, 0, 0, 1], false),
    ] {
        assert_eq!(parsed(&to(dst)).is_multicast(), expected, "{dst:?}");
    }
    let mut group = to([10, 0, 0, 1]);
    group[0] = 3;
    assert!(parsed(&group).is_multicast());
    let mut frame = v6(0x6000_0000, &[], 59, &[]);
    assert!(!parsed(&frame).is_multicast());
    frame[38] = 0xff;
    assert!(parsed(&frame).is_multicast());
}

#[test]
fn counters_of_malformed_frames_add_up() {
    let (mut one, mut other) = (MalformedCounters::default(), MalformedCounters::default());
    for (times, (reason, _)) in MalformedReason::ALL.into_iter().enumerate() {
        (0..times).for_each(|_| one.count(reason));
        other.count(reason);
    }
    one.add(&other);
    for (times, (reason, _)) in MalformedReason::ALL.into_iter().enumerate() {
        assert_eq!(one.of(reason), times as u64 + 1, "{reason:?}");
    }
    assert_eq!((one.total(), other.total()), (28 + 8, 8));
}
