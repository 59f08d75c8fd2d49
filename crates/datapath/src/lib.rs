//! The handling of ports, which all programs share. Opens ports from flags, distributes their
//! queues over threads that end together, counts frames, and publishes the counters.
//!
//! ```text
//!   flags --> PortOpening --> ports --> WorkerQueues + the program's FrameProcessor = Worker
//!                               |            its loop: wait, process bursts, ..., drain
//!                               |         Workers: a thread for each, signals, the end
//!                               '--> PortMeter --> reports, publish
//! ```
//!
//! Not for: the processing of frames.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod captured_run;
pub mod confine;
pub mod control_queue;
pub mod environment;
pub mod files;
pub mod latency;
pub mod links;
pub mod meter;
pub mod opening;
pub mod publish;
pub mod queues;
pub mod slots;
mod takeover;
pub mod virtual_time;
pub mod worker;
pub mod workers;

pub use takeover::opens_taken_card;
