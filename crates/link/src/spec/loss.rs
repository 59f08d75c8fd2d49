//! Specifications of losses.

use alloc::format;
use alloc::vec::Vec;

use slipring_model::Chance;

use super::SpecError;
use super::error::{above, at_least, filled, probability};
use crate::user::LossFactory;

/// A loss model and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct LossSpec {
    /// Which frames are lost.
    pub model: LossModel,
    /// The position of the loss: before the queue, or after the line.
    pub position: LossPosition,
}

/// Where losses happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossPosition {
    /// The loss is before the queue: the lost frame occupies neither queue nor line.
    #[default]
    Pre,
    /// The loss is after the line: the lost frame has occupied it.
    Post,
}

/// Which frames are lost.
#[derive(Clone, Debug, PartialEq)]
pub enum LossModel {
    /// Each frame is lost with the same probability.
    Bernoulli(Chance),
    /// Each bit is wrong with the same probability; one wrong bit loses the frame.
    Ber(f64),
    /// Gilbert and Elliott: two states that change from packet to packet.
    GilbertElliott {
        /// Chance to go from the good to the bad state.
        p: f64,
        /// Chance to return to the good state.
        r: f64,
        /// Chance of a loss in the bad state.
        bad: f64,
        /// Chance of a loss in the good state.
        good: f64,
    },
    /// Gilbert and Elliott in time: two states, each of which lasts an exponentially distributed
    /// time.
    TimedGilbertElliott {
        /// Mean time in the good state, in ns.
        good_ns: u64,
        /// Mean time in the bad state, in ns.
        bad_ns: u64,
        /// Chance of a loss in the bad state.
        bad: f64,
        /// Chance of a loss in the good state.
        good: f64,
    },
    /// A chain of four states that changes from packet to packet: 1 good, 2 good within a burst of
    /// losses, 3 bad within a burst of losses, 4 a single loss.
    FourState {
        /// Probability of a change from state 1 to state 3 per packet.
        p13: f64,
        /// Probability of a change from state 3 to state 1 per packet.
        p31: f64,
        /// Probability of a change from state 3 to state 2 per packet.
        p32: f64,
        /// Probability of a change from state 2 to state 3 per packet.
        p23: f64,
        /// Probability of a change from state 1 to state 4 per packet.
        p14: f64,
    },
    /// Has an entry for each frame in turn: whether it is lost. The pattern repeats.
    Pattern(Vec<bool>),
    /// Loses one frame of every `every` frames.
    Nth {
        /// Length of a cycle in frames.
        every: u64,
        /// Which frame of the cycle is lost: 1 to `every`.
        nth: u64,
    },
    /// Loses the frames with these numbers, which are counted from 1 and in ascending order.
    Numbers(Vec<u64>),
    /// Losses at given times.
    ByTime {
        /// The windows, in order of time and disjoint.
        windows: Vec<LossWindow>,
        /// Time in ns after which the windows recur; `None` if they do not recur.
        period_ns: Option<u64>,
    },
    /// A user model.
    User(LossFactory),
}

/// A span of time with losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossWindow {
    /// Start of the window in ns.
    pub from_ns: u64,
    /// End of the window in ns, exclusive.
    pub until_ns: u64,
    /// Probability that a frame within the window is lost.
    pub chance: Chance,
}

impl LossSpec {
    /// Loses each frame with the same probability, before the queue.
    #[must_use]
    pub const fn bernoulli(chance: Chance) -> Self {
        Self { model: LossModel::Bernoulli(chance), position: LossPosition::Pre }
    }

    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] that names the first invalid field.
    pub fn check(&self) -> Result<(), SpecError> {
        self.model.check()
    }
}

impl LossModel {
    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] that names the first invalid field.
    pub fn check(&self) -> Result<(), SpecError> {
        match self {
            Self::Bernoulli(_) | Self::User(_) => Ok(()),
            Self::Ber(ber) => probability("ber", *ber),
            Self::GilbertElliott { p, r, bad, good } => {
                chances(&[("p", *p), ("r", *r), ("bad", *bad), ("good", *good)])
            }
            Self::TimedGilbertElliott { good_ns, bad_ns, bad, good } => {
                at_least("good_ns", *good_ns, 1, "ns")?;
                at_least("bad_ns", *bad_ns, 1, "ns")?;
                chances(&[("bad", *bad), ("good", *good)])
            }
            Self::FourState { p13, p31, p32, p23, p14 } => {
                let single = [("p13", *p13), ("p31", *p31), ("p32", *p32), ("p23", *p23)];
                chances(&single)?;
                chances(&[("p14", *p14), ("p13 + p14", p13 + p14), ("p31 + p32", p31 + p32)])
            }
            Self::Pattern(pattern) => filled("pattern", pattern),
            Self::Nth { every, nth } => {
                at_least("nth", *nth, 1, "")?;
                at_least("every", *every, *nth, "")
            }
            Self::Numbers(numbers) => check_numbers(numbers),
            Self::ByTime { windows, period_ns } => check_windows(windows, *period_ns),
        }
    }
}

fn chances(values: &[(&str, f64)]) -> Result<(), SpecError> {
    values.iter().try_for_each(|&(field, value)| probability(field, value))
}

fn check_numbers(numbers: &[u64]) -> Result<(), SpecError> {
    filled("numbers", numbers)?;
    at_least("numbers", numbers[0], 1, "")?;
    numbers.windows(2).try_for_each(|pair| above("numbers", pair[1], pair[0], ""))
}

fn check_windows(windows: &[LossWindow], period_ns: Option<u64>) -> Result<(), SpecError> {
    filled("windows", windows)?;
    let mut free_ns = 0;
    for window in windows {
        at_least("windows.from_ns", window.from_ns, free_ns, "ns, the end of the one before,")?;
        if window.until_ns <= window.from_ns {
            let allowed = format!("later than {}", window.from_ns);
            return Err(SpecError::new("windows.until_ns", window.until_ns, &allowed));
        }
        free_ns = window.until_ns;
    }
    period_ns.map_or(Ok(()), |period| at_least("period_ns", period, free_ns, "ns, the last end,"))
}
