//! What can go wrong on either side.

use std::io;
use std::path::PathBuf;

use slipring_native_proto::trust::TrustError;

use crate::directory::RunningProgram;
use crate::message::ControlRefusal;

/// Why there is no control socket, or no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nothing runs that could be asked.
    #[error("nothing that could be asked runs in {}", dir.display())]
    NothingRuns {
        /// Where was looked.
        dir: PathBuf,
    },
    /// More than one runs, and none was named.
    #[error("several run: {}", listed(running))]
    Several {
        /// All of them.
        running: Vec<RunningProgram>,
    },
    /// None has this name or process number.
    #[error("nothing called `{target}` runs")]
    Unknown {
        /// What was asked for.
        target: String,
        /// Those that run.
        running: Vec<RunningProgram>,
    },
    /// A name that cannot be a file's, or would be taken for a process number.
    #[error("`{name}` is no name for a run")]
    BadName {
        /// The name.
        name: String,
    },
    /// A run of this name is there already.
    #[error("a run is called `{name}` already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The run directory, or who listens there, is not believed.
    #[error("{0}")]
    Untrusted(TrustError),
    /// The system refused.
    #[error("{what} {}: {source}", path.display())]
    System {
        /// What was to be done.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Its word for it.
        source: io::Error,
    },
    /// The program refused.
    #[error("{}", .0.summary)]
    Refused(ControlRefusal),
    /// The connection broke, or what came is no answer.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// Nothing came in time; what was asked for may be under way.
    #[error("no answer: nothing came in {seconds} seconds")]
    TimedOut {
        /// So long was waited.
        seconds: u64,
    },
}

impl ControlError {
    pub(crate) fn system(
        what: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::System { what, path: path.into(), source: source.into() }
    }
}

/// `4121 (lab), 4130`.
fn listed(running: &[RunningProgram]) -> String {
    running.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
