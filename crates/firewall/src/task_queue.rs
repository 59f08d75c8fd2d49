//! What other threads want done by the one that checks frames, between two bursts.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, mem};

use slipring_ring::Doorbell;

use crate::dataplane::{Dataplane, DataplaneNanos};
use crate::deferred_output::DeferredOutput;

/// Something to be done with the engine.
pub(crate) type DataplaneTask =
    Box<dyn FnOnce(&mut Dataplane, &mut DeferredOutput, DataplaneNanos) + Send>;

/// A letter box. Its owner looks into it once per burst, which costs one load.
#[derive(Default)]
struct QueuedTasks {
    tasks: Vec<DataplaneTask>,
    /// Nobody will look any more.
    is_closed: bool,
}

pub(crate) struct TaskQueue {
    queued: Mutex<QueuedTasks>,
    has_some: AtomicBool,
    has_begun: AtomicBool,
    doorbell: Doorbell,
}

impl TaskQueue {
    pub(crate) fn new() -> io::Result<Self> {
        let (letters, flag) = (Mutex::default(), || AtomicBool::new(false));
        Ok(Self {
            queued: letters,
            has_some: flag(),
            has_begun: flag(),
            doorbell: Doorbell::new()?,
        })
    }

    /// Says that the rules to begin with hold: frames may be taken from now on.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
        // A bell that rings has a letter behind it: who reads that silences it.
        self.push(Box::new(|_, _, _| ()));
    }

    /// Whether frames may be taken.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Has `letter` done, unless the engine has ended.
    pub(crate) fn push(&self, letter: DataplaneTask) {
        let mut held = self.lock();
        if !held.is_closed {
            held.tasks.push(letter);
            self.has_some.store(true, Ordering::Release);
            self.doorbell.ring();
        }
    }

    /// Has `act` done; what it gives comes later, or never, where the engine has ended.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Dataplane, &mut DeferredOutput, DataplaneNanos) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (answer, answered) = mpsc::channel();
        self.push(Box::new(move |join, aside, now| {
            // Who asked may have given up.
            let _ = answer.send(act(join, aside, now));
        }));
        answered
    }

    /// Everything that was posted.
    #[inline]
    pub(crate) fn drain(&self) -> Vec<DataplaneTask> {
        // Acquire: pairs with the Release in `post`; the lock orders all else.
        if !self.has_some.load(Ordering::Acquire) {
            return Vec::new();
        }
        // All under the lock, as in `post`: a bell that rings has a letter behind it.
        let mut held = self.lock();
        self.doorbell.clear();
        self.has_some.store(false, Ordering::Relaxed);
        mem::take(&mut held.tasks)
    }

    /// Throws away what was posted, and what will be.
    pub(crate) fn close(&self) {
        let mut held = self.lock();
        held.is_closed = true;
        held.tasks.clear();
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// The list is whole at any time, also when a thread that held it panicked.
    fn lock(&self) -> MutexGuard<'_, QueuedTasks> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn rings(mail: &TaskQueue) -> bool {
        let bell = mail.as_fd();
        poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], Some(&Timespec::default()))
            == Ok(1)
    }

    #[test]
    fn a_bell_rings_until_the_letters_are_read_and_for_no_other_reason() {
        let mail = TaskQueue::new().unwrap();
        assert!(!rings(&mail) && !mail.has_begun());
        mail.begin();
        assert!(rings(&mail) && mail.has_begun());
        assert_eq!((mail.drain().len(), rings(&mail)), (1, false));
        mail.push(Box::new(|_, _, _| ()));
        assert!(rings(&mail));
        assert_eq!((mail.drain().len(), rings(&mail)), (1, false));
        mail.close();
        mail.begin();
        assert!(!rings(&mail) && mail.drain().is_empty());
    }
}
