//! The delays of frames, and the order in which the frames arrive.

use slipring_link::{
    DelayModel, DelaySpec, DelayStep, LinkDropCause, LinkSpec, OrderPolicy, SerialisePoint,
    TraceEnd,
};
use slipring_model::Dist;

use crate::rate::constant;
use crate::support::{Sim, assert_distribution, delays, deviation, mean, releases};

const MS: u64 = 1_000_000;

fn delayed(delay: DelaySpec) -> LinkSpec {
    LinkSpec { delay, ..LinkSpec::wire("up") }
}

fn random(dist: Dist) -> LinkSpec {
    delayed(DelaySpec::random(dist))
}

#[test]
fn a_frame_that_is_due_with_the_one_before_it_does_not_overtake_it() {
    let in_turn =
        DelaySpec { model: DelayModel::InTurn(vec![1_000, 900, 799]), half_life_ns: None };
    let mut sim =
        Sim::link(LinkSpec { delay: in_turn, order: OrderPolicy::Drop, ..LinkSpec::wire("up") });
    [0, 100, 200].into_iter().for_each(|at_ns| _ = sim.push(at_ns, 60));
    sim.finish();
    assert_eq!(sim.memory.releases(), [1_000, 1_000]);
    assert_eq!(sim.memory.lost_to(LinkDropCause::Order), 1);
}

#[test]
fn a_constant_delay_keeps_order_and_gaps() {
    let out = releases(delayed(DelaySpec::constant(20 * MS)), 1000, 60, 777);
    let expected: Vec<u64> = (0..1000).map(|k| k * 777 + 20 * MS).collect();
    assert_eq!(out, expected);
}

#[test]
fn a_wire_adds_nothing() {
    assert_eq!(delays(LinkSpec::wire("up"), 100, 13), [0; 100]);
}

#[test]
fn uniform_delays_are_uniform() {
    // At 100 packets per second, frames are 10 ms apart, so none can overtake another and all
    // delays are as drawn.
    let out = delays(random(Dist::uniform(MS, 9 * MS).unwrap()), 100_000, 10 * MS);
    assert_distribution(&out, |x| (x - 1e6) / 8e6);
    assert!((mean(&out) / 1e6 - 5.0).abs() < 0.025, "{}", mean(&out));
}

#[test]
fn exponential_delays_are_exponential() {
    let out = delays(random(Dist::exponential(MS, 3e6).unwrap()), 20_000, 1000 * MS);
    assert_distribution(&out, |x| 1.0 - (-(x - 1e6) / 2e6).exp());
    assert!((mean(&out) / 3e6 - 1.0).abs() < 0.05);
}

#[test]
fn delays_of_a_table_are_its_entries() {
    // A table of quantiles of a logistic distribution stands for any table of netem.
    let entries: Vec<i16> = (0..4096)
        .map(|k| {
            let p = (f64::from(k) + 0.5) / 4096.0;
            ((p / (1.0 - p)).ln() * 8192.0 * 0.55).round() as i16
        })
        .collect();
    let allowed: std::collections::BTreeSet<u64> = entries
        .iter()
        .map(|&entry| (100e6 + 10e6 * f64::from(entry) / 8192.0).round() as u64)
        .collect();
    let out = delays(random(Dist::table(&entries, 100e6, 10e6).unwrap()), 20_000, 1000 * MS);
    assert!(out.iter().all(|delay| allowed.contains(delay)));
    assert!((deviation(&out) / 1e7 - 1.0).abs() < 0.03, "{}", deviation(&out));
}

#[test]
fn correlated_jitter_keeps_order_mean_and_deviation_without_clamping() {
    let delay = DelaySpec {
        half_life_ns: Some(10 * MS),
        ..DelaySpec::random(Dist::normal(5e6, 1.5e6).unwrap())
    };
    let spec = LinkSpec { order: OrderPolicy::Correlated, ..delayed(delay) };
    let mut sim = Sim::link(spec);
    // The run lasts one minute, at 100,000 packets per second.
    for number in 0..6_000_000 {
        sim.push(number * 10_000, 60);
        if number % 256 == 0 {
            sim.run(number * 10_000);
        }
    }
    sim.finish();
    let out = sim.memory.releases();
    assert!(sim.memory.handles().is_sorted());
    assert!(sim.counters().clamped.packets <= 6_000, "{:?}", sim.counters().clamped);
    let delays: Vec<u64> = out.iter().zip(0..).map(|(at, number)| at - number * 10_000).collect();
    assert!((mean(&delays) / 1e6 - 5.0).abs() < 0.15, "{}", mean(&delays));
    assert!((deviation(&delays) / 1.5e6 - 1.0).abs() < 0.1, "{}", deviation(&delays));
}

#[test]
fn strict_order_puts_frames_off_and_counts_them() {
    let delay = DelaySpec { model: DelayModel::InTurn(vec![10, 100, 5]), half_life_ns: None };
    let mut sim = Sim::link(delayed(delay));
    (0..3).for_each(|k| _ = sim.push(k, 60));
    sim.finish();
    assert_eq!(sim.memory.releases(), [10, 101, 101]);
    assert_eq!(sim.counters().clamped.packets, 1);
}

#[test]
fn free_order_lets_frames_overtake() {
    let delay = DelaySpec { model: DelayModel::InTurn(vec![10, 100, 5]), half_life_ns: None };
    let mut sim = Sim::link(LinkSpec { order: OrderPolicy::Free, ..delayed(delay) });
    (0..3).for_each(|k| _ = sim.push(k, 60));
    sim.finish();
    assert_eq!(sim.memory.releases(), [7, 10, 101]);
    assert_eq!(sim.memory.handles(), [2, 0, 1]);
}

#[test]
fn free_order_keeps_the_distribution_at_any_rate() {
    let dist = Dist::uniform(0, 10 * MS).unwrap();
    let spec = LinkSpec { order: OrderPolicy::Free, ..random(dist) };
    let mut sim = Sim::link(spec);
    (0..50_000).for_each(|k| _ = sim.push(k * 1000, 60));
    sim.finish();
    let delays: Vec<u64> = sim
        .memory
        .delivered
        .iter()
        .map(|delivery| delivery.release_ns - u64::from(delivery.handle.0) * 1000)
        .collect();
    assert_distribution(&delays, |x| x / 1e7);
    assert!(sim.memory.releases().is_sorted());
}

#[test]
fn order_by_dropping_loses_what_would_overtake() {
    let delay = DelaySpec { model: DelayModel::InTurn(vec![10, 100, 5]), half_life_ns: None };
    let mut sim = Sim::link(LinkSpec { order: OrderPolicy::Drop, ..delayed(delay) });
    (0..4).for_each(|k| _ = sim.push(k, 60));
    sim.finish();
    assert_eq!(sim.memory.handles(), [0, 1]);
    assert_eq!(sim.memory.lost_to(LinkDropCause::Order), 2);
}

#[test]
fn frames_of_one_path_keep_their_order_and_overtake_others() {
    let step = |at_ns, delay_ns, route| DelayStep { at_ns, delay_ns, route };
    let model = DelayModel::Trace {
        steps: vec![step(0, 100, 1), step(10, 20, 2), step(20, 50, 1)],
        period_ns: 1000,
        end: TraceEnd::Hold,
        smooth: false,
    };
    let delay = DelaySpec { model, half_life_ns: None };
    let mut sim = Sim::link(LinkSpec { order: OrderPolicy::Path, ..delayed(delay) });
    for at_ns in [5, 15, 25] {
        sim.push(at_ns, 60);
    }
    sim.finish();
    assert_eq!(sim.memory.handles(), [1, 0, 2]);
    assert_eq!(sim.memory.releases(), [35, 105, 105]);
}

#[test]
fn a_gap_between_packets_separates_releases() {
    let model = DelayModel::InterPacket { min_gap_ns: 1000, max_gap_ns: 1000, delay_ns: 500 };
    let out = releases(delayed(DelaySpec { model, half_life_ns: None }), 4, 60, 0);
    assert_eq!(out, [1000, 2000, 3000, 4000]);
}

#[test]
fn delays_in_turn_begin_again() {
    let model = DelayModel::InTurn(vec![1, 2, 3]);
    let out = delays(delayed(DelaySpec { model, half_life_ns: None }), 7, 1000);
    assert_eq!(out, [1, 2, 3, 1, 2, 3, 1]);
}

fn traced(end: TraceEnd, smooth: bool) -> LinkSpec {
    let step = |at_ns, delay_ns| DelayStep { at_ns, delay_ns, route: 0 };
    let steps = vec![step(0, 10_000), step(1000, 20_000)];
    let model = DelayModel::Trace { steps, period_ns: 2000, end, smooth };
    delayed(DelaySpec { model, half_life_ns: None })
}

#[test]
fn delays_over_time_hold_loop_or_end() {
    let ends = |end| {
        let free = LinkSpec { order: OrderPolicy::Free, ..traced(end, false) };
        let mut sim = Sim::link(free);
        for at_ns in [0, 999, 1000, 2000, 3500] {
            sim.push(at_ns, 60);
        }
        sim.finish();
        let mut out = sim.memory.delivered;
        out.sort_by_key(|delivery| delivery.handle);
        out.iter().map(|delivery| delivery.release_ns).collect::<Vec<_>>()
    };
    assert_eq!(ends(TraceEnd::Loop), [10_000, 10_999, 21_000, 12_000, 23_500]);
    assert_eq!(ends(TraceEnd::Hold), [10_000, 10_999, 21_000, 22_000, 23_500]);
    assert_eq!(ends(TraceEnd::Once), [10_000, 10_999, 21_000, 2_000, 3_500]);
}

#[test]
fn smooth_delays_lie_on_a_line_between_steps() {
    let out = delays(traced(TraceEnd::Hold, true), 3, 500);
    assert_eq!(out, [10_000, 15_000, 20_000]);
}

#[test]
fn the_delay_counts_from_the_last_bit_or_from_the_first() {
    let spec = LinkSpec { delay: DelaySpec::constant(5 * MS), ..constant(10_000_000) };
    assert_eq!(releases(spec.clone(), 2, 1250, 0), [6 * MS, 7 * MS]);
    let start = LinkSpec { serialise: SerialisePoint::Start, ..spec };
    assert_eq!(releases(start, 2, 1250, 0), [5 * MS, 6 * MS]);
}

#[test]
fn the_serialisation_of_the_port_is_taken_off() {
    let spec = LinkSpec {
        delay: DelaySpec::constant(5 * MS),
        output_bps: Some(100_000_000),
        ..constant(10_000_000)
    };
    // 1250 bytes take 100 us on the port, so the frame is released this much earlier.
    assert_eq!(releases(spec, 1, 1250, 0), [6 * MS - 100_000]);
}

#[test]
fn the_fixed_cost_of_the_box_is_taken_off_but_never_more_than_there_is() {
    let cost = |offset_ns| LinkSpec { offset_ns, ..delayed(DelaySpec::constant(MS)) };
    assert_eq!(delays(cost(1000), 1, 0), [MS - 1000]);
    assert_eq!(delays(cost(5 * MS), 1, 0), [0]);
}

#[test]
fn a_lone_frame_on_a_slow_link_is_not_early() {
    // TLEM would release the frame at 0 ms.
    assert_eq!(releases(constant(10_000_000), 1, 1500, 0), [1_200_000]);
}
