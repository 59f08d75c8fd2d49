//! The command-line flags of `slipring firewall`, and the plan that results from them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use slipring_abi::name::PortName;
use slipring_cli::codes::{SR0002, SR0006};
use slipring_cli::units::{Count, TimeSpan};
use slipring_cli::{Diagnostic, Failure, flags, metrics};
use slipring_datapath::files::RunFile;
use slipring_datapath::opening::{self, PortOpening};
use slipring_ipfw::run::NonIpPolicy;

use crate::bench::RuleBenchSource;
use crate::captures;
use crate::dataplane::{PortMap, PortMapError, RuleCheckPasses};

const EXAMPLES: &str = "\
Examples:
  slipring firewall netmap:eth0 netmap:eth1 --rules /etc/slipring/rules
  slipring firewall tap:a tap:b tap:c --map 1=2,3 --map 2=1 --map 3=1
  slipring firewall --bench=1000x64 --rules /etc/slipring/rules
  slipring firewall tap:a tap:b --name edge --default accept";

pub(crate) fn command() -> Command {
    let command = Command::new("firewall")
        .about("Pass frames between ports by ipfw's rules, through dummynet's pipes")
        .args([
            flags::with_note(
                flags::port().action(ArgAction::Append).value_parser(PortName::parse_classic),
                "twice or more",
            ),
            Arg::new("words")
                .value_name(flags::PORT_VALUE)
                .num_args(0..)
                .value_parser(PortName::parse_classic)
                .help("Ports as with -i"),
        ])
        .args(about_rules())
        .args([
            flags::run_name(),
            value("log", "FILE", "Where rules with `log` write [default: standard error]")
                .value_hint(ValueHint::FilePath)
                .value_parser(clap::value_parser!(PathBuf)),
            value(
                "bench",
                "SOURCE",
                "Measure the rules by themselves, without ports: frames of FLOWS[xBYTES] or of a capture",
            )
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("1"),
            flags::with_note(flags::seed(), "not of nat's ports; drawn by default"),
            flags::copy(),
            flags::burst().default_value("256"),
            flags::with_note(flags::threads(64), "they check them, beside one at the ports"),
            flags::link_wait().default_value("2"),
            flags::period(),
            flags::with_note(flags::duration(), "0 is never with --bench"),
        ]);
    let command = flags::configuration(flags::reporting(metrics::flag(opening::flags(command))));
    let command = flags::run_dir(command);
    command.after_help(EXAMPLES)
}

fn value(id: &'static str, name: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).value_name(name).help(help)
}

/// Returns the flags that concern the rules, or which frames the rules check.
fn about_rules() -> [Arg; 9] {
    [
        value("rules", "FILE", "Commands of ipfw to begin with, again with each HUP")
            .short('R')
            .value_hint(ValueHint::FilePath)
            .value_parser(clap::value_parser!(PathBuf)),
        value("state", "FILE", "Store changed rules in FILE; begin with its rules if it exists")
            .value_hint(ValueHint::FilePath)
            .value_parser(clap::value_parser!(PathBuf)),
        Arg::new("state-dynamic")
            .long("state-dynamic")
            .action(ArgAction::SetTrue)
            .requires("state")
            .help("Store states of flows in that file, too, at the end and with each change"),
        value("map", "FROM=TO", "Where frames of a port go, by number: 1=2,3 [two ports: 1=2 2=1]")
            .short('m')
            .action(ArgAction::Append),
        value(
            "passes",
            "WHEN",
            "When frames are checked; auto is in, and out if rules ask for directions",
        )
        .value_parser(["auto", "in", "both"])
        .default_value("auto"),
        value(
            "default",
            "ACTION",
            "What the last rule, 65535, does [default: deny; as kipfw: accept]",
        )
        .value_parser(["deny", "accept"]),
        value("arp", "WHAT", "Whether ARP and RARP pass, or are checked by the rules")
            .value_parser(["pass", "rules"])
            .default_value("pass"),
        value("non-ip", "WHAT", "What becomes of frames that are neither IP nor ARP")
            .value_parser(["rules", "pass", "drop"])
            .default_value("rules"),
        value("me", "ADDRESS", "An address that `me` means, or of a port: ADDRESS=NUMBER")
            .action(ArgAction::Append),
    ]
}

/// The parsed command line.
pub(crate) struct FirewallPlan {
    pub(crate) ports: Vec<PortName>,
    pub(crate) opening: PortOpening,
    pub(crate) map: PortMap,
    pub(crate) passes: RuleCheckPasses,
    pub(crate) bench: Option<RuleBenchSource>,
    /// The value of `--default`: whether the last rule accepts. `None` if the flag was not given;
    /// then the program's name (`kipfw` or not) decides.
    pub(crate) is_open: Option<bool>,
    pub(crate) arp_meets_rules: bool,
    pub(crate) non_ip: NonIpPolicy,
    pub(crate) me: Vec<(std::net::IpAddr, Option<u16>)>,
    pub(crate) rules: Option<PathBuf>,
    pub(crate) state: Option<PathBuf>,
    /// Whether the state file also contains the dynamic states.
    pub(crate) persists_states: bool,
    pub(crate) name: Option<String>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) seed: Option<u64>,
    pub(crate) copy: bool,
    pub(crate) burst: u32,
    pub(crate) threads: u16,
    pub(crate) link_wait: Duration,
    pub(crate) period: Option<Duration>,
    pub(crate) duration: Option<Duration>,
}

impl FirewallPlan {
    pub(crate) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let names = |id: &str| matches.get_many(id).into_iter().flatten().cloned();
        let ports: Vec<PortName> = names("interface").chain(names("words")).collect();
        let bench = matches
            .get_one::<String>("bench")
            .map(|text| RuleBenchSource::read(text))
            .transpose()?;
        // With `--bench`, no port is opened: the port arguments are only names for the rules.
        let ports = match (&bench, ports.len()) {
            (Some(_), 0) => {
                vec![PortName::parse_classic("null:")?, PortName::parse_classic("null:")?]
            }
            (_, 0 | 1) => return Err(too_few(ports.len()).into()),
            _ => ports,
        };
        let words = |id: &str| matches.get_many::<String>(id).into_iter().flatten();
        let map = PortMap::read(words("map").map(String::as_str), ports.len()).map_err(no_map)?;
        let me = words("me").map(|text| address(text, ports.len())).collect::<Result<_, _>>()?;
        let span = |id: &str| matches.get_one::<TimeSpan>(id).map(|span| span.duration());
        let roles = captures::roles(&ports, &map);
        let opening = PortOpening::of(matches).with_roles(roles, files(matches))?;
        Ok(Self {
            ports,
            opening,
            map,
            bench,
            passes: match matches.get_one::<String>("passes").map(String::as_str) {
                Some("in") => RuleCheckPasses::In,
                Some("both") => RuleCheckPasses::Both,
                _ => RuleCheckPasses::Auto,
            },
            is_open: matches.get_one::<String>("default").map(|word| word == "accept"),
            arp_meets_rules: matches.get_one::<String>("arp").is_some_and(|word| word == "rules"),
            non_ip: match matches.get_one::<String>("non-ip").map(String::as_str) {
                Some("pass") => NonIpPolicy::Pass,
                Some("drop") => NonIpPolicy::Drop,
                _ => NonIpPolicy::Rules,
            },
            me,
            rules: matches.get_one("rules").cloned(),
            state: matches.get_one("state").cloned(),
            persists_states: matches.get_flag("state-dynamic"),
            name: matches.get_one("name").cloned(),
            log: matches.get_one("log").cloned(),
            seed: matches.get_one::<Count>("seed").map(|count| count.0),
            copy: matches.get_flag("copy"),
            burst: matches.get_one("burst").copied().unwrap_or(256),
            threads: matches.get_one("threads").copied().unwrap_or(1),
            link_wait: span("wait").unwrap_or_default(),
            period: flags::period_of(matches),
            duration: span("duration"),
        })
    }
}

/// Returns the files that the firewall reads and writes, apart from its ports.
fn files(matches: &ArgMatches) -> Vec<RunFile> {
    let path = |id: &str| matches.get_one::<PathBuf>(id);
    let written = ["state", "log"].into_iter().filter_map(path).map(|path| RunFile::written(path));
    path("rules").map(|path| RunFile::read(path)).into_iter().chain(written).collect()
}

fn address(text: &str, ports: usize) -> Result<(std::net::IpAddr, Option<u16>), Failure> {
    let (address, port) = text.split_once('=').map_or((text, None), |(a, p)| (a, Some(p)));
    let wrong = || {
        Diagnostic::new(SR0002, format!("`{text}` is no address of this firewall"))
            .with_cause("it is an IP address, or one with the number of the port that has it")
            .with_help("write: --me 192.0.2.1 or --me 192.0.2.1=1")
    };
    let number = |text: &str| {
        let number = text.parse::<u16>().ok().filter(|&n| n >= 1 && usize::from(n) <= ports);
        number.map(|n| n - 1).ok_or_else(wrong)
    };
    Ok((address.parse().map_err(|_| wrong())?, port.map(number).transpose()?))
}

fn too_few(count: usize) -> Diagnostic {
    let summary = if count == 0 { "missing: PORT PORT" } else { "one port is not enough" };
    Diagnostic::new(SR0006, summary)
        .with_cause("a firewall stands between two ports or more")
        .with_help("name two: slipring firewall netmap:eth0 netmap:eth1")
}

fn no_map(error: PortMapError) -> Failure {
    Diagnostic::new(SR0002, error.to_string())
        .with_cause("--map says, by the numbers of the ports, where the frames of each one go")
        .with_help("write: --map 1=2,3 --map 2=1 --map 3=1")
        .into()
}
