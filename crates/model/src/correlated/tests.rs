use std::vec::Vec;

use super::*;
use crate::Dist;
use crate::statistics::{kolmogorov, moments};

const MS: u64 = 1_000_000;

fn process(half_life_ns: u64) -> Correlated {
    Correlated::new(half_life_ns, Draws::new(5, "test/correlated"), 0).unwrap()
}

fn uniform(draw: u64) -> f64 {
    (draw as f64 + 0.5) / 2f64.powi(64)
}

fn normal_of(draw: u64) -> f64 {
    normal::quantile(Tail::Low(uniform(draw).min(1.0 - 1e-16)))
}

#[test]
fn values_far_apart_are_independent_and_uniform() {
    let mut process = process(10 * MS);
    let drawn: Vec<f64> =
        (0..100_000).map(|n| uniform(process.draw_at(n * 1_000 * MS + n % 977 * 1_000))).collect();
    let pairs = drawn.iter().zip(&drawn[1..]);
    let correlation: f64 =
        pairs.map(|(a, b)| (a - 0.5) * (b - 0.5) * 12.0).sum::<f64>() / drawn.len() as f64;
    assert!(correlation.abs() < 3.3 / (drawn.len() as f64).sqrt(), "{correlation}");
    let distance = kolmogorov(drawn, |p| p);
    assert!(distance < 1.95, "{distance}");
}

#[test]
fn values_between_grid_points_have_the_same_distribution() {
    let mut process = process(1 << 20);
    let step = (1 << 20) / Correlated::POINTS_PER_HALF_LIFE;
    process.draw_at(0);
    // The times are far apart, so the values are independent. Each time is halfway between two
    // grid points.
    let drawn = (1..100_000).map(|n| uniform(process.draw_at(n * 1_000 * step + step / 2)));
    let distance = kolmogorov(drawn.collect(), |p| p);
    assert!(distance < 1.95, "{distance}");
}

#[test]
fn correlation_over_time_is_that_of_two_filters() {
    let half_life_ns = MS;
    let mut process = process(half_life_ns);
    let every_ns = half_life_ns / 5;
    let path: Vec<f64> = (0..2_000_000).map(|n| normal_of(process.draw_at(n * every_ns))).collect();
    for lag in [1, 3, 5, 10, 20, 50, 100] {
        let products = path.iter().zip(&path[lag..]).map(|(a, b)| a * b);
        let seen = products.sum::<f64>() / (path.len() - lag) as f64;
        let k = Correlated::HALF_LIFE_RATE * lag as f64 / 5.0;
        let expected = (1.0 + k) * libm::exp(-k);
        // The run covers 400 000 half-lives. Values that are about five half-lives apart are
        // independent, so there are about 80 000 independent ones.
        assert!((seen - expected).abs() < 0.012, "{lag}: {seen} {expected}");
    }
}

#[test]
fn correlation_of_a_delay_has_halved_after_the_half_life() {
    let delay = Dist::normal(20e6, 2e6).unwrap();
    let mut process = process(10 * MS);
    let delays: Vec<f64> =
        (0..1_000_000).map(|n| delay.at(process.draw_at(n * MS)) as f64).collect();
    let (mean, sd) = moments(&delays);
    for (lag, expected) in [(0, 1.0), (10, 0.5)] {
        let pairs = delays.iter().zip(&delays[lag..]);
        let sum: f64 = pairs.map(|(a, b)| (a - mean) * (b - mean)).sum();
        let seen = sum / (delays.len() - lag) as f64 / (sd * sd);
        assert!((seen - expected).abs() < 0.015, "{lag}: {seen}");
    }
}

#[test]
fn a_middle_drawn_between_two_ends_leaves_the_process_as_it_was() {
    // The middle of a step is drawn between the two ends of the step. Its covariances with both
    // ends must be those that result from two separate half steps.
    for k in [0.05, 0.4, 3.0, 20.0] {
        let bridge = MidpointBridge::over(k);
        let (half, new) = (transition(k), noise(k));
        let whole = product(half, half);
        let end_new = sum(product(product(half, new), transposed(half)), new, 1.0);
        // Mean of the middle: `from + to * whole` is the transition over one half.
        let mean = sum(bridge.from, product(bridge.to, whole), 1.0);
        // Covariance of the middle: the noise of the bridge, and the contribution of the end
        // through `to`.
        let shared = product(product(bridge.to, end_new), transposed(bridge.to));
        let own = [
            [bridge.noise_x * bridge.noise_x, bridge.noise_x * bridge.noise_shared],
            [
                bridge.noise_x * bridge.noise_shared,
                bridge.noise_shared * bridge.noise_shared + bridge.noise_y * bridge.noise_y,
            ],
        ];
        let middle = sum(own, shared, 1.0);
        let across = product(bridge.to, end_new);
        let expected = product(new, transposed(half));
        for (seen, wanted) in [(mean, half), (middle, new), (across, expected)] {
            for (seen, wanted) in seen.as_flattened().iter().zip(wanted.as_flattened()) {
                assert!((seen - wanted).abs() < 1e-9, "{k}: {seen} {wanted}");
            }
        }
    }
}

#[test]
fn values_are_a_function_of_time_whoever_asked_before() {
    let (mut often, mut seldom) = (process(MS), process(MS));
    let path: Vec<u64> = (0..200_000).map(|n| often.draw_at(n * 9_973)).collect();
    for n in (0..200_000).step_by(7_919).chain([199_999, 3, 100_000, 99_999]) {
        assert_eq!(seldom.draw_at(n * 9_973), path[n as usize], "{n}");
    }
}

#[test]
fn the_end_of_time_is_a_time_too() {
    for half_life_ns in [1, MS, u64::MAX] {
        let mut process = process(half_life_ns);
        process.draw_at(0);
        let last = process.draw_at(u64::MAX);
        assert_eq!(process.draw_at(u64::MAX), last);
    }
}

#[test]
fn path_has_no_jumps_and_no_corners() {
    let mut process = process(16_000);
    let path: Vec<f64> = (0..4_000_000).map(|t_ns| normal_of(process.draw_at(t_ns))).collect();
    let slopes: Vec<f64> = path.windows(2).map(|pair| (pair[1] - pair[0]) * 16_000.0).collect();
    // The slope of the path has a standard deviation of 1.678 per half-life (`HALF_LIFE_RATE`), so
    // 12 is about seven deviations. At a corner in the path, two successive slopes would differ by
    // more than 0.05.
    assert!(slopes.iter().all(|slope| slope.abs() < 12.0));
    assert!(slopes.windows(2).all(|pair| (pair[1] - pair[0]).abs() < 0.05));
    let (_, slope_sd) = moments(&slopes);
    assert!((slope_sd - Correlated::HALF_LIFE_RATE).abs() < 0.15, "{slope_sd}");
}

#[test]
fn jitter_of_a_third_of_the_half_life_keeps_packets_in_order_and_its_own_shape() {
    let delay = Dist::normal(5e6, 1.5e6).unwrap();
    let mut process = process(10 * MS);
    let (mut last_ns, mut clamped) = (0, 0);
    let mut delays = Vec::new();
    for arrival_ns in (0..60_000_000_000).step_by(10_000) {
        let wanted_ns = arrival_ns + delay.at(process.draw_at(arrival_ns));
        clamped += u32::from(wanted_ns < last_ns);
        last_ns = wanted_ns.max(last_ns);
        delays.push((last_ns - arrival_ns) as f64);
    }
    let (mean, sd) = moments(&delays);
    assert!(f64::from(clamped) <= 0.001 * delays.len() as f64, "{clamped}");
    assert!((mean - 5e6).abs() < 0.15e6, "{mean}");
    assert!((sd - 1.5e6).abs() < 0.15e6, "{sd}");
}

#[test]
fn jitter_is_the_same_at_any_packet_rate() {
    let spread = |every_ns: u64| {
        let mut process = process(10 * MS);
        let times = (0..100_000_000_000).step_by(every_ns as usize);
        moments(&times.map(|t_ns| normal_of(process.draw_at(t_ns))).collect::<Vec<_>>())
    };
    for every_ns in [100_000, 700_000, 3 * MS, 45 * MS] {
        let (mean, sd) = spread(every_ns);
        assert!(mean.abs() < 0.06 && (sd - 1.0).abs() < 0.04, "{every_ns}: {mean} {sd}");
    }
}

#[test]
fn any_law_can_be_driven() {
    for dist in [Dist::gamma(2.0, 1e6).unwrap(), Dist::samples(&[1, 5, 9]).unwrap()] {
        let mut process = process(MS);
        let drawn = (0..50_000).map(|n| dist.at(process.draw_at(n * 50 * MS)) as f64);
        let (mean, sd) = moments(&drawn.collect::<Vec<_>>());
        assert!((mean - dist.mean_ns()).abs() < 3.3 * dist.sd_ns() / 50_000f64.sqrt(), "{mean}");
        assert!((sd / dist.sd_ns() - 1.0).abs() < 0.03, "{sd}");
    }
}

#[test]
fn seed_and_times_decide_the_path() {
    let mut process = Correlated::new(MS, Draws::new(1, "golden"), 0).unwrap();
    let drawn = [0, 10_000, 62_500, 90_000_000].map(|t_ns| process.draw_at(t_ns) >> 20);
    assert_eq!(
        drawn,
        [1_638_896_507_496, 1_693_502_116_460, 1_856_057_812_995, 14_296_691_131_491]
    );
}

#[test]
fn half_life_of_zero_is_refused() {
    let error = Correlated::new(0, Draws::new(1, ""), 0).unwrap_err();
    assert_eq!(error.parameter, "half_life");
}
