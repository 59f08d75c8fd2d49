//! Tests the correct behaviour for each known defect of netmap-ipfw.

use super::*;

#[test]
fn states_expire_as_time_goes_by() {
    let mut fixture = Fixture::new("add 100 allow udp from any to any keep-state");
    fixture.passes(udp());
    fixture.now = 14 * SECOND;
    fixture.firewall.tick(fixture.now, &mut fixture.outputs);
    assert!(fixture.firewall.states().is_empty());
}

#[test]
fn a_match_leaves_its_time_in_the_listing() {
    let mut fixture = Fixture::new("add 100 allow ip from any to any");
    fixture.firewall.set_epoch_ns(1_000_000_000 * SECOND);
    fixture.now = 5 * SECOND;
    fixture.passes(udp());
    let at = |times| ListOptions { times, ..Default::default() };
    let text = fixture.firewall.list(&[], at(TimeFormat::Seconds), fixture.now).unwrap();
    assert!(text.starts_with("00100 1000000005 allow"), "{text}");
    let text = fixture.firewall.list(&[], at(TimeFormat::Calendar), fixture.now).unwrap();
    assert!(text.starts_with("00100 Sun Sep  9 01:46:45 2001 allow"), "{text}");
    let blank = format!("65535 {}deny", " ".repeat(24));
    assert!(text.contains(&blank), "{text}");
}

#[test]
fn dyn_max_is_enforced() {
    let mut fixture = Fixture::new("add 100 allow udp from any to any keep-state");
    fixture.run("sysctl net.inet.ip.fw.dyn_max=4096");
    let passed = (1..=20_000).filter(|&port| fixture.passes(udp_ports(port, 53))).count();
    assert_eq!((passed, fixture.firewall.states().len()), (4096, 4096));
    assert_eq!(fixture.firewall.states().counters().refused_full, 20_000 - 4096);
    assert_eq!(fixture.check(udp_ports(20_001, 53)), RuleVerdict::Deny(DenyReason::StatesFull));
    fixture.now = 11 * SECOND;
    assert!(fixture.passes(udp_ports(20_001, 53)), "those that ended make room at once");
}

#[test]
fn one_pass_off_counts_at_the_next_rule_behind_the_pipe() {
    let mut fixture = Fixture::new(
        "disable one_pass\nadd 100 pipe 1 ip from any to any\nadd 200 allow ip from any to any",
    );
    let (mut frame, mut crossing) = (udp(), PacketMetadata::incoming(0));
    assert_eq!(fixture.cross(&mut frame, &mut crossing), RuleVerdict::Pipe(1));
    assert!(fixture.firewall.continues_after_shaper());
    assert_eq!(fixture.cross(&mut frame, &mut crossing), RuleVerdict::Accept);
    assert_eq!((fixture.count(100), fixture.count(200)), (1, 1));
}

#[test]
fn a_file_with_a_pipe_and_rules_is_carried_out_to_its_end() {
    let mut firewall = Firewall::new(1, [1, 2]);
    let text = "pipe 1 config bw 10Mbit/s\nadd 100 pipe 1 ip from any to any\nadd 200 allow ip from any to any";
    let replies = firewall.load(text, 0).unwrap();
    assert!(replies[0].shaper.is_some());
    assert_eq!(replies[2].text, "00200 allow ip from any to any\n");
}

#[test]
fn rows_of_flows_show_one_flow_each() {
    let mut fixture = Fixture::new("table f create type flow:src-ip,proto,dst-port");
    fixture.run("table f add 1.2.3.4,tcp,80 1 1.2.3.5,17,53 2 2001:db8::1,6,443 3");
    assert_eq!(fixture.entries("f"), "1.2.3.4,6,80 1\n1.2.3.5,17,53 2\n2001:db8::1,6,443 3\n");
}

#[test]
fn a_hidden_disabled_rule_repeats_no_row() {
    let mut fixture = Fixture::new(
        "add 100 count ip from any to any\nadd 200 set 5 count udp from any to any\nset disable 5",
    );
    assert_eq!(
        fixture.run("list"),
        "00100 count ip from any to any\n65535 deny ip from any to any\n"
    );
    let options = ListOptions { sets: true, ..Default::default() };
    assert_eq!(
        fixture.firewall.list(&[], options, 0).unwrap(),
        "00100 set 0 count ip from any to any\n# DISABLED 00200 set 5 count udp from any to any\n65535 set 31 deny ip from any to any\n"
    );
}

#[test]
fn an_address_with_a_mask_prints_both() {
    let mut fixture = Fixture::new("");
    let text = fixture.run("add 100 deny ip from 10.0.0.1:255.0.255.1 to any");
    assert_eq!(text, "00100 deny ip from 10.0.0.1:255.0.255.1 to any\n");
}

#[test]
fn dscp_32_is_dscp_32() {
    let mut fixture = Fixture::new("add 100 allow ip from any to any dscp 32");
    assert!(!fixture.passes(udp()));
    assert!(fixture.passes(v4_with(&udp(), |ip| ip[1] = 32 << 2)));
    assert!(fixture.run("list 100").ends_with("dscp cs4\n"));
}

#[test]
fn a_deny_verdict_is_only_a_verdict() {
    let mut fixture = Fixture::new("add 100 deny ip from any to any");
    assert_eq!(fixture.check(udp()), RuleVerdict::Deny(DenyReason::Rule));
}

#[test]
fn unknown_ipv6_next_headers_meet_the_rules() {
    let mut fixture = Fixture::new("add 100 allow gre from any to any");
    let mut frame = udp6();
    frame[20] = 47;
    assert!(fixture.passes(frame.clone()));
    fixture.run("delete 100");
    assert!(!fixture.passes(frame));
    assert_eq!(fixture.count(65535), 1, "and are counted");
}

#[test]
fn tables_of_prefixes_hold_hosts_and_nets() {
    let mut fixture = Fixture::new("table 1 create");
    fixture.run("table 1 add 10.0.0.1 1 10.0.0.0/8 2 2001:db8::/32 3");
    assert_eq!(fixture.entries("1"), "10.0.0.0/8 2\n10.0.0.1/32 1\n2001:db8::/32 3\n");
    assert_eq!(fixture.run("table 1 lookup 10.0.0.1"), "10.0.0.1/32 1\n");
    assert_eq!(fixture.run("table 1 lookup 10.9.0.1"), "10.0.0.0/8 2\n");
}

#[test]
fn hashed_tables_take_prefixes_of_one_length() {
    let mut fixture = Fixture::new("table H create type addr algo addr:hash masks=/24,/64");
    assert_eq!(fixture.run("table H add 1.2.3.0/24 1"), "added: 1.2.3.0/24 1\n");
    for key in ["1.2.3.0/25", "1.2.0.0/16", "4.4.4.4", "fd00::/48"] {
        let error = fixture.try_run(&format!("table H add {key} 1")).unwrap_err().message;
        assert!(error.contains("masks="), "{error}");
    }
    fixture.run("table W create type addr algo addr:hash");
    assert_eq!(fixture.run("table W add 4.4.4.4 1 fd00::1 2").lines().count(), 2);
    assert!(fixture.try_run("table W add 4.4.4.0/24 1").unwrap_err().message.contains("/32,/128"));
    let error = fixture.firewall.load("table X create algo addr:hash masks=/33", 0).unwrap_err();
    assert!(error.to_string().contains("masks="), "{error}");
}

#[test]
fn number_tables_need_no_algorithm() {
    let mut fixture = Fixture::new(
        "table n create type number\nadd 100 allow udp from any to any lookup dst-port n",
    );
    fixture.run("table n add 53 1");
    assert!(fixture.passes(udp()) && !fixture.passes(udp_ports(1, 54)));
}

#[test]
fn a_hundred_thousand_entries_load_at_once() {
    let mut fixture = Fixture::new("table t create");
    let entries: Vec<_> =
        (0..100_000_u32).map(|i| format!("{} {}", Ipv4Addr::from_bits(i << 8), i % 7)).collect();
    fixture.load(&format!("table t add {}", entries.join(" ")));
    assert!(fixture.run("table t info").contains(" items: 100000,"));
}

#[test]
fn a_later_tag_hides_no_earlier_one_and_untag_takes_off() {
    let mut fixture = Fixture::new(
        "add 100 count tag 1 ip from any to any\nadd 110 count tag 2 ip from any to any\nadd 120 deny ip from any to any not tagged 1\nadd 130 count untag 1 ip from any to any\nadd 140 deny ip from any to any tagged 1\nadd 150 allow ip from any to any",
    );
    assert!(fixture.passes(udp()));
}

#[test]
fn setdscp_carries_its_checksum_right_for_every_value() {
    for dscp in 0..64 {
        let mut fixture = Fixture::new(&format!(
            "add 100 setdscp {dscp} ip from any to any\nadd 200 allow ip from any to any"
        ));
        for id in [0_u16, 1, 0x7fff, 0xfffe, 0xffff] {
            let mut frame = v4_with(&udp(), |ip| ip[4..6].copy_from_slice(&id.to_be_bytes()));
            assert_eq!(
                fixture.cross(&mut frame, &mut PacketMetadata::incoming(0)),
                RuleVerdict::Accept
            );
            assert_eq!(slipring_wire::checksum::of(&frame[14..34]), 0);
            assert_eq!(frame[15] >> 2, dscp);
        }
    }
}
