//! Shows and keeps the frames of a port in tcpdump's manner: `slipring dump`, and the plug-in by
//! which Wireshark captures from slipring's ports.
//!
//! ```text
//!   command (flags) --> plan --> run:  source --> filter, direction --> sink
//!                                       |                                |-- show: a line, an object
//!                                       |                                '-- save: pcap, pcapng, rotated
//!                                       |-- an interface that is listened to: nothing is taken
//!                                       |-- a capture
//!                                       '-- any other port, whose frames are taken
//! ```
//!
//! # Invariants
//! 1. Every frame that came is counted: captured, or refused by the filter; what was lost before
//!    it could be counted stands in the report by cause.
//! 2. With `-w -` the standard output has the capture and nothing else.
//!
//! Not for: moving frames on. `--capture` of any command writes what passes its ports.
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
