//! The plan of a run, built from flags and files. Runs in virtual time and in real time start from
//! a plan.

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
    /// The settings that `network` was built from; changes during the run start from them.
    pub config: EmulationConfig,
    /// The seed of every random stream. It is chosen at random if the user gives none. It is
    /// always reported.
    pub seed: u64,
    /// Whether the run is in virtual or in real time.
    pub clock: RunClock,
    /// Changes at given times since the start, in order of time; each has already been validated.
    pub schedule: Vec<ScheduledChange>,
    /// Outputs in addition to the report.
    pub outputs: RunOutputs,
    /// Limits for the settings, at the start and in changes during the run (`-M`).
    pub bounds: ChangeBounds,
    /// Messages for the user before the run, one line each.
    pub warnings: Vec<String>,
    /// Whether to print all figures at the end instead of only the main ones.
    pub stats: bool,
    /// The parsed command line, needed to read its settings file again.
    pub typed: ArgMatches,
    /// What to print instead of running; `None` if the run is to start.
    pub instead: Option<PrintRequest>,
    /// The name by which `slipring emulate ctl` and `slipring top` find the run; `None` if the
    /// user gives none.
    pub name: Option<String>,
}

/// What to print instead of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintRequest {
    /// All settings, as a file.
    Settings,
    /// The effective values, after all rounding.
    Figures,
}

impl EmulationPlan {
    /// If a printout was requested instead of a run, prints it and returns the exit code. Otherwise
    /// prints the warnings and returns `None`. Every command with links calls this first.
    ///
    /// # Errors
    /// [`Failure`] if the output cannot be written.
    pub fn preface(&self, session: &mut Session<'_>) -> Result<Option<Exit>, Failure> {
        let Some(instead) = self.instead else {
            self.warnings.iter().try_for_each(|warning| session.reporter.warn(warning))?;
            return Ok(None);
        };
        let figures = || explain(&self.network, self.seed);
        let text = match instead {
            PrintRequest::Settings => self.config.to_toml(),
            PrintRequest::Figures => figures().text(),
        };
        if session.reporter.format() == ReportFormat::Text {
            session.reporter.raw(text.as_bytes())?;
        } else {
            let fields = match instead {
                PrintRequest::Settings => json!({ "settings": self.config.to_json() }),
                PrintRequest::Figures => figures().fields(),
            };
            session.reporter.document(&fields, text)?;
        }
        Ok(Some(Exit::Done))
    }
}

impl EmulationPlan {
    /// Returns how many changes have begun at `until_ns` (ns since the start), and when the last
    /// one began.
    pub fn changes(&self, until_ns: u64) -> SettingsChanges {
        let begun = self.schedule.iter().take_while(|change| change.at_ns <= until_ns);
        begun.fold(SettingsChanges::default(), |changes, change| SettingsChanges {
            times: changes.times + 1,
            since_ns: change.at_ns,
        })
    }
}

/// The clock of a run.
#[derive(Debug)]
pub enum RunClock {
    /// Virtual time: the timestamps of captures. Runs as fast as possible, and exactly.
    Virtual(CapturePairs),
    /// Real time: the machine's clock, between ports.
    RealTime(Box<RealtimePlan>),
}

/// Captures for virtual time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturePairs {
    /// Inputs and outputs, in the order of the network's ports.
    pub pairs: Vec<CapturePair>,
    /// Frames captured this long or longer after the first frame are omitted; `None` for no limit.
    pub duration: Option<Duration>,
}

/// An input capture, and the output capture for the frames that come from it. The frames of pair
/// `i` enter at port `i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturePair {
    /// The input file.
    pub input: PathBuf,
    /// The output file.
    pub output: PathBuf,
}

/// A run in real time, between ports.
#[derive(Debug)]
pub struct RealtimePlan {
    /// The ports, in the order of the network's entries.
    pub ports: Vec<PortName>,
    /// How the ports are opened.
    pub opening: PortOpening,
    /// Whether to use two threads, each with one port, instead of one thread for both ports.
    pub pipeline: bool,
    /// Processors to pin the threads to, one for each thread; further threads are not pinned.
    pub cpus: Vec<u32>,
    /// Maximum number of frames or bytes that are taken from a queue of a port at a time.
    pub burst: BurstLimit,
    /// How long to wait for the links of the ports to come up.
    pub link_wait: Duration,
    /// Time between reports; `None` if there is only a report at the end.
    pub period: Option<Duration>,
    /// Maximum length of the run; `None` for no limit.
    pub duration: Option<Duration>,
    /// Settings of route mode; `None` if the run is not a router.
    pub route: Option<RouteMode>,
}
