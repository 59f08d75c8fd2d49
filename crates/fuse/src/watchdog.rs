//! Detects workers that do not make progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A worker's count of begun and ended requests. It is odd while the worker serves a request.
#[derive(Debug, Default)]
#[repr(align(64))]
struct WorkerHeartbeat {
    count: AtomicU64,
    /// The count at the previous check.
    last_seen: AtomicU64,
}

/// The heartbeats of all workers.
#[derive(Debug)]
pub(crate) struct Watchdog {
    heartbeats: Vec<WorkerHeartbeat>,
    /// Whether a worker has stopped serving because of an error.
    failed: AtomicBool,
}

impl Watchdog {
    pub(crate) fn new(workers: usize) -> Self {
        let heartbeats = (0..workers).map(|_| WorkerHeartbeat::default()).collect();
        Self { heartbeats, failed: AtomicBool::new(false) }
    }

    /// Records that a worker begins or ends a request. Only the worker itself writes this count.
    #[inline]
    pub(crate) fn heartbeat(&self, worker: usize) {
        let count = &self.heartbeats[worker].count;
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Records that a worker has stopped serving.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Returns whether no worker has stopped because of an error, and no worker still serves the
    /// same request as at the previous check.
    pub(crate) fn is_healthy(&self) -> bool {
        // This must visit every counter, because each visit updates `last_seen`.
        let stuck = self.heartbeats.iter().filter(|pulse| {
            let now = pulse.count.load(Ordering::Relaxed);
            pulse.last_seen.swap(now, Ordering::Relaxed) == now && now % 2 == 1
        });
        stuck.count() == 0 && !self.failed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_is_with_a_request_for_two_looks_is_not_well() {
        let vitals = Watchdog::new(2);
        vitals.heartbeat(0);
        assert!(vitals.is_healthy());
        assert!(!vitals.is_healthy());
        vitals.heartbeat(0);
        assert!(vitals.is_healthy() && vitals.is_healthy());
        (0..3).for_each(|_| vitals.heartbeat(0));
        assert!(vitals.is_healthy());
        vitals.fail();
        assert!(!vitals.is_healthy());
    }
}
