//! A line whose rate changes at known times; the computation is exact.
//!
//! The rate is constant between two changes ([`RateSegments`]). For a frame that spans a change,
//! the line does part of the work before the change and the rest after it. Changes fall on whole
//! nanoseconds, so the work left to the next segment is an integer and nothing is rounded. There is
//! one exception: if extra occupation of the line spans a change, a fraction of a nanosecond is
//! rounded down.

use slipring_model::{LineClock, NANOS_PER_SEC};

use super::bit_rate;
use super::segments::{RateSegment, RateSegments};

/// Maximum number of rate changes per frame. If a frame needs more, the rate stays at 0 or changes
/// too often, and the line stops permanently. Valid specifications normally need far fewer.
const MAX_RATE_CHANGES: u32 = 1 << 24;

pub(crate) struct FluidLine {
    segments: RateSegments,
    segment: RateSegment,
    /// Clock of the line. It holds the time at which the line is free and the rate of the current
    /// segment. If that rate is 0, it holds the last rate above 0; 1 bit/s if there was none.
    clock: LineClock,
}

impl FluidLine {
    pub(super) fn new(mut segments: RateSegments) -> Self {
        let segment = segments.next();
        Self { segments, segment, clock: LineClock::new(bit_rate(segment.bps), 0) }
    }

    #[inline]
    pub(super) fn free_ns(&self) -> u64 {
        self.clock.free_ns()
    }

    /// Advances the line to `ready_ns` if it is free earlier.
    pub(super) fn wait_for(&mut self, ready_ns: u64) {
        self.clock.wait_for(ready_ns);
        if self.clock.is_busy_until(self.segment.end_ns) && !self.segment.is_last() {
            self.segments.skip_to(self.clock.free_ns());
        }
        while self.clock.is_busy_until(self.segment.end_ns) && !self.segment.is_last() {
            self.enter_next();
        }
    }

    /// Returns when the line can take a frame that is ready at `ready_ns`; skips segments with rate
    /// 0.
    pub(super) fn begin_ns(&mut self, ready_ns: u64) -> u64 {
        let mut from_ns = ready_ns;
        for _ in 0..MAX_RATE_CHANGES {
            self.wait_for(from_ns);
            if self.segment.bps > 0 {
                return self.free_ns();
            }
            if self.segment.is_last() {
                break;
            }
            from_ns = self.segment.end_ns;
        }
        self.stop();
        u64::MAX
    }

    pub(super) fn serve(&mut self, ready_ns: u64, bytes: u64, extra_ns: u64) {
        let mut work = u128::from(bytes) * 8 * u128::from(NANOS_PER_SEC);
        self.begin_ns(ready_ns);
        self.wait_for_whole(work);
        for _ in 0..MAX_RATE_CHANGES {
            if self.segment.bps > 0 {
                work = self.clock.work_until(self.segment.end_ns, work);
            }
            if work == 0 || self.segment.is_last() {
                break;
            }
            let (ahead_ns, left) = self.segments.pass_rounds(work);
            self.clock.wait_for(self.segment.end_ns.saturating_add(ahead_ns));
            work = left;
            self.enter_next();
        }
        if work > 0 {
            self.stop();
            self.clock.wait_for(u64::MAX);
        }
        self.clock.occupy_ns(extra_ns);
    }

    /// If frames must not be split over time slots, advances the line to a slot in which it can do
    /// all of `work`. A frame too long for every slot is split nevertheless.
    fn wait_for_whole(&mut self, work: u128) {
        let Some(longest_ns) = self.segments.longest_whole_ns() else { return };
        if work > u128::from(longest_ns) * u128::from(self.usual_bps()) {
            return;
        }
        while self.clock.clone().work_until(self.segment.end_ns, work) > 0 {
            self.begin_ns(self.segment.end_ns);
        }
    }

    /// The current rate, or the last one above 0; 1 if there was none.
    pub(super) fn usual_bps(&self) -> u64 {
        self.clock.rate().bps()
    }

    /// Stops the line for good.
    fn stop(&mut self) {
        self.segment = RateSegment { end_ns: u64::MAX, bps: 0 };
    }

    fn enter_next(&mut self) {
        self.segment = self.segments.next();
        if self.segment.bps > 0 {
            self.clock.set_rate(bit_rate(self.segment.bps));
        }
    }
}
