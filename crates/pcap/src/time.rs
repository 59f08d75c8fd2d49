//! The units of timestamps. Ticks are converted to nanoseconds. A tick is a power of ten or two of
//! a second, and timestamps may have an offset.

const NS_PER_S: i128 = 1_000_000_000;

/// The unit of an interface's timestamps, and the time of timestamp 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceClock {
    tick: ClockTick,
    offset_s: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockTick {
    /// A tick has 10^-n seconds.
    Decimal(u8),
    /// A tick has 2^-n seconds.
    Binary(u8),
}

impl Default for InterfaceClock {
    /// Returns the default of the format, which is microseconds since 1970.
    fn default() -> Self {
        Self { tick: ClockTick::Decimal(6), offset_s: 0 }
    }
}

impl InterfaceClock {
    /// Sets the tick, from the option if_tsresol. Its top bit says that the tick is a power of two.
    pub(crate) fn set_resolution(&mut self, value: u8) {
        self.tick = match value & 0x80 {
            0 => ClockTick::Decimal(value),
            _ => ClockTick::Binary(value & 0x7f),
        };
    }

    /// Sets the offset from the option if_tsoffset, in seconds.
    pub(crate) fn set_offset(&mut self, seconds: i64) {
        self.offset_s = seconds;
    }

    /// Converts ticks to nanoseconds since 1970, rounded down; `None` if the result does not fit in
    /// 64 bits.
    #[inline]
    pub(crate) fn to_ns(self, ticks: u64) -> Option<u64> {
        match (self.tick, self.offset_s) {
            (ClockTick::Decimal(9), 0) => Some(ticks),
            (ClockTick::Decimal(6), 0) => ticks.checked_mul(1000),
            _ => self.to_ns_any(ticks),
        }
    }

    fn to_ns_any(self, ticks: u64) -> Option<u64> {
        let ticks = i128::from(ticks);
        let ns = match self.tick {
            ClockTick::Decimal(n @ 0..=9) => ticks * 10i128.pow(9 - u32::from(n)),
            // For `n` above 29, the divisor stays 10^20. The quotient is 0 in any case, because 64
            // bits cannot hold 10^20 ticks.
            ClockTick::Decimal(n) => ticks / 10i128.pow((u32::from(n) - 9).min(20)),
            ClockTick::Binary(n) => (ticks * NS_PER_S) >> n.min(126),
        };
        u64::try_from(ns + i128::from(self.offset_s) * NS_PER_S).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(resolution: u8, offset_s: i64, ticks: u64) -> Option<u64> {
        let mut clock = InterfaceClock::default();
        clock.set_resolution(resolution);
        clock.set_offset(offset_s);
        clock.to_ns(ticks)
    }

    #[test]
    fn decimal_units_scale_both_ways() {
        assert_eq!(ns(0, 0, 3), Some(3_000_000_000));
        assert_eq!(ns(3, 0, 1500), Some(1_500_000_000));
        assert_eq!(ns(6, 0, 7), Some(7000));
        assert_eq!(ns(9, 0, u64::MAX), Some(u64::MAX));
        assert_eq!(ns(12, 0, 1999), Some(1));
        assert_eq!(ns(28, 0, 10_000_000_000_000_000_000), Some(1));
        assert_eq!(ns(127, 0, u64::MAX), Some(0));
        assert_eq!(InterfaceClock::default().to_ns(5), Some(5000));
    }

    #[test]
    fn binary_units_scale() {
        assert_eq!(ns(0x80, 0, 2), Some(2_000_000_000));
        assert_eq!(ns(0x80 | 10, 0, 512), Some(500_000_000));
        assert_eq!(ns(0x80 | 32, 0, 1 << 31), Some(500_000_000));
        assert_eq!(ns(0xff, 0, u64::MAX), Some(0));
    }

    #[test]
    fn offsets_shift_and_may_leave_the_range() {
        assert_eq!(ns(9, 2, 5), Some(2_000_000_005));
        assert_eq!(ns(9, -1, 1_000_000_005), Some(5));
        assert_eq!(ns(6, -1, 5), None);
        assert_eq!(ns(6, i64::MAX, 0), None);
        assert_eq!(ns(6, 0, u64::MAX), None);
    }
}
