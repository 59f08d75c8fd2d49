//! The flags of `slipring dedup`, and the plan made from them.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use slipring_abi::name::PortName;
use slipring_cli::units::{ByteCount, Count, Ratio, TimeSpan};
use slipring_cli::{Diagnostic, Failure, codes, flags, metrics};
use slipring_dedup::DedupLimits;

use super::DedupPlan;
use slipring_datapath::opening::{self, PortOpening, PortRole};

const EXAMPLES: &str = "\
Examples:
  slipring dedup -i netmap:eth0 -i netmap:eth1
  slipring dedup -i pcap:in.pcap -i pcap:out.pcap -W 1ms -F 1000";

pub(super) fn command() -> Command {
    let micros = |text: &str| TimeSpan::parse(text, Duration::from_micros(1));
    let value = |id: &'static str, name: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(name).help(help)
    };
    let switch = |id: &'static str, help: &'static str| {
        Arg::new(id).long(id).action(ArgAction::SetTrue).help(help)
    };
    let command = Command::new("dedup")
        .about("Forward frames from one port to another, and drop duplicates")
        .args([
            flags::with_note(
                flags::port().action(ArgAction::Append).value_parser(PortName::parse_classic),
                "twice: where frames come from, and where they go",
            ),
            Arg::new("words")
                .value_name(flags::PORT_VALUE)
                .num_args(0..=2)
                .value_parser(PortName::parse_classic)
                .help("Ports as with -i"),
            value(
                "window",
                "TIME",
                "Ignore copies that come later than this; 0 for no limit [default unit: us]",
            )
            .short('W')
            .default_value("50")
            .value_parser(micros),
            value("fifo", "N", "Look for copies among the last N frames only; 0 for no limit")
                .short('F')
                .default_value("10")
                .value_parser(str::parse::<Count>),
            switch("hold", "Hold every frame until it leaves the window").short('H'),
            value("memory", "SIZE", "Maximum memory for remembered frames")
                .default_value("256MiB")
                .value_parser(str::parse::<ByteCount>),
            flags::copy(),
            flags::burst().default_value("1024"),
            flags::link_wait().default_value("2"),
            flags::period(),
            flags::duration(),
            value("max-duplicates", "SHARE", "Fail if a larger share of frames were duplicates")
                .help_heading("Expectations")
                .value_parser(str::parse::<Ratio>),
        ]);
    let command = flags::configuration(flags::reporting(metrics::flag(opening::flags(command))));
    command.after_help(EXAMPLES)
}

impl DedupPlan {
    pub(super) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let span = |id: &str| matches.get_one::<TimeSpan>(id).map(|span| span.duration());
        let ports = ports(matches)?;
        let roles = ports.iter().zip([PortRole::Source, PortRole::Sink]);
        let opening = PortOpening::of(matches).with_roles(roles, Vec::new())?;
        Ok(Self {
            ports,
            opening,
            limits: limits(matches),
            hold: matches.get_flag("hold"),
            copy: matches.get_flag("copy"),
            burst: matches.get_one("burst").copied().unwrap_or(1024),
            link_wait: span("wait").unwrap_or_default(),
            period: flags::period_of(matches),
            duration: span("duration"),
            max_duplicates: matches.get_one("max-duplicates").copied(),
        })
    }
}

fn limits(matches: &ArgMatches) -> DedupLimits {
    let window_ns = matches.get_one::<TimeSpan>("window").map_or(0, |span| span.nanos());
    let frames = matches.get_one::<Count>("fifo").map_or(0, |count| count.0);
    let bytes = matches.get_one::<ByteCount>("memory").map(|bytes| bytes.0);
    let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    DedupLimits {
        window_ns: Some(window_ns).filter(|&ns| ns > 0),
        frames: Some(whole(frames)).filter(|&frames| frames > 0),
        bytes: bytes.map_or(DedupLimits::DEFAULT_BYTES, whole),
    }
}

fn ports(matches: &ArgMatches) -> Result<[PortName; 2], Failure> {
    let named = |id: &str| matches.get_many::<PortName>(id).into_iter().flatten().cloned();
    let ports: Vec<_> = named("interface").chain(named("words")).collect();
    let count = ports.len();
    let ports: [PortName; 2] = ports.try_into().map_err(|_| wrong_ports(count))?;
    if ports[0] == ports[1] {
        let name = shown(matches);
        let error = Diagnostic::new(codes::SR0002, format!("port {name} is given twice"));
        return Err(error
            .with_help("frames go from one port to another: name two that differ")
            .into());
    }
    Ok(ports)
}

/// Returns the first port as it was typed.
fn shown(matches: &ArgMatches) -> String {
    let raw = |id| matches.get_raw(id).and_then(|mut all| all.next());
    let typed = raw("interface").or_else(|| raw("words"));
    typed.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn wrong_ports(count: usize) -> Diagnostic {
    let (code, summary) = match count {
        0 | 1 => (codes::SR0006, format!("missing: --interface <PORT>, given {count} of 2 times")),
        _ => (codes::SR0004, "more than two ports are given".to_owned()),
    };
    Diagnostic::new(code, summary)
        .with_cause("frames come from the first port and go to the second")
        .with_help("name two: slipring dedup -i netmap:eth0 -i netmap:eth1")
}
