//! Tests of the specifications that are refused, and of the error messages.

use slipring_link::{
    ClassSpec, DelaySpec, LinkProfile, LinkQueueSpec, LinkSpec, LossModel, LossPosition, LossSpec,
    MarkovState, Network, NetworkSpec, OrderPolicy, RateSlot, RateSpec, RateStep, TraceEnd,
};

fn refusal(spec: LinkSpec) -> String {
    Network::new(&NetworkSpec::single(spec), 1).err().unwrap().to_string()
}

fn rated(rate: RateSpec) -> LinkSpec {
    LinkSpec { rate, ..LinkSpec::wire("up") }
}

#[test]
fn a_network_has_no_more_entries_and_exits_than_their_numbers_can_tell_apart() {
    let names = |count: usize| (0..count).map(|i| format!("n{i}")).collect::<Vec<_>>();
    let with = |entries, exits| NetworkSpec {
        entries: names(entries),
        exits: names(exits),
        ..NetworkSpec::single(LinkSpec::wire("w"))
    };
    assert_eq!(with(65_536, 65_536).check(), Ok(()));
    for (network, field) in [(with(65_537, 1), "entries"), (with(1, 65_537), "exits")] {
        let error = network.check().unwrap_err().to_string();
        assert!(error.contains(field) && error.contains("at most 65536"), "{error}");
    }
}

#[test]
fn refusals_name_the_field_its_value_and_what_may_stand_there() {
    assert_eq!(
        refusal(rated(RateSpec::Constant { bps: 0 })),
        "link.up.rate.bps: 0 is not allowed, only 1 bit/s or more"
    );
    let loss = vec![LossSpec { model: LossModel::Ber(f64::NAN), position: LossPosition::Pre }];
    assert_eq!(
        refusal(LinkSpec { loss, ..LinkSpec::wire("up") }),
        "link.up.loss.ber: NaN is not allowed, only a number from 0 to 1"
    );
    assert_eq!(
        refusal(LinkSpec { order: OrderPolicy::Correlated, ..LinkSpec::wire("up") }),
        "link.up.order: correlated is not allowed, only `strict`, `free`, `drop` or `path` \
         without a half-life of the delay"
    );
    assert_eq!(
        refusal(LinkSpec { output_bps: Some(0), ..LinkSpec::wire("up") }),
        "link.up.output_bps: 0 is not allowed, only 1 bit/s or more"
    );
}

#[test]
fn traces_must_be_in_order_and_have_an_extent() {
    let trace = |at_ns: &[u64]| {
        refusal(rated(RateSpec::Opportunities {
            at_ns: at_ns.to_vec(),
            mtu: 1504,
            end: TraceEnd::Loop,
        }))
    };
    assert!(trace(&[]).contains("an empty list"));
    assert!(trace(&[0]).contains("at_ns: 0"));
    assert!(trace(&[5, 4]).contains("at_ns: 4 is not allowed, only 5 or later"));
    let steps = |steps: &[(u64, u64)]| {
        let steps = steps.iter().map(|&(at_ns, bps)| RateStep { at_ns, bps }).collect();
        refusal(rated(RateSpec::Steps { steps, period_ns: 10, end: TraceEnd::Loop }))
    };
    assert!(steps(&[(5, 1), (5, 2)]).contains("steps.at_ns: 5"));
    assert!(steps(&[(0, 0)]).contains("steps.bps"));
    assert!(steps(&[(0, 1), (20, 1)]).contains("period_ns: 10"));
}

#[test]
fn slots_must_not_overlap() {
    let slot = |start_ns, len_ns| RateSlot { start_ns, len_ns };
    let slots = vec![slot(0, 10), slot(5, 10)];
    let spec = RateSpec::Slots { bps: 1, period_ns: 100, slots, whole_frames: false };
    assert!(refusal(rated(spec)).contains("slots.start_ns: 5"));
}

#[test]
fn rates_that_change_more_often_than_bits_pass_are_refused() {
    let markov = |bps, mean_ns| {
        let state = |bps| MarkovState { bps, mean_ns, next: vec![] };
        rated(RateSpec::Markov { states: vec![state(bps), state(0)] })
    };
    let sine = |mean_bps, step_ns| {
        rated(RateSpec::Sine { mean_bps, amplitude_bps: 0, period_ns: 1_000_000, step_ns })
    };
    assert_eq!(
        refusal(markov(2, 999_999_999)),
        "link.up.rate.states.mean_ns: 999999999 is not allowed, only 1000000000 ns or more, the \
         time of a bit at the mean rate"
    );
    assert_eq!(
        refusal(sine(1_000_000, 999)),
        "link.up.rate.step_ns: 999 is not allowed, only 1000 ns or more, the time of a bit at the \
         mean rate"
    );
    for spec in [markov(2, 1_000_000_000), sine(1_000_000, 1000)] {
        assert!(NetworkSpec::single(spec).check().is_ok());
    }
}

#[test]
fn steps_beyond_all_measure_are_refused() {
    let (from_bps, to_bps, end) = (1_000_000, 2_000_000, TraceEnd::Hold);
    let ramp = RateSpec::Ramp { from_bps, to_bps, duration_ns: 5_000_000_000, step_ns: 1, end };
    assert_eq!(
        refusal(rated(ramp)),
        "link.up.rate.step_ns: 1 is not allowed, only 5000 ns or more, so that the duration has \
         1000000 steps at most"
    );
    let state = MarkovState { bps: 1_000_000_000, mean_ns: 1000, next: vec![] };
    let states = RateSpec::Markov { states: vec![state; 101] };
    assert!(refusal(rated(states)).contains("states: 101 is not allowed, only 100 states at most"));
}

#[test]
fn every_refused_value_is_refused() {
    let with = |change: fn(&mut LinkSpec)| {
        let mut spec = LinkSpec::wire("up");
        change(&mut spec);
        refusal(spec)
    };
    assert!(
        with(|spec| spec.queue = LinkQueueSpec { bytes: Some(0), ..LinkQueueSpec::default() })
            .contains("queue.bytes")
    );
    assert!(
        with(|spec| spec.profile = Some(LinkProfile { samples_ns: vec![], loss_level: 1.0 }))
            .contains("profile.samples_ns")
    );
    assert!(
        with(|spec| spec.profile = Some(LinkProfile { samples_ns: vec![1], loss_level: 2.0 }))
            .contains("profile.loss_level")
    );
    assert!(
        with(|spec| spec.delay = DelaySpec { half_life_ns: Some(0), ..DelaySpec::default() })
            .contains("delay.half_life_ns")
    );
    let loss = |model| LinkSpec {
        loss: vec![LossSpec { model, position: LossPosition::Pre }],
        ..LinkSpec::wire("up")
    };
    let chain = |p| LossModel::GilbertElliott { p, r: 0.5, bad: 1.0, good: 0.0 };
    assert!(refusal(loss(chain(-0.1))).contains("loss.p: -0.1"));
    assert!(refusal(loss(chain(1.1))).contains("loss.p: 1.1"));
    assert!(refusal(loss(LossModel::Pattern(vec![]))).contains("loss.pattern"));
    assert!(refusal(loss(LossModel::Nth { every: 2, nth: 3 })).contains("loss.every"));
    let four = LossModel::FourState { p13: 0.7, p31: 0.1, p32: 0.1, p23: 0.1, p14: 0.7 };
    assert!(refusal(loss(four)).contains("p13 + p14"));
}

#[test]
fn a_probability_that_no_draw_can_tell_from_none_is_refused() {
    let loss = |model| {
        let loss = vec![LossSpec { model, position: LossPosition::Pre }];
        LinkSpec { loss, ..LinkSpec::wire("up") }
    };
    let chain = |p| LossModel::GilbertElliott { p, r: 0.5, bad: 1.0, good: 0.0 };
    assert_eq!(
        refusal(loss(LossModel::Ber(1e-30))),
        "link.up.loss.ber: 1e-30 is not allowed, only 0, or 1.1e-19 (2^-63) and more"
    );
    assert!(refusal(loss(chain(1e-19))).contains("only 0, or 1.1e-19"));
    for p in [0.0, 1.1e-19] {
        assert!(NetworkSpec::single(loss(chain(p))).check().is_ok(), "{p}");
    }
}

#[test]
fn names_must_be_given_once() {
    let mut plan = NetworkSpec::single(LinkSpec::wire("up"));
    plan.links.push(plan.links[0].clone());
    let error = plan.check().unwrap_err().to_string();
    assert_eq!(error, "link: `up` twice is not allowed, only names that differ");
    assert!(refusal(LinkSpec::wire("")).contains("an empty name"));
}

#[test]
fn two_links_for_the_same_frames_are_refused() {
    let mut plan = NetworkSpec::single(LinkSpec::wire("a"));
    plan.links.push(plan.links[0].clone());
    plan.links[1].spec.name = "b".into();
    let error = plan.check().unwrap_err().to_string();
    assert_eq!(error, "link.b.from: in is not allowed, only one link of a place without a class");
    plan.classes.push(ClassSpec::new("udp", 1).unwrap());
    assert!(plan.check().is_ok());
}

#[test]
fn filters_that_do_not_parse_say_where() {
    let error = ClassSpec::new("tcp prt 80", 0).unwrap_err().to_string();
    assert!(error.contains("column 5"), "{error}");
}
