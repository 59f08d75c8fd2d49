//! Losses in bursts: Markov chains that lose packets in some of their states.
//!
//! Not for: independent losses, for which [`Stream::chance`](crate::Stream::chance) suffices.

mod four_state;
mod gilbert;
#[cfg(test)]
mod tests;
mod timed;

pub use four_state::FourState;
pub use gilbert::GilbertElliott;
pub use timed::TimedGilbertElliott;

/// Returns the mean length of bursts. `lost` is the share of packets that are lost, and `starts`
/// is the share of packets that start a burst.
fn burst(lost: f64, starts: f64) -> f64 {
    if lost == 0.0 { 0.0 } else { lost / starts }
}
