//! Rates over time as a sequence of segments, each with a constant rate.

mod markov;
mod ornstein_uhlenbeck;

use alloc::boxed::Box;
use alloc::vec::Vec;

use slipring_model::Draws;

use crate::schedule::TraceSchedule;
use crate::spec::{RateSlot, RateSpec, RateStep, TraceEnd};
use markov::MarkovRate;
use ornstein_uhlenbeck::OrnsteinUhlenbeckRate;

/// A constant rate and the time at which it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateSegment {
    /// End time; `u64::MAX` if it never ends.
    pub(super) end_ns: u64,
    /// Bits per second; 0 stops the line.
    pub(super) bps: u64,
}

impl RateSegment {
    pub(super) const fn is_last(&self) -> bool {
        self.end_ns == u64::MAX
    }
}

/// The rate of a line over time, as successive segments.
pub(crate) struct RateSegments {
    kind: SegmentSource,
    now_ns: u64,
    round: Option<RatePeriod>,
}

/// A period of a rate that repeats exactly.
#[derive(Clone, Copy)]
struct RatePeriod {
    ns: u64,
    /// The capacity of the line per period, in bits times 10⁹ (bits per second times ns).
    work: u128,
}

enum SegmentSource {
    List {
        steps: Vec<RateStep>,
        schedule: TraceSchedule,
        index: usize,
        round_ns: u64,
    },
    Slots {
        bps: u64,
        slots: Vec<RateSlot>,
        period_ns: u64,
        index: usize,
        round_ns: u64,
        whole: bool,
    },
    Sine {
        mean_bps: u64,
        amplitude_bps: u64,
        period_ns: u64,
        step_ns: u64,
        start_ns: u64,
    },
    Markov(Box<MarkovRate>),
    OrnsteinUhlenbeck(Box<OrnsteinUhlenbeckRate>),
}

impl RateSegments {
    pub(super) fn new(spec: &RateSpec, draws: Draws, start_ns: u64) -> Self {
        let kind = SegmentSource::new(spec, draws, start_ns);
        Self { round: kind.round(), kind, now_ns: start_ns }
    }

    /// Skips as many whole periods as `work` fills, such that some work remains. Returns
    /// how long the skipped periods take in ns, and the remaining work.
    pub(super) fn pass_rounds(&mut self, work: u128) -> (u64, u128) {
        let Some(round) = self.round else { return (0, work) };
        let rounds = work.saturating_sub(1) / round.work;
        let ahead_ns = rounds.saturating_mul(u128::from(round.ns));
        let ahead_ns = u64::try_from(ahead_ns).unwrap_or(u64::MAX);
        if let SegmentSource::List { round_ns, .. } | SegmentSource::Slots { round_ns, .. } =
            &mut self.kind
        {
            *round_ns = round_ns.saturating_add(ahead_ns);
        }
        self.now_ns = self.now_ns.saturating_add(ahead_ns);
        (ahead_ns, work - rounds * round.work)
    }

    /// Length of the longest slot in ns, if each frame must fit into one slot.
    pub(super) fn longest_whole_ns(&self) -> Option<u64> {
        match &self.kind {
            SegmentSource::Slots { slots, whole: true, .. } => {
                slots.iter().map(|slot| slot.len_ns).max()
            }
            _ => None,
        }
    }

    /// Returns the segment after the last one returned.
    pub(super) fn next(&mut self) -> RateSegment {
        let (end_ns, bps) = self.kind.next(self.now_ns);
        self.now_ns = end_ns;
        RateSegment { end_ns, bps }
    }

    /// Skips segments that end by `target_ns` where it can skip many in one step; some of these
    /// segments may remain.
    pub(super) fn skip_to(&mut self, target_ns: u64) {
        let ahead_ns = target_ns.saturating_sub(self.now_ns);
        match &mut self.kind {
            SegmentSource::List { schedule, index, round_ns, .. }
                if schedule.end() == TraceEnd::Loop =>
            {
                if skip_rounds(round_ns, schedule.period_ns(), target_ns) {
                    (*index, self.now_ns) = (0, *round_ns);
                }
            }
            SegmentSource::Slots { period_ns, index, round_ns, .. } => {
                if skip_rounds(round_ns, *period_ns, target_ns) {
                    (*index, self.now_ns) = (0, *round_ns);
                }
            }
            SegmentSource::Sine { step_ns, .. } => self.now_ns += ahead_ns / *step_ns * *step_ns,
            SegmentSource::OrnsteinUhlenbeck(ou) => {
                let step_ns = ou.step_ns();
                self.now_ns += ahead_ns / step_ns * step_ns;
            }
            SegmentSource::Markov(chain) => self.now_ns = self.now_ns.max(chain.skip_to(target_ns)),
            SegmentSource::List { .. } => {}
        }
    }
}

/// Advances `round_ns`, the start of the current period, by whole periods towards `target_ns`;
/// returns whether it changed.
fn skip_rounds(round_ns: &mut u64, period_ns: u64, target_ns: u64) -> bool {
    let rounds = target_ns.saturating_sub(*round_ns) / period_ns;
    *round_ns += rounds * period_ns;
    rounds > 0
}

impl SegmentSource {
    fn new(spec: &RateSpec, draws: Draws, start_ns: u64) -> Self {
        match spec {
            RateSpec::Steps { steps, period_ns, end } => {
                Self::list(steps.clone(), *period_ns, *end, start_ns)
            }
            RateSpec::Ramp { from_bps, to_bps, duration_ns, step_ns, end } => {
                let steps = ramp(*from_bps, *to_bps, *duration_ns, *step_ns);
                Self::list(steps, *duration_ns, *end, start_ns)
            }
            RateSpec::Slots { bps, period_ns, slots, whole_frames } => Self::Slots {
                bps: *bps,
                slots: slots.clone(),
                period_ns: *period_ns,
                index: 0,
                round_ns: start_ns,
                whole: *whole_frames,
            },
            RateSpec::Sine { mean_bps, amplitude_bps, period_ns, step_ns } => Self::Sine {
                mean_bps: *mean_bps,
                amplitude_bps: *amplitude_bps,
                period_ns: *period_ns,
                step_ns: *step_ns,
                start_ns,
            },
            RateSpec::Markov { states } => {
                Self::Markov(Box::new(MarkovRate::new(states, draws, start_ns)))
            }
            RateSpec::OrnsteinUhlenbeck { .. } => {
                Self::OrnsteinUhlenbeck(Box::new(OrnsteinUhlenbeckRate::new(spec, draws, start_ns)))
            }
            // Lines with the remaining kinds of rate do not use segments, so this list is empty.
            _ => Self::list(Vec::new(), 1, TraceEnd::Once, start_ns),
        }
    }

    fn list(steps: Vec<RateStep>, period_ns: u64, end: TraceEnd, start_ns: u64) -> Self {
        let schedule = TraceSchedule::new(start_ns, period_ns, end);
        Self::List { steps, schedule, index: 0, round_ns: start_ns }
    }

    fn round(&self) -> Option<RatePeriod> {
        match self {
            Self::List { steps, schedule, .. } if schedule.end() == TraceEnd::Loop => {
                let ns = schedule.period_ns();
                let starts = steps.iter().skip(1).map(|step| step.at_ns);
                let ends = starts.clone().chain([ns]);
                let spans = core::iter::once(0).chain(starts).zip(ends);
                let work = |(step, (from_ns, until_ns)): (&RateStep, (u64, u64))| {
                    u128::from(step.bps) * u128::from(until_ns - from_ns)
                };
                Some(RatePeriod { ns, work: steps.iter().zip(spans).map(work).sum() })
            }
            Self::Slots { bps, slots, period_ns, .. } => {
                let open_ns: u128 = slots.iter().map(|slot| u128::from(slot.len_ns)).sum();
                Some(RatePeriod { ns: *period_ns, work: u128::from(*bps) * open_ns })
            }
            _ => None,
        }
        .filter(|round| round.work > 0)
    }

    /// Returns the end in ns and the rate in bits per second of the segment that begins at
    /// `now_ns`.
    fn next(&mut self, now_ns: u64) -> (u64, u64) {
        match self {
            Self::List { steps, schedule, index, round_ns } => {
                next_step(steps, schedule, index, round_ns)
            }
            Self::Slots { bps, slots, period_ns, index, round_ns, .. } => {
                next_slot(now_ns, *bps, slots, *period_ns, index, round_ns)
            }
            Self::Sine { mean_bps, amplitude_bps, period_ns, step_ns, start_ns } => {
                let middle_ns = (now_ns - *start_ns) % *period_ns + *step_ns / 2;
                let turn = middle_ns as f64 / *period_ns as f64 * core::f64::consts::TAU;
                let bps = *mean_bps as f64 + *amplitude_bps as f64 * libm::sin(turn);
                (now_ns.saturating_add(*step_ns), libm::round(bps) as u64)
            }
            Self::Markov(chain) => chain.next(),
            Self::OrnsteinUhlenbeck(ou) => ou.at(now_ns),
        }
    }
}

fn ramp(from_bps: u64, to_bps: u64, duration_ns: u64, step_ns: u64) -> Vec<RateStep> {
    let rate_at = |at_ns: u64| {
        // The rate in the middle of a step applies to the whole step. The last step has the final
        // rate instead.
        let passed = i128::from((at_ns + step_ns / 2).min(duration_ns));
        let rise = i128::from(to_bps) - i128::from(from_bps);
        (i128::from(from_bps) + rise * passed / i128::from(duration_ns)) as u64
    };
    let starts = (0..duration_ns).step_by(usize::try_from(step_ns).unwrap_or(usize::MAX));
    let mut steps: Vec<_> = starts.map(|at_ns| RateStep { at_ns, bps: rate_at(at_ns) }).collect();
    if let Some(last) = steps.last_mut()
        && last.at_ns + step_ns >= duration_ns
    {
        last.bps = to_bps;
    }
    steps
}

fn next_step(
    steps: &[RateStep],
    schedule: &TraceSchedule,
    index: &mut usize,
    round_ns: &mut u64,
) -> (u64, u64) {
    let Some(step) = steps.get(*index) else { return (u64::MAX, 0) };
    *index += 1;
    if let Some(next) = steps.get(*index) {
        return (round_ns.saturating_add(next.at_ns), step.bps);
    }
    match schedule.end() {
        TraceEnd::Hold => (u64::MAX, step.bps),
        TraceEnd::Once => (round_ns.saturating_add(schedule.period_ns()), step.bps),
        TraceEnd::Loop => {
            *index = 0;
            *round_ns = round_ns.saturating_add(schedule.period_ns());
            (*round_ns, step.bps)
        }
    }
}

/// Returns the end and the rate of the segment that begins at `now_ns`: the gap before the next
/// slot (rate 0), or the slot if there is no gap.
fn next_slot(
    now_ns: u64,
    bps: u64,
    slots: &[RateSlot],
    period_ns: u64,
    index: &mut usize,
    round_ns: &mut u64,
) -> (u64, u64) {
    if *index == slots.len() {
        *index = 0;
        *round_ns = round_ns.saturating_add(period_ns);
    }
    let slot = slots[*index];
    let start_ns = round_ns.saturating_add(slot.start_ns);
    if now_ns < start_ns {
        return (start_ns, 0);
    }
    *index += 1;
    (start_ns.saturating_add(slot.len_ns), bps)
}
