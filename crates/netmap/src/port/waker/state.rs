//! The words of one waker, generic over the storage, so that `loom` explores the production code.
//!
//! ```text
//!   program's poll                                   publisher
//!   arm: stores handle and bits, full fence          publishes, full fence
//!   checks for frames once more                      has_listeners, then wake_for: reads the bits
//! ```
//!
//! One of the two fences precedes the other, so either the poll sees what was published, or the
//! publisher sees the bits.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A word that several threads access.
pub(super) trait WakerWord: Default {
    /// Reads the word. Acquire: everything written before the last `update` or `decrement` that
    /// changed the word is visible afterwards.
    fn acquire(&self) -> u64;
    /// Reads the word without ordering.
    fn load_relaxed(&self) -> u64;
    /// Writes the word without ordering.
    fn store_relaxed(&self, value: u64);
    /// Adds one without ordering.
    fn increment(&self);
    /// Subtracts one. Release: orders everything written so far before it.
    fn decrement(&self);
    /// Atomically replaces the value by the result of `change` and returns the previous value; if
    /// `change` returns `None`, does nothing and returns `None`. Acquire and release.
    fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Option<u64>;
    /// Full fence: orders all earlier accesses before all later ones, in every thread's view.
    fn full_fence();
}

impl WakerWord for AtomicU64 {
    fn acquire(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn load_relaxed(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    fn store_relaxed(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }

    fn increment(&self) {
        self.fetch_add(1, Ordering::Relaxed);
    }

    fn decrement(&self) {
        self.fetch_sub(1, Ordering::Release);
    }

    fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        self.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).ok()
    }

    #[inline(always)]
    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

pub(super) const WANTS_TX: u64 = 1;
pub(super) const WANTS_RX: u64 = 1 << 1;
/// Since the waker was last disarmed, every poll that armed it had found something ready.
const ANSWERED_READY: u64 = 1 << 2;
/// A delayed notification is pending: something may have been published since the waker was armed.
const HAS_PENDING: u64 = 1 << 3;
/// The waker is in the ticker's list.
const IN_TICKER: u64 = 1 << 4;
/// One tick has occurred since something became pending; the next tick notifies.
const TICKED_ONCE: u64 = 1 << 5;
/// After a "ready" answer, the program polled again without being notified in between. Cleared by a
/// delayed notification.
const POLLS_AGAIN: u64 = 1 << 6;

/// The action that a publisher must take for a waker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeAction {
    Nothing,
    /// Notify this handle.
    Notify(u64),
    /// Add the waker to the ticker's list.
    Enlist,
}

/// The result of a tick for a waker in the ticker's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TickResult {
    /// The handle to notify, if the program must be notified now.
    pub(super) notify: Option<u64>,
    /// Whether the waker stays in the ticker's list.
    pub(super) stays: bool,
}

/// The state of one open file's polls.
#[derive(Debug, Default)]
pub(super) struct WakerState<W> {
    bits: W,
    /// Polls in progress.
    polls: W,
    handle: W,
}

impl<W: WakerWord> WakerState<W> {
    /// Returns the state bits, for debug output.
    pub(super) fn bits(&self) -> u64 {
        self.bits.load_relaxed()
    }

    /// Records that a poll for these directions begins.
    pub(super) fn begin_poll(&self, interest: u64) {
        self.polls.increment();
        self.bits.update(|bits| {
            if !is_armed(bits) || bits & ANSWERED_READY == 0 {
                return None;
            }
            // Pending news stays pending if another poll of the same file may still wait for the
            // other direction.
            let all = bits & (WANTS_TX | WANTS_RX) & !interest == 0;
            Some((if all { bits & !(HAS_PENDING | TICKED_ONCE) } else { bits }) | POLLS_AGAIN)
        });
    }

    /// Records that a poll has ended.
    pub(super) fn end_poll(&self) {
        self.polls.decrement();
    }

    /// Arms the waker for these directions. `ready` is whether the poll found something ready; if
    /// not, the caller checks the rings once more afterwards.
    pub(super) fn arm(&self, handle: u64, interest: u64, ready: bool) {
        self.handle.store_relaxed(handle);
        self.bits.update(|bits| {
            // The new "ready" counts only if all earlier answers were "ready" too: otherwise
            // another poll of the same file may already sleep.
            let ready = ready && (!is_armed(bits) || bits & ANSWERED_READY != 0);
            Some((bits & !ANSWERED_READY) | interest | if ready { ANSWERED_READY } else { 0 })
        });
        // Pairs with the fence in `has_listeners`.
        W::full_fence();
    }

    /// Disarms the waker for both directions; returns the handle to notify, if the waker was armed.
    pub(super) fn disarm(&self) -> Option<u64> {
        let before = self.bits.update(|bits| is_armed(bits).then(|| without_arming(bits)));
        before.map(|_| self.handle.load_relaxed())
    }

    /// Requests a notification after one to two ticks; returns whether the caller must add the
    /// waker to the ticker's list.
    pub(super) fn mark_pending(&self) -> bool {
        let before =
            self.bits.update(|bits| is_armed(bits).then_some(bits | HAS_PENDING | IN_TICKER));
        before.is_some_and(|bits| bits & IN_TICKER == 0)
    }

    /// Handles new frames or slots of one ring. `idle` returns whether the program has used up all
    /// slots of the ring that it knew of.
    pub(super) fn wake_for(&self, direction: u64, idle: impl Fn() -> bool) -> WakeAction {
        let mut urgent = false;
        let before = self.bits.update(|bits| {
            if bits & direction == 0 {
                return None;
            }
            let awake = bits & POLLS_AGAIN != 0 || self.polls.acquire() > 0 || !idle();
            urgent = bits & ANSWERED_READY == 0 || !awake;
            Some(if urgent { without_arming(bits) } else { bits | HAS_PENDING | IN_TICKER })
        });
        match before {
            Some(_) if urgent => WakeAction::Notify(self.handle.load_relaxed()),
            Some(bits) if bits & IN_TICKER == 0 => WakeAction::Enlist,
            _ => WakeAction::Nothing,
        }
    }

    /// Handles a tick of the ticker, which has this waker in its list.
    pub(super) fn tick(&self) -> TickResult {
        let (mut notified, mut stays) = (false, false);
        self.bits.update(|bits| {
            let pending = is_armed(bits) && bits & HAS_PENDING != 0;
            notified = pending && bits & TICKED_ONCE != 0;
            stays = pending && !notified;
            Some(match (notified, stays) {
                // No poll since the previous tick has cleared the pending news.
                (true, _) => without_arming(bits) & !(IN_TICKER | POLLS_AGAIN),
                (_, true) => bits | TICKED_ONCE,
                _ => bits & !IN_TICKER,
            })
        });
        TickResult { notify: notified.then(|| self.handle.load_relaxed()), stays }
    }
}

/// Returns whether anything may wait for a ring. Called after something was published.
#[inline(always)]
pub(super) fn has_listeners<W: WakerWord>(any: &W) -> bool {
    // Pairs with the fence in `WakerState::arm`.
    W::full_fence();
    any.load_relaxed() != 0
}

fn is_armed(bits: u64) -> bool {
    bits & (WANTS_TX | WANTS_RX) != 0
}

fn without_arming(bits: u64) -> u64 {
    bits & !(WANTS_TX | WANTS_RX | ANSWERED_READY | HAS_PENDING | TICKED_ONCE)
}
