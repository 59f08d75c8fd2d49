//! Distributes flows over outputs.
//!
//! ```text
//!   frame -> FlowSplitter: hash of its flow -> OutputSpread of group 1: output 3
//!                                           -> OutputSpread of group 2: output 0
//!                         output full? Backlog: kept for later, or dropped and counted
//! ```
//!
//! | part | purpose |
//! |---|---|
//! | [`FlowSplitter`] | a keyed hash of a frame's flow, the same for both directions |
//! | [`OutputSpread`] | selects one of a group's outputs by the hash |
//! | [`Backlog`] | frames that wait for full outputs |
//!
//! # Invariants
//! 1. Frames of one flow go to one output of a group, in order, with or without a backlog.
//! 2. All fragments of a packet go to the same output, as do both directions of a flow.
//! 3. The hash is keyed: a sender that does not know the secret cannot choose the output of its
//!    frames.
//!
//! Not for: connection state, weights, health checks.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod backlog;
mod split;
mod spread;
mod tunnel;

pub use backlog::Backlog;
pub use split::{FlowHash, FlowSplitter};
pub use spread::OutputSpread;
