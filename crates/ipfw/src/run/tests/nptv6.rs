//! Tests of `nptv6`: how long an instance keeps its counters, and errors of ICMPv6 (RFC 4443) that
//! quote a translated packet.

use super::nat::{PREFIXES, v6_between};
use super::*;

const SENT: (&str, &str) = ("2001:db8:0:1::7", "2001:db8:ffff::1");

fn first_counter(fixture: &mut Fixture) -> String {
    let stats = fixture.run("nptv6 home stats");
    stats.lines().nth(1).unwrap().trim().into()
}

#[test]
fn an_instance_keeps_its_counters_while_other_things_change_and_a_new_one_starts_at_0() {
    let mut fixture = Fixture::new(PREFIXES);
    assert!(fixture.passes(v6_between(SENT.0, SENT.1)));
    fixture.load("add 300 count ip from any to any\nnat 1 config ip 203.0.113.9");
    assert_eq!(first_counter(&mut fixture), "1 packets translated (internal to external)");
    let (create, rule) = PREFIXES.split_once('\n').unwrap();
    fixture.load(&format!("delete 100\nnptv6 home destroy\n{create}\n{rule}\ndelete 200"));
    assert_eq!(first_counter(&mut fixture), "0 packets translated (internal to external)");
}

/// Builds an ICMPv6 message whose body quotes an IPv6 packet.
fn quoting(kind: u8, ends: (&str, &str), quoted: &[u8]) -> Vec<u8> {
    let mut frame = v6_between(ends.0, ends.1)[..54].to_vec();
    frame[20] = 58;
    frame[18..20].copy_from_slice(&(8 + quoted.len() as u16).to_be_bytes());
    frame.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
    frame.extend(quoted);
    frame
}

/// Returns the source address of the IPv6 packet that a message quotes.
fn quoted_source(message: &[u8]) -> Ipv6Addr {
    Ipv6Addr::from(<[u8; 16]>::try_from(&message[62 + 8..62 + 24]).unwrap())
}

#[test]
fn errors_from_outside_quote_the_address_that_the_sender_knows() {
    for (kind, is_error) in [(1, true), (3, true), (128, false)] {
        let mut fixture = Fixture::new(PREFIXES);
        let mut out = v6_between(SENT.0, SENT.1);
        fixture.cross(&mut out, &mut PacketMetadata::incoming(0));
        let outside = Ipv6Addr::from(<[u8; 16]>::try_from(&out[22..38]).unwrap());
        let mut message = quoting(kind, ("2001:db8:eeee::1", &outside.to_string()), &out[14..]);
        fixture.cross(&mut message, &mut PacketMetadata::incoming(1));
        assert_eq!(message[38..54], SENT.0.parse::<Ipv6Addr>().unwrap().octets());
        let seen = if is_error { SENT.0.parse().unwrap() } else { outside };
        assert_eq!(quoted_source(&message), seen, "type {kind}");
    }
}

#[test]
fn what_only_looks_like_a_quotation_is_left_alone() {
    let mut fixture = Fixture::new(PREFIXES);
    let mut out = v6_between(SENT.0, SENT.1);
    fixture.cross(&mut out, &mut PacketMetadata::incoming(0));
    let outside = Ipv6Addr::from(<[u8; 16]>::try_from(&out[22..38]).unwrap());
    let mut message = quoting(1, ("2001:db8:eeee::1", &outside.to_string()), &out[14..]);
    message[20] = 17;
    fixture.cross(&mut message, &mut PacketMetadata::incoming(1));
    assert_eq!(quoted_source(&message), outside, "bytes of a datagram");
}

#[test]
fn a_file_that_fails_resets_no_counters() {
    let mut fixture = Fixture::new(PREFIXES);
    assert!(fixture.passes(v6_between(SENT.0, SENT.1)));
    fixture.firewall.load("nptv6 home stats reset\ndelete 999", 0).unwrap_err();
    assert_eq!(first_counter(&mut fixture), "1 packets translated (internal to external)");
}
