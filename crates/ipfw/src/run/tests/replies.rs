//! Tests of the answers of `reject`, `unreach` and `reset`, and of log lines.

use super::*;
use crate::packet::{PacketHeaders, options};
use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::{self, Sum};

fn answer(rules: &str, frame: Vec<u8>) -> Option<Vec<u8>> {
    let mut fixture = Fixture::new(rules);
    assert_eq!(fixture.check(frame), RuleVerdict::Deny(DenyReason::Rule));
    assert!(fixture.outputs.frames.len() < 2);
    let emission = fixture.outputs.frames.pop()?;
    assert_eq!(emission.target, EmissionTarget::Port(0));
    Some(emission.frame)
}

#[test]
fn unreach_port_answers_with_an_icmp_error_that_quotes_the_packet() {
    let rules = "table 1 create\ntable 1 add 10.1.0.1 1\nadd 100 unreach port tcp from any to any lookup dst-ip 1";
    let question = tcp(2);
    let frame = answer(rules, question.clone()).unwrap();
    let packet = PacketHeaders::parse(&frame).unwrap();
    assert_eq!(packet.icmp, (3, 3));
    assert_eq!(
        (packet.src as u32, packet.dst as u32),
        (u32::from_be_bytes(B), u32::from_be_bytes(A))
    );
    assert_eq!(packet.dst_mac(), MacAddr([2, 0, 0, 0, 0, 1]));
    assert_eq!((checksum::of(&frame[14..34]), checksum::of(&frame[34..])), (0, 0));
    assert_eq!(frame[42..], question[14..42]);
}

#[test]
fn reject_says_host_and_needfrag_tells_the_mtu() {
    let frame = answer("add 100 reject ip from any to any", udp()).unwrap();
    assert_eq!(frame[34..36], [3, 1]);
    let frame = answer("add 100 unreach needfrag 1400 ip from any to any", udp()).unwrap();
    assert_eq!((&frame[34..36], &frame[40..42]), (&[3, 4][..], &1400_u16.to_be_bytes()[..]));
}

#[test]
fn ipv6_gets_icmpv6() {
    for (rule, expected) in [
        ("unreach6 admin-prohib", [1, 1]),
        ("reject", [1, 3]),
        ("unreach port", [1, 4]),
        ("unreach needfrag 1280", [2, 0]),
    ] {
        let frame = answer(&format!("add 100 {rule} ip from any to any"), udp6()).unwrap();
        let packet = PacketHeaders::parse(&frame).unwrap();
        assert_eq!([packet.icmp.0, packet.icmp.1], expected);
        let sum = Sum::pseudo_v6(
            packet.src.into(),
            packet.dst.into(),
            IpProto::ICMPV6,
            (frame.len() - 54) as u32,
        );
        assert_eq!(sum.bytes(&frame[54..]).checksum(), 0);
    }
}

#[test]
fn reset_answers_a_syn_and_acknowledges_it() {
    let frame = answer("add 100 reset tcp from any to any", tcp_seq(false, 2, 1000, 0)).unwrap();
    let packet = PacketHeaders::parse(&frame).unwrap();
    // The acknowledged length is the SYN, plus six bytes of padding, which the IP header counts as
    // data.
    let data = options::tcp_data_len(&tcp(2), &PacketHeaders::parse(&tcp(2)).unwrap());
    assert_eq!((packet.src_port, packet.dst_port, packet.tcp_flags), (80, 1000, 0x14));
    assert_eq!(options::tcp_word(&frame, &packet, 8), 1001 + data);
    let sum = Sum::pseudo_v4(B.into(), A.into(), IpProto::TCP, 20);
    assert_eq!(sum.bytes(&frame[34..]).checksum(), 0);
}

#[test]
fn reset_takes_its_number_from_an_acknowledgement() {
    let frame =
        answer("add 100 reset tcp from any to any", tcp_seq(false, 0x10, 1000, 777)).unwrap();
    let packet = PacketHeaders::parse(&frame).unwrap();
    assert_eq!((packet.tcp_flags, options::tcp_word(&frame, &packet, 4)), (0x04, 777));
}

#[test]
fn resets_errors_groups_and_later_fragments_get_no_answer() {
    assert!(answer("add 100 reset ip from any to any", tcp(4)).is_none());
    assert!(answer("add 100 reset ip from any to any", udp()).is_none());
    let error = answer("add 100 reject ip from any to any", udp()).unwrap();
    assert!(answer("add 100 reject ip from any to any", error).is_none());
    let group = bytes(&spec(A, [224, 0, 0, 1], L4Spec::Udp(PortPair::default())));
    assert!(answer("add 100 reject ip from any to any", group).is_none());
    let mut broadcast = udp();
    broadcast[..6].fill(0xff);
    assert!(answer("add 100 reject ip from any to any", broadcast).is_none());
    let later = v4_with(&udp(), |ip| ip[7] = 10);
    assert!(answer("add 100 reject ip from any to any", later).is_none());
    assert!(answer("add 100 reject ip from any to any", arp()).is_none());
    assert!(answer("add 100 reset6 ip from any to any", tcp(2)).is_none());
}

#[test]
fn abort_answers_sctp_with_its_tag() {
    let mut frame = v4_with(&udp(), |ip| ip[9] = 132);
    frame[38..42].copy_from_slice(&[1, 2, 3, 4]);
    let frame = answer("add 100 abort ip from any to any", frame).unwrap();
    assert_eq!((&frame[38..42], &frame[46..50]), (&[1, 2, 3, 4][..], &[6, 1, 0, 4][..]));
}

#[test]
fn answers_keep_the_tags_of_the_question() {
    use slipring_wire::assigned::VlanTag;
    let mut tagged = spec(A, B, L4Spec::Udp(PortPair::default()));
    tagged.tags = vec![VlanTag::new(5, 0).into()];
    let frame = answer("add 100 reject ip from any to any", bytes(&tagged)).unwrap();
    assert_eq!(PacketHeaders::parse(&frame).unwrap().tags[0].unwrap().vid(), 5);
}

#[test]
fn nothing_is_answered_to_what_is_no_host() {
    for first in [0, 127, 224, 240, 255] {
        let odd = |frame: Vec<u8>| v4_with(&frame, |ip| ip[12] = first);
        for (rule, frame) in [("reject ip", odd(udp())), ("reset tcp", odd(tcp(2)))] {
            let rule = format!("add 100 {rule} from any to any");
            assert_eq!(answer(&rule, frame), None, "{first} {rule}");
        }
    }
    let loopback = Ipv6Addr::LOCALHOST.octets();
    for source in [loopback, [0xff; 16], [0; 16]] {
        let mut frame = udp6();
        frame[22..38].copy_from_slice(&source);
        assert_eq!(answer("add 100 reject ip from any to any", frame), None, "{source:?}");
    }
}

#[test]
fn of_icmp_only_questions_are_answered() {
    let kind = |kind| {
        let mut frame = ping();
        frame[34] = kind;
        answer("add 100 reject ip from any to any", frame).is_some()
    };
    let answered: Vec<u8> = (0..=18).filter(|&it| kind(it)).collect();
    assert_eq!(answered, [8, 10, 13, 15, 17]);
    let kind6 = |kind| {
        let mut frame = udp6();
        (frame[20], frame[54]) = (58, kind);
        answer("add 100 unreach6 admin-prohib ip6 from any to any", frame).is_some()
    };
    let answered: Vec<u8> = (0..=255).filter(|&it| kind6(it)).collect();
    assert_eq!(answered, [128, 130, 139]);
}

#[test]
fn icmp_errors_are_limited_for_each_sender_and_resets_are_not() {
    let mut fixture =
        Fixture::new("add 100 reset tcp from any to any\nadd 200 reject ip from any to any");
    let mut answers = |frame: Vec<u8>| {
        (0..300).for_each(|_| drop(fixture.check(frame.clone())));
        (core::mem::take(&mut fixture.outputs.frames).len(), fixture.firewall.suppressed_errors())
    };
    assert_eq!(answers(udp()), (100, 200));
    assert_eq!(answers(tcp(2)), (300, 200));
    // A different sender has its own limit.
    assert_eq!(answers(udp6()), (100, 400));
}

fn lines(fixture: &mut Fixture) -> Vec<String> {
    core::mem::take(&mut fixture.outputs.log).into_iter().map(|event| event.line).collect()
}

#[test]
fn log_lines_tell_rule_action_packet_and_port() {
    let mut fixture = Fixture::new(
        "enable verbose\nadd 100 count log udp from any to any\nadd 200 deny log ip from any to any",
    );
    [udp(), ping(), tcp(2), udp6(), arp()].into_iter().for_each(|frame| drop(fixture.check(frame)));
    assert_eq!(
        lines(&mut fixture),
        [
            "ipfw: 100 Count UDP 10.0.0.1:1000 10.1.0.1:53 in via em0",
            "ipfw: 200 Deny UDP 10.0.0.1:1000 10.1.0.1:53 in via em0",
            "ipfw: 200 Deny ICMP:8.0 10.0.0.1 10.1.0.1 in via em0",
            "ipfw: 200 Deny TCP 10.0.0.1:1000 10.1.0.1:80 in via em0",
            "ipfw: 100 Count UDP [2001:db8::1]:1000 [2001:db8::2]:53 in via em0",
            "ipfw: 200 Deny UDP [2001:db8::1]:1000 [2001:db8::2]:53 in via em0",
            "ipfw: 200 Deny MAC 02:00:00:00:00:01 ff:ff:ff:ff:ff:ff type 0x0806 in via em0",
        ]
    );
    fixture.check(v4_with(&udp(), |ip| {
        ip[5] = 9;
        ip[6] = 0x20;
        ip[7] = 10;
    }));
    assert!(lines(&mut fixture)[0].ends_with("in via em0 (frag 9:26@80+)"));
}

#[test]
fn log_lines_name_the_action_and_the_fragment() {
    let actions = [
        ("reject", "Reject"),
        ("unreach host", "Reject"),
        ("unreach net", "Unreach 0"),
        ("unreach port", "Unreach 3"),
        ("reset", "Reset"),
    ];
    for (action, verb) in actions {
        let mut fixture = Fixture::new(&format!("add 100 {action} log ip from any to any"));
        fixture.check(udp());
        let what = "UDP 10.0.0.1:1000 10.1.0.1:53 in via em0";
        assert_eq!(lines(&mut fixture), [format!("ipfw: 100 {verb} {what}")]);
    }
    let mut fixture = Fixture::new("add 100 deny log ip from any to any");
    for (flags, offset, end) in [
        (0x20, 0, " (frag 9:26@0+)"),
        (0x20, 10, " (frag 9:26@80+)"),
        (0, 10, " (frag 9:26@80)"),
        (0x40, 0, "em0"),
    ] {
        fixture.check(v4_with(&udp(), |ip| (ip[5], ip[6], ip[7]) = (9, flags, offset)));
        let line = &lines(&mut fixture)[0];
        assert!(line.ends_with(end), "{line}");
    }
}

#[test]
fn answers_of_one_family_are_for_packets_of_that_family() {
    let tcp6 = || {
        let ports = PortPair { src: 1000, dst: 80 };
        v6(L4Spec::Tcp(TcpSpec { ports, flags: 2, seq: 1, ..Default::default() }), 0)
    };
    assert!(answer("add 100 reset6 ip from any to any", tcp6()).is_some());
    assert!(answer("add 100 reset6 ip from any to any", tcp(2)).is_none());
    assert!(answer("add 100 reset ip from any to any", tcp(2)).is_some());
    let mut sctp6 = v6(L4Spec::Udp(PortPair { src: 1000, dst: 53 }), 0);
    sctp6.extend([0; 4]);
    (sctp6[19], sctp6[20]) = (12, 132);
    assert!(answer("add 100 abort6 ip from any to any", sctp6).is_some());
    let sctp = v4_with(&udp(), |ip| ip[9] = 132);
    assert!(answer("add 100 abort6 ip from any to any", sctp.clone()).is_none());
    assert!(answer("add 100 abort ip from any to any", sctp).is_some());
}

#[test]
fn a_next_hop_of_a_table_is_of_the_family_of_the_packet() {
    let mut fixture = Fixture::new(
        "table t create valtype ipv4,ipv6\ntable t add 10.0.0.1 192.0.2.7,2001:db8::7\n\
         table t add 2001:db8::1 192.0.2.8,2001:db8::8\n\
         add 100 fwd tablearg ip from table(t) to any",
    );
    let v4 = RuleVerdict::Forward(crate::rule::NextHop::V4([192, 0, 2, 7].into(), 0));
    assert_eq!(fixture.check(udp()), v4);
    let v6 = RuleVerdict::Forward(crate::rule::NextHop::V6("2001:db8::8".parse().unwrap(), 0));
    assert_eq!(fixture.check(udp6()), v6);
}

#[test]
fn next_hops_that_are_addresses_are_known_as_such() {
    for (action, is_address) in [
        ("fwd 192.0.2.1", true),
        ("fwd 2001:db8::1", true),
        ("fwd tablearg", true),
        ("fwd port:em1", false),
        ("allow", false),
    ] {
        let fixture = Fixture::new(&format!("add 100 {action} ip from any to any"));
        let entry = &fixture.firewall.config().list.entries[0];
        assert_eq!(entry.rule.action.forwards_to_address(), is_address, "{action}");
    }
}

#[test]
fn logging_stops_at_its_budget_until_resetlog() {
    let mut fixture = Fixture::new("add 100 count log logamount 2 ip from any to any");
    (0..5).for_each(|_| drop(fixture.check(udp())));
    let logged = lines(&mut fixture);
    assert_eq!((logged.len(), logged[2].as_str()), (3, "ipfw: limit 2 reached on entry 100"));
    assert_eq!(fixture.run("resetlog"), "Logging counts reset.\n");
    fixture.check(udp());
    assert_eq!((lines(&mut fixture).len(), fixture.count(100)), (1, 6));
}

#[test]
fn lines_that_nobody_would_read_are_counted_and_not_made() {
    let mut fixture = Fixture::new(
        "add 100 count log logamount 2 ip from any to any\n\
         add 200 count log logdst syslog ip from any to any",
    );
    fixture.outputs.is_watched = false;
    (0..5).for_each(|_| drop(fixture.check(udp())));
    assert_eq!(
        (lines(&mut fixture).len(), fixture.outputs.unseen),
        (5, 3),
        "the log is read always"
    );
}

#[test]
fn the_default_budget_is_verbose_limit() {
    let mut fixture = Fixture::new("sysctl net.inet.ip.fw.verbose_limit=1");
    fixture.run("add 100 count log ip from any to any");
    assert_eq!(fixture.run("list 100"), "00100 count log logamount 1 ip from any to any\n");
    (0..5).for_each(|_| drop(fixture.check(udp())));
    assert_eq!(lines(&mut fixture).len(), 2);
}

#[test]
fn where_lines_go_is_the_rules_choice_or_verbose() {
    let mut fixture = Fixture::new(
        "add 100 count log logdst rtsock ip from any to any\nadd 200 count log ip from any to any",
    );
    fixture.check(udp());
    let to: Vec<_> = fixture
        .outputs
        .log
        .iter()
        .map(|event| (event.to.syslog, event.to.ipfw0, event.to.rtsock))
        .collect();
    assert_eq!(to, [(false, false, true), (false, true, false)]);
}

#[test]
fn every_code_of_unreach_has_its_icmp_and_icmp6_form() {
    // Codes of RFC 4443, 3.1: no route 0, prohibited 1, address 3, port 4.
    for (name, code, code6) in [
        ("net", 0, 0),
        ("host", 1, 3),
        ("protocol", 2, 0),
        ("port", 3, 4),
        ("srcfail", 5, 0),
        ("net-unknown", 6, 0),
        ("host-unknown", 7, 3),
        ("isolated", 8, 0),
        ("net-prohib", 9, 1),
        ("host-prohib", 10, 1),
        ("tosnet", 11, 0),
        ("toshost", 12, 0),
        ("filter-prohib", 13, 1),
        ("host-precedence", 14, 0),
        ("precedence-cutoff", 15, 0),
    ] {
        let rule = format!("add 100 unreach {name} ip from any to any");
        assert_eq!(answer(&rule, udp()).unwrap()[34..36], [3, code], "{name}");
        assert_eq!(answer(&rule, udp6()).unwrap()[54..56], [1, code6], "{name}");
    }
    // `unreach6` applies to IPv6 packets only.
    assert!(answer("add 100 unreach6 port ip from any to any", udp()).is_none());
    assert_eq!(answer("add 100 unreach6 port ip from any to any", udp6()).unwrap()[54..56], [1, 4]);
}

#[test]
fn a_reset_acknowledges_syn_fin_and_each_byte_of_data() {
    let data = options::tcp_data_len(&tcp(2), &PacketHeaders::parse(&tcp(2)).unwrap());
    for (flags, units) in [(0x00, 0), (0x02, 1), (0x01, 1), (0x03, 2), (0x0a, 1), (0x08, 0)] {
        let frame = tcp_seq(false, flags, u32::MAX, 5);
        let frame = answer("add 100 reset tcp from any to any", frame).unwrap();
        let packet = PacketHeaders::parse(&frame).unwrap();
        assert_eq!((packet.tcp_flags, options::tcp_word(&frame, &packet, 4)), (0x14, 0));
        assert_eq!(
            options::tcp_word(&frame, &packet, 8),
            (data + units).wrapping_sub(1),
            "{flags}"
        );
    }
}

#[test]
fn an_abort_has_its_checksum_and_answers_no_abort() {
    let sctp = |chunk| {
        let mut frame = v4_with(&udp(), |ip| ip[9] = 132);
        (frame[34], frame[37], frame[46]) = (0, 9, chunk);
        frame[38..42].copy_from_slice(&[1, 2, 3, 4]);
        frame
    };
    let rule = "add 100 abort ip from any to any";
    let mut frame = answer(rule, sctp(1)).unwrap();
    let sent: [u8; 4] = frame[42..46].try_into().unwrap();
    frame[42..46].fill(0);
    assert_eq!(u32::from_le_bytes(sent), crc32c_by_division(&frame[34..50]));
    assert_eq!((frame[34..38].to_vec(), frame.len()), (vec![0, 9, frame[36], frame[37]], 50));
    assert_eq!(crc32c_by_division(b"123456789"), 0xe306_9283);
    assert!(answer(rule, sctp(6)).is_none());
    assert!(answer(rule, udp()).is_none() && answer(rule, tcp(2)).is_none());
}

/// Computes CRC32c by bitwise division: the remainder of the bit-reversed message by the polynomial
/// 0x1edc6f41 (RFC 9260, appendix A).
fn crc32c_by_division(message: &[u8]) -> u32 {
    let bits = message.iter().flat_map(|byte| (0..8).map(move |at| byte >> at & 1));
    let remainder = bits.fold(u32::MAX, |register, bit| {
        let is_set = register >> 31 != u32::from(bit);
        register << 1 ^ if is_set { 0x1edc_6f41 } else { 0 }
    });
    !remainder.reverse_bits()
}
