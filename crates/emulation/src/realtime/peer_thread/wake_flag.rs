//! Records whether a thread sleeps, and for which events the other thread has to wake it.
//!
//! # Invariants
//! 1. A thread announces its sleep, and then checks for news once more.
//! 2. A thread publishes its news, and then checks whether the other one sleeps.

use std::sync::atomic::AtomicBool;

use super::flag::SharedFlag;

/// The sleep state of one thread, as seen by the other when it has news.
#[derive(Debug, Default)]
pub(super) struct WakeFlag<F = AtomicBool> {
    /// The thread sleeps, and frames wake it.
    wants_frames: F,
    /// The thread sleeps because it has no free chunks.
    wants_chunks: F,
}

/// The event that the other thread reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// The other thread has sent frames, or found that the emulation is over.
    Frames,
    /// The other thread has returned a chunk.
    Chunks,
}

impl<F: SharedFlag> WakeFlag<F> {
    /// Announces that the thread is about to sleep. Returns false if there is `news` by now.
    pub(super) fn may_sleep(&self, starved: bool, news: impl FnOnce() -> bool) -> bool {
        self.wants_frames.store_relaxed(true);
        self.wants_chunks.store_relaxed(starved);
        // Pairs with the fence in `take_wake`: either the waker sees the announcement, or the
        // sleeper sees the news. The flags protect no data and need no other ordering.
        F::fence();
        let may = !news();
        if !may {
            self.revoke();
        }
        may
    }

    /// Revokes the announcement: the thread is awake.
    ///
    /// Relaxed and unpaired: a waker that reads the old value only rings once too often. The next
    /// announcement comes from the same thread, so no thread sees the two out of order.
    pub(super) fn revoke(&self) {
        self.wants_frames.store_relaxed(false);
        self.wants_chunks.store_relaxed(false);
    }

    /// Returns whether the thread must be woken for news that are already visible; at most
    /// once per sleep.
    #[inline]
    pub(super) fn take_wake(&self, news: WakeReason) -> bool {
        // Pairs with the fence in `may_sleep`.
        F::fence();
        let waiting = match news {
            WakeReason::Frames => &self.wants_frames,
            WakeReason::Chunks => &self.wants_chunks,
        };
        waiting.load_relaxed() && waiting.swap_false()
    }
}
