//! The sending loop: source → free slots of one queue → sync.
//!
//! There is no allocation per frame. The clock is read once per batch, unless each frame gets its
//! own timestamp. The report counts a frame as sent when the port has completed it, not when it is
//! queued.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use slipring_port::{
    Interest, Nanos, Queue, RunError, WaitOutcome, WaitStrategy, Waiter, now, sleep_until,
};
use slipring_ring::{SlotFlags, TxRing};

use super::dump::dump;
use super::progress::{FinishOnDrop, Progress};
use super::schedule::SendSchedule;
use super::source::GenSource;
use slipring_datapath::workers::WorkersStop;

/// The sender of one thread, on one queue.
pub(super) struct GenSender<S> {
    /// The queue on which frames are sent.
    pub(super) queue: Box<dyn Queue>,
    /// The source of the frames.
    pub(super) source: S,
    /// When frames are sent.
    pub(super) schedule: SendSchedule,
    /// How frames are put into slots.
    pub(super) options: SendOptions,
    /// Number of frames left to send.
    pub(super) remaining: u64,
    /// Published counts of the packets and bytes that this thread has sent.
    pub(super) progress: Arc<Progress>,
}

/// How frames are put into slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendOptions {
    /// Maximum frames between two syncs.
    pub(super) burst: u32,
    /// How a frame is spread over slots.
    pub(super) split: SlotSplit,
    /// The timestamp that frames carry.
    pub(super) stamp: StampTime,
    /// Whether to show every frame.
    pub(super) dump: bool,
    /// How the thread waits for space in the ring.
    pub(super) wait_policy: WaitStrategy,
}

/// How a frame is spread over slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotSplit {
    /// Each frame is in one slot.
    Whole,
    /// A frame takes as many slots of this many bytes as it needs.
    Bytes(usize),
    /// Each frame is split into this many slots of equal length, or fewer if fewer suffice.
    Slots(usize),
}

/// The timestamp that a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StampTime {
    /// The time at which the batch began.
    Batch,
    /// The time at which the frame was written.
    Frame,
    /// The time at which the frame was due, in ns after the start. It is the same in every run.
    Due,
}

/// The packets of a batch that were put into the ring, and their bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SentBatch {
    /// Number of packets.
    pub(super) packets: u64,
    /// Bytes of these packets.
    pub(super) bytes: u64,
}

/// Longest sleep in ns. After it, a thread checks whether it must stop.
const MAX_SLEEP_NS: Nanos = 50_000_000;
/// Maximum time in ns to wait at the end for frames that the port has not completed.
const COMPLETION_TIMEOUT_NS: Nanos = 500_000_000;

impl<S: GenSource> GenSender<S> {
    /// Sends until all frames are sent or `stop` is set, and waits for their completion.
    pub(super) fn run(mut self, stop: &WorkersStop) -> Result<(), RunError> {
        let progress = self.progress.clone();
        let _done = FinishOnDrop(&progress);
        let mut waiter = waiter_for(&[&*self.queue], self.options.wait_policy, stop)?;
        self.schedule.begin(&self.progress);
        while self.remaining > 0 && !stop.is_set() {
            let time = now();
            self.progress.space(self.queue.rings().tx.avail());
            let batch = self.fill(time);
            if batch.packets > 0 {
                self.queue.tx_sync()?;
                self.remaining -= batch.packets;
                self.progress.batch(batch.packets, batch.bytes, time);
            } else if self.source.next_len().is_none() {
                break;
            } else {
                self.pause(&mut waiter)?;
            }
        }
        let last = drain(&mut *self.queue)?;
        self.progress.finish(last, self.schedule.forfeited());
        Ok(())
    }

    /// Fills free slots with due frames; returns how many.
    #[inline(always)]
    fn fill(&mut self, time: Nanos) -> SentBatch {
        let max = u64::from(self.options.burst).min(self.remaining) as u32;
        if self.options.split == SlotSplit::Whole && !self.options.dump {
            return fill_whole(
                self.queue.rings().tx,
                &mut self.source,
                &mut self.schedule,
                self.options.stamp,
                time,
                max,
            );
        }
        self.fill_slowly(time, max)
    }

    fn fill_slowly(&mut self, time: Nanos, max: u32) -> SentBatch {
        let mut batch = SentBatch::default();
        let mut frame = Vec::new();
        let (ring, header) = (self.queue.rings().tx, self.source.header());
        while batch.packets < u64::from(max)
            && let Some(len) = self.source.next_len()
            && self.options.split.slots(header + len) <= ring.avail()
            && let Some(due) = self.schedule.admit(time, len, self.source.due())
        {
            frame.resize(header + len, 0);
            self.source.write(self.options.stamp.of(time, due), &mut frame);
            if self.options.dump {
                dump("tx", &frame[header..]);
            }
            put(ring, &frame, self.options.split);
            batch.packets += 1;
            batch.bytes += len as u64;
        }
        batch
    }

    /// Called when no frame could be sent: waits until a frame is due, or for space in the ring.
    fn pause(&mut self, waiter: &mut Waiter) -> Result<(), RunError> {
        let time = now();
        match self.schedule.due(self.source.due()) {
            Some(due) if due > time => {
                if due - time > MAX_SLEEP_NS {
                    self.queue.tx_sync()?;
                }
                sleep_until(due.min(time + MAX_SLEEP_NS));
                Ok(())
            }
            _ => wait_for_room(&mut *self.queue, waiter),
        }
    }
}

/// Fills free slots with due frames of one slot each; returns how many. This is the hot loop.
#[inline(always)]
pub(super) fn fill_whole<S: GenSource>(
    ring: &mut TxRing,
    source: &mut S,
    schedule: &mut SendSchedule,
    stamp: StampTime,
    time: Nanos,
    max: u32,
) -> SentBatch {
    let mut bytes = 0;
    let packets = ring.fill(max, |buffer| {
        let Some(len) = source.next_len() else { return 0 };
        let Some(due) = schedule.admit(time, len, source.due()) else { return 0 };
        source.write(stamp.of(time, due), buffer);
        bytes += len as u64;
        source.header() + len
    });
    SentBatch { packets: packets.into(), bytes }
}

impl StampTime {
    /// Returns the timestamp for a frame, given the start `time` of its batch, and `due`, the
    /// frame's due time in ns after the start of the run.
    #[inline(always)]
    fn of(self, time: Nanos, due: Nanos) -> Nanos {
        match self {
            Self::Batch => time,
            Self::Frame => now(),
            Self::Due => due,
        }
    }
}

impl SlotSplit {
    /// Returns the maximum bytes per slot for a frame of `len` bytes.
    fn part(self, len: usize) -> usize {
        match self {
            Self::Whole => len,
            Self::Bytes(most) => most,
            Self::Slots(count) => len.div_ceil(count),
        }
    }

    fn slots(self, len: usize) -> u32 {
        len.div_ceil(self.part(len)) as u32
    }
}

/// Queues one frame with its header. The ring must have space for all slots of the frame.
fn put(ring: &mut TxRing, frame: &[u8], split: SlotSplit) {
    let parts = frame.chunks(split.part(frame.len()));
    let count = parts.len() as u32;
    for (i, part) in (0..).zip(parts) {
        let more = if i + 1 < count { SlotFlags::MOREFRAG } else { SlotFlags::default() };
        ring.write(i, part, more);
    }
    ring.advance(count);
}

/// Creates a waiter that also wakes when the thread must stop.
pub(super) fn waiter_for(
    queues: &[&dyn Queue],
    patience: WaitStrategy,
    stop: &WorkersStop,
) -> Result<Waiter, RunError> {
    let failed = |error| RunError::system("gen", "wait for frames", error);
    let mut waiter = Waiter::new(queues.iter().copied(), patience).map_err(failed)?;
    waiter.add_fd(stop.doorbell.as_fd()).map_err(failed)?;
    Ok(waiter)
}

/// Waits for the tx ring to have more room than now, for a limited time.
fn wait_for_room(queue: &mut dyn Queue, waiter: &mut Waiter) -> Result<(), RunError> {
    if queue.rings().tx.avail() > 0 {
        // The ring has space, but not for all slots of the frame. No event reports when there is
        // more space, so the thread sleeps.
        queue.tx_sync()?;
        sleep_until(now() + 20_000);
        return Ok(());
    }
    let wish = &mut [(queue, Interest::TX)];
    let _: WaitOutcome = waiter.wait(&mut wish[..], Some(Duration::from_nanos(MAX_SLEEP_NS)))?;
    Ok(())
}

/// Waits until the port has completed all frames, as long as completions keep coming. Returns the
/// time of the last completion.
pub(super) fn drain(queue: &mut dyn Queue) -> Result<Nanos, RunError> {
    queue.tx_sync()?;
    let (mut waiting, mut last) = (queue.rings().tx.with_driver(), now());
    while waiting > 0 && now() - last < COMPLETION_TIMEOUT_NS {
        sleep_until(now() + 10_000);
        queue.tx_sync()?;
        let left = queue.rings().tx.with_driver();
        if left < waiting {
            (waiting, last) = (left, now());
        }
    }
    queue.update_stats();
    Ok(last)
}
