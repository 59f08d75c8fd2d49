//! What the packet threads of one firewall exchange: frames to and from the thread that has the
//! dummynet pipes, learned neighbours, and the shutdown.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::dataplane::{Dataplane, DataplaneId, Handoff};
use crate::task_queue::TaskQueue;

/// When more frames than this are queued for the thread that has the dummynet pipes, the other
/// threads drop frames for pipes.
const MAX_POSTED_FRAMES: u64 = 16_384;

/// The state that all packet threads share.
pub(crate) struct CrossThreadState {
    /// Number of frames that are outside the thread of their flow: in a queued task, or in a
    /// dummynet pipe of another thread.
    remote_packets: AtomicU64,
    /// Number of the `remote_packets` that are queued for the thread that has the dummynet pipes.
    posted: AtomicU64,
    /// Whether the distributor will deliver no more frames.
    input_ended: AtomicBool,
    /// Number of threads that have sent all their frames.
    finished_workers: AtomicU64,
    /// Wakes the distributor when a thread has finished or calls [`Self::begin`].
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

    /// Returns a descriptor that becomes readable when a thread has finished or calls
    /// [`Self::begin`].
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.task_queue.wake_fd()
    }

    /// Makes [`Self::wake_fd`] unreadable again. If the descriptor is not readable, this costs only
    /// one atomic load.
    pub(crate) fn acknowledge(&self) {
        drop(self.task_queue.drain());
    }

    /// Must be called when the initial rules are in force. Lets the distributor process frames.
    pub(crate) fn begin(&self) {
        self.task_queue.admit_frames();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.task_queue.has_admitted_frames()
    }

    /// Must be called when no more frames will arrive.
    pub(crate) fn end_input(&self) {
        // Release: a thread that reads true here also sees every frame distributed before this
        // store.
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

    /// Must be called when this thread has sent all its frames.
    pub(crate) fn mark_finished(&self) {
        // Release: a reader of the new count also sees the frames that this thread has sent.
        self.finished_workers.fetch_add(1, Ordering::Release);
        self.task_queue.wake();
    }
}

/// The connection of one packet thread to the shared state.
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
        // Relaxed suffices: the task queue that carries the frames orders these updates.
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
                // The frames are back in the thread of their flow and no longer count as remote, no
                // matter whether that thread sends or drops them.
                common.remote_packets.fetch_sub(count, Ordering::Relaxed);
            }));
        }
    }

    /// Returns whether the input has ended and no frame is outside the thread of its flow. Then
    /// only frames that were already distributed can still arrive.
    pub(crate) fn is_over(&self) -> bool {
        self.common.has_input_ended() && self.common.remote_packets.load(Ordering::Relaxed) == 0
    }
}
