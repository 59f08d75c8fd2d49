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
fn states_outlive_their_rule_if_they_are_to_stay() {
    let rules =
        "add 100 allow udp from any to any keep-state\nsysctl net.inet.ip.fw.dyn_keep_states=1";
    let (mut master, mut fixture) = pair(rules);
    drop(fixture.check(udp()));
    master.load("delete 100", 0).unwrap();
    fixture.firewall.adopt(&mut master.ruleset());
    let left: Vec<u16> =
        fixture.firewall.states().sorted().iter().map(|state| state.number).collect();
    assert_eq!(left, [65535], "they belong to the default rule");
}

#[test]
fn everything_that_rules_count_is_summed_and_the_last_match_is_the_latest() {
    let (mut master, mut fixture) = pair("add 100 count log ip from any to any\nenable verbose");
    fixture.now = 5;
    (0..3).for_each(|_| drop(fixture.check(udp())));
    let one = fixture.firewall.counters().to_vec();
    fixture.now = 9;
    fixture.check(udp());
    let other = fixture.firewall.counters().to_vec();
    for both in [[one.clone(), other.clone()], [other, one]] {
        master.show_counters(&both);
        let RuleCounters { packets, bytes, last_match_ns, logged } = master.counters()[0];
        assert_eq!((packets, bytes, last_match_ns, logged), (7, 7 * 46, Some(9), 7));
    }
    master.show_counters(&[]);
    assert_eq!(master.counters()[0], RuleCounters::default());
}

#[test]
fn flows_that_are_taken_over_replace_those_that_were_there() {
    let rules = "add 100 allow udp from any to any keep-state\nnat 1 config ip 203.0.113.9\n\
                 add 200 nat 1 ip from any to any";
    let (_, mut one) = pair(rules);
    let (_, mut other) = pair(rules);
    one.check(udp());
    one.cross(&mut ping(), &mut PacketMetadata::incoming(0).outgoing(1));
    (1..4).for_each(|port| drop(other.check(udp_ports(port, 9))));
    other.firewall.take_flows([one.firewall.flow_snapshot()]);
    assert_eq!(other.firewall.states().len(), 1);
    assert_eq!(other.firewall.nat_instance(1).unwrap().flows().count(), 1);
}

#[test]
fn the_flows_of_several_firewalls_are_taken_over_together() {
    let (_, mut all) = pair("add 100 allow udp from any to any keep-state");
    let mut parts = [
        pair("add 100 allow udp from any to any keep-state").1,
        pair("add 100 allow udp from any to any keep-state").1,
    ];
    for (part, port) in parts.iter_mut().zip([1, 2]) {
        assert!(part.passes(udp_ports(port, 53)));
    }
    all.firewall.take_flows(parts.iter().map(|part| part.firewall.flow_snapshot()));
    assert_eq!(all.firewall.states().len(), 2);
}

#[test]
fn translators_of_several_firewalls_are_shown_as_one() {
    let rules = "nat 1 config ip 203.0.113.9\nadd 200 nat 1 ip from any to any";
    let (mut master, mut fixture) = pair(rules);
    let mut out = |mut frame: Vec<u8>| {
        fixture.cross(&mut frame, &mut PacketMetadata::incoming(0).outgoing(1));
    };
    (1..=2).for_each(|port| out(udp_ports(port, 9)));
    out(ping());
    for port in 1..=3 {
        let ports = PortPair { src: port, dst: 80 };
        out(bytes(&spec(A, B, L4Spec::Tcp(TcpSpec { ports, flags: 2, ..Default::default() }))));
    }
    // SCTP: an INIT chunk. Protocol 47 has no ports.
    let mut init = udp_ports(7, 8);
    init[42] = 1;
    out(v4_with(&init, |ip| ip[9] = 132));
    out(v4_with(&udp(), |ip| ip[9] = 47));
    let stats = || fixture.firewall.translation_stats();
    master.show_translations([stats(), stats()]);
    let flows = master.nats()[0].flows.unwrap();
    let kinds = ["icmp", "udp", "tcp", "sctp", "other", "fragments"];
    assert_eq!(flows.map(|(kind, _)| kind), kinds);
    assert_eq!(flows.map(|(_, count)| count), [2, 4, 6, 2, 2, 0]);
    let command = parse_command("nat 1 show log").unwrap();
    let shown = master.execute(&command, 0, CommandFlags::default()).unwrap().text;
    let told = "icmp=2, udp=4, tcp=6, sctp=2, pptp=0, proto=2, frag_id=0 frag_ptr=0 / tot=16";
    assert!(shown.contains(told), "{shown}");
    let text = master.nats()[0].outcomes.unwrap();
    assert_eq!((text[0], text[3]), (("out", 16), ("flows_made", 16)));
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
