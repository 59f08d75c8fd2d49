//! Compares the result of a run with limits that the user requires. All numbers are integers, so a
//! result that is exactly at a limit always passes.

use alloc::vec::Vec;
use core::fmt;

use slipring_model::{NANOS_PER_SEC, Rate};

use crate::fraction::Fraction;

/// What the user requires of a run. By default, nothing is required.
///
/// ```
/// use slipring_traffic::{Expectations, TrafficOutcome};
///
/// let expected = Expectations {
///     max_loss: Some("0.1%".parse()?),
///     ..Expectations::default()
/// };
/// let outcome = TrafficOutcome { sent: 1_000_000, lost: 1_001, ..TrafficOutcome::default() };
/// let unmet = expected.unmet(&outcome);
/// assert_eq!(unmet[0].to_string(), "lost 1001 of 1000000 frames (0.1001%), allowed 0.1%");
/// # Ok::<(), slipring_traffic::FractionError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Expectations {
    /// The largest fraction of the sent frames that may be lost; `None` means no limit.
    pub max_loss: Option<Fraction>,
    /// The minimum average rate of the run; `None` means no limit.
    pub min_rate: Option<Rate>,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficOutcome {
    /// Number of frames sent. If only the receiver is known, the number of frames that it expected
    /// according to the frame numbers.
    pub sent: u64,
    /// Number of these frames that were lost.
    pub lost: u64,
    /// Number of frames that are used to compute the rate.
    pub packets: u64,
    /// Number of bits in the frames that are used to compute the rate.
    pub bits: u64,
    /// How long the run took, in ns.
    pub elapsed_ns: u64,
}

/// A requirement that was not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmetExpectation {
    /// Loss is limited, but no frame was sent.
    NothingSent,
    /// More frames were lost than allowed.
    Loss {
        /// How many frames were lost.
        lost: u64,
        /// How many frames were sent.
        sent: u64,
        /// The largest fraction that may be lost.
        allowed: Fraction,
    },
    /// The rate was too low.
    Rate {
        /// The average rate, rounded down. It is in packets or bits per second, like `expected`.
        reached: u64,
        /// The minimum rate.
        expected: Rate,
    },
}

impl Expectations {
    /// Returns the requirements that `outcome` does not meet. If the list is empty, all are met.
    #[must_use]
    pub fn unmet(&self, outcome: &TrafficOutcome) -> Vec<UnmetExpectation> {
        let loss = self.max_loss.and_then(|allowed| outcome.excess_loss(allowed));
        let rate = self.min_rate.and_then(|expected| outcome.short_rate(expected));
        loss.into_iter().chain(rate).collect()
    }
}

impl TrafficOutcome {
    fn excess_loss(&self, allowed: Fraction) -> Option<UnmetExpectation> {
        let Self { sent, lost, .. } = *self;
        if sent == 0 {
            return Some(UnmetExpectation::NothingSent);
        }
        (!allowed.is_at_least(lost, sent)).then_some(UnmetExpectation::Loss { lost, sent, allowed })
    }

    fn short_rate(&self, expected: Rate) -> Option<UnmetExpectation> {
        let (amount, per_sec) = match expected {
            Rate::PacketsPerSec(per_sec) => (self.packets, per_sec),
            Rate::BitsPerSec(per_sec) => (self.bits, per_sec),
        };
        let scaled = u128::from(amount) * u128::from(NANOS_PER_SEC);
        let needed = u128::from(per_sec) * u128::from(self.elapsed_ns);
        if scaled >= needed && (self.elapsed_ns > 0 || per_sec == 0) {
            return None;
        }
        let reached = scaled.checked_div(u128::from(self.elapsed_ns)).unwrap_or(0);
        let reached = u64::try_from(reached).unwrap_or(u64::MAX);
        Some(UnmetExpectation::Rate { reached, expected })
    }
}

impl fmt::Display for UnmetExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NothingSent => f.write_str("a limit on loss, but nothing was sent"),
            Self::Loss { lost, sent, allowed } => {
                write!(f, "lost {lost} of {sent} frames")?;
                if let Some(part) = Fraction::new(lost, sent) {
                    write!(f, " ({part})")?;
                }
                write!(f, ", allowed {allowed}")
            }
            Self::Rate { reached, expected } => {
                let (unit, least) = match expected {
                    Rate::PacketsPerSec(least) => ("packets/s", least),
                    Rate::BitsPerSec(least) => ("bit/s", least),
                };
                write!(f, "{reached} {unit}, expected at least {least}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    fn loss(allowed: &str, lost: u64, sent: u64) -> Vec<UnmetExpectation> {
        let expectations =
            Expectations { max_loss: Some(allowed.parse().unwrap()), ..Expectations::default() };
        expectations.unmet(&TrafficOutcome { sent, lost, ..TrafficOutcome::default() })
    }

    fn rate(expected: Rate, packets: u64, bits: u64, elapsed_ns: u64) -> Vec<UnmetExpectation> {
        let expectations = Expectations { min_rate: Some(expected), ..Expectations::default() };
        expectations.unmet(&TrafficOutcome {
            packets,
            bits,
            elapsed_ns,
            ..TrafficOutcome::default()
        })
    }

    #[test]
    fn loss_of_exactly_the_limit_passes_and_one_more_fails() {
        assert_eq!(loss("0.1%", 1000, 1_000_000), []);
        assert_eq!(loss("0.1%", 1001, 1_000_000).len(), 1);
        assert_eq!(loss("0", 0, 1), []);
        assert_eq!(loss("0", 1, u64::MAX).len(), 1);
    }

    #[test]
    fn run_that_sent_nothing_does_not_pass_for_lossless() {
        assert_eq!(loss("100%", 0, 0), [UnmetExpectation::NothingSent]);
    }

    #[test]
    fn rate_of_exactly_the_limit_passes_and_one_less_fails() {
        let limit = Rate::PacketsPerSec(1_000_000);
        assert_eq!(rate(limit, 10_000_000, 0, 10_000_000_000), []);
        let unmet = rate(limit, 9_999_999, 0, 10_000_000_000);
        assert_eq!(unmet[0].to_string(), "999999 packets/s, expected at least 1000000");
        assert_eq!(rate(Rate::BitsPerSec(8), 0, 8, 1_000_000_000), []);
        assert_eq!(rate(Rate::BitsPerSec(8), 0, 8, 1_000_000_001).len(), 1);
    }

    #[test]
    fn run_without_duration_reaches_no_rate() {
        assert_eq!(rate(Rate::PacketsPerSec(1), 5, 0, 0).len(), 1);
        assert_eq!(rate(Rate::PacketsPerSec(0), 0, 0, 0), []);
    }

    #[test]
    fn nothing_expected_is_always_met() {
        assert_eq!(Expectations::default().unmet(&TrafficOutcome::default()), []);
    }

    proptest! {
        #[test]
        fn loss_is_judged_as_in_exact_arithmetic(num: u32, den in 1u32.., lost: u32, sent in 1u32..) {
            let expectations = Expectations {
                max_loss: Fraction::new(num.into(), den.into()),
                min_rate: None,
            };
            let outcome = TrafficOutcome { sent: sent.into(), lost: lost.into(), ..TrafficOutcome::default() };
            let passes = u64::from(lost) * u64::from(den) <= u64::from(num) * u64::from(sent);
            prop_assert_eq!(expectations.unmet(&outcome).is_empty(), passes);
        }
    }
}
