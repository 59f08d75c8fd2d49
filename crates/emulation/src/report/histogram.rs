//! Histograms of measured values, for comparison with the requested ones.
//!
//! Minimum, maximum, mean and standard deviation are exact; quantiles are within 1 %, and within
//! 0.2 % for values from [`FINE_FROM`] on. They are never outside the minimum and maximum, so the
//! quantiles of a constant are exact. Recording a value takes two or three nanoseconds. Only the
//! range of buckets in use takes memory, so that thousands of links can each have several.
//!
//! # Invariants
//! 1. `counts[i]` belongs to bucket `base + i`; nothing was counted outside these buckets.
//! 2. The sum of `counts` is `count`.
//!
//! Not for sharing between threads: each thread fills its own histogram and passes on copies.

/// log2 of the number of buckets per power of two: `COARSE_BITS` for values below [`FINE_FROM`],
/// `FINE_BITS` for larger ones.
const COARSE_BITS: u32 = 7;
const FINE_BITS: u32 = 9;
/// The first value with finer buckets: about an eighth of a millisecond. The delays of links are
/// mostly longer than this, and the delays that this program causes are shorter.
const FINE_FROM: u64 = 1 << 17;

/// A histogram of values in ns, bytes or packets.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    base: usize,
    counts: Vec<u64>,
    count: u64,
    min: u64,
    max: u64,
    /// The first value. `sum` and `squares` are sums of deviations from it, which keeps small
    /// deviations exact.
    origin: u64,
    /// Index of the first value in `counts`.
    origin_bucket: usize,
    sum: f64,
    squares: f64,
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        // A fast path: on a link that is not full, most frames do not wait, so their values are
        // equal.
        if value == self.origin
            && let Some(count) = self.counts.get_mut(self.origin_bucket)
        {
            *count += 1;
            self.count += 1;
            return;
        }
        let index = bucket(value).wrapping_sub(self.base);
        match self.counts.get_mut(index) {
            Some(count) => *count += 1,
            None => self.widen(value),
        }
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let deviation = value.wrapping_sub(self.origin) as i64 as f64;
        self.sum += deviation;
        self.squares += deviation * deviation;
    }

    /// Counts one value `count` times.
    #[inline]
    pub fn record_equal(&mut self, value: u64, count: u64) {
        let Some(more) = count.checked_sub(1) else { return };
        self.record(value);
        // The bucket exists, because the value was already recorded once.
        self.counts[bucket(value) - self.base] += more;
        self.count += more;
        let deviation = value.wrapping_sub(self.origin) as i64 as f64;
        self.sum += deviation * more as f64;
        self.squares += deviation * deviation * more as f64;
    }

    /// Counts `values`, whose summary is `batch`. If the values are close together, this costs a
    /// fraction of [`Self::record`] per value.
    #[inline]
    pub fn record_all(&mut self, batch: &HistogramBatch, values: impl Iterator<Item = u64>) {
        if !batch.is_exact() {
            return values.for_each(|value| self.record(value));
        }
        self.reach(batch);
        let (low, high) = (bucket(batch.min), bucket(batch.max));
        let counts = &mut self.counts[low - self.base..=high - self.base];
        if let [only] = counts {
            *only += batch.count;
        } else if let Some(shift) = common_shift(batch.min, batch.max) {
            let first = (batch.min >> shift) as usize;
            values.for_each(|value| counts[((value >> shift) as usize).wrapping_sub(first)] += 1);
        } else {
            values.for_each(|value| counts[bucket(value) - low] += 1);
        }
        self.count += batch.count;
        self.min = self.min.min(batch.min);
        self.max = self.max.max(batch.max);
        self.sum += batch.sum as f64;
        self.squares += batch.squares as f64;
    }

    /// Makes sure that there are buckets for the values of a batch.
    #[inline]
    fn reach(&mut self, batch: &HistogramBatch) {
        if self.count == 0 {
            (self.base, self.counts, self.origin_bucket) = (bucket(batch.origin), vec![0], 0);
            (self.min, self.max, self.origin) = (batch.min, batch.max, batch.origin);
        }
        self.reach_bucket(bucket(batch.min));
        self.reach_bucket(bucket(batch.max));
    }

    #[inline]
    fn reach_bucket(&mut self, at: usize) {
        if at.wrapping_sub(self.base) >= self.counts.len() {
            self.add_buckets(at);
        }
    }

    #[cold]
    fn add_buckets(&mut self, at: usize) {
        if at < self.base {
            self.counts.splice(..0, std::iter::repeat_n(0, self.base - at));
            self.origin_bucket += self.base - at;
            self.base = at;
        } else if at - self.base >= self.counts.len() {
            self.counts.resize(at - self.base + 1, 0);
        }
    }

    /// Counts a value outside the current buckets.
    #[cold]
    fn widen(&mut self, value: u64) {
        let at = bucket(value);
        if self.count == 0 {
            (self.base, self.min, self.max, self.origin) = (at, value, value, value);
            self.counts = vec![1];
            return;
        }
        self.add_buckets(at);
        self.counts[at - self.base] += 1;
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the minimum; 0 if there are no values.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// Returns the maximum; 0 if there are no values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean; 0 if there are no values.
    pub fn mean(&self) -> f64 {
        self.origin as f64 + self.mean_deviation()
    }

    /// Returns the standard deviation; 0 if there are no values.
    pub fn sd(&self) -> f64 {
        let variance = self.squares / self.count.max(1) as f64 - self.mean_deviation().powi(2);
        variance.max(0.0).sqrt()
    }

    /// Returns the smallest value for which at least the fraction `quantile` (0 to 1) of all values
    /// are less than or equal to it.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (at, &count) in (self.base..).zip(&self.counts) {
            if seen + count >= rank {
                return self.within(at, rank - seen, count);
            }
            seen += count;
        }
        self.max
    }

    /// Returns the quantile of the values counted since `before`, an earlier state of this
    /// histogram; `None` if no values were counted since.
    pub fn quantile_since(&self, before: &Self, quantile: f64) -> Option<u64> {
        let count = self.count.checked_sub(before.count).filter(|count| *count > 0)?;
        let rank = ((quantile * count as f64).ceil() as u64).clamp(1, count);
        let old = |at: usize| before.counts.get(at.wrapping_sub(before.base)).copied();
        let mut seen = 0;
        for (at, &now) in (self.base..).zip(&self.counts) {
            let count = now.saturating_sub(old(at).unwrap_or(0));
            if seen + count >= rank {
                return Some(self.within(at, rank - seen, count));
            }
            seen += count;
        }
        Some(self.max)
    }

    /// Returns the number of values up to `bound`. All values in the bucket of `bound` count.
    pub fn at_most(&self, bound: u64) -> u64 {
        let end = (bucket(bound) + 1).saturating_sub(self.base).min(self.counts.len());
        self.counts[..end].iter().sum()
    }

    /// Returns the sum of all values.
    pub fn sum(&self) -> f64 {
        self.mean() * self.count as f64
    }

    /// Returns value number `rank`, from 1 on, of the `count` values in a bucket, on the assumption
    /// that they are evenly spread over all values that belong to the bucket.
    fn within(&self, bucket: usize, rank: u64, count: u64) -> u64 {
        let (first, last) = edges(bucket);
        let (first, last) = (first.max(self.min), last.min(self.max));
        let position = (rank as f64 - 0.5) / count as f64;
        first + (last.saturating_sub(first) as f64 * position).round() as u64
    }

    fn mean_deviation(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

/// Count, extremes and sums of values that are to be counted together.
#[derive(Debug, Clone, Copy)]
pub struct HistogramBatch {
    origin: u64,
    count: u64,
    min: u64,
    max: u64,
    sum: i64,
    squares: u64,
}

impl HistogramBatch {
    /// Maximum number of values in a batch.
    pub const MAX_VALUES: usize = 512;
    /// Deviations below this number cannot make the sums of `MAX_VALUES` values overflow.
    const MAX_EXACT_DEVIATION: u64 = 1 << 27;

    /// Creates an empty batch for `histogram`; `first` will be its first value.
    #[inline(always)]
    pub fn of(histogram: &Histogram, first: u64) -> Self {
        let origin = if histogram.count == 0 { first } else { histogram.origin };
        Self { origin, count: 0, min: first, max: first, sum: 0, squares: 0 }
    }

    /// Adds a value.
    #[inline(always)]
    pub fn add(&mut self, value: u64) {
        let deviation = value.wrapping_sub(self.origin) as i64;
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum = self.sum.wrapping_add(deviation);
        self.squares = self.squares.wrapping_add(deviation.wrapping_mul(deviation) as u64);
    }

    /// Creates the summary of the values `top - offset`, for all offsets in `falls`.
    #[inline]
    pub fn descending(histogram: &Histogram, top: u64, falls: &DescendingOffsets) -> Self {
        let &DescendingOffsets { count, first, last, sum, squares } = falls;
        let (min, max) = (top - last, top - first);
        let origin = if histogram.count == 0 { max } else { histogram.origin };
        // Sums of (top - origin) - offset and of its square, multiplied out. They may wrap;
        // `is_exact` is then false.
        let from = top.wrapping_sub(origin);
        let mixed = from.wrapping_mul(sum).wrapping_mul(2);
        let of_top = count.wrapping_mul(from);
        let sum = of_top.wrapping_sub(sum) as i64;
        let squares = of_top.wrapping_mul(from).wrapping_sub(mixed).wrapping_add(squares);
        Self { origin, count, min, max, sum, squares }
    }

    /// Returns the maximum of the added values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns whether the sums are exact.
    fn is_exact(&self) -> bool {
        let near = |value: u64| value.abs_diff(self.origin) < Self::MAX_EXACT_DEVIATION;
        (1..=Self::MAX_VALUES as u64).contains(&self.count) && near(self.min) && near(self.max)
    }
}

/// Sums of a batch of offsets that never decrease. [`HistogramBatch::descending`] subtracts the
/// offsets from a top value.
#[derive(Debug, Clone, Copy)]
pub struct DescendingOffsets {
    count: u64,
    /// The first offset.
    pub first: u64,
    /// The last offset.
    pub last: u64,
    sum: u64,
    squares: u64,
}

impl DescendingOffsets {
    /// Computes the sums of `falls`, which must not decrease.
    #[inline]
    pub fn of(falls: &[u32]) -> Self {
        let (mut sum, mut squares) = (0, 0u64);
        for fall in falls.iter().copied().map(u64::from) {
            sum += fall;
            squares = squares.wrapping_add(fall * fall);
        }
        let end = |fall: Option<&u32>| fall.copied().unwrap_or(0).into();
        let (first, last) = (end(falls.first()), end(falls.last()));
        Self { count: falls.len() as u64, first, last, sum, squares }
    }
}

/// `FINE_BUCKET` is the index of the first fine bucket. `FINE_SKIPPED` is how much larger this
/// index would be if all buckets were fine.
const FINE_BUCKET: usize = bucket_of(FINE_FROM, COARSE_BITS);
const FINE_SKIPPED: usize = bucket_of(FINE_FROM, FINE_BITS) - FINE_BUCKET;

/// Returns the index of the bucket of a value.
#[inline]
const fn bucket(value: u64) -> usize {
    if value < FINE_FROM {
        bucket_of(value, COARSE_BITS)
    } else {
        bucket_of(value, FINE_BITS) - FINE_SKIPPED
    }
}

/// Returns the right shift that [`bucket`] applies to the values from `min` to `max`; `None` if it
/// is not the same for all of them.
#[inline]
fn common_shift(min: u64, max: u64) -> Option<u32> {
    let bits = if min < FINE_FROM { COARSE_BITS } else { FINE_BITS };
    let shift = |value: u64| (u64::BITS - 1 - bits).saturating_sub(value.leading_zeros());
    ((min < FINE_FROM) == (max < FINE_FROM) && shift(min) == shift(max)).then(|| shift(min))
}

/// Returns the smallest and the largest value of a bucket.
const fn edges(bucket: usize) -> (u64, u64) {
    if bucket < FINE_BUCKET {
        edges_of(bucket, COARSE_BITS)
    } else {
        edges_of(bucket + FINE_SKIPPED, FINE_BITS)
    }
}

/// Returns the index of the bucket of `value` if there are `1 << bits` buckets per power of two.
/// Values below `2 << bits` have one bucket each.
#[inline]
const fn bucket_of(value: u64, bits: u32) -> usize {
    let shift = (u64::BITS - 1 - bits).saturating_sub(value.leading_zeros());
    ((shift as usize) << bits) + (value >> shift) as usize
}

const fn edges_of(bucket: usize, bits: u32) -> (u64, u64) {
    let shift = ((bucket >> bits) as u32).saturating_sub(1);
    let low = (bucket as u64 - ((shift as u64) << bits)) << shift;
    (low, low + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn a_constant_is_shown_as_it_is() {
        let constant = of([20_000_000; 1000]);
        assert_eq!((constant.min(), constant.max()), (20_000_000, 20_000_000));
        assert_eq!([0.0, 0.5, 0.999].map(|q| constant.quantile(q)), [20_000_000; 3]);
        assert!(constant.mean() == 20_000_000.0 && constant.sd() == 0.0);
    }

    #[test]
    fn quantiles_of_a_narrow_distribution_are_told_apart() {
        // 1001 values, evenly spread over 0.2 ms around 20.22 ms: they fall into a few buckets, two
        // of which they cover only partly.
        let narrow = of((0..=1000).map(|i| 20_120_000 + i * 200));
        for (quantile, exact) in [(0.01, 20_122_000), (0.5, 20_220_000), (0.99, 20_318_000)] {
            let found = narrow.quantile(quantile);
            assert!(found.abs_diff(exact) < 2_000, "{quantile}: {found} for {exact}");
            let since = narrow.quantile_since(&Histogram::default(), quantile);
            assert_eq!(since, Some(found));
        }
    }

    #[test]
    fn nothing_is_shown_as_nothing() {
        let none = Histogram::default();
        assert_eq!((none.count(), none.min(), none.quantile(0.5), none.max()), (0, 0, 0, 0));
        assert!(none.mean() == 0.0 && none.sd() == 0.0);
    }

    #[test]
    fn a_small_deviation_around_a_great_mean_is_not_lost() {
        let histogram = of((0..1000).map(|i| 1_000_000_000_000 + i % 2));
        assert!((histogram.sd() - 0.5).abs() < 1e-9);
        assert!((histogram.mean() - 1_000_000_000_000.5).abs() < 1e-3);
    }

    #[test]
    fn the_whole_range_is_counted() {
        let histogram = of([0, u64::MAX, 1, u64::MAX / 2]);
        assert_eq!((histogram.count(), histogram.min(), histogram.max()), (4, 0, u64::MAX));
        assert_eq!(histogram.at_most(1), 2);
    }

    #[test]
    fn what_came_since_is_told_from_what_was_before() {
        let before = of([20_000_000; 1000]);
        let mut now = before.clone();
        assert_eq!(now.quantile_since(&before, 0.5), None);
        now.record(40_000_000);
        let since = now.quantile_since(&before, 0.5).unwrap();
        assert!(since.abs_diff(40_000_000) < 80_000, "within 0.2 %: {since}");
        (0..3).for_each(|_| now.record(10));
        assert_eq!(now.quantile_since(&before, 0.5), Some(10));
        let whole = now.quantile_since(&Histogram::default(), 0.5).unwrap();
        assert!(whole.abs_diff(20_000_000) < 200_000, "within a percent: {whole}");
    }

    proptest! {
        #[test]
        fn a_batch_counts_as_its_values_would_one_by_one(
            batches in prop::collection::vec(
                prop::collection::vec(prop_oneof![0u64..5_000, 0u64..1 << 62], 1..70), 1..8),
        ) {
            let (mut whole, mut single) = (Histogram::default(), Histogram::default());
            for values in &batches {
                let mut batch = HistogramBatch::of(&whole, values[0]);
                values.iter().for_each(|&value| batch.add(value));
                prop_assert_eq!(batch.max(), *values.iter().max().unwrap());
                whole.record_all(&batch, values.iter().copied());
                values.iter().for_each(|&value| single.record(value));
            }
            prop_assert_eq!(whole.count(), single.count());
            prop_assert_eq!((whole.min(), whole.max()), (single.min(), single.max()));
            for quantile in [0.0, 0.1, 0.5, 0.99, 1.0] {
                prop_assert_eq!(whole.quantile(quantile), single.quantile(quantile));
            }
            prop_assert!((whole.mean() - single.mean()).abs() <= single.mean() * 1e-9);
            prop_assert!((whole.sd() - single.sd()).abs() <= single.sd() * 1e-6);
        }

        #[test]
        fn values_that_fall_count_as_they_would_one_by_one(
            batches in prop::collection::vec(
                (0u64..1 << 40, prop::collection::vec(0u32..5_000, 1..70)), 1..8),
        ) {
            let (mut whole, mut single) = (Histogram::default(), Histogram::default());
            for (last, mut falls) in batches {
                falls.sort_unstable();
                let top = last + u64::from(falls[falls.len() - 1]);
                let values: Vec<_> = falls.iter().map(|&fall| top - u64::from(fall)).collect();
                let batch = HistogramBatch::descending(&whole, top, &DescendingOffsets::of(&falls));
                whole.record_all(&batch, values.iter().copied());
                values.iter().for_each(|&value| single.record(value));
            }
            prop_assert_eq!((whole.count(), whole.min()), (single.count(), single.min()));
            prop_assert_eq!(whole.max(), single.max());
            for quantile in [0.0, 0.1, 0.5, 0.99, 1.0] {
                prop_assert_eq!(whole.quantile(quantile), single.quantile(quantile));
            }
            prop_assert!((whole.mean() - single.mean()).abs() <= single.mean() * 1e-9);
            prop_assert!((whole.sd() - single.sd()).abs() <= single.sd() * 1e-6 + 1e-6);
        }

        #[test]
        fn quantiles_are_within_a_percent(
            mut values in prop::collection::vec(0u64..1 << 40, 1..300),
            quantile in 0.0..=1.0f64,
        ) {
            let found = of(values.iter().copied()).quantile(quantile) as f64;
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            let share = if exact < FINE_FROM as f64 { 0.01 } else { 0.002 };
            prop_assert!((found - exact).abs() <= exact * share + 0.5, "{found} for {exact}");
        }
    }
}
