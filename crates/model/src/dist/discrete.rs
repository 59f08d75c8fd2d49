//! Lists of values: drawn at random, or played back in order.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::law_table::MAX_NS;
use crate::ParameterError;

/// A list of values; each draw selects one of them.
///
/// # Invariants
/// There is at least one value, and they are sorted in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DiscreteValues {
    pub(super) values: Box<[u64]>,
    pub(super) origin: ValueOrigin,
}

/// Where the values come from; used to describe the distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ValueOrigin {
    Samples,
    /// The values come from a table in netem's format. `uncut_ns` is the mean before values below
    /// 0 were set to 0.
    Table {
        mean_ns: f64,
        sd_ns: f64,
        uncut_ns: f64,
    },
}

impl DiscreteValues {
    pub(super) fn new(mut values: Box<[u64]>, origin: ValueOrigin) -> Result<Self, ParameterError> {
        check(&values)?;
        values.sort_unstable();
        Ok(Self { values, origin })
    }

    /// Returns the value in ns for `draw`, which is one of 2⁶⁴ equally likely numbers.
    #[inline]
    pub(super) fn at(&self, draw: u64) -> u64 {
        self.values[((u128::from(draw) * self.values.len() as u128) >> 64) as usize]
    }

    /// Returns the quantile in ns: at most the share `p` of all values is below it, and at least
    /// this share is not above it.
    pub(super) fn quantile_ns(&self, p: f64) -> f64 {
        let index = (p * self.values.len() as f64) as usize;
        self.values[index.min(self.values.len() - 1)] as f64
    }

    /// Returns only the values in `min_ns..=max_ns`.
    pub(super) fn within(&self, min_ns: f64, max_ns: f64) -> Result<Self, ParameterError> {
        let fits = |&&value: &&u64| (min_ns..=max_ns).contains(&(value as f64));
        let kept: Box<[u64]> = self.values.iter().filter(fits).copied().collect();
        let must_be = "at least one of the values";
        ParameterError::unless(!kept.is_empty(), "what min and max keep", must_be, 0.0)?;
        Ok(Self { values: kept, origin: self.origin })
    }

    /// The values, each raised by `offset_ns`.
    pub(super) fn plus(&self, offset_ns: u64) -> Self {
        let values = self.values.iter().map(|value| value.saturating_add(offset_ns)).collect();
        let origin = match self.origin {
            ValueOrigin::Table { mean_ns, sd_ns, uncut_ns } => {
                ValueOrigin::Table { mean_ns, sd_ns, uncut_ns: uncut_ns + offset_ns as f64 }
            }
            ValueOrigin::Samples => ValueOrigin::Samples,
        };
        Self { values, origin }
    }

    /// Mean in ns and variance in ns².
    pub(super) fn moments(&self) -> (f64, f64) {
        let count = self.values.len() as f64;
        let values = || self.values.iter().map(|&value| value as f64);
        let mean = values().sum::<f64>() / count;
        (mean, values().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count)
    }
}

/// Values played back in order, repeatedly.
///
/// ```
/// let mut delays = slipring_model::Playback::new(&[30, 10, 20])?;
/// let played: Vec<u64> = (0..4).map(|_| delays.next_ns()).collect();
/// assert_eq!(played, [30, 10, 20, 30]);
/// # Ok::<(), slipring_model::ParameterError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Playback {
    values: Arc<[u64]>,
    next: usize,
}

impl Playback {
    /// Creates a playback of `values_ns` that starts with the first value.
    ///
    /// # Errors
    /// Returns an error if there are no values, or a value is above 104 days.
    pub fn new(values_ns: &[u64]) -> Result<Self, ParameterError> {
        check(values_ns)?;
        Ok(Self { values: values_ns.into(), next: 0 })
    }

    /// Returns the next value in ns. After the last value, starts again with the first one.
    #[inline]
    pub fn next_ns(&mut self) -> u64 {
        let value = self.values[self.next];
        self.next = if self.next + 1 == self.values.len() { 0 } else { self.next + 1 };
        value
    }
}

fn check(values: &[u64]) -> Result<(), ParameterError> {
    let count = values.len() as f64;
    ParameterError::unless(!values.is_empty(), "the number of values", "at least 1", count)?;
    match values.iter().find(|&&value| value > MAX_NS) {
        Some(&value) => Err(ParameterError {
            parameter: "a value",
            must_be: "below 104 days",
            value: value as f64,
        }),
        None => Ok(()),
    }
}
