//! Files in columns, separated by comma, semicolon or white space. An optional header names the
//! columns and their units.
//!
//! ```text
//! # measured on a train            comment
//! time_s,rate_mbit                 header: the unit follows the last underscore, or is in
//! 0,12.5                           brackets: time[s]
//! 0.5,2Mbit                        the value's own unit has priority
//! ```

use alloc::format;
use alloc::vec::Vec;

use super::number::ColumnQuantity;
use super::{FormatError, FormatWord, column_of, without_comment};

/// The rows of a text, with a fixed number of columns.
pub(super) struct Columns<'t, const N: usize> {
    kinds: [ColumnQuantity; N],
    units: [Option<u64>; N],
    lines: Vec<Vec<FormatWord<'t>>>,
}

const ALLOWED: &str = "one row per line, with the columns the format has";

impl<'t, const N: usize> Columns<'t, N> {
    /// Splits the text and parses its header, if there is one.
    pub(super) fn read(text: &'t str, kinds: [ColumnQuantity; N]) -> Result<Self, FormatError> {
        let lines = text.lines().zip(1..).map(|(line, number)| fields(line, number));
        let mut lines: Vec<_> = lines.filter(|fields| !fields.is_empty()).collect();
        let has_header = lines.first().is_some_and(|fields| is_header(fields));
        let header = if has_header { lines.remove(0) } else { Vec::new() };
        let mut units = [None; N];
        for (slot, (kind, name)) in units.iter_mut().zip(kinds.iter().zip(&header)) {
            *slot = unit_of(*kind, name.text);
        }
        if lines.is_empty() {
            return Err(FormatError::new(1, 1, "the file has no row", ALLOWED));
        }
        Ok(Self { kinds, units, lines })
    }

    /// Returns the rows, each with `N` words. A row with more or fewer words is an error.
    pub(super) fn rows(&self) -> impl Iterator<Item = Result<[FormatWord<'t>; N], FormatError>> {
        self.lines.iter().map(|fields| {
            fields.as_slice().try_into().map_err(|_| {
                let what = format!("{} columns instead of {N}", fields.len());
                fields.last().map_or_else(
                    || FormatError::new(1, 1, "an empty row", ALLOWED),
                    |last| last.error(what, ALLOWED),
                )
            })
        })
    }

    /// Returns the value of a word in column number `column`, in ns or bit/s.
    pub(super) fn value(&self, column: usize, word: &FormatWord<'_>) -> Result<u64, FormatError> {
        word.quantity(self.kinds[column], self.units[column])
    }
}

/// Splits at `,` or `;`, or at white space if there is neither.
fn fields(line: &str, number: usize) -> Vec<FormatWord<'_>> {
    let content = without_comment(line);
    if content.trim().is_empty() {
        return Vec::new();
    }
    if !content.contains([',', ';']) {
        return super::words_of(line, number).collect();
    }
    let mut start = 0;
    content
        .split([',', ';'])
        .map(|field| {
            let text = field.trim();
            let lead = field.len() - field.trim_start().len();
            let word = FormatWord { text, line: number, column: column_of(line, start + lead) };
            start += field.len() + 1;
            word
        })
        .collect()
}

/// Returns whether a line is a header, which names columns: every field starts with a letter and is
/// no number.
fn is_header(fields: &[FormatWord<'_>]) -> bool {
    let names = |word: &FormatWord<'_>| word.text.starts_with(|c: char| c.is_ascii_alphabetic());
    // `nan` and `inf` start with a letter, but are invalid values and not names.
    let number = |word: &FormatWord<'_>| word.text.parse::<f64>().is_ok();
    fields.iter().all(|word| names(word) && !number(word))
}

/// Returns the size of the unit in a column's name, which is after the last underscore or in
/// brackets; `None` if there is no unit or an unknown one.
fn unit_of(kind: ColumnQuantity, name: &str) -> Option<u64> {
    let bracketed = name.split_once(['[', '(']).map(|(_, unit)| unit.trim_end_matches([']', ')']));
    let unit = bracketed.or(name.rsplit_once('_').map(|(_, unit)| unit))?;
    kind.unit(unit)
}
