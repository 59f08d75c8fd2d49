//! Cancels a call that would otherwise run until it is stopped.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::types::lock::lock;

/// Wakes a sleeping sync loop.
#[derive(Debug)]
pub(crate) struct KloopBell(OwnedFd);

impl KloopBell {
    /// Creates a bell with a new eventfd.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] if this process has no descriptors left.
    pub(crate) fn new() -> Result<Arc<Self>, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        eventfd(0, flags).map(Self).map(Arc::new).map_err(|_| Errno::NOMEM)
    }

    /// Wakes the loop.
    pub(crate) fn ring(&self) {
        // The write can fail only if the counter is full, and then the eventfd is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Resets the eventfd. A loop with an eventfd for each ring calls this after each sleep, before
    /// it searches for work.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }

    /// Returns the eventfd. It is readable from a call of [`Self::ring`] until a call of
    /// [`Self::clear`].
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Cancels a call, because its caller was killed or has a signal to handle. Otherwise the call
/// would run until it is stopped.
#[derive(Debug, Default)]
pub struct Cancel(Mutex<(bool, Option<Arc<KloopBell>>)>);

impl Cancel {
    /// Requests the end of the call, and does not wait for it.
    pub fn cancel(&self) {
        let mut state = lock(&self.0);
        state.0 = true;
        if let Some(bell) = &state.1 {
            bell.ring();
        }
    }

    /// Returns whether the end was requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        lock(&self.0).0
    }

    /// Sets the bell that every later cancellation rings.
    pub(crate) fn set_bell(&self, bell: &Arc<KloopBell>) {
        lock(&self.0).1 = Some(bell.clone());
    }
}
