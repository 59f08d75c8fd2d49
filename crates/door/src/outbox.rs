//! Answers on their way to the thread whose ring the requests came from: only that may submit.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use rustix::event::{EventfdFlags, eventfd};
use slipring_netmap::Errno;

use crate::sys::Slot;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) slot: Slot,
    pub(crate) header: [u8; 16],
    pub(crate) body: Vec<u8>,
}

/// Answers of one ring.
#[derive(Debug)]
pub(crate) struct Outbox {
    waiting: Mutex<Vec<Answer>>,
    /// Rung where the owner may sleep.
    bell: OwnedFd,
    owner: ThreadId,
}

impl Outbox {
    /// That of the calling thread, which looks into it before it sleeps.
    ///
    /// # Errors
    /// There is no descriptor to be had.
    pub(crate) fn new() -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { waiting: Mutex::default(), bell, owner: thread::current().id() })
    }

    pub(crate) fn put(&self, answer: Answer) {
        let mut waiting = self.lock();
        waiting.push(answer);
        // Where others wait already, the bell has been rung for them, or the owner is awake.
        let first = waiting.len() == 1;
        drop(waiting);
        if first && thread::current().id() != self.owner {
            // A bell that is too full to be rung is heard already.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Exchanges all that wait for `empty`.
    #[inline]
    pub(crate) fn take(&self, empty: &mut Vec<Answer>) {
        std::mem::swap(&mut *self.lock(), empty);
    }

    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Makes the bell wait for the next answer.
    pub(crate) fn silence(&self) {
        // It may be silent: then somebody was faster.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Answer>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn answer() -> Answer {
        Answer { slot: Slot::first(), header: [1; 16], body: vec![2] }
    }

    fn rings(outbox: &Outbox) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&outbox.bell, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    #[test]
    fn the_owner_is_woken_by_others_and_not_by_itself() {
        let outbox = Outbox::new().unwrap();
        outbox.put(answer());
        assert!(!rings(&outbox));
        let mut taken = Vec::new();
        outbox.take(&mut taken);
        assert_eq!(taken, [answer()]);
        taken.clear();
        outbox.take(&mut taken);
        thread::scope(|scope| drop(scope.spawn(|| outbox.put(answer()))));
        assert!(rings(&outbox));
        outbox.silence();
        assert!(!rings(&outbox));
        outbox.take(&mut taken);
        assert_eq!(taken.len(), 1);
    }
}
