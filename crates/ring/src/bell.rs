//! Waking a party that sleeps: an eventfd, and a shared word that says whether it is worth it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::protocol::Word;

/// A waker tells whether to ring: call after publishing. At most one `true` per announcement.
///
/// The fence makes it impossible that the waker misses the announcement while the sleeper
/// misses what was published.
#[inline(always)]
pub(crate) fn must_ring<W: Word>(sleeping: &W) -> bool {
    W::full_fence();
    is_taken(sleeping)
}

/// The same for several sleepers.
#[inline(always)]
pub(crate) fn must_ring_all<W: Word, const N: usize>(sleeping: [&W; N]) -> [bool; N] {
    W::full_fence();
    sleeping.map(is_taken)
}

#[inline(always)]
fn is_taken<W: Word>(sleeping: &W) -> bool {
    sleeping.acquire() != 0 && sleeping.take() != 0
}

/// A sleeper announces itself. It must look for work once more afterwards, and only then sleep.
pub(crate) fn announce<W: Word>(sleeping: &W) {
    sleeping.release(1);
    W::full_fence();
}

/// What a host knows of a word by which it announces the sleep of several programs. All of this
/// happens under one lock of its own; programs elsewhere take the word up without it.
#[derive(Debug)]
pub struct Announced {
    /// The word was set, and nobody has been woken since because it was taken up.
    made: bool,
}

impl Announced {
    /// For a word that is set already, for whoever has been sleeping since before there was one.
    #[must_use]
    pub fn for_earlier_sleepers() -> Self {
        Self { made: true }
    }

    /// Announces one more sleeper, who looks once more afterwards. Whether the sleepers before it
    /// are to be woken first: their word was taken up, and from now on nobody could tell.
    pub(crate) fn add<W: Word>(&mut self, sleeping: &W) -> bool {
        let taken = sleeping.acquire() == 0;
        let missed = taken && self.made;
        if taken {
            sleeping.release(1);
        }
        self.made = true;
        W::full_fence();
        missed
    }

    /// Whether the word was taken up, so that all are to be woken who sleep.
    pub(crate) fn is_taken_up<W: Word>(&mut self, sleeping: &W) -> bool {
        let taken = self.made && sleeping.acquire() == 0;
        if taken {
            self.made = false;
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
    pub fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
