//! Connects the thread that moves frames with the threads that observe or change it. The thread
//! that moves frames publishes states and receives plans through a channel. This has no cost per
//! frame: the thread reads two flags per loop iteration.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use slipring_link::{ChangeError, NetworkSpec};
use slipring_port::{Nanos, now};
use slipring_ring::Doorbell;

use super::directions::LinkDirections;
use crate::account::EmulationState;

/// How long to wait for a state. A thread that does not answer by then is assumed to have ended.
const STATE_TIMEOUT: Duration = Duration::from_millis(500);
/// If there are two threads, a change is submitted this long before it applies, in ns. So both
/// threads have it in time, and apply it at the same time.
const CHANGE_NOTICE_NS: Nanos = 2_000_000;

/// A new plan, and the time from which it applies.
#[derive(Debug, Clone)]
pub struct PlanChange {
    /// When the plan applies, on the clock of [`slipring_port::now`]. A time in the past means now.
    pub at_ns: Nanos,
    /// Whether this change first cancels all pending changes.
    pub replaces: bool,
    /// The new plan of all links.
    pub plan: Box<NetworkSpec>,
    /// Where the thread sends whether the engine accepts the plan. If the engine refuses it, the
    /// old plan stays in effect.
    pub answer: mpsc::Sender<Result<(), ChangeError>>,
}

/// The channel to an emulation, or to one of its threads.
#[derive(Debug)]
pub struct EmulatorChannel {
    state_requested: AtomicBool,
    has_changes: AtomicBool,
    /// Rung when a state is requested or a plan is submitted; wakes the thread that moves frames.
    doorbell: Doorbell,
    published: Mutex<PublishedState>,
    published_changed: Condvar,
    pending: Mutex<Vec<PlanChange>>,
    /// The channels of the two threads of a pipeline; `None` if this channel does not combine two
    /// channels.
    threads: Option<(LinkDirections, [Arc<EmulatorChannel>; 2])>,
}

#[derive(Debug, Default)]
struct PublishedState {
    state: Arc<EmulationState>,
    edition: u64,
}

impl EmulatorChannel {
    /// Creates a channel without a state.
    ///
    /// # Errors
    /// The system's error, if this process has no descriptors left.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            state_requested: AtomicBool::new(false),
            has_changes: AtomicBool::new(false),
            doorbell: Doorbell::new()?,
            published: Mutex::default(),
            published_changed: Condvar::new(),
            pending: Mutex::default(),
            threads: None,
        })
    }

    /// Creates a channel that combines the channels of two threads.
    ///
    /// # Errors
    /// The system's error, if this process has no descriptors left.
    pub(super) fn for_pair(
        directions: LinkDirections,
        threads: [Arc<Self>; 2],
    ) -> std::io::Result<Self> {
        Ok(Self { threads: Some((directions, threads)), ..Self::new()? })
    }

    /// Returns the earliest time at which a change that is submitted now can apply. With one
    /// thread, that is now. With two threads it is a moment later, when both have received the
    /// change.
    pub fn earliest_change_ns(&self) -> Nanos {
        now() + if self.threads.is_some() { CHANGE_NOTICE_NS } else { 0 }
    }

    /// Returns the current state, or the last published one if the thread does not answer.
    pub fn request_state(&self) -> Arc<EmulationState> {
        self.request_state_within(STATE_TIMEOUT)
    }

    /// Returns the current state, or the last published one if the thread does not answer within
    /// `patience`. If there are two threads, waits for one after the other, `patience` for each.
    pub fn request_state_within(&self, patience: Duration) -> Arc<EmulationState> {
        if let Some((directions, threads)) = &self.threads {
            let states = threads.each_ref().map(|thread| thread.request_state_within(patience));
            return Arc::new(directions.join(states.each_ref().map(AsRef::as_ref)));
        }
        let before = lock(&self.published).edition;
        // Release: pairs with the Acquire in `is_state_requested`.
        self.state_requested.store(true, Ordering::Release);
        self.doorbell.ring();
        let stale = |shown: &mut PublishedState| shown.edition == before;
        let waited =
            self.published_changed.wait_timeout_while(lock(&self.published), patience, stale);
        waited.unwrap_or_else(PoisonError::into_inner).0.state.clone()
    }

    /// Submits a plan. If there are two threads, each of them sends an answer; the two answers are
    /// equal.
    pub fn change(&self, change: PlanChange) {
        if let Some((_, threads)) = &self.threads {
            return threads.iter().for_each(|thread| thread.change(change.clone()));
        }
        lock(&self.pending).push(change);
        // Release: pairs with the Acquire in `take_changes`.
        self.has_changes.store(true, Ordering::Release);
        self.doorbell.ring();
    }

    /// Returns whether a state was requested.
    #[inline(always)]
    pub fn is_state_requested(&self) -> bool {
        // Acquire: pairs with the Release in `request_state_within`.
        self.state_requested.load(Ordering::Acquire)
    }

    /// Returns the state that was published last.
    pub fn last_state(&self) -> Arc<EmulationState> {
        if let Some((directions, threads)) = &self.threads {
            let states = threads.each_ref().map(|thread| thread.last_state());
            return Arc::new(directions.join(states.each_ref().map(AsRef::as_ref)));
        }
        lock(&self.published).state.clone()
    }

    /// Publishes a state.
    pub fn publish(&self, state: EmulationState) {
        self.state_requested.store(false, Ordering::Relaxed);
        let state = Arc::new(state);
        let mut shown = lock(&self.published);
        shown.state = state;
        shown.edition += 1;
        self.published_changed.notify_all();
    }

    /// Takes the plans submitted since the last call.
    #[inline(always)]
    pub fn take_changes(&self) -> Vec<PlanChange> {
        // Acquire: pairs with the Release in `change`.
        if !self.has_changes.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.has_changes.store(false, Ordering::Relaxed);
        std::mem::take(&mut lock(&self.pending))
    }

    /// Resets the doorbell.
    pub(super) fn acknowledge(&self) {
        self.doorbell.clear();
    }
}

impl AsFd for EmulatorChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

/// Locks a mutex. A panic of another thread does not matter, because the contents are always
/// consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
