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

    pub(super) fn wait_for(&mut self, ready_ns: u64) {
        self.clock.wait_for(ready_ns);
        while self.clock.free_ns() >= self.segment.end_ns && !self.segment.is_last() {
            self.enter_next();
        }
    }

    /// Skips segments in which the line stands still.
    pub(super) fn begin_ns(&mut self, ready_ns: u64) -> u64 {
        // A frame that is ready later must not move the clock for one that comes before it.
        let mut probe_ns = ready_ns.max(self.free_ns());
        if probe_ns < self.segment.end_ns && self.segment.bps > 0 {
            return probe_ns;
        }
        loop {
            self.wait_for(probe_ns);
            if self.segment.bps > 0 || self.segment.is_last() {
                break;
            }
            probe_ns = self.segment.end_ns;
        }
        if self.segment.bps == 0 { u64::MAX } else { self.free_ns() }
    }

    pub(super) fn serve(&mut self, ready_ns: u64, bytes: u64, extra_ns: u64) {
        let mut work = u128::from(bytes) * 8 * u128::from(NANOS_PER_SEC);
        self.begin_ns(ready_ns);
        self.wait_for(ready_ns);
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
        self.clock.occupy_ns(extra_ns);
    }

    /// Waits for a segment that holds all of `work`, where frames may not be split; what fits no
    /// segment is split all the same.
    fn wait_for_whole(&mut self, work: u128) {
        while self.segments.whole_frames()
            && !self.segment.is_last()
            && self.segment.is_begun_at(self.clock.free_ns())
            && self.clock.clone().work_until(self.segment.end_ns, work) > 0
        {
            let end_ns = self.segment.end_ns;
            self.begin_ns(end_ns);
        }
    }

    /// The present rate, or the last one above 0.
    pub(super) fn usual_bps(&self) -> u64 {
        self.clock.rate().bps()
    }

    fn enter_next(&mut self) {
        let begin_ns = self.segment.end_ns;
        self.segment = self.segments.next();
        self.segment.begin_ns = begin_ns;
        if self.segment.bps > 0 {
            self.clock.set_rate(bit_rate(self.segment.bps));
        }
    }
}
