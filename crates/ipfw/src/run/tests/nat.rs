//! Tests of `nat` and `nptv6`: rules, instances and packets through both.

use super::*;

/// The address of the `nat` instance, on the outside port.
const OWN: [u8; 4] = [203, 0, 113, 9];

impl Fixture {
    /// Returns the verdict on a frame that leaves by em1, and the frame as it leaves.
    pub(super) fn goes_out(&mut self, mut frame: Vec<u8>) -> (RuleVerdict, Vec<u8>) {
        let mut crossing = PacketMetadata::incoming(0).outgoing(1);
        (self.cross(&mut frame, &mut crossing), frame)
    }

    /// Returns the verdict on a frame that comes in by em1, and the frame after the check.
    fn comes_in(&mut self, mut frame: Vec<u8>) -> (RuleVerdict, Vec<u8>) {
        (self.cross(&mut frame, &mut PacketMetadata::incoming(1)), frame)
    }
}

fn source(frame: &[u8]) -> ([u8; 4], u16) {
    let packet = crate::packet::PacketHeaders::parse(frame).unwrap();
    ((packet.src as u32).to_be_bytes(), packet.src_port)
}

fn target(frame: &[u8]) -> ([u8; 4], u16) {
    let packet = crate::packet::PacketHeaders::parse(frame).unwrap();
    ((packet.dst as u32).to_be_bytes(), packet.dst_port)
}

fn answer_to(port: u16) -> Vec<u8> {
    bytes(&spec(B, OWN, L4Spec::Udp(PortPair { src: 53, dst: port })))
}

/// Returns the reply as the client receives it: sent to the client's own MAC address.
fn answer_inside() -> Vec<u8> {
    let mut frame = udp_back();
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame
}

pub(super) const GATE: &str = "nat 1 config ip 203.0.113.9 same_ports deny_in\n\
    add 100 nat 1 ip from any to any via em1\nadd 200 allow ip from any to any";

#[test]
fn a_client_goes_out_by_the_address_of_the_instance_and_is_answered() {
    let mut fixture = Fixture::new(GATE);
    let (verdict, out) = fixture.goes_out(udp());
    assert_eq!((verdict, source(&out)), (RuleVerdict::Accept, (OWN, 1000)));
    let (verdict, back) = fixture.comes_in(answer_to(1000));
    assert_eq!((verdict, target(&back)), (RuleVerdict::Accept, (A, 1000)));
    assert_eq!(back, answer_inside(), "with right checksums");
    assert_eq!((fixture.count(100), fixture.count(200)), (2, 0), "one_pass accepts at once");
}

#[test]
fn an_answer_goes_to_the_mac_address_of_the_host_that_asked() {
    let mut fixture = Fixture::new(GATE);
    let from = |host: u8, port: u16| {
        let l4 = L4Spec::Udp(PortPair { src: port, dst: 53 });
        let src_mac = MacAddr([2, 0, 0, 0, 0, host]);
        bytes(&FrameSpec { src_mac, ..spec([10, 0, 0, host], B, l4) })
    };
    fixture.goes_out(from(5, 1005));
    fixture.goes_out(from(6, 1006));
    for host in [5, 6] {
        // The outside host uses one MAC address for both inside hosts. Here this address belongs to
        // neither of them.
        let (_, back) = fixture.comes_in(answer_to(1000 + u16::from(host)));
        assert_eq!(target(&back).0, [10, 0, 0, host]);
        assert_eq!(back[..6], [2, 0, 0, 0, 0, host]);
    }
}

#[test]
fn a_stranger_is_denied_and_counted() {
    let mut fixture = Fixture::new(GATE);
    let (verdict, frame) = fixture.comes_in(answer_to(1000));
    assert_eq!(verdict, RuleVerdict::Deny(DenyReason::Translation));
    assert_eq!(frame, answer_to(1000));
    let drops = fixture.firewall.drops();
    assert_eq!((drops.checked, drops.translation), (1, 1));
    assert_eq!(fixture.firewall.nat_instance(1).unwrap().counters().refused, 1);
}

#[test]
fn without_one_pass_later_rules_see_the_translated_packet() {
    for plain in [false, true] {
        let mut fixture = Fixture::new(
            "disable one_pass\nnat 1 config ip 203.0.113.9\n\
            add 100 nat 1 ip from any to any via em1\n\
            add 200 count ip from 203.0.113.9 to any out\nadd 300 count ip from 10.0.0.1 to any out\n\
            add 400 allow ip from any to any",
        );
        fixture.firewall.set_plain(plain);
        assert_eq!(fixture.goes_out(udp()).0, RuleVerdict::Accept);
        assert_eq!([200, 300, 400].map(|rule| fixture.count(rule)), [1, 0, 1]);
    }
}

#[test]
fn states_before_the_translator_see_addresses_inside() {
    let mut fixture = Fixture::new(
        "disable one_pass\nnat 1 config ip 203.0.113.9\n\
        add 100 nat 1 ip from any to any in recv em1\nadd 200 check-state\n\
        add 300 skipto 500 ip from 10.0.0.0/24 to any out xmit em1 keep-state\n\
        add 400 deny ip from any to any\nadd 500 nat 1 ip from any to any out\n\
        add 600 allow ip from any to any",
    );
    let (verdict, out) = fixture.goes_out(udp());
    assert_eq!(verdict, RuleVerdict::Accept);
    let (_, port) = source(&out);
    assert_eq!(fixture.comes_in(answer_to(port)), (RuleVerdict::Accept, answer_inside()));
    assert_eq!(fixture.comes_in(answer_to(port ^ 1)).0, RuleVerdict::Deny(DenyReason::Rule));
}

#[test]
fn a_missing_instance_denies() {
    let mut fixture =
        Fixture::new("add 100 nat 5 ip from any to any\nadd 200 allow ip from any to any");
    assert_eq!(fixture.check(udp()), RuleVerdict::Deny(DenyReason::Translation));
    fixture.run("nat 5 config ip 203.0.113.9");
    assert_eq!(fixture.check(udp()), RuleVerdict::Accept);
    fixture.run("nat 5 delete");
    assert_eq!(fixture.check(udp()), RuleVerdict::Deny(DenyReason::Translation));
}

#[test]
fn what_is_no_ipv4_goes_on_at_the_next_rule() {
    let mut fixture = Fixture::new(
        "nat 1 config ip 203.0.113.9\nadd 100 nat 1 ip from any to any\n\
        add 200 deny mac-type arp\nadd 300 allow ip from any to any",
    );
    assert_eq!(fixture.check(arp()), RuleVerdict::Deny(DenyReason::Rule));
    assert_eq!(fixture.check(udp6()), RuleVerdict::Accept);
    assert_eq!((fixture.count(200), fixture.count(300)), (1, 1));
}

#[test]
fn tablearg_picks_the_instance() {
    let mut fixture = Fixture::new(
        "table 1 create valtype nat\ntable 1 add 10.0.0.1 7\n\
        nat 7 config ip 203.0.113.9\nadd 100 nat tablearg ip from table(1) to any\n\
        add 200 allow ip from any to any",
    );
    assert_eq!(source(&fixture.goes_out(udp()).1).0, OWN);
    assert_eq!(source(&fixture.goes_out(udp_from([10, 0, 0, 2])).1).0, [10, 0, 0, 2]);
}

#[test]
fn global_finds_the_flow_in_whichever_instance_and_makes_none() {
    let mut fixture = Fixture::new(
        "nat 1 config ip 203.0.113.8\nnat 2 config ip 203.0.113.9 same_ports\n\
        nat 3 config ip 203.0.113.9 skip_global redirect_port udp 10.0.0.3:53 53\n\
        add 100 nat global ip from any to any in\nadd 200 nat 2 ip from any to any out",
    );
    assert_eq!(fixture.comes_in(answer_to(1000)), (RuleVerdict::Accept, answer_to(1000)));
    assert_eq!(fixture.firewall.nat_instance(2).unwrap().flows().count(), 0);
    assert_eq!(fixture.goes_out(udp()).0, RuleVerdict::Accept);
    assert_eq!(target(&fixture.comes_in(answer_to(1000)).1), (A, 1000));
    assert_eq!(target(&fixture.comes_in(answer_to(53)).1), (OWN, 53), "skip_global");
}

#[test]
fn an_instance_takes_the_address_of_a_port() {
    let mut fixture = Fixture::new("nat 1 config if em1\nadd 100 nat 1 ip from any to any out");
    assert_eq!(fixture.goes_out(udp()).0, RuleVerdict::Deny(DenyReason::Translation));
    fixture
        .firewall
        .set_me(vec![(Ipv4Addr::from(A).into(), Some(0)), (Ipv4Addr::from(OWN).into(), Some(1))]);
    assert_eq!(source(&fixture.goes_out(udp()).1).0, OWN);
}

#[test]
fn an_instance_without_an_address_takes_the_first_of_the_machine() {
    let mut fixture = Fixture::new(
        "nat 1 config redirect_port udp 10.0.0.77:9 9\nadd 100 nat 1 ip from any to any out",
    );
    assert_eq!(fixture.goes_out(udp()).0, RuleVerdict::Deny(DenyReason::Translation));
    fixture.firewall.set_me(vec![
        ("2001:db8::9".parse().unwrap(), Some(1)),
        (Ipv4Addr::from(OWN).into(), None),
        (Ipv4Addr::from(A).into(), Some(0)),
    ]);
    assert_eq!(source(&fixture.goes_out(udp()).1).0, OWN);
}

#[test]
fn redirected_ports_reach_the_server_inside() {
    let mut fixture = Fixture::new(
        "nat 1 config ip 203.0.113.9 deny_in redirect_port udp 10.0.0.1:1000 53\n\
        add 100 nat 1 ip from any to any",
    );
    assert_eq!(target(&fixture.comes_in(answer_to(53)).1), (A, 1000));
    assert_eq!(fixture.goes_out(udp()).1[34..36], 53_u16.to_be_bytes());
}

#[test]
fn packets_put_together_are_translated_in_all_their_pieces() {
    let mut fixture = Fixture::new(
        "disable one_pass\nnat 1 config ip 203.0.113.9 same_ports\n\
        add 100 reass ip from any to any\nadd 200 nat 1 ip from any to any out\n\
        add 300 allow ip from 203.0.113.9 to any",
    );
    let whole =
        spec(A, B, L4Spec::Udp(PortPair { src: 1000, dst: 53 })).build(14 + 60).unwrap().bytes;
    let piece = |from: usize, to: usize, more: u8, offset: u8| {
        let frame = [&whole[..34], &whole[from..to]].concat();
        let len = (20 + to - from) as u8;
        v4_with(&frame, |ip| (ip[3], ip[5], ip[6], ip[7]) = (len, 9, more, offset))
    };
    let (verdict, _) = fixture.goes_out(piece(50, 74, 0, 2));
    assert_eq!(verdict, RuleVerdict::Held);
    let (verdict, first) = fixture.goes_out(piece(34, 50, 0x20, 0));
    assert_eq!(verdict, RuleVerdict::Accept);
    let later = &fixture.outputs.released[0];
    let together = [&first[..], &later[34..]].concat();
    let together = v4_with(&together, |ip| (ip[3], ip[5], ip[6], ip[7]) = (60, 0, 0x40, 0));
    let whole =
        spec(OWN, B, L4Spec::Udp(PortPair { src: 1000, dst: 53 })).build(14 + 60).unwrap().bytes;
    assert_eq!(together, v4_with(&whole, |ip| (ip[5], ip[6]) = (0, 0x40)));
    assert_eq!(slipring_wire::checksum::of(&later[14..34]), 0);
}

#[test]
fn flows_end_at_their_time() {
    let mut fixture = Fixture::new(GATE);
    fixture.goes_out(udp());
    assert_eq!(fixture.firewall.next_tick_ns(), Some(60 * SECOND));
    fixture.firewall.tick(60 * SECOND, &mut fixture.outputs);
    assert_eq!(fixture.firewall.nat_instance(1).unwrap().flows().count(), 0);
}

#[test]
fn instances_are_shown_as_ipfw_shows_them() {
    let mut fixture = Fixture::new("");
    let config = "nat 1 config if em1 log deny_in same_ports redirect_port tcp 10.0.0.1:80 80";
    assert_eq!(fixture.run(config), format!("ipfw {config}\n"));
    fixture.run("nat config 12 ip 203.0.113.9 unreg_only");
    let all = format!("ipfw {config}\nipfw nat 12 config ip 203.0.113.9 unreg_only\n");
    assert_eq!(fixture.run("nat show config"), all);
    assert_eq!(fixture.run("nat 12 show config"), "ipfw nat 12 config ip 203.0.113.9 unreg_only\n");
    fixture.load("add 100 nat 12 ip from any to any out");
    fixture.goes_out(udp());
    fixture.goes_out(ping());
    let flows =
        "nat 12: icmp=1, udp=1, tcp=0, sctp=0, pptp=0, proto=0, frag_id=0 frag_ptr=0 / tot=2\n";
    assert_eq!(fixture.run("nat show log 2-20"), flows);
    assert!(
        fixture.run("nat 12 show stats").starts_with("nat 12\n\t2 packets translated (inside to")
    );
    fixture.run("nat delete 1");
    assert_eq!(fixture.run("nat show config 1"), "");
    assert_eq!(fixture.try_run("nat delete 1").unwrap_err().exit_code, 69);
}

#[test]
fn who_reads_commands_shows_the_flows_of_those_who_check_packets() {
    let mut master = Firewall::new(1, [1, 2]);
    master.set_ports(vec!["em0".into(), "em1".into()]);
    master.load(GATE, 0).unwrap();
    let mut fixture = Fixture::new("");
    fixture.firewall.adopt(&mut master.ruleset());
    fixture.goes_out(udp());
    let figures = fixture.firewall.translation_stats();
    master.show_translations([figures.clone(), figures]);
    let show = parse_command("nat 1 show").unwrap();
    let text = master.execute(&show, 0, CommandFlags::default()).unwrap().text;
    assert!(text.contains("udp=2,") && text.ends_with("tot=2\n"), "summed: {text}");
    let show = parse_command("nat 1 show stats").unwrap();
    let text = master.execute(&show, 0, CommandFlags::default()).unwrap().text;
    assert!(text.contains("\t2 packets translated (inside to outside)\n"), "{text}");
}

#[test]
fn a_batch_that_fails_leaves_instances_and_flows_alone() {
    let mut fixture = Fixture::new(GATE);
    fixture.goes_out(udp());
    let batch = "nat 1 delete\nnat 2 config ip 203.0.113.8\ndelete 999";
    assert!(fixture.firewall.load(batch, 0).is_err());
    assert!(fixture.firewall.nat_instance(2).is_none());
    assert_eq!(target(&fixture.comes_in(answer_to(1000)).1), (A, 1000));
    fixture.load("nat 1 delete\nnat 1 config ip 203.0.113.9 deny_in");
    assert_eq!(fixture.comes_in(answer_to(1000)).0, RuleVerdict::Deny(DenyReason::Translation));
}

pub(super) const PREFIXES: &str = "nptv6 home create int_prefix 2001:db8:: ext_prefix 2001:db8:5:: prefixlen 48\n\
    add 100 nptv6 home ip6 from any to any\nadd 200 allow ip from any to any";

/// Builds an IPv6 datagram between two addresses.
pub(super) fn v6_between(src: &str, dst: &str) -> Vec<u8> {
    let ip =
        Ipv6Spec { src: src.parse().unwrap(), dst: dst.parse().unwrap(), ..Default::default() };
    bytes(&FrameSpec { ip: IpSpec::V6(ip), ..spec(A, B, L4Spec::Udp(PortPair { src: 1, dst: 2 })) })
}

#[test]
fn prefixes_are_exchanged_there_and_back() {
    let mut fixture = Fixture::new(PREFIXES);
    let mut out = v6_between("2001:db8:0:1::7", "2001:db8:ffff::1");
    assert_eq!(fixture.cross(&mut out, &mut PacketMetadata::incoming(0)), RuleVerdict::Accept);
    let sent = crate::packet::PacketHeaders::parse(&out).unwrap();
    let outside = Ipv6Addr::from_bits(sent.src);
    assert!(outside.to_string().starts_with("2001:db8:5:"), "{outside}");
    let mut back = v6_between("2001:db8:ffff::1", &outside.to_string());
    assert_eq!(fixture.cross(&mut back, &mut PacketMetadata::incoming(1)), RuleVerdict::Accept);
    assert_eq!(back, v6_between("2001:db8:ffff::1", "2001:db8:0:1::7"));
    assert_eq!((fixture.count(100), fixture.count(200)), (2, 0));
    let stats = "nptv6 home\n\t1 packets translated (internal to external)\n\
        \t1 packets translated (external to internal)\n\t0 packets dropped due to some error\n";
    assert_eq!(fixture.run("nptv6 home stats reset"), stats);
    assert_eq!(fixture.run("nptv6 all stats"), stats.replace('1', "0"));
}

#[test]
fn what_has_neither_prefix_goes_on_at_the_next_rule() {
    let mut fixture = Fixture::new(PREFIXES);
    assert!(fixture.passes(v6_between("fd00::1", "fd00::2")) && fixture.passes(udp()));
    assert_eq!((fixture.count(100), fixture.count(200)), (1, 2));
    assert_eq!(
        fixture.check(v6_between("2001:db8:0:ffff::1", "fd00::2")),
        RuleVerdict::Deny(DenyReason::Translation),
        "no word can make up for the change"
    );
}

#[test]
fn a_prefix_may_be_that_of_a_port() {
    let mut fixture = Fixture::new(
        "nptv6 x create int_prefix fd00:1::/48 ext_if em1\n\
        add 100 nptv6 x ip6 from any to any\nadd 200 allow ip from any to any",
    );
    assert!(fixture.passes(v6_between("fd00:1::1", "2001:db8:ffff::1")));
    assert_eq!(fixture.count(200), 1, "without an address nothing is translated");
    let address: Ipv6Addr = "2001:db8:9::1".parse().unwrap();
    fixture.firewall.set_me(vec![(address.into(), Some(1))]);
    assert!(fixture.passes(v6_between("fd00:1::1", "2001:db8:ffff::1")));
    assert_eq!(fixture.count(200), 1);
    assert_eq!(
        fixture.run("nptv6 x list"),
        "nptv6 x int_prefix fd00:1:: ext_if em1 prefixlen 48\n"
    );
}

#[test]
fn prefix_translators_in_use_stay_and_names_are_given_once() {
    let mut fixture = Fixture::new(PREFIXES);
    let again = "nptv6 home create int_prefix fd00:: ext_prefix fd01:: prefixlen 16";
    assert_eq!(fixture.try_run(again).unwrap_err().exit_code, 71);
    let error = fixture.try_run("nptv6 home destroy").unwrap_err();
    assert_eq!((error.exit_code, error.message.contains("rule 100")), (71, true));
    fixture.run("delete 100");
    fixture.run("nptv6 all destroy");
    assert_eq!(fixture.run("nptv6 all list"), "");
    assert_eq!(fixture.try_run("nptv6 home list").unwrap_err().exit_code, 69);
}

#[test]
fn a_packet_goes_through_several_translators_but_not_round_and_round() {
    let mut fixture = Fixture::new(
        "disable one_pass\nnat 1 config ip 203.0.113.8\n\
        nat 2 config ip 203.0.113.9\nadd 100 nat 1 ip from any to any\n\
        add 200 nat 2 ip from any to any\nadd 300 allow ip from any to any",
    );
    assert_eq!(source(&fixture.goes_out(udp()).1).0, OWN);
    let mut fixture = Fixture::new(
        "disable one_pass\nnat 1 config ip 203.0.113.9\n\
        add 100 skipto 300 ip from any to any\nadd 200 return ip from any to any\n\
        add 300 nat 1 ip from any to any\nadd 400 call 200 ip from any to any\n\
        add 500 call 300 ip from any to any",
    );
    assert_eq!(fixture.goes_out(udp()).0, RuleVerdict::Deny(DenyReason::CallDepth));
}
