//! The flags of `slipring gen`: pkt-gen's letters, each with a long name, and slipring's own.

use clap::{Arg, ArgAction, Command, ValueHint, value_parser};
use slipring_abi::name::PortName;
use slipring_cli::units::{Count, RateUnit, RateWithUnit, Ratio};
use slipring_cli::{flags, metrics};
use slipring_traffic::{Endpoints, Fraction};
use slipring_wire::MacAddr;

use slipring_datapath::opening;

const EXAMPLES: &str = "\
Examples:
  slipring gen -i netmap:eth0 -f tx -R 1Mpps -l 64
  slipring gen -i netmap:eth1 -f rx
  slipring gen -i pcap:out.pcap -f tx -n 500 --rate 1kpps --seed 1";

/// The table of flags.
pub(super) fn command() -> Command {
    let command = Command::new("gen")
        .about("Send and receive packets at a set rate; count loss, order and latency")
        .after_help(EXAMPLES)
        .args(basic_flags())
        .args(frames())
        .args(pace())
        .args(threads())
        .args(capture())
        .args(reports())
        .args(expectations())
        .args(old());
    flags::configuration(flags::reporting(metrics::flag(opening::flags(command))))
}

fn value(id: &'static str, short: char, name: &'static str, help: &'static str) -> Arg {
    own(id, name, help).short(short)
}

fn own(id: &'static str, name: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).value_name(name).help(help)
}

fn switch(id: &'static str, short: char, help: &'static str) -> Arg {
    Arg::new(id).long(id).short(short).action(ArgAction::SetTrue).help(help)
}

fn rate(text: &str) -> Result<RateWithUnit, slipring_cli::units::UnitError> {
    RateWithUnit::parse(text, RateUnit::Packets)
}

fn basic_flags() -> [Arg; 5] {
    [
        flags::port().required(true).value_parser(PortName::parse_classic),
        value("function", 'f', "FUNCTION", "What to do with the port")
            .value_parser(["tx", "rx", "ping", "pong", "txseq", "rxseq"])
            .default_value("rx"),
        own(
            "sink",
            flags::PORT_VALUE,
            "Receive on this second port what is sent, in a thread of its own",
        )
        .value_parser(PortName::parse_classic),
        value("count", 'n', "N", "Stop after N packets; 0 for never")
            .value_parser(str::parse::<Count>)
            .default_value("0"),
        flags::duration().short(None),
    ]
}

fn frames() -> Vec<Arg> {
    let frames = [
        value("size", 'l', "SIZE", "Bytes per frame without CRC: 60, 60-1514, imix or 60:7,590:4; a second one is a random minimum")
            .action(ArgAction::Append),
        value("dst", 'd', "RANGE", "Destination address and port, or ranges [default: 10.1.0.1:1234]")
            .value_parser(str::parse::<Endpoints>),
        value("src", 's', "RANGE", "Source address and port, or ranges [default: 10.0.0.1:1234]")
            .value_parser(str::parse::<Endpoints>),
        value("dst-mac", 'D', "MAC", "Destination MAC address")
            .value_parser(str::parse::<MacAddr>)
            .default_value("ff:ff:ff:ff:ff:ff"),
        value("src-mac", 'S', "MAC", "Source MAC address [default: the port's]")
            .value_parser(str::parse::<MacAddr>),
        switch("ipv4", '4', "Send IPv4 [default: as the addresses are]").conflicts_with("ipv6"),
        switch("ipv6", '6', "Send IPv6"),
        switch("random-src", 'z', "Draw each source at random, from its range or from all"),
        switch("random-dst", 'Z', "Draw each destination at random, from its range or from all"),
        own("proto", "PROTO", "Header above IP; icmp sends echo requests")
            .value_parser(["udp", "tcp", "icmp"])
            .default_value("udp"),
        own("vlan", "VID[:PRIO]", "VLAN tag; twice for an outer and an inner one").action(ArgAction::Append),
        own("ttl", "N", "Time to live, or hop limit").value_parser(value_parser!(u8)).default_value("64"),
        own("tos", "N", "Type of service, or traffic class").value_parser(value_parser!(u8)).default_value("0"),
        flags::seed().default_value("1"),
        own("stream", "N", "Number of the first thread's stream, to tell several senders apart")
            .value_parser(value_parser!(u16))
            .default_value("0"),
        value("fragments", 'F', "N", "Spread each frame over N slots")
            .value_parser(value_parser!(u16).range(1..=64))
            .default_value("1")
            .conflicts_with("fragment-size"),
        value("fragment-size", 'M', "BYTES", "Maximum number of bytes of a frame in one slot")
            .value_parser(value_parser!(u16).range(16..)),
        switch("uninitialised", 'r', "Send the buffers as they are, without writing frames"),
        value(
            "vnet-header",
            'H',
            "BYTES",
            "Bytes of the virtio-net header that a tap: port has before each frame",
        )
        .value_parser(["0", "10", "12"])
        .default_value("0"),
    ];
    frames.map(|arg| arg.help_heading("Frames")).into()
}

fn pace() -> [Arg; 2] {
    [
        value(
            "rate",
            'R',
            "RATE",
            "Packets per second, or bits with a unit: 1Mpps, 10Gbit; 0 for the highest possible",
        )
        .value_parser(rate)
        .default_value("0"),
        value(
            "burst",
            'b',
            "N",
            "Maximum number of packets between two syncs [default: 512; ping and pong 1]",
        )
        .value_parser(value_parser!(u32).range(1..=65_536)),
    ]
}

fn threads() -> Vec<Arg> {
    let threads = [
        flags::with_note(
            flags::threads(1024),
            "each sends on one queue, and received queues are dealt out",
        )
        .short('p'),
        value("cpus", 'c', "N", "CPUs to spread the threads over, 0 for all; needs -a")
            .value_parser(value_parser!(u32).range(0..=4096))
            .default_value("1"),
        value("affinity", 'a', "CPU", "Pin thread i to CPU + i modulo -c; -1 for not at all")
            .value_parser(value_parser!(i32).range(-1..4096))
            .allow_negative_numbers(true)
            .default_value("-1"),
    ];
    threads.map(|arg| arg.help_heading("Threads")).into()
}

fn capture() -> Vec<Arg> {
    let capture = [
        value("pcap", 'P', "FILE", "Send the packets of a capture, all of them, over and over")
            .value_hint(ValueHint::FilePath)
            .conflicts_with_all([
                "size",
                "dst",
                "src",
                "proto",
                "vlan",
                "uninitialised",
                "random-src",
                "random-dst",
            ]),
        Arg::new("timed")
            .long("timed")
            .action(ArgAction::SetTrue)
            .requires("pcap")
            .conflicts_with("rate")
            .help("Keep the times of the capture"),
        own("speed", "FACTOR", "Send FACTOR times as fast as recorded: 2, 0.5, 150%")
            .value_parser(str::parse::<Fraction>)
            .requires("timed"),
        own(
            "loops",
            "N",
            "Go N times through the capture; 0 for ever [default: 0, with --timed 1]",
        )
        .value_parser(str::parse::<Count>)
        .requires("pcap"),
    ];
    capture.map(|arg| arg.help_heading("Captures")).into()
}

fn reports() -> Vec<Arg> {
    let reports = [
        flags::period(),
        flags::with_note(flags::link_wait(), "a link without a carrier is not up")
            .default_value("2"),
        switch("exit-when-idle", 'W', "Receive until nothing has come for a second"),
        Arg::new("latency").long("latency").action(ArgAction::SetTrue).help(
            "Measure how old frames are on arrival; senders on this machine stamp each by itself",
        ),
        switch("dump", 'X', "Show every frame on stderr"),
        switch("raw-units", 'N', "Print rates without prefixes"),
        switch("statistics", 'A', "Also print mean and deviation of the last 15 reports"),
        switch("framing", 'B', "Count CRC, preamble and gap too, 24 bytes a frame, in bit rates"),
    ];
    reports.map(|arg| arg.help_heading("Reports")).into()
}

fn expectations() -> [Arg; 2] {
    [
        own("max-loss", "SHARE", "Fail, with status 1, if more than this is lost: 0.1%, 0")
            .value_parser(str::parse::<Ratio>),
        own("min-rate", "RATE", "Fail, with status 1, if the average rate is lower")
            .value_parser(rate),
    ]
    .map(|arg| arg.help_heading("Expectations"))
}

/// Flags of pkt-gen that have no effect here, or the same effect as other flags. They are accepted
/// because scripts pass them.
fn old() -> Vec<Arg> {
    let old = [
        switch("indirect", 'I', "Accepted as by pkt-gen: frames are always written in place"),
        value(
            "options",
            'o',
            "BITS",
            "pkt-gen's option bits: 16 --latency, 64 -X, 256 -r, 512 -z, 1024 -Z, 2048 -A",
        )
        .value_parser(value_parser!(u32))
        .default_value("0"),
        value(
            "config-rings",
            'C',
            "TXS[,RXS[,TXR[,RXR]]]",
            "Slots and rings; better as @conf: in the port's name",
        ),
    ];
    old.map(|arg| arg.help_heading("For compatibility with pkt-gen")).into()
}
