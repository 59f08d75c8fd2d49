//! Decides whether a poll that finds nothing ready waits for a moment.

use std::sync::atomic::{AtomicU32, Ordering};

/// Decides whether a poll waits: polls wait while recent waits succeeded.
#[derive(Debug)]
pub(crate) struct PollCredit {
    /// State of the recent waits: from 1 to [`MAX_CREDIT`], polls wait; otherwise they do not.
    credit: AtomicU32,
}

/// Misses in a row after which waiting stops.
const MAX_CREDIT: u32 = 8;
/// After [`MAX_CREDIT`] misses in a row, one in this number of polls waits, as a trial.
const TRIAL_INTERVAL: u32 = 64;

impl Default for PollCredit {
    fn default() -> Self {
        Self { credit: AtomicU32::new(MAX_CREDIT) }
    }
}

impl PollCredit {
    /// Returns whether this poll should wait for a moment if nothing is ready.
    pub(crate) fn should_wait(&self) -> bool {
        let credit = self.credit.load(Ordering::Relaxed);
        if credit > 0 && credit <= MAX_CREDIT {
            return true;
        }
        // After the last miss the count starts at `TRIAL_INTERVAL + MAX_CREDIT`. When it has fallen
        // to `MAX_CREDIT`, it is set to 1, which allows one trial.
        let next = if credit == 0 { MAX_CREDIT + TRIAL_INTERVAL } else { credit - 1 };
        self.credit.store(if next == MAX_CREDIT { 1 } else { next }, Ordering::Relaxed);
        false
    }

    /// Records the result of a wait: `hit` is whether it ended with events.
    pub(crate) fn record(&self, hit: bool) {
        let credit = self.credit.load(Ordering::Relaxed);
        let next = if hit { MAX_CREDIT } else { credit.saturating_sub(1) };
        self.credit.store(next, Ordering::Relaxed);
    }
}
