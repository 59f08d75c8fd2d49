//! Tests that defects of earlier emulators do not occur here.

use slipring_link::{
    AdmitPolicy, DelaySpec, Framing, LinkDropCause, LinkQueueSpec, LinkSpec, LossModel,
    LossPosition, NetworkSpec, RateSpec,
};
use slipring_model::Dist;

use crate::loss::lossy;
use crate::rate::constant;
use crate::support::{Sim, delays, losses, mean, releases};

fn limited(name: &str, bytes: Option<u64>) -> LinkSpec {
    let queue = LinkQueueSpec { bytes, ..LinkQueueSpec::default() };
    LinkSpec { name: name.into(), queue, ..constant(1_000_000) }
}

#[test]
fn each_direction_has_its_own_queue_limit() {
    let (up, down) = (limited("up", Some(3_000)), limited("down", Some(5_000)));
    let mut sim = Sim::new(&NetworkSpec::between("left", "right", up, down), 1);
    for _ in 0..20 {
        sim.push_at(0, 0, 1_000);
        sim.push_at(1, 0, 1_000);
    }
    sim.finish();
    let exits = |exit| sim.memory.delivered.iter().filter(move |delivery| delivery.exit.0 == exit);
    assert_eq!((exits(1).count(), exits(0).count()), (3, 5));
}

#[test]
fn a_queue_of_4_gib_has_a_limit() {
    let four_gib = 4 << 30;
    let mut sim = Sim::link(limited("up", Some(four_gib)));
    (0..5).for_each(|_| _ = sim.push(0, 1 << 30));
    assert_eq!(sim.counters().drops[LinkDropCause::Queue].packets, 1);
}

#[test]
fn line_rate_is_right_at_every_speed() {
    for gbit in [1, 10, 25, 40, 100, 200, 400] {
        let spec = LinkSpec { framing: Framing::ETHER, ..constant(gbit * 1_000_000_000) };
        let last = *releases(spec, 100_000, 60, 0).last().unwrap();
        assert_eq!(last, (100_000u64 * 84 * 8).div_ceil(gbit), "{gbit} Gbit/s");
    }
}

#[test]
fn frames_may_take_longer_than_4_seconds() {
    assert_eq!(releases(constant(2_000), 2, 1_500, 0), [6_000_000_000, 12_000_000_000]);
}

#[test]
fn tiny_error_rates_are_not_rounded_away() {
    // An emulator whose error rates are multiples of 8 * 2^-24, which is 4.8e-7, would round 1e-7
    // per bit to 0. Here, about 100 of 10^6 frames of 1000 bits are lost.
    let lost = losses(lossy(LossModel::Ber(1e-7), LossPosition::Pre), 7, 1_000_000);
    let count = lost.iter().filter(|&&lost| lost).count();
    assert!(count.abs_diff(100) < 33, "{count}");
    // At 1e-12, one of 10^9 frames of 1000 bits is lost, or about one of 116 frames of 1 GiB.
    let mut sim = Sim::link(lossy(LossModel::Ber(1e-12), LossPosition::Pre));
    (0..1_000).for_each(|_| _ = sim.push(0, 1 << 30));
    let count = sim.memory.lost_to(LinkDropCause::Ber);
    assert!((1..30).contains(&count), "{count}");
}

#[test]
fn exponential_delays_have_no_end_and_the_mean_that_was_asked() {
    let dist = Dist::exponential(0, 1e6).unwrap();
    let spec = LinkSpec { delay: DelaySpec::random(dist), ..LinkSpec::wire("up") };
    let out = delays(spec, 100_000, 1_000_000_000);
    assert!((mean(&out) / 1e6 - 1.0).abs() < 0.0104, "{}", mean(&out));
    assert!(out.iter().any(|&delay| delay > 9_000_000), "a tail beyond 6.24 means");
}

#[test]
fn bounding_a_running_unlimited_queue_never_miscounts() {
    let mut sim = Sim::link(limited("up", None));
    for len in [1_500, 60, 9_000, 64, 700] {
        sim.push(0, len);
    }
    sim.network.change(1, &NetworkSpec::single(limited("up", Some(2_000)))).unwrap();
    sim.push(2, 60);
    assert_eq!(sim.counters().drops[LinkDropCause::Queue].packets, 1, "it is over its limit");
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 5);
    // All waiting frames have left, so the queue has space again: exactly its limit.
    let now_ns = 1_000_000_000;
    for len in [1_000, 1_000, 60] {
        sim.push(now_ns, len);
    }
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 7);
    assert_eq!(sim.counters().drops[LinkDropCause::Queue].packets, 2);
    assert!(sim.counters().is_balanced());
}

#[test]
fn quick_changes_do_not_mix() {
    let spec = |bps, delay_ns| LinkSpec { delay: DelaySpec::constant(delay_ns), ..constant(bps) };
    let mut sim = Sim::link(spec(1_000, 1));
    for (bps, delay_ns) in [(2_000, 2), (3_000, 3), (8_000_000_000, 4)] {
        sim.network.change(0, &NetworkSpec::single(spec(bps, delay_ns))).unwrap();
    }
    sim.push(0, 100);
    sim.finish();
    assert_eq!(sim.memory.releases(), [104]);
}

#[test]
fn a_full_queue_drops_exactly_what_does_not_fit_and_nothing_later() {
    // 100 frames per ms for a line that sends 10: the queue must drop 90 of them.
    let queue = LinkQueueSpec { packets: Some(10), ..LinkQueueSpec::default() };
    let mut sim = Sim::link(LinkSpec { queue, ..constant(80_000_000) });
    for number in 0..10_000u64 {
        sim.push(number * 10_000, 1_000);
    }
    sim.finish();
    let counters = sim.counters();
    assert_eq!(counters.output.packets, 1_009, "10 a ms, and 9 that wait at the end");
    assert_eq!(counters.drops[LinkDropCause::Queue].packets, 10_000 - 1_009);
}

#[test]
fn a_batch_at_line_rate_does_not_overflow_a_small_queue() {
    // Frames have their own arrival times. So 1.5 MB that are pushed before the network runs, but
    // arrive at 10 Gbit/s, are never in the queue together.
    let queue = LinkQueueSpec { bytes: Some(50_000), ..LinkQueueSpec::default() };
    let spec = LinkSpec { queue, framing: Framing::ETHER, ..constant(10_000_000_000) };
    let mut sim = Sim::link(spec);
    for number in 0..1_000u64 {
        // 1524 bytes take 1219.2 ns.
        sim.push(number * 6_096 / 5, 1_500);
    }
    sim.finish();
    assert_eq!(sim.memory.delivered.len(), 1_000);
}

#[test]
fn long_frames_pass_every_stage() {
    for len in [9_200, 9_216, 65_535, 1_000_000] {
        let delay = DelaySpec::random(Dist::uniform(1, 1_000).unwrap());
        let out = releases(LinkSpec { delay, ..constant(8_000_000_000) }, 3, len, 0);
        assert_eq!(out.len(), 3, "{len}");
        assert!(out[2] > u64::from(len) * 3);
    }
}

#[test]
fn short_frames_are_counted() {
    let mut sim = Sim::link(LinkSpec::wire("up"));
    for len in [0, 1, 14, 59] {
        sim.push(0, len);
    }
    sim.finish();
    assert_eq!(sim.counters().output.packets, 4);
    assert!(sim.counters().is_balanced());
}

#[test]
fn loss_overflow_and_policing_have_counters_of_their_own() {
    let nth = LossModel::Nth { every: 2, nth: 1 };
    let spec = LinkSpec {
        police: Some(slipring_link::PoliceSpec::bucket(1_000, 8_000)),
        queue: LinkQueueSpec {
            packets: Some(2),
            admit: AdmitPolicy::Strict,
            ..LinkQueueSpec::default()
        },
        rate: RateSpec::Constant { bps: 1_000 },
        ..lossy(nth, LossPosition::Pre)
    };
    let mut sim = Sim::link(spec);
    (0..10).for_each(|_| _ = sim.push(0, 1_000));
    let drops = sim.counters().drops;
    let counts = [LinkDropCause::Police, LinkDropCause::Loss, LinkDropCause::Queue]
        .map(|cause| drops[cause].packets);
    assert_eq!(counts, [2, 4, 2]);
}

#[test]
fn random_delays_of_ordered_frames_never_leave_in_one_burst_when_correlated() {
    let delay = DelaySpec {
        half_life_ns: Some(50_000_000),
        ..DelaySpec::random(Dist::uniform(0, 10_000_000).unwrap())
    };
    let order = slipring_link::OrderPolicy::Correlated;
    let out = releases(LinkSpec { delay, order, ..LinkSpec::wire("up") }, 500_000, 60, 1_000);
    let longest = out.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap();
    // In TLEM, as many as 9515 frames leave at the same time, at a million packets per second.
    assert!(longest < 10, "{longest}");
}

#[test]
fn the_clock_of_the_caller_may_stand_still() {
    let mut sim =
        Sim::link(LinkSpec { delay: DelaySpec::constant(100), ..constant(1_000_000_000) });
    for _ in 0..10 {
        sim.push(1_000, 125);
        sim.run(1_000);
    }
    sim.finish();
    let expected: Vec<u64> = (1..=10).map(|k| 1_100 + k * 1_000).collect();
    assert_eq!(sim.memory.releases(), expected);
}
