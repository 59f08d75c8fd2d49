//! RED: random early detection (Floyd and Jacobson, 1993), with the gentle variant.
//!
//! ```text
//!   drop          1 +                         ______ hard
//!   probability     |                    gentle /
//!             max_p +              ____.---'
//!                   |         __--'
//!                 0 +--------'-----+---------+-------- average queue
//!                           min   max      2 max
//! ```
//!
//! The average is exponentially weighted and is updated when packets arrive. Time with an empty
//! queue counts as the packets that the link could have sent in this time, if
//! [`RedSpec::idle_packet_ns`] is not 0. Drops and marks ("hits") are spread: the probability of a
//! hit grows with the number of packets since the last hit, so that the distance between two hits
//! is uniformly instead of geometrically distributed.

use super::packet::{Aqm, AqmArrival, AqmDeparture, AqmQueueView, AqmVerdict};
use super::param;
use crate::{ParameterError, Stream};

/// The unit in which [`Red`] measures queue lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RedUnit {
    /// The number of packets.
    Packets,
    /// The number of bytes.
    Bytes,
}

/// Parameters of [`Red`]. Thresholds are in the unit that `unit` selects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSpec {
    /// The unit of the thresholds and the average; default packets.
    pub unit: RedUnit,
    /// Average queue length above which packets may be dropped or marked; default 5.
    pub min: f64,
    /// Average queue length at which the probability is `max_p`; default 15.
    pub max: f64,
    /// Probability of a hit at `max`; default 0.1.
    pub max_p: f64,
    /// Weight of the newest queue length in the average; default 0.002.
    pub weight: f64,
    /// Gentle RED: between `max` and twice `max` the probability grows from `max_p` to 1, instead
    /// of jumping to 1 at `max`; default true.
    pub gentle: bool,
    /// Whether to keep at least 1/p packets between two hits, as ns-2 does; default false.
    pub wait: bool,
    /// Whether to mark ECN-capable packets instead of dropping them; default false.
    pub ecn: bool,
    /// Whether to drop ECN-capable packets, too, while the average is so great that every packet is
    /// hit (RFC 3168, section 7); default true.
    pub hard_drop: bool,
    /// Byte mode: whether to multiply the probability by packet length / `mean_len`; default false.
    pub by_length: bool,
    /// Usual length of a packet in bytes; default 500. Used only with `by_length`.
    pub mean_len: u32,
    /// Transmission time of a typical packet in ns. While the queue is empty, the average decays
    /// once per this time. With 0, which is the default, a packet that arrives at an empty queue
    /// sets the average to 0.
    pub idle_packet_ns: u64,
}

impl Default for RedSpec {
    fn default() -> Self {
        Self {
            unit: RedUnit::Packets,
            min: 5.0,
            max: 15.0,
            max_p: 0.1,
            weight: 0.002,
            gentle: true,
            wait: false,
            ecn: false,
            hard_drop: true,
            by_length: false,
            mean_len: 500,
            idle_packet_ns: 0,
        }
    }
}

impl RedSpec {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`ParameterError`] names the first parameter that is out of range.
    pub fn validate(&self) -> Result<(), ParameterError> {
        let Self { min, max, .. } = *self;
        param::check((0.0..MAX_THRESHOLD).contains(&min), "min", min, "from 0 to 10^15")?;
        let above = max > min && max <= MAX_THRESHOLD;
        param::check(above, "max", max, "above min, and at most 10^15")?;
        param::share("max_p", self.max_p)?;
        param::share("weight", self.weight)?;
        let mean_len = self.mean_len;
        param::check(mean_len > 0, "mean_len", f64::from(mean_len), "at least 1 byte")
    }
}

/// Upper limit of thresholds: far above any queue length, and an integer that `f64` represents
/// exactly.
const MAX_THRESHOLD: f64 = 1e15;

/// The state of RED for one queue.
#[derive(Clone, Debug)]
pub struct Red {
    spec: RedSpec,
    average: f64,
    /// Number of packets kept since the last hit, or since the average was last below `min` if that
    /// is later.
    since_hit: u64,
    /// Time in ns from which the next decay counts: when the queue became empty, or when the last
    /// packet arrived at the empty queue.
    idle_since_ns: u64,
}

impl Red {
    /// Creates the state for an empty queue.
    ///
    /// # Errors
    /// [`ParameterError`] if `spec` is out of range.
    pub fn new(spec: &RedSpec) -> Result<Self, ParameterError> {
        spec.validate()?;
        Ok(Self { spec: *spec, average: 0.0, since_hit: 0, idle_since_ns: 0 })
    }

    /// Changes the parameters; keeps the number of packets since the last hit, and the average if
    /// its unit stays the same. With another unit, the average becomes 0.
    ///
    /// # Errors
    /// [`ParameterError`] if `spec` is out of range; nothing changes then.
    pub fn retune(&mut self, spec: &RedSpec) -> Result<(), ParameterError> {
        spec.validate()?;
        if spec.unit != self.spec.unit {
            self.average = 0.0;
        }
        self.spec = *spec;
        Ok(())
    }

    /// Returns the parameters in force: those of `new`, or of the last successful `retune`.
    #[must_use]
    pub const fn spec(&self) -> &RedSpec {
        &self.spec
    }

    /// Returns the average queue length, in units of [`RedSpec::unit`].
    #[must_use]
    pub const fn average(&self) -> f64 {
        self.average
    }

    fn update_average(&mut self, now_ns: u64, queue: &AqmQueueView) {
        if queue.packets == 0 {
            self.decay(now_ns.saturating_sub(self.idle_since_ns));
            self.idle_since_ns = now_ns;
            return;
        }
        let length = match self.spec.unit {
            RedUnit::Packets => queue.packets,
            RedUnit::Bytes => queue.bytes,
        };
        self.average += self.spec.weight * (length as f64 - self.average);
    }

    /// Lets the average decay as if a packet had arrived at an empty queue every `idle_packet_ns`
    /// during the idle time. If `idle_packet_ns` is 0, sets the average to 0.
    fn decay(&mut self, idle_ns: u64) {
        self.average *= match self.spec.idle_packet_ns {
            0 => 0.0,
            packet_ns => libm::pow(1.0 - self.spec.weight, idle_ns as f64 / packet_ns as f64),
        };
    }

    /// Returns the probability of a hit before [`Self::spread`] adjusts it; `None` if the average
    /// is so great that every packet is hit.
    fn base_probability(&self, len: u32) -> Option<f64> {
        let RedSpec { min, max, max_p, .. } = self.spec;
        let p = if self.average < max {
            max_p * (self.average - min) / (max - min)
        } else if self.spec.gentle && self.average < 2.0 * max {
            max_p + (1.0 - max_p) * (self.average - max) / max
        } else {
            return None;
        };
        let scale = f64::from(len) / f64::from(self.spec.mean_len);
        Some(if self.spec.by_length { (p * scale).min(1.0) } else { p })
    }

    /// Returns the probability `p` of a hit, adjusted for the number of packets since the last hit.
    fn spread(&self, p: f64) -> f64 {
        let expected = self.since_hit as f64 * p;
        let spread = match (self.spec.wait, expected) {
            (true, ..1.0) => 0.0,
            (true, ..2.0) => p / (2.0 - expected),
            (false, ..1.0) => p / (1.0 - expected),
            _ => 1.0,
        };
        spread.min(1.0)
    }

    fn mark_or_drop(&mut self, may_mark: bool, ecn_capable: impl FnOnce() -> bool) -> AqmVerdict {
        self.since_hit = 0;
        if may_mark && self.spec.ecn && ecn_capable() { AqmVerdict::Mark } else { AqmVerdict::Drop }
    }
}

impl Aqm for Red {
    fn admit(
        &mut self,
        packet: &AqmArrival,
        ecn_capable: impl FnOnce() -> bool,
        random: &mut Stream,
    ) -> AqmVerdict {
        self.update_average(packet.now_ns, &packet.queue);
        if self.average < self.spec.min {
            self.since_hit = 0;
            return AqmVerdict::Keep;
        }
        let Some(p) = self.base_probability(packet.len) else {
            return self.mark_or_drop(!self.spec.hard_drop, ecn_capable);
        };
        if random.next_f64() < self.spread(p) {
            return self.mark_or_drop(true, ecn_capable);
        }
        self.since_hit += 1;
        AqmVerdict::Keep
    }

    /// Keeps every packet, and records when the queue became empty.
    #[inline]
    fn dequeue(&mut self, packet: &AqmDeparture, _: impl FnOnce() -> bool) -> AqmVerdict {
        if packet.queue.packets == 0 {
            self.idle_since_ns = packet.now_ns;
        }
        AqmVerdict::Keep
    }
}

#[cfg(test)]
mod tests;
