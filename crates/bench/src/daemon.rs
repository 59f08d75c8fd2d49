//! A daemon that the benchmark starts, with a private run directory, and a C program that only
//! makes netmap's system calls.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::child;
use super::measure::{BenchError, BenchTally};
use super::scratch::ScratchDir;

const C_SOURCE: &str = include_str!("../programs/netmap.c");

/// A daemon, and a directory with its run directory and the compiled C program. On drop, the daemon
/// ends and the directory is removed.
pub(super) struct BenchDaemon {
    files: ScratchDir,
    daemon: Child,
}

impl BenchDaemon {
    /// Starts a daemon with this setting of `uring`.
    pub(super) fn new(uring: &str) -> Result<Self, BenchError> {
        let files = ScratchDir::new()?;
        compile(files.path())?;
        let mut command = Command::new(child::slipring()?);
        command.args(["daemon", "--link", "none", "--run-dir"]).arg(files.path().join("run"));
        command.args(["--uring", uring]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut device = Self { files, daemon: command.spawn()? };
        let stdout = device.daemon.stdout.take();
        match first_line(stdout) {
            Some(_) => Ok(device),
            None => Err(BenchError::Skipped(device.startup_error())),
        }
    }

    /// Returns the message in which the daemon says why it has not started.
    fn startup_error(&mut self) -> String {
        let mut line = String::new();
        if let Some(mut stderr) = self.daemon.stderr.take() {
            // Output that cannot be read is ignored.
            let _ = std::io::Read::read_to_string(&mut stderr, &mut line);
        }
        line.lines().next().unwrap_or("slipringd ended at once").to_owned()
    }

    pub(super) fn process_id(&self) -> u32 {
        self.daemon.id()
    }

    pub(super) fn run_dir(&self) -> PathBuf {
        self.files.path().join("run")
    }

    fn path(&self) -> PathBuf {
        self.run_dir().join("netmap")
    }

    /// Starts the program. When this returns, the program has bound its port, or has failed.
    pub(super) fn start(&self, words: &[&str]) -> Result<BenchClient, BenchError> {
        let mut command = Command::new(self.files.path().join("netmap"));
        command.arg(self.path()).args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line)?;
        Ok(BenchClient { child, output })
    }
}

impl Drop for BenchDaemon {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.daemon), Signal::TERM);
        let _ = self.daemon.wait();
    }
}

fn compile(dir: &Path) -> Result<(), BenchError> {
    let (source, program) = (dir.join("netmap.c"), dir.join("netmap"));
    std::fs::write(&source, C_SOURCE)?;
    let compiler = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(&source).output();
    let done = compiler.map_err(|error| BenchError::Skipped(format!("no C compiler: {error}")))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(BenchError::Failed(String::from_utf8_lossy(&done.stderr).trim().to_owned())),
    }
}

fn first_line(stdout: Option<impl std::io::Read>) -> Option<String> {
    let mut line = String::new();
    let read = BufReader::new(stdout?).read_line(&mut line).ok()?;
    (read > 0).then_some(line)
}

/// A running program.
pub(super) struct BenchClient {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl BenchClient {
    /// Parses the program's output, `packets wall cpu`, or returns an error.
    pub(super) fn tally(mut self) -> Result<BenchTally, BenchError> {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut text)?;
        let output = self.child.wait_with_output()?;
        let numbers: Vec<u64> =
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [packets, wall, cpu] => Ok(BenchTally { packets, wall, cpu }),
            _ => Err(BenchError::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        }
    }
}
