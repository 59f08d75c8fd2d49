//! The rate of a line, and how many bytes and how much time a frame occupies on it.

use alloc::format;
use alloc::vec::Vec;

use slipring_model::NANOS_PER_SEC;

use super::SpecError;
use super::error::{above, at_least, at_most, filled, within};
use super::frame_len::MAX_FRAME_LEN;
use crate::user::RateFactory;

/// The rate of a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RateSpec {
    /// No rate limit: without a [`LinkProfile`], a frame takes no time on the line, so frames never
    /// queue.
    #[default]
    Unlimited,
    /// A constant rate.
    Constant {
        /// Bits per second.
        bps: u64,
    },
    /// A trace of opportunities, as mahimahi records them: each lets up to `mtu` bytes leave. A
    /// frame may use several opportunities, several frames may share an opportunity, and unused
    /// bytes are lost.
    Opportunities {
        /// Times of the opportunities in ns, in ascending order. The last one is also the length
        /// of the trace.
        at_ns: Vec<u64>,
        /// Bytes per opportunity.
        mtu: u32,
        /// What follows the last opportunity.
        end: TraceEnd,
    },
    /// Steps: each rate holds until the next step.
    Steps {
        /// The steps in order of time; the first step applies from the beginning, regardless of its
        /// time.
        steps: Vec<RateStep>,
        /// Length of the trace in ns; later than the last step.
        period_ns: u64,
        /// What follows the end of the trace.
        end: TraceEnd,
    },
    /// Recurring time slots: the line runs at `bps` inside a slot and stops outside the slots.
    Slots {
        /// Bits per second inside a slot.
        bps: u64,
        /// Time in ns after which the slots recur.
        period_ns: u64,
        /// The slots in order of time, disjoint, and inside the period.
        slots: Vec<RateSlot>,
        /// Whether a frame that does not fit into the rest of a slot waits for a slot into which it
        /// fits. A frame too long for every slot is split nevertheless.
        whole_frames: bool,
    },
    /// A linear change from one rate to another.
    Ramp {
        /// Bits per second at the beginning.
        from_bps: u64,
        /// Bits per second at the end.
        to_bps: u64,
        /// How long the change takes, in ns.
        duration_ns: u64,
        /// Time between rate changes, in ns.
        step_ns: u64,
        /// What follows the end of the ramp.
        end: TraceEnd,
    },
    /// A sine around a mean.
    Sine {
        /// Mean, in bits per second.
        mean_bps: u64,
        /// Largest deviation from the mean rate, in bits per second.
        amplitude_bps: u64,
        /// Time from one peak to the next, in ns.
        period_ns: u64,
        /// Time between rate changes, in ns.
        step_ns: u64,
    },
    /// A Markov chain: states that follow each other at random, each with its own rate.
    Markov {
        /// The states; the chain starts in the first state.
        states: Vec<MarkovState>,
    },
    /// An Ornstein–Uhlenbeck process: a rate that wanders and is drawn back to its mean.
    OrnsteinUhlenbeck {
        /// Mean, in bits per second.
        mean_bps: u64,
        /// Long-run standard deviation of the rate, in bits per second.
        sd_bps: u64,
        /// Time in ns after which half of a deviation has decayed.
        half_life_ns: u64,
        /// Minimum rate in bits per second.
        min_bps: u64,
        /// Maximum rate in bits per second.
        max_bps: u64,
        /// Time between rate changes, in ns.
        step_ns: u64,
    },
    /// A user model.
    User(RateFactory),
}

/// What follows the end of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceEnd {
    /// The trace repeats.
    #[default]
    Loop,
    /// The last value of the trace, or the last gap between opportunities, continues to apply.
    Hold,
    /// Nothing: a line stops, a delay is 0.
    Once,
}

/// A rate and the time from which it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStep {
    /// Start of the rate, in ns from the beginning of the trace.
    pub at_ns: u64,
    /// Bits per second; 0 stops the line.
    pub bps: u64,
}

/// A time slot in which the line runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSlot {
    /// Start of the slot, in ns from the beginning of the period.
    pub start_ns: u64,
    /// Length of the slot, in ns.
    pub len_ns: u64,
}

/// A state of a Markov chain of rates.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkovState {
    /// Bits per second; 0 stops the line.
    pub bps: u64,
    /// Mean time in the state, in ns; the time is exponentially distributed.
    pub mean_ns: u64,
    /// Weights of the states that may follow, one per state; the weight of the state itself must
    /// be 0. If the list is empty, all other states are equally likely.
    pub next: Vec<f64>,
}

impl RateSpec {
    /// Maximum number of steps in a ramp, in the period of a sine, or in the half-life of an
    /// Ornstein–Uhlenbeck process.
    pub const MAX_STEPS: u64 = 1_000_000;
    /// Maximum number of states of a chain.
    pub const MAX_STATES: usize = 100;

    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] that names the first invalid field.
    pub fn check(&self) -> Result<(), SpecError> {
        match self {
            Self::Unlimited | Self::User(_) => Ok(()),
            Self::Constant { bps } => at_least("bps", *bps, 1, "bit/s"),
            Self::Opportunities { at_ns, mtu, .. } => check_opportunities(at_ns, *mtu),
            Self::Steps { steps, period_ns, end } => check_steps(steps, *period_ns, *end),
            Self::Slots { bps, period_ns, slots, .. } => check_slots(*bps, *period_ns, slots),
            Self::Ramp { from_bps, to_bps, duration_ns, step_ns, .. } => {
                at_least("from_bps", *from_bps, 1, "bit/s")?;
                at_least("to_bps", *to_bps, 1, "bit/s")?;
                check_grid("duration_ns", *duration_ns, *step_ns)?;
                check_step("duration", *duration_ns, *step_ns)
            }
            Self::Sine { mean_bps, amplitude_bps, period_ns, step_ns } => {
                at_least("mean_bps", *mean_bps, 1, "bit/s")?;
                if amplitude_bps > mean_bps {
                    return Err(SpecError::new("amplitude_bps", amplitude_bps, "at most the mean"));
                }
                check_grid("period_ns", *period_ns, *step_ns)?;
                check_step("period", *period_ns, *step_ns)?;
                check_work("step_ns", *step_ns, *mean_bps)
            }
            Self::Markov { states } => check_states(states),
            Self::OrnsteinUhlenbeck {
                mean_bps, half_life_ns, min_bps, max_bps, step_ns, ..
            } => {
                at_least("half_life_ns", *half_life_ns, 1, "ns")?;
                at_least("step_ns", *step_ns, 1, "ns")?;
                check_step("half-life", *half_life_ns, *step_ns)?;
                at_least("mean_bps", *mean_bps, 1, "bit/s")?;
                if min_bps > mean_bps || mean_bps > max_bps {
                    return Err(SpecError::new(
                        "mean_bps",
                        mean_bps,
                        "between minimum and maximum",
                    ));
                }
                check_work("step_ns", *step_ns, *mean_bps)
            }
        }
    }
}

fn check_opportunities(at_ns: &[u64], mtu: u32) -> Result<(), SpecError> {
    filled("at_ns", at_ns)?;
    at_least("mtu", u64::from(mtu), 1, "byte")?;
    if let Some(pair) = at_ns.windows(2).find(|pair| pair[1] < pair[0]) {
        return Err(SpecError::new("at_ns", pair[1], &format!("{} or later", pair[0])));
    }
    at_least("at_ns", at_ns[at_ns.len() - 1], 1, "ns as the last time")
}

fn check_steps(steps: &[RateStep], period_ns: u64, end: TraceEnd) -> Result<(), SpecError> {
    filled("steps", steps)?;
    if let Some(pair) = steps.windows(2).find(|pair| pair[1].at_ns <= pair[0].at_ns) {
        let allowed = format!("later than {}", pair[0].at_ns);
        return Err(SpecError::new("steps.at_ns", pair[1].at_ns, &allowed));
    }
    if end == TraceEnd::Loop && steps.iter().all(|step| step.bps == 0) {
        return Err(SpecError::new("steps.bps", 0, "a rate above 0 in at least one step"));
    }
    above("period_ns", period_ns, steps[steps.len() - 1].at_ns, "ns")
}

fn check_slots(bps: u64, period_ns: u64, slots: &[RateSlot]) -> Result<(), SpecError> {
    at_least("bps", bps, 1, "bit/s")?;
    filled("slots", slots)?;
    let mut free_ns = 0;
    for slot in slots {
        at_least("slots.start_ns", slot.start_ns, free_ns, "ns, the end of the slot before,")?;
        at_least("slots.len_ns", slot.len_ns, 1, "ns")?;
        free_ns = slot.start_ns.saturating_add(slot.len_ns);
    }
    at_least("period_ns", period_ns, free_ns, "ns, the end of the last slot,")
}

fn check_states(states: &[MarkovState]) -> Result<(), SpecError> {
    filled("states", states)?;
    if states.iter().all(|state| state.bps == 0) {
        return Err(SpecError::new("states.bps", 0, "a rate above 0 in at least one state"));
    }
    for (own, state) in states.iter().enumerate() {
        at_least("states.mean_ns", state.mean_ns, 1, "ns")?;
        check_weights(own, &state.next, states.len())?;
    }
    let count = states.len() as u128;
    if states.len() > RateSpec::MAX_STATES {
        let allowed = format!("{} states at most", RateSpec::MAX_STATES);
        return Err(SpecError::new("states", count, &allowed));
    }
    let times_ns = states.iter().map(|state| u128::from(state.mean_ns)).sum::<u128>();
    let work = states.iter().map(|state| u128::from(state.bps) * u128::from(state.mean_ns));
    let (mean_ns, bps) = (times_ns / count, work.sum::<u128>() / times_ns);
    let clamp = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
    check_work("states.mean_ns", clamp(mean_ns), clamp(bps))
}

/// Bounds the work per frame: a rate that applies for `time_ns` must carry at least one bit in that
/// time, so that the rate changes at most about half a million times during a frame of 64 KiB.
fn check_work(field: &str, time_ns: u64, bps: u64) -> Result<(), SpecError> {
    let least_ns = NANOS_PER_SEC.div_ceil(bps.max(1));
    if time_ns >= least_ns {
        return Ok(());
    }
    let allowed = format!("{least_ns} ns or more, the time of a bit at the mean rate");
    Err(SpecError::new(field, time_ns, &allowed))
}

/// Bounds the number of steps in `whole_ns`.
fn check_step(what: &str, whole_ns: u64, step_ns: u64) -> Result<(), SpecError> {
    let least_ns = whole_ns.div_ceil(RateSpec::MAX_STEPS);
    if step_ns >= least_ns {
        return Ok(());
    }
    let most = RateSpec::MAX_STEPS;
    let allowed = format!("{least_ns} ns or more, so that the {what} has {most} steps at most");
    Err(SpecError::new("step_ns", step_ns, &allowed))
}

fn check_weights(own: usize, next: &[f64], states: usize) -> Result<(), SpecError> {
    if next.is_empty() {
        return Ok(());
    }
    if next.len() != states {
        return Err(SpecError::new("states.next", next.len(), &format!("{states} weights")));
    }
    next.iter().try_for_each(|&weight| within("states.next", weight, 0.0, f64::MAX))?;
    let others: f64 = next.iter().sum();
    if next[own] != 0.0 || !others.is_finite() || others <= 0.0 {
        return Err(SpecError::new(
            "states.next",
            others,
            "0 for the state itself, more for others",
        ));
    }
    Ok(())
}

/// Checks that `step_ns` is not 0, and that `whole_ns` is at least as long as one step.
fn check_grid(field: &str, whole_ns: u64, step_ns: u64) -> Result<(), SpecError> {
    at_least("step_ns", step_ns, 1, "ns")?;
    at_least(field, whole_ns, step_ns, "ns, one step,")
}

/// How the length of a frame on the line follows from its own length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// Bytes added to each frame; negative if bytes are taken away.
    pub overhead_bytes: i32,
    /// Minimum length, including the overhead; shorter frames are padded to it.
    pub min_frame: u32,
    /// How the frame, with its overhead, is divided into cells.
    pub cells: LineCells,
}

/// Cells into which frames are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineCells {
    /// No cells.
    #[default]
    None,
    /// ATM with AAL5: 48 of 53 bytes of a cell are data, and the last cell is padded. The trailer
    /// of 8 bytes belongs to the overhead.
    Atm,
    /// DOCSIS minislots; the last one is padded.
    Docsis {
        /// Bytes per minislot.
        minislot: u32,
    },
}

impl Framing {
    /// No framing.
    pub const NONE: Self = Self { overhead_bytes: 0, min_frame: 0, cells: LineCells::None };
    /// Ethernet: FCS, preamble and inter-frame gap.
    pub const ETHER: Self = Self { overhead_bytes: 24, ..Self::NONE };

    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] if the minislot has 0 bytes, or a length is out of range for a frame.
    pub fn check(&self) -> Result<(), SpecError> {
        let longest = u64::from(MAX_FRAME_LEN);
        at_most("min_frame", u64::from(self.min_frame), longest, "as no frame is longer")?;
        match self.cells {
            LineCells::Docsis { minislot } => {
                at_least("cells.minislot", u64::from(minislot), 1, "byte")?;
                at_most("cells.minislot", u64::from(minislot), longest, "as no frame is longer")
            }
            LineCells::None | LineCells::Atm => Ok(()),
        }
    }

    /// Returns the bytes that a frame of `len` bytes occupies on the line.
    #[inline]
    #[must_use]
    pub fn wire_bytes(&self, len: u32) -> u64 {
        let bytes = i64::from(len) + i64::from(self.overhead_bytes);
        let bytes = bytes.max(i64::from(self.min_frame)) as u64;
        match self.cells {
            LineCells::None => bytes,
            LineCells::Atm => bytes.div_ceil(48) * 53,
            LineCells::Docsis { minislot } => bytes.next_multiple_of(u64::from(minislot)),
        }
    }
}

/// Extra occupation of the line per frame, as in dummynet's profiles: one sample is drawn for each
/// frame.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkProfile {
    /// Extra occupation in ns: samples at equal steps of the cumulative probability, ascending.
    pub samples_ns: Vec<u64>,
    /// Fraction (0 to 1) of the list. Frames that draw one of the samples up to this fraction
    /// arrive. Frames that draw a later sample are lost after they occupied the line.
    pub loss_level: f64,
}

impl LinkProfile {
    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] if there are no samples, or `loss_level` is not within 0 to 1.
    pub fn check(&self) -> Result<(), SpecError> {
        filled("samples_ns", &self.samples_ns)?;
        within("loss_level", self.loss_level, 0.0, 1.0)
    }
}

/// Whether a frame's delay is measured from the end or the start of its serialisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SerialisePoint {
    /// The delay is measured from the frame's last bit.
    #[default]
    End,
    /// The delay is measured from the frame's first bit, as in TLEM. This is correct if the output
    /// port is as slow as the link.
    Start,
}
