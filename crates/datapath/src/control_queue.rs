//! Tasks that other threads give to a worker: new rules, new routes, queries. The worker executes
//! them between two iterations of its loop.
//!
//! ```text
//!   push() --> list --> wake_fd: ends the worker's wait --> drain(): FrameProcessor::run_tasks
//! ```
//!
//! Once the first tasks have prepared the program, [`ControlQueue::admit_frames`] lets it take
//! frames.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, mem};

use slipring_ring::Doorbell;

struct QueuedTasks<T> {
    tasks: Vec<T>,
    /// Whether the owner executes no more tasks.
    is_closed: bool,
}

/// A queue of tasks. The owner checks it in each loop iteration, which costs one load.
pub struct ControlQueue<T> {
    queued: Mutex<QueuedTasks<T>>,
    /// Set if there are tasks, or if the owner must be woken for another reason.
    is_signalled: AtomicBool,
    admits_frames: AtomicBool,
    doorbell: Doorbell,
}

impl<T> ControlQueue<T> {
    /// Creates an empty queue. Its owner may not take frames yet.
    ///
    /// # Errors
    /// The system's error if the process is out of descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            queued: Mutex::new(QueuedTasks { tasks: Vec::new(), is_closed: false }),
            is_signalled: AtomicBool::new(false),
            admits_frames: AtomicBool::new(false),
            doorbell: Doorbell::new()?,
        })
    }

    /// Allows the owner to take frames.
    pub fn admit_frames(&self) {
        // Release: pairs with the Acquire in `has_admitted_frames`.
        self.admits_frames.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns whether the owner may take frames.
    #[inline]
    pub fn has_admitted_frames(&self) -> bool {
        // Acquire: pairs with the Release in `admit_frames`.
        self.admits_frames.load(Ordering::Acquire)
    }

    /// Queues a task. Drops it if the owner executes no more tasks.
    pub fn push(&self, task: T) {
        self.signal(|queued| queued.tasks.push(task));
    }

    /// Ends the owner's wait, without a task.
    pub fn wake(&self) {
        self.signal(|_| ());
    }

    fn signal(&self, change: impl FnOnce(&mut QueuedTasks<T>)) {
        let mut queued = self.lock();
        if !queued.is_closed {
            change(&mut queued);
            // Release: pairs with the Acquire in `is_signalled`.
            self.is_signalled.store(true, Ordering::Release);
            self.doorbell.ring();
        }
    }

    /// Returns whether there are tasks, or the owner was woken. If another thread queues a task and
    /// then makes a frame available, an owner that finds the frame also finds the task.
    #[inline]
    pub fn is_signalled(&self) -> bool {
        // Acquire: pairs with the Release in `signal`.
        self.is_signalled.load(Ordering::Acquire)
    }

    /// Takes all queued tasks.
    #[inline]
    pub fn drain(&self) -> Vec<T> {
        // Without tasks, this takes no lock. The lock below, not the flag, guards the tasks.
        if !self.is_signalled() {
            return Vec::new();
        }
        // As in `signal`, all steps are made under the lock. So the doorbell is readable only while
        // `is_signalled` is set.
        let mut queued = self.lock();
        self.doorbell.clear();
        self.is_signalled.store(false, Ordering::Relaxed);
        mem::take(&mut queued.tasks)
    }

    /// Discards all queued and all future tasks.
    pub fn close(&self) {
        let mut queued = self.lock();
        queued.is_closed = true;
        queued.tasks.clear();
    }

    /// Returns a descriptor that is readable while tasks are queued, and after [`Self::wake`] until
    /// the next [`Self::drain`].
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// Locks the tasks. The lock can be used even if it is poisoned, because the list is always
    /// consistent.
    fn lock(&self) -> MutexGuard<'_, QueuedTasks<T>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn rings(queue: &ControlQueue<u8>) -> bool {
        let fd = queue.wake_fd();
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&Timespec::default()))
            == Ok(1)
    }

    #[test]
    fn the_doorbell_rings_until_the_tasks_are_taken_and_for_no_other_reason() {
        let queue = ControlQueue::new().unwrap();
        assert!(!rings(&queue) && !queue.has_admitted_frames());
        queue.admit_frames();
        assert!(rings(&queue) && queue.has_admitted_frames());
        assert_eq!((queue.drain(), rings(&queue)), (vec![], false));
        queue.push(7);
        assert!(rings(&queue));
        assert_eq!((queue.drain(), rings(&queue)), (vec![7], false));
        queue.push(8);
        queue.close();
        assert_eq!((queue.drain(), rings(&queue)), (vec![], false));
        queue.push(9);
        queue.admit_frames();
        assert!(!rings(&queue) && queue.drain().is_empty());
    }
}
