//! Storm limits: how much traffic from a port the switch floods.

use slipring_model::bucket::TokenBucket;

use crate::config::SwitchConfigError;
use crate::flood::FloodClass;

/// A limit of a class of flooded frames: a rate and a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StormLimit {
    /// A limit in frames.
    Packets {
        /// Rate in frames per second.
        per_sec: u64,
        /// The maximum burst in frames.
        burst: u64,
    },
    /// A limit in bits.
    Bits {
        /// Rate in bits per second.
        per_sec: u64,
        /// The maximum burst in bytes. A frame longer than this never passes.
        burst_bytes: u64,
    },
}

/// A port's limits, one per class of flooded frames; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StormLimits {
    /// The limit of broadcasts.
    pub broadcast: Option<StormLimit>,
    /// The limit of multicasts, without broadcasts.
    pub multicast: Option<StormLimit>,
    /// The limit of frames to unknown addresses, and of frames that a lookup floods.
    pub unknown: Option<StormLimit>,
}

/// The token buckets of a port, one per class with a limit.
#[derive(Debug, Clone, Default)]
pub(crate) struct StormControl {
    buckets: [Option<StormBucket>; 3],
}

#[derive(Debug, Clone)]
struct StormBucket {
    limit: StormLimit,
    tokens: TokenBucket,
}

impl StormControl {
    pub(crate) fn new(limits: &StormLimits) -> Result<Self, SwitchConfigError> {
        let make = |limit: Option<StormLimit>| limit.map(StormBucket::new).transpose();
        let [broadcast, multicast, unknown] = [limits.broadcast, limits.multicast, limits.unknown];
        Ok(Self { buckets: [make(broadcast)?, make(multicast)?, make(unknown)?] })
    }

    /// Takes over the buckets of `before` whose limits are unchanged. So a change of other settings
    /// does not refill them in the middle of a storm.
    pub(crate) fn keep_unchanged(&mut self, before: Self) {
        let limit_of = |bucket: &Option<StormBucket>| bucket.as_ref().map(|bucket| bucket.limit);
        for (bucket, before) in self.buckets.iter_mut().zip(before.buckets) {
            if limit_of(bucket) == limit_of(&before) {
                *bucket = before;
            }
        }
    }

    /// Returns whether a frame may be flooded, and takes its tokens.
    #[inline]
    pub(crate) fn admits(&mut self, class: FloodClass, now_ns: u64, len: u32) -> bool {
        match &mut self.buckets[class as usize] {
            None => true,
            Some(bucket) => bucket.tokens.take(now_ns, bucket.cost(len)),
        }
    }
}

impl StormBucket {
    fn new(limit: StormLimit) -> Result<Self, SwitchConfigError> {
        // A bucket that counts packets charges each packet as one byte, so its rate is eight bits
        // per packet.
        let (bps, burst) = match limit {
            StormLimit::Packets { per_sec, burst } => (per_sec.saturating_mul(8), burst),
            StormLimit::Bits { per_sec, burst_bytes } => (per_sec, burst_bytes),
        };
        let tokens = TokenBucket::new(bps, burst, 0).map_err(|_| SwitchConfigError::Burst)?;
        Ok(Self { limit, tokens })
    }

    /// Returns how many tokens a frame of `len` bytes takes.
    #[inline]
    fn cost(&self, len: u32) -> u32 {
        match self.limit {
            StormLimit::Packets { .. } => 1,
            StormLimit::Bits { .. } => len,
        }
    }
}
