//! Sync loops: calls that run until they are stopped or interrupted. Each has its own thread, so no
//! worker or pool thread is blocked. A call ends when the kernel reports that its caller was
//! killed, or has a signal to handle.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slipring_netmap::Cancel;

/// Maximum number of remembered interrupts whose call is unknown. Another worker may have read the
/// call of such an interrupt, but not started it yet. For a call that is not a long call, an
/// interrupt has no effect, because the call ends by itself.
const MAX_EARLY_INTERRUPTS: usize = 1024;

/// The running long calls, by the number of their request.
#[derive(Debug, Default)]
pub(crate) struct LongCalls(Mutex<LongCallTable>);

#[derive(Debug, Default)]
struct LongCallTable {
    running: HashMap<u64, Arc<Cancel>>,
    early_interrupts: VecDeque<u64>,
}

impl LongCalls {
    /// Performs `call` in a separate thread. If no thread can be started, drops `call`.
    pub(crate) fn perform(
        self: &Arc<Self>,
        unique: u64,
        call: impl FnOnce(Arc<Cancel>) + Send + 'static,
    ) {
        let (cancel, all) = (self.begin(unique), self.clone());
        let work = move || {
            drop_realtime();
            call(cancel);
            all.lock().running.remove(&unique);
        };
        let thread = std::thread::Builder::new().name("fuse-loop".into()).spawn(work);
        if thread.is_err() {
            self.lock().running.remove(&unique);
        }
    }

    fn begin(&self, unique: u64) -> Arc<Cancel> {
        let (mut calls, cancel) = (self.lock(), Arc::<Cancel>::default());
        if calls.early_interrupts.contains(&unique) {
            cancel.cancel();
        }
        calls.running.insert(unique, cancel.clone());
        cancel
    }

    /// Cancels the call with request number `unique`, for which its caller no longer waits. If no
    /// such call runs, remembers the interrupt, because the call may start later.
    pub(crate) fn interrupt(&self, unique: u64) {
        let mut calls = self.lock();
        if let Some(cancel) = calls.running.get(&unique) {
            return cancel.cancel();
        }
        calls.early_interrupts.truncate(MAX_EARLY_INTERRUPTS - 1);
        calls.early_interrupts.push_front(unique);
    }

    fn lock(&self) -> MutexGuard<'_, LongCallTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the calling thread leave a real-time scheduling class, if the daemon has one. Otherwise a
/// sync loop could keep a processor busy for as long as its program likes.
fn drop_realtime() {
    use thread_priority::unix::{
        NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
        thread_native_id, thread_schedule_policy,
    };
    if matches!(thread_schedule_policy(), Ok(ThreadSchedulePolicy::Realtime(_))) {
        let normal = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
        // This cannot fail, because the kernel lets every thread leave a real-time class.
        let _ = set_thread_priority_and_policy(
            thread_native_id(),
            thread_priority::ThreadPriority::Min,
            normal,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Returns whether a call with this number would be cancelled if it started now.
    fn is_cancelled(all: &Arc<LongCalls>, unique: u64) -> bool {
        let (tell, finished) = channel();
        all.perform(unique, move |cancel| tell.send(cancel.is_requested()).unwrap());
        finished.recv().unwrap()
    }

    #[test]
    fn an_interrupt_that_comes_before_its_call_is_not_lost() {
        let all = Arc::<LongCalls>::default();
        all.interrupt(7);
        assert!(is_cancelled(&all, 7) && !is_cancelled(&all, 8));
    }

    #[test]
    fn interrupts_of_other_calls_are_forgotten_in_the_end() {
        let all = Arc::<LongCalls>::default();
        (0..2 * MAX_EARLY_INTERRUPTS as u64).for_each(|unique| all.interrupt(unique));
        assert_eq!(all.lock().early_interrupts.len(), MAX_EARLY_INTERRUPTS);
        assert!(!is_cancelled(&all, 0) && is_cancelled(&all, 2 * MAX_EARLY_INTERRUPTS as u64 - 1));
    }
}
