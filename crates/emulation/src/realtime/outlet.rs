//! The way out at one port: frames that are due, in the order in which they are to leave.
//!
//! A wire does not queue. But a port that takes nothing for a moment, since its reader was not
//! running or its device is as fast as the emulated line, would make losses that nobody asked for
//! out of microseconds; so a frame that the port refused waits for room for as long as the outlet
//! has patience, and is dropped as `tx_full` after that. How late it left is measured either way.
//! Frames that are late only because nobody flushed are no fault of the port and are sent.

mod submitted;

use std::collections::VecDeque;
use std::slice::IterMut;

use slipring_link::{
    Burst, BurstItem, Delivery, ExitId, FrameHandle, InFlightFrame, LinkDropCause, LinkId,
    PacketCounts,
};
use slipring_port::{Nanos, Queue, RunError};
use slipring_ring::TxRing;

use super::account::ExitAccount;
use super::frame_tap::FrameTap;
use crate::report::measurement::LinkMeasurement;
use crate::store::{EmulationStore, StoreHeader, StoredFrames, after, copy_frame};
use submitted::SubmittedFrames;

/// How long a refused frame waits for room, where nothing else is asked for.
const REFUSED_TIMEOUT_NS: Nanos = 10_000_000;

/// From how many frames on those that lie together are worth a walk of their own.
const MIN_CONTIGUOUS_FRAMES: u32 = 8;

/// The way out at one port.
#[derive(Debug)]
pub(super) struct PortOutlet {
    exit: ExitId,
    due: VecDeque<DueBurst>,
    /// How many of these the processor was told to fetch.
    prefetched: usize,
    /// When those are to leave of which each has a time of its own, in their order.
    releases: VecDeque<Nanos>,
    /// Frames that have ever been due, and those of them that are no more.
    total_due: u64,
    total_done: u64,
    /// Since when the port refuses the frames that wait, in their order.
    refused: VecDeque<RefusedFrames>,
    /// What the port was given since its last sync.
    submitted: SubmittedFrames,
    /// How long a frame waits for room.
    refused_timeout: Nanos,
    /// Frames later than this are not sent any more.
    late_drop: Option<Nanos>,
    account: ExitAccount,
}

/// Frames that are due and lie one behind the other.
#[derive(Debug, Clone, Copy)]
struct DueBurst {
    burst: Burst,
    /// How long after they arrived they are to leave; none where each has a time of its own.
    delay_ns: Option<Nanos>,
    /// The link that they came by.
    link: LinkId,
    /// Where a frame would lie behind them.
    next: FrameHandle,
}

/// Frames up to `end` of those that came, and behind those that were refused earlier, found no room
/// at `since`.
#[derive(Debug, Clone, Copy)]
struct RefusedFrames {
    end: u64,
    since: Nanos,
}

impl PortOutlet {
    /// Frames later than `late_drop` are dropped instead of sent.
    pub(super) fn new(exit: ExitId, late_drop: Option<Nanos>) -> Self {
        Self {
            exit,
            due: VecDeque::new(),
            prefetched: 0,
            releases: VecDeque::new(),
            total_due: 0,
            total_done: 0,
            refused: VecDeque::new(),
            submitted: SubmittedFrames::default(),
            refused_timeout: late_drop.unwrap_or(REFUSED_TIMEOUT_NS),
            late_drop,
            account: ExitAccount::default(),
        }
    }

    /// Takes a frame that is due.
    #[inline(always)]
    pub(super) fn push(&mut self, link: LinkId, frame: InFlightFrame) {
        let InFlightFrame { release_ns, handle, len } = frame;
        self.total_due += 1;
        self.releases.push_back(release_ns);
        let next = after(handle, len);
        match self.due.back_mut() {
            Some(last) if last.takes(link, handle) => {
                last.burst.packets += 1;
                last.burst.bytes += u64::from(len);
                last.next = next;
            }
            _ => {
                let (first_ns, last_ns) = (release_ns, release_ns);
                let train = Burst { handle, packets: 1, bytes: len.into(), first_ns, last_ns };
                self.due.push_back(DueBurst { burst: train, delay_ns: None, link, next });
            }
        }
    }

    /// Takes a train that is due, each frame `delay_ns` after it arrived.
    #[inline]
    pub(super) fn push_burst(&mut self, link: LinkId, delay_ns: Nanos, train: Burst) {
        self.total_due += u64::from(train.packets);
        let next = train.handle;
        self.due.push_back(DueBurst { burst: train, delay_ns: Some(delay_ns), link, next });
    }

    /// Whether frames wait.
    #[inline(always)]
    pub(super) fn is_waiting(&self) -> bool {
        !self.due.is_empty()
    }

    /// Sends what is due, as far as the port takes it; returns how many frames. What was found
    /// due at `now` has left by what `clock` says afterwards.
    pub(super) fn flush<T: FrameTap>(
        &mut self,
        queue: &mut dyn Queue,
        store: &mut EmulationStore,
        tap: &mut T,
        measured: &mut [LinkMeasurement],
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
            if self.submitted.is_empty() && tx.with_driver() == 0 {
                break;
            }
            let room = tx.avail();
            queue.tx_sync()?;
            let given = self.submitted.measure_sent(&clock, store, measured);
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
        let waiting = self.due.iter().map(|due| due.burst.counts());
        account.waiting = waiting.fold(PacketCounts::default(), |sum, tally| sum + tally);
        account
    }

    /// Drops frames from the front while they are that late.
    fn drop_later_than<T: FrameTap>(
        &mut self,
        most: Nanos,
        store: &mut EmulationStore,
        tap: &mut T,
        now: Nanos,
    ) {
        while let Some(release_ns) = self.first_release_ns()
            && now.saturating_sub(release_ns) > most
        {
            self.drop_first(LinkDropCause::Late, store, tap, now);
        }
    }

    /// When the first frame was to leave.
    fn first_release_ns(&self) -> Option<Nanos> {
        let DueBurst { burst: train, delay_ns, .. } = self.due.front()?;
        match delay_ns {
            Some(delay_ns) => Some(train.first_ns.saturating_add(*delay_ns)),
            None => self.releases.front().copied(),
        }
    }

    /// Remembers since when the frames that wait do so.
    fn note_refused(&mut self, now: Nanos) {
        let end = self.total_due;
        if self.refused.back().is_none_or(|last| last.end < end) {
            self.refused.push_back(RefusedFrames { end, since: now });
        }
    }

    /// Drops the frames that were refused for too long.
    fn drop_refused<T: FrameTap>(&mut self, store: &mut EmulationStore, tap: &mut T, now: Nanos) {
        while let Some(&RefusedFrames { end, since }) = self.refused.front()
            && (end <= self.total_done || now.saturating_sub(since) > self.refused_timeout)
        {
            while self.total_done < end {
                self.drop_first(LinkDropCause::TxFull, store, tap, now);
            }
            self.refused.pop_front();
        }
    }

    fn drop_first<T: FrameTap>(
        &mut self,
        cause: LinkDropCause,
        store: &mut EmulationStore,
        tap: &mut T,
        now: Nanos,
    ) {
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
    fn take_front(&mut self, most: u32, store: &EmulationStore) -> Option<DueBurst> {
        let first = self.due.front_mut()?;
        let taken = if first.burst.packets <= most {
            self.prefetched = self.prefetched.saturating_sub(1);
            self.due.pop_front()?
        } else {
            DueBurst { burst: store.take_front(&mut first.burst, most), ..*first }
        };
        self.total_done += u64::from(taken.burst.packets);
        Some(taken)
    }

    /// Copies frames that fit a slot each, up to one that does not; whether there were any.
    #[inline]
    fn fill_slots<T: FrameTap>(
        &mut self,
        tx: &mut TxRing,
        store: &mut EmulationStore,
        tap: &mut T,
        now: Nanos,
    ) -> bool {
        if self.prefetched == 0 {
            self.prefetched = store.prefetch(self.due.iter().map(|due| &due.burst));
        }
        let Some(due) = self.due.front() else { return false };
        let filled = if due.burst.packets >= MIN_CONTIGUOUS_FRAMES {
            self.fill_contiguous(tx, store)
        } else {
            self.fill_scattered(tx, store)
        };
        let mut left = filled;
        while left > 0 {
            left -= self.submit(left, store, tap, now);
        }
        filled > 0
    }

    /// Copies frames that lie together.
    #[inline]
    fn fill_contiguous(&mut self, tx: &mut TxRing, store: &EmulationStore) -> u32 {
        let Some(due) = self.due.front() else { return 0 };
        let mut frames = store.frames(&due.burst);
        let mut heads = self.submitted.reserve_heads(tx.num_slots() as usize).iter_mut();
        tx.fill(due.burst.packets, |buf| {
            frames.next().map_or(0, |next| copy(next, buf, &mut heads))
        })
    }

    /// Copies frames wherever they lie, as many as were fetched.
    #[inline]
    fn fill_scattered(&mut self, tx: &mut TxRing, store: &EmulationStore) -> u32 {
        let (mut due, mut frames) =
            (self.due.iter().take(self.prefetched), StoredFrames::default());
        let mut heads = self.submitted.reserve_heads(tx.num_slots() as usize).iter_mut();
        tx.fill(u32::MAX, |buf| {
            let mut next = frames.next();
            if next.is_none()
                && let Some(due) = due.next()
            {
                frames = store.frames(&due.burst);
                next = frames.next();
            }
            next.map_or(0, |next| copy(next, buf, &mut heads))
        })
    }

    /// One frame that takes several slots; whether there was one, and room for it.
    fn fill_chain<T: FrameTap>(
        &mut self,
        tx: &mut TxRing,
        store: &mut EmulationStore,
        tap: &mut T,
        now: Nanos,
    ) -> bool {
        let Some(due) = self.due.front() else { return false };
        let Some((head, frame)) = store.frames(&due.burst).next() else { return false };
        if frame.len() <= tx.buf_size() as usize || !tx.push(frame) {
            return false;
        }
        self.submitted.reserve_heads(1)[0] = head;
        self.submit(1, store, tap, now);
        true
    }

    /// Notes that the port was given the first frames, as many as that of those that lie together;
    /// returns how many those were.
    #[inline]
    fn submit<T: FrameTap>(
        &mut self,
        count: u32,
        store: &mut EmulationStore,
        tap: &mut T,
        now: Nanos,
    ) -> u32 {
        let Some(due) = self.take_front(count, store) else { return count };
        if T::IS_ENABLED {
            self.deliveries(&due, store).iter().for_each(|frame| tap.sent(frame, now, store));
        }
        store.free_burst(&due.burst);
        self.submitted.add(&due, &mut self.releases);
        due.burst.packets
    }

    /// The frames that were taken off the front.
    fn deliveries(&self, due: &DueBurst, store: &EmulationStore) -> Vec<Delivery> {
        let (mut next, mut own) = (due.burst.handle, self.releases.iter());
        let frame = |_| {
            let BurstItem { frame, next: behind } = store.burst_item(next);
            next = behind;
            let release_ns = match due.delay_ns {
                Some(delay_ns) => frame.arrival_ns.saturating_add(delay_ns),
                None => *own.next()?,
            };
            let (exit, link) = (self.exit, due.link);
            Some(Delivery { release_ns, handle: frame.handle, len: frame.len, exit, link })
        };
        (0..due.burst.packets).map_while(frame).collect()
    }
}

/// Copies a frame into a buffer and notes its head; 0, where it does not fit, its length otherwise.
#[inline(always)]
fn copy(
    (head, frame): (StoreHeader, &[u8]),
    buf: &mut [u8],
    heads: &mut IterMut<'_, StoreHeader>,
) -> usize {
    let Some(room) = buf.get_mut(..frame.len()) else { return 0 };
    let Some(place) = heads.next() else { return 0 };
    *place = head;
    copy_frame(room, frame);
    frame.len()
}

impl DueBurst {
    /// Whether a frame with a release of its own is one more of these.
    #[inline(always)]
    fn takes(&self, link: LinkId, frame: FrameHandle) -> bool {
        self.next == frame && self.link == link && self.delay_ns.is_none()
    }
}
