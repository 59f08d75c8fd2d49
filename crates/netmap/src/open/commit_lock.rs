//! A lock between changes of a domain and the thread that saves its state: many changes may run in
//! parallel, or one save.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::types::lock::lock;

/// A lock held by any number of changes, or by one thread that saves the state.
#[derive(Debug, Default)]
pub(crate) struct CommitLock {
    state: Mutex<CommitLockState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct CommitLockState {
    changes: usize,
    /// Threads that save or wait to save. They take precedence over new changes; otherwise a busy
    /// user's state might never be saved.
    writers: usize,
    writing: bool,
}

/// A change in progress.
#[derive(Debug)]
pub(crate) struct ChangeGuard(Arc<CommitLock>);

/// Excludes all changes while it lives.
pub(crate) struct ExclusiveGuard<'t>(&'t CommitLock);

impl CommitLock {
    /// Begins a change. Waits while a thread saves or waits to save.
    pub(crate) fn begin(this: &Arc<Self>) -> ChangeGuard {
        let busy = |now: &mut CommitLockState| now.writers > 0;
        let now = this.changed.wait_while(lock(&this.state), busy);
        now.unwrap_or_else(PoisonError::into_inner).changes += 1;
        ChangeGuard(this.clone())
    }

    /// Blocks new changes until the returned guard is dropped, and waits until no change and no
    /// other save is in progress.
    pub(crate) fn lock_exclusive(&self) -> ExclusiveGuard<'_> {
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
