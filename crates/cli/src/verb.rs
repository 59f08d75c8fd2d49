//! A command: its flag table, its plan, its run.

use std::path::PathBuf;

use clap::{ArgMatches, Command};

use crate::{Exit, Failure, Reporter};

/// The program: its name and its commands.
#[derive(Debug)]
pub struct CliProgram {
    /// The name of the binary.
    pub name: &'static str,
    /// A one-line description of the program.
    pub about: &'static str,
    /// The program's version.
    pub version: &'static str,
    /// The program's commands, in the order in which help lists them.
    pub verbs: &'static [Verb],
}

/// One command of the program. Parsing and running are separate, so that `--check` can validate a
/// command line without any effect, and a test can plan without a machine.
#[derive(Debug)]
pub struct Verb {
    /// The word typed after `slipring`.
    pub name: &'static str,
    /// Programs that this command replaces.
    pub classic: &'static [ClassicName],
    /// The table of flags, from which help, manual pages and completions are made.
    pub command: fn() -> Command,
    /// Turns the parsed flags into a job. Has no effect outside the process.
    pub plan: fn(&ArgMatches) -> Result<Job, Failure>,
    /// Why the command has no `--metrics`; `None` for programs that run long, which have it.
    pub no_metrics: Option<&'static str>,
}

/// A planned run.
pub type Job = Box<dyn FnOnce(&mut Session<'_>) -> Result<Exit, Failure>>;

/// The name of an old program that users of netmap know.
#[derive(Debug)]
pub struct ClassicName {
    /// The name, as a subcommand and (bare or after `slipring-`) as `argv[0]`.
    pub name: &'static str,
    /// Returns the exit status of the old program for an exit of the new one. If it is 0 for a
    /// failure, the status of the new program is used instead.
    pub status: fn(Exit) -> u8,
}

impl ClassicName {
    pub(crate) fn status_of(&self, exit: Exit) -> u8 {
        match (exit, (self.status)(exit)) {
            (Exit::Done, status) => status,
            (failed, 0) => failed.status(),
            (_, status) => status,
        }
    }
}

/// The data that the program gives to a run.
pub struct Session<'p> {
    /// Writes the reports.
    pub reporter: &'p mut Reporter,
    /// The classic name under which the command was called; `None` under its current name. A
    /// classic name may select classic output.
    pub classic: Option<&'static str>,
    /// Directory of sockets and counters.
    pub run_dir: PathBuf,
    /// Address where `--metrics` serves counters; `None` without this flag. See [`crate::metrics`].
    pub metrics: Option<String>,
    /// The program itself.
    pub program: &'p CliProgram,
    /// The exact exit status, if the command uses the statuses of another program even under its
    /// current name; otherwise `None`.
    pub status: Option<u8>,
}
