//! The errors of the control socket's client and server.

use std::io;
use std::path::PathBuf;

use slipring_native_proto::trust::TrustError;

use crate::directory::RunningProgram;
use crate::message::ControlRefusal;

/// Why a control socket could not be opened, or a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No run was found.
    #[error("{} runs in {}", meant(program.as_deref()), dir.display())]
    NothingRuns {
        /// The directory that was searched.
        dir: PathBuf,
        /// The program that was looked for, as its answers to `hello` name it; `None` for any.
        program: Option<String>,
    },
    /// There are several runs, and the caller did not select one of them.
    #[error("several run: {}", listed(running))]
    Several {
        /// The runs in the directory.
        running: Vec<RunningProgram>,
    },
    /// No run has the requested name or process id.
    #[error("nothing called `{target}` runs")]
    Unknown {
        /// The requested name or process id.
        target: String,
        /// The runs in the directory.
        running: Vec<RunningProgram>,
    },
    /// The name is not one that a run can have (see [`check_name`](crate::check_name)).
    #[error("`{name}` is no name for a run")]
    BadName {
        /// The invalid name.
        name: String,
    },
    /// Another run has this name.
    #[error("a run is called `{name}` already")]
    NameTaken {
        /// The name that was requested for this run.
        name: String,
    },
    /// The run directory, or the process that listens on a socket in it, is not trusted.
    #[error("{0}")]
    Untrusted(TrustError),
    /// A system call failed.
    #[error("{what} {}: {source}", path.display())]
    System {
        /// The operation that failed, as a verb.
        what: &'static str,
        /// The path on which the operation failed.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The program refused the request.
    #[error("{}", .0.summary)]
    Refused(ControlRefusal),
    /// The connection broke, or the peer sent no valid answer.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// No answer came in time. The program may still be handling the request.
    #[error("no answer: nothing came in {seconds} seconds")]
    TimedOut {
        /// How long the client waited, in seconds.
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

/// Returns the subject of a message such as "no router runs". `None` stands for any program.
fn meant(program: Option<&str>) -> String {
    match program {
        Some("route") => "no router".to_owned(),
        Some(program) => format!("no {program}"),
        None => "nothing that could be asked".to_owned(),
    }
}

/// Lists runs as `4121 (lab), 4130`: process ids, each with its names.
fn listed(running: &[RunningProgram]) -> String {
    running.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
