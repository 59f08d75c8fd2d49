//! A program that has only `slipring firewall` and its commands.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use slipring_cli::{CliProgram, Verb};

static VERBS: [Verb; 3] =
    [slipring_firewall::VERB, slipring_firewall::IPFW, slipring_firewall::DNCTL];

static PROGRAM: CliProgram = CliProgram {
    name: "slipring",
    about: "ipfw and dummynet between ports",
    version: env!("CARGO_PKG_VERSION"),
    verbs: &VERBS,
};

fn main() -> ExitCode {
    PROGRAM.main()
}
