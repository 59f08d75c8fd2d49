//! Tests of states that are saved and restored, with their rules.

use alloc::boxed::Box;

use proptest::prelude::*;

use super::*;
use crate::rule::LimitFields;
use crate::state::{FlowEthernet, TcpStateInfo};
use crate::table::IpfwFlowKey;
use crate::text::{IpfwCommand, StateCommand};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const TCP: &str = "add 100 check-state\nadd 200 allow tcp from 10.0.0.0/24 to any setup keep-state :web\n\
     add 300 allow udp from any to any limit src-addr 2\nadd 400 deny ip from any to any";

/// Returns the states of a firewall as commands, one per line.
fn written(fixture: &Fixture) -> String {
    let commands =
        fixture.firewall.state_commands(&[fixture.firewall.states().snapshot()], fixture.now);
    commands.iter().map(|command| format!("{command}\n")).collect()
}

/// Builds a firewall with the states of an open connection and of a flow that `limit` counts.
fn used() -> Fixture {
    let mut fixture = Fixture::new(&TCP.replace(":web", ""));
    fixture.load("delete 200\nadd 200 allow tcp from 10.0.0.0/24 to any setup keep-state :web\nadd 150 check-state :web");
    fixture.firewall.set_epoch_ns(1_000_000 * SECOND);
    assert!(fixture.passes(tcp_seq(false, SYN, 100, 0)));
    assert!(fixture.passes(tcp_seq(true, SYN | ACK, 500, 101)));
    assert!(fixture.passes(tcp_seq(false, ACK, 101, 501)));
    assert!(fixture.passes(udp()));
    fixture
}

/// Builds another firewall with the same rules and the states in `states`, which it loads
/// `seconds_later` seconds later by the wall clock.
fn restarted(states: &str, seconds_later: u64) -> Fixture {
    let mut fixture = used();
    fixture.load("flush");
    assert!(fixture.firewall.states().is_empty());
    fixture.firewall.set_epoch_ns((1_000_000 + seconds_later) * SECOND);
    let web = TCP.replace("check-state", "check-state :web");
    fixture.load(&format!("{web}\n{states}"));
    fixture
}

#[test]
fn a_state_that_is_written_down_lets_its_session_go_on_where_all_else_is_denied() {
    let before = used();
    let states = written(&before);
    let mut fixture = restarted(&states, 0);
    assert!(fixture.firewall.take_restored().refused.is_empty());
    assert!(fixture.passes(tcp_seq(true, ACK, 501, 102)), "{states}");
    assert!(fixture.passes(tcp_seq(false, ACK, 102, 501)));
    assert!(
        !restarted("", 0).passes(tcp_seq(true, ACK, 501, 102)),
        "without the state it does not"
    );
    // Keepalives leave by the same port as before.
    fixture.now = 285 * SECOND;
    fixture.firewall.tick(fixture.now, &mut fixture.outputs);
    let sent: Vec<_> = fixture.outputs.frames.iter().map(|sent| sent.target).collect();
    assert_eq!(sent, [EmissionTarget::Port(0), EmissionTarget::From(0)]);
    let first = written(&before);
    assert_eq!(written(&restarted(&first, 0)), first, "to the last digit");
}

#[test]
fn a_limit_counts_the_states_that_came_back() {
    let mut fixture = restarted(&written(&used()), 0);
    assert!(fixture.passes(udp_ports(1001, 53)));
    assert!(!fixture.passes(udp_ports(1002, 53)), "the third from this host");
    assert_eq!(fixture.firewall.states().parents().map(|(_, _, count)| count).max(), Some(2));
}

#[test]
fn a_state_has_what_was_left_of_its_time_and_none_comes_back_after_it() {
    let states = written(&used());
    for (later, left) in [(0, 300), (120, 180), (299, 1)] {
        let fixture = restarted(&states, later);
        let tcp = fixture.firewall.states().sorted()[0].expires_ns;
        assert_eq!(tcp, left * SECOND, "{later} s later");
    }
    let mut late = restarted(&states, 300);
    assert!(late.firewall.states().is_empty());
    assert!(late.firewall.take_restored().refused.is_empty(), "that is nobody's mistake");
    // A clock that was set back does not extend a lifetime.
    let mut fixture = restarted("", 0);
    fixture.firewall.set_epoch_ns(0);
    fixture.load(&states);
    assert_eq!(fixture.firewall.states().sorted()[0].expires_ns, 300 * SECOND);
    let error = late.try_run(states.lines().next().unwrap()).unwrap_err();
    assert!(error.message.contains("its time is over"), "{error}");
}

#[test]
fn a_state_whose_rule_is_gone_or_another_is_left_out_by_name() {
    let states = written(&used());
    let mut fixture = restarted("", 0);
    fixture.load(&format!("delete 200\n{states}"));
    let refused = fixture.firewall.take_restored().refused;
    assert_eq!(refused.len(), 1, "{refused:?}");
    let said = "state tcp 10.0.0.1 1000 <-> 10.1.0.1 80 :web: there is no rule 200";
    assert_eq!(refused[0], (2, said.to_string()));
    assert_eq!(fixture.firewall.states().len(), 1, "the other one is there");
    let tcp = states.lines().next().unwrap();
    for (rule, why) in [
        ("allow ip from any to any", "rule 200 keeps no such states"),
        ("allow tcp from any to any keep-state :other", "rule 200 keeps no such states"),
        ("allow tcp from any to any limit src-addr 3 :web", "rule 200 keeps no such states"),
    ] {
        fixture.load(&format!("delete 200-65000\nadd 200 {rule}"));
        let error = fixture.try_run(tcp).unwrap_err();
        assert!(error.message.contains(why), "{error}");
        assert_eq!(error.exit_code, 69);
    }
    let second = tcp.replace("state 00200", "state 00200.2");
    assert!(
        fixture.try_run(&second).unwrap_err().message.contains("there are fewer than 2 rules 200")
    );
    fixture.load("add 200 allow tcp from any to any setup keep-state :web");
    fixture.run(&second);
    assert!(written(&fixture).contains("state 00200.2 tcp"));
}

#[test]
fn what_lives_is_newer_than_what_was_written_down() {
    let mut fixture = used();
    let states = written(&fixture);
    fixture.now += SECOND;
    assert!(fixture.passes(udp()));
    let before = written(&fixture);
    fixture.load(&states);
    assert_eq!(written(&fixture), before);
}

#[test]
fn rules_that_come_back_as_they_were_keep_counters_and_states() {
    let mut fixture = used();
    let (counted, states) = (fixture.count(200), written(&fixture));
    let again = format!(
        "flush\n{}\nadd 150 check-state :web",
        TCP.replace("check-state", "check-state :default")
    );
    fixture.load(&again);
    assert_eq!((fixture.count(200), fixture.firewall.states().len()), (counted, 2));
    assert_eq!(written(&fixture), states);
    assert!(fixture.passes(tcp_seq(true, ACK, 501, 102)));
    assert_eq!(fixture.count(200), counted + 1);
    // A rule with the same number but other conditions is a different rule.
    fixture.load(&again.replace("10.0.0.0/24", "10.0.0.0/23"));
    assert_eq!((fixture.count(200), fixture.firewall.states().len()), (0, 1));
    assert!(!fixture.passes(tcp_seq(true, ACK, 501, 102)));
    // Two equal rules are restored as two rules.
    fixture.load("flush\nadd 7 count ip from any to any\nadd 7 count ip from any to any");
    let ids = |fixture: &Fixture| {
        fixture.firewall.config().list.iter().map(|(entry, _)| entry.id).collect::<Vec<_>>()
    };
    let before = ids(&fixture);
    fixture.load("flush\nadd 7 count ip from any to any\nadd 7 count ip from any to any\nadd 7 deny ip from any to any");
    assert_eq!((&ids(&fixture)[..2], fixture.numbers().len()), (&before[..2], 4));
}

#[test]
fn mistakes_that_show_as_commands_are_carried_out_are_told_together_and_nothing_is_done() {
    let mut fixture = Fixture::new(
        "table t create type number\ntable t add 5 1\nadd 100 allow ip from any to any",
    );
    let (list, tables) = (fixture.run("list"), fixture.run("table all list"));
    let error = fixture.firewall.load(
        "flush\ndelete 77\ntable t create\ntable t add 5 2\nadd 10 allow ip from any to any\n\
         table nobody list\nsysctl no.such=1\nadd 20 fwd port:nowhere ip from any to any",
        0,
    );
    let CommandFileError::Commands(mistakes) = error.unwrap_err() else { panic!() };
    let messages: Vec<_> = mistakes.iter().map(LineError::to_string).collect();
    assert_eq!(
        messages,
        [
            "line 2: rule 77 not found",
            "line 3: Table t: File exists",
            "line 4: Adding record failed: record already exists",
            "line 6: Table nobody not found",
            "line 7: unknown oid 'no.such'; `sysctl -a` lists all names",
            "line 8: there is no port nowhere: there are em0, em1",
        ]
    );
    assert_eq!((fixture.run("list"), fixture.run("table all list")), (list, tables));
    let many = "delete 77\n".repeat(50);
    let CommandFileError::Commands(mistakes) = fixture.firewall.load(&many, 0).unwrap_err() else {
        panic!()
    };
    assert_eq!(mistakes.len(), MAX_LINE_ERRORS);
}

prop_compose! {
    fn any_flow()(
        is_v6 in any::<bool>(), src in any::<u128>(), dst in any::<u128>(),
        proto in any::<u8>(), src_port in any::<u16>(), dst_port in any::<u16>(),
    ) -> IpfwFlowKey {
        let fit = |bits: u128| if is_v6 { bits } else { bits & 0xffff_ffff };
        IpfwFlowKey { is_v6, src: fit(src), proto, src_port, dst: fit(dst), dst_port }
    }
}

prop_compose! {
    fn any_state()(
        flow in any_flow(),
        (rule, nth) in (1u16..65535, 1u32..9),
        (left_ns, at_unix_ns) in (1u64..1 << 50, proptest::option::of(0u64..1 << 62)),
        (macs, tags) in (any::<[[u8; 6]; 2]>(), any::<[u16; 2]>()),
        (tagged, has_port, has_limit) in (0usize..3, any::<bool>(), any::<bool>()),
        (src_addr, src_port, dst_addr) in (any::<bool>(), any::<bool>(), any::<bool>()),
        (flags, acks, acked) in ([0u8..8, 0u8..8], any::<[u32; 2]>(), 0u8..4),
        (packets, bytes) in (any::<u64>(), any::<u64>()),
    ) -> StateCommand {
        let tag = |at: usize| (at < tagged).then_some(slipring_wire::assigned::VlanTag(tags[at]));
        let [src_mac, dst_mac] = macs.map(MacAddr);
        StateCommand {
            line: 1, rule, nth, flow, left_ns, at_unix_ns, packets, bytes,
            name: "a.name_of-5".parse().unwrap(),
            link: FlowEthernet { src_mac, dst_mac, tags: [tag(0), tag(1)] },
            port: has_port.then(|| "vale0:1".into()),
            limit: has_limit.then_some(LimitFields { src_addr, src_port, dst_addr, dst_port: true }),
            tcp: TcpStateInfo { flags, acks, acked },
        }
    }
}

proptest! {
    #[test]
    fn a_state_reads_back_as_it_was_written(state in any_state()) {
        let text = state.to_string();
        prop_assert_eq!(parse_command(&text), Ok(IpfwCommand::State(Box::new(state))), "{}", text);
    }
}

#[test]
fn mistakes_in_a_state_are_told_where_they_stand() {
    let good = "state 100 tcp 10.0.0.1 1 10.0.0.2 2 :x left 5";
    assert!(parse_command(good).is_ok());
    for (text, column) in [
        ("state 0 tcp 10.0.0.1 1 10.0.0.2 2 left 5", 7),
        ("state 100.0 tcp 10.0.0.1 1 10.0.0.2 2 left 5", 7),
        ("state 100 tcpp 10.0.0.1 1 10.0.0.2 2 left 5", 11),
        ("state 100 tcp 10.0.0.1 70000 10.0.0.2 2 left 5", 24),
        ("state 100 tcp 10.0.0.1 1 2001:db8::1 2 left 5", 26),
        ("state 100 tcp 10.0.0.1 1 10.0.0.2 2 :any left 5", 37),
        ("state 100 tcp 10.0.0.1 1 10.0.0.2 2", 36),
        ("state 100 tcp 10.0.0.1 1 10.0.0.2 2 left 5.0000000001", 42),
        ("state 100 tcp 10.0.0.1 1 10.0.0.2 2 left 5 mac 1:2 3", 48),
        ("state 100 tcp 10.0.0.1 1 10.0.0.2 2 left 5 seen syn", 49),
        ("state 100 tcp 10.0.0.1 1 10.0.0.2 2 left 5 seen syn/psh", 49),
        ("state 100 tcp 10.0.0.1 1 10.0.0.2 2 left 5 tag 1,2,3", 48),
        ("state 100 tcp 10.0.0.1 1 10.0.0.2 2 left 5 acked all", 50),
        ("state 100 tcp 10.0.0.1 1 10.0.0.2 2 left 5 limit all,x", 50),
        ("state 100 tcp 10.0.0.1 1 10.0.0.2 2 left 5 sideways", 44),
    ] {
        let error = parse_command(text).unwrap_err();
        assert_eq!(error.column, column, "{text}: {error}");
    }
}

#[test]
fn restored_states_count_towards_their_limit_and_know_where_they_came_in() {
    let mut fixture = used();
    assert!(fixture.passes(udp_ports(1001, 53)));
    let states = written(&fixture);
    let mut fixture = restarted(&states, 1);
    let options = ListOptions { states: StateListing::Only, ..Default::default() };
    let text = fixture.firewall.list(&[], options, fixture.now).unwrap();
    assert!(text.contains(" PARENT 2 "), "{text}");
    assert!(!fixture.passes(udp_ports(1002, 53)), "two flows of the source are restored");
    let again = written(&fixture);
    assert!(again.lines().all(|line| line.contains(" in em0")), "{again}");
}

#[test]
fn states_that_are_taken_and_restored_are_found_counted_and_limited_as_before() {
    let rules = "add 10 count udp from any to any 53 record-state :a\n\
                 add 20 count udp from any to any 53 record-state :b\n\
                 add 30 allow udp from any to any 53 limit src-addr 1\nadd 40 check-state";
    let mut fixture = Fixture::new(rules);
    assert!(fixture.passes(udp()) && !fixture.passes(udp_ports(1, 53)));
    // The first flow has three states. The second has two, because the limit refused the third.
    let listed = |fixture: &Fixture| {
        let states = fixture.firewall.states().sorted().into_iter();
        states.map(|state| (state.number, state.packets, state.expires_ns)).collect::<Vec<_>>()
    };
    let before = listed(&fixture);
    let taken = fixture.firewall.take_states(fixture.now);
    assert_eq!((taken.len(), fixture.firewall.states().len()), (5, 0));
    assert_eq!(fixture.firewall.next_tick_ns(), None);
    assert_eq!(fixture.firewall.restore(taken, fixture.now), 0);
    assert_eq!(listed(&fixture), before);
    assert!(fixture.passes(udp()) && fixture.passes(udp_back()));
    assert!(!fixture.passes(udp_ports(2, 53)), "the limit is reached");
    fixture.now = 100 * SECOND;
    assert_eq!(fixture.firewall.take_states(fixture.now).len(), 0, "they have expired");
}
