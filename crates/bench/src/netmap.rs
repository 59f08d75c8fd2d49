//! The cost of `/dev/netmap` for programs that were compiled for netmap: a C program that only
//! makes system calls, and a daemon of our own in a private run directory.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::measure::{BenchError, BenchReading, BenchTally, process_cpu};
use super::native::CONTENDER_NAME;
use super::pipe::{ReadMode::Swap, two_threads};
use super::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};
use super::scratch::ScratchDir;
use super::{child, handover};

const C_SOURCE: &str = include_str!("../programs/netmap.c");
/// Bytes of a frame.
const FRAME_BYTES: &str = "64";

/// How calls reach the daemon.
#[derive(Debug, Clone, Copy)]
struct FuseTransport {
    /// Suffix of row names.
    suffix: &'static str,
    name: &'static str,
    /// The daemon's setting `uring`.
    uring: &'static str,
    /// Packets per second that a pipe should carry.
    goal: f64,
}

const FUSE_TRANSPORTS: [FuseTransport; 2] = [
    FuseTransport { suffix: "", name: "by the FUSE device", uring: "off", goal: 40e6 },
    FuseTransport { suffix: "-uring", name: "by io_uring", uring: "on", goal: 60e6 },
];

/// Two rows for each transport.
pub(crate) fn rows() -> impl Iterator<Item = BenchRow> {
    FUSE_TRANSPORTS.into_iter().flat_map(|way| [sync_row(way), pipe_row(way)])
}

fn sync_row(way: FuseTransport) -> BenchRow {
    let title = format!("/dev/netmap {}, NIOCTXSYNC of an idle ring", way.name);
    BenchRow::new(format!("netmap-txsync{}", way.suffix), title, RowUnit::Nanos)
        .with(ContenderRole::Ours, "slipring", move || round(way, idle_sync))
        .with(ContenderRole::Floor, handover::FLOOR_NAME, handover::round_trip)
        .goal(GoalMetric::Value, 4_000.0)
}

fn pipe_row(way: FuseTransport) -> BenchRow {
    let title = format!("/dev/netmap {}, pipe between processes, 64 B, 1024 slots", way.name);
    BenchRow::new(format!("netmap-pipe-64{}", way.suffix), title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", move || round(way, pipe_between))
        .with(ContenderRole::Floor, CONTENDER_NAME, || two_threads::<64>(Swap, 256))
        .goal(GoalMetric::Value, way.goal)
}

fn round(
    way: FuseTransport,
    measure: fn(&BenchDaemon, Duration) -> Result<BenchReading, BenchError>,
) -> Result<BenchRound, BenchError> {
    let device = BenchDaemon::new(way.uring)?;
    Ok(Box::new(move |time| measure(&device, time)))
}

fn idle_sync(device: &BenchDaemon, time: Duration) -> Result<BenchReading, BenchError> {
    let tally = device.start(&["sync", &seconds(time)])?.tally()?;
    Ok(BenchReading::of(tally.wall as f64 / tally.packets.max(1) as f64))
}

/// The receiver's rate; CPU time is that of both programs and the daemon.
fn pipe_between(device: &BenchDaemon, time: Duration) -> Result<BenchReading, BenchError> {
    let served = process_cpu(device.daemon.id());
    let receiver = device.start(&["rx", "bench}1", &seconds(time), FRAME_BYTES])?;
    // The sender runs a little longer than the receiver.
    let longer = seconds(time + Duration::from_millis(100));
    let sender = device.start(&["tx", "bench{1", &longer, FRAME_BYTES])?;
    let (received, sent) = (receiver.tally()?, sender.tally()?);
    let served = process_cpu(device.daemon.id()).zip(served).map_or(0, |(now, then)| now - then);
    Ok(BenchTally { cpu: received.cpu + sent.cpu + served, ..received }.into())
}

fn seconds(time: Duration) -> String {
    time.as_secs_f64().to_string()
}

/// A daemon, and the program that uses it. Both end when this value is dropped.
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

    /// Returns why the daemon has not started.
    fn startup_error(&mut self) -> String {
        let mut said = String::new();
        if let Some(mut stderr) = self.daemon.stderr.take() {
            // Output that cannot be read is ignored.
            let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
        }
        said.lines().next().unwrap_or("slipringd ended at once").to_owned()
    }

    pub(super) fn run_dir(&self) -> PathBuf {
        self.files.path().join("run")
    }

    fn path(&self) -> PathBuf {
        self.run_dir().join("netmap")
    }

    /// Starts the program; it has bound its port when this returns.
    fn start(&self, words: &[&str]) -> Result<BenchClient, BenchError> {
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
struct BenchClient {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl BenchClient {
    /// Parses `packets wall cpu`, or returns an error.
    fn tally(mut self) -> Result<BenchTally, BenchError> {
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
