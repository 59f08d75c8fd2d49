//! Statistical tests for the unit tests of this crate.

use std::vec::Vec;

/// The Kolmogorov-Smirnov distance between the values in `drawn` and the continuous distribution
/// function `below`, times the square root of the number of values. If the values follow the
/// function, the result exceeds 1.95 with a probability of 1 in 1000.
pub(crate) fn kolmogorov(mut drawn: Vec<f64>, below: impl Fn(f64) -> f64) -> f64 {
    drawn.sort_by(f64::total_cmp);
    let count = drawn.len() as f64;
    let gap = |(index, &value): (usize, &f64)| {
        let expected = below(value);
        let (before, after) = (index as f64 / count, (index + 1) as f64 / count);
        (expected - before).max(after - expected)
    };
    drawn.iter().enumerate().map(gap).fold(0.0, f64::max) * count.sqrt()
}

/// The chi-square statistic of the counts in `seen` against the expected `shares`, as the number of
/// standard deviations by which it exceeds its mean.
pub(crate) fn chi_square_excess(seen: &[u64], shares: &[f64]) -> f64 {
    assert_eq!(seen.len(), shares.len());
    let total = seen.iter().sum::<u64>() as f64;
    let term = |(&seen, &share): (&u64, &f64)| {
        let expected = share * total;
        assert!(expected >= 5.0, "the bin of {share} is too small for the test");
        (seen as f64 - expected).powi(2) / expected
    };
    let chi_square: f64 = seen.iter().zip(shares).map(term).sum();
    let freedom = (seen.len() - 1) as f64;
    (chi_square - freedom) / (2.0 * freedom).sqrt()
}

/// Mean and standard deviation of `values`.
pub(crate) fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, square.sqrt())
}
