//! Communication between the packet threads of one firewall: frames for the thread that has the
//! pipes, learned neighbours, and shutdown.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::dataplane::{Dataplane, DataplaneId, Handoff};
use crate::task_queue::TaskQueue;

/// Maximum number of frames in tasks queued for the thread with the pipes.
const MAX_POSTED_FRAMES: u64 = 16_384;

/// State shared by all threads.
pub(crate) struct CrossThreadState {
    /// Number of frames away from the thread of their flow: in queued tasks and in pipes.
    remote_packets: AtomicU64,
    /// Number of these frames that are queued for the thread with the pipes.
    posted: AtomicU64,
    /// Whether the distributor delivers no more frames.
    input_ended: AtomicBool,
    /// Number of threads that have sent all their frames.
    finished_workers: AtomicU64,
    /// Signals that a thread has finished, or that frames are available.
    task_queue: TaskQueue,
}

impl CrossThreadState {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            remote_packets: AtomicU64::new(0),
            posted: AtomicU64::new(0),
            input_ended: AtomicBool::new(false),
            finished_workers: AtomicU64::new(0),
            task_queue: TaskQueue::new()?,
        })
    }

    /// Becomes readable when a thread has finished, and when frames are available.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.task_queue.wake_fd()
    }

    /// Clears the signal of [`Self::wake_fd`]. If it is not set, this costs one load.
    pub(crate) fn acknowledge(&self) {
        drop(self.task_queue.drain());
    }

    /// Admits frames: the initial rules are in force.
    pub(crate) fn begin(&self) {
        self.task_queue.admit_frames();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.task_queue.has_admitted_frames()
    }

    /// Declares that no more frames will arrive.
    pub(crate) fn end_input(&self) {
        // Release: a thread that reads true also sees all frames that were distributed before.
        self.input_ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_input_ended(&self) -> bool {
        // Acquire: pairs with the Release in `end_input`.
        self.input_ended.load(Ordering::Acquire)
    }

    /// Returns how many threads have finished.
    pub(crate) fn finished_workers(&self) -> u64 {
        // Acquire: pairs with the Release in `mark_finished`.
        self.finished_workers.load(Ordering::Acquire)
    }

    /// Declares that this thread has sent all its frames.
    pub(crate) fn mark_finished(&self) {
        // Release: a reader of the new count also sees the frames that this thread has sent.
        self.finished_workers.fetch_add(1, Ordering::Release);
        self.task_queue.wake();
    }
}

/// One thread's end of the shared state.
pub(crate) struct CrossThreadLink {
    own_id: DataplaneId,
    task_queues: Vec<Arc<TaskQueue>>,
    pub(crate) common: Arc<CrossThreadState>,
}

impl CrossThreadLink {
    pub(crate) fn new(
        own_id: DataplaneId,
        task_queues: Vec<Arc<TaskQueue>>,
        common: Arc<CrossThreadState>,
    ) -> Self {
        Self { own_id, task_queues, common }
    }

    /// Sends frames and learned neighbours from this dataplane to the other threads.
    pub(crate) fn exchange(&self, dataplane: &mut Dataplane) {
        let handoffs = dataplane.take_handoffs();
        if self.own_id == 0 {
            self.common
                .remote_packets
                .fetch_sub(dataplane.take_foreign_losses(), Ordering::Relaxed);
            self.send_to_owners(handoffs);
        } else {
            self.send_to_shaper(handoffs);
            dataplane.set_congested(self.common.posted.load(Ordering::Relaxed) > MAX_POSTED_FRAMES);
        }
        let news = dataplane.take_learned_neighbors();
        if news.is_empty() {
            return;
        }
        for (_, task_queue) in (0..).zip(&self.task_queues).filter(|(id, _)| *id != self.own_id) {
            let news = news.clone();
            task_queue.push(Box::new(move |dataplane, _, _| dataplane.merge_neighbors(news)));
        }
    }

    fn send_to_shaper(&self, handoffs: Vec<Handoff>) {
        let count = handoffs.len() as u64;
        if count == 0 {
            return;
        }
        // Relaxed: the frames themselves go through the task queue, which orders them.
        self.common.remote_packets.fetch_add(count, Ordering::Relaxed);
        self.common.posted.fetch_add(count, Ordering::Relaxed);
        let common = self.common.clone();
        self.task_queues[0].push(Box::new(move |dataplane, deferred, now| {
            common.posted.fetch_sub(count, Ordering::Relaxed);
            dataplane.accept_handoffs(handoffs, now, deferred);
        }));
    }

    fn send_to_owners(&self, handoffs: Vec<Handoff>) {
        let mut by_owner: Vec<Vec<Handoff>> = Vec::new();
        by_owner.resize_with(self.task_queues.len(), Vec::new);
        handoffs
            .into_iter()
            .for_each(|handoff| by_owner[usize::from(handoff.owner())].push(handoff));
        for (task_queue, handoffs) in self.task_queues.iter().zip(by_owner) {
            let count = handoffs.len() as u64;
            if count == 0 {
                continue;
            }
            let common = self.common.clone();
            task_queue.push(Box::new(move |dataplane, deferred, now| {
                dataplane.accept_handoffs(handoffs, now, deferred);
                // The frames are back at their owner and are no longer remote, whether it sends or
                // drops them.
                common.remote_packets.fetch_sub(count, Ordering::Relaxed);
            }));
        }
    }

    /// Returns whether no other thread can send any more frames.
    pub(crate) fn is_over(&self) -> bool {
        self.common.has_input_ended() && self.common.remote_packets.load(Ordering::Relaxed) == 0
    }
}
