//! The four-state Markov chain that netem calls `loss state`.

use crate::{Chance, ParameterError, Stream};

/// Bursts in which some packets survive, and single losses outside bursts.
///
/// ```text
///            p13           p32
///   1 gap --------> 3 lost -------> 2 received
///     ^  <--------  in burst <----- in burst
///     |     p31            p23
///     | p14, and back after one packet
///     v
///   4 lost in gap
/// ```
///
/// A new chain is in state 1. The chain makes one step before each packet; the state after the step
/// decides whether the packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FourState {
    state: MarkovLossState,
    p13: Chance,
    p31: Chance,
    p32: Chance,
    p23: Chance,
    p14: Chance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkovLossState {
    Gap,
    ReceivedInBurst,
    LostInBurst,
    LostInGap,
}

impl FourState {
    /// Creates a chain from its transition probabilities, in netem's order.
    ///
    /// # Errors
    /// Returns an error if the transitions out of one state have a total probability above 1: `p13`
    /// and `p14`, or `p31` and `p32`.
    pub fn new(
        p13: Chance,
        p31: Chance,
        p32: Chance,
        p23: Chance,
        p14: Chance,
    ) -> Result<Self, ParameterError> {
        let exclusive = |name, a: Chance, b: Chance| {
            let fits = a.or_else(b).is_some();
            ParameterError::unless(fits, name, "at most 1", a.to_f64() + b.to_f64())
        };
        exclusive("p13 + p14", p13, p14)?;
        exclusive("p31 + p32", p31, p32)?;
        Ok(Self { state: MarkovLossState::Gap, p13, p31, p32, p23, p14 })
    }

    /// Returns whether the next packet is lost. Draws exactly once.
    #[inline]
    pub fn lost(&mut self, stream: &mut Stream) -> bool {
        self.lost_by(stream.next_u64())
    }

    /// Returns whether the next packet is lost; `draw` is a number from [`Stream::next_u64`].
    #[inline]
    pub fn lost_by(&mut self, draw: u64) -> bool {
        let transitions = match self.state {
            MarkovLossState::Gap => {
                [(self.p14, MarkovLossState::LostInGap), (self.p13, MarkovLossState::LostInBurst)]
            }
            MarkovLossState::ReceivedInBurst => [
                (self.p23, MarkovLossState::LostInBurst),
                (Chance::NEVER, MarkovLossState::LostInBurst),
            ],
            MarkovLossState::LostInBurst => {
                [(self.p32, MarkovLossState::ReceivedInBurst), (self.p31, MarkovLossState::Gap)]
            }
            MarkovLossState::LostInGap => {
                [(Chance::ALWAYS, MarkovLossState::Gap), (Chance::NEVER, MarkovLossState::Gap)]
            }
        };
        if let Some(chosen) = Stream::choose(draw, [transitions[0].0, transitions[1].0]) {
            self.state = transitions[chosen].1;
        }
        matches!(self.state, MarkovLossState::LostInBurst | MarkovLossState::LostInGap)
    }

    /// The share of packets lost in the long run.
    #[must_use]
    pub fn expected_loss(&self) -> f64 {
        let [_, _, in_burst, in_gap] = self.shares();
        in_burst + in_gap
    }

    /// The mean number of packets lost in a row in the long run; 0 if none is lost in the long
    /// run, infinite if all are.
    #[must_use]
    pub fn mean_burst(&self) -> f64 {
        let [gap, received, ..] = self.shares();
        let starts = gap * (self.p13.to_f64() + self.p14.to_f64()) + received * self.p23.to_f64();
        super::burst(self.expected_loss(), starts)
    }

    /// The long-run shares of the four states, for a chain that starts in state 1.
    fn shares(&self) -> [f64; 4] {
        let [p13, p31, p32, p23, p14] =
            [self.p13, self.p31, self.p32, self.p23, self.p14].map(Chance::to_f64);
        if p13 == 0.0 {
            return normalised([1.0, 0.0, 0.0, p14]);
        }
        if p32 > 0.0 && p23 == 0.0 {
            // The chain never leaves state 2.
            return [0.0, 1.0, 0.0, 0.0];
        }
        let received = if p32 > 0.0 { p32 / p23 } else { 0.0 };
        if p31 == 0.0 {
            // Once the chain is in a burst, it never returns to states 1 and 4.
            return normalised([0.0, received, 1.0, 0.0]);
        }
        let lost = p13 / p31;
        normalised([1.0, lost * received, lost, p14])
    }
}

fn normalised(weights: [f64; 4]) -> [f64; 4] {
    let sum: f64 = weights.iter().sum();
    weights.map(|weight| weight / sum)
}
