//! How long frames travel, and what happens to frames that would overtake others.

use alloc::format;
use alloc::vec::Vec;

use slipring_model::{Dist, Playback};

use super::error::{above, at_least, filled, parameter_error};
use super::{SpecError, TraceEnd};
use crate::user::DelayFactory;

/// How long a frame travels after the line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DelaySpec {
    /// How the delay of each frame is determined.
    pub model: DelayModel,
    /// Time in ns after which the correlation of [random](DelayModel::Random) delays has halved;
    /// required by [`OrderPolicy::Correlated`]. `None` if random delays are independent.
    pub half_life_ns: Option<u64>,
}

/// How long a frame travels.
#[derive(Clone, Debug, PartialEq)]
pub enum DelayModel {
    /// The same delay for every frame, in ns.
    Constant(u64),
    /// A delay drawn for each frame; with a half-life, from a process that is correlated in time.
    Random(Dist),
    /// The delays in ns of one frame after another; the list repeats.
    InTurn(Vec<u64>),
    /// A trace of delays over time.
    Trace {
        /// The steps in order of time; the first step applies from the beginning, regardless of its
        /// time.
        steps: Vec<DelayStep>,
        /// Length of the trace; later than the last step.
        period_ns: u64,
        /// What follows the end of the trace; with [`TraceEnd::Once`] the delay is then 0.
        end: TraceEnd,
        /// Whether to interpolate linearly between steps instead of changing the delay abruptly.
        smooth: bool,
    },
    /// A minimum gap between frames, as in TLEM. A frame is released `delay_ns` after it left the
    /// line, but no earlier than a random gap after the release of the previous frame.
    InterPacket {
        /// Shortest gap, in ns.
        min_gap_ns: u64,
        /// Longest gap, in ns.
        max_gap_ns: u64,
        /// Minimum delay, in ns.
        delay_ns: u64,
    },
    /// A user model.
    User(DelayFactory),
}

impl Default for DelayModel {
    fn default() -> Self {
        Self::Constant(0)
    }
}

/// A delay and the time from which it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayStep {
    /// Start of the delay, in ns from the beginning of the trace.
    pub at_ns: u64,
    /// How long frames travel, in ns.
    pub delay_ns: u64,
    /// Number of the path that frames take; with [`OrderPolicy::Path`], frames of one path keep
    /// their order.
    pub route: u32,
}

/// What happens to frames that would overtake earlier frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderPolicy {
    /// A frame is deferred until all frames ahead of it have left. If delays are drawn
    /// independently and vary more than the gaps between frames, the actual delays are longer than
    /// specified.
    #[default]
    Strict,
    /// Like `Strict`, but the delay must have a half-life ([`DelaySpec::half_life_ns`]). A random
    /// delay then varies smoothly in time, so few frames would overtake others.
    Correlated,
    /// Frames may overtake.
    Free,
    /// Frames that would overtake are dropped.
    Drop,
    /// A frame may overtake frames of other paths, and is deferred until earlier frames of its own
    /// path have left.
    Path,
}

impl OrderPolicy {
    /// Whether no frame overtakes another: frames that would are deferred or dropped.
    #[must_use]
    pub const fn keeps_order(self) -> bool {
        matches!(self, Self::Strict | Self::Correlated | Self::Drop)
    }

    pub(super) fn check(self, delay: &DelaySpec) -> Result<(), SpecError> {
        if self == Self::Correlated && delay.half_life_ns.is_none() {
            let allowed = "`strict`, `free`, `drop` or `path` without a half-life of the delay";
            return Err(SpecError::new("order", "correlated", allowed));
        }
        Ok(())
    }
}

impl DelaySpec {
    /// The same delay for every frame.
    #[must_use]
    pub const fn constant(delay_ns: u64) -> Self {
        Self { model: DelayModel::Constant(delay_ns), half_life_ns: None }
    }

    /// A delay drawn for each frame.
    #[must_use]
    pub const fn random(dist: Dist) -> Self {
        Self { model: DelayModel::Random(dist), half_life_ns: None }
    }

    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] that names the first invalid field.
    pub fn check(&self) -> Result<(), SpecError> {
        if let Some(half_life_ns) = self.half_life_ns {
            at_least("half_life_ns", half_life_ns, 1, "ns")?;
        }
        match &self.model {
            DelayModel::Constant(_) | DelayModel::Random(_) | DelayModel::User(_) => Ok(()),
            DelayModel::InTurn(delays) => check_turns(delays),
            DelayModel::Trace { steps, period_ns, .. } => check_steps(steps, *period_ns),
            DelayModel::InterPacket { min_gap_ns, max_gap_ns, .. } => {
                at_least("max_gap_ns", *max_gap_ns, *min_gap_ns, "ns, the shortest gap,")
            }
        }
    }
}

fn check_turns(delays: &[u64]) -> Result<(), SpecError> {
    Playback::new(delays).map(|_| ()).map_err(parameter_error)
}

fn check_steps(steps: &[DelayStep], period_ns: u64) -> Result<(), SpecError> {
    filled("steps", steps)?;
    if let Some(pair) = steps.windows(2).find(|pair| pair[1].at_ns <= pair[0].at_ns) {
        let allowed = format!("later than {}", pair[0].at_ns);
        return Err(SpecError::new("steps.at_ns", pair[1].at_ns, &allowed));
    }
    above("period_ns", period_ns, steps[steps.len() - 1].at_ns, "ns")
}
