//! The flags of `slipring emulate ctl`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Command, ValueHint, value_parser};
use slipring_cli::flags;
use slipring_cli::units::{TimeSpan, UnitError};

/// The command's name after `slipring emulate`.
pub(crate) const COMMAND_NAME: &str = "ctl";

const EXAMPLES: &str = "\
Examples:
  slipring emulate ctl set up.delay=40ms down.rate=20Mbit
  slipring emulate ctl set --at +10s up.loss=1%
  slipring emulate ctl script --name lab handover.toml
  slipring emulate ctl stats --json";

/// Name of a request, its purpose, and its usage examples.
type CtlCommand = (&'static str, &'static str, &'static str);

const SET_COMMAND: CtlCommand = (
    "set",
    "Change settings, all at one time or none",
    "\
Examples:
  slipring emulate ctl set up.delay=40ms down.rate.bps=20Mbit
  slipring emulate ctl set 'up.delay=normal(20ms, 3ms)' up.loss=none
  slipring emulate ctl set --at +10s up.loss=1%",
);
const GET_COMMAND: CtlCommand = (
    "get",
    "Show the settings that hold",
    "\
Examples:
  slipring emulate ctl get > link.toml
  slipring emulate ctl get up.delay --name lab",
);
const SCRIPT_COMMAND: CtlCommand = (
    "script",
    "Hand in changes at times from now: [[at]] with t and set",
    "\
Examples:
  slipring emulate ctl script handover.toml

  where handover.toml has, for each change:
    [[at]]
    t = \"10s\"
    set = { \"up.delay\" = \"60ms\", \"up.loss\" = \"1%\" }",
);
const WATCH_COMMAND: CtlCommand = (
    "watch",
    "Show the figures again and again, as JSON lines",
    "\
Examples:
  slipring emulate ctl watch
  slipring emulate ctl watch --period 100ms --name lab | jq .in_flight",
);

/// Commands without arguments.
const PLAIN_COMMANDS: [CtlCommand; 7] = [
    (
        "stats",
        "Show what was asked and what was measured",
        "Examples:\n  slipring emulate ctl stats\n  slipring emulate ctl stats --json --name lab",
    ),
    (
        "explain",
        "Show the effective figures, after all rounding",
        "Examples:\n  slipring emulate ctl explain\n  slipring emulate ctl explain --json",
    ),
    (
        "stop-script",
        "Take back every change that is still to come",
        "Examples:\n  slipring emulate ctl stop-script",
    ),
    (
        "undo",
        "Go back to the settings before the last change, or the last script",
        "Examples:\n  slipring emulate ctl undo\n  slipring emulate ctl undo --name lab",
    ),
    (
        "history",
        "Show every change, its time and what it changed",
        "Examples:\n  slipring emulate ctl history\n  slipring emulate ctl history --json",
    ),
    ("hello", "Show which run answers", "Examples:\n  slipring emulate ctl hello --name lab"),
    ("quit", "End the run with its summary", "Examples:\n  slipring emulate ctl quit --name lab"),
];

/// The flag table of `ctl`.
pub(crate) fn command() -> Command {
    let name = Arg::new("name")
        .long("name")
        .value_name("NAME")
        .help("Name or process number of the run [default: the only one]");
    let command = Command::new(COMMAND_NAME).about("Ask and change a running emulator").arg(name);
    let command = command.after_help(EXAMPLES);
    let command =
        flags::run_dir(flags::reporting_as("emulate", command)).mut_args(|arg| arg.global(true));
    let words = [
        ctl_command(SET_COMMAND).args(changes()),
        ctl_command(GET_COMMAND).arg(
            Arg::new("path").value_name("PATH").help("Show only this setting and those below it"),
        ),
        ctl_command(SCRIPT_COMMAND).arg(file()),
        ctl_command(WATCH_COMMAND).arg(period()),
    ];
    command
        .subcommand_required(true)
        .subcommands(words)
        .subcommands(PLAIN_COMMANDS.map(ctl_command))
}

fn ctl_command((name, about, examples): CtlCommand) -> Command {
    Command::new(name).about(about).after_help(examples)
}

fn changes() -> [Arg; 2] {
    [
        Arg::new("change")
            .value_name("PATH=VALUE")
            .num_args(1..)
            .required(true)
            .help("A setting and its value: link.up.rate.bps=20Mbit down.delay=40ms"),
        Arg::new("at")
            .long("at")
            .value_name("TIME")
            .allow_hyphen_values(true)
            .help("+2s: in two seconds; 10s: ten seconds after the start [default: now]"),
    ]
}

fn file() -> Arg {
    Arg::new("file")
        .value_name("FILE")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .help("TOML file of [[at]] blocks")
}

fn period() -> Arg {
    Arg::new("period")
        .long("period")
        .value_name("TIME")
        .default_value("1s")
        .allow_hyphen_values(true)
        .value_parser(seconds)
        .help("Time between two reports [default unit: s]")
}

fn seconds(text: &str) -> Result<TimeSpan, UnitError> {
    TimeSpan::parse(text, Duration::from_secs(1))
}
