//! The parser of decimal numbers followed by a unit.

use std::fmt;

use crate::Diagnose;
use crate::codes::{ErrorCode, SR0007};

/// The kind of value being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantityKind {
    /// Packets or bits per second.
    Rate,
    /// A span of time.
    Time,
    /// A number of bytes.
    Size,
    /// A plain number.
    Count,
    /// A fraction of a whole, such as `0.1%`.
    Share,
}

impl QuantityKind {
    const fn noun(self) -> &'static str {
        match self {
            Self::Rate => "a rate",
            Self::Time => "a time",
            Self::Size => "a size",
            Self::Count => "a count",
            Self::Share => "a share",
        }
    }

    const fn forms(self) -> &'static str {
        match self {
            Self::Rate => "1.5Mpps, 14880952pps, 10Gbit, 9.5Gbit/s or 125MB/s",
            Self::Time => "250us, 2ms, 1.5s, 10min or 1h",
            Self::Size => "1500, 64k (64000), 64KiB (65536) or 2MiB",
            Self::Count => "1000, 64k or 1.5M",
            Self::Share => "0.1%, 100%, 250ppm or 1e-6",
        }
    }

    const fn smallest(self) -> &'static str {
        match self {
            Self::Rate => "packets or bits per second",
            Self::Time => "nanoseconds",
            Self::Size => "bytes",
            Self::Count => "units",
            Self::Share => "parts in 10^9",
        }
    }
}

/// Why a text is not a value of the wanted quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitErrorReason {
    /// The text does not start with a number.
    NoNumber,
    /// The text after the number is not a unit of the quantity.
    UnknownUnit(String),
    /// The number has no unit, and could be a fraction or a percentage.
    TwoReadings,
    /// The value is finer than the smallest unit.
    NotWhole,
    /// The value is larger than the type allows, or a share is more than 100 %.
    TooLarge,
}

/// A value that could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitError {
    /// The text as given.
    pub text: String,
    /// Column of the mistake, in characters counted from 1.
    pub column: usize,
    /// Why reading stopped.
    pub reason: UnitErrorReason,
    /// The kind of value that was expected.
    pub quantity: QuantityKind,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            UnitErrorReason::NoNumber if is_negative(&self.text) => {
                f.write_str("it is negative")?
            }
            UnitErrorReason::NoNumber => f.write_str("expected a number")?,
            UnitErrorReason::UnknownUnit(unit) => {
                write!(f, "unknown unit `{unit}` for {}", self.quantity.noun())?;
            }
            UnitErrorReason::TwoReadings => {
                write!(f, "it could be {0}% or {0} of the whole", self.text)?;
            }
            UnitErrorReason::NotWhole => {
                write!(f, "not a whole number of {}", self.quantity.smallest())?;
            }
            UnitErrorReason::TooLarge => f.write_str("too large")?,
        }
        write!(f, " at column {}", self.column)
    }
}

/// Whether the text is a number with a minus sign.
fn is_negative(text: &str) -> bool {
    let behind = text.strip_prefix(['-', '−']);
    behind.is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

impl std::error::Error for UnitError {}

impl Diagnose for UnitError {
    fn code(&self) -> ErrorCode {
        SR0007
    }

    fn summary(&self) -> String {
        format!("`{}` is not {}", self.text, self.quantity.noun())
    }

    fn cause(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn help(&self) -> Option<String> {
        Some(format!("write it as {}", self.quantity.forms()))
    }
}

/// A decimal number, `mantissa / 10^decimals`, and the unit after it.
#[derive(Debug)]
pub(super) struct ScannedNumber<'t> {
    text: &'t str,
    quantity: QuantityKind,
    mantissa: u128,
    decimals: u32,
    pub(super) unit: &'t str,
}

impl<'t> ScannedNumber<'t> {
    /// Parses digits, with or without a fraction (`1`, `1.5`, `.5`), and takes the remaining text
    /// (without one leading space) as the unit.
    pub(super) fn read(text: &'t str, quantity: QuantityKind) -> Result<Self, UnitError> {
        let (whole, rest) = split_digits(text);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let unit = rest.strip_prefix(' ').unwrap_or(rest);
        let mut scanned = Self {
            text,
            quantity,
            mantissa: 0,
            decimals: u32::try_from(fraction.len()).unwrap_or(u32::MAX),
            unit,
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(scanned.error(0, UnitErrorReason::NoNumber));
        }
        for digit in whole.bytes().chain(fraction.bytes()) {
            scanned.mantissa = scanned
                .mantissa
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(u128::from(digit - b'0')))
                .ok_or_else(|| scanned.too_large())?;
        }
        Ok(scanned)
    }

    /// Moves a negative exponent, such as `e-6`, from the front of the unit to the number. Returns
    /// whether there was one.
    pub(super) fn take_negative_exponent(&mut self) -> bool {
        let Some(rest) = self.unit.strip_prefix("e-").or(self.unit.strip_prefix("E-")) else {
            return false;
        };
        let (digits, unit) = split_digits(rest);
        let Ok(exponent) = digits.parse::<u32>() else { return false };
        self.decimals = self.decimals.saturating_add(exponent);
        self.unit = unit;
        true
    }

    pub(super) fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    pub(super) fn two_readings(&self) -> UnitError {
        self.error(0, UnitErrorReason::TwoReadings)
    }

    /// Converts the value to the smallest unit. `per_unit` is the size of the written unit in
    /// smallest units.
    pub(super) fn exactly(&self, per_unit: u128) -> Result<u64, UnitError> {
        let product = self.mantissa.checked_mul(per_unit).ok_or_else(|| self.too_large())?;
        let value = self.without_decimals(product)?;
        u64::try_from(value).map_err(|_| self.too_large())
    }

    fn without_decimals(&self, product: u128) -> Result<u128, UnitError> {
        let scale = 10_u128.checked_pow(self.decimals);
        match scale {
            _ if product == 0 => Ok(0),
            Some(scale) if product.is_multiple_of(scale) => Ok(product / scale),
            // If 10^decimals does not fit in 128 bits, the number has more decimals than the
            // product has digits, so it cannot be whole.
            _ => Err(self.error(0, UnitErrorReason::NotWhole)),
        }
    }

    pub(super) fn too_large(&self) -> UnitError {
        self.error(0, UnitErrorReason::TooLarge)
    }

    pub(super) fn unknown_unit(&self) -> UnitError {
        let before = self.text.len() - self.unit.len();
        let at = self.text[..before].chars().count();
        let reason = UnitErrorReason::UnknownUnit(self.unit.to_owned());
        self.error(at, reason)
    }

    fn error(&self, chars_before: usize, reason: UnitErrorReason) -> UnitError {
        UnitError {
            text: self.text.to_owned(),
            column: chars_before + 1,
            reason,
            quantity: self.quantity,
        }
    }
}

/// Returns the factor of an SI or binary prefix in upper or lower case, since no unit here uses
/// milli.
pub(super) fn prefix(text: &str) -> Option<u128> {
    let (letter, base) = match text.strip_suffix('i') {
        Some(letter) => (letter, 1024_u128),
        None => (text, 1000),
    };
    let power = match letter {
        "" if base == 1000 => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        _ => return None,
    };
    Some(base.pow(power))
}

/// Prints `value` in the largest fitting unit of `steps` (descending, the last being 1), with all
/// its digits.
pub(super) fn exact(value: u64, steps: &[(u64, &str)]) -> String {
    let (step, unit) = steps
        .iter()
        .find(|(step, _)| value >= *step)
        .or(steps.last())
        .expect("the caller names at least the unit step");
    let mut text = (value / step).to_string();
    let rest = value % step;
    if rest != 0 {
        let digits = step.ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        text.push('.');
        text.push_str(fraction.trim_end_matches('0'));
    }
    text + unit
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}
