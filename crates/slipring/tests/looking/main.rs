//! Tests of the commands that examine a machine and its traffic (ports, doctor, nic, trace, dump),
//! of `demo`, and of what all commands have in common: advice, metrics and JSON. Most tests run in
//! network namespaces of their own.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod advice;
mod demo;
mod doctor;
mod grant;
mod metrics;
mod nic;
mod picture;
mod ports;
mod schema;
mod tcpdump;
mod trace;

use std::process::Command;

use serde_json::Value;
use slipring_test_support::{FinishedProgram, Namespace, Program, installed, skip};

use support::{SLIPRING, copy_to};

/// Runs slipring with words separated by spaces until it ends.
fn slipring(namespace: &Namespace, words: &str) -> FinishedProgram {
    Program::start(namespace, SLIPRING, words).finish()
}

/// Returns the one JSON document that a program wrote.
fn document(ended: &FinishedProgram) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

/// Returns one JSON object per line.
fn lines(ended: &FinishedProgram) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A namespace with a veth pair, `here` and `there`, both up.
fn with_links() -> Option<Namespace> {
    let namespace = Namespace::new()?;
    namespace.cable("here", &namespace, "there", "");
    Some(namespace)
}

/// Returns what a command prints for `--help`.
fn help_of(namespace: &Namespace, words: &str) -> String {
    Program::start(namespace, SLIPRING, &format!("{words} --help")).finish().well().stdout
}

/// Returns the words that a help text lists under `Commands:`, without their explanations.
fn listed_commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    // Continuation lines are indented further.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

/// Returns every command of the binary, from its own help.
fn commands(namespace: &Namespace) -> Vec<String> {
    let commands = listed_commands(&help_of(namespace, ""));
    assert!(commands.len() > 20, "{commands:?}");
    commands
}

/// Returns the names of the links of a namespace. Their state is not compared, since it lags behind
/// changes.
fn link_names(namespace: &Namespace) -> Vec<String> {
    let listed = namespace.ip("-brief link");
    listed.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

/// Returns the command of an ordinary user who runs a copy of the binary; `None` if this process
/// cannot become one.
fn as_ordinary_user(dir: &tempfile::TempDir) -> Option<Command> {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() || !installed("setpriv") {
        skip!("only root can become an ordinary user");
        return None;
    }
    let copy = copy_to(dir.path());
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(copy);
    Some(command)
}
