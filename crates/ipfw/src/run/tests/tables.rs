//! Tests of tables as objects: references to them, automatic creation, and keys of every type.

use super::*;

#[test]
fn a_table_that_a_rule_looks_up_in_any_way_is_made_for_it_and_cannot_be_destroyed() {
    for (body, kind) in [
        ("ip from table(t) to any", "addr"),
        ("ip from any to table(t,7)", "addr"),
        ("ip from any to any recv table(t)", "iface"),
        ("ip from any to any xmit table(t)", "iface"),
        ("ip from any to any via table(t)", "iface"),
        ("ip from any to any src-mac table(t)", "mac"),
        ("ip from any to any dst-mac table(t)", "mac"),
        ("ip from any to any flow table(t)", "flow"),
        ("ip from any to any lookup dst-ip t", "addr"),
        ("ip from any to any lookup src-ip6 t", "addr"),
        ("ip from any to any lookup dst-mac t", "mac"),
        ("ip from any to any lookup src-port t", "number"),
        ("ip from any to any lookup mark t", "number"),
    ] {
        let mut fixture = Fixture::new(&format!("add 100 allow {body}"));
        let info = fixture.run("table t info");
        assert!(info.contains(&format!("type: {kind}")), "{body}: {info}");
        assert!(info.contains("references: 1,"), "{body}: {info}");
        let error = fixture.try_run("table t destroy").unwrap_err();
        assert_eq!(error.exit_code, 71, "{body}");
        assert!(error.message.contains("1 rules use it"), "{body}: {error}");
        fixture.run("delete 100");
        fixture.run("table t destroy");
        assert_eq!(fixture.try_run("table t info").unwrap_err().exit_code, 69, "{body}");
    }
}

#[test]
fn keys_of_every_type_are_added_found_replaced_and_deleted() {
    for (kind, key, other) in [
        ("addr", "10.0.0.1/32", "10.0.0.2/32"),
        ("addr", "10.0.0.0/8", "11.0.0.0/8"),
        ("addr", "2001:db8::/32", "2001:db9::/32"),
        ("addr", "2001:db8::1/128", "2001:db8::2/128"),
        ("iface", "em0", "em1"),
        ("number", "7", "8"),
        ("mac", "02:00:00:00:00:01/48", "02:00:00:00:00:02/48"),
        ("mac", "02:00:00:00:00:00/40", "04:00:00:00:00:00/40"),
        ("flow:proto,dst-port", "17,53", "17,54"),
    ] {
        let mut fixture = Fixture::new(&format!("table t create type {kind}"));
        let items = |fixture: &mut Fixture| {
            let info = fixture.run("table t info");
            info.split("items: ").nth(1).unwrap().split(',').next().unwrap().to_string()
        };
        fixture.run(&format!("table t add {key} 5"));
        assert_eq!(fixture.entries("t"), format!("{key} 5\n"));
        let bare = key.trim_end_matches("/32").trim_end_matches("/128").trim_end_matches("/48");
        let bare = bare.split('/').next().unwrap();
        assert_eq!(fixture.run(&format!("table t lookup {bare}")), format!("{key} 5\n"));
        let twice = fixture.try_run(&format!("table t add {key} 6")).unwrap_err();
        assert!(twice.message.contains("exists"), "{key}: {twice}");
        let absent = fixture.try_run(&format!("table t delete {other}")).unwrap_err();
        assert_eq!(fixture.entries("t"), format!("{key} 5\n"), "{absent}");
        // With `-q`, an existing entry is changed.
        let quiet = CommandFlags { quiet: true, ..Default::default() };
        let command = parse_command(&format!("table t add {key} 6")).unwrap();
        fixture.firewall.execute(&command, 0, quiet).unwrap();
        assert_eq!(fixture.entries("t"), format!("{key} 6\n"));
        fixture.run(&format!("table t add {other} 9"));
        assert_eq!(items(&mut fixture), "2", "{key}");
        fixture.run(&format!("table t delete {key}"));
        assert_eq!(
            (fixture.entries("t"), items(&mut fixture)),
            (format!("{other} 9\n"), "1".into())
        );
        fixture.run("table t flush");
        assert_eq!((fixture.entries("t"), items(&mut fixture)), (String::new(), "0".into()));
    }
}

#[test]
fn entries_that_share_a_value_keep_it_when_one_of_them_goes() {
    let mut fixture = Fixture::new("table t create\ntable t add 10.0.0.1 5 10.0.0.2 5 10.0.0.3 6");
    fixture.run("table t delete 10.0.0.1");
    fixture.run("table t add 10.0.0.4 7");
    assert_eq!(fixture.entries("t"), "10.0.0.2/32 5\n10.0.0.3/32 6\n10.0.0.4/32 7\n");
    fixture.run("table t delete 10.0.0.2");
    fixture.run("table t add 10.0.0.5 8 10.0.0.6 5");
    let left = "10.0.0.3/32 6\n10.0.0.4/32 7\n10.0.0.5/32 8\n10.0.0.6/32 5\n";
    assert_eq!(fixture.entries("t"), left);
}

#[test]
fn values_of_every_kind_are_listed_as_they_were_given() {
    for (kind, value) in [
        ("skipto", "7"),
        ("pipe", "7"),
        ("fib", "7"),
        ("nat", "7"),
        ("dscp", "46"),
        ("tag", "7"),
        ("divert", "7"),
        ("netgraph", "7"),
        ("limit", "7"),
        ("ipv4", "192.0.2.1"),
        ("ipv6", "2001:db8::7"),
        ("mark", "7"),
    ] {
        let mut fixture = Fixture::new(&format!("table t create valtype {kind}"));
        fixture.run(&format!("table t add 10.0.0.1 {value}"));
        assert_eq!(fixture.entries("t"), format!("10.0.0.1/32 {value}\n"), "{kind}");
    }
}

#[test]
fn a_table_for_an_unknown_name_has_the_type_of_its_first_key() {
    for (key, kind) in
        [("10.0.0.1", "addr"), ("2001:db8::1", "addr"), ("em0", "iface"), ("7", "number")]
    {
        let mut fixture = Fixture::new("");
        fixture.run(&format!("table t add {key}"));
        let info = fixture.run("table t info");
        assert!(info.contains(&format!("type: {kind}")), "{key}: {info}");
    }
}

#[test]
fn the_entries_of_each_family_are_told() {
    let mut fixture =
        Fixture::new("table t create\ntable t add 10.0.0.1 1 10.0.0.2 2 2001:db8::1 3");
    let detail = fixture.run("table t detail");
    assert!(detail.contains("IPv4 algorithm radix info\n  items: 2 "), "{detail}");
    assert!(detail.contains("IPv6 algorithm radix info\n  items: 1 "), "{detail}");
    assert!(detail.contains(" items: 3,"), "{detail}");
}

#[test]
fn a_limit_above_zero_is_told() {
    let mut fixture = Fixture::new("table t create limit 1\ntable u create");
    assert!(fixture.run("table t info").contains(" limit: 1\n"));
    assert!(!fixture.run("table u info").contains("limit"));
}

#[test]
fn without_tables_there_are_none_and_a_table_without_entries_is_empty() {
    let mut fixture = Fixture::new("");
    assert!(fixture.firewall.config().tables.is_empty());
    fixture.run("table t create");
    let is_empty = |fixture: &Fixture| {
        let tables = &fixture.firewall.config().tables;
        (tables.is_empty(), tables.get(0, "t").unwrap().is_empty())
    };
    assert_eq!(is_empty(&fixture), (false, true));
    fixture.run("table t add 10.0.0.0/8");
    assert_eq!(is_empty(&fixture), (false, false));
}

#[test]
fn an_ipv4_address_is_no_ipv6_address_of_the_same_number_in_a_table_of_flows() {
    for (fields, key) in [
        ("src-ip", "10.0.0.1"),
        ("dst-ip", "10.1.0.1"),
        ("src-ip,dst-ip", "10.0.0.1,10.1.0.1"),
        ("src-ip,proto", "10.0.0.1,17"),
    ] {
        let mut fixture = Fixture::new(&format!(
            "table f create type flow:{fields}\nadd 100 allow ip from any to any flow table(f)\n\
             add 200 deny ip from any to any"
        ));
        fixture.run(&format!("table f add {key}"));
        assert!(fixture.passes(udp()), "{fields}");
        let v6 = super::nat::v6_between("::a00:1", "::a01:1");
        assert!(!fixture.passes(v6), "{fields}");
    }
}

#[test]
fn swapped_tables_keep_their_own_limit_and_number() {
    let mut fixture = Fixture::new("table a create limit 1\ntable b create");
    fixture.run("table a add 10.0.0.1");
    fixture.run("table b add 10.0.0.2");
    let number =
        |fixture: &Fixture, name| fixture.firewall.config().tables.get(0, name).unwrap().index;
    let before = ["a", "b"].map(|name| number(&fixture, name));
    fixture.run("table a swap b");
    assert_eq!(["a", "b"].map(|name| number(&fixture, name)), before);
    assert_eq!(fixture.entries("a"), "10.0.0.2/32 0\n");
    assert!(fixture.run("table a info").contains(" limit: 1\n"));
    assert!(fixture.try_run("table a add 10.0.0.3").is_err(), "it is full");
    fixture.run("table b add 10.0.0.3");
    assert!(!fixture.run("table b info").contains("limit"));
}

#[test]
fn a_locked_table_is_not_emptied_by_or_flush() {
    let mut fixture = Fixture::new("table t create");
    fixture.run("table t add 10.0.0.1");
    fixture.run("table t lock");
    let error = fixture.try_run("table t create or-flush").unwrap_err();
    assert_eq!(error.message, "failed to flush table: table is locked");
    assert_eq!(fixture.entries("t"), "10.0.0.1/32 0\n");
    fixture.run("table t unlock");
    fixture.run("table t create or-flush");
    assert_eq!(fixture.entries("t"), "");
}

#[test]
fn a_quiet_delete_of_a_missing_key_does_not_hide_a_bad_one() {
    let mut fixture = Fixture::new("table t create");
    let quiet = CommandFlags { quiet: true, ..CommandFlags::default() };
    let mut delete = |keys: &str| {
        let command = parse_command(&format!("table t delete {keys}")).unwrap();
        fixture.firewall.execute(&command, 0, quiet).map(|reply| reply.text)
    };
    assert_eq!(delete("10.0.0.1"), Ok(String::new()));
    for keys in ["10.0.0.1 nonsense/99", "nonsense/99 10.0.0.1"] {
        assert_eq!(delete(keys).unwrap_err().exit_code, 65, "{keys}");
    }
}
