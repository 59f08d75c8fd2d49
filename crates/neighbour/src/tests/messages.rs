//! Tests of messages byte by byte, as the RFCs show them.

use super::*;
use crate::arp::{ArpError, ArpOperation, ArpPacket};
use crate::nd::{self, NdError, NdFlags, NdKind, NdMessage};
use crate::{SnoopedAddress, group};
use core::net::Ipv6Addr;
use proptest::prelude::*;
use std::vec;

/// RFC 826: a request from 10.0.0.1 (02:…:01) for the MAC address of 10.0.0.9.
const REQUEST: [u8; 28] =
    [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 9];

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Computes the Internet checksum in the simplest way: the one's complement of the one's complement
/// sum.
pub(super) fn slow_checksum(parts: &[&[u8]]) -> [u8; 2] {
    let bytes = parts.concat();
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Returns an IPv6 packet with this ICMPv6 message, whose checksum is set as RFC 4443, 2.3 defines
/// it.
pub(super) fn icmpv6(source: &str, to: &str, hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let (source, to) = (v6(source).octets(), v6(to).octets());
    let len = message.len() as u8;
    let mut message = message.to_vec();
    let pseudo = [0, 0, 0, len, 0, 0, 0, 58];
    let check = slow_checksum(&[&source, &to, &pseudo, &message]);
    message[2..4].copy_from_slice(&check);
    [&[0x60, 0, 0, 0, 0, len, 58, hop_limit][..], &source, &to, &message].concat()
}

/// Returns a neighbour solicitation or advertisement (RFC 4861, 4.3 and 4.4).
pub(super) fn neighbour(kind: u8, flags: u8, target: &str, options: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, flags, 0, 0, 0][..], &v6(target).octets(), options].concat()
}

pub(super) const SOURCE_MAC: [u8; 8] = [1, 1, 2, 0, 0, 0, 0, 9];
pub(super) const TARGET_MAC: [u8; 8] = [2, 1, 2, 0, 0, 0, 0, 9];

#[test]
fn an_arp_request_is_read_and_written_byte_for_byte() {
    let packet = ArpPacket::parse(&REQUEST).unwrap();
    assert_eq!(packet.operation, ArpOperation::Request);
    assert_eq!((packet.sender_mac, packet.sender), (mac(1), [10, 0, 0, 1].into()));
    assert_eq!(packet.target, core::net::Ipv4Addr::from([10, 0, 0, 9]));
    let frame = packet.frame(MacAddr::BROADCAST);
    assert_eq!(frame[..14], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6]);
    assert_eq!((&frame[14..42], frame.len()), (&REQUEST[..], 60));
    let reply = packet.reply(mac(9)).frame(mac(1));
    assert_eq!(
        reply[14..42],
        [0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]
    );
    // RFC 5227, 2.3: both sender and target are the announced address. The target's MAC address is
    // zero.
    let announced = ArpPacket::announcement(mac(1), [10, 0, 0, 1].into()).frame(mac(0));
    assert_eq!(
        announced[20..42],
        [0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]
    );
}

#[test]
fn arp_that_must_be_ignored_is_refused_by_name() {
    let edit = |at: usize, bytes: &[u8]| {
        let mut packet = REQUEST;
        packet[at..at + bytes.len()].copy_from_slice(bytes);
        ArpPacket::parse(&packet)
    };
    for (at, byte) in REQUEST[..6].iter().enumerate() {
        assert_eq!(edit(at, &[byte ^ 2]), Err(ArpError::Protocol), "byte {at}");
    }
    assert_eq!(edit(6, &[0, 3]), Err(ArpError::Operation(3)));
    let broadcast = MacAddr::BROADCAST;
    assert_eq!(edit(8, &broadcast.0), Err(ArpError::SenderMac(broadcast)));
    assert_eq!(edit(8, &[0; 6]), Err(ArpError::SenderMac(MacAddr::ZERO)));
    assert_eq!(edit(14, &[224, 0, 0, 1]), Err(ArpError::Sender([224, 0, 0, 1].into())));
    assert_eq!(ArpPacket::parse(&REQUEST[..27]), Err(ArpError::Truncated));
    assert!(edit(14, &[0; 4]).is_ok(), "a probe");
}

#[test]
fn groups_have_the_mac_addresses_of_their_rfcs() {
    for (address, bytes) in [
        ("224.0.0.1", [1, 0, 0x5e, 0, 0, 1]),
        ("239.255.1.2", [1, 0, 0x5e, 0x7f, 1, 2]),
        ("255.255.255.255", [0xff; 6]),
        ("ff02::1:ff00:9", [0x33, 0x33, 0xff, 0, 0, 9]),
        ("ff02::1", [0x33, 0x33, 0, 0, 0, 1]),
    ] {
        assert_eq!(group::mac(ip(address)), Some(MacAddr(bytes)), "{address}");
    }
    assert_eq!((group::mac(ip("10.0.0.1")), group::mac(ip("fe80::1"))), (None, None));
    assert_eq!(group::solicited_node(v6("2001:db8::a1:b2c3")), v6("ff02::1:ffa1:b2c3"));
}

#[test]
fn a_solicitation_is_read_and_written_byte_for_byte() {
    let message = neighbour(135, 0, "fd00::1", &SOURCE_MAC);
    let packet = icmpv6("fd00::9", "ff02::1:ff00:1", 255, &message);
    let read = NdMessage::parse(&packet).unwrap().unwrap();
    assert_eq!(read.kind, NdKind::Solicitation);
    assert_eq!((read.source, read.target, read.mac), (v6("fd00::9"), v6("fd00::1"), Some(mac(9))));
    let frame = nd::solicitation(mac(9), v6("fd00::9"), v6("fd00::1"), None);
    assert_eq!(frame[..14], [0x33, 0x33, 0xff, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd]);
    assert_eq!(frame[14..], packet);
    let probe = nd::solicitation(mac(9), v6("fd00::9"), v6("fd00::1"), Some(mac(1)));
    assert_eq!(probe[..6], mac(1).0);
    assert_eq!(probe[14..], icmpv6("fd00::9", "fd00::1", 255, &message));
}

#[test]
fn an_advertisement_is_read_and_written_byte_for_byte() {
    let message = neighbour(136, 0xe0, "fd00::9", &TARGET_MAC);
    let packet = icmpv6("fd00::9", "fd00::1", 255, &message);
    let flags = NdFlags { router: true, solicited: true, override_cache: true };
    let read = NdMessage::parse(&packet).unwrap().unwrap();
    assert_eq!((read.kind, read.mac), (NdKind::Advertisement(flags), Some(mac(9))));
    let frame = nd::advertisement(mac(9), v6("fd00::9"), Some((mac(1), v6("fd00::1"))), flags);
    assert_eq!((&frame[..6], &frame[14..]), (&mac(1).0[..], &packet[..]));
    let to_all = NdFlags { solicited: false, ..flags };
    let frame = nd::advertisement(mac(9), v6("fd00::9"), None, to_all);
    let message = neighbour(136, 0xa0, "fd00::9", &TARGET_MAC);
    assert_eq!(frame[14..], icmpv6("fd00::9", "ff02::1", 255, &message));
}

#[test]
fn messages_that_the_rfc_calls_invalid_are_refused_by_name() {
    let group = "ff02::1:ff00:1";
    let parse = |packet: Vec<u8>| NdMessage::parse(&packet).unwrap();
    let ask = |options: &[u8]| neighbour(135, 0, "fd00::1", options);
    let advert = |flags| neighbour(136, flags, "fd00::9", &TARGET_MAC);
    assert_eq!(parse(icmpv6("fd00::9", group, 254, &ask(&[]))), Err(NdError::HopLimit(254)));
    let mut coded = ask(&[]);
    coded[1] = 1;
    assert_eq!(parse(icmpv6("fd00::9", group, 255, &coded)), Err(NdError::Code(1)));
    let mut damaged = icmpv6("fd00::9", group, 255, &ask(&[]));
    damaged[60] ^= 1;
    assert_eq!(parse(damaged), Err(NdError::Checksum));
    for (options, why) in [
        (vec![1, 0, 2, 0, 0, 0, 0, 9], NdError::OptionLength),
        (vec![14, 2, 0, 0, 0, 0, 0, 0], NdError::Truncated),
        (vec![14], NdError::Truncated),
        (vec![1, 1, 1, 0, 0x5e, 0, 0, 9], NdError::Mac(MacAddr([1, 0, 0x5e, 0, 0, 9]))),
    ] {
        assert_eq!(parse(icmpv6("fd00::9", group, 255, &ask(&options))), Err(why), "{options:?}");
    }
    // An unknown option is skipped (RFC 4861, 7.1.1).
    let with_nonce = [&[14, 1, 1, 2, 3, 4, 5, 6][..], &SOURCE_MAC].concat();
    let read = parse(icmpv6("fd00::9", group, 255, &ask(&with_nonce))).unwrap();
    assert_eq!(read.mac, Some(mac(9)));
    // A solicitation without a source address must go to a solicited-node group and have no MAC
    // address.
    assert!(parse(icmpv6("::", group, 255, &ask(&[]))).is_ok());
    let unspecified = Err(NdError::Unspecified);
    assert_eq!(parse(icmpv6("::", group, 255, &ask(&SOURCE_MAC))), unspecified);
    assert_eq!(parse(icmpv6("::", "fd00::1", 255, &ask(&[]))), unspecified);
    let target = neighbour(135, 0, "ff02::5", &[]);
    assert_eq!(parse(icmpv6("fd00::9", group, 255, &target)), Err(NdError::Target(v6("ff02::5"))));
    assert_eq!(
        parse(icmpv6("fd00::9", "ff02::1", 255, &advert(0x60))),
        Err(NdError::SolicitedGroup)
    );
    assert!(parse(icmpv6("fd00::9", "ff02::1", 255, &advert(0x20))).is_ok());
    assert_eq!(
        parse(icmpv6("ff02::9", group, 255, &ask(&[]))),
        Err(NdError::Source(v6("ff02::9")))
    );
    let short = icmpv6("fd00::9", group, 255, &ask(&[])[..23]);
    assert_eq!(parse(short), Err(NdError::Truncated));
    assert_eq!(NdMessage::parse(&icmpv6("fd00::9", group, 255, &[134; 24])), None, "another type");
}

#[test]
fn a_bridge_hears_addresses_behind_tags_and_believes_only_valid_messages() {
    let ether = |tags: &[u8], kind: [u8; 2], payload: &[u8]| {
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9][..], tags, &kind, payload].concat()
    };
    let mut reply = REQUEST;
    reply[7] = 2;
    let advert = neighbour(136, 0x60, "fd00::9", &TARGET_MAC);
    let advert = icmpv6("fd00::9", "fd00::1", 255, &advert);
    for tags in [&[][..], &[0x81, 0, 0, 5], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5]] {
        let snooped = SnoopedAddress::of(&ether(tags, [8, 6], &reply)).unwrap();
        assert_eq!((snooped.address, snooped.mac), (ip("10.0.0.1"), mac(1)));
        let snooped = SnoopedAddress::of(&ether(tags, [0x86, 0xdd], &advert)).unwrap();
        assert_eq!((snooped.address, snooped.mac), (ip("fd00::9"), mac(9)));
    }
    let mut group = reply;
    group[8] = 1;
    let mut far = advert.clone();
    far[7] = 64;
    let mut probe = REQUEST;
    probe[14..18].fill(0);
    for frame in [
        ether(&[], [8, 6], &group),
        ether(&[], [8, 6], &probe),
        ether(&[], [0x86, 0xdd], &far),
        ether(&[], [8, 0], &advert),
    ] {
        assert_eq!(SnoopedAddress::of(&frame), None);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_parsing_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0..3) {
        let mut bytes = bytes;
        let start: &[u8] = match kind {
            0 => &[],
            1 => &[0, 1, 8, 0, 6, 4, 0],
            _ => &[0x60, 0, 0, 0, 0, 32, 58, 255],
        };
        bytes.splice(..0, start.iter().copied());
        let _ = ArpPacket::parse(&bytes);
        let _ = NdMessage::parse(&bytes);
        let _ = SnoopedAddress::of(&bytes);
    }

    #[test]
    fn what_is_written_is_read(octets in any::<[u8; 16]>(), flags in any::<[bool; 3]>()) {
        let target = Ipv6Addr::from(octets);
        prop_assume!(!target.is_multicast());
        let [router, solicited, override_cache] = flags;
        let flags = NdFlags { router, solicited, override_cache };
        let to = Some((mac(1), v6("fd00::1")));
        let frame = nd::advertisement(mac(9), target, to, flags);
        let read = NdMessage::parse(&frame[14..]).unwrap().unwrap();
        prop_assert_eq!((read.kind, read.target), (NdKind::Advertisement(flags), target));
        prop_assert_eq!(read.mac, Some(mac(9)));
    }
}
