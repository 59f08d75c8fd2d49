//! Constructors of distributions: they check parameters and fill tables.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::discrete::ValueOrigin;
use super::law::{Law, TruncatedLaw};
use super::law_table::MAX_NS;
use super::{CdfPoint, CdfSegments, DiscreteValues, Dist, DistKind, LawTable};
use crate::ParameterError;

type DistResult = Result<Dist, ParameterError>;

impl Dist {
    /// Maximum number of entries of a table in netem's format.
    pub const MAX_TABLE: usize = 16_384;

    /// The distribution whose value is always `ns`.
    #[must_use]
    pub const fn constant(ns: u64) -> Self {
        Self(DistKind::Constant(ns))
    }

    /// The distribution in which every nanosecond from `min_ns` to `max_ns` is equally likely.
    ///
    /// # Errors
    /// [`ParameterError`] if `min_ns` is greater than `max_ns`.
    pub fn uniform(min_ns: u64, max_ns: u64) -> DistResult {
        let ordered = min_ns <= max_ns;
        ParameterError::unless(ordered, "max", "no less than min", max_ns as f64)?;
        Ok(Self(DistKind::Uniform { low: min_ns, high: max_ns }))
    }

    /// The normal distribution, truncated at 0.
    ///
    /// # Errors
    /// Returns an error if `mean_ns` is negative, `sd_ns` is not positive, or either is above 104
    /// days or not a number.
    pub fn normal(mean_ns: f64, sd_ns: f64) -> DistResult {
        let mean = time("mean", mean_ns)?;
        law(Law::Normal { mean, sd: positive_time("sd", sd_ns)? }, 0)
    }

    /// The distribution of `min_ns` plus an exponentially distributed time; the sum has the mean
    /// `mean_ns`.
    ///
    /// # Errors
    /// Returns an error if `mean_ns` is not a number greater than `min_ns`, or is above 104 days.
    pub fn exponential(min_ns: u64, mean_ns: f64) -> DistResult {
        let mean = positive_time("mean", mean_ns)?;
        let rest = mean - min_ns as f64;
        ParameterError::unless(rest > 0.0, "mean", "greater than min", mean)?;
        law(Law::Exponential { mean: rest }, min_ns)
    }

    /// The Pareto distribution: at least `scale_ns`, with a probability of `(scale_ns / x)^shape`
    /// above `x`. The mean is finite if the shape is above 1, the standard deviation if it is above
    /// 2.
    ///
    /// # Errors
    /// [`ParameterError`] if `scale_ns` is not positive or is above 104 days, or `shape` is outside
    /// 0.1 to 1,000,000.
    pub fn pareto(scale_ns: f64, shape: f64) -> DistResult {
        let scale = positive_time("scale", scale_ns)?;
        law(Law::Pareto { scale, shape: shape_of(shape)? }, 0)
    }

    /// The lognormal distribution with this mean and standard deviation of the value itself (not of
    /// its logarithm).
    ///
    /// # Errors
    /// Returns an error if a parameter is not positive, above 104 days, or not a number.
    pub fn lognormal(mean_ns: f64, sd_ns: f64) -> DistResult {
        let (mean, sd) = (positive_time("mean", mean_ns)?, positive_time("sd", sd_ns)?);
        let variance = libm::log1p((sd / mean) * (sd / mean));
        let mu = libm::log(mean) - 0.5 * variance;
        law(Law::Lognormal { mu, sigma: libm::sqrt(variance) }, 0)
    }

    /// The gamma distribution: mean `shape * scale_ns`, variance `shape * scale_ns²`.
    ///
    /// # Errors
    /// [`ParameterError`] if `shape` is outside 0.1 to 1,000,000, or `scale_ns` is not positive or
    /// is above 104 days.
    pub fn gamma(shape: f64, scale_ns: f64) -> DistResult {
        law(Law::Gamma { shape: shape_of(shape)?, scale: positive_time("scale", scale_ns)? }, 0)
    }

    /// The Weibull distribution, with a probability of `exp(-(x / scale_ns)^shape)` above `x`.
    ///
    /// # Errors
    /// [`ParameterError`] if `shape` is outside 0.1 to 1,000,000, or `scale_ns` is not positive or
    /// is above 104 days.
    pub fn weibull(shape: f64, scale_ns: f64) -> DistResult {
        law(Law::Weibull { shape: shape_of(shape)?, scale: positive_time("scale", scale_ns)? }, 0)
    }

    /// A table in netem's format: every entry `t` is equally likely and means `mean_ns + sd_ns * t
    /// / 8192`, rounded half away from zero. Negative values become 0, as in netem.
    ///
    /// The standard deviation is `sd_ns` only if that of the entries is 8192 and no value is
    /// negative. Of netem's own tables, only `normal` has this deviation. [`Self::sd_ns`] returns
    /// the actual standard deviation.
    ///
    /// # Errors
    /// Returns an error if the table has no entry or more than [`Self::MAX_TABLE`], or a parameter
    /// is negative, above 104 days, or not a number.
    pub fn table(entries: &[i16], mean_ns: f64, sd_ns: f64) -> DistResult {
        let (mean_ns, sd_ns) = (time("mean", mean_ns)?, time("sd", sd_ns)?);
        let count = entries.len() as f64;
        let fits = entries.len() <= Self::MAX_TABLE;
        ParameterError::unless(fits, "the number of entries", "at most 16384", count)?;
        let value = |&entry: &i16| {
            let ns = libm::round(mean_ns + sd_ns * f64::from(entry) / 8192.0);
            ns.clamp(0.0, MAX_NS as f64) as u64
        };
        let values: Box<[u64]> = entries.iter().map(value).collect();
        let sum: f64 = entries.iter().map(|&entry| f64::from(entry)).sum();
        let uncut_ns = mean_ns + sd_ns * sum / 8192.0 / count;
        picks(DiscreteValues::new(values, ValueOrigin::Table { mean_ns, sd_ns, uncut_ns })?)
    }

    /// One of `values_ns` at random, all equally likely. To play the values back in order, see
    /// [`Playback`](crate::Playback).
    ///
    /// # Errors
    /// Returns an error if there are no values, or one is above 104 days.
    pub fn samples(values_ns: &[u64]) -> DistResult {
        picks(DiscreteValues::new(values_ns.into(), ValueOrigin::Samples)?)
    }

    /// Creates the distribution whose cumulative distribution function is given by points, with
    /// straight lines between them. Two points with the same value are a step: the probability of
    /// exactly this value is the difference between their probabilities. If the probability of the
    /// first point is not 0, there is also a step at the first point, up from 0.
    ///
    /// # Errors
    /// Returns an error if there are fewer than two points or more than 2^20, a value is negative
    /// or above 104 days, values or probabilities decrease, or the last probability is not 1.
    pub fn cdf(points: &[CdfPoint]) -> DistResult {
        Ok(Self(DistKind::Segments(Arc::new(CdfSegments::new(points)?))))
    }

    /// The same distribution under the condition that the value is in `min_ns..=max_ns`, as if
    /// every draw outside this range were repeated. `max_ns` may be infinite.
    ///
    /// # Errors
    /// Returns an error if `min_ns` is negative, the range is empty, or no value of the
    /// distribution is in it. For a law or a distribution given by points, at least a billionth of
    /// the distribution must be in the range.
    pub fn within(&self, min_ns: f64, max_ns: f64) -> DistResult {
        let min_ns = ParameterError::not_negative("min", min_ns)?;
        ParameterError::unless(max_ns >= min_ns, "max", "no less than min", max_ns)?;
        match &self.0 {
            DistKind::Constant(ns) => {
                let must_be = "a range around the constant";
                let fits = (min_ns..=max_ns).contains(&(*ns as f64));
                ParameterError::unless(fits, "min to max", must_be, min_ns)?;
                Ok(self.clone())
            }
            DistKind::Uniform { low, high } => {
                Self::uniform((*low).max(libm::ceil(min_ns) as u64), (*high).min(max_ns as u64))
            }
            DistKind::Law(smooth) => smooth_within(smooth, min_ns, max_ns),
            DistKind::Segments(segments) => {
                Ok(Self(DistKind::Segments(Arc::new(segments.within(min_ns, max_ns)?))))
            }
            DistKind::Discrete(values) => picks(values.within(min_ns, max_ns)?),
        }
    }

    /// The same distribution with every value raised by `offset_ns`.
    #[must_use]
    pub fn plus(&self, offset_ns: u64) -> Self {
        Self(match &self.0 {
            DistKind::Constant(ns) => DistKind::Constant(ns.saturating_add(offset_ns)),
            DistKind::Uniform { low, high } => DistKind::Uniform {
                low: low.saturating_add(offset_ns),
                high: high.saturating_add(offset_ns),
            },
            DistKind::Law(smooth) => {
                let offset_ns = smooth.offset_ns.saturating_add(offset_ns);
                DistKind::Law(Arc::new(LawTable::new(smooth.law, offset_ns)))
            }
            DistKind::Segments(segments) => {
                DistKind::Segments(Arc::new(segments.plus(offset_ns as f64)))
            }
            DistKind::Discrete(values) => DistKind::Discrete(Arc::new(values.plus(offset_ns))),
        })
    }
}

fn law(law: Law, offset_ns: u64) -> DistResult {
    let source = TruncatedLaw::new(law, 0.0, f64::INFINITY)?;
    Ok(Dist(DistKind::Law(Arc::new(LawTable::new(source, offset_ns)))))
}

fn smooth_within(smooth: &LawTable, min_ns: f64, max_ns: f64) -> DistResult {
    let (source, offset) = (smooth.law, smooth.offset_ns as f64);
    let low = source.low.max(min_ns - offset);
    let high = source.high.min(max_ns - offset);
    let source = TruncatedLaw::new(source.law, low, high)?;
    Ok(Dist(DistKind::Law(Arc::new(LawTable::new(source, smooth.offset_ns)))))
}

fn picks(values: DiscreteValues) -> DistResult {
    Ok(Dist(DistKind::Discrete(Arc::new(values))))
}

fn time(name: &'static str, ns: f64) -> ParameterResult {
    ParameterError::not_negative(name, ns)?;
    ParameterError::unless(ns <= MAX_NS as f64, name, "below 104 days", ns)
}

type ParameterResult = Result<f64, ParameterError>;

fn positive_time(name: &'static str, ns: f64) -> ParameterResult {
    ParameterError::positive(name, ns)?;
    time(name, ns)
}

fn shape_of(shape: f64) -> ParameterResult {
    ParameterError::unless((0.1..=1e6).contains(&shape), "shape", "0.1 to 1000000", shape)
}
