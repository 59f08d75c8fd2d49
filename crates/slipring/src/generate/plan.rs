//! Converts the flags to a plan, and makes every check that needs no port and no file.

mod pattern;
mod reader;

use std::path::Path;
use std::time::Duration;

use clap::ArgMatches;
use slipring_abi::name::{PortName, PortNameKind};
use slipring_cli::units::{RateWithUnit, Ratio};
use slipring_cli::{Diagnostic, Failure, codes, flags};
use slipring_port::{Interest, WaitStrategy};
use slipring_traffic::{Expectations, Fraction, ReplayTimeline, TrafficPattern};

pub(super) use self::pattern::{DEFAULT_SRC_MAC, pattern_failure};
use self::reader::{FlagReader, add_conf, bits, vnet_header, warnings};
use super::function::GenFunction;
use super::send::{SendOptions, SlotSplit, StampTime};
use slipring_datapath::files::RunFile;
use slipring_datapath::opening::{PortOpening, PortRole};

/// The parsed command line.
#[derive(Debug)]
pub(super) struct GenPlan {
    pub(super) port: PortName,
    pub(super) sink: Option<PortName>,
    pub(super) opening: PortOpening,
    pub(super) function: GenFunction,
    pub(super) frames: GenFrames,
    /// Whether the source MAC address of frames is that of the port.
    pub(super) mac_of_port: bool,
    pub(super) seed: u64,
    pub(super) stream: u16,
    /// Number of packets to send or receive; `u64::MAX` for no limit.
    pub(super) packets: u64,
    pub(super) rate: slipring_model::Rate,
    /// Bytes of preamble, CRC and gap that count for each frame in bit rates; 0 if the report
    /// leaves them out.
    pub(super) framing: usize,
    pub(super) send_options: SendOptions,
    pub(super) threads: u16,
    pub(super) pinning: Option<CpuPinning>,
    pub(super) latency: bool,
    /// Whether faults are injected.
    pub(super) faulty: bool,
    pub(super) exit_when_idle: bool,
    pub(super) link_wait: Duration,
    /// How long to wait for the link of a card with a native driver; `None` if the user has not
    /// said.
    pub(super) card_link_wait: Option<Duration>,
    pub(super) period: Option<Duration>,
    pub(super) duration: Option<Duration>,
    pub(super) expectations: Expectations,
    pub(super) style: FigureStyle,
    /// Warnings about the flags.
    pub(super) warnings: Vec<String>,
}

/// The frames that the threads send.
#[derive(Debug)]
pub(super) enum GenFrames {
    Pattern(Box<TrafficPattern>),
    /// Frames whose bytes are not written, all of this length in bytes.
    Unwritten(usize),
    Recorded {
        path: String,
        timeline: ReplayTimeline,
        timed: bool,
    },
}

/// The CPUs that threads run on: thread `i` on `first + i % count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuPinning {
    pub(super) first: u32,
    /// Number of CPUs; 0 means all.
    pub(super) count: u32,
}

/// How figures are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FigureStyle {
    /// Whether numbers are printed without unit prefixes such as M.
    pub(super) raw: bool,
    /// Whether mean and standard deviation of the rates are printed.
    pub(super) statistics: bool,
}

/// Bytes of preamble, CRC and gap per Ethernet frame.
pub(super) const ETHERNET_FRAMING_BYTES: usize = 24;

impl GenPlan {
    /// Parses the flags.
    pub(super) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let reader = FlagReader::new(matches)?;
        let function = GenFunction::from_name(reader.text("function").unwrap_or("rx"));
        let mut port: PortName = reader.get("interface").expect("clap requires the port");
        if let Some(text) = reader.text("config-rings") {
            add_conf(&mut port, text)?;
        }
        let sink: Option<PortName> = reader.get("sink");
        let role = if function.sends() { PortRole::Sink } else { PortRole::Source };
        let roles =
            std::iter::once((&port, role)).chain(sink.iter().map(|sink| (sink, PortRole::Source)));
        let recorded = reader.text("pcap").map(|path| RunFile::read(Path::new(path)));
        let opening = PortOpening::of(matches).with_vnet_header(vnet_header(&reader));
        let opening = opening.with_roles(roles, recorded.into_iter().collect())?;
        let latency = reader.flag("latency", bits::LATENCY);
        let expectations = Expectations {
            max_loss: reader.get::<Ratio>("max-loss").and_then(fraction),
            min_rate: reader.get::<RateWithUnit>("min-rate").map(model_rate),
        };
        let plan = Self {
            send_options: manner(&reader, function, &port, opening.wait_policy, latency),
            sink,
            frames: frames(&reader)?,
            mac_of_port: !reader.typed("src-mac"),
            seed: reader.count("seed").unwrap_or(1),
            stream: reader.get("stream").unwrap_or(0),
            packets: reader.count("count").filter(|&count| count > 0).unwrap_or(u64::MAX),
            rate: model_rate(reader.get("rate").unwrap_or(RateWithUnit::Packets(0))),
            framing: if matches.get_flag("framing") { ETHERNET_FRAMING_BYTES } else { 0 },
            threads: reader.get("threads").unwrap_or(1),
            pinning: pinning(&reader),
            faulty: ["fault-loss", "fault-corrupt", "fault-delay"]
                .iter()
                .any(|id| reader.typed(id)),
            exit_when_idle: matches.get_flag("exit-when-idle"),
            link_wait: reader.span("wait").unwrap_or_default(),
            card_link_wait: reader.span("wait").filter(|_| reader.typed("wait")),
            period: flags::period_of(matches),
            duration: reader.span("duration"),
            style: FigureStyle {
                raw: matches.get_flag("raw-units"),
                statistics: reader.flag("statistics", bits::STATISTICS),
            },
            warnings: warnings(&reader, function),
            latency,
            expectations,
            port,
            opening,
            function,
        };
        plan.check()?;
        plan.check_header()?;
        Ok(plan)
    }

    /// Returns the length in bytes of the virtio-net header before each frame: 0, 10 or 12.
    pub(super) fn header(&self) -> usize {
        self.opening.options.vnet_hdr as usize
    }

    /// Refuses a virtio-net header on ports that do not support one.
    fn check_header(&self) -> Result<(), Failure> {
        let bare = |port: &&PortName| port.kind != PortNameKind::Tap;
        let port = [Some(&self.port), self.sink.as_ref()].into_iter().flatten().find(bare);
        let Some(port) = port.filter(|_| self.header() > 0) else { return Ok(()) };
        let summary = format!("--vnet-header {} does not go together with {port}", self.header());
        Err(conflict(
            summary,
            "only tap: ports carry virtio-net headers; on all others frames are bare",
            "leave -H out, or take a TAP device: -i tap:NAME",
        ))
    }

    /// Refuses contradictory flags.
    fn check(&self) -> Result<(), Failure> {
        let file = self.port.kind == PortNameKind::Pcap;
        if self.latency && file && !self.function.sends() {
            return Err(conflict(
                "--latency does not go together with a capture",
                "times in a file were read long ago",
                "leave --latency out, or receive from an interface",
            ));
        }
        if file && self.function.direction() == Interest::BOTH {
            let summary = format!("{} does not go together with a capture", self.function.name());
            let help = "take -f tx to write it, -f rx to read it";
            return Err(conflict(summary, "a file is read or written, not both", help));
        }
        if self.sink.is_some() && !matches!(self.function, GenFunction::Tx | GenFunction::TxSeq) {
            return Err(conflict(
                "--sink goes with -f tx only",
                "the other functions receive by themselves",
                "leave --sink out, or send: -f tx",
            ));
        }
        if self.function == GenFunction::Pong && self.expectations.max_loss.is_some() {
            return Err(conflict(
                "--max-loss does not go together with pong",
                "only the ping knows what was lost",
                "give it to the ping at the other end",
            ));
        }
        if self.function == GenFunction::Ping && !matches!(self.frames, GenFrames::Pattern(_)) {
            return Err(conflict(
                "ping makes its own frames",
                "answers are told by the times in them",
                "leave -P and -r out",
            ));
        }
        if self.function == GenFunction::Ping && self.send_options.split != SlotSplit::Whole {
            let cause = "a frame of several slots would be late by itself";
            return Err(conflict("ping sends frames of one slot", cause, "leave -F and -M out"));
        }
        Ok(())
    }
}

fn manner(
    reader: &FlagReader<'_>,
    function: GenFunction,
    port: &PortName,
    patience: WaitStrategy,
    latency: bool,
) -> SendOptions {
    let alone = matches!(function, GenFunction::Ping | GenFunction::Pong);
    let fragments: u16 = reader.get("fragments").unwrap_or(1);
    SendOptions {
        burst: reader.get("burst").unwrap_or(if alone { 1 } else { 512 }),
        split: match (reader.get::<u16>("fragment-size"), fragments) {
            (Some(bytes), _) => SlotSplit::Bytes(bytes.into()),
            (None, 1) => SlotSplit::Whole,
            (None, slots) => SlotSplit::Slots(slots.into()),
        },
        stamp: match (port.kind == PortNameKind::Pcap, latency) {
            (true, _) => StampTime::Due,
            (false, true) => StampTime::Frame,
            (false, false) => StampTime::Batch,
        },
        dump: reader.flag("dump", bits::DUMP),
        wait_policy: patience,
    }
}

fn frames(reader: &FlagReader<'_>) -> Result<GenFrames, Failure> {
    if let Some(path) = reader.text("pcap") {
        let timed = reader.matches.get_flag("timed");
        let loops = reader.count("loops").unwrap_or(u64::from(timed));
        let speed = reader.get::<Fraction>("speed").unwrap_or(Fraction::ONE);
        let timeline =
            ReplayTimeline::new().with_speed(speed).with_passes((loops > 0).then_some(loops));
        return Ok(GenFrames::Recorded { path: path.to_owned(), timeline, timed });
    }
    let pattern = pattern::of(reader)?;
    if !reader.flag("uninitialised", bits::UNINITIALISED) {
        return Ok(GenFrames::Pattern(Box::new(pattern)));
    }
    if pattern.sizes.min() != pattern.sizes.max() {
        let cause = "nothing is written, not even a length";
        return Err(conflict("-r sends frames of one size", cause, "give one -l, such as -l 60"));
    }
    Ok(GenFrames::Unwritten(pattern.sizes.max().into()))
}

fn pinning(reader: &FlagReader<'_>) -> Option<CpuPinning> {
    let first = u32::try_from(reader.get::<i32>("affinity")?).ok()?;
    Some(CpuPinning { first, count: reader.get("cpus").unwrap_or(1) })
}

/// Converts a ratio to the engine's type of fraction; `None` if that type cannot represent it.
fn fraction(share: Ratio) -> Option<Fraction> {
    Fraction::new(share.ppb(), 1_000_000_000)
}

/// Converts a rate to the engine's type.
fn model_rate(rate: RateWithUnit) -> slipring_model::Rate {
    match rate {
        RateWithUnit::Packets(rate) => slipring_model::Rate::PacketsPerSec(rate),
        RateWithUnit::Bits(rate) => slipring_model::Rate::BitsPerSec(rate),
    }
}

/// Builds the error for a value that does not fit its flag: summary, cause and help.
pub(super) fn wrong(
    summary: impl Into<String>,
    cause: impl Into<String>,
    help: impl Into<String>,
) -> Failure {
    Diagnostic::new(codes::SR0002, summary).with_cause(cause).with_help(help).into()
}

/// Builds the error for contradictory flags: summary, cause and help.
fn conflict(summary: impl Into<String>, cause: &str, help: &str) -> Failure {
    Diagnostic::new(codes::SR0003, summary).with_cause(cause).with_help(help).into()
}

#[cfg(test)]
mod tests;
