//! Snapshots of a tracker's counters, and sums of several.

use alloc::vec::Vec;

/// Counters of frames, as defined in [`Tracker`](super::Tracker)'s module.
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
    /// Numbers that arrived for the first time.
    pub new: u64,
    /// Numbers that arrived again.
    pub duplicates: u64,
    /// Numbers too far below the greatest to classify.
    pub late: u64,
    /// New numbers that were overtaken by a greater one.
    pub reordered: u64,
    /// Greatest displacement of a reordered frame, in numbers.
    pub max_displacement: u64,
    /// Numbers from the smallest to the greatest.
    pub expected: u64,
    /// Expected numbers that did not arrive.
    pub lost: u64,
    /// Frames whose send time is after their arrival, because the clocks differ.
    pub ahead_of_clock: u64,
}

/// Counters of one stream. Counters that exist only for all streams together (`frames`, `foreign`,
/// `corrupt`, `untracked`, `ahead_of_clock`) are zero here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCounters {
    /// The stream.
    pub stream: u16,
    /// Smallest of the new numbers.
    pub first: u64,
    /// One more than the greatest number.
    pub next: u64,
    /// The counters.
    pub counters: TrafficCounters,
}

/// The counters of a tracker, or of several that shared the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackerReport {
    /// The sum of all counters.
    pub total: TrafficCounters,
    /// The counters of each stream, by ascending id.
    pub streams: Vec<StreamCounters>,
}

impl StreamCounters {
    /// The number of lost frames if the sender sent the numbers `0..sent`. Includes frames before
    /// the first and after the last arrival.
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
        // Saturates if a frame and its duplicate went to different trackers.
        self.counters.lost = self.counters.expected.saturating_sub(self.counters.new);
    }
}

impl TrackerReport {
    /// Adds the counters of another tracker, which may have received other frames of the same
    /// streams: for example receive queues with a thread and a tracker each. The sum of losses is
    /// exact. Reordering and duplicates are only detected within each queue.
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
    /// The counters that exist only for all streams together.
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
