//! Tells whether a frame was seen a moment ago.
//!
//! ```text
//!   offer ->  [ fresh frame | ... | fresh frame ]  -> forgotten, or handed out (hold mode)
//!   newest end                       oldest end: too old, or one too many
//! ```
//!
//! A frame is a *duplicate* when a frame of the same bytes was accepted no longer ago than the
//! window, and no more than so many frames ago. Duplicates do not count as accepted, so copies that
//! keep coming pass once per window.
//!
//! # Invariants
//! 1. Frames are equal when all their bytes are: the hash only finds candidates.
//! 2. The hash is keyed by the caller's secret, so nobody can prepare frames that collide.
//! 3. Memory is bounded: what does not fit leaves early, and is counted.
//!
//! Everything is a function of the frames, the times passed in and the secret.
//!
//! Not for: clocks, rings, or frames that differ in a byte and mean the same.
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
