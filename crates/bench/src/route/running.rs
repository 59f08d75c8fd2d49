//! `slipring route` as a separate process.

use std::io::{BufRead, BufReader};
use std::process::{ChildStderr, Command, Stdio};

use slipring_port::Nanos;

use crate::child::{self, BenchChild};
use crate::lab::{BenchLab, INPUT_IFNAME, OUTPUT_IFNAME};
use crate::measure::{BenchError, process_cpu};
use crate::scratch::ScratchDir;

/// Time limit of the program in seconds, longer than any row takes with the default `--runs` and
/// `--seconds`.
const MAX_RUN_SECS: &str = "600";

/// `slipring route` between the two inner interfaces; ends when dropped.
pub(super) struct RunningRouter {
    pub(super) child: BenchChild,
    /// The program's standard error, kept open for later messages.
    _stderr: BufReader<ChildStderr>,
    _run_dir: ScratchDir,
}

impl RunningRouter {
    /// Starts the router on the program's CPU; returns once its tables are in use.
    pub(super) fn start(lab: &BenchLab) -> Result<Self, BenchError> {
        Self::start_by(lab, child::command, &[])
    }

    /// Like [`Self::start`], but the router uses packet sockets.
    pub(super) fn start_packet(lab: &BenchLab) -> Result<Self, BenchError> {
        Self::start_by(lab, child::command, &["--io", "packet"])
    }

    /// Like [`Self::start`], but with the router's threads on all CPUs.
    pub(super) fn start_on_any_cpu(lab: &BenchLab) -> Result<Self, BenchError> {
        Self::start_by(lab, child::command_on_any_cpu, &[])
    }

    fn start_by(
        lab: &BenchLab,
        command: fn(&[&str]) -> Result<Command, BenchError>,
        more: &[&str],
    ) -> Result<Self, BenchError> {
        let files = ScratchDir::new()?;
        let dir = files.path().join("run").display().to_string();
        let words = [
            "route",
            "--run-dir",
            &dir,
            INPUT_IFNAME,
            OUTPUT_IFNAME,
            "-T",
            "0",
            "-t",
            MAX_RUN_SECS,
        ];
        let mut child = lab.within(|| {
            let mut command = command(&words)?;
            command.args(more);
            Ok(BenchChild(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?))
        })?;
        let stderr = child.0.stderr.take();
        let stderr = stderr.ok_or_else(|| BenchError::Failed("no output".into()))?;
        let mut stderr = BufReader::new(stderr);
        read_until_ready(&mut stderr)?;
        Ok(Self { child, _stderr: stderr, _run_dir: files })
    }

    /// CPU time of the program and of its helper process so far.
    pub(super) fn cpu(&self) -> Nanos {
        let pid = self.child.0.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let helpers = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
        std::iter::once(pid).chain(helpers).filter_map(process_cpu).sum()
    }
}

/// Reads up to the line `forwarding`. If the output ends before this line, returns an error with
/// the output so far.
fn read_until_ready(said: &mut impl BufRead) -> Result<(), BenchError> {
    let mut text = String::new();
    loop {
        let before = text.len();
        if said.read_line(&mut text)? == 0 {
            return Err(BenchError::Failed(text.trim().to_owned()));
        }
        if text[before..].trim() == "forwarding" {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_is_ready_when_it_says_so_and_an_early_end_keeps_its_words() {
        let mut said = &b"a: xdp\nforwarding\nmore\n"[..];
        assert_eq!(read_until_ready(&mut said), Ok(()));
        assert_eq!(said, b"more\n", "later messages stay");
        let error = BenchError::Failed("error: no\nforwarding not".into());
        assert_eq!(read_until_ready(&mut &b"error: no\nforwarding not\n"[..]), Err(error));
    }
}
