//! Trace files of the TheaterQ queueing discipline.
//!
//! Each row applies for the time in its first field, in µs. A row has five fields,
//! `keep,latency,rate,loss,limit`, or ten fields,
//! `keep,latency,jitter,rate,loss,limit,dup_prob,dup_delay,route_id,queue_id`. Lines that do not
//! start with a digit are headers and comments. Loss is in units of 1/2^32 (2^32 - 1: every
//! packet), the rate in bit/s, with -1 for no limit.

use alloc::format;
use alloc::vec::Vec;

use super::FormatError;

/// Link parameters that apply for `keep_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TheaterqRow {
    /// How long the row applies, in ns.
    pub keep_ns: u64,
    /// Delay in ns.
    pub latency_ns: u64,
    /// Standard deviation of the delay, in ns.
    pub jitter_ns: u64,
    /// The rate in bit/s; `None` if unlimited.
    pub bits_per_sec: Option<u64>,
    /// Share of lost packets, in units of 1/2^32; 2^32 - 1 means every packet.
    pub loss: u32,
    /// Maximum number of packets in the queue.
    pub limit: u64,
    /// Share of packets duplicated, in the unit of `loss`.
    pub duplicated: u32,
    /// The delay between a packet and its duplicate, in ns.
    pub duplicate_delay_ns: u64,
    /// Number of the path that the packets take; packets on the same path keep their order.
    pub route: u32,
}

const ALLOWED: &str = "5 or 10 whole numbers separated by commas; only the rate may be -1";

/// Reads a trace.
///
/// # Errors
/// Returns an error if a row has neither five nor ten fields, a field is not a number in its range,
/// or the total time is zero or exceeds 64 bits.
pub fn theaterq(text: &str) -> Result<Vec<TheaterqRow>, FormatError> {
    let mut rows = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if line.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            rows.push(row(line, number)?);
        }
    }
    let length = rows.iter().try_fold(0_u64, |sum, row| sum.checked_add(row.keep_ns));
    match length {
        None => Err(FormatError::new(1, 1, "the trace is too long", ALLOWED)),
        Some(0) => Err(FormatError::new(1, 1, "the trace has no length", ALLOWED)),
        Some(_) => Ok(rows),
    }
}

fn row(line: &str, number: usize) -> Result<TheaterqRow, FormatError> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    // For each of the ten possible fields: its index among the fields of this row, or `None` if
    // this row does not have it.
    let indices = match fields.len() {
        5 => [Some(0), Some(1), None, Some(2), Some(3), Some(4), None, None, None, None],
        10 => [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(Some),
        n => return Err(FormatError::new(number, 1, format!("{n} fields"), ALLOWED)),
    };
    let mut values = [TheaterqField { text: "0", value: 0, line, number }; 10];
    for (value, index) in values.iter_mut().zip(indices) {
        if let Some(index) = index {
            *value = TheaterqField::parse(fields[index], line, number)?;
        }
    }
    let [keep, latency, jitter, rate, loss, limit, duplicated, later, route, _queue] = values;
    Ok(TheaterqRow {
        keep_ns: keep.size()?.checked_mul(1000).ok_or_else(|| keep.wrong())?,
        latency_ns: latency.size()?,
        jitter_ns: jitter.size()?,
        bits_per_sec: if rate.value == -1 { None } else { Some(rate.size()?) },
        loss: loss.share()?,
        limit: limit.size()?,
        duplicated: duplicated.share()?,
        duplicate_delay_ns: later.size()?,
        route: route.share()?,
    })
}

/// A field of a row, and where it is.
#[derive(Clone, Copy)]
struct TheaterqField<'t> {
    text: &'t str,
    value: i64,
    line: &'t str,
    number: usize,
}

impl<'t> TheaterqField<'t> {
    /// Parses `text`, which is a slice of `line`. `number` is the number of this line.
    fn parse(text: &'t str, line: &'t str, number: usize) -> Result<Self, FormatError> {
        let field = Self { text, value: 0, line, number };
        let value = text.parse().map_err(|_| field.wrong())?;
        Ok(Self { value, ..field })
    }

    fn size(&self) -> Result<u64, FormatError> {
        u64::try_from(self.value).map_err(|_| self.wrong())
    }

    fn share(&self) -> Result<u32, FormatError> {
        u32::try_from(self.value).map_err(|_| self.wrong())
    }

    fn wrong(&self) -> FormatError {
        // The text is a slice of the line, so the difference of the addresses is its offset.
        let before = self.text.as_ptr() as usize - self.line.as_ptr() as usize;
        let column = super::column_of(self.line, before);
        FormatError::new(self.number, column, format!("`{}` does not fit", self.text), ALLOWED)
    }
}
