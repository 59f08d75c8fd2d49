//! Tests of rules parsed by one firewall and adopted by another.

use alloc::vec::Vec;

use super::*;

/// Two firewalls: one parses commands, the other one checks packets.
fn pair(text: &str) -> (Firewall, Fixture) {
    let mut master = Firewall::new(1, [1, 2]);
    master.set_plain(true);
    master.load(text, 0).unwrap();
    let mut fixture = Fixture::new("");
    fixture.firewall.adopt(&mut master.ruleset());
    (master, fixture)
}

#[test]
fn rules_that_stay_keep_their_counters_when_others_come_and_go() {
    let (mut master, mut fixture) =
        pair("add 100 count udp from any to any\nadd 200 allow ip from any to any");
    (0..3).for_each(|_| drop(fixture.check(udp())));
    master.load("delete 200\nadd 150 deny udp from any to any 9", 0).unwrap();
    fixture.firewall.adopt(&mut master.ruleset());
    assert_eq!((fixture.count(100), fixture.count(150), fixture.count(65535)), (3, 0, 0));
    (0..2).for_each(|_| drop(fixture.check(udp())));
    assert_eq!((fixture.count(100), fixture.count(65535)), (5, 2));
    let counters = [fixture.firewall.counters().to_vec(), fixture.firewall.counters().to_vec()];
    master.show_counters(&counters);
    let listed: Vec<_> = master.config().list.iter().map(|(_, c)| c.packets).collect();
    assert_eq!(listed, [10, 0, 4], "two of the same are summed");
}

#[test]
fn states_go_with_their_rule_and_stay_when_others_go() {
    let rules = "add 100 allow udp from any to any keep-state\nadd 200 count ip from any to any";
    let (mut master, mut fixture) = pair(rules);
    drop(fixture.check(udp()));
    assert_eq!(fixture.firewall.states().len(), 1);
    master.load("delete 200", 0).unwrap();
    fixture.firewall.adopt(&mut master.ruleset());
    assert_eq!(fixture.firewall.states().len(), 1);
    master.show_states([fixture.firewall.states().snapshot()].into());
    assert_eq!(master.states().len(), 1);
    master.load("delete 100", 0).unwrap();
    fixture.firewall.adopt(&mut master.ruleset());
    assert!(fixture.firewall.states().is_empty());
}

#[test]
fn what_is_undone_was_never_there() {
    let (mut master, _) = pair("add 100 allow ip from any to any");
    let before = master.before();
    master
        .load("flush\nadd 5 deny ip from any to any\nsysctl net.inet.ip.fw.dyn_max=7", 0)
        .unwrap();
    master.undo(before);
    let numbers: Vec<_> = master.config().list.iter().map(|(entry, _)| entry.number).collect();
    assert_eq!((numbers, master.states().max), ([100, 65535].to_vec(), 16384));
}
