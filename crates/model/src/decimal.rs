//! Writes numbers with the fewest digits that read back to the same value.
//!
//! Configurations store fractions in a few bits: 0.1 becomes 214748364 of 2147483647. It is written
//! back as 0.1, not as the stored 0.09999999967.

use alloc::format;
use alloc::string::String;

/// Digits after the point with which all 64-bit floats from 0.1 to 1 have distinct decimals.
const MAX_DIGITS: usize = 17;

/// Returns the decimal with the fewest digits for which `reads_back` returns true. `least` is the
/// smallest value for which it returns true; a reader truncates, so other such values are larger.
/// If there is no such decimal with at most 17 digits after the point, the result is `least` with
/// all its digits.
///
/// ```
/// use slipring_model::decimal::shortest;
///
/// let cut = |p: f64| (p * 65536.0) as u32;
/// assert_eq!(shortest(131.0 / 65536.0, |p| cut(p) == 131), "0.002");
/// ```
#[must_use]
pub fn shortest(least: f64, reads_back: impl Fn(f64) -> bool) -> String {
    let mut scale = 1.0;
    for digits in 0..=MAX_DIGITS {
        let scaled = least * scale;
        for rounded in [libm::floor(scaled), libm::ceil(scaled)] {
            let text = format!("{:.digits$}", rounded / scale);
            if text.parse().is_ok_and(&reads_back) {
                return text;
            }
        }
        scale *= 10.0;
    }
    format!("{least}")
}

/// Returns `value` as text with a unit. Of the units in which the number is at least 1, chooses the
/// one with which the text is shortest, or the largest one if several texts are equally short. A
/// value of 0 gets the last unit. `units` gives the power of ten of each unit, the largest unit
/// first; the last one is the unit of `value` itself.
///
/// ```
/// use slipring_model::decimal::in_units;
///
/// const UNITS: &[(&str, u32)] = &[("s", 9), ("ms", 6), ("us", 3), ("ns", 0)];
/// assert_eq!(in_units(20_000_000, UNITS), "20ms");
/// assert_eq!(in_units(1_500_000_000, UNITS), "1.5s");
/// assert_eq!(in_units(1_234_567_891, UNITS), "1.234567891s");
/// ```
#[must_use]
pub fn in_units(value: u64, units: &[(&str, u32)]) -> String {
    let fits = |&&(_, power): &&(&str, u32)| value >= 10_u64.pow(power);
    let texts = units.iter().filter(fits).map(|&(unit, power)| with_point(value, power) + unit);
    let none = || format!("0{}", units.last().map_or("", |unit| unit.0));
    texts.min_by_key(String::len).unwrap_or_else(none)
}

/// Returns `value` divided by 10 to the power `power`, exactly.
fn with_point(value: u64, power: u32) -> String {
    let (whole, rest) = (value / 10_u64.pow(power), value % 10_u64.pow(power));
    if rest == 0 {
        return format!("{whole}");
    }
    let width = power as usize;
    format!("{whole}.{rest:0width$}").trim_end_matches('0').into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_is_written_in_the_unit_that_takes_the_fewest_characters() {
        const UNITS: &[(&str, u32)] = &[("Gbit/s", 9), ("Mbit/s", 6), ("Kbit/s", 3), ("bit/s", 0)];
        for (value, text) in [
            (0, "0bit/s"),
            (9600, "9.6Kbit/s"),
            (10_000_000, "10Mbit/s"),
            (2_500_000_000, "2.5Gbit/s"),
            (1 << 31, "2147483648bit/s"),
            (1_000_001, "1000001bit/s"),
            (400_000_000_000, "400Gbit/s"),
        ] {
            assert_eq!(in_units(value, UNITS), text);
        }
    }

    proptest! {
        /// 31 bits distinguish numbers of nine digits, 16 bits numbers of four digits.
        #[test]
        fn a_fraction_that_was_cut_to_its_bits_is_written_as_it_was_typed(
            digits in 1u32..1_000_000_000, few in 1u32..10_000,
        ) {
            for (typed, width, scale) in [(digits, 9, f64::from(0x7fff_ffff)), (few, 4, 65536.0)] {
                let typed = format!("0.{typed:0width$}");
                let typed = typed.trim_end_matches('0');
                let cut = |p: f64| (p * scale) as u32;
                let kept = cut(typed.parse().unwrap());
                let written = shortest(f64::from(kept) / scale, |p| cut(p) == kept);
                prop_assert_eq!(written, typed);
            }
        }
    }
}
