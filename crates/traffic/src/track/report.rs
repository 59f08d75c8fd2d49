//! Snapshots of a tracker's counters. The snapshots of several trackers can be added.

use alloc::vec::Vec;

/// Counters of frames. The module of [`Tracker`](super::Tracker) defines the terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounters {
    /// All frames observed.
    pub frames: u64,
    /// Frames without a stamp.
    pub foreign: u64,
    /// Stamped frames whose checksum is wrong, or of which a part is missing.
    pub corrupt: u64,
    /// Stamped frames of streams beyond [`Tracker::MAX_STREAMS`](super::Tracker::MAX_STREAMS).
    pub untracked: u64,
    /// Stamped frames that were tracked.
    pub received: u64,
    /// Frame numbers that arrived for the first time.
    pub new: u64,
    /// Frames whose number had arrived before.
    pub duplicates: u64,
    /// Frames whose number is so far below the largest one that it is not known whether it is new.
    pub late: u64,
    /// New numbers that arrived after a larger number.
    pub reordered: u64,
    /// Largest displacement of a reordered frame: how far its number was below the largest number
    /// that had arrived.
    pub max_displacement: u64,
    /// How many numbers there are from the smallest to the largest number that arrived.
    pub expected: u64,
    /// Expected numbers that have not arrived.
    pub lost: u64,
    /// Frames whose send time is after their arrival, because the two clocks differ.
    pub ahead_of_clock: u64,
}

/// Counters of one stream. Those that exist only for all streams together (`frames`, `foreign`,
/// `corrupt`, `untracked`, `ahead_of_clock`) are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCounters {
    /// The id of the stream.
    pub stream: u16,
    /// The smallest new number.
    pub first: u64,
    /// One more than the greatest new number.
    pub next: u64,
    /// The counters of this stream.
    pub counters: TrafficCounters,
}

/// The counters of one tracker, or of several trackers that shared the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackerReport {
    /// The counters of all streams together.
    pub total: TrafficCounters,
    /// The counters of each stream, sorted by stream id.
    pub streams: Vec<StreamCounters>,
}

impl StreamCounters {
    /// Returns the number of lost frames if the sender has sent the numbers `0..sent`. In contrast
    /// to `lost`, this includes frames before the first and after the last one that arrived.
    #[must_use]
    pub const fn lost_of(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.counters.new)
    }

    /// Adds another tracker's counters of the same stream.
    fn merge(&mut self, other: &Self) {
        self.first = self.first.min(other.first);
        self.next = self.next.max(other.next);
        self.counters = self.counters.plus(&other.counters);
        self.counters.expected = self.next - self.first;
        // `expected` can be less than `new`, because a frame and its duplicate may have arrived at
        // different trackers. The loss is then 0.
        self.counters.lost = self.counters.expected.saturating_sub(self.counters.new);
    }
}

impl TrackerReport {
    /// Adds the counters of another tracker. It may have received other frames of the same streams,
    /// for example if each receive queue has its own thread and tracker. The sum of the losses is
    /// exact, unless a frame and its duplicate arrived at different trackers. Reordering and
    /// duplicates are only detected within each tracker.
    pub fn merge(&mut self, other: &Self) {
        for stream in &other.streams {
            let found = self.streams.binary_search_by_key(&stream.stream, |own| own.stream);
            match found {
                Ok(at) => self.streams[at].merge(stream),
                Err(at) => self.streams.insert(at, *stream),
            }
        }
        let unstreamed = self.total.unstreamed().plus(&other.total.unstreamed());
        self.total = unstreamed.plus_streams(&self.streams);
    }
}

impl TrafficCounters {
    /// Returns only those counters that exist for all streams together. All others are zero.
    fn unstreamed(&self) -> Self {
        Self {
            frames: self.frames,
            foreign: self.foreign,
            corrupt: self.corrupt,
            untracked: self.untracked,
            ahead_of_clock: self.ahead_of_clock,
            ..Self::default()
        }
    }

    pub(super) fn plus_streams(self, streams: &[StreamCounters]) -> Self {
        streams.iter().fold(self, |sum, stream| sum.plus(&stream.counters))
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            foreign: self.foreign + other.foreign,
            corrupt: self.corrupt + other.corrupt,
            untracked: self.untracked + other.untracked,
            received: self.received + other.received,
            new: self.new + other.new,
            duplicates: self.duplicates + other.duplicates,
            late: self.late + other.late,
            reordered: self.reordered + other.reordered,
            max_displacement: self.max_displacement.max(other.max_displacement),
            expected: self.expected + other.expected,
            lost: self.lost + other.lost,
            ahead_of_clock: self.ahead_of_clock + other.ahead_of_clock,
        }
    }
}
