//! What a run is to do: the common end of flags and files, and where both clocks begin.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use serde_json::json;
use slipring_abi::name::PortName;
use slipring_cli::{Exit, Failure, ReportFormat, Session};
use slipring_link::NetworkSpec;

use super::bounds::ChangeBounds;
use super::config::{EmulationConfig, RunOutputs, ScheduledChange, explain};
use super::flags::BurstLimit;
use super::report::SettingsChanges;
use super::route::RouteMode;
use slipring_datapath::opening::PortOpening;

/// A planned run.
#[derive(Debug)]
pub struct EmulationPlan {
    /// The links. Entry and exit `i` belong to port `i` of the run.
    pub network: NetworkSpec,
    /// The settings that `network` was built from, which live changes start from
    /// (`Config::with`).
    pub config: EmulationConfig,
    /// The seed of every random stream; chosen here where none was given, and always told.
    pub seed: u64,
    /// Virtual or real time.
    pub clock: RunClock,
    /// Changes at given times from the start, in order; every one was built once.
    pub schedule: Vec<ScheduledChange>,
    /// What is written down beside the report.
    pub outputs: RunOutputs,
    /// What live changes may not go beyond.
    pub bounds: ChangeBounds,
    /// What to tell the user first, each in one line.
    pub warnings: Vec<String>,
    /// Whether to say all figures at the end, not only the main ones.
    pub stats: bool,
    /// What was typed, to read its file again.
    pub typed: ArgMatches,
    /// What to tell instead of running.
    pub instead: Option<PrintInstead>,
    /// The name under which `slipring emulate ctl` and `slipring top` find the run.
    pub name: Option<String>,
}

/// What is told instead of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintInstead {
    /// All settings, as a file.
    Settings,
    /// The effective figures, after all rounding.
    Figures,
}

impl EmulationPlan {
    /// What every command with links does first: it tells what was asked for instead of a run,
    /// and then there is nothing left to do, or what the user should know before one.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn preface(&self, session: &mut Session<'_>) -> Result<Option<Exit>, Failure> {
        let Some(instead) = self.instead else {
            self.warnings.iter().try_for_each(|warning| session.reporter.warn(warning))?;
            return Ok(None);
        };
        let figures = || explain(&self.network, self.seed);
        let text = match instead {
            PrintInstead::Settings => self.config.to_toml(),
            PrintInstead::Figures => figures().text(),
        };
        if session.reporter.format() == ReportFormat::Text {
            session.reporter.raw(text.as_bytes())?;
        } else {
            let fields = match instead {
                PrintInstead::Settings => json!({ "settings": self.config.to_json() }),
                PrintInstead::Figures => figures().fields(),
            };
            session.reporter.document(&fields, text)?;
        }
        Ok(Some(Exit::Done))
    }
}

impl EmulationPlan {
    /// The changes that have begun by then, in ns since the start.
    pub fn changes(&self, until_ns: u64) -> SettingsChanges {
        let begun = self.schedule.iter().take_while(|change| change.at_ns <= until_ns);
        begun.fold(SettingsChanges::default(), |changes, change| SettingsChanges {
            times: changes.times + 1,
            since_ns: change.at_ns,
        })
    }

    /// The links as they are by then.
    ///
    /// # Errors
    /// None that building them at the start would not have had.
    pub fn network_at(&self, until_ns: u64) -> Result<NetworkSpec, Failure> {
        let begun = self.schedule.iter().take_while(|change| change.at_ns <= until_ns);
        match begun.last() {
            Some(change) => Ok(change.config.network()?),
            None => Ok(self.network.clone()),
        }
    }
}

/// By which clock frames move.
#[derive(Debug)]
pub enum RunClock {
    /// The clock of captures: as fast as possible, exact.
    Virtual(CapturePairs),
    /// The machine's clock, between ports.
    RealTime(Box<RealtimePlan>),
}

/// What passes in virtual time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturePairs {
    /// What is read and what is written, in the order of the network's ports.
    pub pairs: Vec<CapturePair>,
    /// What was captured so long after the first frame, and later, is left out; none: nothing.
    pub duration: Option<Duration>,
}

/// A capture and where what is left of it goes; the first pair enters at port 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturePair {
    /// Read.
    pub input: PathBuf,
    /// Written.
    pub output: PathBuf,
}

/// A run between ports.
#[derive(Debug)]
pub struct RealtimePlan {
    /// The ports, in the order of the network's entries.
    pub ports: Vec<PortName>,
    /// How they are opened.
    pub opening: PortOpening,
    /// Two threads with a port each, instead of one for all.
    pub pipeline: bool,
    /// Processors to pin the threads to, in turn; empty: none.
    pub cpus: Vec<u32>,
    /// What is taken from a port at most at a time.
    pub burst: BurstLimit,
    /// How long to wait for the links of the ports to come up.
    pub link_wait: Duration,
    /// Time between reports; none: only at the end.
    pub period: Option<Duration>,
    /// When to end; none: at a signal.
    pub duration: Option<Duration>,
    /// Whether it is a router between the ports, and how.
    pub route: Option<RouteMode>,
}
