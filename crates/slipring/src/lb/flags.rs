//! The flags of `slipring lb`, and the plan made from them.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use slipring_abi::name::PortName;
use slipring_cli::units::{Count, TimeSpan};
use slipring_cli::{Failure, flags, metrics};
use slipring_port::WaitStrategy;

use super::groups::{PipeGroup, groups};
use super::settings::LbSettings;
use super::{LbPlan, outputs};
use slipring_datapath::opening::{self, PortOpening, PortRole};

const EXAMPLES: &str = "\
Examples:
  slipring lb -i kernel:eth0 -p 4
  slipring lb -i netmap:eth0 --outputs 'tap:a tap:b tap:c'
  slipring lb -i netmap:eth0 --outputs 'packet:eth1 packet:eth2' --outputs pcap:all.pcap -B 4096";

pub(super) fn command() -> Command {
    let seconds = |text: &str| TimeSpan::parse(text, Duration::from_secs(1));
    let value = |id: &'static str, name: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(name).help(help)
    };
    let switch = |id: &'static str, help: &'static str| {
        Arg::new(id).long(id).action(ArgAction::SetTrue).help(help)
    };
    let number = clap::value_parser!(u32).range(1..=65_535);
    let command =
        Command::new("lb").about("Spread the flows of a port over groups of outputs").args([
            flags::with_note(
                flags::port().required(true).value_parser(PortName::parse_classic),
                "its frames are spread",
            ),
            value("pipes", "[PREFIX:]N", "A group of N pipes, named after the prefix or the port")
                .short('p')
                .action(ArgAction::Append)
                .value_parser(str::parse::<PipeGroup>),
            value(
                "device",
                "PATH",
                "The netmap device that has these pipes; by default the input's",
            )
            .value_hint(ValueHint::FilePath),
            value("outputs", "PORTS", "A group of these ports, separated by blanks")
                .action(ArgAction::Append),
            value(
                "extra-bufs",
                "N",
                "Maximum number of frames that wait for full outputs; 0 drops them",
            )
            .short('B')
            .default_value("0")
            .value_parser(str::parse::<Count>),
            value("batch", "SLOTS", "Maximum number of slots taken at a time")
                .short('b')
                .default_value("2048")
                .value_parser(number),
            flags::with_note(
                flags::threads(256),
                "each has queues of the input and a ring of each output",
            ),
            switch("consistent", "When an output is added or removed, move only its own flows"),
            switch("inner", "Hash the frames inside VXLAN, Geneve and GRE, not the outer headers"),
            flags::with_note(
                flags::seed(),
                "the key of the hash; random by default, and 0 with --consistent",
            ),
            flags::link_wait().default_value("2"),
            switch("busy-wait", "The same as --spin").short('W').conflicts_with("sleep"),
            value(
                "stdout-stats",
                "TIME",
                "Write classic JSON to stdout this often; 0 for never [default unit: s]",
            )
            .short('o')
            .default_value("0")
            .value_parser(seconds),
            value(
                "syslog-stats",
                "TIME",
                "Write classic JSON to the system log this often; 0 for never [default unit: s]",
            )
            .short('s')
            .default_value("0")
            .value_parser(seconds),
            flags::period(),
            flags::duration(),
        ]);
    let command = flags::configuration(flags::reporting(metrics::flag(opening::flags(command))));
    command.after_help(EXAMPLES)
}

impl LbPlan {
    pub(super) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let span = |id: &str| matches.get_one::<TimeSpan>(id).map(|span| span.duration());
        let often = |id: &str| span(id).filter(|span| !span.is_zero());
        let input: PortName =
            matches.get_one("interface").cloned().expect("the parser insists on -i");
        let pipes = matches.get_many::<PipeGroup>("pipes").into_iter().flatten().cloned().collect();
        let listed: Vec<String> =
            matches.get_many("outputs").into_iter().flatten().cloned().collect();
        let mut opening = PortOpening::of(matches);
        if matches.get_flag("busy-wait") {
            opening.wait_policy = WaitStrategy::Spin;
        }
        let groups = groups(&input, pipes, matches.get_one("device"), &listed)?;
        let sinks = outputs(&groups).map(|port| (port, PortRole::Sink));
        let roles = std::iter::once((&input, PortRole::Source)).chain(sinks);
        let opening = opening.with_roles(roles, Vec::new())?;
        Ok(Self {
            groups,
            input,
            opening,
            settings: settings(matches),
            link_wait: span("wait").unwrap_or_default(),
            to_stdout: often("stdout-stats"),
            to_syslog: often("syslog-stats"),
            period: flags::period_of(matches),
            duration: span("duration"),
        })
    }
}

fn settings(matches: &ArgMatches) -> LbSettings {
    let count = |id: &str| matches.get_one::<Count>(id).map(|count| count.0);
    let number = |id: &str| matches.get_one::<u32>(id).copied().unwrap_or(1);
    let is_consistent = matches.get_flag("consistent");
    let known_key = count("seed").or(is_consistent.then_some(0));
    LbSettings {
        batch: number("batch"),
        backlog: usize::try_from(count("extra-bufs").unwrap_or(0)).unwrap_or(usize::MAX),
        threads: matches.get_one::<u16>("threads").copied().unwrap_or(1),
        key: known_key.unwrap_or_else(slipring_ring::secret_word),
        shows_key: known_key.is_some(),
        is_consistent,
        looks_inside: matches.get_flag("inner"),
    }
}
