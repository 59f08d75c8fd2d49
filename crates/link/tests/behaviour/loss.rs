//! Which frames are lost, and where they are lost.

use slipring_link::{
    LinkDropCause, LinkSpec, LossModel, LossPosition, LossSpec, LossWindow, NetworkSpec, RateSpec,
};
use slipring_model::Chance;

use crate::support::{Sim, bursts, losses};

pub(crate) fn lossy(model: LossModel, position: LossPosition) -> LinkSpec {
    LinkSpec { loss: vec![LossSpec { model, position }], ..LinkSpec::wire("up") }
}

fn pre(model: LossModel) -> LinkSpec {
    lossy(model, LossPosition::Pre)
}

fn percent(percent: u64) -> LossModel {
    LossModel::Bernoulli(Chance::from_ratio(percent, 100).unwrap())
}

fn count(lost: &[bool]) -> usize {
    lost.iter().filter(|&&lost| lost).count()
}

fn share(lost: &[bool]) -> f64 {
    count(lost) as f64 / lost.len() as f64
}

#[test]
fn every_cause_of_a_loss_has_its_name() {
    let names = [
        "loss",
        "ber",
        "police",
        "queue",
        "aqm",
        "buffer",
        "late",
        "rx_overrun",
        "tx_full",
        "malformed",
        "route",
        "order",
        "profile",
        "model",
    ];
    assert_eq!(LinkDropCause::ALL.map(|cause| cause.to_string()), names);
    assert_eq!(LinkDropCause::ALL.map(LinkDropCause::as_str), names);
    assert_eq!(LinkDropCause::COUNT, 14);
}

#[test]
fn independent_losses_are_as_many_as_asked_and_repeat_with_their_seed() {
    let first = losses(pre(percent(1)), 7, 1_000_000);
    // The tolerance is 3.3 standard deviations.
    assert!(count(&first).abs_diff(10_000) < 330, "{}", count(&first));
    assert_eq!(first, losses(pre(percent(1)), 7, 1_000_000));
    assert_ne!(first, losses(pre(percent(1)), 8, 1_000_000));
}

#[test]
fn independent_losses_come_in_runs_of_independent_length() {
    let lost = losses(pre(percent(10)), 3, 500_000);
    let runs = bursts(&lost);
    let expected = 500_000.0 * 0.1 * 0.9;
    assert!((runs.len() as f64 - expected).abs() < 3.3 * expected.sqrt(), "{}", runs.len());
}

#[test]
fn the_two_directions_lose_independently() {
    let direction = |name: &str| LinkSpec { name: name.into(), ..pre(percent(50)) };
    let plan = NetworkSpec::between("left", "right", direction("up"), direction("down"));
    let mut sim = Sim::new(&plan, 7);
    let count: u32 = 100_000;
    for number in 0..u64::from(count) {
        sim.push_at(0, number, 60);
        sim.push_at(1, number, 60);
        sim.run(number);
    }
    let mut lost = vec![[false; 2]; count as usize];
    for frame in &sim.memory.lost {
        lost[frame.handle.0 as usize / 2][frame.handle.0 as usize % 2] = true;
    }
    let sign = |lost: bool| if lost { 1.0 } else { -1.0 };
    let sum: f64 = lost.iter().map(|pair| sign(pair[0]) * sign(pair[1])).sum();
    assert!((sum / f64::from(count)).abs() < 0.0104, "{}", sum / f64::from(count));
}

#[test]
fn gilbert_elliott_has_the_loss_and_the_bursts_of_its_chain() {
    let model = LossModel::GilbertElliott { p: 0.01, r: 0.25, bad: 1.0, good: 0.0 };
    let lost = losses(pre(model), 7, 1_000_000);
    assert!((share(&lost) - 0.0385).abs() < 0.002, "{}", share(&lost));
    let runs = bursts(&lost);
    let mean = runs.iter().sum::<usize>() as f64 / runs.len() as f64;
    assert!((mean - 4.0).abs() < 0.15, "{mean}");
    // The lengths of bursts are geometrically distributed. Chi-squared test over lengths 1 to 10
    // and longer ones; 29.6 is the 0.999 quantile.
    let mut chi = 0.0;
    for length in 1..=11 {
        let p: f64 = 0.75f64.powi(length - 1) * if length > 10 { 1.0 } else { 0.25 };
        let is = |run: &&usize| if length > 10 { **run > 10 } else { **run == length as usize };
        let (seen, expected) = (runs.iter().filter(is).count() as f64, p * runs.len() as f64);
        chi += (seen - expected).powi(2) / expected;
    }
    assert!(chi < 29.6, "{chi}");
}

#[test]
fn gilbert_elliott_in_time_does_not_care_how_often_it_is_asked() {
    let model = || LossModel::TimedGilbertElliott {
        good_ns: 100_000_000,
        bad_ns: 10_000_000,
        bad: 1.0,
        good: 0.0,
    };
    let often = losses(pre(model()), 1, 20_000_000 / 10);
    // A state lasts for thousands of frames, because they are 1 us apart. So losses come in long
    // runs, and the share of lost frames varies.
    assert!((share(&often) - 1.0 / 11.0).abs() < 0.06, "{}", share(&often));
    let runs = bursts(&often);
    assert!(runs.iter().sum::<usize>() / runs.len() > 2_000, "{runs:?}");
}

#[test]
fn four_states_lose_alone_and_in_bursts() {
    let model = LossModel::FourState { p13: 0.01, p31: 0.3, p32: 0.2, p23: 0.5, p14: 0.02 };
    let lost = losses(pre(model), 5, 400_000);
    // Stationary probabilities: pi1 (p13 + p14) = pi3 p31 + pi4; pi3 p32 = pi2 p23; pi4 = pi1 p14.
    let (in_burst, alone) = (0.01 / 0.3, 0.02);
    let all = 1.0 + in_burst + in_burst * 0.2 / 0.5 + alone;
    let expected = (in_burst + alone) / all;
    assert!((share(&lost) - expected).abs() < 0.003, "{} {expected}", share(&lost));
}

#[test]
fn a_pattern_loses_exactly_its_zeros() {
    let bits = "1101011101001011100";
    let pattern: Vec<bool> = bits.chars().map(|bit| bit == '0').collect();
    let lost = losses(pre(LossModel::Pattern(pattern.clone())), 7, 19 * 3);
    assert_eq!(lost, pattern.repeat(3));
}

#[test]
fn every_nth_frame_is_lost() {
    let lost = losses(pre(LossModel::Nth { every: 4, nth: 3 }), 7, 9);
    let numbers: Vec<_> = (1..=9).filter(|number| lost[number - 1]).collect();
    assert_eq!(numbers, [3, 7]);
}

#[test]
fn listed_frames_are_lost_once() {
    let lost = losses(pre(LossModel::Numbers(vec![1, 5, 6])), 7, 20);
    let numbers: Vec<_> = (1..=20).filter(|number| lost[number - 1]).collect();
    assert_eq!(numbers, [1, 5, 6]);
}

#[test]
fn losses_by_time_happen_in_their_windows() {
    let window = |from_ns, until_ns| LossWindow { from_ns, until_ns, chance: Chance::ALWAYS };
    let windows = vec![window(2_000, 4_000), window(6_000, 6_001)];
    let lost = |period_ns| {
        let model = LossModel::ByTime { windows: windows.clone(), period_ns };
        let lost = losses(pre(model), 7, 20);
        (0..20).filter(|&at_us| lost[at_us]).collect::<Vec<_>>()
    };
    assert_eq!(lost(None), [2, 3, 6]);
    assert_eq!(lost(Some(10_000)), [2, 3, 6, 12, 13, 16]);
}

#[test]
fn bit_errors_lose_long_frames_more_often() {
    // A frame has 1000 bits, so it is lost with probability 1 - (1 - 1e-4)^1000 = 9.5 %.
    let lost = losses(pre(LossModel::Ber(1e-4)), 7, 300_000);
    let expected = 1.0 - (1.0f64 - 1e-4).powi(1000);
    assert!((share(&lost) - expected).abs() < 0.002, "{} {expected}", share(&lost));
}

#[test]
fn losses_before_the_queue_take_no_time_of_the_line_and_those_after_it_do() {
    let rate = RateSpec::Constant { bps: 1_000_000 };
    let nth = || LossModel::Nth { every: 2, nth: 1 };
    let releases = |position| {
        let mut sim = Sim::link(LinkSpec { rate: rate.clone(), ..lossy(nth(), position) });
        (0..4).for_each(|_| _ = sim.push(0, 125));
        sim.finish();
        assert_eq!(sim.memory.lost_to(LinkDropCause::Loss), 2);
        sim.memory.releases()
    };
    assert_eq!(releases(LossPosition::Pre), [1_000_000, 2_000_000]);
    assert_eq!(releases(LossPosition::Post), [2_000_000, 4_000_000]);
}

#[test]
fn each_loss_stage_has_its_own_stream() {
    let half = || LossSpec { model: percent(50), position: LossPosition::Pre };
    let one = losses(LinkSpec { loss: vec![half()], ..LinkSpec::wire("up") }, 7, 20_000);
    let two = losses(LinkSpec { loss: vec![half(), half()], ..LinkSpec::wire("up") }, 7, 20_000);
    assert!(one.iter().zip(&two).all(|(one, two)| *two || !*one), "the first one decides alike");
    assert!((share(&two) - 0.75).abs() < 0.012, "{}", share(&two));
}
