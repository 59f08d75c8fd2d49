//! The rows over veth links and TAP devices: sending, receiving and forwarding with each kind of
//! port.

use std::time::Duration;

use slipring_abi::name::PortName;
use slipring_bpf::BpfLink;
use slipring_core::Host;
use slipring_port::{OpenError, OpenOptions, Port, RunError, XdpMode, forward};
use slipring_wire::frame::FrameSpec;

use super::lab::{
    BenchLab, INPUT_IFNAME, InNetns, OUTPUT_IFNAME, SOURCE_IFNAME, drop_all, find, frame,
    receive_by_napi,
};
use super::measure::{BenchError, BenchReading, BenchTally, PROGRAM_CPU, pin, tally};
use super::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};
use super::xsk::{self, XskBaseline};
use super::{child, kernel, testpmd};

const MAX_BATCH: u32 = 256;
/// The TAP devices. The first one receives or sends, and the second one is the port to which frames
/// are forwarded.
const TAP_NAMES: [&str; 2] = ["srbencht0", "srbencht1"];

/// Name of the contender that is a loop which only sends.
const BARE_LOOP_NAME: &str = "bare loop";

/// Through which kind of port an interface is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterfacePath {
    Native,
    Generic,
    Packet,
    Tap,
}

/// What a program does with frames: receive, send or forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VethJob {
    Tx,
    Rx,
    Forward,
}

impl InterfacePath {
    fn id(self) -> &'static str {
        match self {
            Self::Native => "xdp-native",
            Self::Generic => "xdp-generic",
            Self::Packet => "packet",
            Self::Tap => "tap",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Native => "veth, xdp native",
            Self::Generic => "veth, xdp generic",
            Self::Packet => "veth, packet",
            Self::Tap => "tap",
        }
    }

    fn port(self, ifname: &str) -> String {
        match self {
            Self::Native | Self::Generic => format!("xdp:{ifname}"),
            Self::Packet => format!("packet:{ifname}"),
            Self::Tap => format!("tap:{ifname}"),
        }
    }

    fn options(self) -> OpenOptions {
        let xdp = if self == Self::Generic { XdpMode::Generic } else { XdpMode::Native };
        OpenOptions { xdp, ..OpenOptions::default() }
    }

    /// Returns the interfaces on which the ports for the job are opened.
    fn interfaces(self, job: VethJob) -> &'static [&'static str] {
        match (self, job) {
            (Self::Tap, VethJob::Forward) => &TAP_NAMES,
            (Self::Tap, _) => &TAP_NAMES[..1],
            (_, VethJob::Tx) => &[OUTPUT_IFNAME],
            (_, VethJob::Rx) => &[INPUT_IFNAME],
            (_, VethJob::Forward) => &[INPUT_IFNAME, OUTPUT_IFNAME],
        }
    }

    /// Returns the interface on which the source sends.
    fn source(self) -> &'static str {
        if self == Self::Tap { TAP_NAMES[0] } else { SOURCE_IFNAME }
    }
}

impl VethJob {
    fn name(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Rx => "rx",
            Self::Forward => "forward",
        }
    }
}

/// Returns the row for frames that have `len` bytes on the wire, including the CRC.
pub(crate) fn row(
    path: InterfacePath,
    job: VethJob,
    len: usize,
    yardstick: &XskBaseline,
) -> BenchRow {
    let id = format!("{}-{}-{len}", path.id(), job.name());
    let title = format!("{}, {}, {len} B", path.title(), job.name());
    let row = BenchRow::new(id, title, RowUnit::PacketsPerSec).with(
        ContenderRole::Ours,
        "slipring",
        move || ours(path, job, len),
    );
    let row = match path {
        InterfacePath::Native => {
            let yardstick = yardstick.clone();
            row.with(ContenderRole::Floor, xsk::CONTENDER_NAME, move || {
                xsk::round(yardstick, job, len)
            })
            .with(ContenderRole::Peer, testpmd::AF_XDP_NAME, move || testpmd::af_xdp(job, len))
        }
        InterfacePath::Packet => {
            row.with(ContenderRole::Peer, testpmd::AF_PACKET_NAME, move || {
                testpmd::af_packet(job, len)
            })
        }
        InterfacePath::Generic | InterfacePath::Tap => row,
    };
    let row = match (path, job) {
        (InterfacePath::Tap, _) | (_, VethJob::Tx | VethJob::Rx) => row,
        _ => row.with(ContenderRole::Peer, kernel::CONTENDER_NAME, move || kernel::round(len)),
    };
    if len == 64 { with_goals(row, path, job) } else { row }
}

fn with_goals(row: BenchRow, path: InterfacePath, job: VethJob) -> BenchRow {
    let row = match (path, job) {
        (InterfacePath::Native, VethJob::Tx) => row.goal(GoalMetric::Value, 2.1e6),
        (InterfacePath::Native, VethJob::Rx) => {
            row.goal(GoalMetric::Value, 10e6).goal(GoalMetric::RatioTo(testpmd::AF_XDP_NAME), 2.0)
        }
        (InterfacePath::Native, VethJob::Forward) => {
            row.goal(GoalMetric::Value, 1.9e6).goal(GoalMetric::RatioTo(testpmd::AF_XDP_NAME), 1.15)
        }
        (InterfacePath::Packet, VethJob::Forward) => row.goal(GoalMetric::Value, 1.3e6),
        (InterfacePath::Tap, VethJob::Tx) => row.goal(GoalMetric::Value, 6e6),
        _ => row,
    };
    if path == InterfacePath::Native {
        row.goal(GoalMetric::RatioTo(xsk::CONTENDER_NAME), 0.95)
    } else {
        row
    }
}

/// Returns the row that shows whether `gen` is as fast as a loop that only sends, over veth links.
pub(crate) fn generator_row(path: InterfacePath) -> BenchRow {
    let (id, title) = (format!("gen-{}", path.id()), format!("gen, {}, 60 B", path.title()));
    BenchRow::new(id, title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring gen", move || {
            let lab = BenchLab::new()?;
            Ok(Box::new(move |time| lab.within(|| generate(path, time))))
        })
        .with(ContenderRole::Floor, BARE_LOOP_NAME, move || ours(path, VethJob::Tx, 64))
        .goal(GoalMetric::RatioTo(BARE_LOOP_NAME), 0.9)
}

fn generate(path: InterfacePath, time: Duration) -> Result<BenchReading, BenchError> {
    child::saturating(&path.port(OUTPUT_IFNAME), time)
}

/// The open ports and, if a TAP port sends, the program that drops in the kernel what it sends.
struct VethRig {
    ports: Vec<Port>,
    _drop: Option<BpfLink>,
}

impl VethRig {
    fn open(path: InterfacePath, job: VethJob) -> Result<Self, BenchError> {
        let ports = open(path, path.interfaces(job))?;
        if path == InterfacePath::Generic && job != VethJob::Tx {
            // Opening the port switches GRO off, but the source needs it, so it is switched on
            // again.
            receive_by_napi(&find(INPUT_IFNAME)?);
        }
        let _drop = match (path, path.interfaces(job).last()) {
            (InterfacePath::Tap, Some(tap)) if job != VethJob::Rx => Some(drop_all(tap)?),
            _ => None,
        };
        Ok(Self { ports, _drop })
    }

    /// Returns how many packets the last port has sent, or received if the job is `Rx`.
    fn done(&mut self, job: VethJob) -> u64 {
        let stats = self.ports.last_mut().map(Port::stats).unwrap_or_default();
        if job == VethJob::Rx { stats.rx.packets } else { stats.tx.packets }
    }

    fn run(
        &mut self,
        job: VethJob,
        frame: &[u8],
        time: Duration,
    ) -> Result<BenchReading, BenchError> {
        pin(PROGRAM_CPU);
        let before = self.done(job);
        let spent = match (job, &mut self.ports[..]) {
            (VethJob::Tx, [port]) => tally(time, || send(port, frame))?,
            (VethJob::Rx, [port]) => tally(time, || receive(port))?,
            (VethJob::Forward, [from, to]) => {
                tally(time, || forward(from, to, MAX_BATCH).map(|_| 0))?
            }
            _ => return Err(BenchError::Failed("a wrong number of ports".into())),
        };
        Ok(BenchTally { packets: self.done(job) - before, ..spent }.into())
    }
}

/// Opens ports with one shared region, in the network namespace of the calling thread.
pub(super) fn open(path: InterfacePath, interfaces: &[&str]) -> Result<Vec<Port>, OpenError> {
    let names: Result<Vec<PortName>, _> =
        interfaces.iter().map(|ifname| slipring_core::parse(&path.port(ifname))).collect();
    Host::new().open_all(&names?, &path.options())
}

fn ours(path: InterfacePath, job: VethJob, len: usize) -> Result<BenchRound, BenchError> {
    let frame = frame(&FrameSpec::default(), len)?;
    let mut rig: InNetns<VethRig> = BenchLab::new()?.hold(|| VethRig::open(path, job))?;
    Ok(Box::new(move |time| {
        let (rig, lab) = rig.parts();
        match job {
            VethJob::Tx => lab.within(|| rig.run(job, &frame, time)),
            VethJob::Rx | VethJob::Forward => {
                lab.while_feeding(path.source(), &frame, || rig.run(job, &frame, time))
            }
        }
    }))
}

fn send(port: &mut Port, frame: &[u8]) -> Result<u64, RunError> {
    let queue = &mut port.queues[0];
    queue.rings().tx.fill(MAX_BATCH, |buf| {
        buf[..frame.len()].copy_from_slice(frame);
        frame.len()
    });
    queue.tx_sync()?;
    Ok(0)
}

/// Receives frames and reads a byte of each, so that its cache line is really transferred.
fn receive(port: &mut Port) -> Result<u64, RunError> {
    let queue = &mut port.queues[0];
    queue.rx_sync()?;
    let mut batch = queue.rings().rx.batch(MAX_BATCH);
    let sum: usize = batch.frames().map(|frame| usize::from(frame.bytes[0])).sum();
    std::hint::black_box(sum);
    Ok(0)
}
