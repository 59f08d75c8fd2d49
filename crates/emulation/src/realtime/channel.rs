//! Between the thread that moves frames and those that look at it or change it: states one way,
//! plans the other. Neither costs anything per frame; the busy thread looks at two words per turn.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use slipring_link::{ChangeError, NetworkSpec};
use slipring_port::{Nanos, now};
use slipring_ring::Doorbell;

use super::account::EmulationAccount;
use super::pipeline::LinkDirections;
use crate::report::measurement::LinkMeasurement;

/// How long an answer may take; a thread that takes longer has ended.
const STATE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long two threads may take to learn of a change, so that both make it at the same time.
const CHANGE_NOTICE_NS: Nanos = 2_000_000;

/// Another plan, and from when it is to hold.
#[derive(Debug, Clone)]
pub struct PlanChange {
    /// On the clock of [`slipring_port::now`]; a time that has passed means at once.
    pub at_ns: Nanos,
    /// Whether changes that have not taken effect are taken back first.
    pub replaces: bool,
    /// The whole plan.
    pub plan: Box<NetworkSpec>,
    /// Where the engine says whether it can hold it; when not, the old one goes on.
    pub answer: mpsc::Sender<Result<(), ChangeError>>,
}

/// See the module.
#[derive(Debug)]
pub struct EmulatorChannel {
    state_requested: AtomicBool,
    has_changes: AtomicBool,
    /// Rings when something was asked.
    doorbell: Doorbell,
    published: Mutex<PublishedState>,
    published_changed: Condvar,
    pending: Mutex<Vec<PlanChange>>,
    /// The boards of two threads, which this one stands for.
    threads: Option<(LinkDirections, [Arc<EmulatorChannel>; 2])>,
}

/// What a running emulation shows of itself.
#[derive(Debug, Clone, Default)]
pub struct EmulationState {
    /// What was counted.
    pub account: EmulationAccount,
    /// What was seen of the frames that left by each link, in the order of the plan.
    pub measured: Vec<LinkMeasurement>,
}

#[derive(Debug, Default)]
struct PublishedState {
    state: Arc<EmulationState>,
    edition: u64,
}

impl EmulatorChannel {
    /// An empty board.
    ///
    /// # Errors
    /// If the process is out of descriptors.
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

    /// A board that stands for those of two threads: they are looked at and changed as one.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub(super) fn for_pair(
        directions: LinkDirections,
        threads: [Arc<Self>; 2],
    ) -> std::io::Result<Self> {
        Ok(Self { threads: Some((directions, threads)), ..Self::new()? })
    }

    /// The earliest time for a change that is decided now: where there are two threads, both must
    /// have learnt of it by then.
    pub fn earliest_change_ns(&self) -> Nanos {
        now() + if self.threads.is_some() { CHANGE_NOTICE_NS } else { 0 }
    }

    /// The state as of now; the last one if nobody answers any more.
    pub fn request_state(&self) -> Arc<EmulationState> {
        self.request_state_within(STATE_TIMEOUT)
    }

    /// The same for those who would rather have the last one than wait longer than `patience`.
    pub fn request_state_within(&self, patience: Duration) -> Arc<EmulationState> {
        if let Some((directions, threads)) = &self.threads {
            let states = threads.each_ref().map(|thread| thread.request_state_within(patience));
            return Arc::new(directions.join(states.each_ref().map(AsRef::as_ref)));
        }
        let before = lock(&self.published).edition;
        // Release: pairs with the acquire in `is_asked`.
        self.state_requested.store(true, Ordering::Release);
        self.doorbell.ring();
        let stale = |shown: &mut PublishedState| shown.edition == before;
        let waited =
            self.published_changed.wait_timeout_while(lock(&self.published), patience, stale);
        waited.unwrap_or_else(PoisonError::into_inner).0.state.clone()
    }

    /// Hands in another plan. Threads that are joined answer alike, both to the same channel.
    pub fn change(&self, change: PlanChange) {
        if let Some((_, threads)) = &self.threads {
            return threads.iter().for_each(|thread| thread.change(change.clone()));
        }
        lock(&self.pending).push(change);
        // Release: pairs with the acquire in `take_changes`.
        self.has_changes.store(true, Ordering::Release);
        self.doorbell.ring();
    }

    /// Whether somebody waits for a state.
    #[inline(always)]
    pub fn is_state_requested(&self) -> bool {
        // Acquire: pairs with the release in `ask`.
        self.state_requested.load(Ordering::Acquire)
    }

    /// The state that was shown last.
    pub fn last_state(&self) -> Arc<EmulationState> {
        if let Some((directions, threads)) = &self.threads {
            let states = threads.each_ref().map(|thread| thread.last_state());
            return Arc::new(directions.join(states.each_ref().map(AsRef::as_ref)));
        }
        lock(&self.published).state.clone()
    }

    /// Shows a state.
    pub fn publish(&self, state: EmulationState) {
        self.state_requested.store(false, Ordering::Relaxed);
        let state = Arc::new(state);
        let mut shown = lock(&self.published);
        shown.state = state;
        shown.edition += 1;
        self.published_changed.notify_all();
    }

    /// Plans that were handed in since the last call.
    #[inline(always)]
    pub fn take_changes(&self) -> Vec<PlanChange> {
        // Acquire: pairs with the release in `change`.
        if !self.has_changes.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.has_changes.store(false, Ordering::Relaxed);
        std::mem::take(&mut lock(&self.pending))
    }

    /// Lets the bell be rung anew.
    pub(super) fn acknowledge(&self) {
        self.doorbell.clear();
    }
}

impl AsFd for EmulatorChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

/// What is behind the locks is whole at any time, also when a thread that held one panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
