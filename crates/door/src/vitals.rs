//! Whether workers work.

use std::sync::atomic::{AtomicU64, Ordering};

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
pub(crate) struct Vitals(Vec<Pulse>);

impl Vitals {
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Pulse::default()).collect())
    }

    /// A worker begins or ends a request. It alone writes its count.
    #[inline]
    pub(crate) fn beat(&self, worker: usize) {
        let count = &self.0[worker].count;
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Whether nobody is still with the request of the last look.
    pub(crate) fn is_well(&self) -> bool {
        // All are looked at: each look remembers.
        let stuck = self.0.iter().filter(|pulse| {
            let now = pulse.count.load(Ordering::Relaxed);
            pulse.seen.swap(now, Ordering::Relaxed) == now && now % 2 == 1
        });
        stuck.count() == 0
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
    }
}
