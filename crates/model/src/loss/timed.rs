//! The Gilbert-Elliott model in continuous time.
//!
//! The state is a function of time: it does not depend on which packets query it or how often. Time
//! is divided into spans of about a thousand state changes, so that the first packet after a long
//! pause need not step through all changes of the pause. The state at the start of each span is
//! drawn from the long-run shares of the states. A state ends at the latest with its span, so about
//! one state in a thousand is shortened.

use crate::{Chance, Draws, ParameterError, Stream};

/// A chain of two states, good and bad, with exponentially distributed durations and a loss
/// probability for each: outages whose duration does not depend on the number of packets.
///
/// The state at time 0 is drawn from the long-run shares.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedGilbertElliott {
    /// The mean durations of the good and of the bad state, in ns.
    mean_ns: [f64; 2],
    lose: [Chance; 2],
    start_bad: Chance,
    bad: bool,
    /// Time at which the current state ends, in ns.
    until_ns: u64,
    span_ns: u64,
    /// Number of the current span, and the random stream that draws its states; `None` before the
    /// first packet.
    span: Option<(u64, Stream)>,
}

/// Mean number of cycles in a span; a cycle is a good state followed by a bad one.
const CYCLES_PER_SPAN: f64 = 512.0;

impl TimedGilbertElliott {
    /// Creates a chain from the mean durations of its states. A packet is lost with probability
    /// `bad` in the bad state, and with probability `good` in the good state.
    ///
    /// # Errors
    /// Returns an error if a mean duration is not a positive, finite number.
    pub fn new(
        mean_good_ns: f64,
        mean_bad_ns: f64,
        bad: Chance,
        good: Chance,
    ) -> Result<Self, ParameterError> {
        let mean_good = ParameterError::positive("mean good time", mean_good_ns)?;
        let mean_bad = ParameterError::positive("mean bad time", mean_bad_ns)?;
        let bad_share = mean_bad / (mean_good + mean_bad);
        Ok(Self {
            mean_ns: [mean_good, mean_bad],
            lose: [good, bad],
            start_bad: Chance::from_f64(bad_share).unwrap_or(Chance::ALWAYS),
            bad: false,
            until_ns: 0,
            span_ns: ((mean_good + mean_bad) * CYCLES_PER_SPAN).max(1.0) as u64,
            span: None,
        })
    }

    /// Returns whether a packet at `now_ns` is lost. `states` are the draws for the states, and
    /// `draw` is the draw for the packet. Times must not decrease: an earlier time counts as the
    /// latest one.
    #[inline]
    pub fn lost_at(&mut self, now_ns: u64, states: Draws, draw: u64) -> bool {
        if self.until_ns <= now_ns || self.span.is_none() {
            self.advance(now_ns, states);
        }
        self.lose[usize::from(self.bad)].covers(draw)
    }

    /// Returns whether the chain was in its bad state at the last packet.
    #[must_use]
    pub const fn is_bad(&self) -> bool {
        self.bad
    }

    /// The share of time in the bad state in the long run.
    #[must_use]
    pub fn bad_share(&self) -> f64 {
        self.start_bad.to_f64()
    }

    /// The share of packets lost in the long run if packets arrive at times that are independent of
    /// the states.
    #[must_use]
    pub fn expected_loss(&self) -> f64 {
        let [good, bad] = self.lose.map(Chance::to_f64);
        self.bad_share() * bad + (1.0 - self.bad_share()) * good
    }

    /// The mean number of packets lost in a row, in a flow with one packet every `gap_ns`; 0 if no
    /// packet is ever lost, infinite if every packet is.
    #[must_use]
    pub fn mean_burst(&self, gap_ns: f64) -> f64 {
        let share = self.bad_share();
        let relaxed = -libm::expm1(-gap_ns * (1.0 / self.mean_ns[0] + 1.0 / self.mean_ns[1]));
        let (p, r) = (share * relaxed, (1.0 - share) * relaxed);
        let [good, bad] = self.lose.map(Chance::to_f64);
        let starts = (1.0 - share) * (1.0 - good) * ((1.0 - p) * good + p * bad)
            + share * (1.0 - bad) * ((1.0 - r) * bad + r * good);
        super::burst(self.expected_loss(), starts)
    }

    #[cold]
    fn advance(&mut self, now_ns: u64, states: Draws) {
        let number = now_ns / self.span_ns;
        let end_ns = (number + 1).saturating_mul(self.span_ns);
        let mut stream = match self.span.take() {
            Some((reached, stream)) if reached == number => stream,
            _ => {
                let mut stream = states.stream(number);
                self.bad = stream.chance(self.start_bad);
                self.until_ns = self.last(number * self.span_ns, &mut stream);
                stream
            }
        };
        while self.until_ns <= now_ns && self.until_ns < u64::MAX {
            self.bad = !self.bad;
            self.until_ns = self.last(self.until_ns, &mut stream);
        }
        // A state ends with its span, because the state at the start of the next span is drawn
        // separately.
        self.until_ns = self.until_ns.min(end_ns);
        self.span = Some((number, stream));
    }

    /// Draws the end, in ns, of the state that starts at `start_ns`. The end is never before the
    /// start.
    fn last(&self, start_ns: u64, stream: &mut Stream) -> u64 {
        let time_ns = -self.mean_ns[usize::from(self.bad)] * libm::log(1.0 - stream.next_f64());
        start_ns.saturating_add(libm::rint(time_ns) as u64)
    }
}
