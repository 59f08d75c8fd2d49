//! The Gilbert-Elliott model, one step per packet.

use crate::{Chance, Stream};

/// A chain of two states, good and bad, each with its own loss probability; the state may change
/// after every packet. A new chain is in the good state.
///
/// ```
/// use slipring_model::{Chance, GilbertElliott, Stream};
///
/// let p = |p| Chance::from_f64(p).unwrap();
/// let mut link = GilbertElliott::new(p(0.01), p(0.25), Chance::ALWAYS, Chance::NEVER);
/// assert!((link.expected_loss() - 0.01 / 0.26).abs() < 1e-12);
/// assert!((link.mean_burst() - 4.0).abs() < 1e-12);
/// let mut stream = Stream::new(7, "example/loss");
/// assert!(!link.lost(&mut stream), "the first packet meets the good state");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilbertElliott {
    /// The probabilities of leaving the good state and of leaving the bad state. `lose` holds the
    /// probabilities of losing a packet in these states, in the same order.
    leave: [Chance; 2],
    lose: [Chance; 2],
    bad: bool,
}

impl GilbertElliott {
    /// Creates a chain that after each packet turns from good to bad with probability `p`, and from
    /// bad to good with probability `r`. A packet is lost with probability `bad` in the bad state
    /// (often written 1 - h), and with probability `good` in the good state (1 - k).
    #[must_use]
    pub const fn new(p: Chance, r: Chance, bad: Chance, good: Chance) -> Self {
        Self { leave: [p, r], lose: [good, bad], bad: false }
    }

    /// Returns whether the next packet is lost. Draws exactly twice.
    #[inline]
    pub fn lost(&mut self, stream: &mut Stream) -> bool {
        self.lost_by(stream.next_u64(), stream.next_u64())
    }

    /// Returns whether the next packet is lost. `loss` and `change` are numbers from
    /// [`Stream::next_u64`]: `loss` decides about the packet, `change` about the state change after
    /// it.
    #[inline(always)]
    pub fn lost_by(&mut self, loss: u64, change: u64) -> bool {
        // Both results are computed without a branch, so that no branch is mispredicted.
        let [good, bad] = self.lose.map(|chance| chance.covers(loss));
        let [leave, recover] = self.leave.map(|chance| chance.covers(change));
        let lost = if self.bad { bad } else { good };
        self.bad = if self.bad { !recover } else { leave };
        lost
    }

    /// Returns whether the chain is in its bad state.
    #[must_use]
    pub const fn is_bad(&self) -> bool {
        self.bad
    }

    /// The share of packets, in the long run, that find the chain in the bad state.
    #[must_use]
    pub fn bad_share(&self) -> f64 {
        let [p, r] = self.leave.map(Chance::to_f64);
        if p == 0.0 { f64::from(u8::from(self.bad)) } else { p / (p + r) }
    }

    /// The share of packets lost in the long run.
    #[must_use]
    pub fn expected_loss(&self) -> f64 {
        let bad_share = self.bad_share();
        let [good, bad] = self.lose.map(Chance::to_f64);
        bad_share * bad + (1.0 - bad_share) * good
    }

    /// The mean number of packets lost in a row in the long run; 0 if none is lost in the long
    /// run, infinite if all are.
    #[must_use]
    pub fn mean_burst(&self) -> f64 {
        let [p, r] = self.leave.map(Chance::to_f64);
        let [good, bad] = self.lose.map(Chance::to_f64);
        let bad_share = self.bad_share();
        // A burst starts with a lost packet after a packet that was not lost.
        let starts = (1.0 - bad_share) * (1.0 - good) * ((1.0 - p) * good + p * bad)
            + bad_share * (1.0 - bad) * ((1.0 - r) * bad + r * good);
        super::burst(self.expected_loss(), starts)
    }
}
