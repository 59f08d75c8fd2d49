//! Counts taken out of a tracker, and those of several put together.

use alloc::vec::Vec;

/// Counts of frames, as the module's head defines them.
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
    /// Stamped frames that were followed.
    pub received: u64,
    /// Numbers seen for the first time.
    pub new: u64,
    /// Numbers seen again.
    pub duplicates: u64,
    /// Numbers too far back to tell.
    pub late: u64,
    /// New numbers overtaken by a greater one.
    pub reordered: u64,
    /// Greatest displacement of a reordered frame, in numbers.
    pub max_displacement: u64,
    /// Numbers between the smallest and the greatest.
    pub expected: u64,
    /// Expected numbers that did not arrive.
    pub lost: u64,
    /// Frames that claim to be sent after they arrived: the clocks differ.
    pub ahead_of_clock: u64,
}

/// Counts of one stream. What is not known of a single stream (`frames`,
/// `foreign`, `corrupt`, `untracked`, `ahead_of_clock`) is zero here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCounters {
    /// The stream.
    pub stream: u16,
    /// Smallest of the new numbers.
    pub first: u64,
    /// One more than the greatest number.
    pub next: u64,
    /// The counts.
    pub counters: TrafficCounters,
}

/// The counts of a tracker, or of several that shared the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackerReport {
    /// All counts together.
    pub total: TrafficCounters,
    /// Those of each stream, by ascending id.
    pub streams: Vec<StreamCounters>,
}

impl StreamCounters {
    /// How many were lost when the sender says it sent the numbers `0..sent`:
    /// those before the first and after the last arrival too.
    #[must_use]
    pub const fn lost_of(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.counters.new)
    }

    /// Adds what another tracker saw of the same stream.
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
    /// Adds the counts of another tracker, which may have seen other frames of
    /// the same streams: receive queues, each with a thread and a tracker of
    /// its own. Loss is exact then. Reordering is that within each queue, and
    /// of duplicates only those in one queue are found.
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
    /// The counts that are kept for all streams together.
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
