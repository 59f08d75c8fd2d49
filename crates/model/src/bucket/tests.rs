use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn passed(bucket: &mut TokenBucket, now_ns: u64, bytes: u32, tries: usize) -> usize {
    (0..tries).filter(|_| bucket.take(now_ns, bytes)).count()
}

#[test]
fn policer_of_8_mbit_passes_its_burst_then_one_packet_each_ms() {
    let mut bucket = TokenBucket::new(8_000_000, 10_000, 0).unwrap();
    assert_eq!(passed(&mut bucket, 0, 1000, 100), 10);
    assert!((1..=1000).all(|ms| bucket.take(ms * MS, 1000)));
    assert!(!bucket.take(1000 * MS, 1));
}

#[test]
fn slow_rates_lose_nothing_to_rounding_however_often_they_are_asked() {
    // 10 kbit/s are 1250 bytes per second. The bucket is polled every 1.05 ms, in which it gets
    // 1.3125 bytes.
    let mut bucket = TokenBucket::new(10_000, 100, 0).unwrap();
    assert_eq!(passed(&mut bucket, 0, 1, 1000), 100);
    let asked = (1..=100_000u64).map(|n| n * 1_050_000);
    let bytes: usize = asked.map(|now_ns| passed(&mut bucket, now_ns, 1, 3)).sum();
    assert_eq!(bytes, 131_250);
}

#[test]
fn one_bit_per_second_gives_a_byte_every_eight_seconds() {
    let mut bucket = TokenBucket::new(1, 1, 0).unwrap();
    assert!(bucket.take(0, 1));
    for byte in 1..100u64 {
        let due_ns = byte * 8 * SECOND;
        assert_eq!(bucket.ready_ns(due_ns - 5 * SECOND, 1), Some(due_ns));
        assert!(!bucket.take(due_ns - 1, 1));
        assert!(bucket.take(due_ns, 1));
    }
}

#[test]
fn terabit_rates_are_exact_too() {
    let mut bucket = TokenBucket::new(1_600_000_000_000, 1 << 20, 0).unwrap();
    while bucket.take(0, 1 << 16) {}
    // At this rate, the bucket fills with 200 bytes in 1 ns.
    assert_eq!(bucket.available_bytes(1), 200);
    assert!(!bucket.take(1, 201));
    assert!(bucket.take(1, 200));
    assert_eq!(bucket.ready_ns(1, 1), Some(2));
}

#[test]
fn idle_time_earns_no_more_than_the_burst() {
    let mut bucket = TokenBucket::new(u64::MAX, u64::MAX, 0).unwrap();
    assert!(bucket.take(u64::MAX, u32::MAX));
    let mut small = TokenBucket::new(1_000_000, 3000, 0).unwrap();
    assert_eq!(passed(&mut small, 3600 * SECOND, 1500, 10), 2);
}

#[test]
fn time_that_steps_back_earns_nothing() {
    let mut bucket = TokenBucket::new(8_000_000, 1000, 0).unwrap();
    assert!(bucket.take(5 * MS, 1000));
    assert!(!bucket.take(4 * MS, 1000));
    assert!(!bucket.take(5 * MS + MS - 1, 1000));
    assert!(bucket.take(6 * MS, 1000));
}

#[test]
fn what_can_never_pass_is_said_so() {
    let bucket = TokenBucket::new(1000, 1000, 0).unwrap();
    assert_eq!(bucket.ready_ns(7, 1000), Some(7));
    assert_eq!(bucket.ready_ns(7, 1001), None);
    let mut dry = TokenBucket::new(0, 1000, 0).unwrap();
    assert!(dry.take(0, 1000));
    assert_eq!(dry.ready_ns(7, 1), None);
    assert_eq!(TokenBucket::new(1, 0, 0).unwrap_err().parameter, "burst_bytes");
}

#[test]
fn retuning_keeps_tokens_as_far_as_they_fit() {
    let mut bucket = TokenBucket::new(8_000_000, 10_000, 0).unwrap();
    bucket.take(0, 4000);
    bucket.retune(MS, 16_000_000, 20_000).unwrap();
    assert_eq!(bucket.available_bytes(MS), 7000);
    assert_eq!(bucket.available_bytes(2 * MS), 9000);
    bucket.retune(2 * MS, 16_000_000, 500).unwrap();
    assert_eq!(bucket.available_bytes(9 * MS), 500);
    assert!(bucket.retune(9 * MS, 1, 0).is_err());
    assert_eq!(bucket.available_bytes(9 * MS), 500);
}

proptest! {
    /// After any sequence of calls of `take`, the bucket holds exactly the expected fraction of a
    /// byte.
    #[test]
    fn bucket_is_an_exact_fraction_of_a_byte(
        bps in 0u64..1 << 42,
        burst in 1u64..1 << 24,
        steps in prop::collection::vec((0u64..1 << 34, 0u32..1 << 20), 1..60),
    ) {
        let mut bucket = TokenBucket::new(bps, burst, 0).unwrap();
        // Tokens are counted in units of 1/(8e9) byte, and all values fit in `i128`.
        let unit = 8_000_000_000i128;
        let (mut tokens, mut now_ns) = (i128::from(burst) * unit, 0);
        for (step_ns, bytes) in steps {
            now_ns += step_ns;
            tokens = (tokens + i128::from(step_ns) * i128::from(bps)).min(i128::from(burst) * unit);
            let enough = i128::from(bytes) * unit <= tokens;
            let ready_ns = bucket.ready_ns(now_ns, bytes);
            prop_assert_eq!(ready_ns == Some(now_ns), enough);
            prop_assert_eq!(bucket.available_bytes(now_ns), (tokens / unit) as u64);
            prop_assert_eq!(bucket.take(now_ns, bytes), enough);
            tokens -= if enough { i128::from(bytes) * unit } else { 0 };
        }
    }

    #[test]
    fn told_time_is_the_first_at_which_it_passes(
        bps in 1u64..1 << 40, burst in 1u64..100_000, first in 0u32..100_000, bytes in 1u32..100_000,
    ) {
        let mut bucket = TokenBucket::new(bps, burst, 0).unwrap();
        bucket.take(0, first);
        match bucket.ready_ns(0, bytes) {
            None => prop_assert!(u64::from(bytes) > burst),
            Some(ready_ns) => {
                prop_assert!(ready_ns == 0 || !bucket.clone().take(ready_ns - 1, bytes));
                prop_assert!(bucket.take(ready_ns, bytes));
            }
        }
    }
}
