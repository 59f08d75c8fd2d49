//! Tests of commands that concern the rules of one set.

use super::*;

/// Rules 100 and 200 in set 1, 200 and 300 in set 2, 400 in set 31 and 500 in set 0.
const SETS: &str = "add 100 set 1 count ip from any to any\n\
                    add 200 set 1 count ip from any to any\n\
                    add 200 set 2 count ip from any to any\n\
                    add 300 set 2 count ip from any to any\n\
                    add 400 set 31 count ip from any to any\n\
                    add 500 allow ip from any to any";

/// Returns number and set of each rule but the default rule.
fn rules(fixture: &Fixture) -> Vec<(u16, u8)> {
    let list = &fixture.firewall.config().list;
    let all = list.iter().map(|(entry, _)| (entry.number, entry.rule.set));
    all.filter(|(number, _)| *number != 65535).collect()
}

/// Returns the number of packets that each rule has counted.
fn counts(fixture: &Fixture) -> Vec<u64> {
    fixture.firewall.config().list.iter().map(|(_, counters)| counters.packets).collect()
}

#[test]
fn rules_of_a_set_or_of_a_number_in_a_set_are_deleted() {
    for (command, left) in [
        ("delete set 1", &[(200, 2), (300, 2), (400, 31), (500, 0)][..]),
        ("set 1 delete 200", &[(100, 1), (200, 2), (300, 2), (400, 31), (500, 0)]),
        ("set 2 delete 100-300", &[(100, 1), (200, 1), (400, 31), (500, 0)]),
        ("set 2 delete", &[(100, 1), (200, 1), (400, 31), (500, 0)]),
        ("set 2 flush", &[(100, 1), (200, 1), (400, 31), (500, 0)]),
        ("set 0 flush", &[(100, 1), (200, 1), (200, 2), (300, 2), (400, 31)]),
        ("delete set 31", &[(100, 1), (200, 1), (200, 2), (300, 2), (500, 0)]),
        ("set 31 flush", &[(100, 1), (200, 1), (200, 2), (300, 2), (500, 0)]),
        ("flush", &[(400, 31)]),
    ] {
        let mut fixture = Fixture::new(SETS);
        fixture.run(command);
        assert_eq!(rules(&fixture), left, "{command}");
    }
    let error = Fixture::new(SETS).try_run("set 2 delete 100").unwrap_err();
    assert_eq!((error.message.as_str(), error.exit_code), ("rule 100 not found", 69));
}

#[test]
fn deleted_sets_take_their_states_with_them() {
    for command in ["delete set 1", "set 1 delete 100", "set 1 flush", "delete 100", "flush"] {
        let mut fixture = Fixture::new("add 100 set 1 allow udp from any to any keep-state");
        fixture.check(udp());
        assert_eq!(fixture.firewall.states().len(), 1);
        fixture.run(command);
        assert_eq!(fixture.firewall.states().len(), 0, "{command}");
    }
}

#[test]
fn rules_change_their_set_by_set_or_by_number() {
    for (command, sets) in [
        ("set swap 1 2", [2, 2, 1, 1, 31, 0]),
        ("set swap 2 1", [2, 2, 1, 1, 31, 0]),
        ("set swap 1 5", [5, 5, 2, 2, 31, 0]),
        ("set move 1 to 2", [2, 2, 2, 2, 31, 0]),
        ("set move 5 to 2", [1, 1, 2, 2, 31, 0]),
        ("set move rule 200 to 7", [1, 7, 7, 2, 31, 0]),
        ("set move 31 to 3", [1, 1, 2, 2, 3, 0]),
    ] {
        let mut fixture = Fixture::new(SETS);
        fixture.run(command);
        let found: Vec<u8> = rules(&fixture).iter().map(|rule| rule.1).collect();
        assert_eq!(found, sets, "{command}");
    }
    let error = Fixture::new(SETS).try_run("set move rule 201 to 7").unwrap_err();
    assert_eq!((error.message.as_str(), error.exit_code), ("rule 201 not found", 69));
}

#[test]
fn the_last_set_cannot_be_disabled() {
    let mut fixture = Fixture::new("add 100 set 31 allow ip from any to any");
    let command = SetCommand::Change { disable: u32::MAX, enable: 0 };
    let command = IpfwCommand::Set(command);
    fixture.firewall.execute(&command, 0, CommandFlags::default()).unwrap();
    assert!(fixture.passes(udp()));
    assert_eq!(fixture.firewall.config().disabled_sets, u32::MAX >> 1);
}

#[test]
fn a_set_that_is_disabled_twice_stays_disabled() {
    let mut fixture = Fixture::new("add 100 set 3 allow ip from any to any");
    fixture.run("set disable 3");
    fixture.run("set disable 3 4");
    assert!(!fixture.passes(udp()));
    fixture.run("set enable 3");
    fixture.run("set enable 3");
    assert!(fixture.passes(udp()));
}

#[test]
fn counters_are_cleared_by_set_and_by_number() {
    for (command, text, left) in [
        ("set 1 zero", "Accounting cleared.\n", [0, 0, 2, 2, 2, 2]),
        ("set 2 zero 200", "Entry 200 cleared.\n", [2, 2, 0, 2, 2, 2]),
        ("zero 200", "Entry 200 cleared.\n", [2, 0, 0, 2, 2, 2]),
        ("zero 100-200 500", "Entry 100-200 cleared.\nEntry 500 cleared.\n", [0, 0, 0, 2, 2, 0]),
        ("set 1 resetlog 200", "Entry 200 logging count reset.\n", [2; 6]),
        ("resetlog", "Logging counts reset.\n", [2; 6]),
    ] {
        let mut fixture = Fixture::new(SETS);
        (0..2).for_each(|_| drop(fixture.check(udp())));
        assert_eq!(counts(&fixture), [2, 2, 2, 2, 2, 2, 0]);
        assert_eq!(fixture.run(command), text);
        assert_eq!(counts(&fixture)[..6], left, "{command}");
    }
    let mut fixture = Fixture::new(SETS);
    fixture.check(udp());
    let error = fixture.try_run("set 1 zero 100 300").unwrap_err();
    assert_eq!((error.message.as_str(), error.exit_code), ("Entry 300 not found", 69));
    assert_eq!(error.text, "Entry 100 cleared.\n", "what was done is told");
    assert_eq!(counts(&fixture), [0, 1, 1, 1, 1, 1, 0]);
}

#[test]
fn logging_begins_anew_for_the_rules_of_a_set() {
    let rules = "add 100 set 1 count log logamount 1 ip from any to any\n\
                 add 200 set 2 count log logamount 1 ip from any to any\nenable verbose";
    let mut fixture = Fixture::new(rules);
    let logged = |fixture: &Fixture| -> Vec<u64> {
        let list = &fixture.firewall.config().list;
        list.iter().map(|(_, counters)| counters.logged).take(2).collect()
    };
    (0..3).for_each(|_| drop(fixture.check(udp())));
    assert_eq!(logged(&fixture), [1, 1]);
    fixture.run("set 2 resetlog");
    assert_eq!((logged(&fixture), counts(&fixture)), (vec![1, 0], vec![3, 3, 3]));
}

#[test]
fn counts_of_rules_and_states_are_read_only_sysctls() {
    let mut fixture = Fixture::new(SETS);
    fixture.load("add 50 count udp from any to any keep-state");
    fixture.check(udp());
    fixture.check(udp_ports(1, 2));
    for (name, value) in [("default_rule", 65535), ("static_count", 8), ("dyn_count", 2)] {
        let name = format!("net.inet.ip.fw.{name}");
        assert_eq!(fixture.run(&format!("sysctl {name}")), format!("{name}: {value}\n"));
        assert!(fixture.run("sysctl -a").contains(&format!("{name}: {value}\n")));
        assert_eq!(fixture.try_run(&format!("sysctl {name}=5")).unwrap_err().exit_code, 65);
    }
}

#[test]
fn states_are_listed_with_the_set_that_their_rule_has_now() {
    let mut fixture = Fixture::new("add 100 set 1 allow udp from any to any keep-state");
    fixture.run("sysctl net.inet.ip.fw.dyn_keep_states=1");
    assert!(fixture.passes(udp()));
    let sets = |fixture: &Fixture| -> Vec<u8> {
        let has_state = |set: &u8| {
            let states = StateListing::Living;
            let options = ListOptions { states, set: Some(*set), ..Default::default() };
            fixture.firewall.list(&[], options, fixture.now).unwrap().contains(" STATE ")
        };
        (0..32).filter(has_state).collect()
    };
    assert_eq!(sets(&fixture), [1]);
    fixture.run("set move 1 to 2");
    assert_eq!(sets(&fixture), [2]);
    fixture.run("set swap 2 3");
    assert_eq!(sets(&fixture), [3]);
    fixture.run("delete 100");
    assert_eq!(sets(&fixture), [31], "the default rule has the state");
}
