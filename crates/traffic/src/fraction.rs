//! Exact fractions in decimal, percent or ratio notation.

use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;

/// A fraction that is not negative. Numerator and denominator are whole numbers.
///
/// ```
/// use slipring_traffic::Fraction;
///
/// let loss: Fraction = "0.1%".parse()?;
/// assert_eq!(loss, "1/1000".parse()?);
/// assert!(loss.is_at_least(1, 1000) && !loss.is_at_least(2, 1000));
/// # Ok::<(), slipring_traffic::FractionError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fraction {
    num: u64,
    den: NonZeroU64,
}

/// Why a text is not a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FractionError {
    /// The text has none of the forms `0.1%`, `0.001`, `1e-3` and `1/1000`.
    #[error("not a number like 0.1%, 0.001 or 1/1000")]
    Form,
    /// The number has too many digits to be stored exactly.
    #[error("too many digits to be kept exactly")]
    Digits,
    /// The denominator is 0, as in `1/0`.
    #[error("nothing can be divided by zero")]
    Zero,
}

impl Fraction {
    /// The number 1, stored as 1/1.
    pub const ONE: Self = Self { num: 1, den: NonZeroU64::MIN };

    /// Returns `num / den`; `None` if `den` is zero.
    #[must_use]
    pub const fn new(num: u64, den: u64) -> Option<Self> {
        match NonZeroU64::new(den) {
            Some(den) => Some(Self { num, den }),
            None => None,
        }
    }

    /// The numerator, without reduction.
    #[must_use]
    pub const fn num(self) -> u64 {
        self.num
    }

    /// The denominator, which is never zero.
    #[must_use]
    pub const fn den(self) -> u64 {
        self.den.get()
    }

    /// Returns whether this fraction is at least `num / den`. If `den` is 0, returns true only if
    /// `num` is also 0.
    #[must_use]
    pub fn is_at_least(self, num: u64, den: u64) -> bool {
        u128::from(self.num) * u128::from(den) >= u128::from(num) * u128::from(self.den.get())
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        let cross = |a: &Self, b: &Self| u128::from(a.num) * u128::from(b.den.get());
        cross(self, other) == cross(other, self)
    }
}

impl Eq for Fraction {}

impl FromStr for Fraction {
    type Err = FractionError;

    /// Reads `0.1%`, `0.001`, `.5`, `3`, `1e9`, `1e-6` or `1/1000`.
    fn from_str(text: &str) -> Result<Self, FractionError> {
        if let Some((num, den)) = text.split_once('/') {
            return Self::new(digits(num)?, digits(den)?).ok_or(FractionError::Zero);
        }
        let (number, hundred) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), 100),
            None => (text, 1),
        };
        if let Some((mantissa, power)) = number.split_once(['e', 'E'])
            && !mantissa.contains('%')
        {
            return Self::scaled(mantissa.parse()?, power, hundred);
        }
        let (whole, decimals) = match number.split_once('.') {
            None => (number, "0"),
            // `.5` is a half. A `.` without digits is an error.
            Some(("", decimals)) if !decimals.is_empty() => ("0", decimals),
            Some(parts) => parts,
        };
        let (whole, decimals) = (digits(whole)?, decimals.trim_end_matches('0'));
        let tail = if decimals.is_empty() { 0 } else { digits(decimals)? };
        let scale = u32::try_from(decimals.len())
            .ok()
            .and_then(|digits_after| 10u64.checked_pow(digits_after))
            .ok_or(FractionError::Digits)?;
        let num = whole.checked_mul(scale).and_then(|whole| whole.checked_add(tail));
        let den = scale.checked_mul(hundred);
        let exact = num.zip(den).and_then(|(num, den)| Self::new(num, den));
        exact.ok_or(FractionError::Digits)
    }
}

impl Fraction {
    /// Returns `mantissa` times ten to the power `power`, divided by `whole`.
    fn scaled(mantissa: Self, power: &str, whole: u64) -> Result<Self, FractionError> {
        let (down, decimals) = match power.strip_prefix('-') {
            Some(decimals) => (true, decimals),
            None => (false, power.strip_prefix('+').unwrap_or(power)),
        };
        let decimals = u32::try_from(digits(decimals)?).ok();
        let scale = decimals.and_then(|decimals| 10u64.checked_pow(decimals));
        let (up, down) = match (scale.ok_or(FractionError::Digits)?, down) {
            (scale, true) => (1, scale),
            (scale, false) => (scale, 1),
        };
        let num = mantissa.num().checked_mul(up);
        let den = mantissa.den().checked_mul(down).and_then(|den| den.checked_mul(whole));
        let exact = num.zip(den).and_then(|(num, den)| Self::new(num, den));
        exact.ok_or(FractionError::Digits)
    }
}

fn digits(text: &str) -> Result<u64, FractionError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FractionError::Form);
    }
    text.parse().map_err(|_| FractionError::Digits)
}

/// Displays a percentage with as many decimals as needed, at most six, rounded down.
impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PLACES: usize = 6;
        let millionths = u128::from(self.num) * 100_000_000 / u128::from(self.den.get());
        let (whole, mut tail) = (millionths / 1_000_000, millionths % 1_000_000);
        let mut decimals = PLACES;
        while decimals > 0 && tail % 10 == 0 {
            tail /= 10;
            decimals -= 1;
        }
        match decimals {
            0 => write!(f, "{whole}%"),
            _ => write!(f, "{whole}.{tail:0decimals$}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Fraction, FractionError> {
        text.parse()
    }

    #[test]
    fn ways_to_write_a_thousandth_are_equal() {
        let thousandth = Fraction::new(1, 1000).unwrap();
        for text in
            ["0.1%", ".1%", "0.10 %", "0.001", "1/1000", "0.00100", "2/2000", "1e-3", "0.1e-2"]
        {
            assert_eq!(read(text), Ok(thousandth), "{text}");
        }
    }

    #[test]
    fn large_and_small_numbers_may_have_an_exponent() {
        assert_eq!(read("1e9"), Ok(Fraction::new(1_000_000_000, 1).unwrap()));
        assert_eq!(read("2.5E+2"), Ok(Fraction::new(250, 1).unwrap()));
        assert_eq!(read(".5e-3%"), Ok(Fraction::new(5, 1_000_000).unwrap()));
    }

    #[test]
    fn what_is_no_fraction_says_why() {
        for text in ["", "%", ".", "-1", "+1", "1e", "1e1e1", "5%e1%", "1.-5", "x", "1/", "1//2"] {
            assert_eq!(read(text), Err(FractionError::Form), "{text}");
        }
        assert_eq!(read("1/0"), Err(FractionError::Zero));
        assert_eq!(read("0.00000000000000000001"), Err(FractionError::Digits));
        assert_eq!(read("99999999999999999999"), Err(FractionError::Digits));
        assert_eq!(read("1e99999999999"), Err(FractionError::Digits));
    }

    #[test]
    fn percentage_shows_the_decimals_it_needs() {
        assert_eq!(Fraction::new(1, 1000).unwrap().to_string(), "0.1%");
        assert_eq!(Fraction::new(1, 3).unwrap().to_string(), "33.333333%");
        assert_eq!(Fraction::ONE.to_string(), "100%");
        assert_eq!(Fraction::new(1, 100_000).unwrap().to_string(), "0.001%");
    }

    proptest! {
        #[test]
        fn decimals_are_read_exactly(whole in 0u64..1000, tail in 0u32..100_000) {
            let fraction = read(&std::format!("{whole}.{tail:05}")).unwrap();
            let expected = Fraction::new(whole * 100_000 + u64::from(tail), 100_000).unwrap();
            prop_assert_eq!(fraction, expected);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9.%/e ]{0,30}|.{0,10}") {
            let _ = read(&text);
        }
    }
}
