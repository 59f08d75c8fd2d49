//! The flags by which two threads coordinate. They are accessed through a trait, so that
//! `models.rs` can run the production code with a `loom` flag type.

use std::sync::atomic::{AtomicBool, Ordering, fence};

/// A flag that both threads access.
pub(super) trait SharedFlag {
    /// Reads the flag without ordering.
    fn load_relaxed(&self) -> bool;
    /// Writes the flag without ordering.
    fn store_relaxed(&self, value: bool);
    /// Reads the flag with Acquire: the writer's earlier writes are visible afterwards.
    fn load_acquire(&self) -> bool;
    /// Writes the flag with Release, after all earlier writes of this thread.
    fn store_release(&self, value: bool);
    /// Sets the flag to false and returns whether it was true: of several concurrent callers, only
    /// one gets true.
    fn swap_false(&self) -> bool;
    /// SeqCst fence: if two threads each write, fence, and read the other's flag, at least one of
    /// them sees the write of the other thread.
    fn fence();
}

impl SharedFlag for AtomicBool {
    #[inline(always)]
    fn load_relaxed(&self) -> bool {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn store_relaxed(&self, value: bool) {
        self.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn load_acquire(&self) -> bool {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn store_release(&self, value: bool) {
        self.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn swap_false(&self) -> bool {
        self.swap(false, Ordering::Relaxed)
    }

    #[inline(always)]
    fn fence() {
        fence(Ordering::SeqCst);
    }
}
