//! Who may change a domain and who may write it down, and what is to be written that no list of
//! names has: the open files.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use slipring_ring::Region;

use crate::domain::{Domain, lock};
use crate::open::{OpenFile, OpenHandle};
use crate::request::NetmapRequest;
use crate::restart::state::DomainState;
use crate::restart::{AnsweredCall, FdStore, Ledger, ledger_name, memory_name};

/// The part of a domain that is there for the process that follows.
#[derive(Debug)]
pub(crate) struct CommitLog {
    uid: u32,
    store: Option<Arc<dyn FdStore>>,
    lock: Arc<CommitLock>,
    files: Mutex<BTreeMap<u64, Arc<OpenFile>>>,
}

impl CommitLog {
    /// Whether a process may follow this one.
    pub(crate) fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// Keeps both files, if there is a store.
    pub(super) fn store_files(&self, memory: &OwnedFd, ledger: &Ledger) {
        if let Some(store) = &self.store {
            store.store(&memory_name(self.uid), memory.as_fd());
            store.store(&ledger_name(self.uid), ledger.file());
        }
    }

    pub(crate) fn new(
        uid: u32,
        memory: &OwnedFd,
        ledger: &Ledger,
        store: Option<Arc<dyn FdStore>>,
    ) -> Self {
        let book = Self { uid, store, lock: Arc::default(), files: Mutex::default() };
        book.store_files(memory, ledger);
        book
    }

    /// The open files.
    pub(super) fn files(&self) -> Vec<Arc<OpenFile>> {
        lock(&self.files).values().cloned().collect()
    }
}

impl Drop for CommitLog {
    fn drop(&mut self) {
        if let Some(store) = &self.store {
            store.remove(&memory_name(self.uid));
            store.remove(&ledger_name(self.uid));
        }
    }
}

impl Domain {
    /// Where words are kept for the process that follows; `None` where there is no store.
    pub(crate) fn persistent_words(&self) -> Option<&Arc<Region>> {
        self.commit_log.store.as_ref().map(|_| self.ledger.words_region())
    }

    /// A word of the front's own, kept with the domain; there are sixteen.
    ///
    /// # Panics
    /// If there is none of this number.
    #[must_use]
    pub fn front_word(&self, i: usize) -> &std::sync::atomic::AtomicU64 {
        self.ledger.front_word(i)
    }

    /// A file was opened.
    pub(crate) fn register_file(&self, file: &Arc<OpenFile>) {
        if let Some(kept) = &file.persisted {
            lock(&self.commit_log.files).insert(kept.open_id.handle, file.clone());
        }
    }

    /// It is being closed.
    pub(crate) fn unregister_file(&self, handle: u64) {
        let left = lock(&self.commit_log.files).remove(&handle);
        drop(left);
    }

    /// Begins a change, which is over when this is dropped; `None` where nothing is written down.
    pub(crate) fn begin_change(&self) -> Option<ChangeGuard> {
        self.commit_log.store.as_ref().map(|_| CommitLock::begin(&self.commit_log.lock))
    }

    /// Writes down what there is now.
    pub(crate) fn commit(&self) {
        if self.commit_log.store.is_none() {
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

impl OpenHandle {
    /// Answers a request as it was answered before a restart, if it is the same.
    pub(crate) fn replay_answer(&self, request: &mut NetmapRequest) -> bool {
        let Some(kept) = &self.persisted else { return false };
        let answered = lock(&kept.last_answer);
        let Some(same) = answered.as_ref().filter(|one| Some(one.call) == request.call) else {
            return false;
        };
        request.body.clone_from(&same.body);
        request.options.apply_granted(&same.options);
        true
    }

    /// Notes what a request is going to be answered.
    pub(crate) fn record_answer(&self, request: &NetmapRequest) {
        if let (Some(kept), Some(call)) = (&self.persisted, request.call) {
            let (body, options) = (request.body.clone(), request.options.granted_options());
            *lock(&kept.last_answer) = Some(AnsweredCall { call, body, options });
        }
    }
}

/// Any number of changes at the same time, or one who writes down.
#[derive(Debug, Default)]
struct CommitLock {
    state: Mutex<CommitLockState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct CommitLockState {
    changes: usize,
    /// Those who want to write down: they go first, or a busy user would never be written.
    writers: usize,
    writing: bool,
}

/// A change under way.
#[derive(Debug)]
pub(crate) struct ChangeGuard(Arc<CommitLock>);

/// Nobody changes anything.
struct ExclusiveGuard<'t>(&'t CommitLock);

impl CommitLock {
    fn begin(turns: &Arc<Self>) -> ChangeGuard {
        let busy = |now: &mut CommitLockState| now.writers > 0;
        let now = turns.changed.wait_while(lock(&turns.state), busy);
        now.unwrap_or_else(PoisonError::into_inner).changes += 1;
        ChangeGuard(turns.clone())
    }

    fn lock_exclusive(&self) -> ExclusiveGuard<'_> {
        let mut now = lock(&self.state);
        now.writers += 1;
        let busy = |now: &mut CommitLockState| now.changes > 0 || now.writing;
        let now = self.changed.wait_while(now, busy);
        now.unwrap_or_else(PoisonError::into_inner).writing = true;
        ExclusiveGuard(self)
    }
}

impl Drop for ChangeGuard {
    fn drop(&mut self) {
        lock(&self.0.state).changes -= 1;
        self.0.changed.notify_all();
    }
}

impl Drop for ExclusiveGuard<'_> {
    fn drop(&mut self) {
        let mut now = lock(&self.0.state);
        (now.writers, now.writing) = (now.writers - 1, false);
        drop(now);
        self.0.changed.notify_all();
    }
}
