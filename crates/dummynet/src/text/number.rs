//! Parses numbers with units as dummynet does.

use alloc::format;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::cursor::ShaperWord;
use super::error::ShaperTextError;
use crate::spec::ObjectNumber;

/// Parses the number of an object, 1 to 65535.
pub(super) fn object(word: ShaperWord<'_>) -> Result<ObjectNumber, ShaperTextError> {
    let number = word.text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| word.wrong("a number from 1 to 65535"))
}

/// Parses the numbers of objects: `N`, `N-M`, or several of these, separated by commas.
pub(super) fn range(
    word: ShaperWord<'_>,
) -> Result<Vec<RangeInclusive<ObjectNumber>>, ShaperTextError> {
    let wrong = || word.wrong("a number or a range from 1 to 65535");
    let one = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = first.parse().ok()?..=last.parse().ok()?;
        (*range.start() > 0 && !range.is_empty()).then_some(range)
    };
    word.text.split(',').map(|text| one(text).ok_or_else(wrong)).collect()
}

/// Parses an integer in decimal, `0x` hexadecimal or `0` octal, as C does.
pub(super) fn whole(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    // Signs are refused here, because `from_str_radix` would accept them.
    let is_plain = digits.starts_with(|c: char| c.is_ascii_hexdigit());
    u64::from_str_radix(digits, radix).ok().filter(|_| is_plain)
}

/// Parses an integer that must be within a range.
pub(super) fn within(
    word: ShaperWord<'_>,
    range: RangeInclusive<u64>,
    name: &str,
) -> Result<u64, ShaperTextError> {
    whole(word.text)
        .filter(|number| range.contains(number))
        .ok_or_else(|| word.wrong(format!("{name} from {} to {}", range.start(), range.end())))
}

/// Parses a decimal number, without sign or exponent, at the start of `text`. Returns it and the
/// text after it; `None` if there is no number.
pub(super) fn decimal(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    digits.parse().ok().map(|value| (value, rest))
}

/// Parses a decimal number within `range`; `None` if it is out of range or other text follows it.
pub(super) fn share(text: &str, range: RangeInclusive<f64>) -> Option<f64> {
    let (value, rest) = decimal(text)?;
    (rest.is_empty() && range.contains(&value)).then_some(value)
}

/// Parses a prefix K, M, G or T. Returns its power (1 for K to 4 for T, 0 if there is no prefix)
/// and the text after it.
fn prefix(unit: &str) -> (i32, &str) {
    let power = match unit.bytes().next() {
        Some(b'k' | b'K') => 1,
        Some(b'm' | b'M') => 2,
        Some(b'g' | b'G') => 3,
        Some(b't' | b'T') => 4,
        _ => 0,
    };
    (power, &unit[usize::from(power > 0)..])
}

/// Parses a rate such as `10Mbit/s`, `30Byte/s` or `2.5G`. A number without a unit is in bit/s.
pub(super) fn rate(word: ShaperWord<'_>) -> Result<u64, ShaperTextError> {
    const EXPECTED: &str = "a rate such as 10Mbit/s, 2.5Gbit/s or 30Byte/s";
    if word.text.starts_with(|c: char| c.is_ascii_lowercase()) {
        let what = format!("`{}`: no device sets the pace of a pipe here", word.text);
        return Err(word.error(what, EXPECTED));
    }
    let wrong = || word.wrong(EXPECTED);
    let (value, unit) = decimal(word.text).ok_or_else(wrong)?;
    let (power, unit) = prefix(unit);
    let bits = match unit {
        "" | "bit/s" | "Bit/s" | "bits/s" | "bit" | "Bit" | "b" | "b/s" | "bps" => 1.0,
        "B" | "B/s" | "Byte/s" | "byte/s" | "Bytes/s" | "bytes/s" | "Byte" | "byte" | "by"
        | "Bytes" | "bytes" => 8.0,
        _ => return Err(wrong()),
    };
    let rate = value * libm::pow(1000.0, f64::from(power)) * bits;
    if rate >= 1e18 {
        return Err(word.error(format!("`{}` is beyond all links", word.text), EXPECTED));
    }
    // Rounding corrects the last bits of the product. For example, 0.3 Gbit/s must become an
    // integer.
    Ok(libm::round(rate) as u64)
}

/// Parses a time in `ns`, `us`, `ms` or `s`, which must be at most `most_ns`. A number without a
/// unit is in ms.
pub(super) fn time(word: ShaperWord<'_>, most_ns: u64) -> Result<u64, ShaperTextError> {
    let most_ms = most_ns / 1_000_000;
    let wrong = || word.wrong(format!("a time up to {most_ms}ms, such as 250ms, 50us or 1s"));
    let (value, unit) = decimal(word.text).ok_or_else(wrong)?;
    let scale = match unit {
        "" | "ms" => 1e6,
        "ns" => 1.0,
        "us" => 1e3,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let ns = libm::round(value * scale);
    if ns > most_ns as f64 { Err(wrong()) } else { Ok(ns as u64) }
}

/// Parses a number of bytes, which must be below 2^48. `k`, `M`, `G` and `T` stand for powers of
/// 1024.
pub(super) fn bytes(word: ShaperWord<'_>) -> Result<u64, ShaperTextError> {
    let wrong = || word.wrong("bytes below 2^48, with k, M or G");
    let (value, unit) = decimal(word.text).ok_or_else(wrong)?;
    let (power, unit) = prefix(unit);
    let bytes = value * libm::pow(1024.0, f64::from(power));
    let is_unit = matches!(unit, "" | "b" | "B");
    if is_unit && bytes < (1u64 << 48) as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// The size of a queue. It is a number of slots, or a number of bytes if the text has a unit.
pub(super) enum ParsedSize {
    Slots(u64),
    Bytes(u64),
}

/// Parses the size of a queue, such as `50` (slots), `50KBytes` or `5000B`. `50K` means 50 KBytes.
pub(super) fn size(word: ShaperWord<'_>) -> Result<ParsedSize, ShaperTextError> {
    let wrong = || word.wrong("slots, or bytes such as 50KBytes or 5000B");
    let end = word.text.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.text.len());
    let (digits, unit) = word.text.split_at(end);
    let value: u64 = digits.parse().ok().filter(|&value| value < 1 << 40).ok_or_else(wrong)?;
    let (power, rest) = prefix(unit);
    match rest {
        "" if unit.is_empty() => Ok(ParsedSize::Slots(value)),
        "" | "B" | "by" | "byte" | "bytes" | "Byte" | "Bytes" if power < 3 => {
            Ok(ParsedSize::Bytes(value << (10 * power)))
        }
        _ => Err(wrong()),
    }
}
