//! Continuous laws: the probability below and above a value, and quantiles, each accurate in both
//! tails; and laws truncated to a range.

use super::{gamma, normal};
use crate::ParameterError;

/// A probability measured from one of the ends of the distribution, so that a probability as small
/// as 2⁻⁶⁴ is as accurate near the greatest values as near the smallest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tail {
    /// The probability of all values below a given value.
    Low(f64),
    /// The probability of all values above a given value.
    High(f64),
}

/// A continuous distribution over nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Law {
    Normal {
        mean: f64,
        sd: f64,
    },
    Exponential {
        mean: f64,
    },
    Pareto {
        scale: f64,
        shape: f64,
    },
    /// `mu` and `sigma` are the mean and the standard deviation of the value's logarithm.
    Lognormal {
        mu: f64,
        sigma: f64,
    },
    Gamma {
        shape: f64,
        scale: f64,
    },
    Weibull {
        shape: f64,
        scale: f64,
    },
}

impl Law {
    /// The probability of a value of at most `x`.
    fn below(&self, x: f64) -> f64 {
        match *self {
            Self::Normal { mean, sd } => normal::below((x - mean) / sd),
            Self::Lognormal { mu, sigma } if x > 0.0 => normal::below((libm::log(x) - mu) / sigma),
            Self::Gamma { shape, scale } if x > 0.0 => gamma::below(shape, x / scale),
            Self::Lognormal { .. } | Self::Gamma { .. } => 0.0,
            Self::Exponential { .. } | Self::Pareto { .. } | Self::Weibull { .. } => {
                -libm::expm1(-self.hazard(x))
            }
        }
    }

    /// The probability of a value above `x`.
    fn above(&self, x: f64) -> f64 {
        match *self {
            Self::Normal { mean, sd } => normal::below((mean - x) / sd),
            Self::Lognormal { mu, sigma } if x > 0.0 => normal::below((mu - libm::log(x)) / sigma),
            Self::Gamma { shape, scale } if x > 0.0 => gamma::above(shape, x / scale),
            Self::Lognormal { .. } | Self::Gamma { .. } => 1.0,
            Self::Exponential { .. } | Self::Pareto { .. } | Self::Weibull { .. } => {
                libm::exp(-self.hazard(x))
            }
        }
    }

    /// The negative logarithm of the probability of a value above `x`, from a closed formula if the
    /// law has one.
    fn hazard(&self, x: f64) -> f64 {
        match *self {
            Self::Exponential { mean } => (x / mean).max(0.0),
            Self::Pareto { scale, shape } => (shape * libm::log(x.max(scale) / scale)).max(0.0),
            Self::Weibull { shape, scale } => libm::pow((x / scale).max(0.0), shape),
            Self::Normal { .. } | Self::Lognormal { .. } | Self::Gamma { .. } => {
                -libm::log(self.above(x))
            }
        }
    }

    /// The quantile: the value with the probability of `tail` below it (`Tail::Low`) or above it
    /// (`Tail::High`).
    fn quantile(&self, tail: Tail) -> f64 {
        let hazard = match tail {
            Tail::Low(p) => -libm::log1p(-p),
            Tail::High(q) => -libm::log(q),
        };
        match *self {
            Self::Normal { mean, sd } => mean + sd * normal::quantile(tail),
            Self::Lognormal { mu, sigma } => libm::exp(mu + sigma * normal::quantile(tail)),
            Self::Gamma { shape, scale } => scale * gamma::quantile(shape, tail),
            Self::Exponential { mean } => mean * hazard,
            Self::Pareto { scale, shape } => scale * libm::exp(hazard / shape),
            Self::Weibull { shape, scale } => scale * libm::pow(hazard, 1.0 / shape),
        }
    }

    /// The mean that follows from the law's parameters, before truncation; `None` for Pareto and
    /// Weibull.
    pub(super) fn requested_mean(&self) -> Option<f64> {
        match *self {
            Self::Normal { mean, .. } | Self::Exponential { mean } => Some(mean),
            Self::Lognormal { mu, sigma } => Some(libm::exp(mu + sigma * sigma / 2.0)),
            Self::Gamma { shape, scale } => Some(shape * scale),
            Self::Pareto { .. } | Self::Weibull { .. } => None,
        }
    }

    /// Returns whether the mean is finite, and whether the standard deviation is finite, if the law
    /// is not truncated above.
    pub(super) fn has_moments(&self) -> (bool, bool) {
        match *self {
            Self::Pareto { shape, .. } => (shape > 1.0, shape > 2.0),
            _ => (true, true),
        }
    }
}

/// A law under the condition that its value is between `low` and `high`: every probability is the
/// probability of the law, divided by the law's probability of this range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TruncatedLaw {
    pub(super) law: Law,
    pub(super) low: f64,
    pub(super) high: f64,
    /// The probability, under `law`, of values below the range. `cut_above` is the probability of
    /// values above the range.
    cut_below: f64,
    cut_above: f64,
    mass: f64,
}

impl TruncatedLaw {
    /// The smallest probability that a range may have under the law. A smaller one is probably a
    /// mistake, such as a minimum far beyond the mean.
    const MIN_MASS: f64 = 1e-9;

    /// Truncates `law` to `low..=high`; `high` may be infinite.
    ///
    /// # Errors
    /// Returns an error if the law's probability of the range is less than [`Self::MIN_MASS`].
    pub(super) fn new(law: Law, low: f64, high: f64) -> Result<Self, ParameterError> {
        let (cut_below, cut_above) = (law.below(low), law.above(high));
        // Of the two possible differences, the one between the smaller probabilities loses fewer
        // digits.
        let mass =
            if cut_below < 0.5 { law.below(high) - cut_below } else { law.above(low) - cut_above };
        let must_be = "at least a billionth of the distribution";
        ParameterError::unless(mass >= Self::MIN_MASS, "what min and max keep", must_be, mass)?;
        Ok(Self { law, low, high, cut_below, cut_above, mass })
    }

    /// Returns the quantile of the truncated law: the value with the probability of `tail` below
    /// it (`Tail::Low`) or above it (`Tail::High`).
    pub(super) fn quantile(&self, tail: Tail) -> f64 {
        let (p, q) = match tail {
            Tail::Low(p) => (p, 1.0 - p),
            Tail::High(q) => (1.0 - q, q),
        };
        let below = self.cut_below + p * self.mass;
        let above = self.cut_above + q * self.mass;
        let tail = if below < above { Tail::Low(below) } else { Tail::High(above) };
        self.law.quantile(tail).clamp(self.low, self.high)
    }

    /// The probability of a value of at most `x`.
    #[cfg(test)]
    pub(super) fn below(&self, x: f64) -> f64 {
        ((self.law.below(x) - self.cut_below) / self.mass).clamp(0.0, 1.0)
    }
}
