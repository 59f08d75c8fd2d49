//! Waking those who poll, without waking those who are awake.
//!
//! A front cannot tell whether a poll that was answered "ready" belongs to a level-triggered
//! program, which will ask again by itself, or to an edge-triggered one, which sleeps until it is
//! told of something new. Nor can it tell who of several that share a file has asked. So every
//! poll arms the file's [`Waker`], and it stays armed until there was news:
//!
//! ```text
//!   polls were answered   program has used up all it knew      what news does
//!   one not ready         -                                    notifies at once: somebody sleeps
//!   all ready             yes, is not in a poll, and did not   notifies at once: it may sleep
//!                         come back by itself of late
//!   all ready             else                                 notifies after a tick or two, if
//!                                                              no poll has begun by then
//! ```
//!
//! The last line keeps a busy program from being told of every batch of its peer. To be told once
//! too often costs a system call, and wakes a program that waits for an answer of ours for nothing;
//! not to be told would be a hang. A program comes back by itself if it polls though it was told of
//! nothing since it was answered "ready", which an edge-triggered one does not do.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

use slipring_ring::RingView;

use crate::types::lock::lock;
use crate::types::shape::TxRx;

/// How a front tells a program's kernel to look again.
pub trait Notify: Send + Sync {
    /// Wakes whoever polls the open file that armed with `handle`.
    fn notify(&self, handle: u64);
}

/// A program that is taken to come back by itself is told after one to two of these.
const TICK_INTERVAL: Duration = Duration::from_millis(1);

const WANTS_TX: u32 = 1;
const WANTS_RX: u32 = 1 << 1;
/// Every poll since it was armed first was answered "ready".
const ANSWERED_READY: u32 = 1 << 2;
/// There was news since then, of which it has not been told.
const HAS_PENDING: u32 = 1 << 3;
/// It is in the ticker's list.
const IN_TICKER: u32 = 1 << 4;
/// A tick has seen that there was news.
const TICKED_ONCE: u32 = 1 << 5;
/// When it was answered "ready" last, it polled again without being told.
const POLLS_AGAIN: u32 = 1 << 6;

fn bit(dir: TxRx) -> u32 {
    match dir {
        TxRx::Tx => WANTS_TX,
        TxRx::Rx => WANTS_RX,
    }
}

/// One open file's wish to be woken.
pub struct Waker {
    state: AtomicU32,
    /// Polls under way.
    polls: AtomicU32,
    handle: AtomicU64,
    notify: Arc<dyn Notify>,
    ticker: Arc<Ticker>,
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Waker({:#x})", self.state.load(Ordering::Relaxed))
    }
}

impl Waker {
    pub(crate) fn new(notify: Arc<dyn Notify>, ticker: Arc<Ticker>) -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU32::new(0),
            polls: AtomicU32::new(0),
            handle: AtomicU64::new(0),
            notify,
            ticker,
        })
    }

    /// The one that tells it late.
    pub(crate) fn ticker(&self) -> Arc<Ticker> {
        self.ticker.clone()
    }

    /// A poll for these directions begins: it will see for itself what was published before. While
    /// it lasts nobody is told.
    pub(crate) fn begin_poll(&self, tx: bool, rx: bool) {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.update(|state| {
            if !is_armed(state) || state & ANSWERED_READY == 0 {
                return None;
            }
            // Somebody else who shares the file may wait for the other direction.
            let all = state & (WANTS_TX | WANTS_RX) & !interest_bits(tx, rx) == 0;
            Some((if all { state & !(HAS_PENDING | TICKED_ONCE) } else { state }) | POLLS_AGAIN)
        });
    }

    pub(crate) fn end_poll(&self) {
        self.polls.fetch_sub(1, Ordering::Release);
    }

    /// Wishes to be woken for these directions; `ready` says what the poll is answered. Whoever
    /// arms as not ready looks once more afterwards.
    pub(crate) fn arm(&self, handle: u64, tx: bool, rx: bool, ready: bool) {
        self.handle.store(handle, Ordering::Relaxed);
        self.update(|state| {
            // Somebody else who shares the file may sleep since an earlier poll.
            let ready = ready && (!is_armed(state) || state & ANSWERED_READY != 0);
            Some(
                (state & !ANSWERED_READY)
                    | interest_bits(tx, rx)
                    | if ready { ANSWERED_READY } else { 0 },
            )
        });
        // Pairs with the fence in `Listeners::wake`: either we see what was published, or its
        // publisher sees that we are armed.
        fence(Ordering::SeqCst);
    }

    /// Wakes it whatever it waits for: its port is gone.
    pub fn wake_now(&self) {
        if self.update(|state| is_armed(state).then(|| without_arming(state))).is_some() {
            self.notify.notify(self.handle.load(Ordering::Relaxed));
        }
    }

    /// Tells it in a tick or two, unless there is news before.
    pub(crate) fn notify_soon(self: &Arc<Self>) {
        let before =
            self.update(|state| is_armed(state).then_some(state | HAS_PENDING | IN_TICKER));
        if before.is_some_and(|state| state & IN_TICKER == 0) {
            self.ticker.add(self.clone());
        }
    }

    /// Notifies the handle of somebody who armed in another process.
    pub(crate) fn notify_handle(&self, handle: u64) {
        self.notify.notify(handle);
    }

    /// There is news; `idle` says that the program has used up all it knew of.
    #[inline]
    fn wake_for(self: &Arc<Self>, dir: TxRx, idle: impl Fn() -> bool) {
        let mut urgent = false;
        let before = self.update(|state| {
            if state & bit(dir) == 0 {
                return None;
            }
            let returns = state & POLLS_AGAIN != 0;
            let awake = returns || self.polls.load(Ordering::Acquire) > 0 || !idle();
            urgent = state & ANSWERED_READY == 0 || !awake;
            Some(if urgent { without_arming(state) } else { state | HAS_PENDING | IN_TICKER })
        });
        match before {
            Some(_) if urgent => self.notify.notify(self.handle.load(Ordering::Relaxed)),
            Some(state) if state & IN_TICKER == 0 => self.ticker.add(self.clone()),
            _ => {}
        }
    }

    /// A tick after it was listed; whether it stays so.
    fn tick(&self) -> bool {
        let (mut told, mut stays) = (false, false);
        self.update(|state| {
            let news = is_armed(state) && state & HAS_PENDING != 0;
            told = news && state & TICKED_ONCE != 0;
            stays = news && !told;
            Some(match (told, stays) {
                // It did not come back.
                (true, _) => without_arming(state) & !(IN_TICKER | POLLS_AGAIN),
                (_, true) => state | TICKED_ONCE,
                _ => state & !IN_TICKER,
            })
        });
        if told {
            self.notify.notify(self.handle.load(Ordering::Relaxed));
        }
        stays
    }

    /// Replaces the state by what `change` says; the one before, or `None` if it said nothing.
    fn update(&self, change: impl FnMut(u32) -> Option<u32>) -> Option<u32> {
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).ok()
    }
}

fn is_armed(state: u32) -> bool {
    state & (WANTS_TX | WANTS_RX) != 0
}

fn without_arming(state: u32) -> u32 {
    state & !(WANTS_TX | WANTS_RX | ANSWERED_READY | HAS_PENDING | TICKED_ONCE)
}

fn interest_bits(tx: bool, rx: bool) -> u32 {
    (if tx { WANTS_TX } else { 0 }) | if rx { WANTS_RX } else { 0 }
}

/// Those who may have to be told a little later.
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

    /// One round.
    pub(crate) fn tick(&self) {
        let mut listed = std::mem::take(&mut *lock(&self.pending));
        listed.retain(|waker| waker.tick());
        lock(&self.pending).append(&mut listed);
    }

    /// Rounds until it is stopped; sleeps while there is nobody to tell.
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

/// Those who wait for one ring.
#[derive(Debug, Default)]
pub struct Listeners {
    list: RwLock<Vec<RingListener>>,
    any: AtomicBool,
}

#[derive(Debug)]
struct RingListener {
    waker: Arc<Waker>,
    view: RingView,
    dir: TxRx,
}

impl Listeners {
    /// Tells them that a sync of the ring is worth while now. What is worth it was published
    /// before the call.
    #[inline]
    pub fn wake(&self) {
        // Pairs with the fence in `Waker::arm`.
        fence(Ordering::SeqCst);
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        for one in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            one.waker.wake_for(one.dir, || !one.view.is_ready());
        }
    }

    /// Wakes them whatever they wait for.
    pub fn wake_now(&self) {
        for one in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            one.waker.wake_now();
        }
    }

    pub(crate) fn add(&self, waker: &Arc<Waker>, dir: TxRx, view: &RingView) {
        let one = RingListener { waker: waker.clone(), view: view.clone(), dir };
        self.list.write().unwrap_or_else(PoisonError::into_inner).push(one);
        self.any.store(true, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, waker: &Arc<Waker>) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.retain(|one| !Arc::ptr_eq(&one.waker, waker));
        self.any.store(!list.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Told(Mutex<Vec<u64>>);

    impl Notify for Told {
        fn notify(&self, handle: u64) {
            lock(&self.0).push(handle);
        }
    }

    fn waker() -> (Arc<Waker>, Arc<Told>, Arc<Ticker>) {
        let (told, ticker) = (Arc::<Told>::default(), Arc::<Ticker>::default());
        (Waker::new(told.clone(), ticker.clone()), told, ticker)
    }

    fn told(told: &Told) -> usize {
        lock(&told.0).len()
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
        assert_eq!(told(&told_of), 0);
    }

    #[test]
    fn one_who_was_ready_and_has_used_it_up_is_told_at_once() {
        let (waker, told_of, _) = waker();
        waker.arm(7, false, true, true);
        waker.wake_for(TxRx::Rx, || true);
        assert_eq!(told(&told_of), 1);
    }

    #[test]
    fn one_who_is_busy_is_told_two_ticks_later() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, false, true, true);
        waker.wake_for(TxRx::Rx, || false);
        ticker.tick();
        assert_eq!(told(&told_of), 0);
        ticker.tick();
        assert_eq!(told(&told_of), 1);
        ticker.tick();
        assert_eq!(told(&told_of), 1);
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
        assert_eq!(told(&told_of), 0);
    }

    #[test]
    fn one_who_came_back_once_and_does_not_any_more_is_told_late_once_and_then_at_once() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, false, true, true);
        waker.begin_poll(false, true);
        waker.arm(7, false, true, true);
        waker.end_poll();
        waker.wake_for(TxRx::Rx, || true);
        assert_eq!(told(&told_of), 0);
        (0..2).for_each(|_| ticker.tick());
        assert_eq!(told(&told_of), 1);
        waker.begin_poll(false, true);
        waker.arm(7, false, true, true);
        waker.end_poll();
        waker.wake_for(TxRx::Rx, || true);
        assert_eq!(told(&told_of), 2);
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
        assert_eq!(told(&told_of), 1);
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
        assert_eq!(told(&told_of), 1);
    }

    #[test]
    fn one_who_is_polling_sees_for_himself() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, false, true, true);
        waker.begin_poll(false, true);
        waker.wake_for(TxRx::Rx, || true);
        assert_eq!(told(&told_of), 0);
        waker.end_poll();
        (0..2).for_each(|_| ticker.tick());
        assert_eq!(told(&told_of), 1);
    }

    #[test]
    fn one_who_sleeps_is_told_though_another_that_shares_the_file_is_awake() {
        let (waker, told_of, _) = waker();
        waker.arm(7, false, true, false);
        waker.arm(7, true, false, true);
        waker.begin_poll(false, true);
        waker.wake_for(TxRx::Rx, || false);
        assert_eq!(told(&told_of), 1);
    }
}
