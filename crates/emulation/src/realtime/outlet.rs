//! The way out at one port: frames that are due, in the order in which they are to leave.
//!
//! A wire does not queue. But a port that takes nothing for a moment, since its reader was not
//! running or its device is as fast as the emulated line, would make losses that nobody asked for
//! out of microseconds; so a frame that the port refused waits for room for as long as the outlet
//! has patience, and is dropped as `tx_full` after that. How late it left is measured either way.
//! Frames that are late only because nobody flushed are no fault of the port and are sent.

mod given;

use std::collections::VecDeque;
use std::slice::IterMut;

use slipring_link::{Cause, Coupled, Delivery, ExitId, Flight, Handle, LinkId, Tally, Train};
use slipring_port::{Nanos, Queue, RunError};
use slipring_ring::TxRing;

use super::account::ExitAccount;
use super::tap::Tap;
use crate::report::measured::Measured;
use crate::store::{Frames, Head, Store, after, copy_frame};
use given::Given;

/// How long a refused frame waits for room, where nothing else is asked for.
const PATIENCE: Nanos = 10_000_000;

/// From how many frames on those that lie together are worth a walk of their own.
const MANY: u32 = 8;

/// The way out at one port.
#[derive(Debug)]
pub(super) struct Outlet {
    exit: ExitId,
    due: VecDeque<Due>,
    /// How many of these the processor was told to fetch.
    fetched: usize,
    /// When those are to leave of which each has a time of its own, in their order.
    releases: VecDeque<Nanos>,
    /// Frames that have ever been due, and those of them that are no more.
    came: u64,
    gone: u64,
    /// Since when the port refuses the frames that wait, in their order.
    refused: VecDeque<Refused>,
    /// What the port was given since its last sync.
    given: Given,
    /// How long a frame waits for room.
    patience: Nanos,
    /// Frames later than this are not sent any more.
    late_drop: Option<Nanos>,
    account: ExitAccount,
}

/// Frames that are due and lie one behind the other.
#[derive(Debug, Clone, Copy)]
struct Due {
    train: Train,
    /// How long after they arrived they are to leave; none where each has a time of its own.
    delay_ns: Option<Nanos>,
    /// The link that they came by.
    link: LinkId,
    /// Where a frame would lie behind them.
    next: Handle,
}

/// Frames up to `end` of those that came, and behind those that were refused earlier, found no room
/// at `since`.
#[derive(Debug, Clone, Copy)]
struct Refused {
    end: u64,
    since: Nanos,
}

impl Outlet {
    /// Frames later than `late_drop` are dropped instead of sent.
    pub(super) fn new(exit: ExitId, late_drop: Option<Nanos>) -> Self {
        Self {
            exit,
            due: VecDeque::new(),
            fetched: 0,
            releases: VecDeque::new(),
            came: 0,
            gone: 0,
            refused: VecDeque::new(),
            given: Given::default(),
            patience: late_drop.unwrap_or(PATIENCE),
            late_drop,
            account: ExitAccount::default(),
        }
    }

    /// Takes a frame that is due.
    #[inline(always)]
    pub(super) fn push(&mut self, link: LinkId, frame: Flight) {
        let Flight { release_ns, handle, len } = frame;
        self.came += 1;
        self.releases.push_back(release_ns);
        let next = after(handle, len);
        match self.due.back_mut() {
            Some(last) if last.takes(link, handle) => {
                last.train.packets += 1;
                last.train.bytes += u64::from(len);
                last.next = next;
            }
            _ => {
                let (first_ns, last_ns) = (release_ns, release_ns);
                let train = Train { handle, packets: 1, bytes: len.into(), first_ns, last_ns };
                self.due.push_back(Due { train, delay_ns: None, link, next });
            }
        }
    }

    /// Takes a train that is due, each frame `delay_ns` after it arrived.
    #[inline]
    pub(super) fn push_train(&mut self, link: LinkId, delay_ns: Nanos, train: Train) {
        self.came += u64::from(train.packets);
        let next = train.handle;
        self.due.push_back(Due { train, delay_ns: Some(delay_ns), link, next });
    }

    /// Whether frames wait.
    #[inline(always)]
    pub(super) fn is_waiting(&self) -> bool {
        !self.due.is_empty()
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
            if self.given.is_empty() && tx.with_driver() == 0 {
                break;
            }
            let room = tx.avail();
            queue.tx_sync()?;
            let given = self.given.settle(&clock, store, measured);
            self.account.sent += given;
            sent += given.packets as usize;
            if !self.is_waiting() || queue.rings().tx.avail() <= room {
                break;
            }
        }
        if self.is_waiting() {
            self.note_refused(now);
            self.drop_refused(store, tap, now);
        } else {
            self.refused.clear();
        }
        Ok(sent)
    }

    /// The account, with what waits.
    pub(super) fn account(&self) -> ExitAccount {
        let mut account = self.account.clone();
        let waiting = self.due.iter().map(|due| due.train.tally());
        account.waiting = waiting.fold(Tally::default(), |sum, tally| sum + tally);
        account
    }

    /// Drops frames from the front while they are that late.
    fn drop_later_than<T: Tap>(&mut self, most: Nanos, store: &mut Store, tap: &mut T, now: Nanos) {
        while let Some(release_ns) = self.first_release_ns()
            && now.saturating_sub(release_ns) > most
        {
            self.drop_first(Cause::Late, store, tap, now);
        }
    }

    /// When the first frame was to leave.
    fn first_release_ns(&self) -> Option<Nanos> {
        let Due { train, delay_ns, .. } = self.due.front()?;
        match delay_ns {
            Some(delay_ns) => Some(train.first_ns.saturating_add(*delay_ns)),
            None => self.releases.front().copied(),
        }
    }

    /// Remembers since when the frames that wait do so.
    fn note_refused(&mut self, now: Nanos) {
        let end = self.came;
        if self.refused.back().is_none_or(|last| last.end < end) {
            self.refused.push_back(Refused { end, since: now });
        }
    }

    /// Drops the frames that were refused for too long.
    fn drop_refused<T: Tap>(&mut self, store: &mut Store, tap: &mut T, now: Nanos) {
        while let Some(&Refused { end, since }) = self.refused.front()
            && (end <= self.gone || now.saturating_sub(since) > self.patience)
        {
            while self.gone < end {
                self.drop_first(Cause::TxFull, store, tap, now);
            }
            self.refused.pop_front();
        }
    }

    fn drop_first<T: Tap>(&mut self, cause: Cause, store: &mut Store, tap: &mut T, now: Nanos) {
        let Some(due) = self.take_front(1, store) else { return };
        let frames = self.deliveries(&due, store);
        for frame in &frames {
            tap.dropped(frame, cause, now, store);
            self.account.dropped.entry(frame.link).or_default().count(cause, frame.len);
            store.free(frame.handle);
        }
        if due.delay_ns.is_none() {
            self.releases.drain(..frames.len());
        }
    }

    /// Takes the first frames, at most `most`, of those that lie together; their own releases stay.
    #[inline]
    fn take_front(&mut self, most: u32, store: &Store) -> Option<Due> {
        let first = self.due.front_mut()?;
        let taken = if first.train.packets <= most {
            self.fetched = self.fetched.saturating_sub(1);
            self.due.pop_front()?
        } else {
            Due { train: store.take_front(&mut first.train, most), ..*first }
        };
        self.gone += u64::from(taken.train.packets);
        Some(taken)
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
        if self.fetched == 0 {
            self.fetched = store.fetch(self.due.iter().map(|due| &due.train));
        }
        let Some(due) = self.due.front() else { return false };
        let filled = if due.train.packets >= MANY {
            self.fill_together(tx, store)
        } else {
            self.fill_apart(tx, store)
        };
        let mut left = filled;
        while left > 0 {
            left -= self.give(left, store, tap, now);
        }
        filled > 0
    }

    /// Copies frames that lie together.
    #[inline]
    fn fill_together(&mut self, tx: &mut TxRing, store: &Store) -> u32 {
        let Some(due) = self.due.front() else { return 0 };
        let mut frames = store.frames(&due.train);
        let mut heads = self.given.room(tx.num_slots() as usize).iter_mut();
        tx.fill(due.train.packets, |buf| {
            frames.next().map_or(0, |next| copy(next, buf, &mut heads))
        })
    }

    /// Copies frames wherever they lie, as many as were fetched.
    #[inline]
    fn fill_apart(&mut self, tx: &mut TxRing, store: &Store) -> u32 {
        let (mut due, mut frames) = (self.due.iter().take(self.fetched), Frames::default());
        let mut heads = self.given.room(tx.num_slots() as usize).iter_mut();
        tx.fill(u32::MAX, |buf| {
            let mut next = frames.next();
            if next.is_none()
                && let Some(due) = due.next()
            {
                frames = store.frames(&due.train);
                next = frames.next();
            }
            next.map_or(0, |next| copy(next, buf, &mut heads))
        })
    }

    /// One frame that takes several slots; whether there was one, and room for it.
    fn fill_chain<T: Tap>(
        &mut self,
        tx: &mut TxRing,
        store: &mut Store,
        tap: &mut T,
        now: Nanos,
    ) -> bool {
        let Some(due) = self.due.front() else { return false };
        let Some((head, frame)) = store.frames(&due.train).next() else { return false };
        if frame.len() <= tx.buf_size() as usize || !tx.push(frame) {
            return false;
        }
        self.given.room(1)[0] = head;
        self.give(1, store, tap, now);
        true
    }

    /// Notes that the port was given the first frames, as many as that of those that lie together;
    /// returns how many those were.
    #[inline]
    fn give<T: Tap>(&mut self, count: u32, store: &mut Store, tap: &mut T, now: Nanos) -> u32 {
        let Some(due) = self.take_front(count, store) else { return count };
        if T::ON {
            self.deliveries(&due, store).iter().for_each(|frame| tap.sent(frame, now, store));
        }
        store.free_train(&due.train);
        self.given.add(&due, &mut self.releases);
        due.train.packets
    }

    /// The frames that were taken off the front.
    fn deliveries(&self, due: &Due, store: &Store) -> Vec<Delivery> {
        let (mut next, mut own) = (due.train.handle, self.releases.iter());
        let frame = |_| {
            let Coupled { frame, next: behind } = store.coupled(next);
            next = behind;
            let release_ns = match due.delay_ns {
                Some(delay_ns) => frame.arrival_ns.saturating_add(delay_ns),
                None => *own.next()?,
            };
            let (exit, link) = (self.exit, due.link);
            Some(Delivery { release_ns, handle: frame.handle, len: frame.len, exit, link })
        };
        (0..due.train.packets).map_while(frame).collect()
    }
}

/// Copies a frame into a buffer and notes its head; 0, where it does not fit, its length otherwise.
#[inline(always)]
fn copy((head, frame): (Head, &[u8]), buf: &mut [u8], heads: &mut IterMut<'_, Head>) -> usize {
    let Some(room) = buf.get_mut(..frame.len()) else { return 0 };
    let Some(place) = heads.next() else { return 0 };
    *place = head;
    copy_frame(room, frame);
    frame.len()
}

impl Due {
    /// Whether a frame with a release of its own is one more of these.
    #[inline(always)]
    fn takes(&self, link: LinkId, frame: Handle) -> bool {
        self.next == frame && self.link == link && self.delay_ns.is_none()
    }
}
