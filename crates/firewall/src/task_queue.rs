//! Tasks from other threads, which the packet thread executes between two bursts.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, mem};

use slipring_ring::Doorbell;

use crate::dataplane::{Dataplane, DataplaneNanos};
use crate::deferred_output::DeferredOutput;

/// A task that uses the engine.
pub(crate) type DataplaneTask =
    Box<dyn FnOnce(&mut Dataplane, &mut DeferredOutput, DataplaneNanos) + Send>;

/// The queue. Its owner checks it once per burst, which costs one load.
#[derive(Default)]
struct QueuedTasks {
    tasks: Vec<DataplaneTask>,
    /// The owner executes no more tasks.
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

    /// Admits frames: the initial rules are in force.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
        // The doorbell never rings without a task: draining the queue clears it.
        self.push(Box::new(|_, _, _| ()));
    }

    /// Returns whether frames may be taken.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Queues a task, unless the engine has ended.
    pub(crate) fn push(&self, letter: DataplaneTask) {
        let mut held = self.lock();
        if !held.is_closed {
            held.tasks.push(letter);
            self.has_some.store(true, Ordering::Release);
            self.doorbell.ring();
        }
    }

    /// Queues `act`. The receiver gets its result, or an error if the engine has ended.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Dataplane, &mut DeferredOutput, DataplaneNanos) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (answer, answered) = mpsc::channel();
        self.push(Box::new(move |join, aside, now| {
            // The caller may have given up.
            let _ = answer.send(act(join, aside, now));
        }));
        answered
    }

    /// Takes all queued tasks.
    #[inline]
    pub(crate) fn drain(&self) -> Vec<DataplaneTask> {
        // Acquire: pairs with the Release in `push`; the lock orders all else.
        if !self.has_some.load(Ordering::Acquire) {
            return Vec::new();
        }
        // All under the lock, as in `push`: the doorbell never rings without a task.
        let mut held = self.lock();
        self.doorbell.clear();
        self.has_some.store(false, Ordering::Relaxed);
        mem::take(&mut held.tasks)
    }

    /// Discards all queued and all future tasks.
    pub(crate) fn close(&self) {
        let mut held = self.lock();
        held.is_closed = true;
        held.tasks.clear();
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// A poisoned lock is fine: the list is always consistent.
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
