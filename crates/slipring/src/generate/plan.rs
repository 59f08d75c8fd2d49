//! From flags to what is meant: every check that needs no machine.

mod pattern;
mod reader;

use std::path::Path;
use std::time::Duration;

use clap::ArgMatches;
use slipring_abi::name::{Kind, PortName};
use slipring_cli::units::{Rate, Share};
use slipring_cli::{Diagnostic, Failure, codes, flags};
use slipring_port::{Interest, Patience};
use slipring_traffic::{Expectations, Fraction, Pattern, Timeline};

pub(super) use self::pattern::{OWN_MAC, unmakable};
use self::reader::{Reader, add_conf, bits, vnet_header, warnings};
use super::function::Function;
use super::send::{Manner, Split, StampTime};
use slipring_program::files::Named;
use slipring_program::opening::{Opening, Role};

/// What was asked for.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) port: PortName,
    pub(super) sink: Option<PortName>,
    pub(super) opening: Opening,
    pub(super) function: Function,
    pub(super) frames: Frames,
    /// Take the source MAC address from the port.
    pub(super) mac_of_port: bool,
    pub(super) seed: u64,
    pub(super) stream: u16,
    /// No end: `u64::MAX`.
    pub(super) packets: u64,
    pub(super) rate: slipring_model::Rate,
    /// Bytes that a frame has on the wire beside its own, as far as they count.
    pub(super) framing: usize,
    pub(super) manner: Manner,
    pub(super) threads: u16,
    pub(super) pinning: Option<Pinning>,
    pub(super) latency: bool,
    /// Whether faults were asked for.
    pub(super) faulty: bool,
    pub(super) exit_when_idle: bool,
    pub(super) link_wait: Duration,
    pub(super) period: Option<Duration>,
    pub(super) duration: Option<Duration>,
    pub(super) expectations: Expectations,
    pub(super) style: Style,
    /// What the user should know of their flags.
    pub(super) warnings: Vec<String>,
}

/// Where frames come from.
#[derive(Debug)]
pub(super) enum Frames {
    Made(Box<Pattern>),
    /// Pattern for the length alone.
    Unwritten(usize),
    Recorded {
        path: String,
        timeline: Timeline,
        timed: bool,
    },
}

/// Which CPUs threads run on: thread `i` on `first + i % count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pinning {
    pub(super) first: u32,
    /// 0 for all there are.
    pub(super) count: u32,
}

/// How figures are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// Without prefixes.
    pub(super) raw: bool,
    /// With mean and deviation.
    pub(super) statistics: bool,
}

/// Preamble, CRC and gap.
pub(super) const FRAMING: usize = 24;

impl Plan {
    /// Reads the flags.
    pub(super) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let reader = Reader::new(matches)?;
        let function = Function::named(reader.text("function").unwrap_or("rx"));
        let mut port: PortName = reader.get("interface").expect("clap requires the port");
        if let Some(text) = reader.text("config-rings") {
            add_conf(&mut port, text)?;
        }
        let sink: Option<PortName> = reader.get("sink");
        let role = if function.sends() { Role::Sink } else { Role::Source };
        let roles =
            std::iter::once((&port, role)).chain(sink.iter().map(|sink| (sink, Role::Source)));
        let recorded = reader.text("pcap").map(|path| Named::read(Path::new(path)));
        let opening = Opening::of(matches).with_vnet_header(vnet_header(&reader));
        let opening = opening.with_roles(roles, recorded.into_iter().collect())?;
        let latency = reader.flag("latency", bits::LATENCY);
        let expectations = Expectations {
            max_loss: reader.get::<Share>("max-loss").and_then(fraction),
            min_rate: reader.get::<Rate>("min-rate").map(model_rate),
        };
        let plan = Self {
            manner: manner(&reader, function, &port, opening.patience, latency),
            sink,
            frames: frames(&reader)?,
            mac_of_port: !reader.typed("src-mac"),
            seed: reader.count("seed").unwrap_or(1),
            stream: reader.get("stream").unwrap_or(0),
            packets: reader.count("count").filter(|&count| count > 0).unwrap_or(u64::MAX),
            rate: model_rate(reader.get("rate").unwrap_or(Rate::Packets(0))),
            framing: if matches.get_flag("framing") { FRAMING } else { 0 },
            threads: reader.get("threads").unwrap_or(1),
            pinning: pinning(&reader),
            faulty: ["fault-loss", "fault-corrupt", "fault-delay"]
                .iter()
                .any(|id| reader.typed(id)),
            exit_when_idle: matches.get_flag("exit-when-idle"),
            link_wait: reader.span("wait").unwrap_or_default(),
            period: flags::period_of(matches),
            duration: reader.span("duration"),
            style: Style {
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

    /// Bytes of the virtio-net header before each frame: 0, 10 or 12.
    pub(super) fn header(&self) -> usize {
        self.opening.options.vnet_hdr as usize
    }

    /// Refuses a virtio-net header where frames are bare.
    fn check_header(&self) -> Result<(), Failure> {
        let bare = |port: &&PortName| port.kind != Kind::Tap;
        let port = [Some(&self.port), self.sink.as_ref()].into_iter().flatten().find(bare);
        let Some(port) = port.filter(|_| self.header() > 0) else { return Ok(()) };
        let summary = format!("--vnet-header {} does not go together with {port}", self.header());
        Err(conflict(
            summary,
            "only tap: ports carry virtio-net headers; on all others frames are bare",
            "leave -H out, or take a TAP device: -i tap:NAME",
        ))
    }

    /// Refuses what contradicts itself.
    fn check(&self) -> Result<(), Failure> {
        let file = self.port.kind == Kind::Pcap;
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
        if self.sink.is_some() && !matches!(self.function, Function::Tx | Function::TxSeq) {
            return Err(conflict(
                "--sink goes with -f tx only",
                "the other functions receive by themselves",
                "leave --sink out, or send: -f tx",
            ));
        }
        if self.function == Function::Pong && self.expectations.max_loss.is_some() {
            return Err(conflict(
                "--max-loss does not go together with pong",
                "only the ping knows what was lost",
                "give it to the ping at the other end",
            ));
        }
        if self.function == Function::Ping && !matches!(self.frames, Frames::Made(_)) {
            return Err(conflict(
                "ping makes its own frames",
                "answers are told by the times in them",
                "leave -P and -r out",
            ));
        }
        if self.function == Function::Ping && self.manner.split != Split::Whole {
            let cause = "a frame of several slots would be late by itself";
            return Err(conflict("ping sends frames of one slot", cause, "leave -F and -M out"));
        }
        Ok(())
    }
}

fn manner(
    reader: &Reader<'_>,
    function: Function,
    port: &PortName,
    patience: Patience,
    latency: bool,
) -> Manner {
    let alone = matches!(function, Function::Ping | Function::Pong);
    let fragments: u16 = reader.get("fragments").unwrap_or(1);
    Manner {
        burst: reader.get("burst").unwrap_or(if alone { 1 } else { 512 }),
        split: match (reader.get::<u16>("fragment-size"), fragments) {
            (Some(bytes), _) => Split::Bytes(bytes.into()),
            (None, 1) => Split::Whole,
            (None, slots) => Split::Slots(slots.into()),
        },
        stamp: match (port.kind == Kind::Pcap, latency) {
            (true, _) => StampTime::Due,
            (false, true) => StampTime::Frame,
            (false, false) => StampTime::Batch,
        },
        dump: reader.flag("dump", bits::DUMP),
        patience,
    }
}

fn frames(reader: &Reader<'_>) -> Result<Frames, Failure> {
    if let Some(path) = reader.text("pcap") {
        let timed = reader.matches.get_flag("timed");
        let loops = reader.count("loops").unwrap_or(u64::from(timed));
        let speed = reader.get::<Fraction>("speed").unwrap_or(Fraction::ONE);
        let timeline = Timeline::new().with_speed(speed).with_passes((loops > 0).then_some(loops));
        return Ok(Frames::Recorded { path: path.to_owned(), timeline, timed });
    }
    let pattern = pattern::of(reader)?;
    if !reader.flag("uninitialised", bits::UNINITIALISED) {
        return Ok(Frames::Made(Box::new(pattern)));
    }
    if pattern.sizes.min() != pattern.sizes.max() {
        let cause = "nothing is written, not even a length";
        return Err(conflict("-r sends frames of one size", cause, "give one -l, such as -l 60"));
    }
    Ok(Frames::Unwritten(pattern.sizes.max().into()))
}

fn pinning(reader: &Reader<'_>) -> Option<Pinning> {
    let first = u32::try_from(reader.get::<i32>("affinity")?).ok()?;
    Some(Pinning { first, count: reader.get("cpus").unwrap_or(1) })
}

/// The engine's word for a share.
fn fraction(share: Share) -> Option<Fraction> {
    Fraction::new(share.ppb(), 1_000_000_000)
}

/// The engine's word for a rate.
fn model_rate(rate: Rate) -> slipring_model::Rate {
    match rate {
        Rate::Packets(rate) => slipring_model::Rate::PacketsPerSec(rate),
        Rate::Bits(rate) => slipring_model::Rate::BitsPerSec(rate),
    }
}

/// A value does not fit: what, why, and what would.
pub(super) fn wrong(
    summary: impl Into<String>,
    cause: impl Into<String>,
    help: impl Into<String>,
) -> Failure {
    Diagnostic::new(codes::SR0002, summary).with_cause(cause).with_help(help).into()
}

/// Flags contradict each other: which, why, and what to do.
fn conflict(summary: impl Into<String>, cause: &str, help: &str) -> Failure {
    Diagnostic::new(codes::SR0003, summary).with_cause(cause).with_help(help).into()
}

#[cfg(test)]
mod tests;
