//! Errors of client and server.

use std::io;
use std::path::PathBuf;

use slipring_native_proto::trust::TrustError;

use crate::directory::RunningProgram;
use crate::message::ControlRefusal;

/// Why there is no control socket, or no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No run was found.
    #[error("nothing that could be asked runs in {}", dir.display())]
    NothingRuns {
        /// The directory that was searched.
        dir: PathBuf,
    },
    /// There are several runs, and no target was given.
    #[error("several run: {}", listed(running))]
    Several {
        /// The runs in the directory.
        running: Vec<RunningProgram>,
    },
    /// No run has this name or process id.
    #[error("nothing called `{target}` runs")]
    Unknown {
        /// The requested name.
        target: String,
        /// The runs in the directory.
        running: Vec<RunningProgram>,
    },
    /// The name cannot be a file name, or would be taken for a process id.
    #[error("`{name}` is no name for a run")]
    BadName {
        /// The name.
        name: String,
    },
    /// Another run has this name.
    #[error("a run is called `{name}` already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The run directory, or the process that listens on a socket in it, is not trusted.
    #[error("{0}")]
    Untrusted(TrustError),
    /// The system refused.
    #[error("{what} {}: {source}", path.display())]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The program refused.
    #[error("{}", .0.summary)]
    Refused(ControlRefusal),
    /// The connection broke, or the peer sent no valid answer.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// No answer came in time; the request may still be in progress.
    #[error("no answer: nothing came in {seconds} seconds")]
    TimedOut {
        /// The time waited, in seconds.
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

/// Formats `4121 (lab), 4130`.
fn listed(running: &[RunningProgram]) -> String {
    running.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
