//! Queues replies for the thread that owns a ring, because only this thread may submit to the ring.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use rustix::event::{EventfdFlags, eventfd};
use slipring_netmap::Errno;

use crate::sys::UringEntryId;

/// A reply to a request that arrived through a ring.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueuedReply {
    pub(crate) slot: UringEntryId,
    pub(crate) header: [u8; 16],
    pub(crate) body: Vec<u8>,
}

/// The queued replies for one ring.
#[derive(Debug)]
pub(crate) struct ReplyQueue {
    waiting: Mutex<Vec<QueuedReply>>,
    /// The eventfd that wakes the ring's owner. It is signalled when the owner may be asleep.
    event: OwnedFd,
    owner: ThreadId,
}

impl ReplyQueue {
    /// Creates the queue of the calling thread. This thread must empty the queue before it sleeps.
    ///
    /// # Errors
    /// The error number if no descriptor is available.
    pub(crate) fn new() -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { waiting: Mutex::default(), event: bell, owner: thread::current().id() })
    }

    pub(crate) fn push(&self, answer: QueuedReply) {
        let mut waiting = self.lock();
        waiting.push(answer);
        // If other replies were already queued, the event was signalled for them, or the owner is
        // awake.
        let first = waiting.len() == 1;
        drop(waiting);
        if first && thread::current().id() != self.owner {
            // If the eventfd is too full to be written, it is already readable.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Moves the queued replies to `empty`. The queue takes over the allocation of `empty`.
    #[inline]
    pub(crate) fn drain_into(&self, empty: &mut Vec<QueuedReply>) {
        std::mem::swap(&mut *self.lock(), empty);
    }

    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Resets the event, so that the next reply signals it again.
    pub(crate) fn clear_event(&self) {
        // An error does no harm, because another read may already have reset the event.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<QueuedReply>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn answer() -> QueuedReply {
        QueuedReply { slot: UringEntryId::first(), header: [1; 16], body: vec![2] }
    }

    fn rings(outbox: &ReplyQueue) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&outbox.event, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    #[test]
    fn the_owner_is_woken_by_others_and_not_by_itself() {
        let outbox = ReplyQueue::new().unwrap();
        outbox.push(answer());
        assert!(!rings(&outbox));
        let mut taken = Vec::new();
        outbox.drain_into(&mut taken);
        assert_eq!(taken, [answer()]);
        taken.clear();
        outbox.drain_into(&mut taken);
        thread::scope(|scope| drop(scope.spawn(|| outbox.push(answer()))));
        assert!(rings(&outbox));
        outbox.clear_event();
        assert!(!rings(&outbox));
        outbox.drain_into(&mut taken);
        assert_eq!(taken.len(), 1);
    }
}
