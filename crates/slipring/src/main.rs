//! netmap for stock Linux: one binary for every program.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bench;
mod bridge;
mod dedup;
mod demo;
mod doctor;
mod dump;
mod extcap;
mod generate;
mod lb;
mod port_pair;
mod ports;
mod replay;
mod run;
mod serve;
#[cfg(test)]
mod tests;
mod top;
mod trace;

use std::process::ExitCode;

use slipring_cli::{CliProgram, Verb};

/// Every command, in the order of `slipring --help`.
static VERBS: [Verb; 21] = [
    generate::VERB,
    bridge::VERB,
    dedup::VERB,
    lb::VERB,
    slipring_emulation::VERB,
    slipring_firewall::VERB,
    slipring_firewall::IPFW,
    slipring_firewall::DNCTL,
    run::VERB,
    replay::VERB,
    slipring_daemon::VERB,
    slipring_vale::VERB,
    serve::VERB,
    top::VERB,
    doctor::VERB,
    ports::VERB,
    demo::VERB,
    trace::VERB,
    dump::VERB,
    extcap::VERB,
    bench::VERB,
];

static PROGRAM: CliProgram = CliProgram {
    name: "slipring",
    about: "netmap on stock Linux: rings, ports and the programs that grew on them",
    version: env!("CARGO_PKG_VERSION"),
    verbs: &VERBS,
};

fn main() -> ExitCode {
    PROGRAM.main()
}
