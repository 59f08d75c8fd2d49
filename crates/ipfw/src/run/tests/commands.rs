//! Tests the output of commands, and that a batch is executed completely or not at all.

use super::*;

#[test]
fn show_aligns_counters_to_the_widest() {
    let mut fixture =
        Fixture::new("add 100 count ip from any to any\nadd 200 allow ip from any to any");
    (0..12).for_each(|_| drop(fixture.check(udp())));
    fixture.run("zero 200");
    assert_eq!(
        fixture.run("show"),
        "00100 12 552 count ip from any to any\n00200  0   0 allow ip from any to any\n65535  0   0 deny ip from any to any\n"
    );
    assert_eq!(fixture.run("show 200"), "00200  0   0 allow ip from any to any\n");
}

#[test]
fn list_takes_numbers_ranges_and_sets() {
    let mut fixture =
        Fixture::new("add 100 count ip from any to any\nadd 200 set 3 allow ip from any to any");
    assert_eq!(fixture.run("list 100-150"), "00100 count ip from any to any\n");
    assert_eq!(fixture.run("set 3 list"), "00200 allow ip from any to any\n");
    let error = fixture.try_run("list 300").unwrap_err();
    assert_eq!((error.message.as_str(), error.exit_code), ("rule 300 does not exist", 69));
    assert_eq!(fixture.try_run("list 300-400").unwrap_err().message, "no rules in range 300-400");
}

#[test]
fn compact_and_brief_listings() {
    let fixture = Fixture::new(
        "add 100 count ip from any to any // why\nadd 200 allow tcp from any to any 80\nadd 300 deny ip from any to any",
    );
    let with =
        |style| fixture.firewall.list(&[], ListOptions { style, ..Default::default() }, 0).unwrap();
    let compact = with(crate::text::RuleStyle { compact: true, ..Default::default() });
    assert!(compact.contains("00300 deny ip\n"), "{compact}");
    let brief = with(crate::text::RuleStyle { brief: true, ..Default::default() });
    assert!(brief.starts_with("00100 count // why\n00200 allow // ...\n"), "{brief}");
    let names = with(crate::text::RuleStyle { names: true, ..Default::default() });
    assert!(names.contains("dst-port http\n"), "{names}");
}

#[test]
fn zero_clears_one_rule_or_all_and_resetlog_only_budgets() {
    let mut fixture =
        Fixture::new("add 100 count ip from any to any\nadd 200 allow ip from any to any");
    fixture.check(udp());
    assert_eq!(fixture.run("zero 100"), "Entry 100 cleared.\n");
    assert_eq!((fixture.count(100), fixture.count(200)), (0, 1));
    assert_eq!(fixture.run("resetlog 200"), "Entry 200 logging count reset.\n");
    assert_eq!(fixture.count(200), 1);
    assert_eq!(fixture.run("zero"), "Accounting cleared.\n");
    assert_eq!(fixture.count(200), 0);
    let error = fixture.try_run("zero 300").unwrap_err();
    assert_eq!((error.message.as_str(), error.exit_code), ("Entry 300 not found", 69));
}

#[test]
fn listing_resets_no_counter() {
    let mut fixture = Fixture::new("add 100 allow ip from any to any");
    fixture.check(udp());
    assert_eq!(fixture.run("show 100"), fixture.run("show 100"));
}

#[test]
fn set_show_tells_both_lists() {
    let mut fixture = Fixture::new("");
    let all: Vec<_> = (0..31).map(|set| format!(" {set}")).collect();
    assert_eq!(fixture.run("set show"), format!("enable{}\n", all.concat()));
    fixture.run("set disable 5");
    let rest = all.concat().replace(" 5 ", " ");
    assert_eq!(fixture.run("set show"), format!("disable 5 enable{rest}\n"));
}

#[test]
fn delete_needs_rules_unless_forced() {
    let mut fixture = Fixture::new(
        "add 100 count ip from any to any\nadd 100 allow ip from any to any\nadd 200 count ip from any to any",
    );
    fixture.run("delete 100");
    assert_eq!(fixture.numbers(), [200, 65535]);
    assert_eq!(fixture.try_run("delete 100").unwrap_err().exit_code, 69);
    let force = CommandFlags { force: true, ..Default::default() };
    let command = parse_command("delete 100 200").unwrap();
    fixture.firewall.execute(&command, 0, force).unwrap();
    assert_eq!(fixture.numbers(), [65535]);
    assert!(fixture.try_run("delete 65535").is_err());
}

#[test]
fn a_batch_with_a_mistake_changes_nothing() {
    let mut fixture = Fixture::new(
        "add 100 allow udp from any to any keep-state\ntable t create\ntable t add 1.1.1.1 1",
    );
    fixture.check(udp());
    let before = (fixture.run("show"), fixture.run("table t list"), fixture.run("sysctl -a"));
    for wrong in [
        "flush\nadd 200 alow ip from any to any",
        "delete 100\ntable t flush\nsysctl net.inet.ip.fw.dyn_max=1\ndelete 900",
        "set disable 0\ntable t destroy\ntable t2 list",
    ] {
        assert!(fixture.firewall.load(wrong, 0).is_err());
        assert_eq!(
            (fixture.run("show"), fixture.run("table t list"), fixture.run("sysctl -a")),
            before
        );
        assert_eq!(fixture.firewall.states().len(), 1);
    }
}

#[test]
fn a_mistake_in_a_batch_names_its_line() {
    let mut fixture = Fixture::new("");
    let error =
        fixture.firewall.load("add allow ip from any to any\n\nadd 5 deny frm any", 0).unwrap_err();
    assert!(
        matches!(&error, CommandFileError::Text(error) if (error.line, error.column) == (3, 12)),
        "{error}"
    );
    let error = fixture.firewall.load("# x\ndelete 77", 0).unwrap_err();
    assert_eq!(format!("{error}"), "line 2: rule 77 not found");
}

#[test]
fn sysctls_are_told_set_and_checked() {
    let mut fixture = Fixture::new("");
    assert_eq!(fixture.run("sysctl net.inet.ip.fw.one_pass"), "net.inet.ip.fw.one_pass: 1\n");
    assert_eq!(
        fixture.run("sysctl net.inet.ip.fw.one_pass=0"),
        "net.inet.ip.fw.one_pass: 1 -> 0\n"
    );
    assert!(fixture.run("sysctl -a").contains("net.inet.ip.fw.dyn_max: 16384\n"));
    assert_eq!(
        fixture.try_run("sysctl net.inet.ip.fw.autoinc_step=1001").unwrap_err().exit_code,
        65
    );
    assert_eq!(
        fixture.try_run("sysctl net.inet.ip.fw.dyn_fin_lifetime=5").unwrap_err().exit_code,
        65
    );
    for command in ["sysctl no.such", "sysctl no.such=1"] {
        let error = fixture.try_run(command).unwrap_err();
        assert_eq!(error.exit_code, 69);
        assert_eq!(error.message, "unknown oid 'no.such'; `sysctl -a` lists all names");
    }
    let (mut settings, mut states) =
        (IpfwSettings::default(), crate::state::StateTable::new([0; 2]));
    let mut set = |name| settings.set(&mut states, name, 1).unwrap_err().to_string();
    assert_eq!(
        [set("no.such"), set("net.inet.ip.fw.dyn_count")],
        [
            "sysctl no.such: the name is unknown; `sysctl -a` lists all names",
            "sysctl net.inet.ip.fw.dyn_count: it can only be read"
        ]
    );
    assert!(fixture.try_run("sysctl net.inet.ip.fw.static_count=3").is_err());
}

#[test]
fn a_rule_may_name_only_a_prefix_translator_that_is_there() {
    let mut fixture = Fixture::new("");
    let error = fixture.try_run("add nptv6 x ip from any to any").unwrap_err();
    assert_eq!((error.exit_code, fixture.numbers()), (69, vec![65535]));
    assert!(error.message.contains("`nptv6 x create"), "{error}");
    fixture.run("add nat 1 ip from any to any");
}

#[test]
fn every_sysctl_that_takes_a_value_tells_it_again() {
    let mut fixture = Fixture::new("");
    let all = fixture.run("sysctl -a");
    let names = [
        "net.inet.ip.fw.enable",
        "net.inet6.ip6.fw.enable",
        "net.link.ether.ipfw",
        "net.link.bridge.ipfw_arp",
        "net.link.bridge.pfil_onlyip",
        "net.inet.ip.fw.one_pass",
        "net.inet.ip.fw.autoinc_step",
        "net.inet.ip.fw.verbose",
        "net.inet.ip.fw.verbose_limit",
        "net.inet.ip.fw.tables_max",
        "net.inet.ip.fw.tables_sets",
        "net.inet.ip.fw.debug",
        "net.inet.ip.fw.dyn_keep_states",
        "net.inet.ip.fw.dyn_keepalive",
        "net.inet.ip.fw.dyn_max",
        "net.inet.ip.fw.dyn_ack_lifetime",
        "net.inet.ip.fw.dyn_syn_lifetime",
        "net.inet.ip.fw.dyn_fin_lifetime",
        "net.inet.ip.fw.dyn_rst_lifetime",
        "net.inet.ip.fw.dyn_udp_lifetime",
        "net.inet.ip.fw.dyn_short_lifetime",
    ];
    for name in names {
        assert!(all.contains(&format!("{name}: ")), "{name} in\n{all}");
    }
    let mut settable = 0;
    for name in all.lines().map(|line| line.split(':').next().unwrap()) {
        let mut taken = 0;
        for value in [1, 0, 2, 3] {
            if fixture.try_run(&format!("sysctl {name}={value}")).is_ok() {
                assert_eq!(fixture.run(&format!("sysctl {name}")), format!("{name}: {value}\n"));
                taken += 1;
            }
        }
        assert!(taken == 0 || taken >= 2, "{name} takes only one of the values");
        settable += usize::from(taken > 0);
    }
    assert_eq!(settable, names.len(), "of\n{all}");
}

#[test]
fn one_command_disables_some_sets_and_enables_others() {
    let mut fixture = Fixture::new(
        "add 100 set 1 deny ip from any to any\nadd 200 set 2 allow ip from any to any",
    );
    fixture.run("set disable 2");
    assert!(!fixture.passes(udp()));
    fixture.run("set disable 1 5 enable 2 disable 6");
    assert!(fixture.passes(udp()));
    let shown = fixture.run("set show");
    assert!(shown.starts_with("disable 1 5 6"), "{shown}");
    assert!(parse_command("set disable 3 enable 3").is_err());
}

#[test]
fn a_flow_in_a_table_is_found_listed_and_deleted_with_all_its_fields() {
    let mut fixture =
        Fixture::new("table f create type flow:src-ip,proto,src-port,dst-ip,dst-port");
    let flow = "10.0.0.1,17,1000,10.1.0.1,53";
    fixture.run(&format!("table f add {flow} 9"));
    assert_eq!(fixture.entries("f"), format!("{flow} 9\n"));
    assert!(fixture.run(&format!("table f lookup {flow}")).contains(&format!("{flow} 9")));
    for other in ["10.0.0.1,17,1001,10.1.0.1,53", "10.0.0.1,17,1000,10.1.0.1,54"] {
        assert!(fixture.try_run(&format!("table f lookup {other}")).is_err(), "{other}");
    }
    fixture.run(&format!("table f delete {flow}"));
    assert_eq!(fixture.entries("f"), "");
}

#[test]
fn a_mac_address_is_looked_up_by_its_longest_prefix() {
    let mut fixture = Fixture::new("table m create type mac");
    fixture.run("table m add 02:00:00:00:00:00/40 9 02:00:00:00:00:70/44 8");
    let mut found = |mac: &str| fixture.run(&format!("table m lookup {mac}"));
    assert!(found("02:00:00:00:00:7f").contains("02:00:00:00:00:70/44 8"));
    assert!(found("02:00:00:00:00:80").contains("02:00:00:00:00:00/40 9"));
}

#[test]
fn a_compact_listing_leaves_out_only_sides_that_say_nothing() {
    let fixture = Fixture::new(
        "add 100 count udp from any 53 to any\nadd 200 count ip from 10.0.0.1 to any\n\
         add 300 count ip from any to 10.0.0.1\nadd 400 deny ip from any to any",
    );
    let style = crate::text::RuleStyle { compact: true, ..Default::default() };
    let text = fixture.firewall.list(&[], ListOptions { style, ..Default::default() }, 0).unwrap();
    for shown in
        ["count udp from any 53", "count ip from 10.0.0.1", "10.0.0.1\n", "00400 deny ip\n"]
    {
        assert!(text.contains(shown), "{shown}: {text}");
    }
}
