//! Distributions of a random time.
//!
//! A [`Dist`] is a quantile function: it turns one of 2⁶⁴ equally likely numbers (a draw) into a
//! time in whole nanoseconds. The draws come from a [`Stream`] or [`Draws`](crate::Draws), where
//! they are independent, or from a [`Correlated`] process, where they change slowly with time. In
//! both cases, the times have the same distribution.
//!
//! # Guarantees
//! 1. Times are never negative. The part of a normal law below 0 is never drawn.
//! 2. A range ([`Dist::within`]) is a condition: within the range all proportions stay the same, as
//!    if values outside were drawn again until one fits. Values do not accumulate at the ends, as
//!    they would with clamping. Mean and deviation change; [`Dist::mean_ns`] and [`Dist::sd_ns`]
//!    return the new ones.
//! 3. Each time takes exactly one number from its stream, whatever the law, so another law does not
//!    change later decisions made with the same stream.
//! 4. The same draws give the same times on every machine.
//!
//! Tables in netem's format are an exception to guarantee 2, at zero: as in netem, values below 0
//! become 0.
//!
//! Not for correlation between draws (see [`Correlated`]), or values that are played back in order
//! (see [`Playback`]).
//!
//! [`Correlated`]: crate::Correlated

mod discrete;
mod explain;
mod gamma;
mod law;
mod law_table;
mod make;
pub(crate) mod normal;
mod segments;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;

use discrete::DiscreteValues;
pub use discrete::Playback;
pub(crate) use law::Tail;
use law_table::LawTable;
pub use segments::CdfPoint;
use segments::CdfSegments;

use crate::Stream;

/// A distribution of times in nanoseconds.
///
/// Tables are shared between clones, so ten thousand clones cost little.
///
/// ```
/// use slipring_model::{Dist, Stream};
///
/// let delay = Dist::normal(20e6, 3e6)?.within(15e6, 40e6)?;
/// let mut stream = Stream::new(7, "example/delay");
/// let drawn = delay.sample_ns(&mut stream);
/// assert!((15_000_000..=40_000_000).contains(&drawn));
/// assert!(delay.mean_ns() > 20e6, "the range cuts off more below than above");
/// # Ok::<(), slipring_model::ParameterError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Dist(DistKind);

/// The computation that turns a draw into a time.
#[derive(Clone, Debug, PartialEq)]
enum DistKind {
    Constant(u64),
    /// `low..=high`, every nanosecond equally likely.
    Uniform {
        low: u64,
        high: u64,
    },
    Law(Arc<LawTable>),
    Segments(Arc<CdfSegments>),
    Discrete(Arc<DiscreteValues>),
}

impl Dist {
    /// Draws a time, in ns.
    #[inline]
    pub fn sample_ns(&self, stream: &mut Stream) -> u64 {
        self.at(stream.next_u64())
    }

    /// Replaces each draw in `draws` by its time in ns, as [`Self::at`] does.
    #[inline]
    pub fn all_at(&self, draws: &mut [u64]) {
        match &self.0 {
            // This is the most common kind. Its match is outside the loop, so that the loop
            // contains no dispatch.
            DistKind::Law(smooth) => draws.iter_mut().for_each(|draw| *draw = smooth.at(*draw)),
            _ => draws.iter_mut().for_each(|draw| *draw = self.at(*draw)),
        }
    }

    /// Returns the time for `draw`, in ns. This is the quantile function in integers, rounded to
    /// the nearest nanosecond: greater draws give greater or equal times.
    #[inline]
    #[must_use]
    pub fn at(&self, draw: u64) -> u64 {
        match &self.0 {
            DistKind::Constant(ns) => *ns,
            DistKind::Uniform { low, high } => {
                let choices = u128::from(high - low) + 1;
                low + ((u128::from(draw) * choices) >> 64) as u64
            }
            DistKind::Law(smooth) => smooth.at(draw),
            DistKind::Segments(segments) => segments.at(draw),
            DistKind::Discrete(picks) => picks.at(draw),
        }
    }
}
