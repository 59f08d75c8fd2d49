//! Release times for the packets of a capture.
//!
//! A [`ReplayTimeline`] turns the timestamps of a capture, packet by packet, into release times
//! that start at zero. It scales them by a speed, limits long pauses, and makes one or more passes
//! over the capture. For each packet, the sum of all gaps so far is scaled. So errors of rounding
//! do not accumulate.
//!
//! Not for: reading captures, or storing packets.

use crate::fraction::Fraction;

/// Computes release times for the packets of a capture.
///
/// ```
/// use slipring_traffic::ReplayTimeline;
///
/// let mut line = ReplayTimeline::new().with_speed("2".parse()?).with_passes(Some(2));
/// let mut times = Vec::new();
/// while line.next_pass() {
///     times.extend([700, 800, 1000].map(|captured_ns| line.release_ns(captured_ns)));
/// }
/// // Twice as fast; between the passes, the average gap of 150 ns.
/// assert_eq!(times, [0, 50, 150, 225, 275, 375]);
/// # Ok::<(), slipring_traffic::FractionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReplayTimeline {
    speed: Fraction,
    max_gap_ns: u64,
    pass_gap_ns: Option<u64>,
    /// How many more passes will be started; `None` means that there is no limit.
    passes_left: Option<u64>,
    /// Time since the first packet of the first pass, in ns, before scaling.
    elapsed_ns: u64,
    pass: ReplayPass,
    out_of_order: u64,
}

/// The current pass over the capture.
#[derive(Clone, Copy, Debug, Default)]
struct ReplayPass {
    latest_ns: Option<u64>,
    packets: u64,
    began_ns: u64,
}

impl ReplayTimeline {
    /// Creates a timeline with one pass, at the speed of the capture, without a limit on pauses.
    #[must_use]
    pub fn new() -> Self {
        Self {
            speed: Fraction::ONE,
            max_gap_ns: u64::MAX,
            pass_gap_ns: None,
            passes_left: Some(1),
            elapsed_ns: 0,
            pass: ReplayPass::default(),
            out_of_order: 0,
        }
    }

    /// Sets by which factor packets are sent faster than they were captured. With 0, only packets
    /// with the timestamp of the first one are ever due.
    #[must_use]
    pub fn with_speed(self, speed: Fraction) -> Self {
        Self { speed, ..self }
    }

    /// Limits the pauses between packets, before scaling, to `max_gap_ns`.
    #[must_use]
    pub fn with_max_gap(self, max_gap_ns: u64) -> Self {
        Self { max_gap_ns, ..self }
    }

    /// Sets the pause between the last packet of a pass and the first packet of the next one,
    /// before scaling. By default, it is the average gap between the packets of the pass.
    #[must_use]
    pub fn with_pass_gap(self, pass_gap_ns: u64) -> Self {
        Self { pass_gap_ns: Some(pass_gap_ns), ..self }
    }

    /// Sets the number of passes over the capture; `None` means that there is no limit.
    #[must_use]
    pub fn with_passes(self, passes: Option<u64>) -> Self {
        Self { passes_left: passes, ..self }
    }

    /// Starts the first or the next pass; returns `false` if all passes are done.
    pub fn next_pass(&mut self) -> bool {
        match &mut self.passes_left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        if self.pass.packets > 0 {
            let gap_ns = self.pass_gap_ns.unwrap_or(self.average_gap_ns());
            self.elapsed_ns = self.elapsed_ns.saturating_add(gap_ns);
        }
        self.pass = ReplayPass { began_ns: self.elapsed_ns, ..ReplayPass::default() };
        true
    }

    /// Returns the release time of the pass's next packet, which was captured at `captured_ns`.
    /// Release times are in ns, relative to the first packet of the first pass. They never
    /// decrease: if a packet before this one has a later timestamp, this one is released at the
    /// same time as its predecessor.
    pub fn release_ns(&mut self, captured_ns: u64) -> u64 {
        let latest_ns = self.pass.latest_ns.unwrap_or(captured_ns);
        self.out_of_order += u64::from(captured_ns < latest_ns);
        let gap_ns = captured_ns.saturating_sub(latest_ns).min(self.max_gap_ns);
        self.elapsed_ns = self.elapsed_ns.saturating_add(gap_ns);
        self.pass.latest_ns = Some(latest_ns.max(captured_ns));
        self.pass.packets += 1;
        self.scaled(self.elapsed_ns)
    }

    /// How many packets so far had an earlier timestamp than a packet before them in their pass.
    #[must_use]
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    fn average_gap_ns(&self) -> u64 {
        let gaps = self.pass.packets.saturating_sub(1);
        let length_ns = self.elapsed_ns - self.pass.began_ns;
        length_ns.checked_div(gaps).unwrap_or(0)
    }

    /// Scales a time by the speed. Rounds up, so that no packet is early.
    fn scaled(&self, elapsed_ns: u64) -> u64 {
        let scaled = u128::from(elapsed_ns) * u128::from(self.speed.den());
        match self.speed.num() {
            0 if elapsed_ns == 0 => 0,
            0 => u64::MAX,
            num => u64::try_from(scaled.div_ceil(u128::from(num))).unwrap_or(u64::MAX),
        }
    }
}

impl Default for ReplayTimeline {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn one_pass(mut line: ReplayTimeline, captured_ns: &[u64]) -> Vec<u64> {
        assert!(line.next_pass());
        captured_ns.iter().map(|&at| line.release_ns(at)).collect()
    }

    #[test]
    fn first_packet_goes_at_once_and_the_rest_at_their_distance() {
        let times = one_pass(ReplayTimeline::new(), &[1_000_000, 1_000_007, 1_000_009]);
        assert_eq!(times, [0, 7, 9]);
    }

    #[test]
    fn packet_stamped_before_its_predecessor_goes_with_it() {
        let mut line = ReplayTimeline::new();
        line.next_pass();
        let times = [100, 150, 120, 160].map(|at| line.release_ns(at));
        assert_eq!(times, [0, 50, 50, 60]);
        assert_eq!(line.out_of_order(), 1);
    }

    #[test]
    fn long_pause_is_cut_to_the_limit() {
        let line = ReplayTimeline::new().with_max_gap(1000);
        assert_eq!(one_pass(line, &[0, 10, 50_000, 50_005]), [0, 10, 1010, 1015]);
    }

    #[test]
    fn passes_are_counted_and_kept_apart_by_the_pass_gap() {
        let mut line = ReplayTimeline::new().with_passes(Some(2)).with_pass_gap(1000);
        assert!(line.next_pass());
        assert_eq!([5, 9].map(|at| line.release_ns(at)), [0, 4]);
        assert!(line.next_pass());
        assert_eq!([5, 9].map(|at| line.release_ns(at)), [1004, 1008]);
        assert!(!line.next_pass());
    }

    #[test]
    fn capture_of_one_packet_repeats_without_pause() {
        let mut line = ReplayTimeline::new().with_passes(None);
        for _ in 0..3 {
            assert!(line.next_pass());
            assert_eq!(line.release_ns(77), 0);
        }
    }

    #[test]
    fn extreme_times_saturate() {
        let line = ReplayTimeline::new().with_speed(Fraction::new(1, u64::MAX).unwrap());
        assert_eq!(one_pass(line, &[0, u64::MAX]), [0, u64::MAX]);
        let never = ReplayTimeline::new().with_speed(Fraction::new(0, 1).unwrap());
        assert_eq!(one_pass(never, &[3, 4]), [0, u64::MAX]);
    }

    proptest! {
        #[test]
        fn release_times_are_exact_over_any_length(
            gaps in prop::collection::vec(0u64..1_000_000, 1..200),
            num in 1u64..1000,
            den in 1u64..1000,
        ) {
            let mut line = ReplayTimeline::new().with_speed(Fraction::new(num, den).unwrap());
            line.next_pass();
            line.release_ns(0);
            let mut at = 0;
            for gap in gaps {
                at += gap;
                prop_assert_eq!(line.release_ns(at), (at * den).div_ceil(num));
            }
        }
    }
}
