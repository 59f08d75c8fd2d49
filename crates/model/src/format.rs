//! Text files that describe links: distributions, traces, profiles and loss patterns.
//!
//! Each reader parses a whole text into plain numbers; the engines decide how the numbers affect a
//! link. Nothing is guessed: a number whose unit is not known, a time earlier than that of the
//! previous row, or an empty file is an error with line and column.
//!
//! | file | reader | gives |
//! |---|---|---|
//! | netem `.dist` | [`netem_table`] | an inverse CDF, 8192 = one standard deviation |
//! | mahimahi trace | [`opportunities`] | when each packet may leave |
//! | `time,rate` | [`rate_steps`] | the rate from each time on |
//! | `time,delay` | [`delay_steps`] | the delay from each time on |
//! | `delay,probability` | [`cdf`] | points of a distribution function |
//! | one delay per line | [`samples`] | the delays in file order |
//! | dummynet profile | [`DummynetProfile`] | extra time on the link, and the share lost |
//! | `0` and `1` | [`loss_bits`] | which packets are lost |
//! | TheaterQ | [`theaterq`] | delay, rate and loss over time |
//!
//! Not for opening files, and not for captures (the `pcap` crate reads captures).

mod bits;
mod columns;
mod dist;
mod dummynet;
mod mahimahi;
mod number;
mod points;
mod steps;
#[cfg(test)]
mod tests;
mod theaterq;

use alloc::string::String;
use core::fmt;

pub use bits::loss_bits;
pub use dist::netem_table;
pub use dummynet::DummynetProfile;
pub use mahimahi::{TimeUnit, opportunities};
pub use points::{cdf, samples};
pub use steps::{TraceStep, delay_steps, rate_steps};
pub use theaterq::{TheaterqRow, theaterq};

/// Where a text could not be parsed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What is wrong, in words.
    pub what: String,
    /// The values that are allowed at this position, in words.
    pub allowed: &'static str,
}

impl FormatError {
    fn new(line: usize, column: usize, what: impl Into<String>, allowed: &'static str) -> Self {
        Self { line, column, what: what.into(), allowed }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {}, column {}", self.what, self.line, self.column)
    }
}

impl core::error::Error for FormatError {}

/// A word of a text, and its position.
#[derive(Clone, Copy, Debug)]
struct FormatWord<'t> {
    text: &'t str,
    line: usize,
    column: usize,
}

impl FormatWord<'_> {
    fn error(&self, what: impl Into<String>, allowed: &'static str) -> FormatError {
        FormatError::new(self.line, self.column, what, allowed)
    }
}

/// Returns the words of a text. A `#` starts a comment that extends to the end of the line.
fn words(text: &str) -> impl Iterator<Item = FormatWord<'_>> {
    text.lines().zip(1..).flat_map(|(line, number)| words_of(line, number))
}

/// Returns the words of one line, which are separated by white space.
fn words_of(line: &str, number: usize) -> impl Iterator<Item = FormatWord<'_>> {
    let content = without_comment(line);
    content.split_whitespace().map(move |text| {
        // `text` is a slice of `line`, so the difference of the two addresses is the offset of
        // `text`.
        let before = text.as_ptr() as usize - line.as_ptr() as usize;
        FormatWord { text, line: number, column: column_of(line, before) }
    })
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

/// The column, in characters counted from 1, at byte offset `before`, which is at a character
/// boundary.
fn column_of(line: &str, before: usize) -> usize {
    line.get(..before).map_or(1, |text| text.chars().count() + 1)
}
