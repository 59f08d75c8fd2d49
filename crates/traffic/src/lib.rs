//! The engine of the traffic generator: what to send, and what to make of what
//! arrives.
//!
//! | part | what |
//! |---|---|
//! | [`Pattern`] | the frames to send: addresses, ports, protocol, sizes |
//! | [`Generator`] | writes one frame after another into the caller's buffers |
//! | [`Stamp`] | the number and time that a frame carries in its payload |
//! | [`Tracker`] | loss, duplicates, reordering and latency of what arrives |
//! | [`turn_around`] | makes a ping into its pong |
//! | [`ReplayTimeline`] | release times for packets of a capture |
//! | [`Expectations`] | whether a run was good enough, decided exactly |
//!
//! One frame's way: `Generator::write` → (ports, wires) → [`turn_around`] at
//! the far end of a ping → `Tracker::observe`.
//!
//! Everything is a pure function of pattern, seed and the times passed in; the
//! same arguments give the same bytes on every machine. Lengths count from the
//! destination MAC to the end of the payload, without the CRC: 60 here is 64 on
//! the wire.
//!
//! Not for: sockets, rings, threads, clocks, histograms. Those are the caller's.
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
