use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

fn view(packets: u64, delay_ns: u64) -> AqmQueueView {
    AqmQueueView { bytes: packets * 1000, packets, delay_ns }
}

fn arriving(now_ns: u64, delay_ns: u64) -> AqmArrival {
    AqmArrival { now_ns, len: 1000, queue: view(50, delay_ns) }
}

fn given() -> PieSpec {
    PieSpec { delay_from: DelaySource::View, ..PieSpec::default() }
}

/// Returns the probability after each update. In each update period, one packet arrives and finds
/// the next delay of `delays_ms`.
fn probabilities(spec: &PieSpec, delays_ms: &[u64]) -> std::vec::Vec<f64> {
    let (mut pie, mut random) = (Pie::new(spec).unwrap(), Stream::new(1, "pie"));
    pie.admit(&arriving(0, 0), || true, &mut random);
    let steps = delays_ms.iter().zip(1..);
    steps
        .map(|(delay_ms, n)| {
            pie.admit(&arriving(n * 15 * MS, delay_ms * MS), || true, &mut random);
            pie.probability()
        })
        .collect()
}

fn assert_close(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-9 * expected.abs(), "{got:e} {expected:e}");
    }
}

#[test]
fn probability_follows_the_worked_example() {
    // By hand: step = tune * (0.125 (d - 0.015) + 1.25 (d - d_before)).
    // 20 ms: (0.000625 + 0.025) / 2048 = 1.251220703125e-5
    // 60 ms: p < 1e-4: (0.005625 + 0.05) / 128 = 4.345703125e-4 more
    // 60 ms: p < 1e-3: 0.005625 / 32 = 1.7578125e-4 more
    // 10 ms: p < 1e-3: (-0.000625 - 0.0625) / 32 makes the probability negative, so it becomes 0
    let got = probabilities(&given(), &[20, 60, 60, 10]);
    assert_close(&got, &[1.251220703125e-5, 4.47082519531e-4, 6.22863769531e-4, 0.0]);
}

#[test]
fn growth_is_capped_at_two_percent_once_probability_is_ten() {
    let spec = PieSpec { alpha: 0.0, beta: 100.0, ..given() };
    // The first update adds 1/2048 * 100 * 3 s = 0.146. This is not capped, because p was below
    // 0.1. Each later update adds the cap of 0.02.
    let got = probabilities(&spec, &[3000, 6000, 9000]);
    assert_close(&got, &[300.0 / 2048.0, 300.0 / 2048.0 + 0.02, 300.0 / 2048.0 + 0.04]);
    let free = probabilities(&PieSpec { cap: false, ..spec }, &[3000, 6000]);
    assert_close(&free, &[300.0 / 2048.0, 1.0]);
}

#[test]
fn probability_decays_by_two_percent_without_a_queue() {
    let spec = PieSpec { alpha: 0.0, beta: 0.0, ..given() };
    let mut pie = Pie { p: 0.5, ..Pie::new(&spec).unwrap() };
    let mut random = Stream::new(1, "pie");
    for n in 0..10 {
        pie.admit(&arriving(n * 15 * MS, 0), || true, &mut random);
    }
    assert!((pie.probability() - 0.5 * 0.98f64.powi(9)).abs() < 1e-12);
}

/// Returns a controller that stays at probability `p` while its queue stays long.
fn standing(spec: &PieSpec, p: f64) -> Pie {
    let spec = PieSpec { alpha: 0.0, beta: 0.0, ..*spec };
    Pie { p, old_delay_ns: 100 * MS, burst_left_ns: 0, ..Pie::new(&spec).unwrap() }
}

fn hits(pie: &mut Pie, count: u64) -> std::vec::Vec<u64> {
    let mut random = Stream::new(3, "pie");
    let packet = arriving(0, 100 * MS);
    (0..count).filter(|_| pie.admit(&packet, || false, &mut random) == AqmVerdict::Drop).collect()
}

#[test]
fn random_drops_come_as_often_as_the_probability_says() {
    let spec = PieSpec { derandomize: false, ..given() };
    let hits = hits(&mut standing(&spec, 0.05), 200_000).len() as f64;
    // The hits have a binomial(200 000, 0.05) distribution. 390 is four of its standard
    // deviations.
    assert!((hits - 10_000.0).abs() < 390.0, "{hits}");
}

#[test]
fn derandomized_drops_are_neither_too_close_nor_too_far_apart() {
    let hits = hits(&mut standing(&given(), 0.05), 200_000);
    let gaps = hits.windows(2).map(|pair| pair[1] - pair[0]);
    // At p = 0.05, the accumulated probability reaches 0.85 with the 17th packet, and 8.5 with the
    // 170th packet.
    assert!(gaps.clone().all(|gap| (17..=171).contains(&gap)), "{:?}", gaps.max());
    assert!(gaps.clone().min().unwrap() <= 18);
}

#[test]
fn ecn_protects_only_up_to_its_threshold() {
    let mut random = Stream::new(3, "pie");
    let mut verdicts = |p| {
        let spec = PieSpec { ecn: true, derandomize: false, ..given() };
        let mut pie = standing(&spec, p);
        let packet = arriving(0, 100 * MS);
        [(); 1000].map(|()| pie.admit(&packet, || true, &mut random))
    };
    let (low, high) = (verdicts(0.09), verdicts(0.1));
    assert!(low.contains(&AqmVerdict::Mark) && !low.contains(&AqmVerdict::Drop));
    assert!(high.contains(&AqmVerdict::Drop) && !high.contains(&AqmVerdict::Mark));
}

#[test]
fn short_queues_and_calm_ones_are_left_alone() {
    let mut random = Stream::new(3, "pie");
    let mut pie = standing(&given(), 1.0);
    let short = AqmArrival { queue: view(2, 100 * MS), ..arriving(0, 0) };
    assert!((0..100).all(|_| pie.admit(&short, || false, &mut random) == AqmVerdict::Keep));
    let mut calm = Pie { old_delay_ns: 7 * MS, ..standing(&given(), 0.19) };
    assert!(hits(&mut calm, 1000).is_empty());
    let mut busy = Pie { old_delay_ns: 7 * MS, ..standing(&given(), 0.21) };
    assert!(!hits(&mut busy, 1000).is_empty());
}

#[test]
fn departure_rate_is_learnt_from_long_queues() {
    let mut meter = RateMeter::default();
    // 1000 bytes leave every 0.8 ms, which is 10 Mbit/s. So 40 kB take 32 ms.
    for n in 0..200 {
        let queue = view(40, 0);
        meter.departed(&AqmDeparture { now_ns: n * 800_000, len: 1000, sojourn_ns: 0, queue });
    }
    assert_eq!(meter.delay_ns(40_000), 32 * MS);
    let mut short = RateMeter::default();
    for n in 0..200 {
        let queue = view(16, 0);
        short.departed(&AqmDeparture { now_ns: n * 800_000, len: 1000, sojourn_ns: 0, queue });
    }
    assert_eq!(short.delay_ns(40_000), 0);
}

#[test]
fn told_delay_is_carried_back_and_forth_to_the_updates() {
    let delays = |first_ms: u64, second_ms: u64| {
        let spec = PieSpec { alpha: 0.0, beta: 0.0, ..given() };
        let (mut pie, mut random) = (Pie::new(&spec).unwrap(), Stream::new(1, "pie"));
        pie.admit(&arriving(0, first_ms * MS), || true, &mut random);
        // This call, at 40 ms, performs the updates that were due at 15 and 30 ms.
        pie.admit(&arriving(40 * MS, second_ms * MS), || true, &mut random);
        pie.old_delay_ns / MS
    };
    // The delays at the update of 30 ms: a delay of 7 ms at 40 ms was 17 ms at 30 ms. A queue with
    // a delay of 33 ms at 0 ms, which is empty at 40 ms, had a delay of 3 ms at 30 ms.
    assert_eq!((delays(47, 7), delays(33, 0), delays(20, 0)), (17, 3, 0));
}

#[test]
fn asleep_it_does_nothing_until_the_queue_has_grown() {
    let spec = PieSpec { wake_bytes: 60_000, ..given() };
    let (mut pie, mut random) = (Pie::new(&spec).unwrap(), Stream::new(1, "pie"));
    for n in 0..1000 {
        pie.admit(&arriving(n * 15 * MS, 500 * MS), || true, &mut random);
    }
    assert_eq!(pie.probability(), 0.0);
    let start_ns = 20_000 * MS;
    let long = |now_ns| AqmArrival { queue: view(60, 500 * MS), ..arriving(now_ns, 0) };
    pie.admit(&long(start_ns), || true, &mut random);
    pie.admit(&long(start_ns + 15 * MS), || true, &mut random);
    assert!(pie.probability() > 0.0);
    // The next packet arrives more than an hour later. By then, PIE has become inactive again.
    pie.admit(&arriving(4_000_000 * MS, 0), || true, &mut random);
    assert!(!pie.awake);
    assert_eq!(pie.probability(), 0.0);
}

#[test]
fn parameters_out_of_range_are_named() {
    let bad = |spec: PieSpec| Pie::new(&spec).unwrap_err().parameter;
    let good = PieSpec::default();
    assert_eq!(bad(PieSpec { target_ns: 0, ..good }), "target_ns");
    assert_eq!(bad(PieSpec { update_ns: 0, ..good }), "update_ns");
    assert_eq!(bad(PieSpec { alpha: -0.1, ..good }), "alpha");
    assert_eq!(bad(PieSpec { beta: f64::NAN, ..good }), "beta");
    assert_eq!(bad(PieSpec { max_burst_ns: u64::MAX, ..good }), "max_burst_ns");
    assert_eq!(bad(PieSpec { max_ecn_p: 1.5, ..good }), "max_ecn_p");
}

/// A reference PIE as in RFC 8033, which a timer updates on time.
struct Timed {
    next_ns: u64,
    p: f64,
    old_ns: f64,
    sojourn_ns: f64,
    burst_ns: f64,
}

impl Timed {
    fn fire(&mut self, queued: i64) {
        let delay = if queued == 0 { 0.0 } else { self.sojourn_ns };
        let scale = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];
        let shift = [2048.0, 512.0, 128.0, 32.0, 8.0, 2.0];
        let tune = scale.iter().position(|&limit| self.p < limit).map_or(1.0, |n| shift[n]);
        let (off, change) = ((delay - 15e6) / 1e9, (delay - self.old_ns) / 1e9);
        let mut step = (0.125 * off + 1.25 * change) / tune;
        if self.p >= 0.1 {
            step = step.min(0.02);
        }
        self.p = (self.p + step).clamp(0.0, 1.0);
        if delay == 0.0 && self.old_ns == 0.0 {
            self.p *= 0.98;
            if self.p < 2f64.powi(-32) {
                self.p = 0.0;
            }
        }
        self.burst_ns = (self.burst_ns - 15e6).max(0.0);
        if self.p == 0.0 && delay < 7.5e6 && self.old_ns < 7.5e6 {
            self.burst_ns = 150e6;
        }
        self.old_ns = delay;
    }
}

proptest! {
    /// Updates that are made late, at the next packet, give the same result as updates that a
    /// timer makes on time.
    #[test]
    fn late_updates_equal_those_of_a_timer(
        steps in prop::collection::vec((0u64..40_000_000, -1i64..2, 0u64..200), 1..300),
    ) {
        let spec = PieSpec { delay_from: DelaySource::Timestamps, ..PieSpec::default() };
        let (mut pie, mut random) = (Pie::new(&spec).unwrap(), Stream::new(1, "pie"));
        let (mut now_ns, mut queued) = (0, 0i64);
        let mut timed =
            Timed { next_ns: 15 * MS, p: 0.0, old_ns: 0.0, sojourn_ns: 0.0, burst_ns: 150e6 };
        pie.admit(&AqmArrival { queue: view(0, 0), ..arriving(0, 0) }, || true, &mut random);
        for (step_ns, change, sojourn_ms) in steps {
            now_ns += step_ns;
            while timed.next_ns <= now_ns {
                timed.fire(queued);
                timed.next_ns += 15 * MS;
            }
            if change < 0 && queued > 0 {
                queued -= 1;
                let queue = view(queued as u64, 0);
                let sojourn_ns = sojourn_ms * MS;
                pie.dequeue(&AqmDeparture { now_ns, len: 1000, sojourn_ns, queue }, || true);
                timed.sojourn_ns = sojourn_ns as f64;
            } else {
                let queue = view(queued as u64, 0);
                pie.admit(&AqmArrival { now_ns, len: 1000, queue }, || true, &mut random);
                queued += i64::from(change > 0);
            }
            prop_assert!((pie.probability() - timed.p).abs() < 1e-9);
            prop_assert_eq!(pie.burst_left_ns as f64, timed.burst_ns);
        }
    }
}
