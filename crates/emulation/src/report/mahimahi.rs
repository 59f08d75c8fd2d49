//! Logs in the format of mahimahi's links, which its plotting scripts read.
//!
//! ```text
//!   # base timestamp: 0
//!   12 + 1504          1504 bytes arrived at 12 ms
//!   15 # 1504          1504 bytes could have left at 15 ms
//!   15 - 1504 3        1504 bytes left, 3 ms after their arrival
//!   16 d 1 1504        1 packet of 1504 bytes was dropped
//! ```
//!
//! There is one file for each port where frames arrive, named after the first link that begins
//! there. It covers the whole path of the frames, even if this has several links. Times are whole
//! milliseconds, rounded down, since the start of the run, or since the first frame in virtual
//! time. Opportunities to send are logged if the first link has a constant rate at the start (once
//! per millisecond), or a trace of opportunities (as traced). Later changes of the rate are not
//! logged.

use std::io::Write;

use slipring_cli::Failure;
use slipring_link::{LinkSpec, RateSpec, TraceEnd, held_opportunity_ns};

use crate::output_file::OutputFile;

const NANOS_PER_MS: u64 = 1_000_000;

/// A log file.
#[derive(Debug)]
pub(crate) struct MahimahiLog {
    file: OutputFile,
    capacity: LinkCapacity,
}

impl MahimahiLog {
    /// Creates the log of the path that begins with `link`.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be created.
    pub(crate) fn create(path: &str, link: &LinkSpec, command: &str) -> Result<Self, Failure> {
        let mut file = OutputFile::create(path)?;
        let one_line = command.replace('\n', " ");
        let head = format!(
            "# slipring emulate ({})\n# command line: {one_line}\n# base timestamp: 0\n",
            link.name
        );
        file.buffer.extend_from_slice(head.as_bytes());
        Ok(Self { file, capacity: LinkCapacity::of(link) })
    }

    /// Logs the arrival of a frame of `len` bytes.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be written.
    pub(crate) fn arrived(&mut self, at_ns: u64, len: u32) -> Result<(), Failure> {
        self.line(at_ns, format_args!("+ {len}"))
    }

    /// Logs the departure of a frame of `len` bytes, `delay_ns` after its arrival.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be written.
    pub(crate) fn sent(&mut self, at_ns: u64, len: u32, delay_ns: u64) -> Result<(), Failure> {
        self.line(at_ns, format_args!("- {len} {}", delay_ns / NANOS_PER_MS))
    }

    /// Logs the loss of a frame of `len` bytes.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be written.
    pub(crate) fn lost(&mut self, at_ns: u64, len: u32) -> Result<(), Failure> {
        self.line(at_ns, format_args!("d 1 {len}"))
    }

    /// Logs the remaining opportunities up to `end_ns`, and writes out the file.
    ///
    /// # Errors
    /// [`Failure`] if the log cannot be written.
    pub(crate) fn finish(mut self, end_ns: u64) -> Result<(), Failure> {
        self.opportunities(end_ns)?;
        self.file.flush()
    }

    fn line(&mut self, at_ns: u64, event: std::fmt::Arguments<'_>) -> Result<(), Failure> {
        self.opportunities(at_ns)?;
        writeln!(self.file.buffer, "{} {event}", at_ns / NANOS_PER_MS)?;
        self.file.flush_if_full()
    }

    /// Logs the opportunities up to `until_ns`.
    fn opportunities(&mut self, until_ns: u64) -> Result<(), Failure> {
        while let Some((at_ns, bytes)) = self.capacity.next_until(until_ns) {
            if bytes > 0 {
                writeln!(self.file.buffer, "{} # {bytes}", at_ns / NANOS_PER_MS)?;
                self.file.flush_if_full()?;
            }
        }
        Ok(())
    }
}

/// The times and sizes of sending opportunities.
#[derive(Debug)]
enum LinkCapacity {
    Unknown,
    /// A constant rate in bits per second, logged at the end of each millisecond.
    Constant {
        bps: u64,
        reported_ms: u64,
    },
    Trace {
        at_ns: Vec<u64>,
        mtu: u32,
        end: TraceEnd,
        /// The index of the next opportunity; with [`TraceEnd::Hold`], it continues after the
        /// trace.
        next: usize,
        base_ns: u64,
    },
}

impl LinkCapacity {
    fn of(link: &LinkSpec) -> Self {
        match &link.rate {
            &RateSpec::Constant { bps } => Self::Constant { bps, reported_ms: 0 },
            RateSpec::Opportunities { at_ns, mtu, end } => {
                Self::Trace { at_ns: at_ns.clone(), mtu: *mtu, end: *end, next: 0, base_ns: 0 }
            }
            _ => Self::Unknown,
        }
    }

    /// Takes the next opportunity and returns its time in ns and its bytes; `None` if there is none
    /// up to `until_ns`.
    fn next_until(&mut self, until_ns: u64) -> Option<(u64, u64)> {
        match self {
            Self::Unknown => None,
            Self::Constant { bps, reported_ms: told_ms } => {
                let end_ms = *told_ms + 1;
                if end_ms * NANOS_PER_MS > until_ns {
                    return None;
                }
                let bytes = |ms: u64| u128::from(ms) * u128::from(*bps) / 8000;
                let new = bytes(end_ms) - bytes(*told_ms);
                *told_ms = end_ms;
                Some((end_ms * NANOS_PER_MS, new as u64))
            }
            Self::Trace { at_ns, mtu, end, next, base_ns } => {
                let last_ns = *at_ns.last()?;
                if *next == at_ns.len() && *end == TraceEnd::Loop {
                    *base_ns += last_ns;
                    *next = 0;
                }
                let offset_ns = match at_ns.get(*next) {
                    Some(offset_ns) => *offset_ns,
                    None if *end == TraceEnd::Hold => held_opportunity_ns(at_ns, *next),
                    None => return None,
                };
                let due_ns = *base_ns + offset_ns;
                if due_ns > until_ns {
                    return None;
                }
                *next += 1;
                Some((due_ns, u64::from(*mtu)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(rate: RateSpec, until_ns: u64) -> Vec<(u64, u64)> {
        let mut capacity = LinkCapacity::of(&LinkSpec { rate, ..LinkSpec::wire("x") });
        std::iter::from_fn(|| capacity.next_until(until_ns)).collect()
    }

    #[test]
    fn a_constant_rate_is_told_by_the_millisecond_and_loses_no_byte() {
        let events = events(RateSpec::Constant { bps: 12_345 }, 1_000_000_000);
        assert_eq!(events.len(), 1000);
        assert_eq!(events.iter().map(|&(_, bytes)| bytes).sum::<u64>(), 12_345 / 8);
    }

    #[test]
    fn a_trace_goes_round_at_its_last_time() {
        let at_ns = [0, 1, 2].map(|ms| ms * NANOS_PER_MS).to_vec();
        let rate = RateSpec::Opportunities { at_ns, mtu: 1504, end: TraceEnd::Loop };
        let events: Vec<_> =
            events(rate, 4 * NANOS_PER_MS).iter().map(|&(at, _)| at / 1_000_000).collect();
        assert_eq!(events, [0, 1, 2, 2, 3, 4, 4]);
    }

    #[test]
    fn a_held_trace_goes_on_at_the_distance_of_its_last_two_times() {
        let held = |at_ms: &[u64]| {
            let at_ns = at_ms.iter().map(|ms| ms * NANOS_PER_MS).collect();
            let rate = RateSpec::Opportunities { at_ns, mtu: 1504, end: TraceEnd::Hold };
            let events = events(rate, 12 * NANOS_PER_MS);
            events.iter().map(|&(at_ns, _)| at_ns / NANOS_PER_MS).collect::<Vec<_>>()
        };
        assert_eq!(held(&[0, 1, 4, 4]), [0, 1, 4, 4, 7, 10]);
        assert_eq!(held(&[5]), [5, 10]);
    }
}
