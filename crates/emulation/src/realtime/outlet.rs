//! The output of one port: a queue of the frames that are due, in the order in which they leave.
//!
//! A wire has no queue. But a port may refuse frames for microseconds, because its reader was not
//! running, or because its device is only as fast as the emulated line. To avoid losses in this
//! case, a refused frame waits for space up to a time limit, and is then dropped as `tx_full`. The
//! lateness of a frame that is sent after waiting is measured. A frame may also be late only
//! because this thread did not call `flush`; that is not the port's fault, and the frame is sent,
//! unless it is later than `late_drop`.

mod submitted;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::slice::IterMut;

use slipring_link::{
    Burst, BurstItem, Delivery, ExitId, FrameHandle, InFlightFrame, LinkDropCause, LinkId,
    PacketCounts,
};
use slipring_port::{Nanos, Queue, RunError};
use slipring_ring::TxRing;

use super::frame_tap::FrameTap;
use crate::account::ExitAccount;
use crate::report::measurement::LinkMeasurement;
use crate::store::{EmulationStore, StoreHeader, StoredFrames, after, copy_frame};
use submitted::SubmittedFrames;

/// Default time that a refused frame waits for space, in ns.
const REFUSED_TIMEOUT_NS: Nanos = 10_000_000;

/// Minimum number of contiguous frames for which a separate copy loop is faster.
const MIN_CONTIGUOUS_FRAMES: u32 = 8;

/// The output of one port.
#[derive(Debug)]
pub(super) struct PortOutlet {
    exit: ExitId,
    due: VecDeque<DueBurst>,
    /// Number of bursts at the front of `due` whose frames have been prefetched.
    prefetched: usize,
    /// Release times of the frames in bursts without a common delay, in order.
    releases: VecDeque<Nanos>,
    /// Number of frames enqueued since the start. `total_done` is the number of these frames that
    /// were sent or dropped.
    total_due: u64,
    total_done: u64,
    /// For the waiting frames, in order: when the port first refused them.
    refused: VecDeque<RefusedFrames>,
    /// Frames submitted to the port since its last sync.
    submitted: SubmittedFrames,
    /// How long a refused frame waits for space, in ns.
    refused_timeout: Nanos,
    /// Frames later than this many ns are dropped; `None` for no limit.
    late_drop: Option<Nanos>,
    account: ExitAccount,
}

/// Due frames that are contiguous in the store.
#[derive(Debug, Clone, Copy)]
struct DueBurst {
    burst: Burst,
    /// Delay between arrival and release, in ns; `None` if each frame has its own entry in
    /// `releases`.
    delay_ns: Option<Nanos>,
    /// The link that delivered the frames.
    link: LinkId,
    /// Handle that the next enqueued frame must have if it is to extend this burst.
    next: FrameHandle,
}

/// Frames that the port refused for the first time at `since`. They end before frame number `end`,
/// as counted by [`PortOutlet::total_due`], and begin at the `end` of the previous entry.
#[derive(Debug, Clone, Copy)]
struct RefusedFrames {
    end: u64,
    since: Nanos,
}

impl PortOutlet {
    /// Creates an output that drops frames later than `late_drop`.
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

    /// Enqueues a frame that is due.
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
                let burst = Burst { handle, packets: 1, bytes: len.into(), first_ns, last_ns };
                self.due.push_back(DueBurst { burst, delay_ns: None, link, next });
            }
        }
    }

    /// Enqueues a burst that is due, each frame `delay_ns` after its arrival.
    #[inline]
    pub(super) fn push_burst(&mut self, link: LinkId, delay_ns: Nanos, burst: Burst) {
        self.total_due += u64::from(burst.packets);
        let next = burst.handle;
        self.due.push_back(DueBurst { burst, delay_ns: Some(delay_ns), link, next });
    }

    /// Returns whether any frames are enqueued.
    #[inline(always)]
    pub(super) fn is_waiting(&self) -> bool {
        !self.due.is_empty()
    }

    /// Sends due frames, as many as the port accepts; returns their number. Their departure time
    /// is the time that `clock` returns after the sync.
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
        // The sync also takes back the slots of sent frames, so afterwards there may be space
        // again.
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

    /// Returns the counts of sent, dropped and waiting frames.
    pub(super) fn account(&self) -> ExitAccount {
        let mut account = self.account.clone();
        let waiting = self.due.iter().map(|due| due.burst.counts());
        account.waiting = waiting.fold(PacketCounts::default(), |sum, tally| sum + tally);
        account
    }

    /// Drops frames from the front as long as they are more than `most` ns late.
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

    /// Returns the release time of the first waiting frame.
    fn first_release_ns(&self) -> Option<Nanos> {
        let DueBurst { burst, delay_ns, .. } = self.due.front()?;
        match delay_ns {
            Some(delay_ns) => Some(burst.first_ns.saturating_add(*delay_ns)),
            None => self.releases.front().copied(),
        }
    }

    /// Records that all waiting frames are refused at `now`, unless they were refused earlier.
    fn note_refused(&mut self, now: Nanos) {
        let end = self.total_due;
        if self.refused.back().is_none_or(|last| last.end < end) {
            self.refused.push_back(RefusedFrames { end, since: now });
        }
    }

    /// Drops the frames that have waited longer than `refused_timeout` since they were refused.
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

    /// Removes at most `most` frames from the first burst and returns them; `None` if there is no
    /// burst. `releases` stays unchanged.
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

    /// Copies some of the due frames into one slot each. Stops at a frame that does not fit one
    /// slot. Returns whether any were copied.
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

    /// Copies frames of the first burst into slots, one each. Returns the number of slots filled.
    #[inline]
    fn fill_contiguous(&mut self, tx: &mut TxRing, store: &EmulationStore) -> u32 {
        let Some(due) = self.due.front() else { return 0 };
        let mut frames = store.frames(&due.burst);
        let mut heads = self.submitted.reserve_heads(tx.num_slots() as usize).iter_mut();
        tx.fill(due.burst.packets, |buf| {
            frames.next().map_or(0, |next| copy(next, buf, &mut heads))
        })
    }

    /// Copies frames of the prefetched bursts into slots, one each. Returns the number of slots
    /// filled.
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

    /// Copies one frame into several slots. Returns false if there was no frame or no space for it,
    /// or if it fits one slot.
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

    /// Records that up to `count` frames of the first burst were copied to the port's ring. Returns
    /// the number of recorded frames.
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

    /// Returns the deliveries of the frames of `due`, each with its release time. The caller has
    /// just taken `due` off the front.
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

/// Copies a frame into a buffer and records its header. Returns its length, or 0 if it
/// does not fit.
#[inline(always)]
fn copy(
    (head, frame): (StoreHeader, &[u8]),
    buf: &mut [u8],
    heads: &mut IterMut<'_, StoreHeader>,
) -> usize {
    let Some(room) = buf.get_mut(..frame.len()) else { return 0 };
    let Some(range) = heads.next() else { return 0 };
    *range = head;
    copy_frame(room, frame);
    frame.len()
}

impl DueBurst {
    /// Returns whether `frame`, which has its own release time, extends this burst.
    #[inline(always)]
    fn takes(&self, link: LinkId, frame: FrameHandle) -> bool {
        self.next == frame && self.link == link && self.delay_ns.is_none()
    }
}
