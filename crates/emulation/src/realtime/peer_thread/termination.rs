//! Determines when both threads have finished. A single thread cannot determine this, because the
//! other thread may still send it frames.
//!
//! A thread is *idle* when it has no frames to handle, and none on their way to the other thread.
//! The emulation is over once a port has brought its last frame and both threads are idle. Then
//! each thread ends when it is empty. Frames that a port brings after that moment may not be sent.

use std::sync::atomic::AtomicBool;

use super::flag::SharedFlag;

/// State shared by both threads.
#[derive(Debug, Default)]
pub(super) struct Termination<F = AtomicBool> {
    /// Whether either port has brought its last frame.
    ended: F,
    /// For each thread, whether it is idle.
    idle: [F; 2],
    /// Whether the emulation is over.
    over: F,
}

/// The result of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TerminationState {
    /// Whether this report has found that the emulation is over. If false, a report of the other
    /// thread may have found it: see [`Termination::is_over`].
    pub(super) is_over: bool,
    /// Whether the other thread must be woken to check again, because it may already be idle and
    /// asleep.
    pub(super) must_wake_peer: bool,
}

impl<F: SharedFlag> Termination<F> {
    /// Reports for thread `me`, which handled no frames in this iteration of its loop: whether its
    /// port has `ended`, and whether the thread is idle (`calm`). If both threads report a change
    /// at the same time, at least one of the two calls sees both changes.
    pub(super) fn report_idle(&self, me: usize, ended: bool, calm: bool) -> TerminationState {
        let newly_calm = calm && !self.idle[me].load_relaxed();
        let newly_ended = ended && !self.ended.load_relaxed();
        // Release: pairs with the Acquire loads below. A thread that reads `ended` or `idle` as
        // true also sees the frames that thread `me` sent before, and the earlier values of its
        // `idle`.
        if newly_ended {
            self.ended.store_release(true);
        }
        if !calm {
            self.report_busy(me);
        } else if newly_calm {
            self.idle[me].store_release(true);
        }
        if !(calm && (newly_calm || newly_ended)) {
            return TerminationState::default();
        }
        // Pairs with the same fence in the other thread: of two threads that have stored a change,
        // at least one sees both changes.
        F::fence();
        let ended = self.ended.load_acquire();
        let is_over = ended && self.idle.iter().all(SharedFlag::load_acquire);
        if is_over {
            // Relaxed: the flag protects no data. The fence of the wake flag, which follows, orders
            // it.
            self.over.store_relaxed(true);
        }
        TerminationState { is_over, must_wake_peer: ended }
    }

    /// Reports that thread `me` has handled frames, so it is not idle.
    #[inline]
    pub(super) fn report_busy(&self, me: usize) {
        if self.idle[me].load_relaxed() {
            // Relaxed: a thread that reads `false` merely keeps running. A thread for which the
            // older `true` would be wrong loads `ended` before this flag. That load makes this
            // write visible, because `ended` is stored after this flag, with Release.
            self.idle[me].store_relaxed(false);
        }
    }

    /// Returns whether the emulation is over.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.over.load_relaxed()
    }
}
