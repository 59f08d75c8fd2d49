//! Token buckets, exact to the nanosecond, and two-rate meters built from them.
//!
//! Tokens are counted in bits times 10⁹, so that a bucket of `bps` gains exactly `bps` tokens per
//! nanosecond. The number of tokens is never rounded, so the result does not depend on how often
//! the bucket is polled.
//!
//! # Invariants
//! 1. `0 <= tokens <= burst`.
//! 2. Time never goes back; a time earlier than the latest one counts as the latest one.
//!
//! Not for storing packets, and not for releasing them on time.

mod meter;

pub use meter::{Colour, ColourMode, MeterKind, TwoRateSpec, TwoRateThreeColour};

use crate::ParameterError;

/// Number of tokens for one byte.
const TOKENS_PER_BYTE: u128 = 8 * crate::NANOS_PER_SEC as u128;

/// A bucket that fills with tokens at a fixed rate, up to a maximum, the burst.
///
/// ```
/// use slipring_model::bucket::TokenBucket;
///
/// // 8 Mbit/s, 10,000 bytes: ten of a hundred packets of 1000 bytes at once, then one each ms.
/// let mut bucket = TokenBucket::new(8_000_000, 10_000, 0)?;
/// assert_eq!((0..100).filter(|_| bucket.take(0, 1000)).count(), 10);
/// assert!((1..=100).all(|ms| bucket.take(ms * 1_000_000, 1000)));
/// # Ok::<(), slipring_model::ParameterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TokenBucket {
    bps: u64,
    burst: u128,
    tokens: u128,
    filled_ns: u64,
}

impl TokenBucket {
    /// Creates a bucket that is full at `now_ns`. With `bps` = 0 it never refills.
    ///
    /// # Errors
    /// [`ParameterError`] if `burst_bytes` is zero: nothing could ever pass.
    pub fn new(bps: u64, burst_bytes: u64, now_ns: u64) -> Result<Self, ParameterError> {
        let at_least = "at least 1 byte";
        ParameterError::unless(burst_bytes > 0, "burst_bytes", at_least, burst_bytes as f64)?;
        let burst = u128::from(burst_bytes) * TOKENS_PER_BYTE;
        Ok(Self { bps, burst, tokens: burst, filled_ns: now_ns })
    }

    /// Takes the tokens for `bytes` and returns true if there are enough tokens. Otherwise takes
    /// none and returns false.
    #[inline]
    pub fn take(&mut self, now_ns: u64, bytes: u32) -> bool {
        self.fill(now_ns);
        self.spend(cost(bytes))
    }

    /// The number of whole bytes that could be taken at `now_ns`.
    #[must_use]
    pub fn available_bytes(&self, now_ns: u64) -> u64 {
        (self.tokens_at(now_ns) / TOKENS_PER_BYTE) as u64
    }

    /// The time at which `bytes` can be taken if no other tokens are taken before: `now_ns` or
    /// later, rounded up to whole ns. `None` if that never happens, because the burst is too small
    /// or the rate is zero, or if the time exceeds 64 bits.
    #[must_use]
    pub fn ready_ns(&self, now_ns: u64, bytes: u32) -> Option<u64> {
        let now_ns = now_ns.max(self.filled_ns);
        let missing = cost(bytes).saturating_sub(self.tokens_at(now_ns));
        if missing == 0 {
            return Some(now_ns);
        }
        if self.bps == 0 || cost(bytes) > self.burst {
            return None;
        }
        let wait_ns = u64::try_from(missing.div_ceil(u128::from(self.bps))).ok()?;
        now_ns.checked_add(wait_ns)
    }

    /// Changes rate and burst at `now_ns`; keeps the tokens, at most the new burst.
    ///
    /// # Errors
    /// Same as [`Self::new`]; the bucket is then unchanged.
    pub fn retune(
        &mut self,
        now_ns: u64,
        bps: u64,
        burst_bytes: u64,
    ) -> Result<(), ParameterError> {
        let Self { burst, .. } = Self::new(bps, burst_bytes, now_ns)?;
        self.fill(now_ns);
        *self = Self { bps, burst, tokens: self.tokens.min(burst), ..*self };
        Ok(())
    }

    #[inline]
    fn fill(&mut self, now_ns: u64) {
        self.tokens = self.tokens_at(now_ns);
        self.filled_ns = self.filled_ns.max(now_ns);
    }

    #[inline]
    fn tokens_at(&self, now_ns: u64) -> u128 {
        let gained = u128::from(now_ns.saturating_sub(self.filled_ns)) * u128::from(self.bps);
        self.tokens.saturating_add(gained).min(self.burst)
    }

    #[inline]
    fn spend(&mut self, cost: u128) -> bool {
        match self.tokens.checked_sub(cost) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}

#[inline]
fn cost(bytes: u32) -> u128 {
    u128::from(bytes) * TOKENS_PER_BYTE
}

#[cfg(test)]
mod tests;
