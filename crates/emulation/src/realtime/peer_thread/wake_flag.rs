//! Whether a thread sleeps, and what the other one has to wake it for.
//!
//! # Invariants
//! 1. Who sleeps has said so, and looked for news once more after that.
//! 2. Who has news looks afterwards whether the other one sleeps.

use std::sync::atomic::AtomicBool;

use super::flag::SharedFlag;

/// One thread, as the other sees it when it has news.
#[derive(Debug, Default)]
pub(super) struct WakeFlag<F = AtomicBool> {
    /// It sleeps, and frames wake it.
    wants_frames: F,
    /// It sleeps for want of chunks.
    wants_chunks: F,
}

/// What the other thread has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// Given frames, or found that it is all over.
    Frames,
    /// Given back a chunk.
    Chunks,
}

impl<F: SharedFlag> WakeFlag<F> {
    /// Announces that its thread is about to sleep, unless there is `news` by now; whether it may.
    pub(super) fn may_sleep(&self, starved: bool, news: impl FnOnce() -> bool) -> bool {
        self.wants_frames.store_relaxed(true);
        self.wants_chunks.store_relaxed(starved);
        // With the fence in `must_ring`: either the waker sees the announcement, or the sleeper
        // sees the news. It is all that orders the words, which tell of nothing but themselves.
        F::fence();
        let may = !news();
        if !may {
            self.revoke();
        }
        may
    }

    /// Its thread is awake.
    ///
    /// Without a partner: who reads the old value rings once too often, and the next announcement
    /// is of the same thread, so that nobody sees the two in another order.
    pub(super) fn revoke(&self) {
        self.wants_frames.store_relaxed(false);
        self.wants_chunks.store_relaxed(false);
    }

    /// Whether the thread is to be woken for news that are there already: once.
    #[inline]
    pub(super) fn take_wake(&self, news: WakeReason) -> bool {
        // With the fence in `may_sleep`.
        F::fence();
        let waiting = match news {
            WakeReason::Frames => &self.wants_frames,
            WakeReason::Chunks => &self.wants_chunks,
        };
        waiting.load_relaxed() && waiting.swap_false()
    }
}
