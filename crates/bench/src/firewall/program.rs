//! A firewall program that runs between the links of a test network.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStderr, Command, Stdio};

use crate::child::{self, BenchChild};
use crate::lab::{BenchLab, INPUT_IFNAME};
use crate::measure::BenchError;
use crate::scratch::ScratchDir;

/// A firewall program. It ends on drop.
pub(super) struct BenchFirewall {
    _running: BenchChild,
    /// The program's standard error. It is kept open, so that the program can write later messages.
    _stderr: BufReader<ChildStderr>,
    files: ScratchDir,
}

impl BenchFirewall {
    /// Starts a firewall between [`INPUT_IFNAME`] and `output`, on the CPU for measured programs.
    /// Returns when the firewall accepts commands.
    pub(super) fn start(lab: &BenchLab, output: &str, rules: &str) -> Result<Self, BenchError> {
        let files = ScratchDir::new()?;
        std::fs::write(files.path().join("rules"), rules)?;
        let file = |name: &str| files.path().join(name).display().to_string();
        let ports = [INPUT_IFNAME, output].map(|ifname| format!("xdp:{ifname}"));
        let (rules, dir) = (file("rules"), file("run"));
        let words = ["firewall", "-T", "0", "-t", child::MAX_RUN_SECS, "--default", "accept"];
        let words = [&words[..], &["-R", &rules, "--run-dir", &dir, &ports[0], &ports[1]]].concat();
        let mut running = lab.within(|| {
            let mut command = child::command(&words)?;
            Ok(BenchChild(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?))
        })?;
        let Some(stderr) = running.0.stderr.take() else {
            return Err(super::checks::failed("no output"));
        };
        let (mut stderr, mut line) = (BufReader::new(stderr), String::new());
        while !line.ends_with("Ready to go\n") {
            if stderr.read_line(&mut line)? == 0 {
                return Err(super::checks::failed(line));
            }
        }
        Ok(Self { _running: running, _stderr: stderr, files })
    }

    /// Runs the `ipfw` command with these arguments.
    pub(super) fn run_ipfw(&self, words: &[&str]) -> Result<(), BenchError> {
        self.run_ipfw_with_input(words, "")
    }

    /// Like [`Self::run_ipfw`], but `input` is passed on standard input.
    pub(super) fn run_ipfw_with_input(
        &self,
        words: &[&str],
        input: &str,
    ) -> Result<(), BenchError> {
        let dir = self.files.path().join("run").display().to_string();
        run_to_end(
            &child::slipring()?,
            &[&["ipfw", "-q", "--run-dir", &dir], words].concat(),
            input,
        )
    }
}

/// Runs a command in the network namespace of the calling thread. If the command does not succeed,
/// returns an error.
pub(super) fn run_to_end(
    program: impl AsRef<OsStr>,
    words: &[&str],
    input: &str,
) -> Result<(), BenchError> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = command.spawn()?;
    if let Some(mut stdin) = running.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let ended = running.wait_with_output()?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(BenchError::Failed(String::from_utf8_lossy(&ended.stderr).trim().to_owned())),
    }
}
