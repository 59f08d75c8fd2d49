//! The flags of `slipring replay`: nmreplay's letters, each with a long name, and slipring's own.

use std::time::Duration;

use clap::{Arg, ArgAction, Command, ValueHint, value_parser};
use slipring_abi::name::PortName;
use slipring_cli::flags;
use slipring_cli::units::{TimeSpan, UnitError};

use super::pace::parse_speed;
use slipring_datapath::opening;
use slipring_emulation::{BurstLimit, links};

const EXAMPLES: &str = "\
Examples:
  slipring replay -f in.pcap -i netmap:eth0
  slipring replay -f in.pcapng -i tap:a --speed 2 --loops 0 -D 20ms
  slipring replay -f in.pcap -i pcap:out.pcapng -D normal,20ms,3ms --seed 7";

/// The table of flags.
pub(super) fn command() -> Command {
    let command = Command::new("replay")
        .about("Send a capture with its own timing, optionally through an emulated link")
        .after_help(EXAMPLES)
        .args(basic_flags())
        .args(timing())
        .args(sending());
    // -B sets the pace, as for nmreplay; the rate of the link has another name.
    let command = links(command)
        .mut_arg("rate", |arg| arg.short(None).long("link-rate"))
        .mut_arg("down", |arg| arg.hide(true));
    flags::configuration(flags::reporting(opening::flags(command)))
}

fn own(id: &'static str, name: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).value_name(name).help(help)
}

fn seconds(text: &str) -> Result<TimeSpan, UnitError> {
    TimeSpan::parse(text, Duration::from_secs(1))
}

fn basic_flags() -> [Arg; 3] {
    [
        own("file", "FILE", "Capture to send: pcap or pcapng")
            .short('f')
            .value_hint(ValueHint::FilePath),
        flags::with_note(
            flags::port().value_parser(PortName::parse_classic),
            "frames are sent to it",
        ),
        own("virtual", "FILE", "Write what would be sent, and when, to a capture instead")
            .value_hint(ValueHint::FilePath)
            .conflicts_with("interface"),
    ]
}

fn timing() -> [Arg; 5] {
    [
        own("speed", "X", "Send X times as fast as recorded: 2, 0.5, 1/3")
            .value_parser(parse_speed)
            .conflicts_with("pace"),
        own(
            "pace",
            "RATE",
            "[const,]BPS or ether,BPS (24 bytes more per frame) or 1Mpps: a fixed rate; \
             real[,SPEED]: as recorded [default: real]",
        )
        .long("rate")
        .short('B'),
        own("loops", "N", "Send the capture N times; 0 for ever [default: 1, nmreplay: 0]")
            .short('l')
            .value_parser(value_parser!(u64)),
        own("max-gap", "TIME", "Shorten longer pauses of the capture to this [default unit: s]")
            .value_parser(seconds),
        own(
            "loop-gap",
            "TIME",
            "Pause between two loops [default: the average gap; default unit: s]",
        )
        .value_parser(seconds),
    ]
}

fn sending() -> [Arg; 5] {
    [
        own("burst", "SIZE", "Maximum number of frames, or bytes (64KiB), sent at a time")
            .short('b')
            .default_value("128")
            .value_parser(BurstLimit::parse),
        flags::link_wait(),
        flags::with_note(flags::cpus(), "one thread sends, and needs one")
            .action(ArgAction::Append),
        flags::period(),
        flags::duration(),
    ]
}
