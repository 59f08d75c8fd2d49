//! Loss that comes in bursts: Markov chains that lose packets in some of their
//! states.
//!
//! Not for: independent losses, for which [`Stream::chance`](crate::Stream::chance)
//! is all one needs.

mod four_state;
mod gilbert;
#[cfg(test)]
mod tests;
mod timed;

pub use four_state::FourState;
pub use gilbert::GilbertElliott;
pub use timed::TimedGilbertElliott;

/// The mean length of bursts of which `starts` begin per packet, when the
/// share `lost` of all packets is lost.
fn burst(lost: f64, starts: f64) -> f64 {
    if lost == 0.0 { 0.0 } else { lost / starts }
}
