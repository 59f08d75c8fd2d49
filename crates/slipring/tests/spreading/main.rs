//! Tests of `slipring dedup` and `slipring lb`, between namespaces.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod dedup;
mod lb;

use rustix::process::Signal;
use slipring_test_support::{FinishedProgram, Namespace, Program};

use support::SLIPRING;
use support::bridge::Report;

/// Starts a command that reports JSON lines, and waits until its ports are open.
fn start(namespace: &Namespace, words: &str) -> Program {
    let program = Program::start(namespace, SLIPRING, &format!("{words} --json=lines -T 0"));
    program.wait_for("start", |output| output.stdout.contains('\n').then_some(()));
    program
}

/// Ends the program as a user would; returns its last report.
fn stop(program: Program) -> Report {
    Report::last(&program.stop(Signal::INT).well())
}

/// Runs a command that must fail. Its arguments are separated by `|`. Returns its output and
/// status.
fn refused(words: &str) -> Option<FinishedProgram> {
    let namespace = Namespace::new()?;
    let words: Vec<_> = words.split('|').collect();
    Some(Program::start_with(&namespace, SLIPRING, &words).finish())
}
