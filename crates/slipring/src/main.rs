//! netmap for stock Linux: one binary with all programs.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(test)]
mod tests;

mod carrier;
mod port_pair;

use std::process::ExitCode;

use slipring_cli::{CliProgram, Verb};

/// Creates [`VERBS`] from lines of commands. A line is `mod NAME;` for a folder or file of this
/// crate with a `VERB` in it, or the path of a `VERB` in another crate.
macro_rules! commands {
    (@ [$($verbs:tt)*] mod $name:ident; $($more:tt)*) => {
        mod $name;
        commands!(@ [$($verbs)* $name::VERB,] $($more)*);
    };
    (@ [$($verbs:tt)*] $verb:path; $($more:tt)*) => {
        commands!(@ [$($verbs)* $verb,] $($more)*);
    };
    (@ [$($verbs:tt)*]) => {
        /// Every command, in the order of `slipring --help`.
        static VERBS: &[Verb] = &[$($verbs)*];
    };
    ($($lines:tt)*) => { commands!(@ [] $($lines)*); };
}

commands! {
    mod generate;
    mod bridge;
    mod dedup;
    mod lb;
    slipring_emulation::VERB;
    slipring_firewall::VERB;
    slipring_firewall::IPFW;
    slipring_firewall::DNCTL;
    slipring_router::VERB;
    mod run;
    mod replay;
    slipring_daemon::VERB;
    slipring_vale::VERB;
    slipring_nic::VERB;
    mod serve;
    mod top;
    mod doctor;
    mod ports;
    mod demo;
    mod trace;
    mod dump;
    mod extcap;
    mod bench;
}

static PROGRAM: CliProgram = CliProgram {
    name: "slipring",
    about: "netmap on stock Linux: rings, ports and the programs that grew on them",
    version: env!("CARGO_PKG_VERSION"),
    verbs: VERBS,
};

fn main() -> ExitCode {
    slipring_privileged::serve_if_started_as_helper().unwrap_or_else(|| PROGRAM.main())
}
