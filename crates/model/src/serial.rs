//! Exact serialisation: computes when the last bit of each frame has left a line.
//!
//! Work is counted in bits times 10⁹, so a line of `bps` does `bps` units of work per nanosecond,
//! and every time is a whole number of nanoseconds plus a remainder over the rate. While the rate
//! stays the same, the state is never rounded: after any number of frames the clock is exact.
//! Returned times are rounded up.
//!
//! # Invariants
//! 1. The line is free at `ns + rem / bps` nanoseconds, and `rem < bps`.
//! 2. Quotients are exact: the reciprocal gives an estimate, which is then corrected.
//!
//! Not for: queues, or rates that vary without a call of [`LineClock::set_rate`].

use core::num::NonZeroU64;

use crate::NANOS_PER_SEC;

/// A bit rate, prepared so that dividing 64 bits of work by it needs no division instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRate {
    bps: NonZeroU64,
    /// The reciprocal of the rate: ⌊(2⁶⁴ - 1) / bps⌋.
    reciprocal: u64,
}

impl BitRate {
    /// Prepares a rate in bits per second.
    #[must_use]
    pub const fn new(bps: NonZeroU64) -> Self {
        // For powers of two, this is one less than ⌊2⁶⁴ / bps⌋. `divide` corrects the resulting
        // error.
        Self { bps, reciprocal: u64::MAX / bps.get() }
    }

    /// The rate in bits per second.
    #[must_use]
    pub const fn bps(self) -> u64 {
        self.bps.get()
    }

    /// Quotient and remainder of `work / bps`.
    #[inline]
    #[must_use]
    pub const fn divide(self, work: u64) -> (u64, u64) {
        let bps = self.bps.get();
        let mut quotient = ((work as u128 * self.reciprocal as u128) >> 64) as u64;
        let mut rem = work - quotient * bps;
        // The estimated quotient is too small by at most two.
        while rem >= bps {
            quotient += 1;
            rem -= bps;
        }
        (quotient, rem)
    }

    /// Time to send `bits` in ns, rounded up; `None` if the work (bits times 10⁹) does not fit in
    /// 64 bits.
    #[inline]
    #[must_use]
    pub const fn time_of(self, bits: u64) -> Option<u64> {
        if bits > u64::MAX / NANOS_PER_SEC {
            return None;
        }
        let (ns, rem) = self.divide(bits * NANOS_PER_SEC);
        // This cannot overflow: `ns` is `u64::MAX` only at 1 bit/s, and then the remainder is 0.
        Some(ns + (rem > 0) as u64)
    }

    /// Like [`Self::divide`], but for work that may exceed 64 bits; a quotient beyond 64 bits
    /// becomes `u64::MAX`.
    #[must_use]
    pub fn divide_wide(self, work: u128) -> (u64, u64) {
        let bps = u128::from(self.bps.get());
        let quotient = u64::try_from(work / bps).unwrap_or(u64::MAX);
        (quotient, (work % bps) as u64)
    }
}

/// The exact time from which a line is free.
///
/// ```
/// use core::num::NonZeroU64;
/// use slipring_model::{BitRate, LineClock};
///
/// let three = BitRate::new(NonZeroU64::new(3).unwrap());
/// let mut line = LineClock::new(three, 0);
/// let ends: Vec<u64> = (0..3).map(|_| line.occupy(0, 1)).collect();
/// assert_eq!(ends, [333_333_334, 666_666_667, 1_000_000_000]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineClock {
    rate: BitRate,
    ns: u64,
    rem: u64,
}

impl LineClock {
    /// Creates a line that is free from `start_ns` on.
    #[must_use]
    pub const fn new(rate: BitRate, start_ns: u64) -> Self {
        Self { rate, ns: start_ns, rem: 0 }
    }

    /// The rate of the line.
    #[must_use]
    pub const fn rate(&self) -> BitRate {
        self.rate
    }

    /// The time from which the line is free, in ns, rounded up.
    #[inline]
    #[must_use]
    pub const fn free_ns(&self) -> u64 {
        self.ns.saturating_add((self.rem > 0) as u64)
    }

    /// Returns whether the line is busy until `ns` or later, exact to the fraction of a nanosecond.
    #[inline]
    #[must_use]
    pub const fn is_busy_until(&self, ns: u64) -> bool {
        self.ns >= ns
    }

    /// Lets the line idle until `ready_ns` if it is free earlier.
    #[inline]
    pub fn wait_for(&mut self, ready_ns: u64) {
        if self.free_ns() <= ready_ns {
            self.ns = ready_ns;
            self.rem = 0;
        }
    }

    /// Occupies the line with `bits`, starting when the line is free and the bits are ready
    /// (`ready_ns`). Returns the time at which the last bit has left, in ns, rounded up.
    #[inline]
    pub fn occupy(&mut self, ready_ns: u64, bits: u64) -> u64 {
        self.wait_for(ready_ns);
        self.advance(bits);
        self.free_ns()
    }

    /// Occupies the line for `ns` nanoseconds, rather than for a number of bits.
    pub fn occupy_ns(&mut self, ns: u64) {
        self.ns = self.ns.saturating_add(ns);
    }

    /// Sets the rate of all later work. The time at which the line becomes free does not change,
    /// except that its fraction of a nanosecond, in units of 1 / rate ns, is converted to units of
    /// the new rate and rounded down.
    pub fn set_rate(&mut self, rate: BitRate) {
        let rem = u128::from(self.rem) * u128::from(rate.bps()) / u128::from(self.rate.bps());
        (self.rate, self.rem) = (rate, rem as u64);
    }

    /// Occupies the line with as much of `work` (bits times 10⁹) as can be done before `end_ns`;
    /// returns the remaining work. If work remains, the line is free at `end_ns`, or later if it
    /// was busy beyond `end_ns` before.
    #[must_use]
    pub fn work_until(&mut self, end_ns: u64, work: u128) -> u128 {
        if self.is_busy_until(end_ns) {
            return work;
        }
        let span = u128::from(end_ns - self.ns) * u128::from(self.rate.bps());
        let room = span.saturating_sub(u128::from(self.rem));
        if work > room {
            (self.ns, self.rem) = (end_ns, 0);
            return work - room;
        }
        self.advance_wide(work);
        0
    }

    #[inline]
    fn advance(&mut self, bits: u64) {
        // If both values are below these bounds, neither the product nor the sum exceeds 64 bits.
        if bits < 1 << 32 && self.rate.bps() < 1 << 62 {
            let (ns, rem) = self.rate.divide(bits * NANOS_PER_SEC + self.rem);
            (self.ns, self.rem) = (self.ns.saturating_add(ns), rem);
        } else {
            self.advance_wide(u128::from(bits) * u128::from(NANOS_PER_SEC));
        }
    }

    fn advance_wide(&mut self, work: u128) {
        let (ns, rem) = self.rate.divide_wide(work + u128::from(self.rem));
        (self.ns, self.rem) = (self.ns.saturating_add(ns), rem);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(bps: u64) -> BitRate {
        BitRate::new(NonZeroU64::new(bps).unwrap())
    }

    #[test]
    fn a_million_frames_at_400_gbit_end_within_a_nanosecond() {
        let mut line = LineClock::new(rate(400_000_000_000), 7);
        let end_ns = (0..1_000_000).map(|_| line.occupy(0, 84 * 8)).last().unwrap();
        assert_eq!(end_ns, 7 + 1_680_000);
    }

    #[test]
    fn one_bit_per_second_takes_a_second_per_bit() {
        let mut line = LineClock::new(rate(1), 0);
        assert_eq!(line.occupy(0, 12_000), 12_000 * NANOS_PER_SEC);
    }

    #[test]
    fn a_line_that_is_busy_beyond_a_span_keeps_its_fraction() {
        let mut line = LineClock::new(rate(3), 0);
        line.occupy(0, 1);
        assert_eq!(line.free_ns(), 333_333_334);
        assert_eq!(line.work_until(333_333_333, 5), 5);
        assert_eq!(line.free_ns(), 333_333_334);
    }

    #[test]
    fn an_idle_line_starts_when_the_bits_are_ready() {
        let mut line = LineClock::new(rate(1_000_000_000), 0);
        assert_eq!(line.occupy(500, 8), 508);
        assert_eq!(line.occupy(100, 8), 516);
    }

    #[test]
    fn a_new_rate_holds_from_when_the_line_is_free() {
        let mut line = LineClock::new(rate(3), 0);
        line.occupy(0, 1);
        line.set_rate(rate(6_000_000_000));
        assert_eq!(line.occupy(0, 4), 333_333_334);
        assert_eq!(line.occupy(0, 2), 333_333_335);
    }

    #[test]
    fn work_stops_at_the_end_of_its_span() {
        let mut line = LineClock::new(rate(1_000_000_000), 10);
        let left = line.work_until(15, 8_000_000_000);
        assert_eq!((left, line.free_ns()), (3_000_000_000, 15));
        assert_eq!(line.work_until(100, left), 0);
        assert_eq!(line.free_ns(), 18);
    }

    #[test]
    fn a_line_is_busy_to_the_fraction_of_a_nanosecond() {
        let mut line = LineClock::new(rate(3), 0);
        line.occupy(0, 1);
        assert_eq!([333_333_333, 333_333_334].map(|ns| line.is_busy_until(ns)), [true, false]);
        line.occupy_ns(10);
        assert_eq!(line.free_ns(), 333_333_344);
        assert_eq!(line.occupy(0, 2), 1_000_000_010, "the fraction is still there");
    }

    #[test]
    fn the_fraction_that_a_rate_has_left_is_carried_over() {
        // 1/7 s is 142857142 6/7 ns; three bits at 14 Gbit/s are 3/14 ns.
        let mut line = LineClock::new(rate(7), 0);
        line.occupy(0, 1);
        line.set_rate(rate(14_000_000_000));
        assert_eq!([2, 1].map(|bits| line.occupy(0, bits)), [142_857_143, 142_857_144]);
    }

    proptest! {
        #[test]
        fn a_time_is_that_of_the_bits_rounded_up_or_too_long(bits: u64, shift in 0u32..64, bps in 1u64..) {
            for (bits, bps) in [(bits >> shift, bps), (bits >> shift, bps >> shift | 1)] {
                let work = u128::from(bits) * 1_000_000_000;
                let exact = u64::try_from(work.div_ceil(u128::from(bps)));
                let is_possible = work <= u128::from(u64::MAX);
                prop_assert_eq!(rate(bps).time_of(bits), exact.ok().filter(|_| is_possible));
            }
        }

        #[test]
        fn guessed_quotients_are_exact(work: u64, bps in 1u64..) {
            prop_assert_eq!(rate(bps).divide(work), (work / bps, work % bps));
        }

        #[test]
        fn line_agrees_with_exact_fractions(
            bps in prop_oneof![1u64..100, 1u64..=400_000_000_000, 1u64..],
            frames in prop::collection::vec(
                prop_oneof![8 => 1u64..600_000, 1 => 1u64..1 << 32, 1 => 1u64..1 << 40],
                1..50,
            ),
        ) {
            let mut line = LineClock::new(rate(bps), 0);
            let mut bits = 0u128;
            for frame in frames {
                bits += u128::from(frame);
                let exact = (bits * 1_000_000_000).div_ceil(u128::from(bps)).min(u64::MAX.into());
                prop_assert_eq!(u128::from(line.occupy(0, frame)), exact);
            }
        }
    }
}
