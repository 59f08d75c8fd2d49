//! Tests of configuration defects of TLEM and nmreplay that must not return. Their runtime defects
//! are tested with the engine and the runners.

use slipring_link::{DelayModel, LossModel, RateSpec};
use slipring_model::Chance;

use super::{links, plan, plan_of, refusal, up};

#[test]
fn a_second_queue_is_the_other_directions_own() {
    let [up, down] = links("-B 10m -Q 10k -Q 20k");
    assert_eq!((up.queue.bytes, down.queue.bytes), (Some(10_240), Some(20_480)));
}

#[test]
fn every_flag_given_twice_is_each_directions_own() {
    for (flag, a, b) in [
        ("-B", "1m", "2m"),
        ("-D", "1m", "2m"),
        ("-L", "1%", "2%"),
        ("-R", "0.1,1m", "0.2,2m"),
        ("-Q", "1k", "2k"),
        ("-P", "0", "1"),
        ("-O", "1u", "2u"),
        ("--police", "1m", "2m"),
        ("--corrupt", "1e-6", "1e-7"),
        ("--duplicate", "1%", "2%"),
        ("--order", "free", "drop"),
        ("--admit", "strict", "tlem"),
        ("--serialise", "start", "end"),
        ("--half-life", "1m", "2m"),
    ] {
        let rename = |mut link: slipring_link::LinkSpec| {
            link.name.clear();
            link
        };
        let [up_both, down_both] = links(&format!("{flag} {a}")).map(rename);
        assert_eq!(up_both, down_both, "{flag} once");
        let [up_own, down_own] = links(&format!("{flag} {a} {flag} {b}")).map(rename);
        assert_eq!(up_own, up_both, "{flag} twice: the first");
        assert_eq!(down_own, rename(up(&format!("{flag} {b}"))), "{flag} twice: the second");
        assert_ne!(up_own, down_own, "{flag} twice");
    }
}

#[test]
fn a_queue_of_4_gib_is_not_unlimited() {
    assert_eq!(up("-B 10m -Q 4g").queue.bytes, Some(4 << 30));
    assert_eq!(up("-B 10m -Q 5g").queue.bytes, Some(5 << 30));
}

#[test]
fn a_bad_queue_or_offset_is_noticed() {
    assert!(refusal("-B 10m -Q big").starts_with("`big` does not fit link.up.queue"));
    assert!(refusal("-O often").starts_with("`often` does not fit link.up.offset"));
}

#[test]
fn rates_below_four_seconds_per_frame_are_kept() {
    assert_eq!(up("-B 1").rate, RateSpec::Constant { bps: 1 });
    assert_eq!(up("-B 100").rate, RateSpec::Constant { bps: 100 });
    assert_eq!(up("-B 400g").rate, RateSpec::Constant { bps: 400_000_000_000 });
}

#[test]
fn a_bit_error_rate_of_1e_minus_12_is_not_no_loss() {
    assert_eq!(up("-L ber,1e-12").loss[0].model, LossModel::Ber(1e-12));
    let LossModel::Bernoulli(chance) = up("-L plr,1e-15").loss[0].model else { panic!() };
    assert!(chance > Chance::NEVER);
}

#[test]
fn both_directions_have_streams_of_their_own_and_the_seed_repeats() {
    let plan = plan("--virtual a b -L 0.1 --seed 9").unwrap();
    let names: Vec<_> = plan.network.links.iter().map(|link| link.spec.name.as_str()).collect();
    assert_eq!((plan.seed, names), (9, vec!["up", "down"]), "streams are named by their links");
}

#[test]
fn the_mean_of_exp_is_the_mean_that_was_asked_for() {
    let DelayModel::Random(delay) = up("-D exp,1ms,10ms").delay.model else { panic!() };
    assert!((delay.mean_ns() / 10e6 - 1.0).abs() < 1e-4, "{}", delay.mean_ns());
    assert!(*delay.bounds().end() > 200_000_000, "it is not cut at a few means");
}

#[test]
fn ten_minutes_are_not_ten_milliseconds() {
    assert_eq!(up("-D 10min").delay.model, DelayModel::Constant(600_000_000_000));
    assert_eq!(up("-D 10m").delay.model, DelayModel::Constant(10_000_000));
}

#[test]
fn negative_values_and_nan_do_not_pass() {
    for flag in ["-B", "-D", "-L", "-Q", "-O"] {
        for value in ["-1", "-0.5", "nan", "NaN", "inf", "-inf"] {
            assert!(plan_of(&["--virtual", "a", "b", flag, value]).is_err(), "{flag} {value}");
        }
    }
}

#[test]
fn a_hold_without_its_values_is_refused_not_read_past_the_end() {
    for value in ["const", "const,", "const,0.1", "0.1", ""] {
        assert!(plan_of(&["--virtual", "a", "b", "-R", value]).is_err(), "{value:?}");
    }
    assert!(up("-R const,0.1,5ms").hold.is_some());
}

#[test]
fn avg_polices_slow_rates_exactly() {
    for bps in [1, 7_600, 10_000] {
        let police = up(&format!("-B avg,{bps}")).police.unwrap();
        let slipring_link::MeterSpec::Bucket { bps: asked, burst } = police.meter else { panic!() };
        assert_eq!(asked, bps);
        assert!(burst >= 2 * 1514, "a frame fits at every rate");
    }
}

#[test]
fn a_bad_value_ends_the_run_before_it_begins() {
    // If an option was invalid, nmreplay printed a message and continued without the impairment.
    for args in ["-B fast", "-D later", "-L often", "-B ether", "-L plr", "-D uniform,1ms"] {
        assert!(plan(&format!("--virtual a b {args}")).is_err(), "{args}");
    }
}
