//! The flags of `slipring route`.

use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Arg, ArgAction, Command, ValueHint};
use slipring_cli::{flags, metrics};

use crate::ctl;
use crate::io_choice::IoChoice;
use crate::plan::{CONFIG_FLAG, PRINT_FLAG};
use crate::sandbox::SandboxUser;

const EXAMPLES: &str = "\
Examples:
  slipring route eth0 eth1
  slipring route eth0 eth1 eth2 --name edge --metrics 127.0.0.1:9477
  slipring route eth0 eth1 --rules firewall.rules
  slipring route --config edge.toml --check
  slipring route eth0 eth1 --name edge --takeover
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
            // The default is one thread per queue, but not more threads than CPUs.
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
            switch("takeover", "Take over from the running router, which ends without losing a packet"),
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
            Arg::new(CONFIG_FLAG)
                .long("config")
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(clap::value_parser!(PathBuf))
                .help("Read interfaces, rules and limits from a TOML file; the command line wins"),
            switch(PRINT_FLAG, "Print all settings as such a file and stop").long("print-config"),
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
            Arg::new("user")
                .long("user")
                .value_name("USER")
                .value_parser(SandboxUser::find)
                .help("Become this user, by name or number, before packets are forwarded"),
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
