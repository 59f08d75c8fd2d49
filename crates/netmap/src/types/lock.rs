//! Locks a mutex whatever became of its last holder.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a panic of another thread leaves tables that are valid between any two operations.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
