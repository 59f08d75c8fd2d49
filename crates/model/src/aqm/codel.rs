//! CoDel: controls the time that packets spend in a queue (RFC 8289).
//!
//! If every packet of an interval waited longer than the target, CoDel drops one packet. It drops
//! further packets at decreasing intervals, interval / sqrt(count), until a packet waits less than
//! the target.
//!
//! ```text
//!   sojourn > target since   t0        t0+I        +I/√1       +I/√2    +I/√3
//!                            |----------|-----------|-----------|--------|-->
//!                            keep       drop 1      drop 2      drop 3   drop 4
//! ```
//!
//! The RFC drops packets in a loop within one call. Here each call handles one packet: after a
//! drop, the caller passes the next packet of the queue. The states are the same.
//!
//! # Invariants
//! 1. `count >= 1` while `dropping`.
//! 2. A packet is never dropped if at most one MTU is queued after it, so the last packet never is.

use super::packet::{Aqm, AqmArrival, AqmDeparture, AqmVerdict};
use super::param;
use crate::{ParameterError, Stream};

/// Parameters of [`CoDel`]. The default target and interval are those of RFC 8289, section 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelSpec {
    /// Acceptable standing delay in ns; default 5 ms.
    pub target_ns: u64,
    /// How long the delay must stay above the target before CoDel acts, in ns; default 100 ms. It
    /// should be about the longest round trip of the flows.
    pub interval_ns: u64,
    /// CoDel does not act on a queue of at most this many bytes; default 1514. It should be the
    /// size of the largest packet.
    pub mtu: u32,
    /// Whether to mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// ECN-capable packets that waited longer than this time in ns are marked even if CoDel does
    /// not act on them; `None` for no such time.
    pub ce_threshold_ns: Option<u64>,
}

impl Default for CoDelSpec {
    fn default() -> Self {
        Self {
            target_ns: 5_000_000,
            interval_ns: 100_000_000,
            mtu: 1514,
            ecn: false,
            ce_threshold_ns: None,
        }
    }
}

impl CoDelSpec {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`ParameterError`] names the first parameter that is out of range.
    pub fn validate(&self) -> Result<(), ParameterError> {
        param::time("interval_ns", self.interval_ns)?;
        let ok = (1..=self.interval_ns).contains(&self.target_ns);
        param::check(ok, "target_ns", self.target_ns as f64, "from 1 ns to the interval")
    }
}

/// The state of CoDel for one queue.
#[derive(Clone, Debug)]
pub struct CoDel {
    spec: CoDelSpec,
    /// Time at which the sojourn time will have been above the target for a whole interval, in ns;
    /// `None` while the sojourn time is below the target or the queue is short.
    first_above_ns: Option<u64>,
    drop_next_ns: u64,
    /// The interval between drops is divided by the square root of this count, which each drop or
    /// mark in this drop state increments.
    count: u32,
    /// The value of `count` at the start of this drop state.
    last_count: u32,
    dropping: bool,
    /// Whether the previous packet was dropped, but not as the first one of its drop state. If so,
    /// and if the next packet is late too, `drop_next_ns` is advanced before the decision about the
    /// next packet.
    reschedule: bool,
}

impl CoDel {
    /// Creates the state for an empty queue.
    ///
    /// # Errors
    /// [`ParameterError`] if `spec` is out of range.
    pub fn new(spec: &CoDelSpec) -> Result<Self, ParameterError> {
        spec.validate()?;
        Ok(Self {
            spec: *spec,
            first_above_ns: None,
            drop_next_ns: 0,
            count: 0,
            last_count: 0,
            dropping: false,
            reschedule: false,
        })
    }

    /// Changes the parameters and keeps the state.
    ///
    /// # Errors
    /// [`ParameterError`] if `spec` is out of range; nothing changes then.
    pub fn retune(&mut self, spec: &CoDelSpec) -> Result<(), ParameterError> {
        spec.validate()?;
        self.spec = *spec;
        Ok(())
    }

    /// Returns the parameters in force: those of `new`, or of the last successful `retune`.
    #[must_use]
    pub const fn spec(&self) -> &CoDelSpec {
        &self.spec
    }

    /// Returns the count of the control law: the time between drops is the configured interval
    /// divided by the square root of the count. `None` outside the drop state.
    #[must_use]
    pub fn drop_count(&self) -> Option<u32> {
        self.dropping.then_some(self.count)
    }

    /// Returns whether sojourn times have been above the target for a whole interval: `ok_to_drop`
    /// of the RFC.
    #[inline]
    fn ok_to_drop(&mut self, packet: &AqmDeparture) -> bool {
        if packet.sojourn_ns < self.spec.target_ns || packet.queue.bytes <= u64::from(self.spec.mtu)
        {
            self.first_above_ns = None;
            return false;
        }
        match self.first_above_ns {
            Some(first_above_ns) => packet.now_ns >= first_above_ns,
            None => {
                self.first_above_ns = Some(packet.now_ns.saturating_add(self.spec.interval_ns));
                false
            }
        }
    }

    /// Returns whether it is time to mark or drop a late packet.
    #[cold]
    fn is_due(&mut self, now_ns: u64) -> bool {
        if core::mem::take(&mut self.reschedule) {
            self.drop_next_ns = self.control_law(self.drop_next_ns);
        }
        !self.dropping || now_ns >= self.drop_next_ns
    }

    /// Marks or drops the packet, and schedules the next mark or drop.
    #[cold]
    fn mark_or_drop(&mut self, now_ns: u64, ecn_capable: impl FnOnce() -> bool) -> AqmVerdict {
        let mark = self.spec.ecn && ecn_capable();
        if !self.dropping {
            self.enter(now_ns);
        } else {
            self.count = self.count.saturating_add(1);
            // After a drop, the RFC examines the next packet before it schedules the next drop.
            self.reschedule = !mark;
            if mark {
                self.drop_next_ns = self.control_law(self.drop_next_ns);
            }
        }
        if mark { AqmVerdict::Mark } else { AqmVerdict::Drop }
    }

    /// Enters the drop state. If the previous drop state ended recently, `count` starts with what
    /// that state added to it, otherwise with 1.
    fn enter(&mut self, now_ns: u64) {
        let grown = self.count.saturating_sub(self.last_count);
        let recent = now_ns.saturating_sub(self.drop_next_ns) < 16 * self.spec.interval_ns;
        self.count = if grown > 1 && recent { grown } else { 1 };
        self.last_count = self.count;
        self.dropping = true;
        self.drop_next_ns = self.control_law(now_ns);
    }

    /// The control law: the time of the next drop after a drop at `from_ns`, in ns.
    fn control_law(&self, from_ns: u64) -> u64 {
        from_ns.saturating_add(interval_over_sqrt(self.spec.interval_ns, self.count))
    }
}

/// Returns `interval / sqrt(count)`, rounded down to whole ns. The result is exact, because
/// floor(sqrt(x)) = isqrt(floor(x)) for real x.
fn interval_over_sqrt(interval_ns: u64, count: u32) -> u64 {
    match interval_ns.checked_mul(interval_ns) {
        Some(square) => (square / u64::from(count)).isqrt(),
        None => {
            let square = u128::from(interval_ns) * u128::from(interval_ns);
            (square / u128::from(count)).isqrt() as u64
        }
    }
}

impl Aqm for CoDel {
    /// Admits all packets: CoDel acts when packets leave.
    #[inline]
    fn admit(&mut self, _: &AqmArrival, _: impl FnOnce() -> bool, _: &mut Stream) -> AqmVerdict {
        AqmVerdict::Keep
    }

    #[inline]
    fn dequeue(&mut self, packet: &AqmDeparture, ecn_capable: impl FnOnce() -> bool) -> AqmVerdict {
        if !self.ok_to_drop(packet) {
            self.dropping = false;
            self.reschedule = false;
        } else if self.is_due(packet.now_ns) {
            return self.mark_or_drop(packet.now_ns, ecn_capable);
        }
        match self.spec.ce_threshold_ns {
            Some(limit_ns) if packet.sojourn_ns > limit_ns && ecn_capable() => AqmVerdict::Mark,
            _ => AqmVerdict::Keep,
        }
    }
}

#[cfg(test)]
mod tests;
