//! Components that several engines share: seeded random [`Stream`]s, the exact [`Pacer`], the
//! [`DelayLine`] and the [`Wheel`], times drawn from a [`Dist`] or driven by a [`Correlated`]
//! process, losses in bursts ([`GilbertElliott`], [`FourState`]), active queue management
//! ([`aqm`]), token buckets ([`bucket`]), and numbers written as they were typed ([`decimal`]).
//!
//! Every result depends only on the arguments of this call and of earlier ones. Time is a `u64` of
//! nanoseconds on the caller's clock (monotonic, virtual, or that of a capture file) and is always
//! passed in. Randomness comes from a seed and is the same on every machine. No component sees
//! payload: the delay line carries opaque handles.
//!
//! Not for: reading clocks, sleeping, or cryptographic randomness.
//!
//! ```
//! use slipring_model::{DelayLine, Pacer, Rate, Stream};
//!
//! let mut jitter = Stream::new(42, "example/jitter");
//! let mut pacer = Pacer::new(Rate::PacketsPerSec(1_000_000), 0);
//! let mut line = DelayLine::new();
//! for packet in 0..3 {
//!     let sent_ns = pacer.next(0, 0);
//!     line.push(sent_ns + 500 + jitter.below(10), packet);
//! }
//! let arrived: Vec<u32> = core::iter::from_fn(|| line.pop_due(5_000)).collect();
//! assert_eq!(arrived, [0, 1, 2]);
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod aqm;
pub mod bucket;
mod correlated;
pub mod decimal;
mod delay;
mod dist;
pub mod format;
mod loss;
mod pace;
mod parameter;
mod serial;
#[cfg(test)]
mod statistics;
mod stream;
mod wheel;

pub use correlated::Correlated;
pub use delay::DelayLine;
pub use dist::{CdfPoint, Dist, Playback};
pub use loss::{FourState, GilbertElliott, TimedGilbertElliott};
pub use pace::{Pacer, Rate};
pub use parameter::ParameterError;
pub use serial::{BitRate, LineClock};
pub use stream::{Chance, Draws, Stream};
pub use wheel::Wheel;

/// Nanoseconds in a second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;
