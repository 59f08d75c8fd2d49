//! Rows over veth links and TAP devices: send, receive, forward through each kind of port.

use std::time::Duration;

use slipring_abi::name::PortName;
use slipring_core::Host;
use slipring_port::bpf::Link;
use slipring_port::{OpenError, OpenOptions, Port, RunError, XdpMode, forward};
use slipring_wire::frame::FrameSpec;

use super::lab::{Held, INPUT, Lab, OUTPUT, SOURCE, drop_all, find, frame, receive_by_napi};
use super::measure::{PROGRAM_CPU, Reading, Tally, Why, pin, tally};
use super::row::{Bout, Of, Role, Row, Unit};
use super::xsk::{self, Yardstick};
use super::{child, kernel, testpmd};

const BATCH: u32 = 256;
/// TAP devices: one that receives or sends, one to forward to.
const TAPS: [&str; 2] = ["srbencht0", "srbencht1"];

/// The loop that does nothing but send.
const BARE: &str = "bare loop";

/// The way into an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    Native,
    Generic,
    Packet,
    Tap,
}

/// What is done with frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    Tx,
    Rx,
    Forward,
}

impl Path {
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

    /// The interfaces that the job's ports are opened on.
    fn interfaces(self, job: Job) -> &'static [&'static str] {
        match (self, job) {
            (Self::Tap, Job::Forward) => &TAPS,
            (Self::Tap, _) => &TAPS[..1],
            (_, Job::Tx) => &[OUTPUT],
            (_, Job::Rx) => &[INPUT],
            (_, Job::Forward) => &[INPUT, OUTPUT],
        }
    }

    /// Where the source sends.
    fn source(self) -> &'static str {
        if self == Self::Tap { TAPS[0] } else { SOURCE }
    }
}

impl Job {
    fn name(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Rx => "rx",
            Self::Forward => "forward",
        }
    }
}

/// The row for frames of `len` bytes on the wire, CRC included.
pub(crate) fn row(path: Path, job: Job, len: usize, yardstick: &Yardstick) -> Row {
    let id = format!("{}-{}-{len}", path.id(), job.name());
    let title = format!("{}, {}, {len} B", path.title(), job.name());
    let row = Row::new(id, title, Unit::PacketsPerSec)
        .with(Role::Ours, "slipring", move || ours(path, job, len));
    let row = match path {
        Path::Native => {
            let yardstick = yardstick.clone();
            row.with(Role::Floor, xsk::NAME, move || xsk::bout(yardstick, job, len)).with(
                Role::Peer,
                testpmd::AF_XDP,
                move || testpmd::af_xdp(job, len),
            )
        }
        Path::Packet => {
            row.with(Role::Peer, testpmd::AF_PACKET, move || testpmd::af_packet(job, len))
        }
        Path::Generic | Path::Tap => row,
    };
    let row = match (path, job) {
        (Path::Tap, _) | (_, Job::Tx | Job::Rx) => row,
        _ => row.with(Role::Peer, kernel::NAME, move || kernel::bout(len)),
    };
    if len == 64 { held_to(row, path, job) } else { row }
}

fn held_to(row: Row, path: Path, job: Job) -> Row {
    let row = match (path, job) {
        (Path::Native, Job::Tx) => row.goal(Of::Value, 2.1e6),
        (Path::Native, Job::Rx) => {
            row.goal(Of::Value, 10e6).goal(Of::RatioTo(testpmd::AF_XDP), 2.0)
        }
        (Path::Native, Job::Forward) => {
            row.goal(Of::Value, 1.9e6).goal(Of::RatioTo(testpmd::AF_XDP), 1.15)
        }
        (Path::Packet, Job::Forward) => row.goal(Of::Value, 1.3e6),
        (Path::Tap, Job::Tx) => row.goal(Of::Value, 6e6),
        _ => row,
    };
    if path == Path::Native { row.goal(Of::RatioTo(xsk::NAME), 0.95) } else { row }
}

/// The row that says whether `gen` is as fast as the bare loop, over veth links.
pub(crate) fn generator_row(path: Path) -> Row {
    let (id, title) = (format!("gen-{}", path.id()), format!("gen, {}, 60 B", path.title()));
    Row::new(id, title, Unit::PacketsPerSec)
        .with(Role::Ours, "slipring gen", move || {
            let lab = Lab::new()?;
            Ok(Box::new(move |time| lab.within(|| generate(path, time))))
        })
        .with(Role::Floor, BARE, move || ours(path, Job::Tx, 64))
        .goal(Of::RatioTo(BARE), 0.9)
}

fn generate(path: Path, time: Duration) -> Result<Reading, Why> {
    child::saturating(&path.port(OUTPUT), time)
}

/// Open ports, and what keeps their far ends silent.
struct Rig {
    ports: Vec<Port>,
    _drop: Option<Link>,
}

impl Rig {
    fn open(path: Path, job: Job) -> Result<Self, Why> {
        let ports = open(path, path.interfaces(job))?;
        if path == Path::Generic && job != Job::Tx {
            // The port switches coalescing off, but the source needs it.
            receive_by_napi(&find(INPUT)?);
        }
        let _drop = match (path, path.interfaces(job).last()) {
            (Path::Tap, Some(tap)) if job != Job::Rx => Some(drop_all(tap)?),
            _ => None,
        };
        Ok(Self { ports, _drop })
    }

    /// Packets done so far: completed, or received.
    fn done(&mut self, job: Job) -> u64 {
        let stats = self.ports.last_mut().map(Port::stats).unwrap_or_default();
        if job == Job::Rx { stats.rx.packets } else { stats.tx.packets }
    }

    fn run(&mut self, job: Job, frame: &[u8], time: Duration) -> Result<Reading, Why> {
        pin(PROGRAM_CPU);
        let before = self.done(job);
        let spent = match (job, &mut self.ports[..]) {
            (Job::Tx, [port]) => tally(time, || send(port, frame))?,
            (Job::Rx, [port]) => tally(time, || receive(port))?,
            (Job::Forward, [from, to]) => tally(time, || forward(from, to, BATCH).map(|_| 0))?,
            _ => return Err(Why::Failed("a wrong number of ports".into())),
        };
        Ok(Tally { packets: self.done(job) - before, ..spent }.into())
    }
}

/// Opens ports in one region, in the calling thread's namespace.
pub(super) fn open(path: Path, interfaces: &[&str]) -> Result<Vec<Port>, OpenError> {
    let names: Result<Vec<PortName>, _> =
        interfaces.iter().map(|ifname| slipring_core::parse(&path.port(ifname))).collect();
    Host::new().open_all(&names?, &path.options())
}

fn ours(path: Path, job: Job, len: usize) -> Result<Bout, Why> {
    let frame = frame(&FrameSpec::default(), len)?;
    let mut rig: Held<Rig> = Lab::new()?.hold(|| Rig::open(path, job))?;
    Ok(Box::new(move |time| {
        let (rig, lab) = rig.parts();
        match job {
            Job::Tx => lab.within(|| rig.run(job, &frame, time)),
            Job::Rx | Job::Forward => {
                lab.while_feeding(path.source(), &frame, || rig.run(job, &frame, time))
            }
        }
    }))
}

fn send(port: &mut Port, frame: &[u8]) -> Result<u64, RunError> {
    let queue = &mut port.queues[0];
    queue.rings().tx.fill(BATCH, |buf| {
        buf[..frame.len()].copy_from_slice(frame);
        frame.len()
    });
    queue.tx_sync()?;
    Ok(0)
}

/// Receives and looks at a byte of each frame, so that its cache line comes over.
fn receive(port: &mut Port) -> Result<u64, RunError> {
    let queue = &mut port.queues[0];
    queue.rx_sync()?;
    let frames = queue.rings().rx.batch(BATCH);
    let sum: usize = frames.map(|frame| usize::from(frame.bytes[0])).sum();
    std::hint::black_box(sum);
    Ok(0)
}
