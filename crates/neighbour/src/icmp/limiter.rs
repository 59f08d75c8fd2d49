//! Limits the rate of ICMP errors (RFC 1812, 4.3.2.8; RFC 4443, 2.4 f). There is one token bucket
//! for all destinations together, and one for each destination.

use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_model::Draws;
use slipring_model::bucket::TokenBucket;

/// Number of buckets for destinations. Destinations with equal hashes share a bucket, so memory is
/// bounded and no destination gets more errors than allowed.
const BUCKETS: u64 = 1024;

/// The allowed rates of errors in messages per second, and the bursts in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpLimits {
    /// Rate of errors to all destinations together.
    pub per_second: u32,
    /// Burst of errors to all destinations together.
    pub burst: u32,
    /// Rate of errors to one destination; for IPv6, to one /64 prefix.
    pub destination_per_second: u32,
    /// Burst of errors to one destination.
    pub destination_burst: u32,
}

impl Default for IcmpLimits {
    fn default() -> Self {
        Self { per_second: 1000, burst: 50, destination_per_second: 10, destination_burst: 10 }
    }
}

/// The limit that an error exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IcmpLimit {
    /// The limit of a single destination.
    #[error("too many ICMP errors to one destination")]
    Destination,
    /// The limit of all destinations together.
    #[error("too many ICMP errors")]
    Total,
}

/// Decides by token buckets which ICMP errors may be sent.
///
/// ```
/// use slipring_neighbour::icmp::{IcmpLimit, IcmpLimiter, IcmpLimits};
///
/// let mut limiter = IcmpLimiter::new(IcmpLimits::default(), 7);
/// let host = "10.0.0.9".parse().unwrap();
/// assert_eq!((0..100).filter(|_| limiter.allows(host, 0).is_ok()).count(), 10);
/// assert_eq!(limiter.allows(host, 50_000_000), Err(IcmpLimit::Destination));
/// assert_eq!(limiter.allows(host, 100_000_000), Ok(()));
/// ```
#[derive(Debug, Clone)]
pub struct IcmpLimiter {
    limits: IcmpLimits,
    key: Draws,
    total: Option<TokenBucket>,
    /// The buckets of the destinations. They are allocated at the first call of [`Self::allows`].
    destinations: Vec<Option<TokenBucket>>,
    /// Number of errors that were not sent because of the limits.
    suppressed: u64,
}

impl IcmpLimiter {
    /// Creates a limiter whose buckets are full. The seed determines which destinations share a
    /// bucket.
    #[must_use]
    pub fn new(limits: IcmpLimits, seed: u64) -> Self {
        let key = Draws::new(seed, "neighbour/icmp-limits");
        Self { limits, key, total: None, destinations: Vec::new(), suppressed: 0 }
    }

    /// Sets the limits. If they differ from the present ones, all buckets are full again.
    pub fn set_limits(&mut self, limits: IcmpLimits) {
        if limits != self.limits {
            self.limits = limits;
            self.total = None;
            self.destinations.clear();
        }
    }

    /// Number of errors that were not sent because of the limits.
    #[must_use]
    pub const fn suppressed(&self) -> u64 {
        self.suppressed
    }

    /// Takes a token for an error to `destination`.
    ///
    /// # Errors
    /// The [`IcmpLimit`] that the error exceeds. In this case, no token is taken, and the error is
    /// counted as suppressed.
    pub fn allows(&mut self, destination: IpAddr, now_ns: u64) -> Result<(), IcmpLimit> {
        let taken = self.take(destination, now_ns);
        self.suppressed += u64::from(taken.is_err());
        taken
    }

    fn take(&mut self, destination: IpAddr, now_ns: u64) -> Result<(), IcmpLimit> {
        let limits = self.limits;
        self.destinations.resize(BUCKETS as usize, None);
        let index = bucket_index(self.key, destination);
        let one = &mut self.destinations[index];
        let (rate, burst) = (limits.destination_per_second, limits.destination_burst);
        let one = filled(one, rate, burst, now_ns).ok_or(IcmpLimit::Destination)?;
        if one.available_bytes(now_ns) == 0 {
            return Err(IcmpLimit::Destination);
        }
        let total = filled(&mut self.total, limits.per_second, limits.burst, now_ns);
        if !total.ok_or(IcmpLimit::Total)?.take(now_ns, 1) {
            return Err(IcmpLimit::Total);
        }
        one.take(now_ns, 1);
        Ok(())
    }
}

/// Returns the bucket in `slot`. If there is none, creates a full one. A message costs one byte of
/// tokens. Returns `None` if the burst is 0, because then no message is ever allowed.
fn filled(
    slot: &mut Option<TokenBucket>,
    per_second: u32,
    burst: u32,
    now_ns: u64,
) -> Option<&mut TokenBucket> {
    if slot.is_none() {
        *slot = TokenBucket::new(u64::from(per_second) * 8, burst.into(), now_ns).ok();
    }
    slot.as_mut()
}

fn bucket_index(key: Draws, destination: IpAddr) -> usize {
    let number = match destination {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
    };
    key.below(number, BUCKETS) as usize
}
