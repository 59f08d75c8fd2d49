//! Times, sizes, counts and shares.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::scan::{QuantityKind, ScannedNumber, UnitError, exact, prefix};

/// A span of time in whole nanoseconds, up to some 584 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan {
    nanos: u64,
}

impl TimeSpan {
    const MINUTE_NS: u128 = 60_000_000_000;

    /// Parses `250us`, `2ms`, `1.5s`, `10min`, `1h`; a bare number is in units of `bare`.
    ///
    /// # Errors
    /// [`UnitError`] unless the text is a whole number of nanoseconds that fits.
    pub fn parse(text: &str, bare: Duration) -> Result<Self, UnitError> {
        let scanned = ScannedNumber::read(text, QuantityKind::Time)?;
        let per_unit = match scanned.unit {
            "" => bare.as_nanos(),
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" | "sec" => 1_000_000_000,
            "min" => Self::MINUTE_NS,
            "h" => 60 * Self::MINUTE_NS,
            _ => return Err(scanned.unknown_unit()),
        };
        let nanos = scanned.exactly(per_unit)?;
        Ok(Self { nanos })
    }

    /// The span in nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.nanos
    }

    /// The span as the standard library's type.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
        f.write_str(&exact(self.nanos, &steps))
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(pub u64);

impl FromStr for ByteCount {
    type Err = UnitError;

    /// Reads `1500`, `64k` (64,000), `64KiB` (65,536), `2MiB`, `1500B`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let scanned = ScannedNumber::read(text, QuantityKind::Size)?;
        let unit = scanned.unit.strip_suffix('B').unwrap_or(scanned.unit);
        let per_unit = prefix(unit).ok_or_else(|| scanned.unknown_unit())?;
        scanned.exactly(per_unit).map(Self)
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let whole = |step: u64| self.0 != 0 && self.0.is_multiple_of(step);
        match binary.iter().find(|(step, _)| whole(*step)) {
            Some((step, unit)) => write!(f, "{}{unit}", self.0 / step),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = UnitError;

    /// Reads `1000`, `64k` (64,000), `1.5M`, `64Ki` (65,536).
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let scanned = ScannedNumber::read(text, QuantityKind::Count)?;
        let per_unit = prefix(scanned.unit).ok_or_else(|| scanned.unknown_unit())?;
        scanned.exactly(per_unit).map(Self)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A share of a whole, in parts per 10^9: 0 to 10^9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio {
    ppb: u64,
}

impl Ratio {
    const WHOLE_PPB: u64 = 1_000_000_000;

    /// Returns the share in parts per 10^9.
    #[must_use]
    pub const fn ppb(self) -> u64 {
        self.ppb
    }

    /// Whether `part / whole` is more than this share; false if both are 0.
    ///
    /// ```
    /// let bound: slipring_cli::units::Ratio = "0.1%".parse().unwrap();
    /// assert!(!bound.is_exceeded_by(1, 1_000));
    /// assert!(bound.is_exceeded_by(2, 1_000));
    /// ```
    #[must_use]
    pub fn is_exceeded_by(self, part: u64, whole: u64) -> bool {
        u128::from(part) * u128::from(Self::WHOLE_PPB) > u128::from(whole) * u128::from(self.ppb)
    }
}

impl FromStr for Ratio {
    type Err = UnitError;

    /// Parses `0.1%`, `250ppm`, `1e-6` and `0`. Any other number without a unit is ambiguous: in
    /// some programs `1` means all, in others one in a hundred.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let mut scanned = ScannedNumber::read(text, QuantityKind::Share)?;
        let is_exponent = scanned.take_negative_exponent();
        if scanned.unit.is_empty() && !is_exponent && !scanned.is_zero() {
            return Err(scanned.two_readings());
        }
        let per_unit = match scanned.unit {
            "" => 1_000_000_000,
            "%" => 10_000_000,
            "ppm" => 1_000,
            "ppb" => 1,
            _ => return Err(scanned.unknown_unit()),
        };
        let ppb = scanned.exactly(per_unit)?;
        if ppb > Self::WHOLE_PPB {
            return Err(scanned.too_large());
        }
        Ok(Self { ppb })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [(10_000_000, "%"), (1_000, "ppm"), (1, "ppb")];
        f.write_str(&exact(self.ppb, &steps))
    }
}
