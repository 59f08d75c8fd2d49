//! netmap for stock Linux: one binary, every program.

mod bridge;
mod meter;
mod opening;
mod workers;

use std::process::ExitCode;

use slipring_cli::{Program, Verb};

/// Every command, in the order of `slipring --help`.
static VERBS: [Verb; 1] = [bridge::VERB];

static PROGRAM: Program = Program {
    name: "slipring",
    about: "netmap on stock Linux: rings, ports and the programs that grew on them",
    version: env!("CARGO_PKG_VERSION"),
    verbs: &VERBS,
};

fn main() -> ExitCode {
    PROGRAM.main()
}
