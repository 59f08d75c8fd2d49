//! An exact pacer: turns a rate into release times.
//!
//! Release times are rationals, stored as whole nanoseconds plus a remainder over the rate, so
//! nothing is rounded: packet number *n* of a 3 pps schedule is due at exactly *n*/3 s for every
//! *n*. A time is rounded up to the next nanosecond when it is returned, but not in the state,
//! unless the rate changes.
//!
//! ```text
//!   ideal schedule   |-----.|-----.|-----.|      period 6.5 ns
//!   returned         0      7     13     20      ceil(n * 6.5)
//! ```
//!
//! # Invariants
//! 1. The next packet is due at `due_ns + due_fraction / rate` ns, and
//!    `due_fraction < rate`.
//! 2. Unless a lag was forfeited ([`Pacer::with_catch_up`]) or the rate was changed, the returned
//!    release time of a packet is at most 1 ns later than the exact time, and never earlier.
//!
//! Not for sleeping, and not for choosing which packet is sent: the caller does both.

use core::num::NonZeroU64;

use crate::NANOS_PER_SEC;

/// How fast packets may leave. A rate of 0 means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Packets per second, of any size.
    PacketsPerSec(u64),
    /// Bits per second; the caller decides which bits count for a packet (with or without preamble,
    /// gap and checksum).
    BitsPerSec(u64),
}

/// A schedule of release times at a constant [`Rate`].
///
/// ```
/// use slipring_model::{Pacer, Rate};
///
/// let mut pacer = Pacer::new(Rate::PacketsPerSec(3), 0);
/// let times: Vec<u64> = (0..4).map(|_| pacer.next(0, 0)).collect();
/// assert_eq!(times, [0, 333_333_334, 666_666_667, 1_000_000_000]);
/// ```
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Rate in packets or bits per second; `None` if unlimited.
    rate: Option<NonZeroU64>,
    unit: PacerUnit,
    due_ns: u64,
    due_fraction: u64,
    /// The schedule advances by this multiple of a packet's cost. So it leaves room for the
    /// packets of the other pacers that share the rate.
    stride: u32,
    catch_up_ns: u64,
    forfeited_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacerUnit {
    Packets,
    Bits,
}

impl Pacer {
    /// The default of [`Self::with_catch_up`], in ns: a pacer that lags by more than this forfeits
    /// the excess.
    pub const DEFAULT_CATCH_UP_NS: u64 = 100_000_000;

    /// Starts a schedule whose first packet is due at `start_ns`.
    #[must_use]
    pub fn new(rate: Rate, start_ns: u64) -> Self {
        let (unit, per_sec) = match rate {
            Rate::PacketsPerSec(per_sec) => (PacerUnit::Packets, per_sec),
            Rate::BitsPerSec(per_sec) => (PacerUnit::Bits, per_sec),
        };
        Self {
            rate: NonZeroU64::new(per_sec),
            unit,
            due_ns: start_ns,
            due_fraction: 0,
            stride: 1,
            catch_up_ns: Self::DEFAULT_CATCH_UP_NS,
            forfeited_ns: 0,
        }
    }

    /// Sets how far the schedule may lag behind the caller's clock, in ns. Any lag beyond that is
    /// forfeited, so a longer stall is not followed by a longer burst.
    #[must_use]
    pub fn with_catch_up(self, catch_up_ns: u64) -> Self {
        Self { catch_up_ns, ..self }
    }

    /// Turns this pacer into one of `sharers` pacers that together keep the rate: each sends one of
    /// every `sharers` packets, and this one has the number `index`. Packet rates interleave
    /// exactly; bit rates do so if every packet has `wire_bits` bits.
    ///
    /// # Panics
    /// If `index` is not less than `sharers`.
    #[must_use]
    pub fn with_share(mut self, index: u32, sharers: u32, wire_bits: u32) -> Self {
        assert!(index < sharers, "a sharer's index must be below their number");
        self.stride = index;
        self.advance(wire_bits, 1);
        self.stride = sharers;
        self
    }

    /// The time at which the next packet is due, in ns, rounded up.
    #[must_use]
    #[inline]
    pub fn due_ns(&self) -> u64 {
        self.due_ns.saturating_add(u64::from(self.due_fraction > 0))
    }

    /// Schedules one packet of `wire_bits` and returns its release time in ns. The time may be
    /// earlier than `now_ns` by up to the catch-up bound. An unlimited pacer returns `now_ns`.
    #[inline]
    pub fn next(&mut self, now_ns: u64, wire_bits: u32) -> u64 {
        if self.rate.is_none() {
            return now_ns;
        }
        self.forfeit_arrears(now_ns);
        let release_ns = self.due_ns();
        self.advance(wire_bits, 1);
        release_ns
    }

    /// Schedules all packets that are due by `now_ns`, at most `max`, each of `wire_bits`. Returns
    /// their number, which is the size of a batch. An unlimited pacer returns `max`.
    pub fn due(&mut self, now_ns: u64, wire_bits: u32, max: u32) -> u32 {
        let Some(rate) = self.rate else { return max };
        self.forfeit_arrears(now_ns);
        if self.due_ns() > now_ns {
            return 0;
        }
        // The times are counted in units of 1/rate ns; all costs are multiples of this unit.
        let rate = u128::from(rate.get());
        let lag = u128::from(now_ns - self.due_ns) * rate - u128::from(self.due_fraction);
        let cost = self.cost(wire_bits);
        let count = lag.checked_div(cost).map_or(u128::from(max), |more| more + 1);
        let count = count.min(u128::from(max)) as u32;
        self.advance(wire_bits, count);
        count
    }

    /// Changes the rate from the next packet's due time on, which is rounded up to a whole ns. The
    /// schedule before that time, the share and the catch-up bound stay.
    pub fn set_rate(&mut self, rate: Rate) {
        let due_ns = self.due_ns();
        let fresh = Self::new(rate, due_ns);
        *self = Self {
            stride: self.stride,
            catch_up_ns: self.catch_up_ns,
            forfeited_ns: self.forfeited_ns,
            ..fresh
        };
    }

    /// The total scheduled time, in ns, that was forfeited because the caller lagged by more than
    /// the catch-up bound. Zero means that the rate was kept exactly.
    #[must_use]
    pub const fn forfeited_ns(&self) -> u64 {
        self.forfeited_ns
    }

    #[inline]
    fn forfeit_arrears(&mut self, now_ns: u64) {
        let earliest_ns = now_ns.saturating_sub(self.catch_up_ns);
        if self.due_ns < earliest_ns {
            self.forfeited_ns += earliest_ns - self.due_ns;
            self.due_ns = earliest_ns;
            self.due_fraction = 0;
        }
    }

    /// The cost of one packet in units of 1/rate ns.
    #[inline]
    fn cost(&self, wire_bits: u32) -> u128 {
        let amount = match self.unit {
            PacerUnit::Packets => 1,
            PacerUnit::Bits => wire_bits,
        };
        u128::from(amount) * u128::from(self.stride) * u128::from(NANOS_PER_SEC)
    }

    #[inline]
    fn advance(&mut self, wire_bits: u32, packets: u32) {
        let Some(rate) = self.rate else { return };
        let total = self.cost(wire_bits) * u128::from(packets) + u128::from(self.due_fraction);
        let (whole_ns, fraction) = div_rem(total, rate);
        self.due_ns = self.due_ns.saturating_add(whole_ns);
        self.due_fraction = fraction;
    }
}

/// Divides by the rate; returns quotient and remainder. If `total` fits in 64 bits, uses 64-bit
/// division, which is several times faster. This is the usual case: if the rate is not shared, it
/// includes all batches of up to 18 Gbit, or of up to 18 billion packets.
#[inline]
fn div_rem(total: u128, rate: NonZeroU64) -> (u64, u64) {
    if let Ok(total) = u64::try_from(total) {
        return (total / rate, total % rate);
    }
    let rate = u128::from(rate.get());
    let whole = u64::try_from(total / rate).unwrap_or(u64::MAX);
    (whole, (total % rate) as u64)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// The exact time `units / rate` in seconds, returned in ns and rounded up.
    fn exact_ns(units: u128, rate: u64) -> u128 {
        (units * u128::from(NANOS_PER_SEC)).div_ceil(u128::from(rate))
    }

    #[test]
    fn third_of_a_second_never_drifts() {
        let mut pacer = Pacer::new(Rate::PacketsPerSec(3), 0);
        for n in 0..300_000u128 {
            assert_eq!(u128::from(pacer.next(0, 0)), exact_ns(n, 3));
        }
    }

    #[test]
    fn zero_rate_means_unlimited() {
        let mut pacer = Pacer::new(Rate::BitsPerSec(0), 77);
        assert_eq!(pacer.next(5, 512), 5);
        assert_eq!(pacer.due(5, 512, 256), 256);
    }

    #[test]
    fn nothing_is_due_before_the_start() {
        let mut pacer = Pacer::new(Rate::PacketsPerSec(1000), 500);
        assert_eq!(pacer.due(499, 0, 10), 0);
        assert_eq!(pacer.due(500, 0, 10), 1);
    }

    #[test]
    fn lag_within_the_bound_is_made_up_in_full() {
        let mut pacer = Pacer::new(Rate::PacketsPerSec(1_000_000), 0).with_catch_up(10_000);
        assert_eq!(pacer.due(10_000, 0, 100), 11);
        assert_eq!(pacer.forfeited_ns(), 0);
    }

    #[test]
    fn lag_beyond_the_bound_is_forfeited_and_counted() {
        let mut pacer = Pacer::new(Rate::PacketsPerSec(1_000_000), 0).with_catch_up(10_000);
        assert_eq!(pacer.due(1_000_000, 0, 100), 11);
        assert_eq!(pacer.forfeited_ns(), 990_000);
    }

    #[test]
    fn rate_change_continues_from_the_next_due_time() {
        let mut pacer = Pacer::new(Rate::PacketsPerSec(1000), 0);
        pacer.next(0, 0);
        pacer.set_rate(Rate::PacketsPerSec(500));
        let times: Vec<u64> = (0..3).map(|_| pacer.next(0, 0)).collect();
        assert_eq!(times, [1_000_000, 3_000_000, 5_000_000]);
    }

    #[test]
    fn extreme_arguments_saturate_instead_of_overflowing() {
        let mut pacer = Pacer::new(Rate::BitsPerSec(1), u64::MAX - 1).with_share(6, 7, u32::MAX);
        pacer.next(u64::MAX, u32::MAX);
        assert_eq!(pacer.due_ns(), u64::MAX);
        let mut fast = Pacer::new(Rate::BitsPerSec(u64::MAX), 0).with_catch_up(u64::MAX);
        assert_eq!(fast.due(u64::MAX, 1, u32::MAX), u32::MAX);
    }

    proptest! {
        #[test]
        fn release_times_are_the_exact_fractions_rounded_up(
            rate in 1u64..,
            sizes in prop::collection::vec(0u32..=524_288, 1..100),
        ) {
            let mut pacer = Pacer::new(Rate::BitsPerSec(rate), 0);
            let mut bits = 0;
            for size in sizes {
                prop_assert_eq!(u128::from(pacer.next(0, size)), exact_ns(bits, rate));
                bits += u128::from(size);
            }
        }

        #[test]
        fn batches_release_exactly_what_single_packets_would(
            rate in 1u64..1 << 40,
            wire_bits in 0u32..20_000,
            polls in prop::collection::vec((0u64..5_000, 0u32..50), 1..50),
            catch_up_ns in 0u64..10_000,
        ) {
            let mut batched = Pacer::new(Rate::BitsPerSec(rate), 0).with_catch_up(catch_up_ns);
            let mut single = batched.clone();
            let mut now_ns = 0;
            for (step_ns, max) in polls {
                now_ns += step_ns;
                single.forfeit_arrears(now_ns);
                let mut expected = 0;
                while expected < max && single.due_ns() <= now_ns {
                    single.next(now_ns, wire_bits);
                    expected += 1;
                }
                prop_assert_eq!(batched.due(now_ns, wire_bits, max), expected);
                prop_assert_eq!(batched.due_ns(), single.due_ns());
                prop_assert_eq!(batched.forfeited_ns(), single.forfeited_ns());
            }
        }

        #[test]
        fn sharers_together_keep_the_schedule_of_one(rate in 1u64.., sharers in 1u32..9) {
            let mut whole = Pacer::new(Rate::PacketsPerSec(rate), 0);
            let mut parts: Vec<Pacer> = (0..sharers)
                .map(|index| Pacer::new(Rate::PacketsPerSec(rate), 0).with_share(index, sharers, 0))
                .collect();
            for n in 0..50 {
                let part = &mut parts[n % sharers as usize];
                prop_assert_eq!(part.next(0, 0), whole.next(0, 0));
            }
        }
    }
}
