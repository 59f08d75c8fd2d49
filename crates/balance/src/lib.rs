//! Spreads flows over outputs.
//!
//! ```text
//!   frame -> Splitter: hash of its flow -> Spread of group 1: output 3
//!                                       -> Spread of group 2: output 0
//!                     output full? Backlog: kept for later, or counted
//! ```
//!
//! | part | what |
//! |---|---|
//! | [`FlowSplitter`] | a keyed hash of a frame's flow, the same for both directions |
//! | [`OutputSpread`] | which of a group's outputs a hash belongs to |
//! | [`Backlog`] | frames that wait for outputs which are full |
//!
//! # Invariants
//! 1. Frames of one flow go to one output of a group, in order, backlog or not.
//! 2. All fragments of a packet go the same way, and so do both directions of a flow.
//! 3. The hash is keyed: who does not know the secret cannot aim at an output.
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
