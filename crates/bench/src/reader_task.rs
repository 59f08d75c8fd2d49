//! The task of a second process of this program, which reads at one end of a pipe.

use std::path::PathBuf;
use std::time::Duration;

use super::measure::{BenchError, BenchTally};
use super::process::PassedPipeEnd;
use super::{native, process};

/// The task of the second process, which gets it as the value of its flag `--part`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReaderTask {
    /// Attach to the pipe end that is passed to the process, and read.
    Passed(PassedPipeEnd),
    /// Open an end at the native socket of a daemon, and read frames of 64 bytes.
    Native(PathBuf, Duration),
}

impl ReaderTask {
    /// Parses what [`PassedPipeEnd::to_argument`] or `native.rs` has written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            Some((nanos, socket)) => {
                Some(Self::Native(socket.into(), Duration::from_nanos(nanos.parse().ok()?)))
            }
            None => PassedPipeEnd::parse(text).map(Self::Passed),
        }
    }

    /// Runs the task.
    pub(crate) fn run(self) -> Result<BenchTally, BenchError> {
        match self {
            Self::Passed(part) => process::read(part),
            Self::Native(socket, time) => native::read(&socket, time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipe_ends::ReadMode;

    #[test]
    fn the_other_process_understands_what_it_is_told() {
        let part = PassedPipeEnd {
            offset: 4096,
            len: 64,
            batch: 32,
            read_mode: ReadMode::Copy,
            time: Duration::from_millis(5),
        };
        assert_eq!(ReaderTask::parse(&part.to_argument()), Some(ReaderTask::Passed(part)));
        let native = ReaderTask::Native("/run/x.sock".into(), Duration::from_millis(5));
        assert_eq!(ReaderTask::parse("5000000:/run/x.sock"), Some(native));
        assert_eq!(ReaderTask::parse("1,2,3"), None);
        assert_eq!(ReaderTask::parse("1,2,3,4,x"), None);
    }
}
