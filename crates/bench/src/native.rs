//! The native socket API: a daemon's pipe between two processes. It is compared with a pipe of one
//! process.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use slipring_abi::name::PortName;
use slipring_port::native::{self, NativeEnd};
use slipring_ring::{RxRing, TxRing};

use super::daemon::BenchDaemon;
use super::measure::{BenchError, BenchTally, PROGRAM_CPU, pin};
use super::pipe_ends::{
    BenchPipeEnd, PipeReader, PipeWriter, ReadMode, SLOTS_PER_RING, TWO_THREADS_NAME,
    beside_writer, two_threads,
};
use super::process;
use super::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const MAX_BATCH: u32 = 256;

impl BenchPipeEnd for NativeEnd {
    fn tx(&mut self) -> &mut TxRing {
        &mut self.tx
    }

    fn rx(&mut self) -> &mut RxRing {
        &mut self.rx
    }

    #[inline(always)]
    fn tx_sync(&mut self) -> Result<(), BenchError> {
        Self::tx_sync(self).map_err(|error| BenchError::Failed(error.to_string()))
    }

    #[inline(always)]
    fn rx_sync(&mut self) -> Result<(), BenchError> {
        Self::rx_sync(self).map_err(|error| BenchError::Failed(error.to_string()))
    }
}

/// Returns the row of this benchmark. Its goal is relative to a pipe of this process, which is
/// measured in the same run.
pub(crate) fn row() -> BenchRow {
    let title = "native socket, pipe between two processes, 64 B, batch 256";
    BenchRow::new("native-pipe-64", title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", round)
        .with(ContenderRole::Peer, TWO_THREADS_NAME, || {
            two_threads::<64>(ReadMode::Swap, MAX_BATCH)
        })
        .goal(GoalMetric::RatioTo(TWO_THREADS_NAME), 0.9)
}

fn round() -> Result<BenchRound, BenchError> {
    let device = BenchDaemon::new("off")?;
    Ok(Box::new(move |time| {
        let socket = native::socket_path(&device.run_dir());
        let end = open(&socket, "bench{1")?;
        let part = format!("{}:{}", time.as_nanos(), socket.display());
        let child = Command::new("/proc/self/exe")
            .args(["bench", "--part", &part])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        beside_writer::<64>(&mut PipeWriter::new(end), MAX_BATCH, || process::result(child))
    }))
}

fn open(socket: &Path, name: &str) -> Result<NativeEnd, BenchError> {
    let name = PortName::parse(&format!("{name}@conf:slots={SLOTS_PER_RING}"));
    let name = name.map_err(|error| BenchError::Failed(error.to_string()))?;
    let ends =
        native::bind_ends(&name, socket).map_err(|cause| BenchError::Failed(cause.to_string()))?;
    ends.into_iter().next().ok_or_else(|| BenchError::Failed("a pipe without rings".into()))
}

/// Runs in the other process: reads from the pipe for `time`.
pub(super) fn read(socket: &Path, time: Duration) -> Result<BenchTally, BenchError> {
    let end = open(socket, "bench}1")?;
    pin(PROGRAM_CPU);
    PipeReader::new(end, ReadMode::Swap)?.run::<64>(MAX_BATCH, time)
}
