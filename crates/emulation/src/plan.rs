//! What a run is to do: the common end of flags and files, and where both clocks begin.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use serde_json::json;
use slipring_abi::name::PortName;
use slipring_cli::{Exit, Failure, Format, Session};
use slipring_link::NetworkSpec;

use super::bounds::Bounds;
use super::config::{Change, Config, Outputs, explain};
use super::flags::Burst;
use super::report::Changes;
use super::route::Route;
use slipring_program::opening::Opening;

/// A planned run.
#[derive(Debug)]
pub struct Plan {
    /// The links. Entry and exit `i` belong to port `i` of the run.
    pub network: NetworkSpec,
    /// The settings that `network` was built from, which live changes start from
    /// (`Config::with`).
    pub config: Config,
    /// The seed of every random stream; chosen here where none was given, and always told.
    pub seed: u64,
    /// Virtual or real time.
    pub clock: Clock,
    /// Changes at given times from the start, in order; every one was built once.
    pub schedule: Vec<Change>,
    /// What is written down beside the report.
    pub outputs: Outputs,
    /// What live changes may not go beyond.
    pub bounds: Bounds,
    /// What to tell the user first, each in one line.
    pub warnings: Vec<String>,
    /// Whether to say all figures at the end, not only the main ones.
    pub stats: bool,
    /// What was typed, to read its file again.
    pub typed: ArgMatches,
    /// What to tell instead of running.
    pub instead: Option<Instead>,
    /// The name under which `slipring emulate ctl` and `slipring top` find the run.
    pub name: Option<String>,
}

/// What is told instead of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instead {
    /// All settings, as a file.
    Settings,
    /// The effective figures, after all rounding.
    Figures,
}

impl Plan {
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
            Instead::Settings => self.config.to_toml(),
            Instead::Figures => figures().text(),
        };
        if session.reporter.format() == Format::Text {
            session.reporter.raw(text.as_bytes())?;
        } else {
            let fields = match instead {
                Instead::Settings => json!({ "settings": self.config.to_json() }),
                Instead::Figures => figures().fields(),
            };
            session.reporter.document(&fields, text)?;
        }
        Ok(Some(Exit::Done))
    }
}

impl Plan {
    /// The changes that have begun by then, in ns since the start.
    pub fn changes(&self, until_ns: u64) -> Changes {
        let begun = self.schedule.iter().take_while(|change| change.at_ns <= until_ns);
        begun.fold(Changes::default(), |changes, change| Changes {
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
pub enum Clock {
    /// The clock of captures: as fast as possible, exact.
    Virtual(Captures),
    /// The machine's clock, between ports.
    RealTime(Box<RealTime>),
}

/// What passes in virtual time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captures {
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
pub struct RealTime {
    /// The ports, in the order of the network's entries.
    pub ports: Vec<PortName>,
    /// How they are opened.
    pub opening: Opening,
    /// Two threads with a port each, instead of one for all.
    pub pipeline: bool,
    /// Processors to pin the threads to, in turn; empty: none.
    pub cpus: Vec<u32>,
    /// What is taken from a port at most at a time.
    pub burst: Burst,
    /// How long to wait for the links of the ports to come up.
    pub link_wait: Duration,
    /// Time between reports; none: only at the end.
    pub period: Option<Duration>,
    /// When to end; none: at a signal.
    pub duration: Option<Duration>,
    /// Whether it is a router between the ports, and how.
    pub route: Option<Route>,
}
