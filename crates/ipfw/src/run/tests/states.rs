//! Tests of keep-state, check-state and limit: states, their lifetimes, and the packets that they
//! pass.

use super::*;

const OUT: &str = "add 100 check-state :default\nadd 200 allow udp from 10.0.0.0/24 to any keep-state\nadd 300 deny ip from any to any";
const TCP: &str = "add 100 check-state\nadd 200 allow tcp from 10.0.0.0/24 to any setup keep-state\nadd 300 deny ip from any to any";
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x01;

#[test]
fn answers_pass_by_the_state_and_count_at_its_rule() {
    let mut fixture = Fixture::new(OUT);
    assert!(!fixture.passes(udp_back()));
    assert!(fixture.passes(udp()) && fixture.passes(udp_back()) && fixture.passes(udp()));
    assert_eq!((fixture.count(200), fixture.count(300)), (3, 1));
}

#[test]
fn the_first_packet_is_counted_in_the_rule_only() {
    let mut fixture = Fixture::new(OUT);
    (0..10).for_each(|_| assert!(fixture.passes(udp())));
    let state = fixture.firewall.states().sorted()[0].clone();
    assert_eq!((fixture.count(200), state.packets), (10, 9));
}

#[test]
fn names_tell_states_apart() {
    let mut fixture = Fixture::new(
        "add 100 check-state :IN\nadd 200 check-state :OUT\nadd 300 allow udp from 10.0.0.0/24 to any record-state :OUT",
    );
    assert!(fixture.passes(udp()) && fixture.passes(udp_back()));
    fixture.run("delete 200");
    assert!(!fixture.passes(udp_back()), "only :IN is asked for");
    fixture.run("add 200 check-state :any");
    assert!(fixture.passes(udp_back()));
}

#[test]
fn a_udp_state_ends_ten_seconds_after_its_last_packet() {
    let mut fixture = Fixture::new(OUT);
    fixture.passes(udp());
    fixture.now = 8 * SECOND;
    assert!(fixture.passes(udp_back()));
    fixture.now = 18 * SECOND - 1;
    assert!(fixture.passes(udp_back()));
    fixture.now += 10 * SECOND;
    assert!(!fixture.passes(udp_back()));
}

#[test]
fn a_half_open_connection_ends_after_twenty_seconds() {
    let mut fixture = Fixture::new(TCP);
    assert!(fixture.passes(tcp(SYN)));
    fixture.now = 20 * SECOND - 1;
    assert!(fixture.firewall.states().sorted()[0].expires_ns > fixture.now);
    fixture.now = 20 * SECOND;
    assert!(!fixture.passes(tcp_seq(true, SYN | ACK, 1, 2)));
}

fn open(fixture: &mut Fixture) {
    assert!(fixture.passes(tcp_seq(false, SYN, 100, 0)));
    assert!(fixture.passes(tcp_seq(true, SYN | ACK, 500, 101)));
    assert!(fixture.passes(tcp_seq(false, ACK, 101, 501)));
}

#[test]
fn an_open_connection_lives_three_hundred_seconds() {
    let mut fixture = Fixture::new(TCP);
    open(&mut fixture);
    assert_eq!(fixture.firewall.states().sorted()[0].expires_ns, 300 * SECOND);
}

#[test]
fn one_side_alone_keeps_no_connection_alive() {
    let mut fixture = Fixture::new(TCP);
    open(&mut fixture);
    fixture.now = 100 * SECOND;
    (0..5).for_each(|_| assert!(fixture.passes(tcp_seq(false, ACK, 101, 501))));
    assert_eq!(fixture.firewall.states().sorted()[0].expires_ns, 300 * SECOND);
    assert!(fixture.passes(tcp_seq(true, ACK, 501, 101)));
    assert_eq!(fixture.firewall.states().sorted()[0].expires_ns, 400 * SECOND);
}

#[test]
fn a_closed_connection_is_forgotten_in_a_second() {
    let mut fixture = Fixture::new(TCP);
    open(&mut fixture);
    assert!(fixture.passes(tcp_seq(false, FIN | ACK, 101, 501)));
    assert!(fixture.passes(tcp_seq(true, FIN | ACK, 501, 102)));
    assert!(fixture.passes(tcp_seq(false, ACK, 102, 502)));
    fixture.now = SECOND;
    fixture.firewall.tick(fixture.now, &mut fixture.outputs);
    assert!(fixture.firewall.states().is_empty());
    assert!(!fixture.passes(tcp_seq(false, ACK, 102, 502)));
}

#[test]
fn a_reset_forgets_the_connection_in_a_second() {
    let mut fixture = Fixture::new(TCP);
    open(&mut fixture);
    assert!(fixture.passes(tcp_seq(true, 0x04, 501, 0)));
    assert_eq!(fixture.firewall.states().sorted()[0].expires_ns, SECOND);
}

#[test]
fn keepalives_ask_both_ends_every_five_seconds_at_the_end() {
    let mut fixture = Fixture::new(TCP);
    open(&mut fixture);
    for second in 0..=300 {
        fixture.now = second * SECOND;
        fixture.firewall.tick(fixture.now, &mut fixture.outputs);
    }
    let frames = core::mem::take(&mut fixture.outputs.frames);
    assert_eq!(frames.len(), 8, "at 280, 285, 290 and 295 s");
    assert_eq!(frames[0].target, EmissionTarget::Port(0));
    assert_eq!(frames[1].target, EmissionTarget::From(0));
    let packet = crate::packet::PacketHeaders::parse(&frames[0].frame).unwrap();
    assert_eq!((packet.dst_port, packet.tcp_flags), (1000, ACK));
    assert_eq!(crate::packet::options::tcp_word(&frames[0].frame, &packet, 4), 500);
    assert_eq!(crate::packet::options::tcp_word(&frames[0].frame, &packet, 8), 101);
    assert_eq!(slipring_wire::checksum::of(&frames[0].frame[14..34]), 0);
    assert!(fixture.firewall.states().is_empty());
}

#[test]
fn keepalives_begin_in_time_when_lifetimes_are_short() {
    for (lifetime, expected) in [(30, vec![10, 15, 20, 25]), (15, vec![5, 10])] {
        let mut fixture = Fixture::new(TCP);
        fixture.run(&format!("sysctl net.inet.ip.fw.dyn_ack_lifetime={lifetime}"));
        open(&mut fixture);
        let mut sent = vec![];
        for second in 0..=lifetime {
            fixture.now = second * SECOND;
            fixture.firewall.tick(fixture.now, &mut fixture.outputs);
            let frames = core::mem::take(&mut fixture.outputs.frames).len();
            sent.extend((frames > 0).then_some(second));
        }
        assert_eq!(sent, expected, "{lifetime}");
        assert!(fixture.firewall.states().is_empty());
    }
}

#[test]
fn an_answered_keepalive_keeps_the_state() {
    let mut fixture = Fixture::new(TCP);
    open(&mut fixture);
    fixture.now = 281 * SECOND;
    fixture.firewall.tick(fixture.now, &mut fixture.outputs);
    assert_eq!(fixture.outputs.frames.len(), 2);
    assert!(
        fixture.passes(tcp_seq(false, ACK, 101, 501))
            && fixture.passes(tcp_seq(true, ACK, 501, 101))
    );
    assert_eq!(fixture.firewall.states().sorted()[0].expires_ns, 581 * SECOND);
}

#[test]
fn keepalives_can_be_switched_off() {
    let mut fixture = Fixture::new(TCP);
    fixture.run("disable dyn_keepalive");
    open(&mut fixture);
    fixture.now = 290 * SECOND;
    fixture.firewall.tick(fixture.now, &mut fixture.outputs);
    assert!(fixture.outputs.frames.is_empty());
}

#[test]
fn a_rule_counts_what_it_drops_for_want_of_a_state() {
    let rules = "add 100 allow udp from any to any 53 limit src-addr 2\n\
                 add 200 allow udp from any to any 54 keep-state";
    let mut fixture = Fixture::new(rules);
    (1..=5).for_each(|port| drop(fixture.check(udp_ports(port, 53))));
    assert_eq!(fixture.count(100), 5);
    fixture.run("sysctl net.inet.ip.fw.dyn_max=3");
    (1..=5).for_each(|port| drop(fixture.check(udp_ports(port, 54))));
    assert_eq!(fixture.count(200), 5);
}

#[test]
fn a_limit_counts_by_its_fields_and_denies_what_exceeds() {
    let mut fixture = Fixture::new("add 100 allow udp from any to any limit src-addr 2");
    assert!(fixture.passes(udp_ports(1, 53)) && fixture.passes(udp_ports(2, 53)));
    assert_eq!(fixture.check(udp_ports(3, 53)), RuleVerdict::Deny(DenyReason::StateLimit));
    assert!(fixture.passes(udp_ports(1, 53)), "an old flow goes on");
    assert!(fixture.passes(udp_from([10, 0, 0, 9])), "another source has a limit of its own");
    fixture.now = 30 * SECOND;
    fixture.firewall.tick(fixture.now, &mut fixture.outputs);
    assert!(fixture.passes(udp_ports(3, 53)), "the count falls as states end");
    assert_eq!(fixture.firewall.states().counters().refused_limit, 1);
}

#[test]
fn a_limit_may_come_from_a_table() {
    let mut fixture = Fixture::new(
        "table 1 create valtype limit\ntable 1 add 10.0.0.0/8 1\nadd 100 allow udp from table(1) to any limit src-addr tablearg",
    );
    assert!(fixture.passes(udp_ports(1, 53)) && !fixture.passes(udp_ports(2, 53)));
}

#[test]
fn record_state_makes_and_does_not_look() {
    let mut fixture =
        Fixture::new("add 100 allow udp from 10.0.0.0/24 to any record-state\nadd 200 check-state");
    assert!(fixture.passes(udp()) && fixture.passes(udp_back()));
    assert_eq!(fixture.count(100), 2, "the answer ran the rule's action");
    let mut fixture = Fixture::new(
        "add 100 count udp from any to any record-state\nadd 200 allow ip from any to any",
    );
    assert!(fixture.passes(udp()) && fixture.passes(udp()));
    assert_eq!(fixture.firewall.states().len(), 1, "a flow has one state of a name");
}

#[test]
fn a_deferred_action_waits_for_the_next_packet() {
    let mut fixture = Fixture::new(
        "add 100 deny udp from any to any keep-state defer-action\nadd 200 allow ip from any to any",
    );
    assert!(fixture.passes(udp()));
    assert_eq!((fixture.count(100), fixture.count(200)), (0, 1));
    assert!(!fixture.passes(udp()));
}

#[test]
fn states_of_icmp_pass_the_answer() {
    let mut fixture =
        Fixture::new("add 100 check-state\nadd 200 allow icmp from 10.0.0.1 to any keep-state");
    assert!(fixture.passes(ping()));
    let reply = bytes(&spec(B, A, L4Spec::Echo(EchoSpec { kind: EchoKind::Reply, id: 1, seq: 1 })));
    assert!(fixture.passes(reply));
    fixture.now = 6 * SECOND;
    assert!(
        fixture.firewall.states().sorted()[0].expires_ns <= fixture.now,
        "other protocols: 5 s"
    );
}

#[test]
fn states_work_for_ipv6() {
    let mut fixture = Fixture::new("add 100 allow udp from 2001:db8::1 to any keep-state");
    assert!(fixture.passes(udp6()) && fixture.passes(udp6()));
    assert_eq!(fixture.firewall.states().len(), 1);
}

#[test]
fn arp_needs_no_state() {
    let mut fixture = Fixture::new("add 100 allow ip from any to any keep-state");
    assert!(fixture.passes(arp()) && fixture.firewall.states().is_empty());
}

#[test]
fn states_go_with_their_rule_unless_they_are_to_stay() {
    let mut fixture = Fixture::new(OUT);
    fixture.passes(udp());
    fixture.run("delete 200");
    assert!(fixture.firewall.states().is_empty() && !fixture.passes(udp_back()));
    let mut fixture = Fixture::new(OUT);
    fixture.run("sysctl net.inet.ip.fw.dyn_keep_states=1");
    fixture.passes(udp());
    fixture.run("delete 200");
    assert_eq!(fixture.firewall.states().sorted()[0].number, 65535);
    assert!(!fixture.passes(udp_back()), "the default rule's action runs: deny");
    assert_eq!(fixture.count(65535), 1);
}

#[test]
fn states_of_a_disabled_set_stay_alive() {
    let mut fixture = Fixture::new(
        "add 100 check-state\nadd 200 set 3 allow udp from 10.0.0.0/24 to any keep-state",
    );
    fixture.passes(udp());
    fixture.run("set disable 3");
    assert!(fixture.passes(udp_back()));
}

#[test]
fn listing_counts_the_time_down() {
    let mut fixture = Fixture::new(OUT);
    fixture.passes(udp());
    fixture.passes(udp_back());
    fixture.now = 3 * SECOND;
    let options =
        ListOptions { counters: true, states: StateListing::Living, ..Default::default() };
    let text = fixture.firewall.list(&[], options, fixture.now).unwrap();
    let (_, states) = text.split_once("## ").unwrap();
    assert_eq!(
        states,
        "Dynamic rules (1 136):\n00200 1 46 (7s) STATE udp 10.0.0.1 1000 <-> 10.1.0.1 53 :default\n"
    );
}

#[test]
fn listing_shows_limits_and_their_parents() {
    let mut fixture = Fixture::new("add 100 allow udp from any to any limit src-addr 5 :x");
    fixture.passes(udp());
    let options = ListOptions { states: StateListing::Only, ..Default::default() };
    assert_eq!(
        fixture.firewall.list(&[], options, fixture.now).unwrap(),
        "## Dynamic rules (2 272):\n00100 PARENT 1 udp 10.0.0.1 0 <-> 0.0.0.0 0\n\
         00100 LIMIT udp 10.0.0.1 1000 <-> 10.1.0.1 53 :x\n"
    );
}

/// A packet looks up the states of a name only once. So a state whose rule jumps does not make the
/// packet loop.
#[test]
fn a_state_that_skips_ahead_is_met_once_by_a_packet() {
    let mut fixture = Fixture::new(
        "add 100 skipto 300 udp from any to any keep-state\nadd 200 deny ip from any to any\n\
         add 300 count ip from any to any\nadd 400 allow udp from any to any keep-state",
    );
    for packets in 1..=5 {
        assert!(fixture.passes(udp()));
        let counted = [100, 200, 300, 400].map(|number| fixture.count(number));
        assert_eq!(counted, [packets, 0, packets, packets]);
    }
    assert!(fixture.passes(udp_back()) && fixture.firewall.states().len() == 1);
}

#[test]
fn behind_a_state_that_does_not_end_the_search_the_next_rule_is_the_one_behind_its_rule() {
    for action in ["count", "setdscp 9", "setmark 7", "count tag 5", "skipto 150", "tcp-setmss 500"]
    {
        let mut fixture = Fixture::new(&format!(
            "add 100 {action} udp from any to any keep-state\nadd 200 count ip from any to any\n\
             add 300 allow udp from any to any keep-state"
        ));
        for packets in 1..=5 {
            assert!(fixture.passes(udp()), "{action}");
            let counted = [100, 200, 300].map(|number| fixture.count(number));
            assert_eq!(counted, [packets; 3], "{action}");
        }
    }
    // The result is the same with a `check-state` rule before and one after the state's rule.
    let mut fixture = Fixture::new(
        "add 100 check-state\nadd 200 count ip from any to any\n\
         add 300 count udp from 10.0.0.0/24 to any keep-state\nadd 400 count ip from any to any\n\
         add 500 check-state\nadd 600 allow ip from any to any",
    );
    assert!(fixture.passes(udp()) && fixture.passes(udp_back()));
    assert_eq!([200, 300, 400, 600].map(|number| fixture.count(number)), [1, 2, 2, 2]);
}

#[test]
fn each_name_is_looked_up_once_by_a_packet_and_any_name_is_the_last() {
    let mut fixture = Fixture::new(
        "add 100 count udp from any to any keep-state :a\nadd 200 count udp from any to any keep-state :b\n\
         add 300 check-state :any\nadd 400 check-state :any\nadd 500 allow ip from any to any keep-state :a",
    );
    // `:any` finds the newest state: the state of rule 200 that this packet created.
    assert!(fixture.passes(udp()));
    assert_eq!([100, 200, 500].map(|number| fixture.count(number)), [1, 2, 1]);
    assert!(fixture.passes(udp_back()));
    assert_eq!([100, 200, 500].map(|number| fixture.count(number)), [2, 4, 2]);
}

#[test]
fn a_packet_out_of_a_pipe_does_not_meet_its_state_again() {
    let mut fixture = Fixture::new(
        "disable one_pass\nadd 100 pipe 1 udp from any to any keep-state\nadd 200 check-state\n\
         add 300 allow ip from any to any",
    );
    for _ in 0..3 {
        let (mut frame, mut crossing) = (udp(), PacketMetadata::incoming(0));
        assert_eq!(fixture.cross(&mut frame, &mut crossing), RuleVerdict::Pipe(1));
        assert_eq!(fixture.cross(&mut frame, &mut crossing), RuleVerdict::Accept);
    }
    assert_eq!([100, 300].map(|number| fixture.count(number)), [3, 3]);
}

#[test]
fn calls_that_multiply_end_by_their_budget() {
    // Twelve subroutines; each one calls the next one four times.
    let rules: Vec<_> = (1..=12)
        .flat_map(|level| {
            let call = format!("add {level}00 call {} ip from any to any", (level + 1) * 100);
            let back = format!("add {level}00 return");
            std::iter::repeat_n(call, 4).chain([back])
        })
        .collect();
    let rules = format!("{}\nadd 1300 return", rules.join("\n"));
    for plain in [true, false] {
        let mut fixture = Fixture::new(&rules);
        fixture.firewall.set_plain(plain);
        assert_eq!(fixture.check(udp()), RuleVerdict::Deny(DenyReason::CallLoop));
        assert_eq!(fixture.firewall.drops().calls, 1);
    }
}

/// Returns the lifetime in seconds of a state after these segments. Each segment is given as
/// whether it goes back to the client, its flags and its acknowledgement number.
fn lifetime(segments: &[(bool, u8, u32)]) -> u64 {
    let mut fixture = Fixture::new("add 100 allow tcp from any to any keep-state");
    fixture.load(
        "sysctl net.inet.ip.fw.dyn_ack_lifetime=100\nsysctl net.inet.ip.fw.dyn_syn_lifetime=20\n\
         sysctl net.inet.ip.fw.dyn_fin_lifetime=3\nsysctl net.inet.ip.fw.dyn_rst_lifetime=4",
    );
    for &(back, flags, ack) in segments {
        fixture.passes(tcp_seq(back, flags, 1, ack));
    }
    fixture.firewall.states().sorted()[0].expires_ns / SECOND
}

#[test]
fn the_lifetime_of_a_connection_follows_the_flags_of_both_sides() {
    const RST: u8 = 0x04;
    const OPEN: [(bool, u8, u32); 3] = [(false, SYN, 0), (true, SYN | ACK, 2), (false, ACK, 2)];
    let after = |more: &[(bool, u8, u32)]| lifetime(&[&OPEN[..], more].concat());
    // No SYN opened the connection, or only one side has sent a SYN.
    assert_eq!(lifetime(&[(false, ACK, 1)]), 4);
    assert_eq!(lifetime(&[(false, SYN, 0)]), 20);
    assert_eq!(lifetime(&[(false, SYN, 0), (false, ACK, 1)]), 20);
    assert_eq!(lifetime(&[(false, SYN, 0), (true, RST, 0)]), 4);
    assert_eq!(lifetime(&[(false, SYN | FIN, 0)]), 4);
    // The connection is open on both sides; then one side closes it, or both do, or one resets it.
    assert_eq!(after(&[]), 100);
    assert_eq!(after(&[(false, FIN | ACK, 2)]), 100);
    assert_eq!(after(&[(false, FIN | ACK, 2), (true, FIN | ACK, 3)]), 3);
    assert_eq!(after(&[(true, FIN | ACK, 2), (true, ACK, 2)]), 100);
    for back in [false, true] {
        assert_eq!(after(&[(back, RST, 0)]), 4);
        assert_eq!(after(&[(back, RST, 0), (!back, ACK, 9)]), 4);
    }
}

#[test]
fn only_acknowledgements_of_both_sides_that_do_not_go_back_renew_a_connection() {
    let mut fixture = Fixture::new(TCP);
    open(&mut fixture);
    let mut expires = |second: u64, segments: &[(bool, u8, u32)]| {
        fixture.now = second * SECOND;
        for &(back, flags, ack) in segments {
            fixture.passes(tcp_seq(back, flags, 1, ack));
        }
        fixture.firewall.states().sorted()[0].expires_ns / SECOND
    };
    assert_eq!(expires(10, &[(false, ACK, 501), (true, ACK, 101)]), 310, "the same again counts");
    assert_eq!(expires(20, &[(false, ACK, 500), (true, ACK, 101)]), 310, "the first is old");
    assert_eq!(expires(30, &[(false, ACK, 501)]), 330, "now both have");
    assert_eq!(expires(40, &[(false, 0, 900), (true, ACK, 102)]), 330, "no acknowledgement");
    assert_eq!(expires(50, &[(false, ACK, 0x7000_0000)]), 350);
    // An acknowledgement number that is ahead by half the number space or more counts as old.
    assert_eq!(expires(60, &[(false, ACK, 0xf000_0001), (true, ACK, 103)]), 350);
    assert_eq!(expires(70, &[(false, ACK, 0xefff_ffff)]), 370);
}

#[test]
fn udp_lite_lives_as_udp_and_others_live_short() {
    for (proto, seconds) in [(17, 10), (136, 10), (47, 5), (132, 5)] {
        let mut fixture = Fixture::new("add 100 allow ip from any to any keep-state");
        assert!(fixture.passes(v4_with(&udp(), |ip| ip[9] = proto)));
        assert_eq!(fixture.firewall.states().sorted()[0].expires_ns, seconds * SECOND, "{proto}");
    }
}

#[test]
fn old_states_are_listed_only_if_they_are_asked_for() {
    let mut fixture = Fixture::new(OUT);
    fixture.passes(udp());
    let listed = |fixture: &Fixture, states| {
        let options = ListOptions { states, ..Default::default() };
        fixture.firewall.list(&[], options, fixture.now).unwrap().contains(" STATE ")
    };
    fixture.now = 10 * SECOND - 1;
    assert!(listed(&fixture, StateListing::Living) && listed(&fixture, StateListing::Only));
    // A UDP state lives for ten seconds. When this time has passed, it has expired.
    for old in [10, 15] {
        fixture.now = old * SECOND;
        assert!(!listed(&fixture, StateListing::Living) && !listed(&fixture, StateListing::Only));
        assert!(listed(&fixture, StateListing::All) && !listed(&fixture, StateListing::None));
    }
}
