//! Whether workers work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One worker's count of requests: odd while it is with one.
#[derive(Debug, Default)]
#[repr(align(64))]
struct WorkerHeartbeat {
    count: AtomicU64,
    /// What it was at the last look.
    last_seen: AtomicU64,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Watchdog {
    heartbeats: Vec<WorkerHeartbeat>,
    /// Whether one has given up.
    failed: AtomicBool,
}

impl Watchdog {
    pub(crate) fn new(workers: usize) -> Self {
        let heartbeats = (0..workers).map(|_| WorkerHeartbeat::default()).collect();
        Self { heartbeats, failed: AtomicBool::new(false) }
    }

    /// A worker begins or ends a request. It alone writes its count.
    #[inline]
    pub(crate) fn heartbeat(&self, worker: usize) {
        let count = &self.heartbeats[worker].count;
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A worker will serve nobody any more.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Whether nobody has given up, and nobody is still with the request of the last look.
    pub(crate) fn is_healthy(&self) -> bool {
        // All are looked at: each look remembers.
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
