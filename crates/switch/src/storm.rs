//! Storm limits: how much flooded traffic a port accepts.

use slipring_model::bucket::TokenBucket;

use crate::config::SwitchConfigError;
use crate::flood::FloodClass;

/// A rate and a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StormLimit {
    /// Frames per second, with a burst in frames.
    Packets {
        /// Frames per second.
        per_sec: u64,
        /// Maximum burst in frames.
        burst: u64,
    },
    /// Bits per second, with a burst in bytes.
    Bits {
        /// Bits per second.
        per_sec: u64,
        /// Maximum burst in bytes; longer frames never pass.
        burst_bytes: u64,
    },
}

/// A port's limits; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StormLimits {
    /// For broadcasts.
    pub broadcast: Option<StormLimit>,
    /// For multicasts other than broadcasts.
    pub multicast: Option<StormLimit>,
    /// For frames to unknown addresses.
    pub unknown: Option<StormLimit>,
}

/// The token buckets of a port.
#[derive(Debug, Clone, Default)]
pub(crate) struct StormControl {
    buckets: [Option<StormBucket>; 3],
}

#[derive(Debug, Clone)]
struct StormBucket {
    tokens: TokenBucket,
    counts_packets: bool,
}

impl StormControl {
    pub(crate) fn new(limits: &StormLimits) -> Result<Self, SwitchConfigError> {
        let make = |limit: Option<StormLimit>| limit.map(StormBucket::new).transpose();
        let [broadcast, multicast, unknown] = [limits.broadcast, limits.multicast, limits.unknown];
        Ok(Self { buckets: [make(broadcast)?, make(multicast)?, make(unknown)?] })
    }

    /// Whether a frame may pass.
    #[inline]
    pub(crate) fn admits(&mut self, class: FloodClass, now_ns: u64, len: u32) -> bool {
        match &mut self.buckets[class as usize] {
            None => true,
            Some(bucket) => bucket.tokens.take(now_ns, if bucket.counts_packets { 1 } else { len }),
        }
    }
}

impl StormBucket {
    fn new(limit: StormLimit) -> Result<Self, SwitchConfigError> {
        // A packet counts as one byte, which is eight bits in the bucket.
        let (bps, burst, counts_packets) = match limit {
            StormLimit::Packets { per_sec, burst } => (per_sec.saturating_mul(8), burst, true),
            StormLimit::Bits { per_sec, burst_bytes } => (per_sec, burst_bytes, false),
        };
        let tokens = TokenBucket::new(bps, burst, 0).map_err(|_| SwitchConfigError::Burst)?;
        Ok(Self { tokens, counts_packets })
    }
}
