//! TheaterQ traces: each part of a link uses different columns of the same file.
//!
//! | part | columns |
//! |---|---|
//! | rate | `rate` |
//! | delay | `latency`, `route_id`; `jitter` must be 0: a trace holds one delay at a time |
//! | loss | `loss` |
//! | queue | `limit`, which must be constant |
//! | duplicate | `dup_prob`, `dup_delay`, which must be constant |
//!
//! `queue_id` has no meaning here: a link has one queue.

use std::time::Duration;

use slipring_cli::units::human;
use slipring_link::{DelayStep, DuplicateSpec, LossModel, LossWindow, RateStep};
use slipring_model::Chance;
use slipring_model::format::{self, TheaterqRow};

use super::error::EmulationConfigError;
use super::files::ConfigFiles;
use super::section::{self, ConfigSection};
use super::tree::ConfigNode;

/// The rate that is used for rows without a rate limit, in bits per second: 100 Tbit/s.
const UNBOUNDED_BPS: u64 = 100_000_000_000_000;

/// A trace, and the setting that names its file.
pub(super) struct TheaterqTrace<'n> {
    path: String,
    name: String,
    node: &'n ConfigNode,
    /// The rows whose duration is not zero, each with its start time in ns.
    rows: Vec<(u64, TheaterqRow)>,
    pub(super) period_ns: u64,
}

impl<'n> TheaterqTrace<'n> {
    /// Reads the file that `key` names.
    pub(super) fn read(
        section: &mut ConfigSection<'n>,
        key: &'static str,
        files: &ConfigFiles,
    ) -> Result<Self, EmulationConfigError> {
        let (path, node) = section.required(key, |path, node| Ok((path.to_owned(), node)))?;
        let name = section::text(&path, node)?;
        let all = files.parsed(&name, node, format::theaterq)?;
        let (mut rows, mut at_ns) = (Vec::new(), 0);
        for row in all.into_iter().filter(|row| row.keep_ns > 0) {
            rows.push((at_ns, row));
            at_ns += row.keep_ns;
        }
        Ok(Self { path, name, node, rows, period_ns: at_ns })
    }

    pub(super) fn rates(&self) -> Vec<RateStep> {
        let step = |&(at_ns, row): &(u64, TheaterqRow)| RateStep {
            at_ns,
            bps: row.bits_per_sec.unwrap_or(UNBOUNDED_BPS),
        };
        self.rows.iter().map(step).collect()
    }

    /// Returns the delays, in order of time.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if the trace has jitter.
    pub(super) fn delays(&self) -> Result<Vec<DelayStep>, EmulationConfigError> {
        if let Some((at_ns, row)) = self.rows.iter().find(|(_, row)| row.jitter_ns > 0) {
            let jitter = span(row.jitter_ns);
            let cause = format!(
                "it has a jitter of {jitter} at {}, and a trace holds one delay at a time",
                span(*at_ns)
            );
            let help = "set the column to 0, and say delay.smooth = true or draw the delay: \
                        normal(20ms, 3ms, half_life=50ms)";
            return Err(self.refused(cause, help));
        }
        let step = |&(at_ns, row): &(u64, TheaterqRow)| DelayStep {
            at_ns,
            delay_ns: row.latency_ns,
            route: row.route,
        };
        Ok(self.rows.iter().map(step).collect())
    }

    pub(super) fn losses(&self) -> LossModel {
        let lossy = self.rows.iter().filter(|(_, row)| row.loss > 0);
        let window = |&(from_ns, row): &(u64, TheaterqRow)| LossWindow {
            from_ns,
            until_ns: from_ns + row.keep_ns,
            chance: share(row.loss),
        };
        let windows: Vec<_> = lossy.map(window).collect();
        match windows[..] {
            [] => LossModel::Bernoulli(Chance::NEVER),
            _ => LossModel::ByTime { windows, period_ns: Some(self.period_ns) },
        }
    }

    /// Returns the queue limit in packets.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if the column is not constant.
    pub(super) fn limit(&self) -> Result<u64, EmulationConfigError> {
        self.constant("limit", "up.queue.packets = 100", |row| row.limit)
    }

    /// Returns the probability that a frame is duplicated, and how much later the copy follows.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if one of the columns is not constant.
    pub(super) fn duplicate(&self) -> Result<DuplicateSpec, EmulationConfigError> {
        let later = |row: &TheaterqRow| row.duplicate_delay_ns;
        let set = "up.duplicate.p = 0.01";
        Ok(DuplicateSpec {
            chance: share(self.constant("dup_prob", set, |row| row.duplicated)?),
            copies: 1,
            after_ns: self.constant("dup_delay", set, later)?,
        })
    }

    /// Returns the value of a column that must be constant. If it is not, the error suggests the
    /// setting `set` instead.
    fn constant<T: Copy + PartialEq>(
        &self,
        column: &str,
        set: &str,
        value: impl Fn(&TheaterqRow) -> T,
    ) -> Result<T, EmulationConfigError> {
        let (_, first) = self.rows.first().expect("the reader refuses a trace of no length");
        let first = value(first);
        match self.rows.iter().find(|(_, row)| value(row) != first) {
            None => Ok(first),
            Some((at_ns, _)) => {
                let at = span(*at_ns);
                let cause = format!("its {column} changes at {at}, and a link has one at a time");
                Err(self.refused(cause, format!("change it at times: [[at]] with {set}")))
            }
        }
    }

    fn refused(&self, cause: String, help: impl Into<String>) -> EmulationConfigError {
        EmulationConfigError::value(&self.path, &self.name, cause)
            .at(&self.node.location)
            .help(help)
    }
}

/// Converts a share of packets, given in units of 1 / (2^32 - 1).
fn share(of_all_ones: u32) -> Chance {
    let chance = Chance::from_ratio(u64::from(of_all_ones), u64::from(u32::MAX));
    chance.expect("no u32 is above the greatest")
}

fn span(ns: u64) -> String {
    human::span(Duration::from_nanos(ns))
}
