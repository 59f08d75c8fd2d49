//! Rates: packets or bits per second.

use std::fmt;

use super::scan::{QuantityKind, ScannedNumber, UnitError, exact, prefix};

/// A rate, in packets or bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateWithUnit {
    /// Packets per second.
    Packets(u64),
    /// Bits per second. The command decides whether they include framing (L1) or not (L2).
    Bits(u64),
}

/// The unit of a rate that is written without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateUnit {
    /// Packets per second, as for `pkt-gen -R`.
    Packets,
    /// Bits per second, as for `tlem -B`.
    Bits,
}

/// Spelling, unit, and how many of that unit the spelling means (`B/s` is 8 bit/s). If a spelling
/// ends with another one, the longer one comes first.
const RATE_UNITS: [(&str, RateUnit, u128); 6] = [
    ("pps", RateUnit::Packets, 1),
    ("bit/s", RateUnit::Bits, 1),
    ("bit", RateUnit::Bits, 1),
    ("bps", RateUnit::Bits, 1),
    ("b/s", RateUnit::Bits, 1),
    ("B/s", RateUnit::Bits, 8),
];

impl RateWithUnit {
    /// Parses `1.5Mpps`, `10Gbit`, `9.5Gbit/s`, `125MB/s`; `10G` is in the unit `bare`.
    ///
    /// ```
    /// use slipring_cli::units::{RateWithUnit, RateUnit};
    /// let rate = |text| RateWithUnit::parse(text, RateUnit::Packets).unwrap();
    /// assert_eq!(rate("14.88M"), RateWithUnit::Packets(14_880_000));
    /// assert_eq!(rate("10Gbit"), RateWithUnit::Bits(10_000_000_000));
    /// ```
    ///
    /// # Errors
    /// [`UnitError`] unless the text is a whole number of packets or bits per second that fits.
    pub fn parse(text: &str, bare: RateUnit) -> Result<Self, UnitError> {
        let scanned = ScannedNumber::read(text, QuantityKind::Rate)?;
        let bare = ("", bare, 1);
        let (unit, per_unit) = RATE_UNITS
            .iter()
            .chain([&bare])
            .find_map(|(suffix, unit, factor)| {
                let scale = prefix(scanned.unit.strip_suffix(suffix)?)?;
                Some((*unit, factor * scale))
            })
            .ok_or_else(|| scanned.unknown_unit())?;
        let value = scanned.exactly(per_unit)?;
        Ok(match unit {
            RateUnit::Packets => Self::Packets(value),
            RateUnit::Bits => Self::Bits(value),
        })
    }
}

impl fmt::Display for RateWithUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [
            (1_000_000_000_000, "T"),
            (1_000_000_000, "G"),
            (1_000_000, "M"),
            (1_000, "k"),
            (1, ""),
        ];
        match self {
            Self::Packets(value) => write!(f, "{}pps", exact(*value, &steps)),
            Self::Bits(value) => write!(f, "{}bit/s", exact(*value, &steps)),
        }
    }
}
