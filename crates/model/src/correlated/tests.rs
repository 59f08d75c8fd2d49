use std::vec::Vec;

use super::*;
use crate::Dist;
use crate::statistics::{kolmogorov, moments};

const MS: u64 = 1_000_000;

fn process(half_life_ns: u64) -> Correlated {
    Correlated::new(half_life_ns, Stream::new(5, "test/correlated")).unwrap()
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
    let step = (1 << 20) / Correlated::GRID;
    process.draw_at(0);
    // Far apart, so independent, and each in the middle of a cell.
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
        let k = Correlated::HALVED * lag as f64 / 5.0;
        let expected = (1.0 + k) * libm::exp(-k);
        // 400 000 half-lives, and as many independent values over some five of them.
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
fn a_jump_over_many_steps_is_as_many_single_steps() {
    let over = |k: f64, times: u32| {
        // The covariance of the state after `times` steps from a known one.
        let by = Transition::over(k);
        let (mut x, mut y, mut xx, mut xy, mut yy) = (1.0, 0.3, 0.0, 0.0, 0.0);
        for _ in 0..times {
            (x, y) = (by.keep * x, by.keep * y + by.feed * x);
            let (old_xx, old_xy, old_yy): (f64, f64, f64) = (xx, xy, yy);
            xx = by.keep * by.keep * old_xx + by.noise_x * by.noise_x;
            xy = by.keep * (by.keep * old_xy + by.feed * old_xx) + by.noise_x * by.noise_shared;
            yy = by.keep * by.keep * old_yy
                + 2.0 * by.keep * by.feed * old_xy
                + by.feed * by.feed * old_xx
                + by.noise_shared * by.noise_shared
                + by.noise_y * by.noise_y;
        }
        [x, y, xx, xy, yy]
    };
    for (single, jump) in over(0.04, 100).into_iter().zip(over(4.0, 1)) {
        assert!((single - jump).abs() < 1e-9, "{single} {jump}");
    }
}

#[test]
fn after_an_endless_gap_the_process_starts_anew() {
    let by = Transition::over(f64::MAX);
    assert_eq!((by.keep, by.feed), (0.0, 0.0));
    assert!((by.noise_x * by.noise_x - 2.0).abs() < 1e-12);
    let mut process = process(1);
    process.draw_at(0);
    let last = process.draw_at(u64::MAX);
    assert_eq!(process.draw_at(u64::MAX), last);
}

#[test]
fn path_has_no_jumps_and_no_corners() {
    let mut process = process(16_000);
    let path: Vec<f64> = (0..4_000_000).map(|t_ns| normal_of(process.draw_at(t_ns))).collect();
    let slopes: Vec<f64> = path.windows(2).map(|pair| (pair[1] - pair[0]) * 16_000.0).collect();
    // The slope has the deviation 1.678 per half-life; a corner would change it at once.
    assert!(slopes.iter().all(|slope| slope.abs() < 12.0));
    assert!(slopes.windows(2).all(|pair| (pair[1] - pair[0]).abs() < 0.05));
    let (_, slope_sd) = moments(&slopes);
    assert!((slope_sd - Correlated::HALVED).abs() < 0.15, "{slope_sd}");
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
fn going_back_in_time_gives_the_value_of_the_last_grid_point() {
    let mut process = process(16_000);
    process.draw_at(0);
    let at_grid = process.draw_at(50_000);
    assert_eq!(process.draw_at(40_000), at_grid);
}

#[test]
fn seed_and_times_decide_the_path() {
    let mut process = Correlated::new(MS, Stream::new(1, "golden")).unwrap();
    let drawn = [0, 10_000, 62_500, 90_000_000].map(|t_ns| process.draw_at(t_ns) >> 20);
    assert_eq!(drawn, [1_513_889_474_437, 1_507_560_365_452, 1_560_087_996_709, 8_198_368_903_892]);
}

#[test]
fn half_life_of_zero_is_refused() {
    let error = Correlated::new(0, Stream::new(1, "")).unwrap_err();
    assert_eq!(error.parameter, "half_life");
}
