//! Computes the delay of each frame.

use alloc::boxed::Box;
use alloc::vec::Vec;

use slipring_model::{Correlated, Dist, Draws};

use crate::carrier::Carrier;
use crate::frame_id::FirstFrameNumbers;
use crate::output::LineDeparture;
use crate::schedule::TraceSchedule;
use crate::spec::{DelayModel, DelaySpec, DelayStep};
use crate::user::{ModelPacket, UserDelayModel};

/// A delay and the limits that apply to it.
pub(crate) struct FrameDelay {
    pub(crate) delay_ns: u64,
    pub(crate) route: u32,
    /// Earliest release time in ns, regardless of the delay.
    pub(crate) not_before_ns: u64,
}

impl FrameDelay {
    #[inline]
    const fn of(delay_ns: u64) -> Self {
        Self { delay_ns, route: 0, not_before_ns: 0 }
    }
}

pub(crate) struct DelayStage {
    model: DelayProcess,
    draws: Draws,
}

enum DelayProcess {
    Constant(u64),
    Random(Dist),
    Correlated(Dist, Box<Correlated>),
    /// A list of delays for successive frames. `from` holds, for each entry link, the number of
    /// the first frame that the list applies to; this frame gets `delays_ns[0]`.
    InTurn {
        delays_ns: Vec<u64>,
        from: FirstFrameNumbers,
    },
    Trace(DelayTrace),
    InterPacket {
        min_gap_ns: u64,
        max_gap_ns: u64,
        delay_ns: u64,
        last_ns: u64,
    },
    User(Box<dyn UserDelayModel>),
}

struct DelayTrace {
    steps: Vec<DelayStep>,
    schedule: TraceSchedule,
    smooth: bool,
}

impl DelayStage {
    pub(crate) fn new(spec: &DelaySpec, draws: Draws, start_ns: u64) -> Self {
        Self {
            model: DelayProcess::new(spec, draws, FirstFrameNumbers::default(), start_ns),
            draws,
        }
    }

    /// Switches to another delay; `next` holds, for each entry link, the number of the next frame
    /// that enters by it.
    pub(crate) fn change(
        &mut self,
        old: &DelaySpec,
        new: &DelaySpec,
        next: FirstFrameNumbers,
        at_ns: u64,
    ) {
        match (&mut self.model, &new.model) {
            // The random process continues; only the distribution to which its values are mapped
            // changes.
            (DelayProcess::Correlated(dist, _), DelayModel::Random(fresh))
                if old.half_life_ns == new.half_life_ns =>
            {
                *dist = fresh.clone();
            }
            (model, _) => *model = DelayProcess::new(new, self.draws, next, at_ns),
        }
    }

    #[inline]
    pub(crate) fn constant_ns(&self) -> Option<u64> {
        match self.model {
            DelayProcess::Constant(delay_ns) => Some(delay_ns),
            _ => None,
        }
    }

    /// Returns the delay of a frame; `None` if a user model returns none.
    #[inline(always)]
    pub(crate) fn delay(
        &mut self,
        frame: &LineDeparture,
        carrier: &mut impl Carrier,
    ) -> Option<FrameDelay> {
        let draws = self.draws;
        Some(match &mut self.model {
            DelayProcess::Constant(delay_ns) => FrameDelay::of(*delay_ns),
            DelayProcess::Random(dist) => FrameDelay::of(dist.at(draws.at(frame.own_draw()))),
            DelayProcess::Correlated(dist, process) => {
                FrameDelay::of(dist.at(process.draw_at(frame.base_ns)))
            }
            DelayProcess::InTurn { delays_ns, from } => {
                FrameDelay::of(in_turn(delays_ns, from.of(frame.id), frame.id.number))
            }
            DelayProcess::Trace(trace) => trace.at(frame.base_ns),
            DelayProcess::InterPacket { min_gap_ns, max_gap_ns, delay_ns, last_ns } => {
                let mut stream = draws.stream(frame.own_draw());
                let gap_ns = stream.between(*min_gap_ns, *max_gap_ns);
                let not_before_ns = last_ns.saturating_add(gap_ns);
                FrameDelay { not_before_ns, ..FrameDelay::of(*delay_ns) }
            }
            DelayProcess::User(model) => {
                let data = carrier.frame(frame.handle);
                let (len, at_ns, number) = (frame.len, frame.base_ns, frame.id.number);
                let mut packet = ModelPacket { data, len, at_ns, number };
                let mut stream = draws.stream(frame.own_draw());
                FrameDelay::of(model.delay_ns(&mut packet, &mut stream)?)
            }
        })
    }

    /// Whether a frame's delay depends only on the frame's identity and on the time from which the
    /// delay is measured.
    pub(crate) fn is_payload_agnostic(&self) -> bool {
        !matches!(self.model, DelayProcess::InterPacket { .. } | DelayProcess::User(_))
    }

    /// Computes the delays of frames that entered the network by this link, measured from
    /// `base_ns`: the results of [`Self::delay`] for one frame after another. `first` is the number
    /// of the first frame. Only for [payload-agnostic](Self::is_payload_agnostic) delays.
    #[inline]
    pub(crate) fn delay_all(&mut self, first: u64, base_ns: &[u64], delays_ns: &mut [u64]) {
        let draws = self.draws;
        match &mut self.model {
            DelayProcess::Constant(delay_ns) => delays_ns.fill(*delay_ns),
            DelayProcess::Random(dist) => {
                let numbered = (first..).zip(&mut *delays_ns);
                numbered.for_each(|(number, draw)| *draw = draws.at(number));
                dist.all_at(delays_ns);
            }
            DelayProcess::Correlated(dist, process) => {
                process.draws_at(base_ns, delays_ns);
                dist.all_at(delays_ns);
            }
            DelayProcess::InTurn { delays_ns: listed, from } => {
                let numbered = (first..).zip(delays_ns);
                let from = from.local;
                numbered.for_each(|(number, delay_ns)| *delay_ns = in_turn(listed, from, number));
            }
            DelayProcess::Trace(trace) => {
                let times = base_ns.iter().zip(delays_ns);
                times.for_each(|(&at_ns, delay_ns)| *delay_ns = trace.at(at_ns).delay_ns);
            }
            DelayProcess::InterPacket { .. } | DelayProcess::User(_) => {}
        }
    }

    /// Records when the frame of the last [`Self::delay`] call is released.
    #[inline]
    pub(crate) fn released(&mut self, release_ns: u64) {
        if let DelayProcess::InterPacket { last_ns, .. } = &mut self.model {
            *last_ns = release_ns;
        }
    }
}

impl DelayProcess {
    fn new(spec: &DelaySpec, draws: Draws, next: FirstFrameNumbers, start_ns: u64) -> Self {
        match &spec.model {
            DelayModel::Constant(delay_ns) => Self::Constant(*delay_ns),
            DelayModel::Random(dist) => {
                Self::random(dist.clone(), spec.half_life_ns, draws, start_ns)
            }
            DelayModel::InTurn(delays) => Self::InTurn { delays_ns: delays.clone(), from: next },
            DelayModel::Trace { steps, period_ns, end, smooth } => Self::Trace(DelayTrace {
                schedule: TraceSchedule::new(start_ns, *period_ns, *end),
                steps: steps.clone(),
                smooth: *smooth,
            }),
            DelayModel::InterPacket { min_gap_ns, max_gap_ns, delay_ns } => Self::InterPacket {
                min_gap_ns: *min_gap_ns,
                max_gap_ns: *max_gap_ns,
                delay_ns: *delay_ns,
                last_ns: 0,
            },
            DelayModel::User(maker) => Self::User(maker.make()),
        }
    }

    fn random(dist: Dist, half_life_ns: Option<u64>, draws: Draws, start_ns: u64) -> Self {
        let process = half_life_ns.and_then(|ns| Correlated::new(ns, draws, start_ns).ok());
        match process {
            Some(process) => Self::Correlated(dist, Box::new(process)),
            None => Self::Random(dist),
        }
    }
}

impl LineDeparture {
    /// Returns the index of the random draw for the frame's delay. A copy has its own index, so
    /// its delay is drawn independently.
    #[inline]
    const fn own_draw(&self) -> u64 {
        // On the entry link, `id.draw()` is the frame's number. No link carries 2^53 frames, and a
        // frame has at most 1000 copies, so the bits of frame number and copy number do not
        // overlap. On other links they overlap, but equal results are improbable.
        self.id.draw() ^ (self.copy as u64) << 53
    }
}

/// Returns the delay in ns for frame `number`; the list repeats. Frames numbered before `from` get
/// the first delay.
fn in_turn(delays_ns: &[u64], from: u64, number: u64) -> u64 {
    let index = number.saturating_sub(from) % (delays_ns.len() as u64).max(1);
    delays_ns.get(index as usize).copied().unwrap_or(0)
}

impl DelayTrace {
    fn at(&self, now_ns: u64) -> FrameDelay {
        let Some(position) = self.schedule.position(now_ns) else {
            return FrameDelay::of(0);
        };
        let index = self.steps.partition_point(|step| step.at_ns <= position.offset_ns).max(1) - 1;
        let step = self.steps[index];
        let delay_ns = match self.steps.get(index + 1) {
            Some(next) if self.smooth && position.offset_ns >= step.at_ns => {
                between(&step, next, position.offset_ns)
            }
            _ => step.delay_ns,
        };
        FrameDelay { route: step.route, ..FrameDelay::of(delay_ns) }
    }
}

/// Interpolates the delay at `at_ns` linearly between two steps.
fn between(from: &DelayStep, to: &DelayStep, at_ns: u64) -> u64 {
    let (passed, whole) = (u128::from(at_ns - from.at_ns), u128::from(to.at_ns - from.at_ns));
    let sum = u128::from(from.delay_ns) * (whole - passed) + u128::from(to.delay_ns) * passed;
    (sum / whole) as u64
}
