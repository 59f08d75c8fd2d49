//! Restart without loss of state: how a daemon that was killed leaves the domains of its users to
//! its successor.
//!
//! ```text
//!   store (outlives process)   this process                              after a kill
//!   memory of a user   <---->  Domain: regions, rings, buffers   ---->   unchanged
//!   ledger of a user   <-----  commit: DomainState, each change  ---->   Domain::resume
//!                      <---->  words: progress of pipes          ---->   Pipe::resume
//! ```
//!
//! Every change that a request makes is written to the user's ledger, as a complete state
//! ([`DomainState`](crate::types::state::DomainState)). The write comes after the change and before
//! the answer to the request. If the daemon is killed between the change and the write, the change
//! has no effect: no program has received an answer, and the kernel sends the request again, to the
//! successor. Syncs do not write a state. They record their progress in persistent words, in an
//! order that keeps the words consistent at every instruction.
//!
//! # Invariants
//! 1. A state is never written in the middle of a change: each change holds a [`ChangeGuard`], and
//!    `Domain::commit` waits until there is none.
//! 2. A ledger is not trusted: if it is inconsistent, it is refused as a whole.

mod capture;
mod commit;
mod resume;

use std::os::fd::OwnedFd;

use crate::memory::ledger::Ledger;

pub use resume::ResumedDomain;

/// One user's data from a store.
#[derive(Debug)]
pub struct RecoveredDomain {
    /// The ID of the user who owns the domain.
    pub uid: u32,
    /// The file that programs map.
    pub memory: OwnedFd,
    /// The ledger: the saved state that describes the memory file.
    pub ledger: OwnedFd,
}

impl RecoveredDomain {
    /// Returns whether no state was ever written to the ledger; then no program uses the domain.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        Ledger::is_blank(&self.ledger)
    }
}

/// The reason why a saved state cannot be resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeError(pub String);

impl std::fmt::Display for ResumeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ResumeError {}
