//! Whether workers work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One worker's count of requests: odd while it is with one.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Pulse {
    count: AtomicU64,
    /// What it was at the last look.
    seen: AtomicU64,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Vitals {
    pulses: Vec<Pulse>,
    /// Whether one has given up.
    failed: AtomicBool,
}

impl Vitals {
    pub(crate) fn new(workers: usize) -> Self {
        let pulses = (0..workers).map(|_| Pulse::default()).collect();
        Self { pulses, failed: AtomicBool::new(false) }
    }

    /// A worker begins or ends a request. It alone writes its count.
    #[inline]
    pub(crate) fn beat(&self, worker: usize) {
        let count = &self.pulses[worker].count;
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A worker will serve nobody any more.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Whether nobody has given up, and nobody is still with the request of the last look.
    pub(crate) fn is_well(&self) -> bool {
        // All are looked at: each look remembers.
        let stuck = self.pulses.iter().filter(|pulse| {
            let now = pulse.count.load(Ordering::Relaxed);
            pulse.seen.swap(now, Ordering::Relaxed) == now && now % 2 == 1
        });
        stuck.count() == 0 && !self.failed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_is_with_a_request_for_two_looks_is_not_well() {
        let vitals = Vitals::new(2);
        vitals.beat(0);
        assert!(vitals.is_well());
        assert!(!vitals.is_well());
        vitals.beat(0);
        assert!(vitals.is_well() && vitals.is_well());
        (0..3).for_each(|_| vitals.beat(0));
        assert!(vitals.is_well());
        vitals.fail();
        assert!(!vitals.is_well());
    }
}
