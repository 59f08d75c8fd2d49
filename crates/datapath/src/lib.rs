//! What every program does with its ports: opens them by its flags, gives their queues to threads
//! that end together, counts, and shows its counters to whoever looks.
//!
//! ```text
//!   flags --> Opening --> ports --> Workers: a Task per thread --> Mover: sync, step, sleep
//!                           '--> Meter --> reports, publish
//! ```
//!
//! Not for: what a program does to frames.
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
