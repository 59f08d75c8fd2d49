//! The flags of `slipring bench`, which two programs read: `slipring`, for help, manual and
//! completions, and `slipring-bench`, which measures.

use std::time::Duration;

use clap::{Arg, ArgAction, Command};

use crate::flags;
use crate::units::TimeSpan;

/// The program that measures.
pub const BENCH_PROGRAM: &str = "slipring-bench";

const EXAMPLES: &str = "\
Examples:
  slipring bench --list
  slipring bench pipe --runs 3";

/// The flag table.
#[must_use]
pub fn command() -> Command {
    let seconds = |text: &str| TimeSpan::parse(text, Duration::from_secs(1));
    let command = Command::new("bench")
        .about("Measure ports and pipes beside the machine's floors and other programs")
        .after_help(EXAMPLES)
        .args([
            Arg::new("rows")
                .value_name("ROW")
                .num_args(0..)
                .help("Rows to measure, by the start of their names [default: all]"),
            Arg::new("runs")
                .long("runs")
                .value_name("N")
                .default_value("5")
                .value_parser(clap::value_parser!(u32).range(1..=1000))
                .help("Turns of each contender; the median counts"),
            Arg::new("seconds")
                .long("seconds")
                .value_name("TIME")
                .default_value("0.5")
                .value_parser(seconds)
                .help("Time of each turn, at most 60 s [default unit: s]"),
            Arg::new("peers")
                .long("peers")
                .value_name("WHICH")
                .default_value("all")
                .value_parser(["all", "none"])
                .help("Measure floors and other programs too, as far as they are installed"),
            Arg::new("full")
                .long("full")
                .action(ArgAction::SetTrue)
                .help("Also rows with longer frames or batches, and with full routing tables"),
            Arg::new("gate")
                .long("gate")
                .action(ArgAction::SetTrue)
                .help("Fail (1) when a goal is missed"),
            Arg::new("list").long("list").action(ArgAction::SetTrue).help("List the rows and stop"),
            // `slipring-bench` starts itself with this flag as a helper process; the value says
            // what the helper does.
            Arg::new("part").long("part").value_name("PART").hide(true),
        ]);
    flags::reporting(command)
}
