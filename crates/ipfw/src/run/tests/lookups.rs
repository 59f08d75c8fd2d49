//! Tests of tables in rules, and of commands about tables.

use super::*;

#[test]
fn tablearg_is_the_value_of_the_longest_prefix() {
    let mut fixture = Fixture::new(
        "table 1 create valtype pipe\ntable 1 add 10.0.0.0/8 1 10.1.0.0/16 2\nadd 100 pipe tablearg ip from table(1) to any",
    );
    assert_eq!(fixture.check(udp_from([10, 1, 2, 3])), RuleVerdict::Pipe(2));
    assert_eq!(fixture.check(udp_from([10, 9, 2, 3])), RuleVerdict::Pipe(1));
    assert_eq!(fixture.check(udp_from([11, 9, 2, 3])), RuleVerdict::Deny(DenyReason::Rule));
}

#[test]
fn the_destination_wins_over_the_source() {
    let mut fixture = Fixture::new(
        "table 1 add 10.0.0.0/24 1\ntable 2 add 10.1.0.0/24 2\nadd 100 queue tablearg ip from table(1) to table(2)",
    );
    assert_eq!(fixture.check(udp()), RuleVerdict::Queue(2));
}

#[test]
fn a_table_may_be_asked_for_a_value() {
    let mut fixture =
        Fixture::new("table 1 add 10.0.0.1 5 10.0.0.2 6\nadd 100 allow ip from table(1,5) to any");
    assert!(fixture.passes(udp()) && !fixture.passes(udp_from([10, 0, 0, 2])));
    let mut fixture = Fixture::new(
        "table t create valtype skipto,dscp\ntable t add 10.0.0.1 100,46\nadd 100 allow ip from table(t,dscp=46) to any",
    );
    assert!(fixture.passes(udp()));
}

#[test]
fn masked_lookups_of_addresses() {
    let ask = |mask: &str| {
        let mut fixture = Fixture::new("table 1 create\ntable 1 add 192.0.0.0 1");
        fixture.run(&format!("add 100 allow ip from any to any lookup src-ip4:{mask} 1"));
        fixture.passes(udp_from([192, 0, 2, 0]))
    };
    assert!(ask("255.255.253.255") && !ask("128.255.253.255"));
}

#[test]
fn masked_lookups_of_the_dscp_that_was_set() {
    let mut fixture = Fixture::new(
        "table 1 create type number\ntable 1 add 12 1\nadd 100 setdscp 13 ip from any to any\nadd 200 allow ip from any to any lookup dscp:0xFE 1",
    );
    assert!(fixture.passes(udp()) && fixture.passes(udp6()) && !fixture.passes(arp()));
}

#[test]
fn lookups_by_port_mac_mark_and_rule() {
    let mut fixture = Fixture::new(
        "table n create type number\ntable n add 1000 1 7 1 50 1\ntable m create type mac\ntable m add 02:00:00:00:00:00/40 9",
    );
    let mut ask = |body: &str| {
        fixture.run("flush");
        fixture.run("add 10 setmark 7 ip from any to any");
        fixture.run(&format!("add 50 allow {body}"));
        fixture.passes(udp())
    };
    assert!(
        ask("ip from any to any lookup src-port n") && !ask("ip from any to any lookup dst-port n")
    );
    assert!(ask("src-mac table(m)") && ask("dst-mac table(m,9)") && !ask("dst-mac table(m,8)"));
    assert!(ask("lookup src-mac m") && ask("lookup mark n") && ask("lookup rulenum n"));
    assert!(ask("lookup mark:0x7 n") && !ask("lookup mark:0x1 n"));
}

#[test]
fn flows_and_ports_in_tables() {
    let mut fixture = Fixture::new(
        "table f create type flow:src-ip,proto,dst-port\ntable f add 10.0.0.1,17,53 100\ntable i create type iface\ntable i add em1 1\nadd 50 deny recv table(i)\nadd 60 skipto tablearg flow table(f)\nadd 70 deny ip from any to any\nadd 100 allow ip from any to any",
    );
    assert!(fixture.passes(udp()) && !fixture.passes(udp_ports(1, 54)));
    assert_eq!(
        fixture.cross(&mut udp(), &mut PacketMetadata::incoming(1)),
        RuleVerdict::Deny(DenyReason::Rule)
    );
    assert_eq!(fixture.count(50), 1);
}

#[test]
fn fwd_tag_and_dscp_take_their_own_values() {
    let mut fixture = Fixture::new(
        "table t create valtype tag,ipv4,dscp\ntable t add 10.0.0.0/8 46,9,192.0.2.9\nadd 100 count tag tablearg ip from table(t) to any\nadd 200 setdscp tablearg ip from table(t) to any\nadd 300 fwd tablearg ip from table(t) to any tagged 9 dscp 46",
    );
    let hop = crate::rule::NextHop::V4(Ipv4Addr::new(192, 0, 2, 9), 0);
    assert_eq!(fixture.check(udp()), RuleVerdict::Forward(hop));
}

#[test]
fn swapped_tables_are_whole_for_every_packet() {
    let mut fixture = Fixture::new(
        "table a create\ntable b create\ntable a add 10.0.0.1 1\nadd 100 allow ip from table(a) to any",
    );
    assert!(fixture.passes(udp()));
    fixture.run("table a swap b");
    assert!(!fixture.passes(udp()));
    fixture.run("table b swap a");
    assert!(fixture.passes(udp()));
    fixture.run("table n create type number");
    assert_eq!(
        fixture.try_run("table a swap n").unwrap_err().message,
        "Unable to swap table: check types"
    );
    fixture.run("table c create limit 1");
    fixture.run("table a add 1.1.1.1 1");
    assert_eq!(
        fixture.try_run("table a swap c").unwrap_err().message,
        "Unable to swap table: check limits"
    );
}

#[test]
fn an_atomic_change_with_a_bad_key_changes_nothing() {
    let mut fixture = Fixture::new("table t create");
    let error = fixture.try_run("table t atomic add 1.2.3.4 1 nonsense 2 1.2.3.5 3").unwrap_err();
    assert!(
        error.text.starts_with("added(reverted): 1.2.3.4/32 1\nerror: nonsense 2\n"),
        "{}",
        error.text
    );
    assert_eq!((fixture.entries("t"), error.exit_code), (String::new(), 65));
    assert_eq!(
        fixture.run("table t atomic add 1.2.3.4 1 1.2.3.5 3"),
        "added: 1.2.3.4/32 1\nadded: 1.2.3.5/32 3\n"
    );
}

#[test]
fn a_plain_change_does_what_it_can() {
    let mut fixture = Fixture::new("table t create limit 2\ntable t add 1.1.1.1 1");
    let error = fixture.try_run("table t add 1.1.1.1 2 1.1.1.2 2 1.1.1.3 3").unwrap_err();
    assert_eq!(error.text, "exists: 1.1.1.1/32 2\nadded: 1.1.1.2/32 2\nlimit: 1.1.1.3/32 3\n");
    let error = fixture.try_run("table t delete 1.1.1.1 9.9.9.9").unwrap_err();
    assert_eq!(error.text, "deleted: 1.1.1.1/32 1\nnotfound: 9.9.9.9/32 0\n");
}

#[test]
fn quiet_adds_update_and_say_nothing() {
    let mut fixture = Fixture::new("table t create\ntable t add 1.1.1.1 1");
    let command = parse_command("table t add 1.1.1.1 2").unwrap();
    let flags = CommandFlags { quiet: true, ..Default::default() };
    assert_eq!(fixture.firewall.execute(&command, 0, flags).unwrap().text, "");
    assert_eq!(fixture.entries("t"), "1.1.1.1/32 2\n");
}

#[test]
fn locked_tables_stay_as_they_are() {
    let mut fixture = Fixture::new("table t create\ntable t add 1.1.1.1 1\ntable t lock");
    for command in ["table t add 2.2.2.2 1", "table t delete 1.1.1.1", "table t flush"] {
        assert!(
            fixture.try_run(command).unwrap_err().message.contains("table is locked"),
            "{command}"
        );
    }
    fixture.run("table t unlock");
    fixture.run("table t flush");
    assert_eq!(fixture.entries("t"), "");
}

#[test]
fn info_tells_what_a_table_is() {
    let mut fixture = Fixture::new(
        "table hosts create valtype skipto,dscp limit 9 locked\nadd 100 allow ip from table(hosts) to table(hosts)",
    );
    assert_eq!(
        fixture.run("table hosts info"),
        "--- table(hosts), set(0) ---\n kindex: 1, type: addr, locked\n references: 1, valtype: skipto,dscp\n \
         algorithm: addr:radix\n items: 0, size: 296\n limit: 9\n"
    );
    assert!(
        fixture
            .run("table hosts detail")
            .ends_with(" IPv6 algorithm radix info\n  items: 0 itemsize: 200\n")
    );
    assert!(fixture.try_run("table hosts destroy").unwrap_err().message.contains("1 rules use it"));
}

#[test]
fn all_tables_are_listed_with_numbers_as_numbers() {
    let mut fixture = Fixture::new(
        "table 10 create\ntable 9 create\ntable a create type iface\ntable 9 add 1.1.1.1 5\ntable a add em0 6",
    );
    assert_eq!(
        fixture.run("table all list"),
        "--- table(9), set(0) ---\n1.1.1.1/32 5\n--- table(10), set(0) ---\n--- table(a), set(0) ---\nem0 6\n"
    );
    fixture.run("table all flush");
    fixture.run("table all destroy");
    assert_eq!(fixture.run("table all list"), "");
}

#[test]
fn an_unknown_table_is_made_with_a_notice() {
    let mut fixture = Fixture::new("");
    let text = fixture.run("table 5 add 10.0.0.0/8 1");
    assert_eq!(
        text,
        "DEPRECATED: inserting data into non-existent table 5. (auto-created)\nadded: 10.0.0.0/8 1\n"
    );
    assert_eq!(fixture.try_run("table 6 list").unwrap_err().exit_code, 69);
    assert_eq!(
        fixture.try_run("table 5 lookup 11.0.0.1").unwrap_err().message,
        "Entry 11.0.0.1 not found"
    );
}

#[test]
fn there_are_no_more_than_tables_max() {
    let mut fixture =
        Fixture::new("sysctl net.inet.ip.fw.tables_max=2\ntable 1 create\ntable 2 create");
    assert!(fixture.try_run("table 3 create").is_err());
    assert!(fixture.try_run("table 2 create").is_err());
    fixture.run("table 2 create missing");
    fixture.run("table 2 add 1.1.1.1 1");
    fixture.run("table 2 create or-flush");
    assert_eq!(fixture.entries("2"), "");
}

#[test]
fn random_changes_of_two_tables_agree_with_a_map() {
    use slipring_model::Stream;
    let mut fixture =
        Fixture::new("table a create\ntable b create\nadd 100 allow ip from table(a) to any");
    let mut draws = Stream::new(3, "test");
    let mut model = [std::collections::BTreeSet::new(), std::collections::BTreeSet::new()];
    for _ in 0..3000 {
        let (which, last) = (draws.below(2) as usize, draws.below(8) as u8);
        let name = ["a", "b"][which];
        match draws.below(5) {
            0 | 1 => {
                let _ = fixture.try_run(&format!("table {name} add 10.0.0.{last} 1"));
                model[which].insert(last);
            }
            2 => {
                let _ = fixture.try_run(&format!("table {name} delete 10.0.0.{last}"));
                model[which].remove(&last);
            }
            3 => {
                fixture.run("table a swap b");
                model.swap(0, 1);
            }
            _ => assert_eq!(fixture.passes(udp_from([10, 0, 0, last])), model[0].contains(&last)),
        }
    }
}
