//! Restart without loss: what a daemon that was killed leaves to the one that follows it.
//!
//! ```text
//!   store (outlives us)        this process                              after a kill
//!   memory of a user   <---->  Domain: regions, rings, buffers   ---->   where they were
//!   ledger of a user   <-----  commit: State, after each change  ---->   Domain::resume
//!                      <---->  cells: how far pipes are          ---->   Place::resume
//! ```
//!
//! Everything that requests change is written to the user's ledger as a whole ([`DomainState`](crate::types::state::DomainState)), after
//! the change and before it is answered. What a killed daemon had begun and not written never
//! happened: nobody was told of it, and the front's requests come again. What syncs change they
//! keep in words of their own (cells), in an order that leaves them right at any instruction.
//!
//! # Invariants
//! 1. No state is written while a change is half done: changes hold a [`ChangeGuard`],
//!    `Domain::commit` is alone.
//! 2. Nothing of a ledger is believed: what does not fit together is refused as a whole.

mod capture;
mod commit;
mod resume;

use std::os::fd::OwnedFd;

use crate::memory::ledger::Ledger;

pub use resume::ResumedDomain;

/// One user's part of what a store had.
#[derive(Debug)]
pub struct RecoveredDomain {
    /// The user.
    pub uid: u32,
    /// The file that programs map.
    pub memory: OwnedFd,
    /// What is known about it.
    pub ledger: OwnedFd,
}

impl RecoveredDomain {
    /// Whether nothing was ever written: nobody can know of it.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        Ledger::is_blank(&self.ledger)
    }
}

/// Why what was left cannot be gone on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeError(pub String);

impl std::fmt::Display for ResumeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ResumeError {}
