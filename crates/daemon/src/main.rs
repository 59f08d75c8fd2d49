//! The daemon `slipringd` as a program of its own, without the other commands of `slipring`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use slipring_cli::CliProgram;

static PROGRAM: CliProgram = CliProgram {
    name: "slipring",
    about: "The daemon that serves /dev/netmap",
    version: env!("CARGO_PKG_VERSION"),
    verbs: &[slipring_daemon::VERB],
};

fn main() -> ExitCode {
    PROGRAM.main()
}
