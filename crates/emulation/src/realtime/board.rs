//! Between the thread that moves frames and those that look at it or change it: states one way,
//! plans the other. Neither costs anything per frame; the busy thread looks at two words per turn.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use slipring_link::{ChangeError, NetworkSpec};
use slipring_port::{Nanos, now};
use slipring_ring::Doorbell;

use super::account::Account;
use super::pipeline::Directions;
use crate::report::measured::Measured;

/// How long an answer may take; a thread that takes longer has ended.
const ANSWER: Duration = Duration::from_millis(500);
/// How long two threads may take to learn of a change, so that both make it at the same time.
const NOTICE: Nanos = 2_000_000;

/// Another plan, and from when it is to hold.
#[derive(Debug, Clone)]
pub struct Change {
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
pub struct Board {
    asked: AtomicBool,
    changes: AtomicBool,
    /// Rings when something was asked.
    bell: Doorbell,
    shown: Mutex<Shown>,
    fresh: Condvar,
    pending: Mutex<Vec<Change>>,
    /// The boards of two threads, which this one stands for.
    threads: Option<(Directions, [Arc<Board>; 2])>,
}

/// What a running emulation shows of itself.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// What was counted.
    pub account: Account,
    /// What was seen of the frames that left by each link, in the order of the plan.
    pub measured: Vec<Measured>,
}

#[derive(Debug, Default)]
struct Shown {
    state: Arc<State>,
    edition: u64,
}

impl Board {
    /// An empty board.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            asked: AtomicBool::new(false),
            changes: AtomicBool::new(false),
            bell: Doorbell::new()?,
            shown: Mutex::default(),
            fresh: Condvar::new(),
            pending: Mutex::default(),
            threads: None,
        })
    }

    /// A board that stands for those of two threads: they are looked at and changed as one.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub(super) fn joining(
        directions: Directions,
        threads: [Arc<Self>; 2],
    ) -> std::io::Result<Self> {
        Ok(Self { threads: Some((directions, threads)), ..Self::new()? })
    }

    /// The earliest time for a change that is decided now: where there are two threads, both must
    /// have learnt of it by then.
    pub fn soonest(&self) -> Nanos {
        now() + if self.threads.is_some() { NOTICE } else { 0 }
    }

    /// The state as of now; the last one if nobody answers any more.
    pub fn ask(&self) -> Arc<State> {
        self.ask_within(ANSWER)
    }

    /// The same for those who would rather have the last one than wait longer than `patience`.
    pub fn ask_within(&self, patience: Duration) -> Arc<State> {
        if let Some((directions, threads)) = &self.threads {
            let states = threads.each_ref().map(|thread| thread.ask_within(patience));
            return Arc::new(directions.join(states.each_ref().map(AsRef::as_ref)));
        }
        let before = lock(&self.shown).edition;
        // Release: pairs with the acquire in `is_asked`.
        self.asked.store(true, Ordering::Release);
        self.bell.ring();
        let stale = |shown: &mut Shown| shown.edition == before;
        let waited = self.fresh.wait_timeout_while(lock(&self.shown), patience, stale);
        waited.unwrap_or_else(PoisonError::into_inner).0.state.clone()
    }

    /// Hands in another plan. Threads that are joined answer alike, both to the same channel.
    pub fn change(&self, change: Change) {
        if let Some((_, threads)) = &self.threads {
            return threads.iter().for_each(|thread| thread.change(change.clone()));
        }
        lock(&self.pending).push(change);
        // Release: pairs with the acquire in `take_changes`.
        self.changes.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// Whether somebody waits for a state.
    #[inline(always)]
    pub fn is_asked(&self) -> bool {
        // Acquire: pairs with the release in `ask`.
        self.asked.load(Ordering::Acquire)
    }

    /// The state that was shown last.
    pub fn last(&self) -> Arc<State> {
        if let Some((directions, threads)) = &self.threads {
            let states = threads.each_ref().map(|thread| thread.last());
            return Arc::new(directions.join(states.each_ref().map(AsRef::as_ref)));
        }
        lock(&self.shown).state.clone()
    }

    /// Shows a state.
    pub fn show(&self, state: State) {
        self.asked.store(false, Ordering::Relaxed);
        let state = Arc::new(state);
        let mut shown = lock(&self.shown);
        shown.state = state;
        shown.edition += 1;
        self.fresh.notify_all();
    }

    /// Plans that were handed in since the last call.
    #[inline(always)]
    pub fn take_changes(&self) -> Vec<Change> {
        // Acquire: pairs with the release in `change`.
        if !self.changes.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.changes.store(false, Ordering::Relaxed);
        std::mem::take(&mut lock(&self.pending))
    }

    /// Lets the bell be rung anew.
    pub(super) fn silence(&self) {
        self.bell.silence();
    }
}

impl AsFd for Board {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// What is behind the locks is whole at any time, also when a thread that held one panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
