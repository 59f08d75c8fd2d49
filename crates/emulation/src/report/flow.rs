//! Measurements of departing frames: the rate over windows, and reordering.

/// Counts bytes in time windows of equal width.
#[derive(Debug, Clone)]
pub(crate) struct RateWindows {
    width_ns: u64,
    end_ns: u64,
    bytes: u64,
    peak: u64,
}

impl RateWindows {
    /// Creates windows of `width_ns`, which begin at multiples of `width_ns`.
    pub(crate) const fn new(width_ns: u64) -> Self {
        Self { width_ns, end_ns: 0, bytes: 0, peak: 0 }
    }

    /// Counts a frame; times must not decrease.
    #[inline]
    pub(crate) fn add(&mut self, at_ns: u64, bytes: u64) {
        if at_ns >= self.end_ns {
            self.advance(at_ns);
        }
        self.bytes += bytes;
    }

    fn advance(&mut self, at_ns: u64) {
        self.peak = self.peak.max(self.bytes);
        self.bytes = 0;
        self.end_ns = (at_ns / self.width_ns + 1).saturating_mul(self.width_ns);
    }

    /// Returns the rate of the fullest window, in bits per second.
    pub(crate) fn peak_bps(&self) -> f64 {
        self.peak.max(self.bytes) as f64 * 8e9 / self.width_ns as f64
    }
}

/// Reordering as RFC 4737 defines it (section 3): a frame is reordered if a frame sent later
/// was received earlier.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reordering {
    expected: u64,
    received: u64,
    reordered: u64,
}

impl Reordering {
    /// Counts a frame, given its number in the order of arrival.
    #[inline]
    pub fn received(&mut self, sequence: u64) {
        self.received += 1;
        if sequence >= self.expected {
            self.expected = sequence + 1;
        } else {
            self.reordered += 1;
        }
    }

    /// Counts a frame by its arrival time instead of a number; frames with equal times count as in
    /// order.
    #[inline]
    pub fn received_of(&mut self, arrival_ns: u64) {
        self.received += 1;
        self.reordered += u64::from(arrival_ns < self.expected);
        self.expected = self.expected.max(arrival_ns);
    }

    /// Counts frames with these arrival times, which must be in ascending order. `last_ns` is the
    /// last of them.
    #[inline]
    pub fn received_in_order(
        &mut self,
        arrivals: impl ExactSizeIterator<Item = u64>,
        last_ns: u64,
    ) {
        self.received += arrivals.len() as u64;
        let expected = self.expected;
        self.reordered += arrivals.take_while(|&ns| ns < expected).count() as u64;
        self.expected = expected.max(last_ns);
    }

    /// Returns the number of reordered frames.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Returns the share of reordered frames, from 0 to 1.
    pub fn ratio(&self) -> f64 {
        self.reordered as f64 / self.received.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_window_gives_the_peak() {
        let mut windows = RateWindows::new(1_000_000);
        for at_ns in [0, 999_999, 1_000_000, 5_000_000, 5_000_001, 5_999_999] {
            windows.add(at_ns, 125);
        }
        assert!((windows.peak_bps() - 3_000_000.0).abs() < 1e-6);
    }

    #[test]
    fn a_frame_is_reordered_if_a_later_one_was_received_before() {
        // In an example of RFC 4737, packet 4 arrives after packet 8.
        let mut order = Reordering::default();
        [1, 2, 3, 5, 6, 7, 8, 4, 9, 10].into_iter().for_each(|s| order.received(s));
        assert_eq!(order.reordered(), 1);
        assert!((order.ratio() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn frames_of_one_moment_are_in_order_and_earlier_ones_are_not() {
        let mut order = Reordering::default();
        [10, 20, 20, 15, 20, 30].into_iter().for_each(|ns| order.received_of(ns));
        assert_eq!(order.reordered(), 1);
    }
}
