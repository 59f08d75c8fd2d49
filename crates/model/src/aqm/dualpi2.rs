//! DualPI2: low latency and classic traffic side by side (RFC 9332, appendix A).
//!
//! L4S packets (ECN field ECT(1) or CE) have a separate queue, which is kept short by early and
//! frequent marking. All other packets share the classic queue. One controller serves both queues:
//! its base probability p' determines the classic drop probability p'^2 and the L4S marking
//! probability k p', so that flows of both kinds get about the same rate.
//!
//! ```text
//!              +--- L --- mark: max(ramp(sojourn), k p') ---+
//!   arrival ---+                                            +--- scheduler --> link
//!              +--- C --- drop or mark: p'^2  --------------+
//!                         p' by PI over the longer delay
//! ```
//!
//! Drops and marks are spread evenly: each queue adds up its probability, and a packet is dropped
//! or marked when the sum reaches one (in the RFC, when it exceeds one). This needs no random
//! numbers.
//!
//! Overload: while p'^2 is at least `max_classic_p`, ECN does not protect packets. The classic
//! queue drops packets that it would otherwise mark, and the L4S queue drops with p'^2 before it
//! marks.
//!
//! # Invariants
//! 1. `0 <= p' <= 1`.
//! 2. An arriving packet that would exceed the limits is dropped, so they hold after each call,
//!    unless a retune lowered them.

use alloc::vec::Vec;

use super::packet::{AqmDropCause, AqmVerdict, DequeuedPacket, QueuedPacket, seconds_between};
use super::param;
use super::slab::{PacketSlab, SlabPacket, SlabQueue};
use crate::ParameterError;

/// How [`DualPi2`] chooses between its queues when both hold packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DualPi2Schedule {
    /// Weighted round robin by bytes: the classic queue has this share of the link, in percent.
    Weighted {
        /// Percentage from 0 (the classic queue sends only what L4S leaves) to 100.
        classic_percent: u32,
    },
    /// Time-shifted FIFO: the packet at the head of the L4S queue goes first, unless the packet at
    /// the head of the classic queue arrived more than `shift_ns` before it.
    TimeShifted {
        /// The head start of L4S packets in ns.
        shift_ns: u64,
    },
}

/// Parameters of [`DualPi2`]. The defaults are those of RFC 9332, appendix A, and those of Linux
/// where the RFC leaves a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Spec {
    /// Target delay of the controller, in ns; default 15 ms.
    pub target_ns: u64,
    /// Update period in ns; default 16 ms.
    pub update_ns: u64,
    /// Integral gain, per second of delay; default 0.16.
    pub alpha: f64,
    /// Proportional gain, per second of delay; default 3.2.
    pub beta: f64,
    /// Coupling: the marking probability of L4S packets is at least `k` times the base probability;
    /// default 2.
    pub k: f64,
    /// Classic probability at which the queues are overloaded; default 0.25.
    pub max_classic_p: f64,
    /// Sojourn time of L4S packets at which marking begins, in ns; default 800 µs.
    pub ramp_start_ns: u64,
    /// Sojourn time over which the marking probability rises from 0 to 1, in ns; 0 makes it a step
    /// at `ramp_start_ns`; default 400 µs.
    pub ramp_ns: u64,
    /// The ramp applies only if the L4S queue, without the packet being judged, holds at least this
    /// many packets; default 1.
    pub ramp_packets: u32,
    /// How to choose between the queues; default 10 % for classic.
    pub schedule: DualPi2Schedule,
    /// Maximum number of packets in both queues; default 10000.
    pub limit_packets: u32,
    /// Maximum number of bytes in both queues; default 15,000,000.
    pub limit_bytes: u64,
}

impl Default for DualPi2Spec {
    fn default() -> Self {
        Self {
            target_ns: 15_000_000,
            update_ns: 16_000_000,
            alpha: 0.16,
            beta: 3.2,
            k: 2.0,
            max_classic_p: 0.25,
            ramp_start_ns: 800_000,
            ramp_ns: 400_000,
            ramp_packets: 1,
            schedule: DualPi2Schedule::Weighted { classic_percent: 10 },
            limit_packets: 10_000,
            limit_bytes: 15_000_000,
        }
    }
}

impl DualPi2Spec {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`ParameterError`] names the first parameter that is out of range.
    pub fn validate(&self) -> Result<(), ParameterError> {
        param::time("target_ns", self.target_ns)?;
        param::time("update_ns", self.update_ns)?;
        param::gain("alpha", self.alpha)?;
        param::gain("beta", self.beta)?;
        param::check((1.0..=1000.0).contains(&self.k), "k", self.k, "from 1 to 1000")?;
        param::share("max_classic_p", self.max_classic_p)?;
        param::time_or_zero("ramp_start_ns", self.ramp_start_ns)?;
        param::time_or_zero("ramp_ns", self.ramp_ns)?;
        param::packets("limit_packets", self.limit_packets)?;
        param::bytes("limit_bytes", self.limit_bytes)?;
        match self.schedule {
            DualPi2Schedule::Weighted { classic_percent: percent } => {
                param::check(percent <= 100, "classic_percent", f64::from(percent), "from 0 to 100")
            }
            DualPi2Schedule::TimeShifted { shift_ns } => param::time_or_zero("shift_ns", shift_ns),
        }
    }
}

/// DualPI2: two queues and one controller.
#[derive(Clone, Debug)]
pub struct DualPi2<H> {
    spec: DualPi2Spec,
    store: PacketSlab<H>,
    l4s: DualPi2Queue,
    classic: DualPi2Queue,
    controller: Pi2Controller,
    /// Hundredths of bytes by which the classic queue has sent less than its share of the link;
    /// negative if it has sent more.
    classic_credit: i64,
}

#[derive(Clone, Debug, Default)]
struct DualPi2Queue {
    queue: SlabQueue,
    /// Sum of the packets' marking probabilities, less 1 for each mark. `drops` is the
    /// corresponding sum for drops; in the classic queue, `drops` covers drops and marks, and
    /// `marks` is not used.
    marks: f64,
    drops: f64,
}

/// The linear controller of the base probability.
#[derive(Clone, Debug, Default)]
struct Pi2Controller {
    /// Time of the next update in ns; `None` before the first packet.
    next_update_ns: Option<u64>,
    base_p: f64,
    old_delay_ns: u64,
}

impl<H> DualPi2<H> {
    /// Makes empty queues.
    ///
    /// # Errors
    /// [`ParameterError`] if `spec` is out of range.
    pub fn new(spec: &DualPi2Spec) -> Result<Self, ParameterError> {
        spec.validate()?;
        Ok(Self {
            spec: *spec,
            store: PacketSlab::new(),
            l4s: DualPi2Queue::default(),
            classic: DualPi2Queue::default(),
            controller: Pi2Controller::default(),
            classic_credit: 0,
        })
    }

    /// Changes the parameters and keeps packets and state.
    ///
    /// # Errors
    /// [`ParameterError`] if `spec` is out of range; nothing changes then.
    pub fn retune(&mut self, spec: &DualPi2Spec) -> Result<(), ParameterError> {
        spec.validate()?;
        self.spec = *spec;
        Ok(())
    }

    /// Returns the parameters in force: those of `new`, or of the last successful `retune`.
    #[must_use]
    pub const fn spec(&self) -> &DualPi2Spec {
        &self.spec
    }

    /// Returns the number of packets in both queues.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.l4s.queue.packets() as u64 + self.classic.queue.packets() as u64
    }

    /// Returns the number of bytes in both queues.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.l4s.queue.bytes() + self.classic.queue.bytes()
    }

    /// The base probability p'.
    #[must_use]
    pub const fn base_probability(&self) -> f64 {
        self.controller.base_p
    }

    /// The probability that a classic packet is dropped or marked: p'^2.
    #[must_use]
    pub fn classic_probability(&self) -> f64 {
        self.controller.base_p * self.controller.base_p
    }

    /// The probability that an L4S packet is marked because of the coupling: k p', at most 1.
    #[must_use]
    pub fn coupled_probability(&self) -> f64 {
        (self.spec.k * self.controller.base_p).min(1.0)
    }

    /// Enqueues `entry` at `now_ns`, or passes it to `lost` if a limit is reached.
    pub fn enqueue(
        &mut self,
        now_ns: u64,
        entry: QueuedPacket<H>,
        lost: &mut impl FnMut(QueuedPacket<H>, AqmDropCause),
    ) {
        self.catch_up(now_ns);
        let is_full = self.packets() >= u64::from(self.spec.limit_packets)
            || self.bytes() + u64::from(entry.len) > self.spec.limit_bytes;
        if is_full {
            return lost(entry, AqmDropCause::Limit);
        }
        let queue = if entry.ecn.is_l4s() { &mut self.l4s } else { &mut self.classic };
        self.store.push(&mut queue.queue, SlabPacket { entry, mark: false });
    }

    /// Dequeues the packet that leaves at `now_ns`; `None` if no packet is left. Packets that are
    /// dropped before it go to `lost`.
    pub fn dequeue(
        &mut self,
        now_ns: u64,
        lost: &mut impl FnMut(QueuedPacket<H>, AqmDropCause),
    ) -> Option<DequeuedPacket<H>> {
        self.catch_up(now_ns);
        loop {
            let is_l4s = self.l4s_is_next()?;
            let queue = if is_l4s { &mut self.l4s } else { &mut self.classic };
            let SlabPacket { entry, .. } = self.store.pop(&mut queue.queue)?;
            let verdict = if is_l4s {
                self.judge_l4s(now_ns.saturating_sub(entry.arrival_ns))
            } else {
                self.judge_classic(entry.ecn.is_capable())
            };
            if verdict == AqmVerdict::Drop {
                lost(entry, AqmDropCause::Aqm);
                continue;
            }
            self.charge(is_l4s, entry.len);
            return Some(DequeuedPacket { entry, mark: verdict == AqmVerdict::Mark });
        }
    }

    /// Empties both queues and returns the packets in order of arrival.
    pub fn drain(&mut self) -> Vec<DequeuedPacket<H>> {
        let mut drained = Vec::with_capacity(self.packets() as usize);
        for queue in [&mut self.l4s, &mut self.classic] {
            while let Some(SlabPacket { entry, mark }) = self.store.pop(&mut queue.queue) {
                drained.push(DequeuedPacket { entry, mark });
            }
        }
        drained.sort_by_key(|departure| departure.entry.arrival_ns);
        drained
    }

    /// Returns `Some(true)` if the next packet comes from the L4S queue, `Some(false)` if it comes
    /// from the classic queue, and `None` if both are empty.
    fn l4s_is_next(&self) -> Option<bool> {
        let (l4s, classic) =
            (self.store.first(&self.l4s.queue), self.store.first(&self.classic.queue));
        let (Some(l4s), Some(classic)) = (l4s, classic) else {
            return l4s.map(|_| true).or(classic.map(|_| false));
        };
        Some(match self.spec.schedule {
            DualPi2Schedule::Weighted { .. } => self.classic_credit <= 0,
            DualPi2Schedule::TimeShifted { shift_ns } => {
                l4s.arrival_ns <= classic.arrival_ns.saturating_add(shift_ns)
            }
        })
    }

    /// Updates the classic queue's credit after a packet of `len` bytes left; resets the credit to
    /// 0 if the other queue was empty.
    fn charge(&mut self, was_l4s: bool, len: u32) {
        let DualPi2Schedule::Weighted { classic_percent } = self.spec.schedule else { return };
        let others = if was_l4s { &self.classic } else { &self.l4s };
        if others.queue.is_empty() {
            self.classic_credit = 0;
            return;
        }
        let percent = i64::from(classic_percent);
        let due = if was_l4s { percent } else { percent - 100 };
        self.classic_credit = self.classic_credit.saturating_add(due * i64::from(len));
    }

    fn judge_l4s(&mut self, sojourn_ns: u64) -> AqmVerdict {
        let coupled_p = self.coupled_probability();
        let classic_p = self.classic_probability();
        if classic_p >= self.spec.max_classic_p {
            if accumulate(&mut self.l4s.drops, classic_p) {
                return AqmVerdict::Drop;
            }
            return mark_if(accumulate(&mut self.l4s.marks, coupled_p));
        }
        let native_p = if self.l4s.queue.packets() >= self.spec.ramp_packets {
            self.ramp(sojourn_ns)
        } else {
            0.0
        };
        mark_if(accumulate(&mut self.l4s.marks, native_p.max(coupled_p)))
    }

    fn judge_classic(&mut self, ecn_capable: bool) -> AqmVerdict {
        let classic_p = self.classic_probability();
        if !accumulate(&mut self.classic.drops, classic_p) {
            return AqmVerdict::Keep;
        }
        let may_mark = ecn_capable && classic_p < self.spec.max_classic_p;
        if may_mark { AqmVerdict::Mark } else { AqmVerdict::Drop }
    }

    /// Returns the probability with which an L4S packet is marked because of its sojourn time
    /// alone, without the coupling.
    fn ramp(&self, sojourn_ns: u64) -> f64 {
        match sojourn_ns.checked_sub(self.spec.ramp_start_ns) {
            None | Some(0) => 0.0,
            Some(over_ns) if over_ns >= self.spec.ramp_ns => 1.0,
            Some(over_ns) => over_ns as f64 / self.spec.ramp_ns as f64,
        }
    }

    /// Performs the updates that are due by `now_ns`.
    #[inline]
    fn catch_up(&mut self, now_ns: u64) {
        let next_ns = *self
            .controller
            .next_update_ns
            .get_or_insert(now_ns.saturating_add(self.spec.update_ns));
        if now_ns >= next_ns {
            self.make_updates(next_ns, now_ns);
        }
    }

    #[cold]
    fn make_updates(&mut self, mut at_ns: u64, now_ns: u64) {
        let first =
            |queue: &DualPi2Queue| self.store.first(&queue.queue).map(|entry| entry.arrival_ns);
        let oldest_ns = [first(&self.l4s), first(&self.classic)].into_iter().flatten().min();
        let period_ns = self.spec.update_ns;
        while at_ns <= now_ns {
            let before_p = self.controller.base_p;
            let delay_ns = oldest_ns.map_or(0, |oldest_ns| at_ns.saturating_sub(oldest_ns));
            self.controller.update(&self.spec, delay_ns);
            at_ns = at_ns.saturating_add(period_ns);
            // The controller is saturated: while the delay only grows, p stays at 1; while the
            // delay is zero, p stays at 0.
            let is_settled = before_p == self.controller.base_p && matches!(before_p, 0.0 | 1.0);
            if is_settled && at_ns <= now_ns {
                at_ns += (now_ns - at_ns) / period_ns * period_ns;
            }
        }
        self.controller.next_update_ns = Some(at_ns);
    }
}

impl Pi2Controller {
    fn update(&mut self, spec: &DualPi2Spec, delay_ns: u64) {
        let off_target = seconds_between(spec.target_ns, delay_ns);
        let change = seconds_between(self.old_delay_ns, delay_ns);
        let step = spec.alpha * off_target + spec.beta * change;
        self.base_p = (self.base_p + step).clamp(0.0, 1.0);
        self.old_delay_ns = delay_ns;
    }
}

/// Adds a probability to a sum. If the sum reaches one, subtracts one and returns true. (The RFC
/// requires a sum above one, so one packet passes even at a probability of one.)
fn accumulate(sum: &mut f64, p: f64) -> bool {
    *sum += p;
    let reached = *sum >= 1.0;
    if reached {
        *sum -= 1.0;
    }
    reached
}

fn mark_if(mark: bool) -> AqmVerdict {
    if mark { AqmVerdict::Mark } else { AqmVerdict::Keep }
}

#[cfg(test)]
mod tests;
