//! `slipring bench`: runs `slipring-bench`, a separate program that does the measurements.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use clap::ArgMatches;
use slipring_cli::bench::{BENCH_PROGRAM, command};
use slipring_cli::{Diagnostic, Exit, Failure, Job, Verb, codes, find_sibling_program};

/// The entry of `slipring bench` in the table of commands.
pub(crate) const VERB: Verb =
    Verb { name: "bench", classic: &[], command, plan, no_metrics: Some("ends after its rows") };

/// Directories in which `slipring-bench` may be, relative to the directory of `slipring`: the same
/// directory after a build, `lib/slipring` after `make install`, `libexec/slipring` in
/// distributions that use it.
const DIRS: [&str; 3] = [".", "../lib/slipring", "../libexec/slipring"];

fn plan(_: &ArgMatches) -> Result<Job, Failure> {
    Ok(Box::new(|_| run()))
}

/// Replaces this process by `slipring-bench` with the same command line; both programs have the
/// same flags.
fn run() -> Result<Exit, Failure> {
    let program = find_sibling_program(BENCH_PROGRAM, &DIRS).ok_or_else(missing)?;
    let mut args = std::env::args_os();
    let mut command = Command::new(&program);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    let error = command.args(args).exec();
    Err(not_started(&program, &error))
}

fn missing() -> Failure {
    Diagnostic::new(codes::SR0302, format!("{BENCH_PROGRAM} is missing"))
        .with_cause(format!(
            "it is neither beside slipring, nor in {} or {} from there, nor in PATH",
            DIRS[1], DIRS[2]
        ))
        .with_help("build it, then install it: make install")
        .into()
}

fn not_started(program: &Path, error: &std::io::Error) -> Failure {
    Diagnostic::new(codes::SR0302, format!("{} does not start", program.display()))
        .with_cause(error.to_string())
        .with_help("build it again, then install it: make install")
        .into()
}
