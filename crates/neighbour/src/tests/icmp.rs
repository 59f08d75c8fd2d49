//! Tests of ICMP errors: their bytes, the cases in which they must not be sent, and their limits.

use super::messages::slow_checksum;
use super::*;
use crate::icmp::{
    IcmpLimit, IcmpLimiter, IcmpLimits, IcmpMessage, IcmpProblem, IcmpSilence, OffendingPacket,
    QuoteLength,
};
use proptest::prelude::*;
use std::vec;

const TOO_LATE: IcmpMessage = IcmpProblem::TimeExceeded.message(false);

/// Returns a frame with a UDP packet that has `len` payload bytes. `edit` can change the IPv4
/// header before its checksum is computed.
fn frame_v4(len: usize, edit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let total = ((28 + len) as u16).to_be_bytes();
    let mut ip = vec![0x45, 0, total[0], total[1], 0, 7, 0, 0, 1, 17, 0, 0];
    ip.extend([10, 1, 0, 2, 10, 3, 0, 2]);
    edit(&mut ip);
    let check = slow_checksum(&[&ip]);
    ip[10..12].copy_from_slice(&check);
    let udp = [&[4, 0, 0, 53, 0, 8, 0, 0][..], &vec![0xaa; len]].concat();
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0][..], &ip, &udp].concat()
}

fn frame_v6(len: usize, edit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let payload = ((8 + len) as u16).to_be_bytes();
    let mut ip = vec![0x60, 0, 0, 0, payload[0], payload[1], 17, 1];
    for address in ["fd01::2", "fd03::2"] {
        let IpAddr::V6(address) = ip_of(address) else { panic!("IPv6") };
        ip.extend(address.octets());
    }
    edit(&mut ip);
    let udp = [&[4, 0, 0, 53, 0, 8, 0, 0][..], &vec![0xaa; len]].concat();
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd][..], &ip, &udp].concat()
}

fn ip_of(text: &str) -> IpAddr {
    ip(text)
}

fn answer(frame: &[u8], message: IcmpMessage) -> Result<(), IcmpSilence> {
    OffendingPacket::parse(frame).unwrap().may_answer(message)
}

#[test]
fn time_exceeded_quotes_the_packet_unchanged() {
    let mut frame = frame_v4(40, |_| ());
    frame.extend([0; 9]);
    let offending = OffendingPacket::parse(&frame).unwrap();
    assert_eq!((offending.source, offending.link_source()), (ip("10.1.0.2"), mac(9)));
    let error = offending.error(TOO_LATE, ip("10.1.0.1"), QuoteLength::Full).unwrap();
    // RFC 792: type 11, code 0. The whole packet fits, so it is quoted completely, but without the
    // padding of the frame.
    assert_eq!((error[0], error[9], &error[20..22]), (0x45, 1, &[11, 0][..]));
    assert_eq!(error[12..20], [10, 1, 0, 1, 10, 1, 0, 2]);
    assert_eq!(error[28..], frame[14..82]);
    assert_eq!(u16::from_be_bytes([error[2], error[3]]) as usize, error.len());
    assert_eq!((slow_checksum(&[&error[..20]]), slow_checksum(&[&error[20..]])), ([0; 2], [0; 2]));
    let short = offending.error(TOO_LATE, ip("10.1.0.1"), QuoteLength::Minimal).unwrap();
    assert_eq!(short[28..], frame[14..42]);
}

#[test]
fn errors_are_never_longer_than_576_and_1280_bytes() {
    let frame = frame_v4(1400, |_| ());
    let offending = OffendingPacket::parse(&frame).unwrap();
    let error = offending.error(TOO_LATE, ip("10.1.0.1"), QuoteLength::Full).unwrap();
    assert_eq!((error.len(), &error[28..]), (576, &frame[14..14 + 548]));
    let frame = frame_v6(1400, |_| ());
    let offending = OffendingPacket::parse(&frame).unwrap();
    let message = IcmpProblem::TooBig { mtu: 1400 }.message(true);
    let error = offending.error(message, ip("fd01::1"), QuoteLength::Full).unwrap();
    assert_eq!((error.len(), &error[48..]), (1280, &frame[14..14 + 1232]));
    // RFC 4443, 3.2: type 2, code 0, and the MTU. The checksum covers the pseudo header.
    assert_eq!((&error[40..42], &error[44..48]), (&[2, 0][..], &1400u32.to_be_bytes()[..]));
    let len = (error.len() - 40) as u16;
    let pseudo = [0, 0, len.to_be_bytes()[0], len.to_be_bytes()[1], 0, 0, 0, 58];
    assert_eq!(slow_checksum(&[&error[8..40], &pseudo, &error[40..]]), [0; 2]);
    assert_eq!(offending.error(message, ip("10.0.0.1"), QuoteLength::Full), None);
}

#[test]
fn problems_have_the_numbers_of_the_rfcs() {
    let tooth = IcmpProblem::TooBig { mtu: 1400 };
    for (problem, v4, v6) in [
        (IcmpProblem::NoRoute, (3, 0, 0), (1, 0, 0)),
        (IcmpProblem::HostUnreachable, (3, 1, 0), (1, 3, 0)),
        (IcmpProblem::Prohibited, (3, 13, 0), (1, 1, 0)),
        (IcmpProblem::PortUnreachable, (3, 3, 0), (1, 4, 0)),
        (tooth, (3, 4, 1400), (2, 0, 1400)),
        (IcmpProblem::TimeExceeded, (11, 0, 0), (3, 0, 0)),
    ] {
        for (is_v6, (kind, code, rest)) in [(false, v4), (true, v6)] {
            assert_eq!(problem.message(is_v6), IcmpMessage { kind, code, rest }, "{problem:?}");
        }
    }
    // RFC 1191: the field for the next-hop MTU has 16 bits.
    assert_eq!(IcmpProblem::TooBig { mtu: 100_000 }.message(false).rest, 0xffff);
}

#[test]
fn senders_are_not_told_where_rfc_1122_and_1812_forbid_it() {
    let cases: [(&str, Vec<u8>, Result<(), IcmpSilence>); 12] = [
        ("a packet", frame_v4(9, |_| ()), Ok(())),
        ("a first fragment", frame_v4(9, |ip| ip[6] = 0x20), Ok(())),
        ("a later fragment", frame_v4(9, |ip| ip[7] = 1), Err(IcmpSilence::LaterFragment)),
        ("a multicast", frame_v4(9, |ip| ip[16] = 224), Err(IcmpSilence::Group)),
        ("a broadcast", frame_v4(9, |ip| ip[16..20].fill(255)), Err(IcmpSilence::Group)),
        ("source 0/8", frame_v4(9, |ip| ip[12] = 0), Err(IcmpSilence::Source)),
        ("source 127/8", frame_v4(9, |ip| ip[12] = 127), Err(IcmpSilence::Source)),
        ("source class D", frame_v4(9, |ip| ip[12] = 224), Err(IcmpSilence::Source)),
        ("source class E", frame_v4(9, |ip| ip[12] = 240), Err(IcmpSilence::Source)),
        ("source broadcast", frame_v4(9, |ip| ip[12..16].fill(255)), Err(IcmpSilence::Source)),
        ("from :: ", frame_v6(9, |ip| ip[8..24].fill(0)), Err(IcmpSilence::Source)),
        ("to ff02::", frame_v6(9, |ip| ip[24..26].fill(255)), Err(IcmpSilence::Group)),
    ];
    for (what, frame, expected) in cases {
        assert_eq!(answer(&frame, TOO_LATE), expected, "{what}");
    }
    let mut broadcast = frame_v4(9, |_| ());
    broadcast[..6].fill(255);
    assert_eq!(answer(&broadcast, TOO_LATE), Err(IcmpSilence::LinkGroup));
    let mut odd = frame_v4(9, |_| ());
    odd[6] |= 1;
    assert_eq!(answer(&odd, TOO_LATE), Err(IcmpSilence::Source));
}

#[test]
fn icmp_errors_and_redirects_are_never_answered_and_queries_are() {
    for kind in 0..=255u8 {
        let mut frame = frame_v4(9, |ip| ip[9] = 1);
        frame[34] = kind;
        let expected = match kind {
            3 | 4 | 5 | 11 | 12 => Err(IcmpSilence::AboutError),
            _ => Ok(()),
        };
        assert_eq!(answer(&frame, TOO_LATE), expected, "ICMP type {kind}");
        let mut frame = frame_v6(9, |ip| ip[6] = 58);
        frame[54] = kind;
        let expected = match kind {
            0..128 | 137 => Err(IcmpSilence::AboutError),
            _ => Ok(()),
        };
        assert_eq!(answer(&frame, TOO_LATE), expected, "ICMPv6 type {kind}");
    }
}

#[test]
fn packet_too_big_and_unknown_options_are_told_about_groups_as_well() {
    let mut frame = frame_v6(9, |ip| ip[24..26].fill(255));
    frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 2]);
    let message = |kind, code| IcmpMessage { kind, code, rest: 0 };
    for (kind, code, expected) in [
        (2, 0, Ok(())),
        (4, 2, Ok(())),
        (4, 1, Err(IcmpSilence::LinkGroup)),
        (1, 0, Err(IcmpSilence::LinkGroup)),
        (3, 0, Err(IcmpSilence::LinkGroup)),
    ] {
        assert_eq!(answer(&frame, message(kind, code)), expected, "{kind}, {code}");
    }
    // In IPv4, ICMP type 2 is not "packet too big", so the exception does not apply: a packet to a
    // group is not answered.
    let frame = frame_v4(9, |ip| ip[16] = 224);
    assert_eq!(answer(&frame, message(2, 0)), Err(IcmpSilence::Group));
}

#[test]
fn what_is_no_ip_packet_has_no_error() {
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9, 8, 6], &[0; 46]].concat();
    assert!(OffendingPacket::parse(&arp).is_none());
    assert!(OffendingPacket::parse(&frame_v4(9, |_| ())[..30]).is_none());
    let mut tagged = frame_v4(9, |_| ());
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    assert_eq!(OffendingPacket::parse(&tagged).unwrap().source, ip("10.1.0.2"));
}

#[test]
fn one_destination_cannot_use_up_the_errors_of_others() {
    let mut limiter = IcmpLimiter::new(IcmpLimits::default(), 7);
    let flood = (0..10_000).filter(|_| limiter.allows(ip("10.1.0.2"), 0).is_ok()).count();
    assert_eq!(flood, 10, "its own burst");
    assert_eq!(limiter.suppressed(), 9_990);
    assert_eq!(limiter.allows(ip("10.1.0.3"), 0), Ok(()));
    // As in the example of RFC 4443, 2.4 f: after the burst, 10 errors per second may be sent.
    let later = (1..=3000).filter(|ms| limiter.allows(ip("10.1.0.2"), ms * 1_000_000).is_ok());
    assert_eq!(later.count(), 30);
}

#[test]
fn all_destinations_together_are_limited() {
    let mut limiter = IcmpLimiter::new(IcmpLimits::default(), 7);
    let mut to = |number: u32, now| limiter.allows(IpAddr::V4(number.into()), now);
    let at_once: Vec<_> = (0x0a00_0000..0x0a00_0100).map(|number| to(number, 0)).collect();
    assert_eq!(at_once.iter().filter(|sent| sent.is_ok()).count(), 50);
    assert!(at_once.contains(&Err(IcmpLimit::Total)));
    let second = (0..100_000u32).map(|n| to(0x0a01_0000 + n % 3000, u64::from(n) * 20_000));
    let sent = second.filter(Result::is_ok).count();
    assert!((1950..=2060).contains(&sent), "{sent} in two seconds");
}

#[test]
fn hosts_of_one_ipv6_subnet_share_a_limit() {
    let mut limiter = IcmpLimiter::new(IcmpLimits::default(), 7);
    let sent = (0..1000u128).filter(|host| {
        let address = IpAddr::V6((0xfd01u128 << 112 | host).into());
        limiter.allows(address, 0).is_ok()
    });
    assert_eq!(sent.count(), 10);
    let none = IcmpLimits { burst: 0, ..IcmpLimits::default() };
    assert_eq!(IcmpLimiter::new(none, 7).allows(ip("10.0.0.1"), 0), Err(IcmpLimit::Total));
}

proptest! {
    #[test]
    fn no_frame_makes_it_panic(which in 0..4, at in 0usize..80, byte: u8, cut in 0usize..100) {
        let mut frame = match which {
            0 => frame_v4(40, |_| ()),
            1 => frame_v4(40, |ip| ip[9] = 1),
            2 => frame_v6(40, |_| ()),
            _ => frame_v6(40, |ip| ip[6] = 58),
        };
        let at = at % frame.len();
        frame[at] = byte;
        frame.truncate(cut);
        let _ = crate::icmp::echo::reply(&frame, mac(1));
        if let Some(offending) = OffendingPacket::parse(&frame) {
            let _ = offending.may_answer(TOO_LATE);
            for own in ["10.1.0.1", "fd01::1"] {
                for quote in [QuoteLength::Minimal, QuoteLength::Full] {
                    let error = offending.error(TOO_LATE, ip(own), quote);
                    prop_assert!(error.is_none_or(|error| error.len() <= 1280));
                }
            }
        }
    }
}
