//! Prints and saves the frames of a port as tcpdump does: `slipring dump`, and the plug-in by which
//! Wireshark captures from slipring's ports.
//!
//! ```text
//! command (flags) --> plan --> run: source --> filter, direction --> sink
//!                                    |                                |-- show: a line, an object
//!                                    |                                '-- save: pcap, pcapng
//!                                    |-- an interface to listen on: no frames are taken
//!                                    |-- a capture
//!                                    '-- any other port, whose frames are taken
//! ```
//!
//! # Invariants
//! 1. Every frame that reached the filter is counted as received, and every frame that was printed
//!    or saved, or that `--count` only counts, is also counted as captured. Frames lost before that
//!    are in the report, by cause.
//! 2. With `-w -`, stdout contains only the capture.
//!
//! Not for: forwarding frames. `--capture` of any command writes the frames of its ports.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod command;
pub mod extcap;
pub mod listing;
pub mod metrics;
mod plan;
mod run;
pub mod save;
pub mod select;
pub mod show;
mod sink;
pub mod source;
mod stamp;
#[cfg(test)]
mod tests;

pub use command::command;
pub use plan::{FrameOrigin, from_port, plan, port_by_name};
