//! The state of an open file's sync loop: running, stopping or neither.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::types::cancel::KloopBell;
use crate::types::lock::lock;

/// Records whether the sync loop of an open file runs, and whether it has to end.
#[derive(Debug, Default)]
pub(crate) struct Kloop {
    state: Mutex<KloopState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct KloopState {
    running: Option<Arc<KloopBell>>,
    /// Whether the end of a loop was requested. As in netmap, a stop while no loop runs ends the
    /// next loop immediately, because the thread that starts the loop may be late.
    stopping: bool,
}

impl Kloop {
    fn lock(&self) -> MutexGuard<'_, KloopState> {
        lock(&self.state)
    }

    /// Marks a loop as running until the returned value is dropped. `bell` wakes it.
    ///
    /// # Errors
    /// [`Errno::BUSY`]: a loop is running.
    pub(crate) fn begin(&self, bell: &Arc<KloopBell>) -> Result<RunningKloop<'_>, Errno> {
        let mut state = self.lock();
        if state.running.is_some() {
            return Err(Errno::BUSY);
        }
        state.running = Some(bell.clone());
        Ok(RunningKloop(self))
    }

    /// Requests the end of the running loop and waits for it. If no loop runs, the next loop ends
    /// immediately.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        if let Some(bell) = &state.running {
            bell.ring();
        }
        let runs = |state: &mut KloopState| state.running.is_some();
        drop(self.ended.wait_while(state, runs).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Marks a loop as running, until the value is dropped.
pub(crate) struct RunningKloop<'k>(&'k Kloop);

impl RunningKloop<'_> {
    /// Returns whether the end of the loop was requested.
    pub(crate) fn is_stopping(&self) -> bool {
        self.0.lock().stopping
    }
}

impl Drop for RunningKloop<'_> {
    fn drop(&mut self) {
        *self.0.lock() = KloopState::default();
        self.0.ended.notify_all();
    }
}
