//! Arrival times for the frames of a batch.
//!
//! A poll finds the frames that arrived since the previous poll. On a line of known speed, the time
//! between two frames is at least the transmission time of the second one. So the last frame is
//! assumed to have arrived now, and the frames before it back to back. This may put the first frame
//! before the previous poll, which did not find it; then the frames are spread over the time since
//! that poll instead. With a single timestamp for the whole batch, the emulated queue would receive
//! a burst that never existed on the line.

use slipring_port::Nanos;

/// Overhead of a frame on an Ethernet line, in bytes: FCS, preamble and gap.
pub(super) const ETHER_OVERHEAD_BYTES: u64 = 24;
/// Longest time over which the arrivals of a batch are spread, in ns.
const MAX_SPREAD_NS: Nanos = 1_000_000_000;

/// Assigns arrival times to the batches of one port.
#[derive(Debug)]
pub(super) struct Stamper {
    /// Transmission time of a byte, in ps.
    byte_ps: u64,
    /// The time of the last poll, and so the latest time assigned.
    last_poll: Nanos,
}

/// The arrival times of one batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchTimes {
    start: Nanos,
    end: Nanos,
    /// Time between arrivals in ns per byte, times 2^32.
    slope: u64,
}

impl Stamper {
    /// Creates a stamper for a line of this speed. No frame gets an arrival time before `now`.
    pub(super) fn new(bits_per_sec: u64, now: Nanos) -> Self {
        Self { byte_ps: 8_000_000_000_000 / bits_per_sec.max(1), last_poll: now }
    }

    /// Notes that a poll at `now` has found no frames: none arrived before it.
    #[inline]
    pub(super) fn missed(&mut self, now: Nanos) {
        self.last_poll = now.max(self.last_poll);
    }

    /// Returns the arrival times for frames of `wire_bytes` in total that a poll at `now` has
    /// found.
    #[inline]
    pub(super) fn spread(&mut self, now: Nanos, wire_bytes: u64) -> BatchTimes {
        let now = now.max(self.last_poll);
        let on_line = self.byte_ps.saturating_mul(wire_bytes) / 1000;
        let span = on_line.min(now - self.last_poll).min(MAX_SPREAD_NS);
        self.last_poll = now;
        BatchTimes { start: now - span, end: now, slope: (span << 32).div_ceil(wire_bytes.max(1)) }
    }
}

impl BatchTimes {
    /// Returns when the last frame arrived.
    pub(super) fn end(self) -> Nanos {
        self.end
    }

    /// Returns when the frame arrived that completed the first `so_far` bytes of the batch.
    #[inline(always)]
    pub(super) fn at(self, so_far: u64) -> Nanos {
        // Limited to `end`: if a peer changes slot lengths in the middle of the batch, no frame
        // must get a time in the future.
        (self.start + (so_far.wrapping_mul(self.slope) >> 32)).min(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN_GBIT: u64 = 10_000_000_000;

    #[test]
    fn frames_of_a_batch_came_back_to_back_and_the_last_one_now() {
        let mut stamper = Stamper::new(TEN_GBIT, 0);
        let spread = stamper.spread(1_000_000, 3 * 1250);
        assert_eq!(
            [1250, 2500, 3750].map(|so_far| spread.at(so_far)),
            [998_000, 999_000, 1_000_000]
        );
    }

    #[test]
    fn no_frame_came_before_the_poll_that_missed_it() {
        let mut stamper = Stamper::new(TEN_GBIT, 1_000_000);
        let spread = stamper.spread(1_000_500, 100 * 1250);
        assert!(spread.at(1250) > 1_000_000);
        assert_eq!(spread.at(50 * 1250), 1_000_250);
    }

    #[test]
    fn no_frame_came_before_a_poll_that_found_nothing() {
        let mut stamper = Stamper::new(TEN_GBIT, 0);
        stamper.missed(1_000_000);
        stamper.missed(999_000);
        let spread = stamper.spread(1_000_500, 100 * 1250);
        assert!(spread.at(1250) > 1_000_000);
    }

    #[test]
    fn stamps_never_go_back_and_never_lie_ahead() {
        let mut stamper = Stamper::new(TEN_GBIT, 5_000);
        let mut last = 5_000;
        for (now, frames) in [(5_000, 3), (5_001, 500), (4_000, 2), (9_000, 7), (3_000_000_000, 1)]
        {
            let spread = stamper.spread(now, frames * 84);
            for i in 1..=frames {
                let stamp = spread.at(i * 84);
                assert!(stamp >= last && stamp <= now.max(last), "{stamp} after {last} at {now}");
                last = stamp;
            }
        }
    }

    #[test]
    fn a_slow_line_and_a_long_pause_do_not_overflow() {
        let mut stamper = Stamper::new(1, 0);
        let spread = stamper.spread(u64::MAX / 2, 1 << 24);
        assert!(spread.at(1 << 24) <= u64::MAX / 2);
    }
}
