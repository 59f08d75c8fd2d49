//! The model of Gilbert and Elliott in continuous time.

use crate::{Chance, ParameterError, Stream};

/// Two states, good and bad, that last exponentially distributed times, each
/// with its own chance of loss: outages that last as long however many packets
/// they meet.
///
/// The state at the first packet is drawn with the shares of the long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedGilbertElliott {
    /// How long the good state lasts on average, then the bad one.
    mean_ns: [f64; 2],
    lose: [Chance; 2],
    start_bad: Chance,
    bad: bool,
    /// When the state ends; none before the first packet.
    until_ns: Option<u64>,
}

impl TimedGilbertElliott {
    /// Makes a chain by the mean times that its states last; packets are lost
    /// with `bad` in the bad state and with `good` in the good one.
    ///
    /// # Errors
    /// If a mean time is not positive, or no number.
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
            until_ns: None,
        })
    }

    /// Whether a packet at `now_ns` is lost. Times must not go back; one that
    /// does finds the state that was reached already.
    #[inline]
    pub fn lost_at(&mut self, now_ns: u64, stream: &mut Stream) -> bool {
        if self.until_ns.is_none_or(|until_ns| until_ns <= now_ns) {
            self.advance(now_ns, stream);
        }
        stream.chance(self.lose[usize::from(self.bad)])
    }

    /// Whether the chain was in its bad state at the last packet.
    #[must_use]
    pub const fn is_bad(&self) -> bool {
        self.bad
    }

    /// The share of time in the bad state, in the long run.
    #[must_use]
    pub fn bad_share(&self) -> f64 {
        self.start_bad.to_f64()
    }

    /// The share of packets lost in the long run, when their times have nothing
    /// to do with the states.
    #[must_use]
    pub fn expected_loss(&self) -> f64 {
        let [good, bad] = self.lose.map(Chance::to_f64);
        self.bad_share() * bad + (1.0 - self.bad_share()) * good
    }

    /// How many packets of a flow with one packet every `gap_ns` are lost in a
    /// row on average; 0 when none are, infinite when all are.
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
    fn advance(&mut self, now_ns: u64, stream: &mut Stream) {
        // After so long a gap nothing is left of the old state in 2⁶⁴ draws.
        let forgotten_ns = 64.0 * (self.mean_ns[0] + self.mean_ns[1]);
        let mut until_ns = match self.until_ns {
            Some(until_ns) if ((now_ns - until_ns) as f64) < forgotten_ns => {
                self.bad = !self.bad;
                self.last(until_ns, stream)
            }
            _ => {
                self.bad = stream.chance(self.start_bad);
                self.last(now_ns, stream)
            }
        };
        while until_ns <= now_ns {
            self.bad = !self.bad;
            until_ns = self.last(until_ns, stream);
        }
        self.until_ns = Some(until_ns);
    }

    /// When the state that holds from `start_ns` on ends.
    fn last(&self, start_ns: u64, stream: &mut Stream) -> u64 {
        let time_ns = -self.mean_ns[usize::from(self.bad)] * libm::log(1.0 - stream.next_f64());
        start_ns.saturating_add(libm::rint(time_ns) as u64)
    }
}
