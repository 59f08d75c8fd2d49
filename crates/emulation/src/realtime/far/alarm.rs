//! Whether a thread sleeps, and what the other one has to wake it for.
//!
//! # Invariants
//! 1. Who sleeps has said so, and looked for news once more after that.
//! 2. Who has news looks afterwards whether the other one sleeps.

use std::sync::atomic::AtomicBool;

use super::flag::Flag;

/// One thread, as the other sees it when it has news.
#[derive(Debug, Default)]
pub(super) struct Alarm<F = AtomicBool> {
    /// It sleeps, and frames wake it.
    asleep: F,
    /// It sleeps for want of chunks.
    starved: F,
}

/// What the other thread has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// Given frames, or found that it is all over.
    Frames,
    /// Given back a chunk.
    Chunks,
}

impl<F: Flag> Alarm<F> {
    /// Announces that its thread is about to sleep, unless there is `news` by now; whether it may.
    pub(super) fn may_sleep(&self, starved: bool, news: impl FnOnce() -> bool) -> bool {
        self.asleep.put(true);
        self.starved.put(starved);
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
        self.asleep.put(false);
        self.starved.put(false);
    }

    /// Whether the thread is to be woken for news that are there already: once.
    #[inline]
    pub(super) fn must_ring(&self, news: News) -> bool {
        // With the fence in `may_sleep`.
        F::fence();
        let waiting = match news {
            News::Frames => &self.asleep,
            News::Chunks => &self.starved,
        };
        waiting.peek() && waiting.take()
    }
}
