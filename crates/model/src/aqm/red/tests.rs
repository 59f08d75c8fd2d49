use std::vec::Vec;

use super::*;

/// Returns parameters with which the average always equals the queue length, so that probabilities
/// are known.
fn prompt() -> RedSpec {
    RedSpec { weight: 1.0, min: 10.0, max: 30.0, max_p: 0.1, ..RedSpec::default() }
}

fn arriving(packets: u64, len: u32) -> AqmArrival {
    let queue = AqmQueueView { bytes: packets * 1000, packets, delay_ns: 0 };
    AqmArrival { now_ns: 0, len, queue }
}

/// Returns the verdicts on `count` packets, each of which finds `packets` packets in the queue.
fn verdicts(spec: &RedSpec, packets: u64, count: usize) -> Vec<AqmVerdict> {
    let (mut red, mut random) = (Red::new(spec).unwrap(), Stream::new(17, "red"));
    (0..count).map(|_| red.admit(&arriving(packets, 500), || true, &mut random)).collect()
}

/// Returns, for each hit (a packet that is marked or dropped) after the first, the number of
/// packets since the previous hit, including the packet that is hit.
fn gaps(verdicts: &[AqmVerdict]) -> Vec<usize> {
    let hits: Vec<usize> = verdicts
        .iter()
        .enumerate()
        .filter(|(_, v)| **v != AqmVerdict::Keep)
        .map(|(n, _)| n)
        .collect();
    hits.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn below_min_nothing_and_above_twice_max_everything_is_dropped() {
    assert!(verdicts(&prompt(), 9, 10_000).iter().all(|&v| v == AqmVerdict::Keep));
    assert!(verdicts(&prompt(), 60, 100).iter().all(|&v| v == AqmVerdict::Drop));
    assert!(verdicts(&prompt(), 59, 100).contains(&AqmVerdict::Keep));
    let hard = RedSpec { gentle: false, ..prompt() };
    assert!(verdicts(&hard, 30, 100).iter().all(|&v| v == AqmVerdict::Drop));
}

#[test]
fn distances_between_hits_are_uniform_up_to_one_over_p() {
    // A queue of 20 is halfway between `min` and `max`, so p is 0.05. The distances between hits
    // are uniformly distributed on 1..=20.
    let gaps = gaps(&verdicts(&prompt(), 20, 400_000));
    let mut seen = [0.0f64; 20];
    for gap in &gaps {
        assert!((1..=20).contains(gap), "{gap}");
        seen[gap - 1] += 1.0;
    }
    let each = gaps.len() as f64 / 20.0;
    let chi2: f64 = seen.iter().map(|n| (n - each).powi(2) / each).sum();
    // With 19 degrees of freedom, chi-square exceeds 43.8 once in a thousand runs.
    assert!(chi2 < 43.8, "{chi2}");
    let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
    assert!((mean - 10.5).abs() < 0.1, "{mean}");
}

#[test]
fn waiting_keeps_hits_at_least_one_over_p_apart() {
    // With `wait`, there is no hit for 1/p = 20 packets; after them, hits come as without `wait`.
    // So the distances are uniformly distributed on 21..=40.
    let gaps = gaps(&verdicts(&RedSpec { wait: true, ..prompt() }, 20, 400_000));
    assert!(gaps.iter().all(|gap| (21..=40).contains(gap)), "{:?}", gaps.iter().max());
    let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
    assert!((mean - 30.5).abs() < 0.2, "{mean}");
}

#[test]
fn probability_has_the_published_shape() {
    let p = |average| Red { average, ..Red::new(&prompt()).unwrap() }.base_probability(500);
    let close = |p: Option<f64>, to: f64| assert!((p.unwrap() - to).abs() < 1e-12, "{p:?} {to}");
    close(p(10.0), 0.0);
    close(p(15.0), 0.025);
    close(p(30.0), 0.1);
    close(p(45.0), 0.55);
    assert_eq!(p(60.0), None);
}

#[test]
fn byte_mode_hits_long_packets_in_proportion() {
    let spec = RedSpec { by_length: true, mean_len: 500, ..prompt() };
    let red = Red { average: 15.0, ..Red::new(&spec).unwrap() };
    assert!((red.base_probability(1500).unwrap() - 0.075).abs() < 1e-12);
    assert!((red.base_probability(50).unwrap() - 0.0025).abs() < 1e-12);
}

#[test]
fn average_is_exponential_in_packets_or_bytes() {
    for (unit, length) in [(RedUnit::Packets, 8.0), (RedUnit::Bytes, 8000.0)] {
        let spec = RedSpec { unit, weight: 0.25, min: 1e6, max: 1e7, ..RedSpec::default() };
        let (mut red, mut random) = (Red::new(&spec).unwrap(), Stream::new(1, "red"));
        let mut expected = 0.0;
        for _ in 0..20 {
            red.admit(&arriving(8, 500), || true, &mut random);
            expected = 0.75 * expected + 0.25 * length;
            assert!((red.average() - expected).abs() < 1e-9);
        }
    }
}

#[test]
fn average_decays_while_the_queue_is_empty() {
    let spec = RedSpec { weight: 0.5, idle_packet_ns: 1000, ..RedSpec::default() };
    let (mut red, mut random) = (Red::new(&spec).unwrap(), Stream::new(1, "red"));
    red.average = 4.0;
    let last = AqmDeparture { now_ns: 500, len: 1, sojourn_ns: 0, queue: AqmQueueView::default() };
    red.dequeue(&last, || true);
    let found_empty = |now_ns| AqmArrival { now_ns, ..arriving(0, 500) };
    red.admit(&found_empty(2500), || true, &mut random);
    assert!((red.average() - 1.0).abs() < 1e-9, "two packets could have gone");
    red.admit(&found_empty(3000), || true, &mut random);
    assert!((red.average() - 0.5f64.sqrt()).abs() < 1e-9, "and half of one");
}

#[test]
fn marks_are_for_capable_packets_below_the_hard_threshold() {
    let spec = RedSpec { ecn: true, ..prompt() };
    let between = verdicts(&spec, 20, 1000);
    assert!(between.contains(&AqmVerdict::Mark) && !between.contains(&AqmVerdict::Drop));
    assert!(verdicts(&spec, 60, 10).iter().all(|&v| v == AqmVerdict::Drop));
    let soft = RedSpec { hard_drop: false, ..spec };
    assert!(verdicts(&soft, 60, 10).iter().all(|&v| v == AqmVerdict::Mark));
    let (mut red, mut random) = (Red::new(&soft).unwrap(), Stream::new(1, "red"));
    assert_eq!(red.admit(&arriving(60, 500), || false, &mut random), AqmVerdict::Drop);
}

#[test]
fn parameters_out_of_range_are_named() {
    let bad = |spec: RedSpec| Red::new(&spec).unwrap_err().parameter;
    let good = RedSpec::default();
    assert_eq!(bad(RedSpec { min: f64::NAN, ..good }), "min");
    assert_eq!(bad(RedSpec { min: -1.0, ..good }), "min");
    assert_eq!(bad(RedSpec { max: 5.0, ..good }), "max");
    assert_eq!(bad(RedSpec { max: f64::INFINITY, ..good }), "max");
    assert_eq!(bad(RedSpec { max_p: 0.0, ..good }), "max_p");
    assert_eq!(bad(RedSpec { weight: 1.1, ..good }), "weight");
    assert_eq!(bad(RedSpec { mean_len: 0, ..good }), "mean_len");
}
