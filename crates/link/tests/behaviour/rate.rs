//! Tests of a link's rate.

use slipring_link::{Framing, LinkSpec, RateSpec};

use crate::support::{Sim, releases};

pub(crate) fn constant(bps: u64) -> LinkSpec {
    LinkSpec { rate: RateSpec::Constant { bps }, ..LinkSpec::wire("up") }
}

#[test]
fn a_frame_takes_its_bits_over_the_rate() {
    assert_eq!(releases(constant(10_000_000), 1, 1250, 0), [1_000_000]);
}

#[test]
fn frames_of_one_moment_leave_one_after_another() {
    let out = releases(constant(10_000_000), 1000, 1250, 0);
    let expected: Vec<u64> = (1..=1000).map(|k| k * 1_000_000).collect();
    assert_eq!(out, expected);
}

#[test]
fn a_million_frames_at_line_rate_end_to_the_nanosecond() {
    let spec = LinkSpec { framing: Framing::ETHER, ..constant(10_000_000_000) };
    assert_eq!(releases(spec, 1_000_000, 60, 0).last(), Some(&67_200_000));
}

#[test]
fn rates_of_400_gbit_do_not_drift() {
    let spec = LinkSpec { framing: Framing::ETHER, ..constant(400_000_000_000) };
    // 84 bytes take 1.68 ns.
    assert_eq!(releases(spec, 1_000_000, 60, 0).last(), Some(&1_680_000));
}

#[test]
fn slow_rates_take_seconds_per_frame() {
    assert_eq!(releases(constant(1_000), 1, 1500, 0), [12_000_000_000]);
    assert_eq!(releases(constant(1), 1, 60, 0), [480_000_000_000]);
}

#[test]
fn frames_longer_than_64_kib_pass() {
    assert_eq!(releases(constant(8_000_000_000), 1, 1 << 20, 0), [1 << 20]);
}

#[test]
fn an_idle_line_starts_at_the_arrival() {
    let mut sim = Sim::link(constant(8_000_000_000));
    sim.push(1_000, 100);
    sim.push(1_050, 100);
    sim.push(5_000, 100);
    sim.finish();
    assert_eq!(sim.memory.releases(), [1_100, 1_200, 5_100]);
}
