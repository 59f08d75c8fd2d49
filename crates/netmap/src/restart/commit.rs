//! Commits changes of a domain to its ledger.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use slipring_ring::Region;

use crate::open::commit_lock::{ChangeGuard, CommitLock};
use crate::open::domain::Domain;
use crate::types::state::DomainState;

impl Domain {
    /// Where words are kept for the process that follows; `None` where there is no store.
    pub(crate) fn persistent_words(&self) -> Option<&Arc<Region>> {
        self.commit_log.has_store().then(|| self.ledger.words_region())
    }

    /// A word of the front's own, kept with the domain; there are sixteen.
    ///
    /// # Panics
    /// If there is none of this number.
    #[must_use]
    pub fn front_word(&self, i: usize) -> &AtomicU64 {
        self.ledger.front_word(i)
    }

    /// Begins a change, which is over when this is dropped; `None` where nothing is written down.
    pub(crate) fn begin_change(&self) -> Option<ChangeGuard> {
        self.commit_log.has_store().then(|| CommitLock::begin(&self.commit_log.lock))
    }

    /// Writes down what there is now.
    pub(crate) fn commit(&self) {
        if !self.commit_log.has_store() {
            return;
        }
        let _alone = self.commit_log.lock.lock_exclusive();
        // Given up before others go on, who count how many hold a port.
        let (state, _held) = DomainState::capture(self);
        match postcard::to_stdvec(&state) {
            Ok(bytes) => self.ledger.write(&bytes),
            Err(error) => debug_assert!(false, "{error}: a state has nothing that cannot be said"),
        }
    }
}
