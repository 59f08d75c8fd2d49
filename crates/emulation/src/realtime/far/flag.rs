//! The words that two threads agree by. What `loom` explores is what runs: `models.rs` puts other
//! words in their place.

use std::sync::atomic::{AtomicBool, Ordering, fence};

/// A word that both threads see.
pub(super) trait Flag {
    /// Reads it, in no order with anything else.
    fn peek(&self) -> bool;
    /// Writes it, in no order with anything else.
    fn put(&self, value: bool);
    /// Reads it; what its writer did before is visible afterwards.
    fn acquire(&self) -> bool;
    /// Writes it after everything done so far.
    fn release(&self, value: bool);
    /// Makes it false and tells whether it was true: of several takers one hears so.
    fn take(&self) -> bool;
    /// Of two threads that write, pass here, and read what the other wrote, one sees it.
    fn fence();
}

impl Flag for AtomicBool {
    #[inline(always)]
    fn peek(&self) -> bool {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn put(&self, value: bool) {
        self.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn acquire(&self) -> bool {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn release(&self, value: bool) {
        self.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn take(&self) -> bool {
        self.swap(false, Ordering::Relaxed)
    }

    #[inline(always)]
    fn fence() {
        fence(Ordering::SeqCst);
    }
}
