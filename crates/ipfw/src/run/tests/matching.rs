//! Tests conditions at the limits of their fields.

use proptest::prelude::*;

use super::*;
use crate::run::matches::glob;

/// Returns whether a pattern matches. Tries every length for each `*`.
fn naive_glob(pattern: &[u8], name: &[u8]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return name.is_empty() };
    if *first == b'*' {
        return (0..=name.len()).any(|skipped| naive_glob(rest, &name[skipped..]));
    }
    let Some((byte, behind)) = name.split_first() else { return false };
    match first {
        b'?' => naive_glob(rest, behind),
        b'[' => {
            let Some(end) = rest.iter().position(|one| *one == b']') else { return false };
            in_class(&rest[..end], *byte) && naive_glob(&rest[end + 1..], behind)
        }
        literal => literal == byte && naive_glob(rest, behind),
    }
}

fn in_class(members: &[u8], byte: u8) -> bool {
    let is_negated = matches!(members.first(), Some(b'!' | b'^'));
    let members = &members[usize::from(is_negated)..];
    let (mut at, mut is_member) = (0, false);
    while at < members.len() {
        let is_range = at + 2 < members.len() && members[at + 1] == b'-';
        let last = if is_range { members[at + 2] } else { members[at] };
        is_member |= (members[at]..=last).contains(&byte);
        at += if is_range { 3 } else { 1 };
    }
    is_member != is_negated
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn globs_match_what_a_naive_search_matches(
        pattern in r"([abc*?]|\[[!^]?[abc-]{0,4}\]|\[){0,6}", name in "[abc-]{0,6}",
    ) {
        prop_assert_eq!(
            glob(pattern.as_bytes(), name.as_bytes()),
            naive_glob(pattern.as_bytes(), name.as_bytes()),
        );
    }
}

#[test]
fn icmp_types_are_single_bits_up_to_31() {
    let kind = |kind| {
        let mut frame = ping();
        frame[34] = kind;
        frame
    };
    for listed in [0, 1, 8, 31] {
        let mut fixture =
            Fixture::new(&format!("add 100 allow icmp from any to any icmptypes {listed}"));
        let hit: Vec<u8> = (0..=255).filter(|&one| fixture.passes(kind(one))).collect();
        assert_eq!(hit, [listed]);
    }
    // A later fragment has no ICMP type, so it does not match type 0.
    let mut fixture = Fixture::new("add 100 allow icmp from any to any icmptypes 0");
    assert!(!fixture.passes(v4_with(&kind(0), |ip| ip[7] = 10)));
    assert!(!fixture.passes(v4_with(&kind(0), |ip| ip[9] = 17)));
}

#[test]
fn icmp6_types_are_single_bits_up_to_255() {
    let kind = |kind| {
        let mut frame = ping6();
        frame[54] = kind;
        frame
    };
    for listed in [0, 1, 63, 64, 127, 128, 191, 192] {
        let rule = format!("add 100 allow ipv6-icmp from any to any icmp6types {listed}");
        let mut fixture = Fixture::new(&rule);
        let hit: Vec<u8> = (0..=255).filter(|&one| fixture.passes(kind(one))).collect();
        assert_eq!(hit, [listed]);
        assert!(!fixture.passes(ping()) && !fixture.passes(udp6()));
    }
}

#[test]
fn a_packet_without_a_field_has_no_value_0_in_it() {
    let tables = "table n create type number\ntable n add 0 1";
    let bodies = [
        "ip from any to any src-port 0-65535",
        "ip from any to any dst-port 0-65535",
        "lookup src-port n",
        "lookup dst-port n",
        "ip from any to any iplen 0-65535",
        "ip from any to any dscp 0",
        "lookup dscp n",
    ];
    assert_eq!(counted_by(tables, &bodies, udp_ports(0, 0)), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(counted_by(tables, &bodies, ping()), [4, 5, 6]);
    assert!(counted_by(tables, &bodies, arp()).is_empty());
}

#[test]
fn marks_and_tags_are_compared_with_what_a_table_says() {
    for plain in [false, true] {
        compare_marks_and_tags(plain);
    }
}

fn compare_marks_and_tags(plain: bool) {
    let mut fixture = Fixture::new(
        "table t create valtype tag,mark\ntable t add 10.0.0.1 5,0x70 10.0.0.2 6,0x71\n\
         add 10 count tag 5 ip from any to any\nadd 20 setmark 0x70 ip from any to any\n\
         add 100 count ip from table(t) to any tagged tablearg\n\
         add 200 count ip from table(t) to any mark tablearg\n\
         add 300 count ip from any to any mark 0x70:0xf0\n\
         add 400 count ip from any to any mark 0x70:0x70\n\
         add 500 count ip from any to any mark 0x1:0xf\n\
         add 600 count ip from any to any tagged 1-4\nadd 700 count ip from any to any tagged 6-9",
    );
    fixture.firewall.set_plain(plain);
    for last in [1, 2] {
        fixture.check(udp_from([10, 0, 0, last]));
    }
    let counted = [100, 200, 300, 400, 500, 600, 700].map(|number| fixture.count(number));
    assert_eq!(counted, [1, 1, 2, 2, 0, 0, 0]);
}

/// Returns the indices in `bodies` of the rules that count `frame`. Asserts that compiled rules and
/// rules that are evaluated one by one give the same result.
fn counted_by(tables: &str, bodies: &[&str], frame: Vec<u8>) -> Vec<usize> {
    let rules = bodies.iter().enumerate();
    let rules: Vec<_> = rules.map(|(at, body)| format!("add {} count {body}", 100 + at)).collect();
    let [compiled, plain] = [false, true].map(|plain| -> Vec<usize> {
        let mut fixture = Fixture::new(&format!("{tables}\n{}", rules.join("\n")));
        fixture.firewall.set_plain(plain);
        fixture.check(frame.clone());
        (0..bodies.len()).filter(|&at| fixture.count(100 + at as u16) == 1).collect()
    });
    assert_eq!(compiled, plain);
    compiled
}

#[test]
fn each_dscp_is_told_from_all_others() {
    for listed in [0, 10, 46, 63] {
        let body = format!("ip from any to any dscp {listed}");
        let of = |dscp: u8| v4_with(&udp(), |ip| ip[1] = dscp << 2 | 3);
        let hit = (0..64).filter(|&dscp| !counted_by("", &[&body], of(dscp)).is_empty());
        assert_eq!(hit.collect::<Vec<_>>(), [listed]);
    }
}

#[test]
fn proto_version_and_establishment_are_those_of_ip_and_tcp() {
    let bodies = [
        "tcp from any to any",
        "udp from any to any",
        "ip4 from any to any",
        "ip6 from any to any",
        "tcp from any to any established",
        "ip from any to any established",
        "ip from any to any ipver 6",
        "ip from any to any tcpoptions !mss",
    ];
    assert_eq!(counted_by("", &bodies, tcp(0x02)), [0, 2, 7]);
    assert_eq!(counted_by("", &bodies, tcp(0x12)), [0, 2, 4, 5, 7]);
    assert_eq!(counted_by("", &bodies, udp()), [1, 2]);
    assert_eq!(counted_by("", &bodies, udp6()), [1, 3, 6]);
    assert!(counted_by("", &bodies, arp()).is_empty());
}

#[test]
fn lookups_take_the_field_of_their_name_in_its_family() {
    let tables = "table s create\ntable s add 10.0.0.1 1 2001:db8::1 1\n\
                  table d create\ntable d add 10.1.0.1 1 2001:db8::2 1\n\
                  table p create type number\ntable p add 1000 1\n\
                  table q create type number\ntable q add 53 1\n\
                  table w create\ntable w add 10.0.0.0 1 2001:db8::2 1";
    let bodies = [
        "lookup src-ip s",
        "lookup src-ip4 s",
        "lookup src-ip6 s",
        "lookup dst-ip d",
        "lookup dst-ip4 d",
        "lookup dst-ip6 d",
        "lookup src-ip d",
        "lookup dst-ip s",
        "lookup src-port p",
        "lookup dst-port q",
        "lookup src-port q",
        "lookup dst-port p",
        "lookup src-ip4:255.255.255.0 w",
        "lookup dst-ip6:ffff:ffff::3 w",
        "lookup dst-ip6:ffff:ffff::1 w",
    ];
    assert_eq!(counted_by(tables, &bodies, udp()), [0, 1, 3, 4, 8, 9, 12]);
    assert_eq!(counted_by(tables, &bodies, udp6()), [0, 2, 3, 5, 8, 9, 13]);
    assert!(counted_by(tables, &bodies, arp()).is_empty());
    let later = v4_with(&udp(), |ip| ip[7] = 10);
    assert_eq!(counted_by(tables, &bodies, later), [0, 1, 3, 4, 12]);
}

#[test]
fn addresses_of_one_family_are_none_of_the_other() {
    // The lowest 32 bits of ::10.0.0.1 are those of 10.0.0.1.
    let mut v6 = udp6();
    v6[22..34].fill(0);
    v6[34..38].copy_from_slice(&A);
    let bodies = [
        "ip from 10.0.0.1 to any",
        "ip from 10.0.0.0/24{1} to any",
        "ip from ::a00:1 to any",
        "ip from table(t) to any",
        "ip from me to any",
        "ip from me6 to any",
        "ip from any to not 10.0.0.1",
    ];
    let table = "table t create\ntable t add 10.0.0.1 1";
    assert_eq!(counted_by(table, &bodies, udp()), [0, 1, 3, 6]);
    assert_eq!(counted_by(table, &bodies, v6.clone()), [2, 6]);
    for (me, frame, expected) in [
        ("10.0.0.1", udp(), [true, false]),
        ("10.0.0.1", v6.clone(), [false, false]),
        ("::10.0.0.1", udp(), [false, false]),
        ("::10.0.0.1", v6, [true, true]),
    ] {
        for (who, wanted) in ["me", "me6"].into_iter().zip(expected) {
            let mut fixture = Fixture::new(&format!("add 100 allow ip from {who} to any"));
            fixture.firewall.set_me(vec![(me.parse().unwrap(), None)]);
            assert_eq!(fixture.passes(frame.clone()), wanted, "{who} {me}");
        }
    }
}

#[test]
fn numbers_of_tcp_are_those_of_segments_only() {
    let options = ["tcpwin 0-65535", "tcpdatalen 0-65535", "tcpseq 0", "tcpack 0", "tcpflags !syn"];
    for option in options {
        let body = format!("ip from any to any {option}");
        assert!(counted_by("", &[&body], udp()).is_empty(), "{option}");
        assert!(counted_by("", &[&body], v4_with(&tcp(2), |ip| ip[7] = 10)).is_empty(), "{option}");
    }
    let mut frame = tcp_seq(false, 0x10, 0x0102_0304, 0x0506_0708);
    frame[48..50].copy_from_slice(&[1, 0]);
    let bodies = [
        "ip from any to any tcpwin 256",
        "ip from any to any tcpwin 0-255",
        "ip from any to any tcpseq 16909060",
        "ip from any to any tcpack 84281096",
        "ip from any to any tcpseq 84281096",
        "ip from any to any tcpack 16909060",
    ];
    assert_eq!(counted_by("", &bodies, frame), [0, 2, 3]);
}

#[test]
fn precedence_tos_and_version_are_those_of_their_bits() {
    let tos = |tos| v4_with(&udp(), |ip| ip[1] = tos);
    for value in 0..8 {
        let body = format!("ip from any to any ipprecedence {value}");
        let hit: Vec<u8> = (0..8)
            .filter(|&one| !counted_by("", &[&body], tos(one << 5 | 0x1f)).is_empty())
            .collect();
        assert_eq!(hit, [value]);
    }
    let bodies =
        ["ip from any to any ipver 4", "ip from any to any ipver 6", "ip from any to any dscp be"];
    assert_eq!(counted_by("", &bodies, udp()), [0, 2]);
    assert_eq!(counted_by("", &bodies, udp6()), [1, 2]);
    assert!(counted_by("", &bodies, arp()).is_empty());
}

#[test]
fn fragment_flags_are_those_of_the_header() {
    let bodies = [
        "ip from any to any frag mf",
        "ip from any to any frag df",
        "ip from any to any frag rf",
        "ip from any to any frag offset",
    ];
    for (off, expected) in [
        (0x2000_u16, &[0][..]),
        (0x4000, &[1]),
        (0x8000, &[2]),
        (0x0010, &[3]),
        (0x2010, &[0, 3]),
        (0, &[]),
    ] {
        let frame = v4_with(&udp(), |ip| ip[6..8].copy_from_slice(&off.to_be_bytes()));
        assert_eq!(counted_by("", &bodies, frame), expected, "{off:#x}");
    }
    assert!(counted_by("", &bodies, arp()).is_empty());
}
