//! Losses.

use alloc::format;
use alloc::vec::Vec;

use slipring_model::Chance;

use super::SpecError;
use super::error::{at_least, filled, probability};
use crate::user::LossFactory;

/// A loss model and where it acts.
#[derive(Clone, Debug, PartialEq)]
pub struct LossSpec {
    /// Which frames it takes.
    pub model: LossModel,
    /// Where.
    pub position: LossPosition,
}

/// Where losses happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossPosition {
    /// Before the queue: the lost frame takes no room and no time of the line.
    #[default]
    Pre,
    /// After the line: the lost frame has occupied it.
    Post,
}

/// Which frames are lost.
#[derive(Clone, Debug, PartialEq)]
pub enum LossModel {
    /// Each with the same chance.
    Bernoulli(Chance),
    /// Each bit with the same chance; one wrong bit loses the frame.
    Ber(f64),
    /// Gilbert and Elliott: two states that change from packet to packet.
    GilbertElliott {
        /// Chance to go from the good to the bad state.
        p: f64,
        /// Chance to go back.
        r: f64,
        /// Chance of a loss in the bad state.
        bad: f64,
        /// Chance of a loss in the good state.
        good: f64,
    },
    /// Gilbert and Elliott in time: two states that last exponentially distributed times.
    TimedGilbertElliott {
        /// Mean time in the good state.
        good_ns: u64,
        /// Mean time in the bad state.
        bad_ns: u64,
        /// Chance of a loss in the bad state.
        bad: f64,
        /// Chance of a loss in the good state.
        good: f64,
    },
    /// Four states from packet to packet: 1 good, 2 good within a burst, 3 bad within a burst,
    /// 4 one loss alone.
    FourState {
        /// Chance to go from 1 to 3.
        p13: f64,
        /// Chance to go from 3 to 1.
        p31: f64,
        /// Chance to go from 3 to 2.
        p32: f64,
        /// Chance to go from 2 to 3.
        p23: f64,
        /// Chance to go from 1 to 4.
        p14: f64,
    },
    /// Frame after frame: `true` is lost. Repeats at its end.
    Pattern(Vec<bool>),
    /// One of every so many.
    Nth {
        /// How many.
        every: u64,
        /// Which one of them, from 1; at most `every`.
        nth: u64,
    },
    /// The frames of these numbers, from 1, each once.
    Numbers(Vec<u64>),
    /// At given times.
    ByTime {
        /// In order, apart from each other.
        windows: Vec<LossWindow>,
        /// After which time they recur.
        period_ns: Option<u64>,
    },
    /// A model of the user's.
    User(LossFactory),
}

/// A span of time with losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossWindow {
    /// From when.
    pub from_ns: u64,
    /// Until before when.
    pub until_ns: u64,
    /// How likely each frame is lost then.
    pub chance: Chance,
}

impl LossSpec {
    /// Each frame with the same chance, before the queue.
    #[must_use]
    pub const fn bernoulli(chance: Chance) -> Self {
        Self { model: LossModel::Bernoulli(chance), position: LossPosition::Pre }
    }

    /// Judges the fields.
    ///
    /// # Errors
    /// The first field that no model can have.
    pub fn check(&self) -> Result<(), SpecError> {
        self.model.check()
    }
}

impl LossModel {
    /// Judges the fields.
    ///
    /// # Errors
    /// The first field that no model can have.
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
    numbers.windows(2).try_for_each(|pair| at_least("numbers", pair[1], pair[0] + 1, ""))
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
