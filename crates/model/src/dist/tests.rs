use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::law::Law;
use super::law_table::{MAX_NS, tail_of};
use super::*;
use crate::ParameterError;
use crate::statistics::{chi_square_excess, kolmogorov, moments};

const MS: f64 = 1e6;

fn continuous() -> Vec<(&'static str, Dist)> {
    let made = [
        ("normal", Dist::normal(20.0 * MS, 3.0 * MS)),
        ("normal cut at zero", Dist::normal(MS, 2.0 * MS)),
        (
            "normal in a range",
            Dist::normal(20.0 * MS, 3.0 * MS).unwrap().within(18.0 * MS, 30.0 * MS),
        ),
        (
            "normal, upper tail only",
            Dist::normal(5.0 * MS, MS).unwrap().within(9.0 * MS, f64::INFINITY),
        ),
        ("exponential", Dist::exponential(2_000_000, 7.0 * MS)),
        (
            "exponential in a range",
            Dist::exponential(0, 7.0 * MS).unwrap().within(5.0 * MS, 9.0 * MS),
        ),
        ("pareto", Dist::pareto(5.0 * MS, 3.0)),
        ("pareto with a heavy tail", Dist::pareto(5.0 * MS, 0.7)),
        ("lognormal", Dist::lognormal(20.0 * MS, 10.0 * MS)),
        ("gamma", Dist::gamma(2.5, 4.0 * MS)),
        ("gamma of a small shape", Dist::gamma(0.6, 20e9)),
        ("gamma of a large shape", Dist::gamma(900.0, MS)),
        ("weibull", Dist::weibull(1.7, 10.0 * MS)),
        ("weibull of a small shape", Dist::weibull(0.5, 10e9)),
    ];
    made.into_iter().map(|(name, dist)| (name, dist.unwrap())).collect()
}

fn source(dist: &Dist) -> &LawTable {
    match &dist.0 {
        DistKind::Law(smooth) => smooth,
        other => panic!("not a law: {other:?}"),
    }
}

fn draw(dist: &Dist, count: usize) -> Vec<f64> {
    let mut stream = Stream::new(20_261_121, "test/dist");
    (0..count).map(|_| dist.sample_ns(&mut stream) as f64).collect()
}

#[test]
fn a_million_draws_of_each_law_pass_the_test_of_kolmogorov_and_smirnov() {
    for (name, dist) in continuous() {
        let smooth = source(&dist);
        let below = |ns: f64| smooth.law.below(ns - smooth.offset_ns as f64);
        let distance = kolmogorov(draw(&dist, 1_000_000), below);
        assert!(distance < 1.95, "{name}: {distance}");
    }
}

#[test]
fn a_million_draws_fill_a_thousand_equally_likely_bins_evenly() {
    for (name, dist) in continuous() {
        let edges: Vec<f64> = (1..1000).map(|n| dist.quantile_ns(f64::from(n) / 1000.0)).collect();
        let mut seen = [0; 1000];
        for ns in draw(&dist, 1_000_000) {
            seen[edges.partition_point(|&edge| edge < ns)] += 1;
        }
        let excess = chi_square_excess(&seen, &[1e-3; 1000]);
        assert!(excess.abs() < 3.3, "{name}: {excess}");
    }
}

#[test]
fn a_million_draws_of_a_deviation_one_percent_off_do_not_pass() {
    let other = Law::Normal { mean: 20.0 * MS, sd: 3.03 * MS };
    let other = law::TruncatedLaw::new(other, 0.0, f64::INFINITY).unwrap();
    let drawn = draw(&Dist::normal(20.0 * MS, 3.0 * MS).unwrap(), 1_000_000);
    assert!(kolmogorov(drawn, |ns| other.below(ns)) > 1.95);
}

#[test]
fn every_draw_is_next_to_the_exact_quantile_and_in_the_tails_upon_it() {
    for (name, dist) in continuous() {
        let smooth = source(&dist);
        let spread = dist.quantile_ns(0.84) - dist.quantile_ns(0.16);
        for exponent in 0..64 {
            for part in 0..40 {
                let folded = (1u64 << exponent) + (((1u128 << exponent) * part / 40) as u64);
                for draw in [folded, !folded] {
                    let exact = smooth.quantile_ns(tail_of(draw)).min(MAX_NS as f64);
                    let error = (dist.at(draw) as f64 - exact).abs();
                    // Rounding to whole nanoseconds adds an error of up to half a nanosecond.
                    let allowed =
                        if exponent < 47 { 0.0 } else { (1e-4 * spread).max(5e-4 * exact) };
                    assert!(error <= 0.51 + allowed, "{name} {draw:#x}: {error} of {exact}");
                }
            }
        }
    }
}

#[test]
fn the_far_tail_has_as_many_draws_as_it_should() {
    let dist = Dist::normal(20.0 * MS, 2.0 * MS).unwrap();
    let mut stream = Stream::new(4, "test/tail");
    let limits = [(4.0, 3.167e-5), (4.5, 3.398e-6)].map(|(z, p)| ((20.0 + z * 2.0) * MS, p));
    let mut beyond = [0u32; 2];
    let count = 20_000_000;
    for _ in 0..count {
        let ns = dist.sample_ns(&mut stream) as f64;
        beyond[0] += u32::from(ns > limits[0].0);
        beyond[1] += u32::from(ns > limits[1].0);
    }
    for (seen, (_, p)) in beyond.into_iter().zip(limits) {
        let expected = f64::from(count) * p;
        assert!((f64::from(seen) - expected).abs() < 3.3 * expected.sqrt(), "{seen} {expected}");
    }
}

#[test]
fn mean_and_deviation_are_those_of_the_laws() {
    let gamma_of = libm::tgamma;
    let (weibull_1, weibull_2) = (gamma_of(1.0 + 1.0 / 1.7), gamma_of(1.0 + 2.0 / 1.7));
    let cases = [
        (Dist::normal(20.0 * MS, 2.0 * MS), 20.0, 2.0),
        (Dist::exponential(2_000_000, 7.0 * MS), 7.0, 5.0),
        (Dist::pareto(5.0 * MS, 4.0), 5.0 * 4.0 / 3.0, 5.0 * (4.0f64 / (9.0 * 2.0)).sqrt()),
        (Dist::lognormal(20.0 * MS, 10.0 * MS), 20.0, 10.0),
        (Dist::gamma(2.5, 4.0 * MS), 10.0, 4.0 * 2.5f64.sqrt()),
        (Dist::gamma(0.3, 20.0 * MS), 6.0, 20.0 * 0.3f64.sqrt()),
        (
            Dist::weibull(1.7, 10.0 * MS),
            10.0 * weibull_1,
            10.0 * (weibull_2 - weibull_1 * weibull_1).sqrt(),
        ),
        (Ok(Dist::constant(3_000_000)), 3.0, 0.0),
        (Dist::uniform(1_000_000, 9_000_000), 5.0, 8.0 / 12f64.sqrt()),
    ];
    for (dist, mean, sd) in cases {
        let dist = dist.unwrap();
        assert!((dist.mean_ns() / MS / mean - 1.0).abs() < 1e-4, "{dist}: {}", dist.mean_ns());
        assert!((dist.sd_ns() / MS - sd).abs() <= 1e-3 * sd, "{dist}: {}", dist.sd_ns());
    }
}

#[test]
fn mean_and_deviation_are_those_of_what_is_drawn_after_cutting() {
    let points = [(1.0, 0.2), (4.0, 0.2), (6.0, 0.7), (6.0, 0.9), (20.0, 1.0)];
    let points = points.map(|(ms, p)| CdfPoint { ns: ms * MS, p });
    let mut all = continuous();
    all.push(("cdf", Dist::cdf(&points).unwrap()));
    all.push(("table", Dist::table(&[-30_000, -8192, 0, 5, 9000], 2.0 * MS, MS).unwrap()));
    for (name, dist) in all {
        if dist.sd_ns().is_infinite() {
            continue;
        }
        let (mean, sd) = moments(&draw(&dist, 1_000_000));
        assert!((mean - dist.mean_ns()).abs() < 3.5e-3 * dist.sd_ns(), "{name}: {mean} {dist}");
        assert!((sd / dist.sd_ns() - 1.0).abs() < 0.05, "{name}: {sd} {}", dist.sd_ns());
    }
}

#[test]
fn normal_cut_at_zero_tells_the_mean_that_is_left() {
    // Mean and deviation are both 1 ms, so 0 is 1 deviation below the mean. Truncation at 0 makes
    // the mean 1 + phi(-1) / Phi(1) ms.
    let dist = Dist::normal(MS, MS).unwrap();
    assert!((dist.mean_ns() / MS - 1.287_599_970_9).abs() < 1e-5, "{}", dist.mean_ns());
    assert_eq!(*dist.bounds().start(), 0);
}

#[test]
fn the_mean_counts_draws_beyond_104_days_as_104_days() {
    const DAY: f64 = 86_400e9;
    let wide = Dist::lognormal(100.0 * DAY, 100.0 * DAY).unwrap();
    for dist in [wide, Dist::normal(104.0 * DAY, 20.0 * DAY).unwrap()] {
        let (mean, sd) = moments(&draw(&dist, 100_000));
        let [mean, sd] = [dist.mean_ns() / mean, dist.sd_ns() / sd];
        assert!((mean - 1.0).abs() < 0.01 && (sd - 1.0).abs() < 0.02, "{dist}: {mean} {sd}");
    }
}

#[test]
fn heavy_tails_without_moments_say_so_until_they_are_cut() {
    let dist = Dist::pareto(MS, 1.5).unwrap();
    assert!((dist.mean_ns() / MS - 3.0).abs() < 1e-3, "{}", dist.mean_ns());
    assert_eq!(dist.sd_ns(), f64::INFINITY);
    assert_eq!(Dist::pareto(MS, 1.0).unwrap().mean_ns(), f64::INFINITY);
    let cut = Dist::pareto(MS, 1.0).unwrap().within(0.0, 10.0 * MS).unwrap();
    assert!((cut.mean_ns() / MS - 10f64.ln() / 0.9).abs() < 1e-3, "{}", cut.mean_ns());
}

#[test]
fn constant_is_constant_and_uniform_reaches_both_ends_evenly() {
    let mut stream = Stream::new(2, "test/uniform");
    assert_eq!(Dist::constant(77).sample_ns(&mut stream), 77);
    let dist = Dist::uniform(10, 13).unwrap();
    let mut seen = [0; 4];
    for _ in 0..40_000 {
        seen[dist.sample_ns(&mut stream) as usize - 10] += 1;
    }
    assert!(chi_square_excess(&seen, &[0.25; 4]) < 3.3, "{seen:?}");
    assert_eq!(Dist::uniform(0, u64::MAX).unwrap().bounds(), 0..=u64::MAX);
}

#[test]
fn uniform_of_milliseconds_passes_the_test_of_kolmogorov_and_smirnov() {
    let dist = Dist::uniform(1_000_000, 9_000_000).unwrap();
    let distance = kolmogorov(draw(&dist, 1_000_000), |ns| (ns - MS) / (8.0 * MS));
    assert!(distance < 1.95, "{distance}");
}

#[test]
fn table_gives_netem_values_rounded_away_from_zero_and_none_else() {
    let entries = [-8192, 4096, -4096, 1, 8192, 12_288];
    let dist = Dist::table(&entries, 100.0, 3.0).unwrap();
    let mut values: Vec<u64> = draw(&dist, 10_000).into_iter().map(|ns| ns as u64).collect();
    values.sort_unstable();
    values.dedup();
    // 98.5 and 101.5 are halfway between integers, so they are rounded away from the mean, 100.
    assert_eq!(values, [97, 99, 100, 102, 103, 105]);
}

#[test]
fn table_entries_below_zero_are_zero_and_those_out_of_range_are_not_drawn() {
    let dist = Dist::table(&[-16_384, 0, 8192, 16_384], 10.0, 8.0).unwrap();
    assert_eq!(dist.bounds(), 0..=26);
    assert_eq!(dist.within(1.0, 20.0).unwrap().bounds(), 10..=18);
    assert_eq!(dist.within(11.0, 17.0).unwrap_err().parameter, "what min and max keep");
}

#[test]
fn samples_are_picked_equally_often() {
    let dist = Dist::samples(&[50, 10, 10, 30]).unwrap();
    let mut seen = [0; 3];
    for ns in draw(&dist, 40_000) {
        seen[(ns as usize - 10) / 20] += 1;
    }
    assert!(chi_square_excess(&seen, &[0.5, 0.25, 0.25]) < 3.3, "{seen:?}");
}

#[test]
fn cdf_follows_its_lines_and_steps() {
    let points = [(1.0, 0.0), (3.0, 0.5), (3.0, 0.8), (9.0, 0.8), (10.0, 1.0)];
    let dist = Dist::cdf(&points.map(|(ms, p)| CdfPoint { ns: ms * MS, p })).unwrap();
    let below = |ms: f64| match ms {
        ms if ms < 3.0 => (ms - 1.0) / 4.0,
        ms if ms < 9.0 => 0.8,
        ms => 0.8 + (ms - 9.0) / 5.0,
    };
    let drawn = draw(&dist, 1_000_000);
    let on_step = drawn.iter().filter(|&&ns| ns == 3.0 * MS).count();
    assert!(on_step.abs_diff(300_000) < 1_600, "{on_step}");
    assert!(!drawn.iter().any(|ns| (3.001 * MS..8.999 * MS).contains(ns)));
    let smooth: Vec<f64> = drawn.into_iter().map(|ns| ns / MS).filter(|&ms| ms != 3.0).collect();
    let without_step = |ms: f64| (below(ms) - if ms > 3.0 { 0.3 } else { 0.0 }) / 0.7;
    assert!(kolmogorov(smooth, without_step) < 1.95);
    assert_eq!(dist.bounds(), 1_000_000..=10_000_000);
}

#[test]
fn cdf_that_starts_above_zero_starts_with_a_step() {
    let dist = Dist::cdf(&[CdfPoint { ns: 5.0, p: 0.25 }, CdfPoint { ns: 105.0, p: 1.0 }]).unwrap();
    assert_eq!((dist.quantile_ns(0.2), dist.quantile_ns(0.25)), (5.0, 5.0));
    assert_eq!(dist.quantile_ns(0.625), 55.0);
}

#[test]
fn cdf_in_a_range_keeps_its_proportions() {
    let points = [(0.0, 0.0), (10.0, 0.5), (20.0, 0.5), (20.0, 0.7), (40.0, 1.0)];
    let dist = Dist::cdf(&points.map(|(us, p)| CdfPoint { ns: us * 1e3, p })).unwrap();
    // The probabilities are 0.25 between 5 and 10 us, 0.2 at 20 us, and 0.15 between 20 and 30 us.
    let cut = dist.within(5e3, 30e3).unwrap();
    let expected = [(0.0, 5e3), (0.25 / 0.6, 10e3), (0.3 / 0.6, 20e3), (1.0, 30e3)];
    for (p, ns) in expected {
        assert!((cut.quantile_ns(p) - ns).abs() < 1e-6, "{p}: {}", cut.quantile_ns(p));
    }
    // The range 12 to 25 us begins in a gap of the distribution, between 10 and 20 us, and ends
    // outside a gap.
    assert_eq!(dist.within(12e3, 25e3).unwrap().bounds(), 20_000..=25_000);
    assert!(dist.within(12e3, 18e3).is_err());
}

#[test]
fn cdf_of_a_million_points_finds_the_right_one() {
    let count = 100_000;
    let point =
        |n: u32| CdfPoint { ns: f64::from(n), p: (f64::from(n) / f64::from(count)).powi(3) };
    let dist = Dist::cdf(&(0..=count).map(point).collect::<Vec<_>>()).unwrap();
    let mut stream = Stream::new(8, "test/points");
    for _ in 0..10_000 {
        let draw = stream.next_u64();
        let exact = f64::from(count) * (draw as f64 / 2f64.powi(64)).cbrt();
        assert!((dist.at(draw) as f64 - exact).abs() <= 1.0);
    }
}

#[test]
fn plus_moves_everything_up() {
    let table = Dist::table(&[-1, 1], 1000.0, 8192.0).unwrap();
    let point = |ns, p| CdfPoint { ns, p };
    let cdf = Dist::cdf(&[point(5.0, 0.0), point(90.0, 1.0)]).unwrap();
    let gamma = Dist::gamma(2.0, 1e5).unwrap();
    for dist in [Dist::constant(9), Dist::uniform(3, 30).unwrap(), table, cdf, gamma] {
        let moved = dist.plus(1_000_000);
        for draw in [0, 1 << 20, 1 << 63, u64::MAX] {
            assert_eq!(moved.at(draw), dist.at(draw) + 1_000_000, "{dist}");
        }
        assert!((moved.mean_ns() - dist.mean_ns() - 1e6).abs() < 1e-3);
    }
    let late = Dist::gamma(2.0, 1e5).unwrap().plus(500_000).within(600_000.0, 1e6).unwrap();
    assert_eq!(late.bounds(), 600_000..=1_000_000);
}

#[test]
fn draws_are_the_same_on_every_machine() {
    let draws = |dist: Result<Dist, ParameterError>| {
        let (dist, mut stream) = (dist.unwrap(), Stream::new(1, "golden"));
        [0; 3].map(|_| dist.sample_ns(&mut stream))
    };
    let drawn = [
        draws(Dist::uniform(1_000_000, 9_000_000)),
        draws(Dist::normal(20.0 * MS, 3.0 * MS)),
        draws(Dist::exponential(0, 7.0 * MS)),
        draws(Dist::pareto(5.0 * MS, 3.0)),
        draws(Dist::lognormal(20.0 * MS, 10.0 * MS)),
        draws(Dist::gamma(2.5, 4.0 * MS)),
        draws(Dist::weibull(1.7, 10.0 * MS)),
    ];
    let golden = [
        [1_688_437, 3_816_686, 8_086_146],
        [15_903_610, 18_860_898, 23_613_025],
        [629_892, 3_038_010, 15_186_937],
        [5_152_246, 5_778_277, 10_305_002],
        [9_385_284, 14_951_330, 31_597_282],
        [2_984_789, 6_677_511, 17_746_494],
        [2_425_511, 6_120_078, 15_771_215],
    ];
    assert_eq!(drawn, golden);
    // These exact quantiles were computed independently of this code, with 30 digits.
    let exact = [
        [1_688_437.0, 3_816_686.0, 8_086_146.0],
        [15_903_627.5, 18_860_913.4, 23_612_978.6],
        [629_891.5, 3_037_978.1, 15_186_681.1],
        [5_152_246.1, 5_778_265.4, 10_304_835.0],
        [9_385_300.6, 14_951_320.8, 31_596_962.1],
        [2_984_797.2, 6_677_502.8, 17_746_311.8],
        [2_425_518.3, 6_120_076.1, 15_771_088.4],
    ];
    for (drawn, exact) in drawn.as_flattened().iter().zip(exact.as_flattened()) {
        assert!((*drawn as f64 / exact - 1.0).abs() < 2e-5, "{drawn} {exact}");
    }
}

#[test]
fn one_draw_takes_one_number_whatever_the_law() {
    let points = [CdfPoint { ns: 1.0, p: 0.5 }, CdfPoint { ns: 9.0, p: 1.0 }];
    let others = [
        Dist::constant(1),
        Dist::uniform(1, 2).unwrap(),
        Dist::table(&[-1, 1], 1000.0, 8192.0).unwrap(),
        Dist::samples(&[40, 10, 30]).unwrap(),
        Dist::cdf(&points).unwrap(),
    ];
    for dist in continuous().into_iter().map(|(_, dist)| dist).chain(others) {
        let mut stream = Stream::new(1, "test/one");
        let mut plain = stream.clone();
        dist.sample_ns(&mut stream);
        plain.next_u64();
        assert_eq!(stream, plain);
    }
}

#[test]
fn parameters_that_make_no_sense_are_named() {
    let point = |ns, p| CdfPoint { ns, p };
    let cases = [
        (Dist::normal(f64::NAN, 1.0), "mean must be 0 or more, and is NaN"),
        (Dist::normal(-5.0, 1.0), "mean must be 0 or more, and is -5"),
        (Dist::normal(5.0, 0.0), "sd must be greater than 0, and is 0"),
        (Dist::normal(5.0, f64::INFINITY), "sd must be greater than 0, and is inf"),
        (
            Dist::normal(1e30, 1.0),
            "mean must be below 104 days, and is 1000000000000000000000000000000",
        ),
        (Dist::uniform(2, 1), "max must be no less than min, and is 1"),
        (Dist::exponential(9, 9.0), "mean must be greater than min, and is 9"),
        (Dist::pareto(1.0, f64::NAN), "shape must be 0.1 to 1000000, and is NaN"),
        (Dist::pareto(0.0, 2.0), "scale must be greater than 0, and is 0"),
        (Dist::lognormal(5.0, -1.0), "sd must be greater than 0, and is -1"),
        (Dist::gamma(0.0, 1.0), "shape must be 0.1 to 1000000, and is 0"),
        (Dist::weibull(1e7, 1.0), "shape must be 0.1 to 1000000, and is 10000000"),
        (Dist::table(&[], 1.0, 1.0), "the number of values must be at least 1, and is 0"),
        (
            Dist::table(&[0; 16_385], 1.0, 1.0),
            "the number of entries must be at most 16384, and is 16385",
        ),
        (Dist::table(&[1], 1.0, -1.0), "sd must be 0 or more, and is -1"),
        (Dist::samples(&[]), "the number of values must be at least 1, and is 0"),
        (Dist::samples(&[u64::MAX]), "a value must be below 104 days, and is 18446744073709552000"),
        (Dist::cdf(&[point(1.0, 1.0)]), "the number of points must be at least 2, and is 1"),
        (
            Dist::cdf(&[point(2.0, 0.0), point(1.0, 1.0)]),
            "a value must be no less than the one before it, and is 1",
        ),
        (
            Dist::cdf(&[point(1.0, 0.5), point(2.0, 0.4)]),
            "a probability must be no less than the one before, and is 0.4",
        ),
        (
            Dist::cdf(&[point(1.0, 0.0), point(2.0, 0.9)]),
            "the last probability must be 1, and is 0.9",
        ),
        (
            Dist::cdf(&[point(1.0, 0.0), point(2.0, f64::NAN)]),
            "a probability must be 0 to 1, and is NaN",
        ),
    ];
    for (made, message) in cases {
        assert_eq!(made.unwrap_err().to_string(), message);
    }
}

#[test]
fn ranges_that_make_no_sense_are_named() {
    let dist = Dist::normal(20.0 * MS, MS).unwrap();
    let refused = |min, max| dist.within(min, max).unwrap_err().parameter;
    assert_eq!(refused(-1.0, 5.0), "min");
    assert_eq!(refused(f64::NAN, 5.0), "min");
    assert_eq!(refused(5.0, 4.0), "max");
    assert_eq!(refused(5.0, f64::NAN), "max");
    assert_eq!(refused(40.0 * MS, 50.0 * MS), "what min and max keep");
    assert_eq!(Dist::constant(7).within(8.0, 9.0).unwrap_err().parameter, "min to max");
    assert_eq!(Dist::uniform(1, 3).unwrap().within(4.0, 9.0).unwrap_err().parameter, "max");
}

#[test]
fn description_tells_what_was_asked_for() {
    let cut = Dist::normal(20.0 * MS, 3.5 * MS).unwrap().within(15.0 * MS, 4e9).unwrap();
    let late = Dist::gamma(2.5, 4e3).unwrap().plus(1_000_000);
    let cases = [
        (Dist::constant(20_000_000), "constant(20ms)"),
        (Dist::uniform(1, 2_500).unwrap(), "uniform(1ns to 2.5us)"),
        (cut, "normal(mean 20ms, sd 3.5ms) from 15ms up to 4s"),
        (late, "gamma(shape 2.5, scale 4us) plus 1ms"),
        (Dist::lognormal(2e7, 1e7).unwrap(), "lognormal(mean 20ms, sd 10ms)"),
        (Dist::table(&[1, 2], 1e6, 1e3).unwrap(), "table(mean 1ms, sd 1us, 2 entries)"),
        (Dist::samples(&[1, 2]).unwrap(), "samples(2 values)"),
    ];
    for (dist, words) in cases {
        assert_eq!(dist.describe(), words);
    }
}

#[test]
fn playback_repeats_its_values_in_order() {
    let mut playback = Playback::new(&[5, 1, 9]).unwrap();
    let played: Vec<u64> = (0..7).map(|_| playback.next_ns()).collect();
    assert_eq!(played, [5, 1, 9, 5, 1, 9, 5]);
    assert!(Playback::new(&[]).is_err());
}

proptest! {
    #[test]
    fn greater_draws_never_give_lesser_times(
        which in 0usize..14, a: u64, b: u64, near_a in 0u64..2_000_000,
    ) {
        let dist = &continuous_once()[which].1;
        let draws = [a, b, a.saturating_add(near_a)];
        for (a, b) in [(draws[0], draws[1]), (draws[0], draws[2])] {
            prop_assert!(dist.at(a.min(b)) <= dist.at(a.max(b)));
            prop_assert!(dist.bounds().contains(&dist.at(a)));
        }
    }

    #[test]
    fn any_cdf_in_any_range_stays_in_it(
        steps in prop::collection::vec((0u32..1000, 0u32..1000), 2..20),
        range in (0u32..20_000, 0u32..20_000),
        draws in prop::collection::vec(any::<u64>(), 20),
    ) {
        let total = steps.iter().map(|step| step.1).sum::<u32>().max(1);
        let points: Vec<CdfPoint> = steps.iter().scan((0, 0), |sum, step| {
            *sum = (sum.0 + step.0, sum.1 + step.1);
            Some(CdfPoint { ns: f64::from(sum.0), p: f64::from(sum.1) / f64::from(total) })
        }).collect();
        prop_assume!(points.last().is_some_and(|last| last.p == 1.0));
        let dist = Dist::cdf(&points).unwrap();
        let (low, high) = (f64::from(range.0.min(range.1)), f64::from(range.0.max(range.1)));
        if let Ok(cut) = dist.within(low, high) {
            for draw in draws {
                prop_assert!((low..=high).contains(&(cut.at(draw) as f64)));
                prop_assert!(dist.bounds().contains(&cut.at(draw)));
            }
            prop_assert!(cut.mean_ns() >= low && cut.mean_ns() <= high);
        }
    }
}

fn continuous_once() -> &'static [(&'static str, Dist)] {
    static ALL: std::sync::OnceLock<Vec<(&'static str, Dist)>> = std::sync::OnceLock::new();
    ALL.get_or_init(continuous)
}

#[test]
fn quantiles_lie_where_the_values_lie() {
    let uniform = Dist::uniform(100, 300).unwrap();
    assert_eq!([0.0, 0.25, 1.0, 7.0].map(|p| uniform.quantile_ns(p)), [100.0, 150.0, 300.0, 300.0]);
    let samples = Dist::samples(&[40, 10, 30, 20]).unwrap();
    let points = [-1.0, 0.0, 0.24, 0.26, 0.5, 0.76, 1.0];
    assert_eq!(points.map(|p| samples.quantile_ns(p)), [10.0, 10.0, 10.0, 20.0, 30.0, 40.0, 40.0]);
    let normal = Dist::normal(20.0 * MS, 3.0 * MS).unwrap();
    // 97.725 % of a normal distribution is below the mean plus two standard deviations.
    for (p, sigmas) in [(0.022_750_131_948, -2.0), (0.5, 0.0), (0.977_249_868_052, 2.0)] {
        let expected = (20.0 + 3.0 * sigmas) * MS;
        assert!((normal.quantile_ns(p) - expected).abs() < 1000.0, "{p}");
    }
}

#[test]
fn moments_of_choices_are_those_of_a_sum_over_them() {
    let sums = |values: &[u64]| {
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        let squares = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>();
        (mean, (squares / values.len() as f64).sqrt())
    };
    let uniform: Vec<u64> = (100..=307).collect();
    let samples = [40, 10, 30, 20, 20, 1000];
    for (dist, values) in [
        (Dist::uniform(100, 307).unwrap(), &uniform[..]),
        (Dist::samples(&samples).unwrap(), &samples[..]),
        (Dist::samples(&samples).unwrap().plus(500), &samples.map(|ns| ns + 500)[..]),
        (Dist::constant(7), &[7]),
    ] {
        let (mean, sd) = sums(values);
        assert!((dist.mean_ns() - mean).abs() < 1e-6 && (dist.sd_ns() - sd).abs() < 1e-6, "{dist}");
    }
}

#[test]
fn a_mean_is_told_as_it_was_requested_where_one_was() {
    let requested = |dist: Result<Dist, ParameterError>| dist.unwrap().requested_mean_ns();
    assert_eq!(requested(Dist::normal(MS, 2.0 * MS)), Some(MS));
    assert_eq!(requested(Dist::exponential(500, MS)), Some(MS));
    assert_eq!(requested(Dist::gamma(2.5, 4.0 * MS)), Some(10.0 * MS));
    let lognormal = requested(Dist::lognormal(20.0 * MS, 10.0 * MS)).unwrap();
    assert!((lognormal / (20.0 * MS) - 1.0).abs() < 1e-9, "{lognormal}");
    assert_eq!(Dist::normal(MS, 2.0 * MS).unwrap().plus(7).requested_mean_ns(), Some(MS + 7.0));
    for dist in [Dist::pareto(MS, 3.0), Dist::uniform(1, 2), Dist::samples(&[1, 2])] {
        assert_eq!(requested(dist), None);
    }
}
