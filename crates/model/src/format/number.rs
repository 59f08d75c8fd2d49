//! Decimal numbers and units in the files that describe links.

use super::{FormatError, FormatWord};
use alloc::format;

/// A number as written: `mantissa * 10^exponent`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParsedDecimal {
    mantissa: u128,
    exponent: i32,
}

impl ParsedDecimal {
    /// A mantissa that has reached this value takes no further digit. It then has 25 digits, more
    /// than any value here needs, so dropping further decimals changes nothing. Multiplied by the
    /// largest unit, 8 Tbit/s, it still fits in 128 bits.
    const MAX_MANTISSA: u128 = 10_u128.pow(24);

    /// Splits a number off the front of a text; `None` if the text starts neither with a digit nor
    /// with a point and a digit. So a sign or `nan` is not accepted.
    pub(super) fn split(text: &str) -> Option<(Self, &str)> {
        let mut number = Self { mantissa: 0, exponent: 0 };
        let whole = number.take_digits(text, false);
        let rest = whole.unwrap_or(text);
        let fraction = rest.strip_prefix('.').map(|text| (text, number.take_digits(text, true)));
        let rest = match (whole, fraction) {
            (_, Some((_, Some(rest)))) => rest,
            (Some(_), Some((rest, None))) => rest,
            (Some(rest), None) => rest,
            (None, _) => return None,
        };
        let rest = number.take_exponent(rest);
        Some((number, rest))
    }

    fn take_digits<'t>(&mut self, text: &'t str, fraction: bool) -> Option<&'t str> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, rest) = text.split_at(end);
        for digit in digits.bytes() {
            let fits = self.mantissa < Self::MAX_MANTISSA;
            if fits {
                self.mantissa = self.mantissa * 10 + u128::from(digit - b'0');
            }
            let step = i32::from(!fits) - i32::from(fraction);
            self.exponent = self.exponent.saturating_add(step);
        }
        (!digits.is_empty()).then_some(rest)
    }

    /// Parses an exponent such as `e-3`, `E+6` or `e9` into `self` and returns the text after it.
    /// An `e` without digits is no exponent and stays in the text.
    fn take_exponent<'t>(&mut self, text: &'t str) -> &'t str {
        let Some(rest) = text.strip_prefix(['e', 'E']) else { return text };
        let (negative, digits) = match rest.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, rest.strip_prefix('+').unwrap_or(rest)),
        };
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        if end == 0 {
            return text;
        }
        let size = digits[..end].parse().unwrap_or(i32::MAX / 2);
        let change = if negative { -size } else { size };
        self.exponent = self.exponent.saturating_add(change);
        &digits[end..]
    }

    /// The number times `per_unit`, rounded to the nearest integer; `None` if the result does not
    /// fit in 64 bits.
    pub(super) fn times(self, per_unit: u64) -> Option<u64> {
        let product = self.mantissa.checked_mul(u128::from(per_unit));
        if self.mantissa == 0 {
            return Some(0);
        }
        let power = 10_u128.checked_pow(self.exponent.unsigned_abs());
        let scaled = match (self.exponent >= 0, power) {
            (true, Some(power)) => product?.checked_mul(power)?,
            (true, None) => return None,
            // Adding half of the divisor makes the division round to the nearest integer. A value
            // halfway between two integers is rounded up.
            (false, Some(power)) => product?.checked_add(power / 2)? / power,
            (false, None) => 0,
        };
        u64::try_from(scaled).ok()
    }
}

/// The kind of quantity that a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnQuantity {
    /// A time in nanoseconds.
    Time,
    /// Bits per second.
    Rate,
    /// A plain number from 0 to 1.
    Probability,
}

impl ColumnQuantity {
    pub(super) const fn allowed(self) -> &'static str {
        match self {
            Self::Time => "a time with its unit (ns, us, ms, s, min), or a header such as delay_ms",
            Self::Rate => "a rate with its unit (10Mbit, 1.5Gbit/s), or a header such as rate_mbit",
            Self::Probability => "a number from 0 to 1",
        }
    }

    /// The size of the unit `name`, in ns or bit/s; `None` if this quantity has no such unit.
    pub(super) fn unit(self, name: &str) -> Option<u64> {
        match self {
            Self::Time => Some(match name {
                "ns" => 1,
                "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
                "ms" => 1_000_000,
                "s" | "sec" => 1_000_000_000,
                "min" => 60_000_000_000,
                _ => return None,
            }),
            Self::Rate => rate_unit(name),
            Self::Probability => None,
        }
    }
}

fn rate_unit(name: &str) -> Option<u64> {
    let (prefix, bits) = [("bit/s", 1), ("bit", 1), ("bps", 1), ("b/s", 1), ("B/s", 8)]
        .into_iter()
        .find_map(|(tail, bits)| Some((name.strip_suffix(tail)?, bits)))?;
    let scale = match prefix {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        "t" | "T" => 1_000_000_000_000,
        _ => return None,
    };
    Some(scale * bits)
}

impl FormatWord<'_> {
    /// Returns the value in ns or bit/s. `unit` is the unit from the column's header, which
    /// applies if the value itself has no unit.
    pub(super) fn quantity(
        &self,
        what: ColumnQuantity,
        unit: Option<u64>,
    ) -> Result<u64, FormatError> {
        let (number, rest) = self.number(what.allowed())?;
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        let per_unit = match (rest, unit) {
            ("", Some(unit)) => unit,
            ("", None) => {
                return Err(self.error(format!("`{}` has no unit", self.text), what.allowed()));
            }
            (name, _) => what.unit(name).ok_or_else(|| {
                self.error(format!("unknown unit `{name}` in `{}`", self.text), what.allowed())
            })?,
        };
        number
            .times(per_unit)
            .ok_or_else(|| self.error(format!("`{}` is too large", self.text), what.allowed()))
    }

    /// Returns the word as a number from 0 to 1, or an error.
    pub(super) fn probability(&self) -> Result<f64, FormatError> {
        let allowed = ColumnQuantity::Probability.allowed();
        let (_, rest) = self.number(allowed)?;
        let value = self.text.parse::<f64>().ok().filter(|p| rest.is_empty() && *p <= 1.0);
        value.ok_or_else(|| self.error(format!("`{}` is no probability", self.text), allowed))
    }

    fn number(&self, allowed: &'static str) -> Result<(ParsedDecimal, &str), FormatError> {
        ParsedDecimal::split(self.text)
            .ok_or_else(|| self.error(format!("`{}` is no number", self.text), allowed))
    }
}
