//! The state that a worker shares with the routing thread and other threads.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use slipring_datapath::control_queue::ControlQueue;

use slipring_route_bpf::ResidentHeartbeat;

use super::parking::WorkerParking;
use super::{RouteWorker, WorkerFigures};
use crate::drain::DrainGoal;
use crate::queue_gate::QueueGate;

/// Maximum time for which workers forward the frames that they have received, at the end of a run
/// or in a takeover. There are at most some thousand such frames.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(1);
/// Maximum time for which a takeover waits until the kernel has taken the frames of the tx rings,
/// so that no frame of the successor overtakes them. Meanwhile, the successor's frames wait in
/// receive rings, which hold the frames of some ten milliseconds. Frames that the kernel has not
/// taken in this time can still leave until the end of the run.
pub(crate) const SEND_LIMIT: Duration = Duration::from_millis(50);

/// A task that another thread gives to a worker. It runs between two loop iterations.
pub(crate) type RouteWorkerTask = Box<dyn FnOnce(&mut RouteWorker) + Send>;

/// The state that the worker and other threads read and write.
pub(super) struct WorkerShared {
    pub(super) tasks: ControlQueue<RouteWorkerTask>,
    /// The routing thread's heartbeat: the time up to which that thread has read the kernel's
    /// messages, or somewhat later ([`BeatInterval`](crate::pace::BeatInterval)). It is stored with
    /// Release after the tables of that time were queued, and loaded with Acquire.
    pub(super) seen: AtomicU64,
    /// Generation of the snapshot in use.
    generation: AtomicU64,
    pub(super) parking: Arc<WorkerParking>,
    /// The numbers of the queues that the worker owns, of all interfaces together.
    pub(super) queues: Vec<u16>,
    /// The gates of the worker's queues on all interfaces.
    pub(super) gates: Vec<Arc<QueueGate>>,
    /// Whether no other router takes the worker's frames any more. Stored with Release after the
    /// gates were opened; loaded with Acquire.
    pub(super) has_begun: AtomicBool,
    /// The worker's last figures; `None` while it runs.
    last_figures: Mutex<Option<WorkerFigures>>,
}

impl WorkerShared {
    pub(super) fn new(
        queues: Vec<u16>,
        gates: Vec<Arc<QueueGate>>,
        has_begun: bool,
    ) -> io::Result<Self> {
        Ok(Self {
            tasks: ControlQueue::new()?,
            seen: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            parking: Arc::default(),
            queues,
            gates,
            has_begun: AtomicBool::new(has_begun),
            last_figures: Mutex::new(None),
        })
    }

    /// Records the end of the worker. A second call changes nothing.
    pub(super) fn end(&self, figures: WorkerFigures) {
        let figures = WorkerFigures { is_final: true, ..figures };
        self.last_figures.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(figures);
        // A caller that gets no answer from now on finds the figures.
        self.tasks.close();
    }

    /// Reports to the routing thread that the worker no longer uses earlier snapshots.
    pub(super) fn set_generation(&self, generation: u64) {
        // Release: pairs with the Acquire in `WorkerLink::generation`. All lookups in earlier
        // tables come before this store.
        self.generation.store(generation, Ordering::Release);
    }
}

/// The access of the routing thread and other threads to a worker.
#[derive(Clone)]
pub(crate) struct WorkerLink(pub(super) Arc<WorkerShared>);

impl WorkerLink {
    /// Gives the worker a task without waiting for it.
    pub(crate) fn tell(&self, task: impl FnOnce(&mut RouteWorker) + Send + 'static) {
        self.0.tasks.push(Box::new(task));
    }

    /// Asks the worker a question. Returns `None` if the worker has ended.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut RouteWorker) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = mpsc::sync_channel(1);
        // If the asking thread has ended, the answer is not needed.
        self.tell(move |worker| drop(sender.send(question(worker))));
        answer.recv().ok()
    }

    /// The worker's figures: those of this moment, or its last ones.
    pub(crate) fn figures(&self) -> Option<WorkerFigures> {
        let last = || self.0.last_figures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.ask(|worker| worker.figures()).or_else(last)
    }

    /// The gates of the worker's queues.
    pub(crate) fn gates(&self) -> &[Arc<QueueGate>] {
        &self.0.gates
    }

    /// Lets a worker take frames after another router has stopped reading its sockets.
    pub(crate) fn begin(&self) {
        self.0.has_begun.store(true, Ordering::Release);
        self.wake();
    }

    /// Ends the worker's wait.
    pub(crate) fn wake(&self) {
        self.0.tasks.wake();
    }

    /// Waits for at most [`DRAIN_LIMIT`] until all workers have processed the frames that arrived
    /// before the call. Meanwhile, no more frames may be given to them. Returns whether all were
    /// processed.
    pub(crate) fn drain_all(links: &[Self]) -> bool {
        // Each worker is drained twice, because a worker may give its last frames to another worker
        // that is already drained. These are few frames, so most of the time is for the first pass.
        let drain = |limit| Self::reach_all(links, DrainGoal::Processed, limit);
        drain(DRAIN_LIMIT * 3 / 4) & drain(DRAIN_LIMIT / 4)
    }

    /// Waits for at most [`SEND_LIMIT`] until the kernel has taken the frames that all workers have
    /// sent. Workers whose interfaces take frames slowly go on sending until the end of the run.
    pub(crate) fn send_all(links: &[Self]) {
        Self::reach_all(links, DrainGoal::Sent, SEND_LIMIT);
    }

    /// Waits until all workers have reached the goal, and returns whether they have. All are asked
    /// before the wait for the first answer, so each has the whole time.
    fn reach_all(links: &[Self], goal: DrainGoal, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        // Dropped when this thread no longer waits, also without an answer.
        let waits = Arc::new(());
        let ask = |link: &Self| {
            let (sender, reached) = mpsc::sync_channel(1);
            let waits_here = Arc::downgrade(&waits);
            link.tell(move |worker| worker.drain.wait(goal, sender, waits_here));
            reached
        };
        let asked: Vec<_> = links.iter().map(ask).collect();
        let left = || end.saturating_duration_since(Instant::now());
        asked.iter().filter(|reached| reached.recv_timeout(left()).is_err()).count() == 0
    }

    /// Lets a worker with rules take frames.
    pub(crate) fn admit(&self) {
        self.0.tasks.admit_frames();
    }

    /// Gives the worker the routing thread's heartbeat for the tables that the worker has got.
    pub(crate) fn set_heartbeat(&self, heartbeat: u64) {
        self.0.seen.store(heartbeat, Ordering::Release);
    }

    /// Whether the routing thread writes the worker's heartbeat, and the worker has recently proved
    /// that it runs.
    pub(crate) fn is_parked(&self) -> bool {
        self.0.parking.is_parked(ResidentHeartbeat::now())
    }

    /// The numbers of the queues that the worker owns, of all interfaces together.
    pub(crate) fn queues(&self) -> &[u16] {
        &self.0.queues
    }

    /// The generation of the snapshot that the worker uses, or of an earlier one.
    pub(crate) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }
}
