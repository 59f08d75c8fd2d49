//! Reads values over time from rows of `time,rate` or `time,delay`.

use alloc::format;
use alloc::vec::Vec;

use super::FormatError;
use super::columns::Columns;
use super::number::ColumnQuantity;

/// A value that applies from a given time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// The time in ns from the start of the file.
    pub from_ns: u64,
    /// The value in bit/s or ns, depending on the reader.
    pub value: u64,
}

/// Reads rows of `time,rate` and returns rates in bit/s. Units are in the header or after
/// the values.
///
/// # Errors
/// Returns an error if a row is not a time and a rate, a unit is missing, or times do not increase
/// from row to row.
pub fn rate_steps(text: &str) -> Result<Vec<TraceStep>, FormatError> {
    steps(text, ColumnQuantity::Rate)
}

/// Reads rows of `time,delay` and returns delays in ns.
///
/// # Errors
/// Returns an error if a row is not a time and a delay, a unit is missing, or times do not increase
/// from row to row.
pub fn delay_steps(text: &str) -> Result<Vec<TraceStep>, FormatError> {
    steps(text, ColumnQuantity::Time)
}

fn steps(text: &str, kind: ColumnQuantity) -> Result<Vec<TraceStep>, FormatError> {
    let columns = Columns::read(text, [ColumnQuantity::Time, kind])?;
    let mut steps: Vec<TraceStep> = Vec::new();
    for row in columns.rows() {
        let [time, value] = row?;
        let from_ns = columns.value(0, &time)?;
        if steps.last().is_some_and(|last| from_ns <= last.from_ns) {
            let what = format!("`{}` is not after the row above", time.text);
            return Err(time.error(what, "times that rise from row to row"));
        }
        steps.push(TraceStep { from_ns, value: columns.value(1, &value)? });
    }
    Ok(steps)
}
