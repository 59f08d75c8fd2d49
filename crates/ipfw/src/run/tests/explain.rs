//! Tests of traces.

use super::*;

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
