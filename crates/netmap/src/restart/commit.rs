//! Commits changes of a domain to its ledger.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use slipring_ring::Region;

use crate::open::commit_lock::{ChangeGuard, CommitLock};
use crate::open::domain::Domain;
use crate::types::state::DomainState;

impl Domain {
    /// Returns the region for persistent words; `None` if the domain has no store, so that nothing
    /// is saved.
    pub(crate) fn persistent_words(&self) -> Option<&Arc<Region>> {
        self.commit_log.has_store().then(|| self.ledger.words_region())
    }

    /// Returns one of the front's sixteen words, which are saved with the domain.
    ///
    /// # Panics
    /// If `i` is not below sixteen.
    #[must_use]
    pub fn front_word(&self, i: usize) -> &AtomicU64 {
        self.ledger.front_word(i)
    }

    /// Begins a change. It ends when the guard is dropped. `None` if the domain has no store, so
    /// that nothing is saved.
    pub(crate) fn begin_change(&self) -> Option<ChangeGuard> {
        self.commit_log.has_store().then(|| CommitLock::begin(&self.commit_log.lock))
    }

    /// Saves the current state, if the domain has a store.
    pub(crate) fn commit(&self) {
        if !self.commit_log.has_store() {
            return;
        }
        let _alone = self.commit_log.lock.lock_exclusive();
        // The captured references are dropped before other changes continue, because changes count
        // the references to a port.
        let (state, _held) = DomainState::capture(self);
        match postcard::to_stdvec(&state) {
            Ok(bytes) => self.ledger.write(&bytes),
            Err(error) => debug_assert!(false, "{error}: a state has nothing that cannot be said"),
        }
    }
}
