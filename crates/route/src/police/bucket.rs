//! A token bucket that several threads may take from at the same time.
//!
//! Its state is one word: the time at which the bucket will be full again. A frame that takes
//! tokens makes this time later, by the time in which as many tokens are added. A frame conforms
//! and takes tokens if there are enough, that is, if the new time is no later than the time at
//! which a bucket that is empty now would be full (the generic cell rate algorithm, ITU-T I.371).
//! The threads share only this word, and together they admit the rate of one bucket.
//!
//! Times are in 1/16 ns, so that the time of a frame is exact enough at any rate.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Binary logarithm of the number of time units in a nanosecond.
const UNIT_BITS: u32 = 4;
/// Number of time units in which the tokens for 1 bit are added, at 1 bit/s.
const UNITS_PER_SEC: u128 = 1_000_000_000 << UNIT_BITS;
/// Frames are at most this long. The product with `unit_cost` has less than 64 bits.
const MAX_FRAME_BYTES: u32 = 1 << 19;
/// Maximum number of bits of `unit_cost`.
const COST_BITS: u32 = 44;
/// The longest time in which a bucket fills: 9 years.
const MAX_FILL: u128 = 1 << 62;

#[derive(Debug)]
pub(super) struct SharedBucket {
    /// The time at which the bucket will be full.
    full_at: AtomicU64,
    /// The time in which the tokens for a byte are added, shifted left by `cost_shift`.
    unit_cost: u64,
    cost_shift: u32,
    /// The time in which an empty bucket fills.
    fill_time: u64,
}

impl SharedBucket {
    /// Makes a full bucket. A rate of 0 counts as 1 bit/s.
    pub(super) fn new(bps: u64, burst_bytes: u64) -> Self {
        let scaled = |bytes: u128| bytes * 8 * UNITS_PER_SEC;
        let bps = u128::from(bps.max(1));
        let per_byte = scaled(1) / bps;
        let cost_shift = COST_BITS - (u128::BITS - per_byte.leading_zeros()).min(COST_BITS);
        Self {
            full_at: AtomicU64::new(0),
            unit_cost: ((scaled(1) << cost_shift) / bps) as u64,
            cost_shift,
            fill_time: (scaled(burst_bytes.into()) / bps).min(MAX_FILL) as u64,
        }
    }

    /// Takes the tokens for a frame if there are enough. Returns whether there were.
    ///
    /// Relaxed: the word guards no other memory.
    #[inline]
    pub(super) fn take(&self, now_ns: u64, bytes: u32) -> bool {
        let now = now_ns << UNIT_BITS;
        let cost = (u64::from(bytes.min(MAX_FRAME_BYTES)) * self.unit_cost) >> self.cost_shift;
        let taken = self.full_at.fetch_update(Relaxed, Relaxed, |full_at| {
            let after = full_at.max(now) + cost;
            (after - now <= self.fill_time).then_some(after)
        });
        taken.is_ok()
    }
}

impl Clone for SharedBucket {
    /// Returns a separate bucket that has the same number of tokens at this moment.
    fn clone(&self) -> Self {
        Self { full_at: AtomicU64::new(self.full_at.load(Relaxed)), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::vec::Vec;

    use proptest::prelude::*;
    use slipring_model::bucket::TokenBucket;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// For a frame that just fits or just does not, rounding may decide otherwise; afterwards
        /// both buckets have nearly the same tokens again.
        #[test]
        fn it_admits_the_bytes_that_an_exact_bucket_admits(
            bps in 8_000_u64..100_000_000_000,
            burst in 2_000_u64..1_000_000,
            frames in proptest::collection::vec((0_u64..2_000_000, 60_u32..9_000), 1..300),
        ) {
            let shared = SharedBucket::new(bps, burst);
            let mut exact = TokenBucket::new(bps, burst, 0).unwrap();
            let (mut now, mut bytes) = (0, [0_u64; 2]);
            for (wait, len) in frames {
                now += wait;
                bytes[0] += u64::from(len) * u64::from(shared.take(now, len));
                bytes[1] += u64::from(len) * u64::from(exact.take(now, len));
            }
            prop_assert!(bytes[0].abs_diff(bytes[1]) <= 9_000 + bytes[1] / 1_000, "{bytes:?}");
        }
    }

    #[test]
    fn threads_together_admit_what_one_bucket_holds() {
        let bucket = Arc::new(SharedBucket::new(8, 100_000));
        let take = |bucket: Arc<SharedBucket>| {
            std::thread::spawn(move || (0..1000).filter(|_| bucket.take(7, 100)).count())
        };
        let threads: Vec<_> = (0..4).map(|_| take(Arc::clone(&bucket))).collect();
        let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(admitted, 1000);
    }

    #[test]
    fn a_rate_of_8_bits_per_second_and_a_large_burst_are_no_overflow() {
        let bucket = SharedBucket::new(8, 200_000_000);
        assert!((0..1000).all(|at| bucket.take(u64::MAX >> 5, 1500 + at % 2)));
        let empty = SharedBucket::new(0, 1);
        assert!(!empty.take(0, 60) && !empty.take(u64::MAX >> 5, 60));
    }
}
