//! The way out at one port: frames that are due, in the order in which they are to leave.
//!
//! A wire does not queue. But a port that takes nothing for a moment, since its reader was not
//! running or its device is as fast as the emulated line, would make losses that nobody asked for
//! out of microseconds; so a frame that the port refused waits for room for as long as the outlet
//! has patience, and is dropped as `tx_full` after that. How late it left is measured either way.
//! Frames that are late only because nobody flushed are no fault of the port and are sent.

use std::collections::VecDeque;

use slipring_link::{Cause, Delivery, ExitId, Flight, LinkId, Tally};
use slipring_port::{Nanos, Queue, RunError};
use slipring_ring::TxRing;

use super::account::ExitAccount;
use super::tap::Tap;
use crate::report::measured::{Departure, Measured};
use crate::store::{Store, Stored, copy_frame};

/// How long a refused frame waits for room, where nothing else is asked for.
const PATIENCE: Nanos = 10_000_000;

/// The way out at one port.
#[derive(Debug)]
pub(super) struct Outlet {
    /// Frames that are due, those from `next` on.
    due: Vec<Departure>,
    next: usize,
    /// Since when the port refuses the frames that wait, in their order.
    refused: VecDeque<Refused>,
    /// How many of those before `next` the port was given since its last sync.
    given: usize,
    /// How long a frame waits for room.
    patience: Nanos,
    /// Frames later than this are not sent any more.
    late_drop: Option<Nanos>,
    account: ExitAccount,
}

/// Frames before `end`, and behind those that were refused earlier, found no room at `since`.
#[derive(Debug, Clone, Copy)]
struct Refused {
    end: usize,
    since: Nanos,
}

impl Outlet {
    /// Frames later than `late_drop` are dropped instead of sent.
    pub(super) fn new(late_drop: Option<Nanos>) -> Self {
        Self {
            due: Vec::new(),
            next: 0,
            refused: VecDeque::new(),
            given: 0,
            patience: late_drop.unwrap_or(PATIENCE),
            late_drop,
            account: ExitAccount::default(),
        }
    }

    /// Takes a frame that is due.
    #[inline(always)]
    pub(super) fn push(&mut self, delivery: Delivery) {
        self.due.push(Departure::of(delivery));
    }

    /// Takes frames that are due, by one link.
    #[inline]
    pub(super) fn push_all(&mut self, exit: ExitId, link: LinkId, frames: &[Flight]) {
        self.due.extend(frames.iter().map(|frame| Departure::of(frame.delivered(exit, link))));
    }

    /// Whether frames wait.
    #[inline(always)]
    pub(super) fn is_waiting(&self) -> bool {
        self.next < self.due.len()
    }

    /// Sends what is due, as far as the port takes it; returns how many frames. What was found
    /// due at `now` has left by what `clock` says afterwards.
    pub(super) fn flush<T: Tap>(
        &mut self,
        queue: &mut dyn Queue,
        store: &mut Store,
        tap: &mut T,
        measured: &mut [Measured],
        now: Nanos,
        clock: impl Fn() -> Nanos,
    ) -> Result<usize, RunError> {
        if let Some(most) = self.late_drop {
            self.drop_later_than(most, store, tap, now);
        }
        // A sync also fetches the slots that the port is done with, so there may be room again.
        let mut sent = 0;
        loop {
            let tx = queue.rings().tx;
            while self.fill_slots(tx, store, tap, now) || self.fill_chain(tx, store, tap, now) {}
            if self.given == 0 && tx.with_driver() == 0 {
                break;
            }
            let room = tx.avail();
            queue.tx_sync()?;
            sent += self.count_given(&clock, measured);
            if !self.is_waiting() || queue.rings().tx.avail() <= room {
                break;
            }
        }
        if self.is_waiting() {
            self.note_refused(now);
            self.drop_refused(store, tap, now);
        }
        self.forget_done();
        Ok(sent)
    }

    /// The account, with what waits.
    pub(super) fn account(&self) -> ExitAccount {
        let mut account = self.account.clone();
        account.waiting = Tally::default();
        self.due[self.next..].iter().for_each(|frame| account.waiting.count(frame.len));
        account
    }

    /// Drops frames from the front while they are that late.
    fn drop_later_than<T: Tap>(&mut self, most: Nanos, store: &mut Store, tap: &mut T, now: Nanos) {
        while let Some(frame) = self.due.get(self.next)
            && now.saturating_sub(frame.release_ns) > most
        {
            self.drop_first(Cause::Late, store, tap, now);
        }
    }

    /// Remembers since when the frames that wait do so.
    fn note_refused(&mut self, now: Nanos) {
        let end = self.due.len();
        if self.refused.back().is_none_or(|last| last.end < end) {
            self.refused.push_back(Refused { end, since: now });
        }
    }

    /// Drops the frames that were refused for too long.
    fn drop_refused<T: Tap>(&mut self, store: &mut Store, tap: &mut T, now: Nanos) {
        while let Some(&Refused { end, since }) = self.refused.front()
            && (end <= self.next || now.saturating_sub(since) > self.patience)
        {
            while self.next < end {
                self.drop_first(Cause::TxFull, store, tap, now);
            }
            self.refused.pop_front();
        }
    }

    fn drop_first<T: Tap>(&mut self, cause: Cause, store: &mut Store, tap: &mut T, now: Nanos) {
        let frame = &self.due[self.next];
        tap.dropped(&frame.delivery(), cause, now, store);
        self.account.dropped.entry(frame.link).or_default().count(cause, frame.len);
        store.free(frame.handle);
        self.next += 1;
    }

    /// Copies frames that fit a slot each, up to one that does not; whether there were any.
    #[inline]
    fn fill_slots<T: Tap>(
        &mut self,
        tx: &mut TxRing,
        store: &mut Store,
        tap: &mut T,
        now: Nanos,
    ) -> bool {
        let size = tx.buf_size();
        let mut due = self.due[self.next..].iter_mut();
        let filled = tx.fill(u32::MAX, |buf| {
            let Some(frame) = due.next().filter(|frame| frame.len <= size) else { return 0 };
            if T::ON {
                tap.sent(&frame.delivery(), now, store);
            }
            store.take(frame.handle, |stored| {
                copy_frame(&mut buf[..stored.bytes.len()], stored.bytes);
                frame.came(&stored);
                stored.bytes.len()
            })
        });
        self.next += filled as usize;
        self.given += filled as usize;
        filled > 0
    }

    /// One frame that takes several slots; whether there was one, and room for it.
    fn fill_chain<T: Tap>(
        &mut self,
        tx: &mut TxRing,
        store: &mut Store,
        tap: &mut T,
        now: Nanos,
    ) -> bool {
        let size = tx.buf_size();
        let Some(frame) = self.due.get_mut(self.next).filter(|frame| frame.len > size) else {
            return false;
        };
        let stored = store.get(frame.handle);
        if !tx.push(stored.bytes) {
            return false;
        }
        frame.came(&stored);
        tap.sent(&frame.delivery(), now, store);
        store.free(frame.handle);
        self.next += 1;
        self.given += 1;
        true
    }

    /// Counts what the port has had by now.
    fn count_given(&mut self, clock: impl Fn() -> Nanos, measured: &mut [Measured]) -> usize {
        let given = &self.due[self.next - self.given..self.next];
        if given.is_empty() {
            return 0;
        }
        let sent_ns = clock();
        for frames in given.chunk_by(|a, b| a.link == b.link) {
            let bytes = measured[frames[0].link.0 as usize].sent_all(sent_ns, frames);
            self.account.sent += Tally { packets: frames.len() as u64, bytes };
        }
        std::mem::take(&mut self.given)
    }

    /// What is done makes room: all of it at once when nothing waits.
    fn forget_done(&mut self) {
        if !self.is_waiting() {
            self.due.clear();
            self.refused.clear();
            self.next = 0;
        } else if self.next > 4096 {
            self.due.drain(..self.next);
            self.refused.iter_mut().for_each(|refused| refused.end -= self.next.min(refused.end));
            self.next = 0;
        }
    }
}

impl Departure {
    #[inline(always)]
    fn came(&mut self, stored: &Stored<'_>) {
        (self.arrival_ns, self.is_copy) = (stored.arrival_ns, stored.is_copy);
    }
}
