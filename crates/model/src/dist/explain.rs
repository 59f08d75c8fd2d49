//! Describes a distribution in numbers, and its parameters in words.

use alloc::string::{String, ToString};
use core::fmt;
use core::ops::RangeInclusive;

use super::discrete::ValueOrigin;
use super::law::{Law, Tail, TruncatedLaw};
use super::{Dist, DistKind, LawTable};

impl Dist {
    /// Returns the quantile in ns, not rounded: the share `p` of all values is below it. `p` is
    /// clamped to 0 to 1.
    #[must_use]
    pub fn quantile_ns(&self, p: f64) -> f64 {
        /// The cumulative probability at the middle of the lowest of 2⁶⁴ draws.
        const MIN_PROBABILITY: f64 = 1.0 / (1u128 << 65) as f64;
        let p = p.clamp(0.0, 1.0);
        match &self.0 {
            DistKind::Constant(ns) => *ns as f64,
            DistKind::Uniform { low, high } => *low as f64 + p * (high - low) as f64,
            DistKind::Law(smooth) if p < 0.5 => {
                smooth.quantile_ns(Tail::Low(p.max(MIN_PROBABILITY)))
            }
            DistKind::Law(smooth) => smooth.quantile_ns(Tail::High((1.0 - p).max(MIN_PROBABILITY))),
            DistKind::Segments(segments) => segments.quantile_ns(p),
            DistKind::Discrete(picks) => picks.quantile_ns(p),
        }
    }

    /// The mean, in ns, after truncation at 0, at 104 days and to ranges; infinite for a law that
    /// has no finite mean and is not bounded above by a range.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.moments().0
    }

    /// Returns the mean, in ns, that follows from the user's parameters, before truncation at 0 or
    /// to a range. `None` for a constant, a uniform distribution, samples, a distribution given by
    /// points, Pareto and Weibull.
    ///
    /// ```
    /// use slipring_model::Dist;
    /// let cut = Dist::normal(5e6, 50e6)?;
    /// assert_eq!(cut.requested_mean_ns(), Some(5e6));
    /// assert!(cut.mean_ns() > 40e6, "what lies below 0 is never drawn");
    /// # Ok::<(), slipring_model::ParameterError>(())
    /// ```
    #[must_use]
    pub fn requested_mean_ns(&self) -> Option<f64> {
        match &self.0 {
            DistKind::Law(smooth) => {
                smooth.law.law.requested_mean().map(|mean| mean + smooth.offset_ns as f64)
            }
            DistKind::Discrete(picks) => match picks.origin {
                ValueOrigin::Table { uncut_ns, .. } => Some(uncut_ns),
                ValueOrigin::Samples => None,
            },
            DistKind::Constant(_) | DistKind::Uniform { .. } | DistKind::Segments(_) => None,
        }
    }

    /// The standard deviation, in ns, after truncation at 0, at 104 days and to ranges; infinite
    /// for a law that has no finite deviation and is not bounded above by a range.
    #[must_use]
    pub fn sd_ns(&self) -> f64 {
        libm::sqrt(self.moments().1.max(0.0))
    }

    /// The smallest and the greatest value that can be drawn, in ns.
    #[must_use]
    pub fn bounds(&self) -> RangeInclusive<u64> {
        self.at(0)..=self.at(u64::MAX)
    }

    /// The distribution in words, as in `normal(mean 20ms, sd 3ms) from 15ms up to 40ms`. Mean and
    /// deviation in this text are those before truncation.
    #[must_use]
    pub fn describe(&self) -> String {
        self.to_string()
    }

    /// Mean in ns and variance in ns², after truncation.
    fn moments(&self) -> (f64, f64) {
        match &self.0 {
            DistKind::Constant(ns) => (*ns as f64, 0.0),
            DistKind::Uniform { low, high } => {
                let choices = (high - low) as f64 + 1.0;
                (*low as f64 + (choices - 1.0) / 2.0, (choices * choices - 1.0) / 12.0)
            }
            DistKind::Law(smooth) => smooth_moments(smooth),
            DistKind::Segments(segments) => segments.moments(),
            DistKind::Discrete(picks) => picks.moments(),
        }
    }
}

fn smooth_moments(smooth: &LawTable) -> (f64, f64) {
    let (has_mean, has_variance) = smooth.law.law.has_moments();
    let (mean, variance) = smooth.moments();
    let endless = smooth.law.high == f64::INFINITY;
    let unless = |exists, value| if exists || !endless { value } else { f64::INFINITY };
    (unless(has_mean, mean), unless(has_variance, variance))
}

impl fmt::Display for Dist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            DistKind::Constant(ns) => write!(f, "constant({})", TimeDisplay(*ns as f64)),
            DistKind::Uniform { low, high } => {
                write!(f, "uniform({} to {})", TimeDisplay(*low as f64), TimeDisplay(*high as f64))
            }
            DistKind::Law(smooth) => {
                write_law(f, &smooth.law)?;
                match smooth.offset_ns {
                    0 => Ok(()),
                    offset_ns => write!(f, " plus {}", TimeDisplay(offset_ns as f64)),
                }
            }
            DistKind::Segments(segments) => write!(f, "cdf({} points)", segments.points.len()),
            DistKind::Discrete(picks) => match picks.origin {
                ValueOrigin::Samples => write!(f, "samples({} values)", picks.values.len()),
                ValueOrigin::Table { mean_ns, sd_ns, .. } => {
                    let (mean, sd, count) =
                        (TimeDisplay(mean_ns), TimeDisplay(sd_ns), picks.values.len());
                    write!(f, "table(mean {mean}, sd {sd}, {count} entries)")
                }
            },
        }
    }
}

fn write_law(f: &mut fmt::Formatter<'_>, source: &TruncatedLaw) -> fmt::Result {
    match source.law {
        Law::Normal { mean, sd } => {
            write!(f, "normal(mean {}, sd {})", TimeDisplay(mean), TimeDisplay(sd))
        }
        Law::Exponential { mean } => write!(f, "exponential(mean {})", TimeDisplay(mean)),
        Law::Pareto { scale, shape } => {
            write!(f, "pareto(scale {}, shape {shape})", TimeDisplay(scale))
        }
        Law::Gamma { shape, scale } => {
            write!(f, "gamma(shape {shape}, scale {})", TimeDisplay(scale))
        }
        Law::Weibull { shape, scale } => {
            write!(f, "weibull(shape {shape}, scale {})", TimeDisplay(scale))
        }
        Law::Lognormal { mu, sigma } => {
            let variance = sigma * sigma;
            let mean = libm::exp(mu + variance / 2.0);
            let sd = mean * libm::sqrt(libm::expm1(variance));
            write!(f, "lognormal(mean {}, sd {})", TimeDisplay(mean), TimeDisplay(sd))
        }
    }?;
    if source.low > 0.0 {
        write!(f, " from {}", TimeDisplay(source.low))?;
    }
    if source.high < f64::INFINITY {
        write!(f, " up to {}", TimeDisplay(source.high))?;
    }
    Ok(())
}

/// Displays nanoseconds in a readable unit.
struct TimeDisplay(f64);

impl fmt::Display for TimeDisplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
        let fits = UNITS.iter().find(|(size, _)| self.0.abs() >= *size);
        let (size, unit) = fits.copied().unwrap_or((1.0, "ns"));
        write!(f, "{}{unit}", libm::round(self.0 / size * 1e6) / 1e6)
    }
}
