//! Detects duplicates: frames with the same bytes as a frame that was accepted a short time before.
//!
//! ```text
//!   offer ->  [ fresh frame | ... | fresh frame ]  -> forgotten, or sent (hold mode)
//!   newest end                       oldest end: too old, or beyond the limit
//! ```
//!
//! A frame is a *duplicate* if a frame with the same bytes was accepted within the window's time
//! and within its number of frames. Duplicates do not count as accepted. So if copies of a frame
//! keep arriving, one copy per window is accepted.
//!
//! # Invariants
//! 1. Frames are equal if all their bytes are: the hash only finds candidates.
//! 2. The hash is keyed by the caller's secret, so an attacker cannot construct colliding frames.
//! 3. Memory is bounded: frames beyond the limit of bytes leave early, and are counted. In hold
//!    mode, the caller must remove frames before the window accepts more.
//!
//! The engine is a pure function of the frames, the times passed in and the secret.
//!
//! This crate reads no clock and no ring, and does not recognise duplicates that differ in a byte.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod dedup;
mod limits;
mod store;

pub use dedup::{Dedup, DedupCounters, DedupVerdict};
pub use limits::{DedupLimitError, DedupLimits};
