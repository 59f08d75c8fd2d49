//! Tests of the fields that rules can match.

use super::*;

/// Returns whether `frame` matches a rule with this body.
fn matches(body: &str, frame: &[u8]) -> bool {
    let mut fixture = Fixture::new(&format!("add 100 allow {body}"));
    let compiled = fixture.passes(frame.to_vec());
    fixture.firewall.set_plain(true);
    assert_eq!(fixture.passes(frame.to_vec()), compiled, "{body}");
    compiled
}

#[test]
fn or_blocks_match_any_of_their_members() {
    let body = "ip from { 1.2.3.4 or 2.3.4.5 } to any";
    assert!(matches(body, &udp_from([1, 2, 3, 4])) && matches(body, &udp_from([2, 3, 4, 5])));
    assert!(!matches(body, &udp_from([3, 3, 3, 3])));
}

#[test]
fn lists_of_ports_match_their_members_only() {
    let mut fixture = Fixture::new("add 100 allow ip from any to any 57-59,41");
    let hit: Vec<_> = (40..=60).filter(|&port| fixture.passes(udp_ports(9, port))).collect();
    assert_eq!(hit, [41, 57, 58, 59]);
    let mut fixture = Fixture::new("add 100 allow ip from any 57-59,41 to any");
    let hit: Vec<_> = (40..=60).filter(|&port| fixture.passes(udp_ports(port, 9))).collect();
    assert_eq!(hit, [41, 57, 58, 59]);
}

#[test]
fn a_set_of_hosts_matches_exactly_those() {
    let mut fixture = Fixture::new("add 100 allow ip from 1.2.3.0/24{128,35-55,89} to any");
    let hit: Vec<u8> =
        (0..=255).filter(|&last| fixture.passes(udp_from([1, 2, 3, last]))).collect();
    let expected: Vec<u8> = (35..=55).chain([89, 128]).collect();
    assert_eq!((hit.len(), hit), (23, expected));
    assert!(!fixture.passes(udp_from([1, 2, 4, 35])));
}

#[test]
fn established_is_anything_but_a_lone_syn() {
    for (flags, expected) in
        [(0x10, true), (0x04, true), (0x01, true), (0, true), (0x02, false), (0x12, true)]
    {
        assert_eq!(matches("tcp from any to any established", &tcp(flags)), expected, "{flags:#x}");
    }
    assert!(!matches("ip from any to any established", &udp()));
}

#[test]
fn setup_is_syn_without_ack() {
    for (flags, expected) in [(0x02, true), (0x12, false), (0x10, false), (0x06, true)] {
        assert_eq!(matches("tcp from any to any setup", &tcp(flags)), expected, "{flags:#x}");
    }
}

#[test]
fn header_fields_match_lists_and_ranges() {
    let long = bytes_of_len(1514);
    assert!(matches("ip from any to any iplen 0-64,1500", &udp()));
    assert!(matches("ip from any to any iplen 0-64,1500", &long));
    assert!(!matches("ip from any to any iplen 0-64,1500", &bytes_of_len(200)));
    let low_ttl = v4_with(&udp(), |ip| ip[8] = 3);
    assert!(
        matches("ip from any to any ipttl 1-5", &low_ttl)
            && !matches("ip from any to any ipttl 1-5", &udp())
    );
    let id = v4_with(&udp(), |ip| ip[5] = 7);
    assert!(
        matches("ip from any to any ipid 7", &id) && !matches("ip from any to any ipid 7", &udp())
    );
}

fn bytes_of_len(len: usize) -> Vec<u8> {
    spec(A, B, L4Spec::Udp(PortPair::default())).build(len).unwrap().bytes.to_vec()
}

#[test]
fn ttl_id_tos_and_precedence_are_those_of_ipv4_and_length_and_dscp_of_both_versions() {
    // Traffic class 0xa0 and hop limit 64, the fields that correspond to IPv4's type of service and
    // time to live.
    let mut v6 = udp6();
    (v6[14], v6[15]) = (0x6a, 0);
    let v4 = v4_with(&udp(), |ip| (ip[1], ip[8]) = (0xa0, 64));
    for option in ["ipttl 1-255", "ipid 0-65535", "iptos !mincost", "ipprecedence 5"] {
        let body = format!("ip from any to any {}", option);
        assert!(matches(&body, &v4) && !matches(&body, &v6), "{option}");
        // Repeats the test with a long list of compiled rules, which is searched by index.
        let others = "add count ip from 192.0.2.1 to any\n".repeat(8);
        let mut fixture = Fixture::new(&format!("{others}add 60000 allow {body}"));
        assert!(fixture.passes(v4.clone()) && !fixture.passes(v6.clone()), "{option}");
    }
    let v6_len = v6.len() - 14;
    for option in [format!("iplen {v6_len}"), "dscp 40".into()] {
        assert!(matches(&format!("ip from any to any {option}"), &v6), "{option}");
    }
    assert!(matches("ip from any to any dscp 40", &v4));
}

#[test]
fn type_of_service_bits_and_precedence() {
    let tos = |tos: u8| v4_with(&udp(), |ip| ip[1] = tos);
    let body = "ip from any to any iptos lowdelay,!congestion";
    assert!(matches(body, &tos(0x10)) && !matches(body, &tos(0x13)) && !matches(body, &tos(0)));
    assert!(matches("ip from any to any ipprecedence 5", &tos(0xa0)));
    assert!(!matches("ip from any to any ipprecedence 5", &tos(0x20)));
}

#[test]
fn flow_ids_of_ipv6() {
    let labelled = |label| v6(L4Spec::Udp(PortPair::default()), label);
    let mut fixture = Fixture::new(
        "add 100 allow ip6 from any to any flow-id 0xbaad\nadd 200 deny ip from any to any",
    );
    assert!(fixture.passes(labelled(0xbaad)) && !fixture.passes(labelled(0xf001)));
    assert_eq!((fixture.count(100), fixture.count(200)), (1, 1));
}

#[test]
fn setdscp_keeps_ecn_and_the_checksum() {
    let mut fixture =
        Fixture::new("add 100 setdscp 9 ip from any to any\nadd 200 allow ip from any to any");
    for (before, after) in [(0, 36), (3, 39)] {
        let mut frame = v4_with(&udp(), |ip| ip[1] = before);
        fixture.cross(&mut frame, &mut PacketMetadata::incoming(0));
        assert_eq!(frame[15], after);
        assert_eq!(slipring_wire::checksum::of(&frame[14..34]), 0);
    }
    let mut frame = udp6();
    fixture.cross(&mut frame, &mut PacketMetadata::incoming(0));
    assert_eq!(crate::packet::PacketHeaders::parse(&frame).unwrap().dscp(), 9);
}

#[test]
fn a_dscp_set_by_one_rule_is_seen_by_the_next() {
    let mut fixture = Fixture::new(
        "add 100 setdscp ef ip from any to any\nadd 200 allow ip from any to any dscp ef",
    );
    assert!(fixture.passes(udp()));
}

#[test]
fn mac_types_of_ipv4_and_ipv6_are_not_arp() {
    let body = "ip from any to any mac-type ipv4,0x86dd";
    assert!(matches(body, &udp()) && matches(body, &udp6()) && !matches(body, &arp()));
}

#[test]
fn ip_is_everything_and_ip4_is_not() {
    let mut fixture = Fixture::new(
        "add 100 count ip from any to any\nadd 200 count ip4 from any to any\nadd 300 count ip6 from any to any",
    );
    [arp(), udp(), udp6()].into_iter().for_each(|frame| drop(fixture.check(frame)));
    assert_eq!((fixture.count(100), fixture.count(200), fixture.count(300)), (3, 1, 1));
}

#[test]
fn bytes_count_ip_packets_without_ethernet_and_other_frames_whole() {
    let mut fixture = Fixture::new("add 100 count ip from any to any");
    let bytes_after = |fixture: &mut Fixture, frame| {
        let before = fixture.firewall.config().list.iter().next().unwrap().1.bytes;
        fixture.check(frame);
        fixture.firewall.config().list.iter().next().unwrap().1.bytes - before
    };
    assert_eq!(bytes_after(&mut fixture, bytes_of_len(64)), 50);
    assert_eq!(bytes_after(&mut fixture, arp()), 60);
    assert_eq!(bytes_after(&mut fixture, udp6()), udp6().len() as u64 - 14);
}

#[test]
fn in_out_recv_xmit_and_via_mean_ports() {
    let mut fixture = Fixture::new("");
    let mut ask = |body: &str, out: bool| {
        fixture.run("flush");
        fixture.run(&format!("add 100 allow {body}"));
        let mut crossing = PacketMetadata::incoming(0);
        if out {
            crossing = crossing.outgoing(1);
        }
        fixture.cross(&mut udp(), &mut crossing) == RuleVerdict::Accept
    };
    for (body, at_in, at_out) in [
        ("in", true, false),
        ("out", false, true),
        ("not in", false, true),
        ("recv em0", true, true),
        ("recv em1", false, false),
        ("xmit em1", false, true),
        ("xmit em0", false, false),
        ("via em0", true, false),
        ("via em1", false, true),
        ("via em*", true, true),
        ("via e?[0-1]", true, true),
        ("via em[!0]", false, true),
        ("recv any", true, true),
        ("xmit any", false, true),
        ("recv em0 xmit em1", false, true),
    ] {
        assert_eq!((ask(body, false), ask(body, true)), (at_in, at_out), "{body}");
    }
}

#[test]
fn me_is_what_the_engine_was_told() {
    let mut fixture =
        Fixture::new("add 100 allow ip from me to any\nadd 200 allow ip from any to me6");
    assert!(!fixture.passes(udp()));
    fixture.firewall.set_me(vec![(Ipv4Addr::from(A).into(), Some(0))]);
    assert!(fixture.passes(udp()) && !fixture.passes(udp_back()) && !fixture.passes(udp6()));
    fixture.firewall.set_me(vec![("2001:db8::2".parse().unwrap(), None)]);
    assert!(fixture.passes(udp6()));
}

#[test]
fn a_port_is_found_by_its_address() {
    let mut fixture = Fixture::new("add 100 allow recv 192.0.2.1");
    assert!(!fixture.passes(udp()));
    fixture.firewall.set_me(vec![(Ipv4Addr::new(192, 0, 2, 1).into(), Some(0))]);
    assert!(fixture.passes(udp()));
}

#[test]
fn every_frame_is_a_layer_2_frame_and_has_macs() {
    assert!(
        matches("layer2", &udp()) && matches("bridged", &arp()) && !matches("not layer2", &udp())
    );
    assert!(
        matches("MAC 02:00:00:00:00:02 any", &udp())
            && !matches("MAC any 02:00:00:00:00:02", &udp())
    );
    assert!(matches("MAC any 02:00:00:00:00:ff/40", &udp()));
    assert!(matches("MAC any 02:11:22:33:44:01&ff:00:00:00:00:ff", &udp()));
}

#[test]
fn tags_are_looked_through_and_can_be_asked_for() {
    use slipring_wire::assigned::VlanTag;
    let mut tagged = spec(A, B, L4Spec::Udp(PortPair { src: 1, dst: 53 }));
    tagged.tags = vec![VlanTag::new(100, 0).into(), VlanTag::new(7, 0).into()];
    let frame = bytes(&tagged);
    assert!(matches("udp from 10.0.0.1 to any 53", &frame));
    assert!(
        matches("vlan 90-110 inner-vlan 7", &frame)
            && !matches("vlan 7", &frame)
            && !matches("vlan 1-4095", &udp())
    );
}

#[test]
fn fragments_have_no_ports_and_frag_finds_them() {
    let frag = |off: u16| v4_with(&udp(), |ip| ip[6..8].copy_from_slice(&off.to_be_bytes()));
    assert!(
        matches("udp from any to any frag", &frag(10))
            && !matches("udp from any to any frag", &frag(0x2000))
    );
    assert!(matches("udp from any to any frag mf,!offset", &frag(0x2000)));
    assert!(matches("udp from any to any frag df", &udp()));
    assert!(
        !matches("udp from any to any 53", &frag(10))
            && matches("udp from any to any 53", &frag(0x2000))
    );
}

#[test]
fn icmp_types_of_both_versions() {
    assert!(
        matches("icmp from any to any icmptypes 0,8", &ping())
            && !matches("icmp from any to any icmptypes 3", &ping())
    );
    assert!(matches("ipv6-icmp from any to any icmp6types 128", &ping6()));
    assert!(!matches("ip from any to any icmptypes 8", &ping6()));
}

#[test]
fn tcp_numbers_match() {
    let frame = tcp_seq(false, 0x10, 7, 9);
    assert!(matches("tcp from any to any tcpseq 7 tcpack 9 tcpwin 65535", &frame));
    assert!(!matches("tcp from any to any tcpseq 8", &frame));
    assert!(matches("tcp from any to any tcpdatalen 0-20", &frame));
    assert!(matches("tcp from any to any tcpflags ack,!syn", &frame));
}

/// Builds a SYN with options: MSS 1460 at an odd offset, then SACK permitted.
fn syn_with_mss() -> Vec<u8> {
    let options = [1, 2, 4, 0x05, 0xb4, 4, 2, 0];
    let mut frame = spec(A, B, L4Spec::Tcp(TcpSpec { flags: 2, ..Default::default() }))
        .build(62)
        .unwrap()
        .bytes
        .to_vec();
    frame[54..62].copy_from_slice(&options);
    frame[46] = 0x70;
    fix_tcp_checksum(&mut frame);
    frame
}

fn tcp_checksum(frame: &[u8]) -> u16 {
    let len = (frame.len() - 34) as u32;
    let sum = slipring_wire::checksum::Sum::pseudo_v4(
        A.into(),
        B.into(),
        slipring_wire::assigned::IpProto::TCP,
        len,
    );
    sum.bytes(&frame[34..]).checksum()
}

fn fix_tcp_checksum(frame: &mut [u8]) {
    frame[50..52].fill(0);
    let sum = tcp_checksum(frame);
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn tcp_options_and_the_mss() {
    assert!(matches("tcp from any to any tcpoptions mss,sack,!ts tcpmss 1460", &syn_with_mss()));
    assert!(!matches("tcp from any to any tcpmss 0-1459", &syn_with_mss()));
}

#[test]
fn tcp_setmss_lowers_and_never_raises() {
    for (mss, expected) in [(1400, 1400_u16), (9000, 1460)] {
        let mut fixture = Fixture::new(&format!(
            "add 100 tcp-setmss {mss} tcp from any to any\nadd 200 allow ip from any to any"
        ));
        let mut frame = syn_with_mss();
        assert_eq!(
            fixture.cross(&mut frame, &mut PacketMetadata::incoming(0)),
            RuleVerdict::Accept
        );
        assert_eq!(u16::from_be_bytes([frame[57], frame[58]]), expected);
        assert_eq!(tcp_checksum(&frame), 0);
    }
}

#[test]
fn ip_options_of_a_header_that_has_some() {
    let mut frame = udp();
    frame.splice(34..34, [7, 4, 4, 0]);
    let frame = {
        let mut f = v4_with(&frame, |ip| {
            ip[0] = 0x46;
            let len = 50_u16;
            ip[2..4].copy_from_slice(&len.to_be_bytes());
        });
        f[24] = 0;
        f
    };
    assert!(matches("ip from any to any ipoptions rr,!ssrr", &frame));
    assert!(!matches("ip from any to any ipoptions ts", &frame));
    assert!(!matches("ip from any to any ipoptions rr", &udp()));
}

#[test]
fn not_turns_a_pattern_and_only_that_one() {
    assert!(
        !matches("ip from not 10.0.0.1 to any", &udp())
            && matches("ip from not 10.0.0.2 to any", &udp())
    );
    assert!(matches("ip from { not 10.0.0.1 or 10.0.0.1 } to any", &udp()));
    assert!(matches("udp from any to any not dst-port 54", &udp()));
    assert!(
        matches("not tcp from any to any", &udp()) && !matches("not udp from any to any", &udp())
    );
}

#[test]
fn ipv6_addresses_and_masks() {
    assert!(
        matches("ip6 from 2001:db8::/32 to any", &udp6())
            && !matches("ip6 from 2001:db9::/32 to any", &udp6())
    );
    assert!(
        matches("ip from ::1/::ffff to any", &udp6())
            && matches("ip from any to any dst-ip6 2001:db8::2", &udp6())
    );
    assert!(
        matches("ip from any to any ipver 6", &udp6())
            && !matches("ip from any to any ipver 4", &udp6())
    );
}

#[test]
fn ipv6_extension_headers() {
    let mut frame = udp6();
    let payload = frame.split_off(54);
    frame.extend([17, 0, 1, 4, 0, 0, 0, 0]);
    frame.extend(&payload);
    let len = (payload.len() + 8) as u16;
    frame[18..20].copy_from_slice(&len.to_be_bytes());
    frame[20] = 60;
    assert!(matches("udp from any to any 53 ext6hdr dstopt", &frame));
    assert!(!matches("ip6 from any to any ext6hdr frag,hopopt,route", &frame));
}

#[test]
fn congestion_is_marked_with_the_checksum_kept_right_and_only_in_ip() {
    let mut frame = udp();
    frame[15] = 0x4a;
    let before = frame.clone();
    mark_congestion(&mut frame);
    assert_eq!(frame[15], 0x4b);
    let sum = |frame: &[u8]| u16::from_be_bytes([frame[24], frame[25]]);
    assert_eq!(sum(&frame), sum(&before) - 1);
    let mut arp = udp();
    arp[12..14].copy_from_slice(&[8, 6]);
    let before = arp.clone();
    mark_congestion(&mut arp);
    assert_eq!(arp, before);
}

#[test]
fn an_mss_is_lowered_at_any_offset_with_the_checksum_kept_right() {
    for (options, at) in [
        ([2, 4, 0x05, 0xb4, 1, 1, 1, 0], 56),
        ([1, 2, 4, 0x05, 0xb4, 4, 2, 0], 57),
        ([4, 2, 2, 4, 0x05, 0xb4, 1, 0], 58),
        ([1, 4, 2, 2, 4, 0x05, 0xb4, 0], 59),
    ] {
        for (flags, mss, expected) in [
            (0x02, 536, 536_u16),
            (0x12, 1459, 1459),
            (0x02, 1460, 1460),
            (0x02, 1461, 1460),
            (0x10, 536, 1460),
        ] {
            let mut frame = syn_with_mss();
            frame[54..62].copy_from_slice(&options);
            frame[47] = flags;
            fix_tcp_checksum(&mut frame);
            let mut fixture = Fixture::new(&format!(
                "add 100 tcp-setmss {mss} tcp from any to any\nadd 200 allow ip from any to any"
            ));
            fixture.cross(&mut frame, &mut PacketMetadata::incoming(0));
            assert_eq!(u16::from_be_bytes([frame[at], frame[at + 1]]), expected, "{at} {flags}");
            assert_eq!(tcp_checksum(&frame), 0, "{at} {flags} {mss}");
        }
    }
}
