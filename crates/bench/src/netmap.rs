//! Measures the cost of `/dev/netmap` for programs that were compiled for netmap, with a C program
//! that only makes system calls and a daemon in a private run directory.

use std::time::Duration;

use super::daemon::BenchDaemon;
use super::handover;
use super::measure::{BenchError, BenchReading, BenchTally, process_cpu};
use super::pipe_ends::{ReadMode::Swap, TWO_THREADS_NAME, two_threads};
use super::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

/// Length of a frame in bytes.
const FRAME_BYTES: &str = "64";

/// A transport by which calls reach the daemon.
#[derive(Debug, Clone, Copy)]
struct FuseTransport {
    /// The suffix of the names of this transport's rows.
    suffix: &'static str,
    name: &'static str,
    /// The daemon's setting `uring` that selects this transport.
    uring: &'static str,
    /// How many packets per second a pipe should carry.
    goal: f64,
}

const FUSE_TRANSPORTS: [FuseTransport; 2] = [
    FuseTransport { suffix: "", name: "by the FUSE device", uring: "off", goal: 40e6 },
    FuseTransport { suffix: "-uring", name: "by io_uring", uring: "on", goal: 60e6 },
];

/// Returns the rows, two for each transport.
pub(crate) fn rows() -> impl Iterator<Item = BenchRow> {
    FUSE_TRANSPORTS.into_iter().flat_map(|transport| [sync_row(transport), pipe_row(transport)])
}

fn sync_row(transport: FuseTransport) -> BenchRow {
    let title = format!("/dev/netmap {}, NIOCTXSYNC of an idle ring", transport.name);
    BenchRow::new(format!("netmap-txsync{}", transport.suffix), title, RowUnit::Nanos)
        .with(ContenderRole::Ours, "slipring", move || round(transport, idle_sync))
        .with(ContenderRole::Floor, handover::FLOOR_NAME, handover::round_trip)
        .goal(GoalMetric::Value, 4_000.0)
}

fn pipe_row(transport: FuseTransport) -> BenchRow {
    let title = format!("/dev/netmap {}, pipe between processes, 64 B, 1024 slots", transport.name);
    BenchRow::new(format!("netmap-pipe-64{}", transport.suffix), title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", move || round(transport, pipe_between))
        .with(ContenderRole::Floor, TWO_THREADS_NAME, || two_threads::<64>(Swap, 256))
        .goal(GoalMetric::Value, transport.goal)
}

fn round(
    transport: FuseTransport,
    measure: fn(&BenchDaemon, Duration) -> Result<BenchReading, BenchError>,
) -> Result<BenchRound, BenchError> {
    let device = BenchDaemon::new(transport.uring)?;
    Ok(Box::new(move |time| measure(&device, time)))
}

fn idle_sync(device: &BenchDaemon, time: Duration) -> Result<BenchReading, BenchError> {
    let tally = device.start(&["sync", &seconds(time)])?.tally()?;
    Ok(BenchReading::of(tally.wall as f64 / tally.packets.max(1) as f64))
}

/// Measures how many packets per second a receiver gets from a sender through a pipe. The CPU time
/// is that of sender, receiver and daemon.
fn pipe_between(device: &BenchDaemon, time: Duration) -> Result<BenchReading, BenchError> {
    let served = process_cpu(device.process_id());
    let receiver = device.start(&["rx", "bench}1", &seconds(time), FRAME_BYTES])?;
    // The sender runs a little longer than the receiver.
    let longer = seconds(time + Duration::from_millis(100));
    let sender = device.start(&["tx", "bench{1", &longer, FRAME_BYTES])?;
    let (received, sent) = (receiver.tally()?, sender.tally()?);
    let served = process_cpu(device.process_id()).zip(served).map_or(0, |(now, then)| now - then);
    Ok(BenchTally { cpu: received.cpu + sent.cpu + served, ..received }.into())
}

fn seconds(time: Duration) -> String {
    time.as_secs_f64().to_string()
}
