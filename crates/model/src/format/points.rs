//! Measured delays: points of a distribution function, or the samples themselves.

use alloc::format;
use alloc::vec::Vec;

use crate::CdfPoint;

use super::FormatError;
use super::columns::Columns;
use super::number::ColumnQuantity;

/// Parses rows of `delay,probability`. Neither may decrease from row to row, and the last
/// probability is 1. Two rows with equal delays are a step; two rows with equal probabilities are
/// a gap.
///
/// # Errors
/// Returns an error if a row is not a delay and a probability, either decreases, or the last
/// probability is not 1.
pub fn cdf(text: &str) -> Result<Vec<CdfPoint>, FormatError> {
    let columns = Columns::read(text, [ColumnQuantity::Time, ColumnQuantity::Probability])?;
    let mut points: Vec<CdfPoint> = Vec::new();
    let mut end = (1, 1);
    for row in columns.rows() {
        let [delay, probability] = row?;
        let point =
            CdfPoint { ns: columns.value(0, &delay)? as f64, p: probability.probability()? };
        for (word, falls) in [
            (delay, points.last().is_some_and(|last| point.ns < last.ns)),
            (probability, points.last().is_some_and(|last| point.p < last.p)),
        ] {
            if falls {
                let what = format!("`{}` is less than in the row above", word.text);
                return Err(word.error(what, "delays and probabilities that never fall"));
            }
        }
        points.push(point);
        end = (probability.line, probability.column);
    }
    if points.last().is_none_or(|last| last.p < 1.0) {
        let what = "the last probability is not 1";
        return Err(FormatError::new(end.0, end.1, what, "a last row with probability 1"));
    }
    Ok(points)
}

/// Reads one delay per line; the unit is in the header or after the value. Returns the delays in
/// ns, in the order of the file.
///
/// # Errors
/// Returns an error if a line is not a time, a unit is missing, or there are no lines.
pub fn samples(text: &str) -> Result<Vec<u64>, FormatError> {
    let columns = Columns::read(text, [ColumnQuantity::Time])?;
    let rows = columns.rows().map(|row| row.and_then(|[word]| columns.value(0, &word)));
    rows.collect()
}
