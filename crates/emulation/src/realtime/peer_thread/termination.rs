//! When both threads are done, which neither can tell alone.
//!
//! A thread is *calm* when it has nothing to do and nothing under way to the other one. Once a port
//! of either has brought its last frame and both have been calm, it is all over: each goes when it
//! is empty. What a port brings after that moment is nobody's any more.

use std::sync::atomic::AtomicBool;

use super::flag::SharedFlag;

/// What both know.
#[derive(Debug, Default)]
pub(super) struct Termination<F = AtomicBool> {
    /// A port of either has brought its last frame.
    ended: F,
    /// Which threads are calm.
    idle: [F; 2],
    /// See the module.
    over: F,
}

/// What a thread has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TerminationState {
    /// It is all over.
    pub(super) is_over: bool,
    /// The other thread is to look again: it may be calm by now, and asleep since before.
    pub(super) must_wake_peer: bool,
}

impl<F: SharedFlag> Termination<F> {
    /// Thread `me` has nothing to do just now. It tells whether its port has `ended` and whether it
    /// is calm. The last one that has something new to tell sees all of it.
    pub(super) fn report_idle(&self, me: usize, ended: bool, calm: bool) -> TerminationState {
        let newly_calm = calm && !self.idle[me].load_relaxed();
        let newly_ended = ended && !self.ended.load_relaxed();
        // Releases, with the acquires below: who reads that a port has ended, or that a thread is
        // calm, also sees what went over before that, and that the thread was not calm meanwhile.
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
        // With itself in the other thread: of two that have news, one sees those of both.
        F::fence();
        let ended = self.ended.load_acquire();
        let is_over = ended && self.idle.iter().all(SharedFlag::load_acquire);
        if is_over {
            // It tells of nothing but itself, and the fence of the alarm that follows orders it.
            self.over.store_relaxed(true);
        }
        TerminationState { is_over, must_wake_peer: ended }
    }

    /// Thread `me` has had something to do.
    #[inline]
    pub(super) fn report_busy(&self, me: usize) {
        if self.idle[me].load_relaxed() {
            // Nobody acquires this: who reads it goes on. Who must read it reads `ended` first,
            // which is released later.
            self.idle[me].store_relaxed(false);
        }
    }

    /// Whether it is all over.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.over.load_relaxed()
    }
}
