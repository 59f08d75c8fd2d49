//! The words that two threads agree by. What `loom` explores is what runs: `models.rs` puts other
//! words in their place.

use std::sync::atomic::{AtomicBool, Ordering, fence};

/// A word that both threads see.
pub(super) trait SharedFlag {
    /// Reads it, in no order with anything else.
    fn load_relaxed(&self) -> bool;
    /// Writes it, in no order with anything else.
    fn store_relaxed(&self, value: bool);
    /// Reads it; what its writer did before is visible afterwards.
    fn load_acquire(&self) -> bool;
    /// Writes it after everything done so far.
    fn store_release(&self, value: bool);
    /// Makes it false and tells whether it was true: of several takers one hears so.
    fn swap_false(&self) -> bool;
    /// Of two threads that write, pass here, and read what the other wrote, one sees it.
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
