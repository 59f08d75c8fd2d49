//! The traffic generator without its ports: writes the frames to send, and analyses received
//! frames.
//!
//! | part | purpose |
//! |---|---|
//! | [`TrafficPattern`] | the frames to send: addresses, ports, protocol, sizes |
//! | [`Generator`] | writes one frame after another into the caller's buffers |
//! | [`Stamp`] | the number and time that a frame contains in its payload |
//! | [`Tracker`] | loss, duplicates, reordering and latency of received frames |
//! | [`turn_around`] | turns a ping into its pong |
//! | [`ReplayTimeline`] | release times for packets of a capture |
//! | [`Expectations`] | exact pass or fail limits for a run |
//!
//! A frame takes this path: `Generator::write` → (ports, wires) → for a ping, [`turn_around`] at
//! the far end → `Tracker::observe`.
//!
//! All results depend only on the pattern, the seed and the times that are passed in. With the same
//! arguments, the bytes are the same on every machine. Lengths are in bytes, from the destination
//! MAC address to the end of the payload, without the CRC. So a length of 60 means 64 on the wire.
//!
//! Not for sockets, rings, threads, clocks or histograms: the caller provides them.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod endpoints;
mod expect;
mod flows;
mod fraction;
mod generator;
mod pattern;
mod pong;
mod replay;
mod sizes;
mod stamp;
mod track;

pub use endpoints::{EndpointError, EndpointFault, Endpoints};
pub use expect::{Expectations, TrafficOutcome, UnmetExpectation};
pub use flows::{EndpointOrder, GeneratorShare};
pub use fraction::{Fraction, FractionError};
pub use generator::Generator;
pub use pattern::{PatternError, TrafficPattern, TrafficProtocol};
pub use pong::turn_around;
pub use replay::ReplayTimeline;
pub use sizes::{SizeError, Sizes};
pub use stamp::{Stamp, StampCheck, StampError, StampForm};
pub use track::{StreamCounters, Tracker, TrackerReport, TrafficCounters};
