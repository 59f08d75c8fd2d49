//! Tests of traces, which list the rules that a frame meets and their outcomes.

use super::*;

/// Returns the verdict on a frame that goes out by em1, and the number and outcome of each rule
/// that it meets.
fn explained(fixture: &mut Fixture, mut frame: Vec<u8>) -> (Vec<(u16, RuleOutcome)>, RuleVerdict) {
    let mut crossing = PacketMetadata::incoming(0).outgoing(1);
    let outputs = &mut CheckOutputs::default();
    let (crossed, verdict) = fixture.firewall.explain(&mut frame, &mut crossing, 0, outputs);
    (crossed.into_iter().map(|rule| (rule.number, rule.outcome)).collect(), verdict)
}

#[test]
fn a_firewall_that_is_off_shows_no_rule() {
    let mut fixture = Fixture::new("add 100 deny ip from any to any\ndisable firewall");
    assert_eq!(explained(&mut fixture, udp()), (vec![], RuleVerdict::Accept));
}

#[test]
fn translations_are_shown_and_end_the_search_with_one_pass() {
    let rules = "nat 1 config ip 203.0.113.9 same_ports\nadd 100 nat 1 ip from any to any\n\
                 add 200 deny ip4 from 203.0.113.9 to any\nadd 300 allow ip from any to any";
    let ends = "203.0.113.9:1000 10.1.0.1:53";
    let to = || (100, RuleOutcome::Translated(ends.into()));
    let mut fixture = Fixture::new(rules);
    assert_eq!(explained(&mut fixture, udp()), (vec![to()], RuleVerdict::Accept));
    let unmet = || RuleOutcome::Unmet("ip4".into());
    let (outcomes, verdict) = explained(&mut fixture, udp6());
    assert_eq!(verdict, RuleVerdict::Accept);
    assert_eq!(outcomes[0], (100, RuleOutcome::Untranslated), "nat is for IPv4");
    assert_eq!((outcomes[1].0, outcomes[2].clone()), (200, (300, RuleOutcome::Ended)));
    assert!(matches!(&outcomes[1].1, RuleOutcome::Unmet(_)), "{:?} {:?}", outcomes[1], unmet());
    fixture.run("disable one_pass");
    let (outcomes, verdict) = explained(&mut fixture, udp());
    assert_eq!(outcomes, [to(), (200, RuleOutcome::Ended)]);
    assert_eq!(verdict, RuleVerdict::Deny(DenyReason::Rule));
}

#[test]
fn what_a_translator_leaves_as_it_is_or_drops_is_shown() {
    let mut fixture = Fixture::new(
        "nat 1 config ip 10.0.0.1 same_ports\nadd 100 nat 1 ip from any to any\n\
         add 200 allow ip from any to any\ndisable one_pass",
    );
    let (outcomes, verdict) = explained(&mut fixture, udp());
    assert_eq!(outcomes, [(100, RuleOutcome::Untranslated), (200, RuleOutcome::Ended)]);
    assert_eq!(verdict, RuleVerdict::Accept);
    let mut fixture = Fixture::new("add 100 nat 5 ip from any to any");
    let (outcomes, verdict) = explained(&mut fixture, udp());
    assert_eq!(outcomes, [(100, RuleOutcome::Refused)], "there is no instance 5");
    assert_eq!(verdict, RuleVerdict::Deny(DenyReason::Translation));
}

#[test]
fn a_state_is_shown_by_its_rule_and_prob_by_its_draw() {
    let mut fixture = Fixture::new(
        "add 100 count udp from any to any keep-state :a\nadd 150 check-state :b\n\
         add 200 prob 0.000000001 count udp from any to any\nadd 300 skipto 400 udp from any to any\n\
         add 400 allow ip from any to any",
    );
    let rest = [
        (150, RuleOutcome::NoState),
        (200, RuleOutcome::Chance),
        // The rule jumps to the next rule, so it is shown as passed.
        (300, RuleOutcome::Passed),
        (400, RuleOutcome::Ended),
    ];
    for first in [RuleOutcome::Passed, RuleOutcome::Passed] {
        let (outcomes, verdict) = explained(&mut fixture, udp());
        assert_eq!(outcomes[0], (100, first));
        assert_eq!(outcomes[1..], rest);
        assert_eq!(verdict, RuleVerdict::Accept);
    }
    let mut fixture = Fixture::new(
        "add 100 check-state\nadd 200 allow udp from any to any keep-state\n\
         add 300 deny ip from any to any",
    );
    explained(&mut fixture, udp());
    let (outcomes, verdict) = explained(&mut fixture, udp());
    assert_eq!(outcomes, [(100, RuleOutcome::State(200))]);
    assert_eq!(verdict, RuleVerdict::Accept);
}

#[test]
fn a_packet_that_is_malformed_or_translated_too_often_meets_the_verdict_of_a_check() {
    let checked = |fixture: &mut Fixture, mut frame: Vec<u8>| {
        fixture.cross(&mut frame, &mut PacketMetadata::incoming(0).outgoing(1))
    };
    let mut fixture = Fixture::new("add 100 allow ip from any to any");
    let malformed = udp()[..20].to_vec();
    let (outcomes, verdict) = explained(&mut fixture, malformed.clone());
    assert!(outcomes.is_empty());
    assert!(matches!(verdict, RuleVerdict::Deny(DenyReason::Malformed(_))), "{verdict:?}");
    assert_eq!(checked(&mut fixture, malformed), verdict);
    // Each rule translates the source address once more.
    for (count, expected) in
        [(32, RuleVerdict::Accept), (33, RuleVerdict::Deny(DenyReason::CallLoop))]
    {
        let mut fixture = Fixture::new("disable one_pass\nadd 1000 allow ip from any to any");
        for at in 1..=count {
            fixture.run(&format!("nat {at} config ip 203.0.113.{at} same_ports"));
            fixture.run(&format!("add {at} nat {at} ip from any to any"));
        }
        let (outcomes, verdict) = explained(&mut fixture, udp());
        let is_translated = |outcome: &RuleOutcome| matches!(outcome, RuleOutcome::Translated(_));
        let translated = outcomes.iter().filter(|(_, outcome)| is_translated(outcome)).count();
        assert_eq!((translated, &verdict), (count, &expected));
        assert_eq!(checked(&mut fixture, udp()), expected, "{count}");
    }
}

#[test]
fn each_rule_that_a_packet_crosses_says_why_it_did_or_did_not_match() {
    let mut fixture = Fixture::new(
        "add 100 set 3 deny ip from any to any\nset disable 3\nadd 200 check-state\n\
         add 300 deny tcp from any to any\nadd 400 count udp from any to any 53\n\
         add 500 skipto 700 udp from any to any\nadd 600 deny ip from any to any\n\
         add 700 allow udp from 10.0.0.0/8 to any keep-state",
    );
    let explained = |fixture: &mut Fixture| {
        let mut frame = udp();
        let mut crossing = PacketMetadata::incoming(0);
        let (crossed, verdict) =
            fixture.firewall.explain(&mut frame, &mut crossing, 0, &mut CheckOutputs::default());
        let outcomes: Vec<_> =
            crossed.into_iter().map(|rule| (rule.number, rule.outcome)).collect();
        (outcomes, verdict)
    };
    let (outcomes, verdict) = explained(&mut fixture);
    assert_eq!(verdict, RuleVerdict::Accept);
    assert_eq!(
        outcomes,
        [
            (100, RuleOutcome::Disabled),
            (200, RuleOutcome::NoState),
            (300, RuleOutcome::Unmet("proto tcp".into())),
            (400, RuleOutcome::Passed),
            (500, RuleOutcome::Jumped),
            (700, RuleOutcome::Ended),
        ]
    );
    let (outcomes, _) = explained(&mut fixture);
    assert_eq!(outcomes[1..], [(200, RuleOutcome::State(700))]);
}

#[test]
fn a_rule_that_makes_no_state_or_defers_its_action_shows_what_became_of_the_packet() {
    let mut fixture = Fixture::new(
        "add 100 allow udp from any to any record-state defer-action\nadd 200 deny ip from any to any",
    );
    let (outcomes, verdict) = explained(&mut fixture, udp());
    assert_eq!(outcomes, [(100, RuleOutcome::Passed), (200, RuleOutcome::Ended)]);
    assert_eq!(verdict, RuleVerdict::Deny(DenyReason::Rule));
    let mut fixture = Fixture::new(
        "add 100 allow udp from any to any limit src-addr 1\nadd 200 allow ip from any to any",
    );
    assert!(fixture.passes(udp()));
    let (outcomes, verdict) = explained(&mut fixture, udp_ports(1001, 53));
    assert!(matches!(verdict, RuleVerdict::Deny(_)), "{verdict:?}");
    assert_eq!(outcomes, [(100, RuleOutcome::Ended)], "no state, and so no action");
}

#[test]
fn a_rule_that_the_draw_skips_before_its_state_lookup_is_shown_as_chance() {
    let mut fixture = Fixture::new(
        "add 100 prob 0.000000001 check-state :a\n\
         add 200 prob 0.000000001 allow tcp from any to any keep-state :b\n\
         add 300 prob 1 allow udp from any to any record-state :c defer-action",
    );
    let (outcomes, _) = explained(&mut fixture, udp());
    assert_eq!(outcomes[..2], [(100, RuleOutcome::Chance), (200, RuleOutcome::Chance)]);
    assert_eq!(outcomes[2], (300, RuleOutcome::Passed), "it made a state");
}
