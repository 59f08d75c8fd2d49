use alloc::vec::Vec;

use proptest::prelude::*;
use slipring_wire::FrameSpec;
use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::Sum;
use slipring_wire::frame::{EchoKind, EchoSpec, IpSpec, Ipv6Spec, L4Spec, PortPair};

use super::*;

fn prefixes(internal: &str, external: &str, len: u8) -> Nptv6Prefixes {
    Nptv6Prefixes::new(internal.parse().unwrap(), external.parse().unwrap(), len).unwrap()
}

fn packet(src: Ipv6Addr, dst: Ipv6Addr, l4: L4Spec) -> Vec<u8> {
    let ip = IpSpec::V6(Ipv6Spec { src, dst, ..Default::default() });
    let spec = FrameSpec { ip, l4, ..Default::default() };
    spec.build(spec.header_len() + 9).unwrap().bytes[14..].to_vec()
}

fn udp(src: &str, dst: &str) -> Vec<u8> {
    let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
    packet(src, dst, L4Spec::Udp(PortPair { src: 1, dst: 2 }))
}

fn ends(packet: &[u8]) -> [Ipv6Addr; 2] {
    [SRC_OFFSET, DST_OFFSET].map(|at| address(words(packet, at).unwrap()))
}

/// Returns whether the transport checksum is right.
fn is_valid(packet: &[u8]) -> bool {
    let [src, dst] = ends(packet);
    let proto = IpProto(packet[6]);
    let l4 = &packet[HEADER_LEN..];
    Sum::pseudo_v6(src, dst, proto, l4.len() as u32).bytes(l4).checksum() == 0
}

#[test]
fn the_example_of_the_standard_comes_out_as_printed() {
    // This is the example in RFC 6296, 3.6.
    let prefixes = prefixes("fd01:203:405::", "2001:db8:1::", 48);
    let mut packet = udp("fd01:203:405:1::1234", "2001:db8:ffff::1");
    assert_eq!(prefixes.translate(&mut packet, None), Nptv6Outcome::Out);
    assert_eq!(ends(&packet)[0], "2001:db8:1:d550::1234".parse::<Ipv6Addr>().unwrap());
    assert!(is_valid(&packet));
}

#[test]
fn answers_come_back_to_the_host_that_asked() {
    let prefixes = prefixes("fd01:203:405::", "2001:db8:1::", 48);
    let mut answer = udp("2001:db8:ffff::1", "2001:db8:1:d550::1234");
    assert_eq!(prefixes.translate(&mut answer, None), Nptv6Outcome::In);
    assert_eq!(ends(&answer)[1], "fd01:203:405:1::1234".parse::<Ipv6Addr>().unwrap());
}

#[test]
fn long_prefixes_change_the_interface_identifier() {
    let prefixes = prefixes("fd01:203:405:7::", "2001:db8:1:2::", 64);
    let mut packet = udp("fd01:203:405:7:ffff::1", "2001:db8:ffff::1");
    assert_eq!(prefixes.translate(&mut packet, None), Nptv6Outcome::Out);
    let words = ends(&packet)[0].segments();
    assert_eq!((words[3], words[4]), (2, 0xffff), "a word of ones is passed over");
    assert_ne!(words[5], 0);
    assert!(is_valid(&packet));
}

#[test]
fn an_address_without_a_word_to_change_is_dropped() {
    let short = prefixes("fd01:203:405::", "2001:db8:1::", 48);
    let mut packet = udp("fd01:203:405:ffff::1", "2001:db8:ffff::1");
    let before = packet.clone();
    assert_eq!(short.translate(&mut packet, None), Nptv6Outcome::Dropped);
    let long = prefixes("fd01:203:405:7::", "2001:db8:1:2::", 64);
    let mut all = udp("fd01:203:405:7:ffff:ffff:ffff:ffff", "2001:db8:ffff::1");
    assert_eq!(long.translate(&mut all, None), Nptv6Outcome::Dropped);
    assert_eq!(packet, before);
}

#[test]
fn others_and_neighbours_are_left_alone() {
    let prefixes = prefixes("fd01:203:405::", "2001:db8:1::", 48);
    let foreign = [("fd02::1", "2001:db8:2::1"), ("fd01:203:405:1::1", "fd01:203:405:2::1")];
    for (src, dst) in foreign {
        let mut packet = udp(src, dst);
        assert_eq!(prefixes.translate(&mut packet, None), Nptv6Outcome::Untouched);
        assert_eq!(packet, udp(src, dst));
    }
}

#[test]
fn the_packet_that_an_error_quotes_is_translated_too() {
    let prefixes = prefixes("fd01:203:405::", "2001:db8:1::", 48);
    let asked = udp("fd01:203:405:1::1234", "2001:db8:ffff::1");
    let mut seen = asked.clone();
    prefixes.translate(&mut seen, None);
    let mut error = message(1, ends(&seen)[0], &seen);
    assert_eq!(prefixes.translate(&mut error, Some(40)), Nptv6Outcome::In);
    assert_eq!(error[48..], asked[..]);
}

/// An ICMPv6 message of type `kind` for `to`, with `content` after its header.
fn message(kind: u8, to: Ipv6Addr, content: &[u8]) -> Vec<u8> {
    let echo = L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 0, seq: 0 });
    let mut message = packet("2001:db8:eeee::1".parse().unwrap(), to, echo)[..48].to_vec();
    message[40] = kind;
    message.extend_from_slice(content);
    message
}

#[test]
fn only_a_complete_header_that_an_error_quotes_is_translated() {
    const LAST_ERROR: u8 = 127;
    const ECHO_REQUEST: u8 = 128;
    let prefixes = prefixes("fd01:203:405::", "2001:db8:1::", 48);
    let asked = udp("fd01:203:405:1::1234", "2001:db8:ffff::1");
    let mut seen = asked.clone();
    prefixes.translate(&mut seen, None);
    let content = |kind: u8, quoted: &[u8]| {
        let mut message = message(kind, ends(&seen)[0], quoted);
        assert_eq!(prefixes.translate(&mut message, Some(40)), Nptv6Outcome::In);
        message[48..].to_vec()
    };
    assert_eq!(content(LAST_ERROR, &seen[..40]), asked[..40]);
    assert_eq!(content(ECHO_REQUEST, &seen), seen, "the payload of a ping");
    for len in 0..40 {
        assert_eq!(content(1, &seen[..len]), seen[..len], "{len} bytes are quoted");
    }
    let other_version = [&[0x45], &seen[1..]].concat();
    assert_eq!(content(1, &other_version), other_version);
}

#[test]
fn a_packet_without_a_complete_header_is_dropped() {
    let prefixes = prefixes("fd01:203:405::", "2001:db8:1::", 48);
    let packet = udp("fd01:203:405:1::1234", "2001:db8:ffff::1");
    for len in [0, 23, 39] {
        let mut cut = packet[..len].to_vec();
        assert_eq!(prefixes.translate(&mut cut, None), Nptv6Outcome::Dropped);
    }
    assert_eq!(prefixes.translate(&mut packet[..40].to_vec(), None), Nptv6Outcome::Out);
}

#[test]
fn prefixes_are_given_back_without_the_bits_of_hosts() {
    let prefixes = prefixes("fd01:203:405:6::7", "2001:db8:1:2::3", 48);
    let given = (prefixes.internal(), prefixes.external(), prefixes.len());
    assert_eq!(given, ("fd01:203:405::".parse().unwrap(), "2001:db8:1::".parse().unwrap(), 48));
}

#[test]
fn counters_count_outcomes_and_add_up() {
    use Nptv6Outcome::{Dropped, In, Out, Untouched};
    let mut counters = Nptv6Counters::default();
    for outcome in [Out, In, In, Dropped, Dropped, Dropped, Untouched] {
        counters.count(outcome);
    }
    assert_eq!(counters, Nptv6Counters { out: 1, inwards: 2, dropped: 3 });
    counters.add(&counters.clone());
    assert_eq!(counters, Nptv6Counters { out: 2, inwards: 4, dropped: 6 });
}

#[test]
fn lengths_beyond_8_to_64_are_refused() {
    let any = Ipv6Addr::UNSPECIFIED;
    for len in [0, 7, 65, 128] {
        assert_eq!(Nptv6Prefixes::new(any, any, len), Err(PrefixLengthError(len)));
    }
    let written = "a prefix of 7 bits: nptv6 translates prefixes of 8 to 64";
    assert_eq!(alloc::string::ToString::to_string(&PrefixLengthError(7)), written);
}

proptest! {
    #[test]
    fn there_and_back_gives_the_original_and_checksums_stay_valid(
        internal in any::<u128>(),
        external in any::<u128>(),
        host in any::<u128>(),
        len in 8..=64_u8,
        far in any::<u128>(),
    ) {
        let made = Nptv6Prefixes::new(internal.into(), external.into(), len).unwrap();
        let mask = u128::MAX >> len;
        let src = Ipv6Addr::from_bits(made.internal().to_bits() | host & mask);
        prop_assume!(made.internal() != made.external());
        let original = packet(src, far.into(), L4Spec::Udp(PortPair { src: 1, dst: 2 }));
        let mut translated = original.clone();
        if made.translate(&mut translated, None) == Nptv6Outcome::Out {
            prop_assert!(is_valid(&translated));
            let [src, dst] = ends(&translated);
            let mut answer = packet(dst, src, L4Spec::Udp(PortPair { src: 2, dst: 1 }));
            prop_assume!(made.translate(&mut answer, None) == Nptv6Outcome::In);
            let back = ends(&answer)[1];
            // In one's complement, 0 and 0xffff represent the same number (RFC 6296, 3.1).
            let place = |address: Ipv6Addr| address.segments().map(|it| if it == 0xffff { 0 } else { it });
            prop_assert_eq!(place(back), place(ends(&original)[0]));
        }
    }
}
