//! What every program does with its ports: opens them from flags, distributes their queues over
//! threads that end together, counts, and publishes its counters.
//!
//! ```text
//!   flags --> PortOpening --> ports --> Workers: a task per thread --> PollLoop: sync, step, sleep
//!                               '--> PortMeter --> reports, publish
//! ```
//!
//! Not for: the processing of frames.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod captured_run;
pub mod confine;
pub mod files;
pub mod latency;
pub mod meter;
pub mod opening;
pub mod poll_loop;
pub mod publish;
pub mod slots;
mod takeover;
pub mod workers;
