//! The progress of a thread. The thread writes it, and the reporter reads it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use slipring_port::{Nanos, now};

/// Counts of one thread in one direction. No other thread writes them, except that the reporter
/// resets `min_space`. So the thread adds by a load and a store, without an atomic addition.
#[derive(Debug)]
pub(super) struct Progress {
    packets: AtomicU64,
    bytes: AtomicU64,
    batches: AtomicU64,
    /// Minimum number of free (tx) or filled (rx) slots of the ring since [`Self::take_min_space`]
    /// was called last.
    min_space: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    forfeited: AtomicU64,
    done: AtomicBool,
}

/// The sum of one or several [`Progress`] values at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProgressCounts {
    /// Number of packets.
    pub(super) packets: u64,
    /// Bytes of these packets.
    pub(super) bytes: u64,
    /// Number of batches in which these packets were sent or received.
    pub(super) batches: u64,
    /// Time in ns of the first packet or, if [`Progress::begin`] was called, the time set there; 0
    /// if there is neither.
    pub(super) first: Nanos,
    /// Time of the last packet in ns.
    pub(super) last: Nanos,
    /// Scheduled time in ns that was skipped because the port could not keep up.
    pub(super) forfeited: Nanos,
}

/// Stands for the minimum space if no ring was checked.
pub(super) const NO_SPACE: u64 = 99_999;

impl Default for Progress {
    fn default() -> Self {
        Self {
            packets: AtomicU64::default(),
            bytes: AtomicU64::default(),
            batches: AtomicU64::default(),
            min_space: AtomicU64::new(NO_SPACE),
            first: AtomicU64::default(),
            last: AtomicU64::default(),
            forfeited: AtomicU64::default(),
            done: AtomicBool::default(),
        }
    }
}

impl Progress {
    /// Sets the time at which the first packet is due. The duration of the run starts there, so
    /// that a late first packet does not make the rate look higher.
    pub(super) fn begin(&self, time: Nanos) {
        self.first.store(time, Relaxed);
    }

    /// Counts a batch that was sent or received at `time`.
    #[inline(always)]
    pub(super) fn batch(&self, packets: u64, bytes: u64, time: Nanos) {
        if self.first.load(Relaxed) == 0 {
            self.first.store(time, Relaxed);
        }
        self.last.store(time, Relaxed);
        add(&self.packets, packets);
        add(&self.bytes, bytes);
        add(&self.batches, 1);
    }

    /// Records how many slots of the ring are free (tx) or filled (rx) now.
    #[inline(always)]
    pub(super) fn space(&self, slots: u32) {
        if u64::from(slots) < self.min_space.load(Relaxed) {
            self.min_space.store(slots.into(), Relaxed);
        }
    }

    /// Records that no more packets will come. The duration of the run ends at `last`; `forfeited`
    /// is the scheduled time in ns that was skipped.
    pub(super) fn finish(&self, last: Nanos, forfeited: Nanos) {
        if self.first.load(Relaxed) != 0 {
            self.last.store(last, Relaxed);
        }
        self.forfeited.store(forfeited, Relaxed);
        self.done.store(true, Relaxed);
    }

    /// Returns whether no more packets will come.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Relaxed)
    }

    /// Returns the number of packets so far.
    pub(super) fn packets(&self) -> u64 {
        self.packets.load(Relaxed)
    }

    /// Returns the counts.
    pub(super) fn read(&self) -> ProgressCounts {
        ProgressCounts {
            packets: self.packets.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            batches: self.batches.load(Relaxed),
            first: self.first.load(Relaxed),
            last: self.last.load(Relaxed),
            forfeited: self.forfeited.load(Relaxed),
        }
    }

    /// Returns the minimum number of slots that [`Self::space`] recorded since the last call.
    pub(super) fn take_min_space(&self) -> u64 {
        self.min_space.swap(NO_SPACE, Relaxed)
    }
}

/// On drop, marks a [`Progress`] as done, even if its thread panics.
pub(super) struct FinishOnDrop<'p>(pub(super) &'p Progress);

impl Drop for FinishOnDrop<'_> {
    fn drop(&mut self) {
        if !self.0.is_done() {
            self.0.finish(now(), 0);
        }
    }
}

impl ProgressCounts {
    /// Returns the time from the first to the last packet.
    pub(super) fn time(&self) -> Nanos {
        self.last.saturating_sub(self.first)
    }
}

impl std::ops::AddAssign for ProgressCounts {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.batches += other.batches;
        self.first = match (self.first, other.first) {
            (0, first) | (first, 0) => first,
            (one, other) => one.min(other),
        };
        self.last = self.last.max(other.last);
        self.forfeited = self.forfeited.max(other.forfeited);
    }
}

#[inline(always)]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed) + amount, Relaxed);
}
