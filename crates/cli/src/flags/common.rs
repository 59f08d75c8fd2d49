//! The table of the flags that several commands have.
//!
//! Each row is a flag's letter, value and help, written once: `--help`, manual pages, completions
//! and configuration files come from it. A command may add a note ([`with_note`]), and sets the
//! default and how often the flag may be given.
//!
//! Not for flags of one command, which the command defines, flags about opening ports
//! (`slipring_datapath::opening`), and `--metrics` ([`crate::metrics::flag`]).

use std::time::Duration;

use clap::{Arg, ArgAction, value_parser};

use super::PORT_VALUE;
use crate::units::{Count, TimeSpan, UnitError};

/// A flag of the table.
struct FlagRow {
    name: &'static str,
    short: Option<char>,
    /// The name of the flag's value; `None` for a flag without a value.
    value: Option<&'static str>,
    help: &'static str,
}

const fn row(
    name: &'static str,
    short: Option<char>,
    value: Option<&'static str>,
    help: &'static str,
) -> FlagRow {
    FlagRow { name, short, value, help }
}

/// Flags for ports and threads, reports, and the locations of files.
const COMMON_FLAGS: [FlagRow; 18] = [
    row("interface", Some('i'), Some(PORT_VALUE), "Port to open"),
    row("burst", Some('b'), Some("SLOTS"), "Maximum number of slots moved at a time"),
    row("copy", Some('c'), None, "Copy frames, never exchange buffers"),
    row("threads", None, Some("N"), "Threads that move frames"),
    row("cpu", Some('C'), Some("CPUS"), "Processors to pin the threads to: 2,3"),
    row(
        "wait",
        Some('w'),
        Some("TIME"),
        "Wait this long for the links to come up [default unit: s]",
    ),
    row("duration", Some('t'), Some("TIME"), "Stop after this long [default unit: s]"),
    row("seed", None, Some("N"), "Seed of every random choice"),
    row("name", None, Some("NAME"), "Name by which other commands find this run"),
    row(
        "period",
        Some('T'),
        Some("TIME"),
        "Report this often; 0 for the summary only [default unit: ms]",
    ),
    row(
        "json",
        Some('j'),
        Some("FORM"),
        "Report as one JSON document, or as one object per event (lines)",
    ),
    row("quiet", Some('q'), None, "Report only results and errors"),
    row("verbose", Some('v'), None, "Say more; twice for system calls and library messages"),
    row("color", None, Some("WHEN"), "Colour messages; auto is a terminal without NO_COLOR"),
    row("config", None, Some("FILE"), "Read flags from a TOML file; the command line wins"),
    row("print-config", None, None, "Print the merged settings as TOML and stop"),
    row("check", None, None, "Validate flags and file, touch nothing and stop"),
    row("run-dir", None, Some("DIR"), "Directory of sockets and counters"),
];

/// Returns the help of a flag of the table.
#[must_use]
pub fn help_of(name: &str) -> Option<&'static str> {
    COMMON_FLAGS.iter().find(|row| row.name == name).map(|row| row.help)
}

/// Returns a flag of the table, without a parser.
pub(super) fn common(name: &'static str) -> Arg {
    let row = COMMON_FLAGS.iter().find(|row| row.name == name);
    let row = row.expect("only flags of the table are asked for");
    let arg = Arg::new(row.name).long(row.name).help(row.help);
    let arg = row.short.map_or(arg.clone(), |short| arg.short(short));
    match row.value {
        Some(value) => arg.value_name(value),
        None => arg.action(ArgAction::SetTrue),
    }
}

/// Appends a note of one command to a flag's help, before the flag's default unit.
#[must_use]
pub fn with_note(arg: Arg, note: &str) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let (text, unit) = match help.split_once(" [") {
        Some((text, unit)) => (text, format!(" [{unit}")),
        None => (&*help, String::new()),
    };
    let help = format!("{text}; {note}{unit}");
    arg.help(help)
}

/// `--burst SLOTS`: the maximum number of slots that are moved at a time.
#[must_use]
pub fn burst() -> Arg {
    common("burst").value_parser(value_parser!(u32).range(1..=65_536))
}

/// `--copy`: never exchange buffers.
#[must_use]
pub fn copy() -> Arg {
    common("copy")
}

/// `--threads N`: the number of threads, 1 by default, at most `most`.
#[must_use]
pub fn threads(most: u16) -> Arg {
    let number = value_parser!(u16).range(1..=i64::from(most));
    common("threads").default_value("1").value_parser(number)
}

/// `--cpu CPUS`: the CPUs of the threads.
#[must_use]
pub fn cpus() -> Arg {
    common("cpu").value_delimiter(',').value_parser(value_parser!(u32).range(..4096))
}

/// `--wait TIME`: how long to wait for links.
#[must_use]
pub fn link_wait() -> Arg {
    common("wait").value_parser(seconds)
}

/// `--duration TIME`: when to stop.
#[must_use]
pub fn duration() -> Arg {
    common("duration").value_parser(seconds)
}

/// `--seed N`: the seed of random choices.
#[must_use]
pub fn seed() -> Arg {
    common("seed").value_parser(str::parse::<Count>)
}

/// `--name NAME`: the name of a run.
#[must_use]
pub fn run_name() -> Arg {
    common("name")
}

fn seconds(text: &str) -> Result<TimeSpan, UnitError> {
    TimeSpan::parse(text, Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_stands_before_the_default_unit() {
        let help = |arg: Arg| arg.get_help().unwrap().to_string();
        let noted = with_note(duration(), "0 is never");
        assert_eq!(help(noted), "Stop after this long; 0 is never [default unit: s]");
        assert_eq!(help(with_note(copy(), "always")), format!("{}; always", help(copy())));
    }

    #[test]
    fn a_name_and_a_letter_stand_for_one_flag_each() {
        for (at, row) in COMMON_FLAGS.iter().enumerate() {
            for other in &COMMON_FLAGS[at + 1..] {
                assert_ne!(row.name, other.name);
                assert!(row.short.is_none() || row.short != other.short, "-{:?}", row.short);
            }
        }
    }
}
