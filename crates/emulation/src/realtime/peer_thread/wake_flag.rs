//! Records whether a thread sleeps, and for which events the other thread has to wake it.
//!
//! # Invariants
//! 1. A thread first announces that it is about to sleep, and then checks once more for frames,
//!    chunks or the end.
//! 2. A thread first publishes frames, chunks or the end, and then checks whether the other thread
//!    sleeps.

use std::sync::atomic::AtomicBool;

use super::flag::SharedFlag;

/// Tells the other thread whether this thread sleeps, and what must wake it.
#[derive(Debug, Default)]
pub(super) struct WakeFlag<F = AtomicBool> {
    /// Whether the thread sleeps; frames wake it.
    wants_frames: F,
    /// Whether the thread sleeps and lacks free chunks, so that a returned chunk also wakes it.
    wants_chunks: F,
}

/// Why a sleeping thread is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// The other thread has sent frames, or is idle and a port has ended.
    Frames,
    /// The other thread has returned a chunk.
    Chunks,
}

impl<F: SharedFlag> WakeFlag<F> {
    /// Announces that the thread is about to sleep. Then calls `news`, which returns whether there
    /// is something to do. If so, revokes the announcement and returns false: the thread must not
    /// sleep.
    pub(super) fn may_sleep(&self, starved: bool, news: impl FnOnce() -> bool) -> bool {
        self.wants_frames.store_relaxed(true);
        self.wants_chunks.store_relaxed(starved);
        // Pairs with the fence in `take_wake`: either the waker sees the announcement, or the
        // sleeper sees what was published. The flags protect no data and need no other ordering.
        F::fence();
        let may = !news();
        if !may {
            self.revoke();
        }
        may
    }

    /// Revokes the announcement: the thread is awake.
    ///
    /// Relaxed, and without a counterpart: a waker that reads the old value only rings the doorbell
    /// once too often. The next announcement comes from the same thread, so no thread sees the two
    /// out of order.
    pub(super) fn revoke(&self) {
        self.wants_frames.store_relaxed(false);
        self.wants_chunks.store_relaxed(false);
    }

    /// Returns whether the thread must be woken for `news`, which the caller has already published.
    /// Returns true at most once per sleep and reason.
    #[inline]
    pub(super) fn take_wake(&self, news: WakeReason) -> bool {
        // Pairs with the fence in `may_sleep`, see there.
        F::fence();
        let waiting = match news {
            WakeReason::Frames => &self.wants_frames,
            WakeReason::Chunks => &self.wants_chunks,
        };
        waiting.load_relaxed() && waiting.swap_false()
    }
}
