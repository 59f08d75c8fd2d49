//! Waking a party that sleeps: an eventfd, and a shared word that says whether it is worth it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::protocol::SharedWord;

/// A waker tells whether to ring: call after publishing. At most one `true` per announcement.
///
/// The fence makes it impossible that the waker misses the announcement while the sleeper
/// misses what was published.
#[inline(always)]
pub(crate) fn must_ring<W: SharedWord>(sleeping: &W) -> bool {
    W::full_fence();
    take_announcement(sleeping)
}

/// The same for several sleepers.
#[inline(always)]
pub(crate) fn must_ring_all<W: SharedWord, const N: usize>(sleeping: [&W; N]) -> [bool; N] {
    W::full_fence();
    sleeping.map(take_announcement)
}

#[inline(always)]
fn take_announcement<W: SharedWord>(sleeping: &W) -> bool {
    sleeping.acquire() != 0 && sleeping.take() != 0
}

/// A sleeper announces itself. It must look for work once more afterwards, and only then sleep.
pub(crate) fn announce<W: SharedWord>(sleeping: &W) {
    sleeping.release(1);
    W::full_fence();
}

/// What a host knows of a word by which it announces the sleep of several programs. All of this
/// happens under one lock of its own; programs elsewhere take the word up without it.
#[derive(Debug)]
pub struct SleepAnnouncement {
    /// The word was set, and nobody has been woken since because it was taken up.
    pending: bool,
}

impl SleepAnnouncement {
    /// For a word that is set already, for whoever has been sleeping since before there was one.
    #[must_use]
    pub fn already_announced() -> Self {
        Self { pending: true }
    }

    /// Announces one more sleeper, who looks once more afterwards. Whether the sleepers before it
    /// are to be woken first: their word was taken up, and from now on nobody could tell.
    pub(crate) fn add<W: SharedWord>(&mut self, sleeping: &W) -> bool {
        let taken = sleeping.acquire() == 0;
        let missed = taken && self.pending;
        if taken {
            sleeping.release(1);
        }
        self.pending = true;
        W::full_fence();
        missed
    }

    /// Whether the word was taken up, so that all are to be woken who sleep.
    pub(crate) fn take_if_consumed<W: SharedWord>(&mut self, sleeping: &W) -> bool {
        let taken = self.pending && sleeping.acquire() == 0;
        if taken {
            self.pending = false;
        }
        taken
    }
}

/// An eventfd that wakes one party, readable while it rings.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// A silent bell.
    ///
    /// # Errors
    /// The kernel's, mostly for want of descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// A bell that another process made and passed on.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// A second handle on the same bell.
    ///
    /// # Errors
    /// The kernel's, mostly for want of descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Rings. A bell that rings already stays so: that is what the error would say.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Silences it. Reading a silent one fails, which is fine.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
