//! Wakes pollers that sleep, and avoids most notifications of pollers that are awake.
//!
//! A front cannot tell whether a poll that was answered "ready" belongs to a level-triggered
//! program, which will poll again by itself, or to an edge-triggered one, which sleeps until it is
//! notified of something new. Nor can the front tell which of several programs that share a file
//! has polled. So every poll that has a handle arms the file's [`Waker`], which stays armed until
//! it has notified the program of *news*: new frames or new free slots. How soon the program is
//! notified depends on the answers to the polls since the waker was armed:
//!
//! 1. At least one answer was "not ready": the program sleeps. It is notified immediately.
//! 2. All answers were "ready", and the program has used up all slots of the ring that it knew of,
//!    is not in a poll, and has not polled again by itself since the last delayed notification: the
//!    program may sleep. It is notified immediately.
//! 3. All answers were "ready", in all other cases: the program is notified after one to two ticks,
//!    unless a poll for all armed directions has begun by then.
//!
//! The third case avoids a notification of a busy program for every batch of its peer. A needless
//! notification costs a system call, and may wake a program that waits for a reply of this process.
//! Without a necessary notification, the program would hang. A program that polls after a "ready"
//! answer, without a notification in between, is assumed to poll again by itself; an edge-triggered
//! program does not do that.

#[cfg(test)]
mod models;
mod state;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

use slipring_ring::RingView;

use crate::types::lock::lock;
use crate::types::shape::TxRx;
use state::{WANTS_RX, WANTS_TX, WakeAction, WakerState, has_listeners};

/// Wakes the pollers of an open file, a sync loop or a worker, so that they check the rings again.
pub trait Notify: Send + Sync {
    /// Wakes those pollers of the open file that passed `handle` when they armed it.
    fn notify(&self, handle: u64);
}

/// Interval of the ticker. A delayed notification is sent after one to two ticks.
const TICK_INTERVAL: Duration = Duration::from_millis(1);

fn bit(dir: TxRx) -> u64 {
    match dir {
        TxRx::Tx => WANTS_TX,
        TxRx::Rx => WANTS_RX,
    }
}

/// Wakes the pollers of one open file, a sync loop or a worker. They arm it whenever they may
/// sleep.
pub struct Waker {
    state: WakerState<AtomicU64>,
    notify: Arc<dyn Notify>,
    ticker: Arc<Ticker>,
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Waker({:#x})", self.state.bits())
    }
}

impl Waker {
    pub(crate) fn new(notify: Arc<dyn Notify>, ticker: Arc<Ticker>) -> Arc<Self> {
        Arc::new(Self { state: WakerState::default(), notify, ticker })
    }

    /// Returns the ticker that sends delayed notifications.
    pub(crate) fn ticker(&self) -> Arc<Ticker> {
        self.ticker.clone()
    }

    /// Begins a poll for these directions. The poll itself checks the rings, so until it ends, the
    /// program is not notified of news immediately, unless the waker is still armed by a poll that
    /// was answered "not ready".
    pub(crate) fn begin_poll(&self, tx: bool, rx: bool) {
        self.state.begin_poll(interest_bits(tx, rx));
    }

    pub(crate) fn end_poll(&self) {
        self.state.end_poll();
    }

    /// Arms the waker for these directions. `ready` is whether the poll found something ready; if
    /// not, the caller checks the rings once more afterwards.
    pub(crate) fn arm(&self, handle: u64, tx: bool, rx: bool, ready: bool) {
        self.state.arm(handle, interest_bits(tx, rx), ready);
    }

    /// Notifies the pollers immediately, if the waker is armed, whatever they wait for. Used when
    /// a port ends.
    pub fn wake_now(&self) {
        if let Some(handle) = self.state.disarm() {
            self.notify.notify(handle);
        }
    }

    /// Notifies the pollers after one to two ticks, unless another notification is sent earlier.
    pub(crate) fn notify_soon(self: &Arc<Self>) {
        if self.state.mark_pending() {
            self.ticker.add(self.clone());
        }
    }

    /// Notifies a handle with which a poll in the previous process armed the waker.
    pub(crate) fn notify_handle(&self, handle: u64) {
        self.notify.notify(handle);
    }

    /// Handles new frames or slots of one ring. `idle` returns whether the program has used up all
    /// slots of the ring that it knew of.
    #[inline]
    fn wake_for(self: &Arc<Self>, dir: TxRx, idle: impl Fn() -> bool) {
        match self.state.wake_for(bit(dir), idle) {
            WakeAction::Notify(handle) => self.notify.notify(handle),
            WakeAction::Enlist => self.ticker.add(self.clone()),
            WakeAction::Nothing => {}
        }
    }

    /// Handles a tick while the waker is in the ticker's list; returns whether it stays in the
    /// list.
    fn tick(&self) -> bool {
        let ticked = self.state.tick();
        if let Some(handle) = ticked.notify {
            self.notify.notify(handle);
        }
        ticked.stays
    }
}

fn interest_bits(tx: bool, rx: bool) -> u64 {
    (if tx { WANTS_TX } else { 0 }) | if rx { WANTS_RX } else { 0 }
}

/// The wakers that may need a delayed notification. A thread in [`Ticker::run`] sends it.
#[derive(Debug, Default)]
pub(crate) struct Ticker {
    pending: Mutex<Vec<Arc<Waker>>>,
    first: Condvar,
    stopped: AtomicBool,
}

impl Ticker {
    fn add(&self, waker: Arc<Waker>) {
        let mut late = lock(&self.pending);
        late.push(waker);
        if late.len() == 1 {
            self.first.notify_one();
        }
    }

    /// Performs one tick for each waker in the list.
    pub(crate) fn tick(&self) {
        let mut listed = std::mem::take(&mut *lock(&self.pending));
        listed.retain(|waker| waker.tick());
        lock(&self.pending).append(&mut listed);
    }

    /// Performs ticks at [`TICK_INTERVAL`] until it is stopped; sleeps while the list is empty.
    pub(crate) fn run(&self) {
        while !self.stopped.load(Ordering::Acquire) {
            let late = lock(&self.pending);
            let idle = |late: &mut Vec<_>| late.is_empty() && !self.stopped.load(Ordering::Acquire);
            drop(self.first.wait_while(late, idle).unwrap_or_else(PoisonError::into_inner));
            std::thread::sleep(TICK_INTERVAL);
            self.tick();
        }
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let _late = lock(&self.pending);
        self.first.notify_all();
    }
}

/// The wakers that wait for one ring.
#[derive(Debug, Default)]
pub struct Listeners {
    list: RwLock<Vec<RingListener>>,
    /// 1 while the list of wakers is not empty, otherwise 0.
    any: AtomicU64,
}

#[derive(Debug)]
struct RingListener {
    waker: Arc<Waker>,
    view: RingView,
    dir: TxRx,
}

impl Listeners {
    /// Wakes the listeners because a sync of the ring is now worthwhile. The caller has already
    /// published the frames or slots.
    #[inline]
    pub fn wake(&self) {
        if !has_listeners(&self.any) {
            return;
        }
        for one in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            one.waker.wake_for(one.dir, || !one.view.is_ready());
        }
    }

    /// Wakes the listeners, whatever they wait for.
    pub fn wake_now(&self) {
        for one in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            one.waker.wake_now();
        }
    }

    pub(crate) fn add(&self, waker: &Arc<Waker>, dir: TxRx, view: &RingView) {
        let one = RingListener { waker: waker.clone(), view: view.clone(), dir };
        self.list.write().unwrap_or_else(PoisonError::into_inner).push(one);
        self.any.store(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, waker: &Arc<Waker>) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.retain(|one| !Arc::ptr_eq(&one.waker, waker));
        self.any.store(u64::from(!list.is_empty()), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct RecordedWakes(Mutex<Vec<u64>>);

    impl Notify for RecordedWakes {
        fn notify(&self, handle: u64) {
            lock(&self.0).push(handle);
        }
    }

    fn waker() -> (Arc<Waker>, Arc<RecordedWakes>, Arc<Ticker>) {
        let (woken, ticker) = (Arc::<RecordedWakes>::default(), Arc::<Ticker>::default());
        (Waker::new(woken.clone(), ticker.clone()), woken, ticker)
    }

    fn wake_count(woken: &RecordedWakes) -> usize {
        lock(&woken.0).len()
    }

    #[test]
    fn one_who_sleeps_is_told_once_per_poll() {
        let (waker, told_of, _) = waker();
        waker.arm(7, false, true, false);
        waker.wake_for(TxRx::Rx, || false);
        waker.wake_for(TxRx::Rx, || false);
        assert_eq!(*lock(&told_of.0), [7]);
    }

    #[test]
    fn one_who_waits_for_frames_is_not_told_of_room() {
        let (waker, told_of, _) = waker();
        waker.arm(7, false, true, false);
        waker.wake_for(TxRx::Tx, || true);
        assert_eq!(wake_count(&told_of), 0);
    }

    #[test]
    fn one_who_was_ready_and_has_used_it_up_is_told_at_once() {
        let (waker, told_of, _) = waker();
        waker.arm(7, false, true, true);
        waker.wake_for(TxRx::Rx, || true);
        assert_eq!(wake_count(&told_of), 1);
    }

    #[test]
    fn one_who_is_busy_is_told_two_ticks_later() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, false, true, true);
        waker.wake_for(TxRx::Rx, || false);
        ticker.tick();
        assert_eq!(wake_count(&told_of), 0);
        ticker.tick();
        assert_eq!(wake_count(&told_of), 1);
        ticker.tick();
        assert_eq!(wake_count(&told_of), 1);
    }

    #[test]
    fn one_who_comes_back_by_himself_is_not_told() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, false, true, true);
        for _ in 0..5 {
            waker.begin_poll(false, true);
            waker.arm(7, false, true, true);
            waker.end_poll();
            waker.wake_for(TxRx::Rx, || true);
            ticker.tick();
        }
        assert_eq!(wake_count(&told_of), 0);
    }

    #[test]
    fn one_who_came_back_once_and_does_not_any_more_is_told_late_once_and_then_at_once() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, false, true, true);
        waker.begin_poll(false, true);
        waker.arm(7, false, true, true);
        waker.end_poll();
        waker.wake_for(TxRx::Rx, || true);
        assert_eq!(wake_count(&told_of), 0);
        (0..2).for_each(|_| ticker.tick());
        assert_eq!(wake_count(&told_of), 1);
        waker.begin_poll(false, true);
        waker.arm(7, false, true, true);
        waker.end_poll();
        waker.wake_for(TxRx::Rx, || true);
        assert_eq!(wake_count(&told_of), 2);
    }

    #[test]
    fn news_that_comes_while_a_poll_is_answered_is_not_forgotten() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, false, true, true);
        waker.begin_poll(false, true);
        waker.wake_for(TxRx::Rx, || true);
        waker.arm(7, false, true, true);
        waker.end_poll();
        (0..2).for_each(|_| ticker.tick());
        assert_eq!(wake_count(&told_of), 1);
    }

    #[test]
    fn a_poll_for_one_direction_keeps_the_news_of_the_other() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, true, true, true);
        waker.wake_for(TxRx::Rx, || false);
        waker.begin_poll(true, false);
        waker.arm(7, true, false, true);
        waker.end_poll();
        (0..2).for_each(|_| ticker.tick());
        assert_eq!(wake_count(&told_of), 1);
    }

    #[test]
    fn one_who_is_polling_sees_for_himself() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, false, true, true);
        waker.begin_poll(false, true);
        waker.wake_for(TxRx::Rx, || true);
        assert_eq!(wake_count(&told_of), 0);
        waker.end_poll();
        (0..2).for_each(|_| ticker.tick());
        assert_eq!(wake_count(&told_of), 1);
    }

    #[test]
    fn one_who_sleeps_is_told_though_another_that_shares_the_file_is_awake() {
        let (waker, told_of, _) = waker();
        waker.arm(7, false, true, false);
        waker.arm(7, true, false, true);
        waker.begin_poll(false, true);
        waker.wake_for(TxRx::Rx, || false);
        assert_eq!(wake_count(&told_of), 1);
    }
}
