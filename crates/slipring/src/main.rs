//! netmap for stock Linux: one binary, every program.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bench;
mod bridge;
mod daemon;
mod dedup;
mod demo;
mod doctor;
mod emulate;
mod generate;
mod lb;
mod meter;
mod mover;
mod opening;
mod ports;
mod publish;
mod replay;
mod run;
#[cfg(test)]
mod said;
mod serve;
mod slots;
mod top;
mod trace;
mod workers;

use std::process::ExitCode;

use slipring_cli::{Program, Verb};

/// Every command, in the order of `slipring --help`.
static VERBS: [Verb; 15] = [
    generate::VERB,
    bridge::VERB,
    dedup::VERB,
    lb::VERB,
    emulate::VERB,
    run::VERB,
    replay::VERB,
    daemon::VERB,
    serve::VERB,
    top::VERB,
    doctor::VERB,
    ports::VERB,
    demo::VERB,
    trace::VERB,
    bench::VERB,
];

static PROGRAM: Program = Program {
    name: "slipring",
    about: "netmap on stock Linux: rings, ports and the programs that grew on them",
    version: env!("CARGO_PKG_VERSION"),
    verbs: &VERBS,
};

fn main() -> ExitCode {
    PROGRAM.main()
}
