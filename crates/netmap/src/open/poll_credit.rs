//! Decides whether a poll that finds nothing ready waits for a moment.

use std::sync::atomic::{AtomicU32, Ordering};

/// Decides whether a poll waits: polls wait while recent waits succeeded.
#[derive(Debug)]
pub(crate) struct PollCredit {
    /// From 1 to [`MAX_CREDIT`]: polls wait, and each failed wait subtracts 1. 0: the last wait
    /// that was allowed has failed. Above [`MAX_CREDIT`]: polls do not wait, and each poll
    /// subtracts 1 until the next trial.
    credit: AtomicU32,
}

/// Number of failed waits in a row after which polls stop waiting. After a trial, one failed wait
/// is enough.
const MAX_CREDIT: u32 = 8;
/// After the first poll without a wait, this many further polls do not wait. Then one poll waits
/// again, as a trial.
const TRIAL_INTERVAL: u32 = 64;

impl Default for PollCredit {
    fn default() -> Self {
        Self { credit: AtomicU32::new(MAX_CREDIT) }
    }
}

impl PollCredit {
    /// Returns whether this poll should wait for a moment if nothing is ready. If not, counts the
    /// poll, so that the next trial comes after [`TRIAL_INTERVAL`] polls.
    pub(crate) fn should_wait(&self) -> bool {
        let credit = self.credit.load(Ordering::Relaxed);
        if credit > 0 && credit <= MAX_CREDIT {
            return true;
        }
        // The first poll after the credit has reached 0 sets the credit to `MAX_CREDIT +
        // TRIAL_INTERVAL`, and each further poll subtracts 1. At `MAX_CREDIT` it is set to 1, so
        // that the next poll waits once, as a trial.
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
