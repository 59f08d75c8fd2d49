//! The receiving side: counts lost, duplicate and reordered frames, and measures latency.
//!
//! # Definitions
//! These terms are defined per stream, by the numbers in the [`Stamp`]s (reordering as in RFC
//! 4737):
//!
//! - *new*: a number that arrives for the first time. It is *reordered* if a larger number arrived
//!   before it. Its *displacement* is then the difference to the largest number so far.
//! - *duplicate*: a number that has arrived before.
//! - *late*: a number that is [`Tracker::WINDOW`] or more below the largest. The tracker no longer
//!   knows whether such a number is new or a duplicate. So it counts as neither, and a lost number
//!   stays lost.
//! - *expected*: a number from the smallest to the largest that arrived. The tracker does not know
//!   frames before the first or after the last one that arrived. A caller that knows how many
//!   frames were sent uses [`StreamCounters::lost_of`].
//! - *lost*: a number that is expected but has not arrived so far.
//!
//! # Invariants
//! ```text
//!   frames   = received + foreign + corrupt + untracked
//!   received = new + duplicates + late
//!   expected = new + lost   = received + lost - duplicates - late
//! ```
//! The time per frame and the memory per stream are constant.
//!
//! Not for histograms, and not for deciding how much loss is acceptable.

mod report;
mod window;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::stamp::{Stamp, StampCheck, StampError};
pub use report::{StreamCounters, TrackerReport, TrafficCounters};
use window::{NumberArrival, SequenceWindow};

/// Tracks all streams that arrive at one receiver.
///
/// ```
/// use slipring_traffic::{Generator, GeneratorShare, TrafficPattern, Tracker, StampCheck};
///
/// let mut generator = Generator::new(&TrafficPattern::default(), 1, GeneratorShare::ONLY)?;
/// let mut tracker = Tracker::new(StampCheck::Checksum);
/// let mut frame = [0; 60];
/// for n in 0..10 {
///     generator.write(n * 100, &mut frame);
///     if n != 4 {
///         assert_eq!(tracker.observe(&frame, n * 100 + 30), Some(30));
///     }
/// }
/// let total = tracker.report().total;
/// assert_eq!((total.received, total.lost), (9, 1));
/// # Ok::<(), slipring_traffic::PatternError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tracker {
    verify: StampCheck,
    /// The streams, sorted by stream id.
    streams: Vec<(u16, Box<SequenceWindow>)>,
    counters: TrafficCounters,
}

impl Tracker {
    /// A number that is this far or further below the largest number of its stream is late.
    pub const WINDOW: u64 = window::WINDOW_BITS;
    /// Maximum number of streams that are tracked; each takes about 1 KiB.
    pub const MAX_STREAMS: usize = 256;

    /// Creates an empty tracker. `verify` says how thoroughly frames are checked.
    #[must_use]
    pub fn new(verify: StampCheck) -> Self {
        Self { verify, streams: Vec::new(), counters: TrafficCounters::default() }
    }

    /// Records a frame that arrived at `now_ns`. Returns the age of the frame in ns. Returns `None`
    /// if it has no valid stamp, its stream is not tracked, its number is not new, its stamp
    /// contains no send time, or the send time is after `now_ns`.
    #[inline]
    pub fn observe(&mut self, frame: &[u8], now_ns: u64) -> Option<u64> {
        match Stamp::read(frame, self.verify) {
            Ok(stamp) => return self.observe_stamp(stamp, now_ns),
            Err(StampError::Foreign) => self.counters.foreign += 1,
            Err(StampError::Corrupt) => self.counters.corrupt += 1,
        }
        self.counters.frames += 1;
        None
    }

    /// Like [`Self::observe`], but for a frame whose stamp was already read.
    #[inline]
    pub fn observe_stamp(&mut self, stamp: Stamp, now_ns: u64) -> Option<u64> {
        self.counters.frames += 1;
        let Some(window) = self.window(stamp.stream) else {
            self.counters.untracked += 1;
            return None;
        };
        if window.record(stamp.number) != NumberArrival::New {
            return None;
        }
        let age_ns = now_ns.checked_sub(stamp.sent_ns?);
        self.counters.ahead_of_clock += u64::from(age_ns.is_none());
        age_ns
    }

    /// Returns all counters so far. A lost frame that arrives later no longer counts as lost.
    #[must_use]
    pub fn report(&self) -> TrackerReport {
        let streams: Vec<StreamCounters> = self.streams.iter().map(stream_counters).collect();
        TrackerReport { total: self.counters.plus_streams(&streams), streams }
    }

    #[inline]
    fn window(&mut self, stream: u16) -> Option<&mut SequenceWindow> {
        let found = self.streams.binary_search_by_key(&stream, |&(id, _)| id);
        let at = match found {
            Ok(at) => at,
            Err(_) if self.streams.len() == Self::MAX_STREAMS => return None,
            Err(at) => {
                self.streams.insert(at, (stream, Box::default()));
                at
            }
        };
        Some(&mut self.streams[at].1)
    }
}

fn stream_counters((stream, window): &(u16, Box<SequenceWindow>)) -> StreamCounters {
    StreamCounters {
        stream: *stream,
        first: window.lowest(),
        next: window.highest() + 1,
        counters: window.counters(),
    }
}

#[cfg(test)]
mod tests;
