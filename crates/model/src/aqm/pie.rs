//! PIE: keeps the queueing delay at a target by dropping packets with a probability (RFC 8033).
//!
//! A proportional integral controller updates the probability every period from the current delay
//! and its change. The gains are lower at small probabilities, for stability, and higher at large
//! probabilities, for fast reactions. Bursts pass: no packet is dropped while the burst allowance
//! lasts.
//!
//! ```text
//!   p += tune(p) * (alpha * (delay - target) + beta * (delay - last delay))       each period
//! ```
//!
//! Updates that became due between two calls are performed at the next call. No packet enters or
//! leaves between the two calls, so these updates see the queue as a timer would have seen it.
//! (With [`DelaySource::View`], only arrivals perform updates, and the delay before them is
//! estimated.) If an update has no effect, the updates after it are skipped.
//!
//! # Invariants
//! 1. `0 <= probability <= 1`.
//! 2. After an arrival, each update that was due has been performed once, or was skipped because it
//!    would have had no effect.

use super::packet::{Aqm, AqmArrival, AqmDeparture, AqmQueueView, AqmVerdict, seconds_between};
use super::param;
use crate::{ParameterError, Stream};

/// How [`Pie`] determines the queueing delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DelaySource {
    /// Queue length divided by a departure rate, which is measured while the queue is long enough
    /// (RFC 8033, section 4.3).
    DepartureRate,
    /// Sojourn time of the packet that left last.
    Timestamps,
    /// [`AqmQueueView::delay_ns`] at arrivals, for a queue whose owner knows the delay. Between
    /// arrivals the queue is assumed to drain in real time.
    View,
}

/// Parameters of [`Pie`]. The default times, gains and `max_ecn_p` are those of RFC 8033.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieSpec {
    /// The delay to hold, in ns; default 15 ms.
    pub target_ns: u64,
    /// The update period in ns; default 15 ms.
    pub update_ns: u64,
    /// Gain on the distance from the target, per second of delay; default 0.125.
    pub alpha: f64,
    /// Gain on the change of the delay, per second of delay; default 1.25.
    pub beta: f64,
    /// Duration, in ns, for which no packet is dropped after a burst starts in an empty queue;
    /// default 150 ms.
    pub max_burst_ns: u64,
    /// Whether to mark ECN-capable packets instead of dropping them; default false.
    pub ecn: bool,
    /// Probability from which on ECN-capable packets are dropped as well; default 0.1.
    pub max_ecn_p: f64,
    /// Whether to limit each increase of the probability to 0.02 per period while the probability
    /// is at least 0.1 (section 5.5); default true.
    pub cap: bool,
    /// Whether to avoid random clusters of drops, and long gaps between them (section 5.4); default
    /// true.
    pub derandomize: bool,
    /// The source of the delay; the default is the departure rate.
    pub delay_from: DelaySource,
    /// Typical length of a packet in bytes; default 1000. No packet is dropped from a queue of at
    /// most two packets of this length.
    pub mean_len: u32,
    /// Number of queued bytes at which PIE becomes active. It becomes inactive again once delay and
    /// probability are zero (section 5.3). Default 0: PIE is always active.
    pub wake_bytes: u64,
}

impl Default for PieSpec {
    fn default() -> Self {
        Self {
            target_ns: 15_000_000,
            update_ns: 15_000_000,
            alpha: 0.125,
            beta: 1.25,
            max_burst_ns: 150_000_000,
            ecn: false,
            max_ecn_p: 0.1,
            cap: true,
            derandomize: true,
            delay_from: DelaySource::DepartureRate,
            mean_len: 1000,
            wake_bytes: 0,
        }
    }
}

impl PieSpec {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`ParameterError`] names the first parameter that is out of range.
    pub fn validate(&self) -> Result<(), ParameterError> {
        param::time("target_ns", self.target_ns)?;
        param::time("update_ns", self.update_ns)?;
        param::gain("alpha", self.alpha)?;
        param::gain("beta", self.beta)?;
        param::time_or_zero("max_burst_ns", self.max_burst_ns)?;
        param::share_or_zero("max_ecn_p", self.max_ecn_p)
    }
}

/// Bytes over which a departure rate is measured (RFC 8033, section 5.2). The weight of a
/// measurement in the average is this number / 2^16.
const RATE_BYTES: u64 = 1 << 14;
const RATE_WEIGHT: f64 = 0.25;
/// If the probability is below this value, packets are kept while the delay is short (RFC 8033,
/// section 4.1).
const SAFE_P: f64 = 0.2;

/// The state of PIE for one queue.
#[derive(Clone, Debug)]
pub struct Pie {
    spec: PieSpec,
    awake: bool,
    /// Time of the next update in ns; `None` before the first packet.
    next_update_ns: Option<u64>,
    p: f64,
    /// Sum of the probabilities since the last drop or mark.
    accumulated_p: f64,
    old_delay_ns: u64,
    burst_left_ns: u64,
    last_sojourn_ns: u64,
    /// The delay reported at the last arrival, and the time of this arrival, both in ns.
    last_view: (u64, u64),
    rate: RateMeter,
}

impl Pie {
    /// Creates the state for an empty queue.
    ///
    /// # Errors
    /// [`ParameterError`] if `spec` is out of range.
    pub fn new(spec: &PieSpec) -> Result<Self, ParameterError> {
        spec.validate()?;
        Ok(Self { awake: spec.wake_bytes == 0, ..Self::idle(*spec) })
    }

    /// Creates the state for an empty queue, with PIE active.
    fn idle(spec: PieSpec) -> Self {
        Self {
            spec,
            awake: true,
            next_update_ns: None,
            p: 0.0,
            accumulated_p: 0.0,
            old_delay_ns: 0,
            burst_left_ns: spec.max_burst_ns,
            last_sojourn_ns: 0,
            last_view: (0, 0),
            rate: RateMeter::default(),
        }
    }

    /// Changes the parameters and keeps the state.
    ///
    /// # Errors
    /// [`ParameterError`] if `spec` is out of range; nothing changes then.
    pub fn retune(&mut self, spec: &PieSpec) -> Result<(), ParameterError> {
        spec.validate()?;
        self.awake |= spec.wake_bytes == 0;
        self.burst_left_ns = self.burst_left_ns.min(spec.max_burst_ns);
        self.spec = *spec;
        Ok(())
    }

    /// Returns the parameters in force: those of `new`, or of the last successful `retune`.
    #[must_use]
    pub const fn spec(&self) -> &PieSpec {
        &self.spec
    }

    /// The drop probability, 0 to 1.
    #[must_use]
    pub const fn probability(&self) -> f64 {
        self.p
    }

    /// Performs the updates that are due by `now_ns`, with the queue's contents as in `queue`.
    #[inline]
    fn catch_up(&mut self, now_ns: u64, queue: &AqmQueueView) {
        let first_ns = now_ns.saturating_add(self.spec.update_ns);
        let due_ns = *self.next_update_ns.get_or_insert(first_ns);
        if now_ns >= due_ns {
            self.make_updates(due_ns, now_ns, queue);
        }
    }

    #[cold]
    fn make_updates(&mut self, due_ns: u64, now_ns: u64, queue: &AqmQueueView) {
        let period_ns = self.spec.update_ns;
        let updates = (now_ns - due_ns) / period_ns + 1;
        self.next_update_ns = Some(due_ns.saturating_add(updates.saturating_mul(period_ns)));
        for n in 0..updates {
            let before = (self.p, self.burst_left_ns, self.awake, self.old_delay_ns);
            self.update(self.delay_ns(queue, now_ns, due_ns + n * period_ns));
            let after = (self.p, self.burst_left_ns, self.awake, self.old_delay_ns);
            // If an update changes nothing, later updates change nothing either: the delay is
            // constant, or the queue has drained and its delay stays zero.
            if before == after {
                return;
            }
        }
    }

    /// The delay in ns at `at_ns`, estimated from the queue and delay known at `now_ns`.
    fn delay_ns(&self, queue: &AqmQueueView, now_ns: u64, at_ns: u64) -> u64 {
        match self.spec.delay_from {
            DelaySource::DepartureRate => self.rate.delay_ns(queue.bytes),
            DelaySource::Timestamps if queue.packets == 0 => 0,
            DelaySource::Timestamps => self.last_sojourn_ns,
            DelaySource::View if queue.delay_ns > 0 => {
                queue.delay_ns.saturating_add(now_ns.saturating_sub(at_ns))
            }
            DelaySource::View => {
                let (told_ns, told_at_ns) = self.last_view;
                told_ns.saturating_sub(at_ns.saturating_sub(told_at_ns))
            }
        }
    }

    /// Performs one update of the probability (RFC 8033, section 4.2).
    fn update(&mut self, delay_ns: u64) {
        if !self.awake {
            return;
        }
        self.p = (self.p + self.step(delay_ns)).clamp(0.0, 1.0);
        if delay_ns == 0 && self.old_delay_ns == 0 {
            self.p *= 0.98;
            // The RFC does not say when a decaying probability becomes zero, because that depends
            // on the number format. Here it becomes zero below [`SMALLEST_P`].
            if self.p < SMALLEST_P {
                self.p = 0.0;
            }
        }
        self.burst_left_ns = self.burst_left_ns.saturating_sub(self.spec.update_ns);
        let calm_ns = self.spec.target_ns / 2;
        if self.p == 0.0 && delay_ns < calm_ns && self.old_delay_ns < calm_ns {
            self.burst_left_ns = self.spec.max_burst_ns;
        }
        if self.spec.wake_bytes > 0 && self.p == 0.0 && delay_ns == 0 && self.old_delay_ns == 0 {
            self.awake = false;
        }
        self.old_delay_ns = delay_ns;
    }

    /// Returns the amount that an update adds to the probability, which may be negative.
    fn step(&self, delay_ns: u64) -> f64 {
        let step = self.spec.alpha * seconds_between(self.spec.target_ns, delay_ns)
            + self.spec.beta * seconds_between(self.old_delay_ns, delay_ns);
        let step = step * tuning(self.p);
        if self.spec.cap && self.p >= 0.1 { step.min(0.02) } else { step }
    }

    /// Returns whether to drop or mark an arriving packet (RFC 8033, sections 4.1 and 5.4).
    fn is_hit(&mut self, packet: &AqmArrival, random: &mut Stream) -> bool {
        let calm = self.old_delay_ns < self.spec.target_ns / 2 && self.p < SAFE_P;
        let short = packet.queue.bytes <= 2 * u64::from(self.spec.mean_len);
        if self.burst_left_ns > 0 || calm || short {
            return false;
        }
        if !self.spec.derandomize {
            return random.next_f64() < self.p;
        }
        self.accumulated_p = if self.p == 0.0 { 0.0 } else { self.accumulated_p + self.p };
        let hit = match self.accumulated_p {
            ..0.85 => false,
            8.5.. => true,
            _ => random.next_f64() < self.p,
        };
        if hit {
            self.accumulated_p = 0.0;
        }
        hit
    }
}

impl Aqm for Pie {
    fn admit(
        &mut self,
        packet: &AqmArrival,
        ecn_capable: impl FnOnce() -> bool,
        random: &mut Stream,
    ) -> AqmVerdict {
        self.catch_up(packet.now_ns, &packet.queue);
        self.last_view = (packet.queue.delay_ns, packet.now_ns);
        if !self.awake {
            if packet.queue.bytes < self.spec.wake_bytes {
                return AqmVerdict::Keep;
            }
            let next_update_ns = Some(packet.now_ns.saturating_add(self.spec.update_ns));
            *self = Self { next_update_ns, ..Self::idle(self.spec) };
        }
        if !self.is_hit(packet, random) {
            return AqmVerdict::Keep;
        }
        let mark = self.spec.ecn && self.p < self.spec.max_ecn_p && ecn_capable();
        if mark { AqmVerdict::Mark } else { AqmVerdict::Drop }
    }

    /// Keeps every packet. Unless the queue's owner reports the delay, performs the updates that
    /// are due and measures the delay.
    #[inline]
    fn dequeue(&mut self, packet: &AqmDeparture, _: impl FnOnce() -> bool) -> AqmVerdict {
        if self.spec.delay_from == DelaySource::View {
            return AqmVerdict::Keep;
        }
        let before = AqmQueueView {
            bytes: packet.queue.bytes + u64::from(packet.len),
            packets: packet.queue.packets + 1,
            ..packet.queue
        };
        self.catch_up(packet.now_ns, &before);
        self.last_sojourn_ns = packet.sojourn_ns;
        if self.spec.delay_from == DelaySource::DepartureRate {
            self.rate.departed(packet);
        }
        AqmVerdict::Keep
    }
}

/// A decaying probability becomes zero below this value. It is the smallest step of a 32-bit
/// fraction.
const SMALLEST_P: f64 = 1.0 / (1u64 << 32) as f64;

/// Returns the factor for the gains at probability `p` (RFC 8033, section 4.2).
fn tuning(p: f64) -> f64 {
    match p {
        ..0.000_001 => 1.0 / 2048.0,
        ..0.000_01 => 1.0 / 512.0,
        ..0.000_1 => 1.0 / 128.0,
        ..0.001 => 1.0 / 32.0,
        ..0.01 => 1.0 / 8.0,
        ..0.1 => 1.0 / 2.0,
        _ => 1.0,
    }
}

/// Measures how fast a queue drains, but only while the queue is long (RFC 8033, section 5.2).
///
/// The packet whose departure starts a measurement is not counted, because its bytes left before
/// the measured time.
#[derive(Clone, Debug, Default)]
struct RateMeter {
    /// Start of the measurement in ns, and the bytes that have left since then; `None` while no
    /// measurement is running.
    running: Option<(u64, u64)>,
    /// Average time in ns in which [`RATE_BYTES`] leave; zero before the first measurement.
    average_ns: f64,
}

impl RateMeter {
    #[inline]
    fn departed(&mut self, packet: &AqmDeparture) {
        if let Some((since_ns, bytes)) = &mut self.running {
            *bytes += u64::from(packet.len);
            if *bytes < RATE_BYTES {
                return;
            }
            let took_ns = packet.now_ns.saturating_sub(*since_ns) as f64;
            let sample_ns = took_ns * RATE_BYTES as f64 / *bytes as f64;
            self.running = None;
            self.average_ns = match self.average_ns {
                0.0 => sample_ns,
                average_ns => average_ns + RATE_WEIGHT * (sample_ns - average_ns),
            };
        }
        if packet.queue.bytes >= RATE_BYTES {
            self.running = Some((packet.now_ns, 0));
        }
    }

    fn delay_ns(&self, queued_bytes: u64) -> u64 {
        (queued_bytes as f64 * self.average_ns / RATE_BYTES as f64) as u64
    }
}

#[cfg(test)]
mod tests;
