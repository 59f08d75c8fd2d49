//! The flags of `slipring route`, and the plan that they describe.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use slipring_cli::codes::{SR0003, SR0006};
use slipring_cli::units::TimeSpan;
use slipring_cli::{Diagnostic, Failure, flags, metrics};

use crate::compat::CompatSettings;
use crate::ctl;
use crate::io_choice::IoChoice;

const EXAMPLES: &str = "\
Examples:
  slipring route eth0 eth1
  slipring route eth0 eth1 eth2 --name edge --metrics 127.0.0.1:9477
  slipring route eth0 eth1 --rules firewall.rules
  slipring route eth0 eth1.100 eth1.100.7
  slipring route eth0 eth1 --compat
  slipring route ctl status
  slipring route ctl route get 192.0.2.1";

pub(crate) fn command() -> Command {
    let command = Command::new("route")
        .about("Forward between interfaces by the kernel's routes, with the kernel as fallback")
        .args([
            Arg::new("interface")
                .value_name("INTERFACE")
                .num_args(0..)
                .help("Interfaces to forward between, two or more"),
            Arg::new("io")
                .long("io")
                .value_name("ENGINE")
                .value_parser(IoChoice::NAMES)
                .default_value("auto")
                .help("Where packets are forwarded: in XDP, or by threads behind AF_XDP or packet sockets"),
            // By default as many as there are queues and CPUs.
            flags::with_note(flags::threads(1024), "with --io xsk or packet")
                .default_value(Resettable::Reset),
            switch(
                "no-fallback",
                "Start even if the kernel would not forward in the router's place",
            ),
            switch(
                "bypass-netfilter",
                "Forward past rules, policies and queueing that the kernel would apply",
            ),
            Arg::new("max-routes")
                .long("max-routes")
                .value_name("COUNT")
                .value_parser(clap::value_parser!(u32).range(1..))
                .default_value("4000000")
                .help("Maximum number of routes; destinations of others are left to the kernel"),
            Arg::new("rules")
                .long("rules")
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(clap::value_parser!(PathBuf))
                .help("ipfw rules for forwarded packets; what no rule matches is dropped"),
            switch("compat", "Offer netmap-fwd's command socket, and print what it prints"),
            Arg::new("compat-config")
                .long("compat-config")
                .short('f')
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(clap::value_parser!(PathBuf))
                .help("netmap-fwd's configuration, with --compat"),
            switch("no-host-ring", "Flag of netmap-fwd without effect: the kernel stays")
                .short('H'),
            flags::with_note(flags::burst(), "flag of netmap-fwd without effect"),
            Arg::new("vlan-priorities")
                .long("vlan-priorities")
                .value_name("PCP,…")
                .value_parser(priorities)
                .help("Priorities of VLAN frames for DSCP class selectors 0 to 7 [default: all 0]"),
            flags::run_name(),
            flags::period(),
            flags::duration(),
        ]);
    let command = flags::configuration(flags::reporting(metrics::flag(command)));
    flags::run_dir(command)
        .subcommand(ctl::command())
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .after_help(EXAMPLES)
}

/// Parses eight priority code points.
fn priorities(text: &str) -> Result<[u8; 8], String> {
    let points = text.split(',').map(|point| point.parse().ok().filter(|point: &u8| *point < 8));
    let points = points.collect::<Option<Vec<_>>>();
    points
        .and_then(|points| points.try_into().ok())
        .ok_or_else(|| "eight numbers from 0 to 7 are needed, as in 0,1,2,3,4,5,6,7".to_owned())
}

fn switch(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).action(ArgAction::SetTrue).help(help)
}

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct RoutePlan {
    pub(crate) interfaces: Vec<String>,
    pub(crate) io: IoChoice,
    /// Maximum number of workers of the engine in user space.
    pub(crate) threads: Option<usize>,
    /// Whether the kernel need not be able to forward.
    pub(crate) no_fallback: bool,
    /// Whether stages of the kernel may be bypassed.
    pub(crate) bypass: bool,
    pub(crate) max_routes: u32,
    /// The file of the rules that forwarded packets meet.
    pub(crate) rules: Option<PathBuf>,
    /// Priorities of tagged frames, by the class selector of the DSCP.
    pub(crate) priorities: [u8; 8],
    pub(crate) name: Option<String>,
    pub(crate) period: Option<Duration>,
    pub(crate) duration: Option<Duration>,
    /// netmap-fwd's interface, if it is wanted.
    pub(crate) compat: Option<CompatSettings>,
}

impl RoutePlan {
    pub(crate) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let interfaces: Vec<String> =
            matches.get_many("interface").into_iter().flatten().cloned().collect();
        check_names(&interfaces)?;
        let compat = CompatSettings::of(matches)?;
        // netmap-fwd reports nothing while it runs.
        let is_typed = matches.value_source("period") == Some(ValueSource::CommandLine);
        let reports = compat.is_none() || is_typed;
        let io = matches.get_one::<String>("io").map_or(IoChoice::Auto, |name| IoChoice::of(name));
        let threads = matches.get_one::<u16>("threads").map(|count| usize::from(*count));
        let rules: Option<PathBuf> = matches.get_one("rules").cloned();
        let (io, threads) = if rules.is_some() { for_rules(io, threads)? } else { (io, threads) };
        Ok(Self {
            interfaces,
            io,
            threads,
            rules,
            no_fallback: matches.get_flag("no-fallback"),
            bypass: matches.get_flag("bypass-netfilter"),
            max_routes: matches.get_one("max-routes").copied().unwrap_or(4_000_000),
            priorities: matches.get_one("vlan-priorities").copied().unwrap_or_default(),
            name: matches.get_one("name").cloned(),
            period: flags::period_of(matches).filter(|_| reports),
            duration: matches.get_one::<TimeSpan>("duration").map(|span| span.duration()),
            compat,
        })
    }
}

/// The engine and the number of threads that a router with rules has: states and limits of rules
/// must see all packets of a flow.
fn for_rules(io: IoChoice, threads: Option<usize>) -> Result<(IoChoice, Option<usize>), Failure> {
    let (flag, cause, help) = match (io.for_rules(), threads) {
        (Some(io), None | Some(1)) => return Ok((io, Some(1))),
        (None, _) => (
            "--io",
            "rules are executed by a thread, and this engine forwards in XDP",
            "leave out --io, or choose threads: --io xsk",
        ),
        (Some(_), _) => (
            "--threads",
            "one thread executes rules, so that it sees all packets of a flow",
            "leave out --threads",
        ),
    };
    let what = format!("--rules does not go together with this value of {flag}");
    Err(Diagnostic::new(SR0003, what).with_cause(cause).with_help(help).into())
}

fn check_names(interfaces: &[String]) -> Result<(), Failure> {
    if interfaces.len() < 2 {
        return Err(Diagnostic::new(SR0006, "a router needs two interfaces")
            .with_cause(format!("{} given", interfaces.len()))
            .with_help("name the interfaces to forward between: slipring route eth0 eth1")
            .into());
    }
    let twice = interfaces.iter().enumerate().find(|(at, name)| interfaces[..*at].contains(name));
    twice.map_or(Ok(()), |(_, name)| {
        Err(Diagnostic::new(SR0003, format!("{name} is given twice"))
            .with_help("name each interface once: slipring route eth0 eth1")
            .into())
    })
}
