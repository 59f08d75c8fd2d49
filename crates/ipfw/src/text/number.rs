//! Parses numbers, ranges and flag lists.

use alloc::format;
use alloc::vec::Vec;

use super::cursor::WordCursor;
use super::error::RuleTextError;
use super::names::{self, NameTable};
use super::words::SourceWord;
use crate::rule::{Arg, BitTest, Ranges};

/// Parses decimal, `0x` hexadecimal or `0`-prefixed octal, as strtoul(3) does; `None` if the text
/// is not such a number.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if plain { u64::from_str_radix(digits, radix).ok() } else { None }
}

/// Parses a DSCP, given by number or name; `None` if it is neither.
pub(crate) fn dscp_value(text: &str) -> Option<u8> {
    let number = || parse(text).filter(|&number| number < 64).map(|number| number as u8);
    names::value(names::DSCP, text).or_else(number)
}

/// Parses a protocol, given by number or name; `None` if it is neither.
pub(crate) fn proto_value(text: &str) -> Option<u8> {
    let number = || parse(text).and_then(|number| number.try_into().ok());
    names::value(names::PROTOCOLS, text).or_else(number)
}

/// Parses a port, given by number or service name; `None` if it is neither.
pub(crate) fn service_value(text: &str) -> Option<u16> {
    let number = || parse(text).and_then(|number| number.try_into().ok());
    names::value(names::SERVICES, text).or_else(number)
}

/// Parses a decimal number only: rule numbers may have leading zeros, which do not mean octal.
pub(super) fn decimal(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// Parses a number in `low..=high` from `word`.
pub(super) fn within(
    word: &SourceWord,
    low: u64,
    high: u64,
    what: &str,
) -> Result<u64, RuleTextError> {
    let found = parse(&word.text).filter(|number| (low..=high).contains(number));
    found.ok_or_else(|| out_of(word, low, high, what))
}

pub(super) fn out_of(word: &SourceWord, low: u64, high: u64, what: &str) -> RuleTextError {
    RuleTextError::at(word, format!("`{}` is no {what}", word.text), &format!("{low} to {high}"))
}

/// Parses `tablearg`, or a number in `1..=high`.
pub(super) fn arg(
    cursor: &mut WordCursor<'_>,
    high: u64,
    what: &str,
) -> Result<Arg, RuleTextError> {
    let word = cursor.next(&format!("a {what} or `tablearg`"))?;
    if word.text == "tablearg" {
        return Ok(Arg::Tablearg);
    }
    let found = decimal(&word.text).filter(|&number| number >= 1 && u64::from(number) <= high);
    found.map(Arg::Number).ok_or_else(|| out_of(word, 1, high, what))
}

/// Parses comma-separated numbers and `low-high` ranges up to `high`; names from `names` are
/// allowed.
pub(super) fn ranges(
    word: &SourceWord,
    high: u16,
    names: &NameTable<u16>,
    what: &str,
) -> Result<Ranges, RuleTextError> {
    let items = word.text.split(',');
    let parsed: Option<Vec<_>> = items.map(|item| range(item, high, names)).collect();
    let wrong = || {
        let bad = word.text.split(',').find(|item| range(item, high, names).is_none());
        let offset = word.text.find(bad.unwrap_or("")).unwrap_or(0);
        let column = word.column + word.text[..offset].chars().count() as u32;
        let at = SourceWord { column, ..word.clone() };
        let message = format!("`{}` is no {what}", bad.unwrap_or(""));
        RuleTextError::at(&at, message, &format!("a list of numbers and ranges up to {high}"))
    };
    parsed.map(Ranges).ok_or_else(wrong)
}

fn range(item: &str, high: u16, names: &NameTable<u16>) -> Option<(u16, u16)> {
    if let Some(one) = endpoint(item, high, names) {
        return Some((one, one));
    }
    // In a range, a dash within a name is escaped by a backslash; the first unescaped dash
    // separates the ends.
    let dash = (1..item.len()).find(|&at| {
        item.as_bytes()[at] == b'-' && item.as_bytes()[at - 1] != b'\\' && item.is_char_boundary(at)
    })?;
    let low = endpoint(&item[..dash], high, names)?;
    let last = endpoint(&item[dash + 1..], high, names)?;
    (low <= last).then_some((low, last))
}

fn endpoint(text: &str, high: u16, names: &NameTable<u16>) -> Option<u16> {
    let number = parse(text).and_then(|number| u16::try_from(number).ok());
    let named = || {
        let matches =
            |(name, _): &&(&str, u16)| text.bytes().filter(|&byte| byte != b'\\').eq(name.bytes());
        names.iter().find(matches).map(|&(_, value)| value)
    };
    number.or_else(named).filter(|&value| value <= high)
}

/// Parses comma-separated flags, with `!` before those that must be absent.
pub(super) fn flags(
    word: &SourceWord,
    table: &NameTable<u8>,
    what: &str,
) -> Result<BitTest, RuleTextError> {
    try_flags(&word.text, table).ok_or_else(|| {
        let known: Vec<_> = table.iter().map(|(name, _)| *name).collect();
        let message = format!("`{}` is no list of {what}", word.text);
        RuleTextError::at(
            word,
            message,
            &format!("some of {}, with `!` to negate", known.join(", ")),
        )
    })
}

pub(super) fn try_flags(text: &str, table: &NameTable<u8>) -> Option<BitTest> {
    let mut bits = BitTest::default();
    for item in text.split(',') {
        match item.strip_prefix('!') {
            Some(name) => bits.clear |= names::value(table, name)?,
            None => bits.set |= names::value(table, item)?,
        }
    }
    Some(bits)
}

/// Parses comma-separated numbers up to `high`.
pub(super) fn list(word: &SourceWord, high: u64, what: &str) -> Result<Vec<u64>, RuleTextError> {
    let one = |item: &str| parse(item).filter(|number| *number <= high);
    let all: Option<Vec<u64>> = word.text.split(',').map(one).collect();
    all.ok_or_else(|| {
        let message = format!("`{}` is no list of {what}", word.text);
        RuleTextError::at(word, message, &format!("numbers 0 to {high}, separated by commas"))
    })
}
