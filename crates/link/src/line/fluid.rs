//! A line whose rate changes at known moments, exactly.
//!
//! The rate is constant between two changes ([`Segments`]); a frame that spans a change does part
//! of its work before and the rest after it. Changes fall on whole nanoseconds, so what one segment
//! leaves to the next is a whole amount of work and nothing is rounded.

use slipring_model::{LineClock, NANOS_PER_SEC};

use super::bit_rate;
use super::segments::{Segment, Segments};

pub(crate) struct Fluid {
    segments: Segments,
    segment: Segment,
    /// Free from when; its rate is that of the segment, if that has one.
    clock: LineClock,
}

impl Fluid {
    pub(super) fn new(mut segments: Segments) -> Self {
        let segment = segments.next();
        Self { segments, segment, clock: LineClock::new(bit_rate(segment.bps), 0) }
    }

    #[inline]
    pub(super) fn free_ns(&self) -> u64 {
        self.clock.free_ns()
    }

    /// Idles until `ready_ns` if the line is free before.
    pub(super) fn wait_for(&mut self, ready_ns: u64) {
        self.clock.wait_for(ready_ns);
        if self.clock.is_busy_until(self.segment.end_ns) && !self.segment.is_last() {
            self.segments.skip_to(self.clock.free_ns());
        }
        while self.clock.is_busy_until(self.segment.end_ns) && !self.segment.is_last() {
            self.enter_next();
        }
    }

    /// Skips segments in which the line stands still.
    pub(super) fn begin_ns(&mut self, ready_ns: u64) -> u64 {
        let mut from_ns = ready_ns;
        loop {
            self.wait_for(from_ns);
            if self.segment.bps > 0 {
                return self.free_ns();
            }
            if self.segment.is_last() {
                return u64::MAX;
            }
            from_ns = self.segment.end_ns;
        }
    }

    pub(super) fn serve(&mut self, ready_ns: u64, bytes: u64, extra_ns: u64) {
        let mut work = u128::from(bytes) * 8 * u128::from(NANOS_PER_SEC);
        self.begin_ns(ready_ns);
        self.wait_for_whole(work);
        loop {
            if self.segment.bps > 0 {
                work = self.clock.work_until(self.segment.end_ns, work);
            }
            if work == 0 || self.segment.is_last() {
                break;
            }
            self.clock.wait_for(self.segment.end_ns);
            self.enter_next();
        }
        if work > 0 {
            // The line stands still for good.
            self.clock.wait_for(u64::MAX);
        }
        self.clock.occupy_ns(extra_ns);
    }

    /// Waits for a segment that holds all of `work`, where frames may not be split; what fits no
    /// segment is split all the same.
    fn wait_for_whole(&mut self, work: u128) {
        let Some(longest_ns) = self.segments.longest_whole_ns() else { return };
        if work > u128::from(longest_ns) * u128::from(self.usual_bps()) {
            return;
        }
        while self.clock.clone().work_until(self.segment.end_ns, work) > 0 {
            self.begin_ns(self.segment.end_ns);
        }
    }

    /// The present rate, or the last one above 0.
    pub(super) fn usual_bps(&self) -> u64 {
        self.clock.rate().bps()
    }

    fn enter_next(&mut self) {
        self.segment = self.segments.next();
        if self.segment.bps > 0 {
            self.clock.set_rate(bit_rate(self.segment.bps));
        }
    }
}
