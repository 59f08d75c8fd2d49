//! Packet delivery traces in the format of mahimahi's link shell.

use alloc::format;
use alloc::vec::Vec;

use super::number::ParsedDecimal;
use super::{FormatError, FormatWord, words_of};

/// The unit of numbers that have no unit in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Milliseconds, as in mahimahi's own traces.
    Millis,
    /// Times in microseconds.
    Micros,
    /// Times in nanoseconds.
    Nanos,
}

impl TimeUnit {
    const fn nanos(self) -> u64 {
        match self {
            Self::Millis => 1_000_000,
            Self::Micros => 1_000,
            Self::Nanos => 1,
        }
    }
}

const ALLOWED: &str = "one time per line, never before the line above";

/// Parses a trace and returns times in ns. Each line is a time, from the start, at which one packet
/// may leave; a repeated line lets another packet leave at this time. Unlike in mahimahi, times may
/// have decimals or a unit (`ms`, `us`, `ns`), and a `#` starts a comment.
///
/// # Errors
/// Returns an error if there is no time, a line is empty or is neither a time nor a comment, times
/// decrease, or the last time is 0 (the last time is the period with which the trace repeats).
pub fn opportunities(text: &str, unit: TimeUnit) -> Result<Vec<u64>, FormatError> {
    let mut times = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let mut words = words_of(line, number);
        let word = match (words.next(), words.next()) {
            (Some(word), None) => word,
            (Some(_), Some(more)) => {
                return Err(more.error(format!("`{}` is one word too many", more.text), ALLOWED));
            }
            (None, _) if line.trim_start().starts_with('#') => continue,
            (None, _) => return Err(FormatError::new(number, 1, "an empty line", ALLOWED)),
        };
        let time = time_of(word, unit)?;
        if times.last().is_some_and(|last| time < *last) {
            return Err(word.error(format!("`{}` goes back in time", word.text), ALLOWED));
        }
        times.push(time);
    }
    match times.last() {
        None => Err(FormatError::new(1, 1, "the trace is empty", ALLOWED)),
        Some(0) => {
            let what = "the trace ends at 0, so it has no length";
            Err(FormatError::new(text.lines().count(), 1, what, "a last time above 0"))
        }
        Some(_) => Ok(times),
    }
}

fn time_of(word: FormatWord<'_>, unit: TimeUnit) -> Result<u64, FormatError> {
    let bad = || word.error(format!("`{}` is no time", word.text), ALLOWED);
    let (number, rest) = ParsedDecimal::split(word.text).ok_or_else(bad)?;
    let per_unit = match rest {
        "" => unit.nanos(),
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        _ => return Err(bad()),
    };
    number
        .times(per_unit)
        .ok_or_else(|| word.error(format!("`{}` is too large", word.text), ALLOWED))
}
