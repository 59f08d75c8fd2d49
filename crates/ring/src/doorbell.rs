//! Waking a sleeping party: an eventfd, and a shared word that says whether the eventfd must be
//! signalled.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::protocol::SharedWord;

/// Returns whether the waker must ring the sleeper's doorbell: whether the sleeper has announced
/// its sleep in the word `sleeping` ([`announce`]). Clears this announcement, so if several wakers
/// call the function, only one of them gets true. A waker must call it after publishing.
///
/// Because of the fence, the waker sees the announcement, or the sleeper sees what was published,
/// or both.
#[inline(always)]
pub(crate) fn must_ring<W: SharedWord>(sleeping: &W) -> bool {
    W::full_fence();
    take_announcement(sleeping)
}

/// Like [`must_ring`], but for several sleepers, with a single fence.
#[inline(always)]
pub(crate) fn must_ring_all<W: SharedWord, const N: usize>(sleeping: [&W; N]) -> [bool; N] {
    W::full_fence();
    sleeping.map(take_announcement)
}

/// Returns whether a program must kick the host, which then wakes the sleepers on the program's
/// behalf. Clears the announcement of the host's sleepers. The announcement of the program at the
/// other end (`guest`) stays set: the kicked host clears it by [`must_ring`] and rings that
/// program's doorbell.
#[inline(always)]
pub(crate) fn must_kick<W: SharedWord>(guest: &W, host: &W) -> bool {
    W::full_fence();
    let guest = guest.acquire() != 0;
    // Both words are checked: one kick serves both sleepers.
    take_announcement(host) || guest
}

#[inline(always)]
fn take_announcement<W: SharedWord>(sleeping: &W) -> bool {
    sleeping.acquire() != 0 && sleeping.take() != 0
}

/// Announces that the caller is about to sleep. The caller must check for work once more before it
/// sleeps.
pub(crate) fn announce<W: SharedWord>(sleeping: &W) {
    sleeping.release(1);
    W::full_fence();
}

/// The host's record of a word with which it announces several sleeping programs. One lock of the
/// host protects the record. Programs in other processes clear the word without that lock.
#[derive(Debug)]
pub struct SleepAnnouncement {
    /// Whether the host has announced sleepers that it has not woken since.
    pending: bool,
}

impl SleepAnnouncement {
    /// Creates the record for a word that is already set, on behalf of programs that slept before
    /// the word existed.
    #[must_use]
    pub fn already_announced() -> Self {
        Self { pending: true }
    }

    /// Announces one more sleeper. The caller must then check for work once more. Returns true if a
    /// program has cleared the announcement of the earlier sleepers. In this case, the caller must
    /// first wake them, because the word is now set again and no longer shows this.
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

    /// Returns whether a program has cleared the announcement, so that the host must wake all
    /// sleepers. If so, the record no longer has sleepers.
    pub(crate) fn take_if_consumed<W: SharedWord>(&mut self, sleeping: &W) -> bool {
        let taken = self.pending && sleeping.acquire() == 0;
        if taken {
            self.pending = false;
        }
        taken
    }
}

/// An eventfd that wakes one party. It is readable from a call of [`Self::ring`] until a call of
/// [`Self::clear`].
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// Creates a doorbell whose eventfd is not readable.
    ///
    /// # Errors
    /// The kernel's error, usually because this process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wraps a doorbell that another process created and passed on.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Returns a second handle of the same doorbell.
    ///
    /// # Errors
    /// The kernel's error, usually because this process has no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Makes the eventfd readable. An error is ignored: it can only mean that the eventfd is
    /// already readable.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Resets the eventfd. An error is ignored: it means that the eventfd is not readable.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
