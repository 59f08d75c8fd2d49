//! The line: serialises frames, one after another.
//!
//! A line answers two questions. [`LinkLine::begin_ns`] returns when the line can take a frame, so
//! that the queue before the line selects the frame at that moment and no earlier.
//! [`LinkLine::serve`] then takes the frame and returns when the line is free again.

mod fluid;
mod opportunities;
mod segments;

use alloc::boxed::Box;
use core::num::NonZeroU64;

use slipring_model::{BitRate, Draws, LineClock};

use crate::frame_id::FrameId;
use crate::spec::RateSpec;
use crate::streams::LinkStreams;
use crate::user::{PreciseTime, UserRateModel};
use fluid::FluidLine;
use opportunities::OpportunityLine;
pub use opportunities::held_opportunity_ns;
use segments::RateSegments;

pub(crate) enum LinkLine {
    /// No rate limit: the bits of a frame take no time. The line is free from `free_ns` on.
    Instant { free_ns: u64 },
    /// A constant rate.
    Constant(LineClock),
    /// A varying rate.
    Fluid(Box<FluidLine>),
    /// A trace of moments at which bytes may leave.
    Opportunities(Box<OpportunityLine>),
    /// A user model.
    User { model: Box<dyn UserRateModel>, draws: Draws, free: PreciseTime, unanswered: bool },
}

impl LinkLine {
    /// Builds a line; its trace, if it has one, begins at `start_ns`.
    pub(crate) fn new(spec: &RateSpec, streams: &LinkStreams<'_>, start_ns: u64) -> Self {
        match spec {
            RateSpec::Unlimited => Self::Instant { free_ns: 0 },
            RateSpec::Constant { bps } => Self::Constant(LineClock::new(bit_rate(*bps), 0)),
            RateSpec::Opportunities { at_ns, mtu, end } => {
                Self::Opportunities(Box::new(OpportunityLine::new(at_ns, *mtu, *end, start_ns)))
            }
            RateSpec::User(maker) => {
                let (model, free) = (maker.make(), PreciseTime::default());
                Self::User { model, draws: streams.draws("rate"), free, unanswered: false }
            }
            _ => Self::Fluid(Box::new(FluidLine::new(RateSegments::new(
                spec,
                streams.draws("rate"),
                start_ns,
            )))),
        }
    }

    /// Builds a line for another specification. The new line is busy until the old one would have
    /// been free.
    pub(crate) fn reconfigured(
        &self,
        spec: &RateSpec,
        streams: &LinkStreams<'_>,
        at_ns: u64,
    ) -> Self {
        if let (Self::Constant(clock), RateSpec::Constant { bps }) = (self, spec) {
            let mut clock = clock.clone();
            clock.set_rate(bit_rate(*bps));
            return Self::Constant(clock);
        }
        let mut line = Self::new(spec, streams, at_ns);
        // A line that has stopped permanently counts as free from `at_ns` on.
        line.occupy_until(Some(self.free_ns()).filter(|&ns| ns != u64::MAX).unwrap_or(at_ns));
        line
    }

    /// Returns the time from which the line is free, in ns, rounded up.
    #[inline(always)]
    pub(crate) fn free_ns(&self) -> u64 {
        match self {
            Self::Instant { free_ns } => *free_ns,
            Self::Constant(clock) => clock.free_ns(),
            Self::Fluid(fluid) => fluid.free_ns(),
            Self::Opportunities(trace) => trace.free_ns(),
            Self::User { free, .. } => free.ceil_ns(),
        }
    }

    /// Whether the line takes a frame at `now_ns`. Only kinds of lines that can decide this without
    /// computation return `true`.
    #[inline]
    pub(crate) fn is_free(&self, now_ns: u64) -> bool {
        matches!(self, Self::Instant { .. } | Self::Constant(_)) && self.free_ns() <= now_ns
    }

    /// Returns the rate if it is constant.
    #[inline]
    pub(crate) fn rate(&self) -> Option<BitRate> {
        match self {
            Self::Constant(clock) => Some(clock.rate()),
            _ => None,
        }
    }

    /// Returns the time at which the line can take a frame that is ready at `ready_ns`, in ns,
    /// rounded up; `u64::MAX` for never.
    #[inline]
    pub(crate) fn begin_ns(&mut self, ready_ns: u64) -> u64 {
        match self {
            Self::Instant { free_ns } => ready_ns.max(*free_ns),
            Self::Constant(clock) => ready_ns.max(clock.free_ns()),
            Self::Fluid(fluid) => fluid.begin_ns(ready_ns),
            Self::Opportunities(trace) => trace.begin_ns(ready_ns),
            Self::User { free, .. } => ready_ns.max(free.ceil_ns()),
        }
    }

    /// Takes a frame of `bytes` that is ready at `ready_ns`, and keeps the line busy for another
    /// `extra_ns`. Returns when the line is free again, in ns, rounded up; `u64::MAX` for never.
    #[inline(always)]
    pub(crate) fn serve(&mut self, ready_ns: u64, bytes: u64, extra_ns: u64, id: FrameId) -> u64 {
        match self {
            Self::Instant { free_ns } => {
                *free_ns = ready_ns.max(*free_ns).saturating_add(extra_ns);
            }
            Self::Constant(clock) => {
                clock.occupy(ready_ns, bytes.saturating_mul(8));
                clock.occupy_ns(extra_ns);
            }
            Self::Fluid(fluid) => fluid.serve(ready_ns, bytes, extra_ns),
            Self::Opportunities(trace) => trace.serve(ready_ns, bytes, extra_ns),
            Self::User { model, draws, free, unanswered } => {
                let start = (*free).max(PreciseTime { ns: ready_ns, fraction: 0 });
                let end = model.finish(start, bytes, id.number, &mut draws.stream(id.draw()));
                *unanswered = end.is_none();
                *free = end.unwrap_or(start).max(start);
                free.ns = free.ns.saturating_add(extra_ns);
            }
        }
        self.free_ns()
    }

    /// Whether the user model returned no result for the last frame.
    #[inline]
    pub(crate) fn was_unanswered(&self) -> bool {
        matches!(self, Self::User { unanswered: true, .. })
    }

    /// Estimates how long the line needs for `bytes` from `now_ns` on, including its current work;
    /// off by less than a nanosecond if the rate is constant.
    pub(crate) fn estimate_ns(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let busy_ns = self.begin_ns(now_ns).saturating_sub(now_ns);
        let work = u128::from(bytes) * 8 * u128::from(slipring_model::NANOS_PER_SEC);
        let own_ns = match self {
            Self::Instant { .. } | Self::User { .. } => 0,
            Self::Constant(clock) => clock.rate().divide_wide(work).0,
            Self::Fluid(fluid) => bit_rate(fluid.usual_bps()).divide_wide(work).0,
            Self::Opportunities(trace) => trace.estimate_ns(bytes),
        };
        busy_ns.saturating_add(own_ns)
    }

    fn occupy_until(&mut self, until_ns: u64) {
        match self {
            Self::Instant { free_ns } => *free_ns = until_ns,
            Self::Constant(clock) => clock.wait_for(until_ns),
            Self::Fluid(fluid) => fluid.wait_for(until_ns),
            Self::Opportunities(trace) => trace.wait_for(until_ns),
            Self::User { free, .. } => *free = PreciseTime { ns: until_ns, fraction: 0 },
        }
    }
}

/// Converts a rate, raised to at least one bit per second.
fn bit_rate(bps: u64) -> BitRate {
    BitRate::new(NonZeroU64::new(bps).unwrap_or(NonZeroU64::MIN))
}
