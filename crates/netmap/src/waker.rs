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

use crate::adapter::Dir;
use crate::domain::lock;

/// How a front tells a program's kernel to look again.
pub trait Notify: Send + Sync {
    /// Wakes whoever polls the open file that armed with `handle`.
    fn notify(&self, handle: u64);
}

/// A program that is taken to come back by itself is told after one to two of these.
const TICK: Duration = Duration::from_millis(1);

const TX: u32 = 1;
const RX: u32 = 1 << 1;
/// Every poll since it was armed first was answered "ready".
const READY: u32 = 1 << 2;
/// There was news since then, of which it has not been told.
const NEWS: u32 = 1 << 3;
/// It is in the ticker's list.
const LISTED: u32 = 1 << 4;
/// A tick has seen that there was news.
const OLD: u32 = 1 << 5;
/// When it was answered "ready" last, it polled again without being told.
const RETURNS: u32 = 1 << 6;

fn bit(dir: Dir) -> u32 {
    match dir {
        Dir::Tx => TX,
        Dir::Rx => RX,
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
            if !armed(state) || state & READY == 0 {
                return None;
            }
            // Somebody else who shares the file may wait for the other direction.
            let all = state & (TX | RX) & !wish(tx, rx) == 0;
            Some((if all { state & !(NEWS | OLD) } else { state }) | RETURNS)
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
            let ready = ready && (!armed(state) || state & READY != 0);
            Some((state & !READY) | wish(tx, rx) | if ready { READY } else { 0 })
        });
        // Pairs with the fence in `Listeners::wake`: either we see what was published, or its
        // publisher sees that we are armed.
        fence(Ordering::SeqCst);
    }

    /// Wakes it whatever it waits for: its port is gone.
    pub fn wake_now(&self) {
        if self.update(|state| armed(state).then(|| disarmed(state))).is_some() {
            self.notify.notify(self.handle.load(Ordering::Relaxed));
        }
    }

    /// Tells it in a tick or two, unless there is news before.
    pub(crate) fn tell_soon(self: &Arc<Self>) {
        let before = self.update(|state| armed(state).then_some(state | NEWS | LISTED));
        if before.is_some_and(|state| state & LISTED == 0) {
            self.ticker.add(self.clone());
        }
    }

    /// Notifies the handle of somebody who armed in another process.
    pub(crate) fn tell(&self, handle: u64) {
        self.notify.notify(handle);
    }

    /// There is news; `idle` says that the program has used up all it knew of.
    #[inline]
    fn news(self: &Arc<Self>, dir: Dir, idle: impl Fn() -> bool) {
        let mut urgent = false;
        let before = self.update(|state| {
            if state & bit(dir) == 0 {
                return None;
            }
            let returns = state & RETURNS != 0;
            let awake = returns || self.polls.load(Ordering::Acquire) > 0 || !idle();
            urgent = state & READY == 0 || !awake;
            Some(if urgent { disarmed(state) } else { state | NEWS | LISTED })
        });
        match before {
            Some(_) if urgent => self.notify.notify(self.handle.load(Ordering::Relaxed)),
            Some(state) if state & LISTED == 0 => self.ticker.add(self.clone()),
            _ => {}
        }
    }

    /// A tick after it was listed; whether it stays so.
    fn tick(&self) -> bool {
        let (mut told, mut stays) = (false, false);
        self.update(|state| {
            let news = armed(state) && state & NEWS != 0;
            told = news && state & OLD != 0;
            stays = news && !told;
            Some(match (told, stays) {
                // It did not come back.
                (true, _) => disarmed(state) & !(LISTED | RETURNS),
                (_, true) => state | OLD,
                _ => state & !LISTED,
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

fn armed(state: u32) -> bool {
    state & (TX | RX) != 0
}

fn disarmed(state: u32) -> u32 {
    state & !(TX | RX | READY | NEWS | OLD)
}

fn wish(tx: bool, rx: bool) -> u32 {
    (if tx { TX } else { 0 }) | if rx { RX } else { 0 }
}

/// Those who may have to be told a little later.
#[derive(Debug, Default)]
pub(crate) struct Ticker {
    late: Mutex<Vec<Arc<Waker>>>,
    first: Condvar,
    stopped: AtomicBool,
}

impl Ticker {
    fn add(&self, waker: Arc<Waker>) {
        let mut late = lock(&self.late);
        late.push(waker);
        if late.len() == 1 {
            self.first.notify_one();
        }
    }

    /// One round.
    pub(crate) fn tick(&self) {
        let mut listed = std::mem::take(&mut *lock(&self.late));
        listed.retain(|waker| waker.tick());
        lock(&self.late).append(&mut listed);
    }

    /// Rounds until it is stopped; sleeps while there is nobody to tell.
    pub(crate) fn run(&self) {
        while !self.stopped.load(Ordering::Acquire) {
            let late = lock(&self.late);
            let idle = |late: &mut Vec<_>| late.is_empty() && !self.stopped.load(Ordering::Acquire);
            drop(self.first.wait_while(late, idle).unwrap_or_else(PoisonError::into_inner));
            std::thread::sleep(TICK);
            self.tick();
        }
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let _late = lock(&self.late);
        self.first.notify_all();
    }
}

/// Those who wait for one ring.
#[derive(Debug, Default)]
pub struct Listeners {
    list: RwLock<Vec<Listener>>,
    any: AtomicBool,
}

#[derive(Debug)]
struct Listener {
    waker: Arc<Waker>,
    view: RingView,
    dir: Dir,
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
            one.waker.news(one.dir, || !one.view.is_ready());
        }
    }

    /// Wakes them whatever they wait for.
    pub fn wake_now(&self) {
        for one in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            one.waker.wake_now();
        }
    }

    pub(crate) fn add(&self, waker: &Arc<Waker>, dir: Dir, view: &RingView) {
        let one = Listener { waker: waker.clone(), view: view.clone(), dir };
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
        waker.news(Dir::Rx, || false);
        waker.news(Dir::Rx, || false);
        assert_eq!(*lock(&told_of.0), [7]);
    }

    #[test]
    fn one_who_waits_for_frames_is_not_told_of_room() {
        let (waker, told_of, _) = waker();
        waker.arm(7, false, true, false);
        waker.news(Dir::Tx, || true);
        assert_eq!(told(&told_of), 0);
    }

    #[test]
    fn one_who_was_ready_and_has_used_it_up_is_told_at_once() {
        let (waker, told_of, _) = waker();
        waker.arm(7, false, true, true);
        waker.news(Dir::Rx, || true);
        assert_eq!(told(&told_of), 1);
    }

    #[test]
    fn one_who_is_busy_is_told_two_ticks_later() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, false, true, true);
        waker.news(Dir::Rx, || false);
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
            waker.news(Dir::Rx, || true);
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
        waker.news(Dir::Rx, || true);
        assert_eq!(told(&told_of), 0);
        (0..2).for_each(|_| ticker.tick());
        assert_eq!(told(&told_of), 1);
        waker.begin_poll(false, true);
        waker.arm(7, false, true, true);
        waker.end_poll();
        waker.news(Dir::Rx, || true);
        assert_eq!(told(&told_of), 2);
    }

    #[test]
    fn news_that_comes_while_a_poll_is_answered_is_not_forgotten() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, false, true, true);
        waker.begin_poll(false, true);
        waker.news(Dir::Rx, || true);
        waker.arm(7, false, true, true);
        waker.end_poll();
        (0..2).for_each(|_| ticker.tick());
        assert_eq!(told(&told_of), 1);
    }

    #[test]
    fn a_poll_for_one_direction_keeps_the_news_of_the_other() {
        let (waker, told_of, ticker) = waker();
        waker.arm(7, true, true, true);
        waker.news(Dir::Rx, || false);
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
        waker.news(Dir::Rx, || true);
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
        waker.news(Dir::Rx, || false);
        assert_eq!(told(&told_of), 1);
    }
}
