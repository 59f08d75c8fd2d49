//! Tests of the order in which rules are evaluated: rule numbers, `skipto`, `call`, `prob`, sets.

use super::*;

const ALL: &str = "ip from any to any";

#[test]
fn an_empty_list_denies_and_an_open_one_allows() {
    let mut fixture = Fixture::new("");
    assert_eq!(fixture.check(udp()), RuleVerdict::Deny(DenyReason::Rule));
    assert_eq!(fixture.count(65535), 1);
    let mut open = Firewall::open(1, [1, 2]);
    let verdict =
        open.check(&mut udp(), &mut PacketMetadata::incoming(0), 0, &mut CheckOutputs::default());
    assert_eq!(verdict, RuleVerdict::Accept);
}

#[test]
fn allow_passes_pings_of_both_versions() {
    let mut fixture = Fixture::new("add 100 allow ip from any to any");
    assert!(fixture.passes(ping()) && fixture.passes(ping6()));
    assert_eq!(fixture.count(100), 2);
}

#[test]
fn deny_stops_pings_of_both_versions() {
    let mut fixture = Fixture::new(
        "add 100 deny icmp from any to any\nadd 101 deny ipv6-icmp from any to any\nadd 200 allow ip from any to any",
    );
    assert!(!fixture.passes(ping()) && !fixture.passes(ping6()) && fixture.passes(udp()));
}

#[test]
fn deny_out_stops_frames_on_their_way_out_only() {
    let mut fixture =
        Fixture::new("add 100 deny all from any to any out\nadd 200 allow ip from any to any");
    let (mut frame, mut crossing) = (udp(), PacketMetadata::incoming(0));
    assert_eq!(fixture.cross(&mut frame, &mut crossing), RuleVerdict::Accept);
    let mut crossing = crossing.outgoing(1);
    assert_eq!(fixture.cross(&mut frame, &mut crossing), RuleVerdict::Deny(DenyReason::Rule));
    assert_eq!((fixture.count(100), fixture.count(200)), (1, 1));
}

#[test]
fn the_first_match_ends_the_search() {
    let mut fixture = Fixture::new(
        "add 100 count ip from any to any\nadd 200 allow udp from any to any\nadd 300 deny ip from any to any",
    );
    assert!(fixture.passes(udp()));
    assert_eq!((fixture.count(100), fixture.count(200), fixture.count(300)), (1, 1, 0));
}

#[test]
fn rules_of_one_number_keep_their_order() {
    let mut fixture =
        Fixture::new("add 100 deny udp from any to any\nadd 100 allow ip from any to any");
    assert!(!fixture.passes(udp()) && fixture.passes(ping()));
}

#[test]
fn a_rule_without_a_number_comes_a_step_behind_the_last() {
    let mut fixture = Fixture::new("add 100 count ip from any to any");
    assert_eq!(fixture.run("add count ip from any to any"), "00200 count ip from any to any\n");
    fixture.run("sysctl net.inet.ip.fw.autoinc_step=10");
    fixture.run(&format!("add count {ALL}"));
    assert_eq!(fixture.numbers(), [100, 200, 210, 65535]);
}

#[test]
fn a_number_that_overflows_repeats_the_last_one() {
    let mut fixture =
        Fixture::new("add 65534 count ip from any to any\nadd count ip from any to any");
    assert_eq!(fixture.numbers(), [65534, 65534, 65535]);
    fixture.run("add allow ip from any to any");
    assert!(fixture.passes(udp()));
}

#[test]
fn the_number_of_the_default_rule_is_given_to_no_other() {
    for (first, next) in [(65434, 65534), (65435, 65435), (65533, 65533)] {
        let mut fixture = Fixture::new(&format!("add {first} count {ALL}"));
        fixture.run(&format!("add allow {ALL}"));
        assert_eq!(fixture.numbers(), [first, next, 65535]);
        assert!(!fixture.firewall.config().list.is_empty());
        assert_eq!(fixture.firewall.config().list.len(), 3);
    }
}

#[test]
fn a_tag_is_set_once() {
    let mut fixture = Fixture::new(&format!(
        "add 100 count tag 5 {ALL}\nadd 200 count tag 6 {ALL}\nadd 300 count tag 5 {ALL}\n\
         add 400 allow untag 6 {ALL}"
    ));
    let mut crossing = PacketMetadata::incoming(0);
    fixture.cross(&mut udp(), &mut crossing);
    assert_eq!(crossing.tags, [5]);
}

#[test]
fn on_its_way_out_a_packet_begins_at_the_first_rule_with_its_tags_and_mark() {
    let mut fixture = Fixture::new(&format!(
        "disable one_pass\nadd 100 setmark 7 {ALL}\nadd 200 pipe 1 tag 5 {ALL}"
    ));
    let mut crossing = PacketMetadata::incoming(0);
    assert_eq!(fixture.cross(&mut udp(), &mut crossing), RuleVerdict::Pipe(1));
    assert_eq!(crossing.resume.map(|resume| resume.number), Some(200));
    let out = crossing.outgoing(1);
    assert_eq!((out.pass, out.recv, out.xmit), (CheckPass::Out, Some(0), Some(1)));
    assert_eq!((out.resume, out.mark, out.tags), (None, 7, vec![5]));
}

#[test]
fn only_without_one_pass_a_packet_comes_back_from_the_shaper() {
    let mut fixture = Fixture::new("");
    assert!(!fixture.firewall.continues_after_shaper());
    fixture.run("disable one_pass");
    assert!(fixture.firewall.continues_after_shaper());
}

#[test]
fn the_plain_interpreter_has_no_program() {
    let mut fixture = Fixture::new("add 100 allow udp from any to any");
    assert!(fixture.firewall.program().is_some_and(|program| program.size_bytes() > 0));
    fixture.firewall.set_plain(true);
    assert!(fixture.firewall.program().is_none());
    assert!(fixture.passes(udp()) && !fixture.passes(ping()));
    fixture.firewall.set_plain(false);
    assert!(fixture.firewall.program().is_some());
}

#[test]
fn sets_have_tables_of_their_own_only_if_told_so() {
    let rules = "table t create\nadd 100 set 3 allow ip from table(t) to any";
    for (separate, passes) in [(false, [true, true]), (true, [false, true])] {
        let mut fixture =
            Fixture::new(&format!("sysctl net.inet.ip.fw.tables_sets={}", u8::from(separate)));
        fixture.load(rules);
        fixture.run("table t add 10.0.0.1");
        assert_eq!(fixture.passes(udp()), passes[0], "{separate}");
        fixture.run("set 3 table t add 10.0.0.2");
        assert_eq!(fixture.passes(udp_from([10, 0, 0, 2])), passes[1], "{separate}");
    }
}

#[test]
fn a_batch_that_is_used_again_has_the_new_results_only() {
    let mut fixture =
        Fixture::new("add 100 allow udp from any to any\nadd 200 pipe 1 ip from any to any");
    let mut batch = CheckedBatch::default();
    for frames in [[udp(), ping()], [ping(), ping()], [udp(), udp()]] {
        let mut all = frames.clone();
        let outputs = &mut fixture.outputs;
        fixture.firewall.check_all(&mut all[..], 2, (0, 0), outputs, &mut batch);
    }
    assert_eq!(batch.drain().collect::<Vec<_>>(), vec![CheckResult::Accepted; 2]);
    assert_eq!(batch.drain().count(), 0);
}

#[test]
fn a_rule_that_no_packet_matched_has_no_time_of_its_last_match() {
    let mut fixture = Fixture::new(&format!("add 100 allow {ALL}"));
    let mut batch = CheckedBatch::default();
    let mut check = |frame: Vec<u8>, now| {
        let outputs = &mut fixture.outputs;
        fixture.firewall.check_all(&mut [frame][..], 1, (0, now), outputs, &mut batch);
        fixture.firewall.config().list.iter().next().unwrap().1.last_match_ns
    };
    // The first frame is malformed: it has only 6 bytes of its IPv4 header.
    assert_eq!(check(udp()[..20].to_vec(), 5), None);
    assert_eq!(check(udp(), 6), Some(6));
}

#[test]
fn skipto_goes_on_at_its_target() {
    let mut fixture = Fixture::new(
        "add 100 skipto 300 ip from any to any\nadd 200 deny ip from any to any\nadd 300 allow ip from any to any",
    );
    assert!(fixture.passes(udp()));
    assert_eq!((fixture.count(100), fixture.count(200), fixture.count(300)), (1, 0, 1));
}

#[test]
fn skipto_never_goes_back() {
    let mut fixture = Fixture::new(
        "add 100 count ip from any to any\nadd 200 skipto 100 ip from any to any\nadd 200 deny ip from any to any\nadd 201 allow ip from any to any",
    );
    assert!(fixture.passes(udp()));
    assert_eq!(fixture.count(100), 1);
}

#[test]
fn skipto_without_a_rule_at_its_target_takes_the_next_one() {
    let mut fixture = Fixture::new(
        "add 100 skipto 250 ip from any to any\nadd 200 deny ip from any to any\nadd 300 allow ip from any to any",
    );
    assert!(fixture.passes(udp()));
    fixture.run("add 110 skipto 60000 ip from any to any");
    fixture.run("delete 100");
    assert!(!fixture.passes(udp()));
}

#[test]
fn call_returns_above_the_caller() {
    let mut fixture = Fixture::new(
        "add 100 call 1000 ip from any to any\nadd 100 deny udp from any to any\nadd 200 allow ip from any to any\nadd 1000 count ip from any to any\nadd 1100 return",
    );
    assert!(fixture.passes(udp()));
    assert_eq!((fixture.count(1000), fixture.count(1100), fixture.count(200)), (1, 1, 1));
}

#[test]
fn return_next_rule_goes_on_right_behind_the_caller() {
    let mut fixture = Fixture::new(
        "add 100 call 1000 ip from any to any\nadd 100 deny udp from any to any\nadd 200 allow ip from any to any\nadd 1000 return next-rule",
    );
    assert!(!fixture.passes(udp()) && fixture.passes(ping()));
}

#[test]
fn return_without_a_call_goes_on() {
    let mut fixture = Fixture::new("add 100 return\nadd 200 allow ip from any to any");
    assert!(fixture.passes(udp()));
}

#[test]
fn calls_deeper_than_sixteen_drop_the_packet() {
    let mut fixture =
        Fixture::new("add 100 call 100 ip from any to any\nadd 200 allow ip from any to any");
    assert_eq!(fixture.check(udp()), RuleVerdict::Deny(DenyReason::CallDepth));
    assert_eq!((fixture.count(100), fixture.firewall.drops().calls), (17, 1));
}

#[test]
fn prob_denies_its_share_and_counts_it() {
    let mut fixture = Fixture::new(
        "add 100 prob 0.25 deny icmp from any to any\nadd 200 allow ip from any to any",
    );
    let passed = (0..100_000).filter(|_| fixture.passes(ping())).count() as u64;
    assert!((74_000..=76_000).contains(&passed), "{passed}");
    assert_eq!((fixture.count(100), fixture.count(200)), (100_000 - passed, passed));
}

#[test]
fn prob_is_drawn_of_packets_that_match_and_repeats_with_its_seed() {
    let run = |first: &str, frame: fn() -> Vec<u8>| {
        let mut fixture =
            Fixture::new(&format!("{first}\nadd 200 prob 0.5 allow ip from any to any"));
        (0..200).map(|_| fixture.passes(frame())).collect::<Vec<_>>()
    };
    let about_udp = "add 100 prob 0.5 count udp from any to any";
    assert_eq!(run(about_udp, ping), run("", ping), "rule 100 is about no ping");
    assert_ne!(run(about_udp, udp), run("", udp));
    assert_eq!(run(about_udp, udp), run(about_udp, udp));
}

#[test]
fn prob_is_drawn_before_states_are_looked_up() {
    let mut fixture = Fixture::new(
        "add 100 prob 0.5 check-state\nadd 200 deny udp from 10.1.0.1 to any\n\
         add 300 allow udp from any to any record-state",
    );
    assert!(fixture.passes(udp()));
    let passed = (0..1000).filter(|_| fixture.passes(udp_back())).count() as u64;
    assert!((400..600).contains(&passed), "{passed}");
    assert_eq!((fixture.count(200), fixture.count(300)), (1000 - passed, 1 + passed));
}

#[test]
fn rules_of_disabled_sets_are_not_there() {
    let mut fixture =
        Fixture::new("add 100 set 5 deny ip from any to any\nadd 200 allow ip from any to any");
    assert!(!fixture.passes(udp()));
    fixture.run("set disable 5");
    assert!(fixture.passes(udp()));
    fixture.run("set enable 5");
    assert!(!fixture.passes(udp()));
}

#[test]
fn swap_and_move_change_sets() {
    let mut fixture = Fixture::new(
        "set disable 2\nadd 100 set 1 deny ip from any to any\nadd 100 set 2 allow ip from any to any",
    );
    assert!(!fixture.passes(udp()));
    fixture.run("set swap 1 2");
    assert!(fixture.passes(udp()));
    fixture.run("set move 2 to 3");
    assert!(!fixture.passes(udp()), "the deny rule left the disabled set");
    fixture.run("delete 100");
    fixture.run("add 300 allow ip from any to any");
    fixture.run("set move rule 300 to 2");
    assert!(!fixture.passes(udp()));
}

#[test]
fn flush_spares_set_31_and_delete_set_31_does_not() {
    let mut fixture =
        Fixture::new("add 100 allow ip from any to any\nadd 200 set 31 count ip from any to any");
    assert_eq!(fixture.run("flush"), "Flushed all rules.\n");
    assert_eq!(fixture.numbers(), [200, 65535]);
    fixture.run("set disable 31");
    fixture.check(udp());
    assert_eq!(fixture.count(200), 1);
    fixture.run("delete set 31");
    assert_eq!(fixture.numbers(), [65535]);
}

#[test]
fn a_disabled_firewall_passes_everything_unseen() {
    let mut fixture = Fixture::new("");
    fixture.run("disable firewall");
    assert!(fixture.passes(udp()) && fixture.passes(vec![0; 3]));
    fixture.run("enable firewall");
    assert!(!fixture.passes(udp()));
    assert_eq!(fixture.count(65535), 1);
}

#[test]
fn tags_and_marks_go_with_the_packet() {
    let mut fixture = Fixture::new(
        "add 100 count tag 5 tag 6 ip from any to any\nadd 200 count untag 5 ip from any to any\nadd 300 deny ip from any to any tagged 5\nadd 400 setmark 0x12 ip from any to any tagged 6\nadd 500 deny ip from any to any not mark 0x2:0xf\nadd 600 allow ip from any to any",
    );
    let (mut frame, mut crossing) = (udp(), PacketMetadata::incoming(0));
    assert_eq!(fixture.cross(&mut frame, &mut crossing), RuleVerdict::Accept);
    assert_eq!((crossing.tags.as_slice(), crossing.mark), (&[6][..], 0x12));
}

#[test]
fn a_packet_that_leaves_a_pipe_goes_on_behind_its_rule() {
    let mut fixture = Fixture::new(
        "add 100 pipe 1 ip from any to any\nadd 100 queue 2 ip from any to any\nadd 200 allow ip from any to any",
    );
    let (mut frame, mut crossing) = (udp(), PacketMetadata::incoming(0));
    assert_eq!(fixture.cross(&mut frame, &mut crossing), RuleVerdict::Pipe(1));
    assert!(!fixture.firewall.continues_after_shaper());
    fixture.run("disable one_pass");
    assert!(fixture.firewall.continues_after_shaper());
    assert_eq!(fixture.cross(&mut frame, &mut crossing), RuleVerdict::Queue(2));
    fixture.run("delete 100");
    assert_eq!(fixture.cross(&mut frame, &mut crossing), RuleVerdict::Accept);
    assert_eq!(fixture.count(200), 1);
}

#[test]
fn fwd_names_the_next_hop_or_port() {
    let mut fixture = Fixture::new(
        "add 100 fwd 192.0.2.1,8080 udp from any to any\nadd 200 fwd port:em1 ip from any to any",
    );
    let hop = crate::rule::NextHop::V4(Ipv4Addr::new(192, 0, 2, 1), 8080);
    assert_eq!(fixture.check(udp()), RuleVerdict::Forward(hop));
    assert_eq!(
        fixture.check(ping()),
        RuleVerdict::Forward(crate::rule::NextHop::Port("em1".into()))
    );
}

#[test]
fn what_is_checked_is_the_sum_of_what_became_of_it() {
    let mut fixture = Fixture::new(
        "add 100 pipe tablearg ip from table(1) to any\nadd 200 allow icmp from any to any\nadd 300 fwd 1.2.3.4 tcp from any to any",
    );
    fixture.run("table 1 add 10.0.0.0/24 0");
    for frame in [udp(), ping(), tcp(2), udp_back(), arp(), vec![1; 9], ping6()] {
        fixture.check(frame);
    }
    let d = *fixture.firewall.drops();
    assert_eq!(d.checked, 7);
    let sum = d.accepted
        + d.forwarded
        + d.handed_over
        + d.by_rule
        + d.malformed
        + d.states_full
        + d.state_limit
        + d.calls
        + d.no_number;
    assert_eq!(d.checked, sum);
    assert_eq!(d.malformed, fixture.firewall.malformed().total());
}
