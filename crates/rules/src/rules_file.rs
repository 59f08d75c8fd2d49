//! Reads files of commands, up to a maximum size, and makes command batches of them. A batch also
//! contains the delay profiles that its commands name.
//!
//! Not for: the meaning of commands, or whether the control plane accepts them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command as Process, Stdio};

use slipring_cli::codes::{SR0018, SR0201};
use slipring_cli::{Diagnostic, Failure};
use slipring_dummynet::text::QueueCaps;

use crate::command_batch::{CommandBatch, CommandFault, CommandOutcome, sysexits};

/// Reads a file of commands as text.
///
/// # Errors
/// Fails if the file cannot be read or is too long.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let path_text = path.display().to_string();
    read_file(&path_text).map_err(|fault| {
        Diagnostic::new(SR0201, format!("cannot open {path_text}"))
            .with_cause(fault.message)
            .with_help(format!("check the path: ls -l {path_text}"))
            .into()
    })
}

/// Reads a rules file and the delay profiles that it names.
pub fn read_rules(path: &Path) -> Result<CommandBatch, Failure> {
    let text = read_text(path)?;
    let mut order = CommandBatch { text, is_file: true, ..CommandBatch::default() };
    for name in CommandBatch::profiles_of(&order.text, true) {
        let text = read_text(Path::new(&name))?;
        order.profiles.insert(name, text);
    }
    // The maximum lengths of queues are not checked here, because only the control plane knows
    // them.
    if let Err(fault) = order.steps(QueueCaps::NONE) {
        check_accepted(
            &CommandOutcome { fault: Some(fault), ..CommandOutcome::default() },
            Some(path),
        )?;
    }
    Ok(order)
}

/// If the rules were refused, returns the fault as a failure of the program.
pub fn check_accepted(outcome: &CommandOutcome, path: Option<&Path>) -> Result<(), Failure> {
    let Some(fault) = &outcome.fault else { return Ok(()) };
    let file = path.map_or_else(String::new, |path| path.display().to_string());
    let error = Diagnostic::new(SR0018, format!("{file}: the rules cannot be loaded"));
    let error = error.with_cause(fault.message.clone());
    Err(match &fault.expected {
        Some(expected) => error.with_help(format!("expected: {expected}")),
        None => error.with_help(format!(
            "try it: slipring ipfw -n {file}; where it names ports, the same command line with --check"
        )),
    }
    .into())
}

/// Maximum size of rules in bytes. A million prefixes need a fifth of this. Rules of this size also
/// fit into a request to the firewall, where JSON escapes line ends and quotes.
const MAX_RULES_BYTES: usize = 128 << 20;

/// Reads a file, or standard input.
pub fn read(path: &str) -> Result<String, CommandFault> {
    if path == "-" { read_from(path, Ok(io::stdin().lock())) } else { read_file(path) }
}

/// Reads a file. Comments may have any encoding: bytes that are not UTF-8 become a character that
/// no command contains. Outside comments, this character is reported as a mistake with its
/// position.
fn read_file(path: &str) -> Result<String, CommandFault> {
    read_from(path, File::open(path))
}

fn read_from(path: &str, source: io::Result<impl Read>) -> Result<String, CommandFault> {
    let mut bytes = Vec::new();
    let read =
        source.and_then(|from| from.take(MAX_RULES_BYTES as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        CommandFault::new(format!("cannot read {path}: {error}"), sysexits::NO_INPUT)
    })?;
    text_of(path, &bytes)
}

fn text_of(path: &str, bytes: &[u8]) -> Result<String, CommandFault> {
    if bytes.len() > MAX_RULES_BYTES {
        let message = format!("{path}: there are more than {} MiB of rules", MAX_RULES_BYTES >> 20);
        return Err(CommandFault::new(message, sysexits::NO_INPUT));
    }
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Returns the output of a preprocessor that was given the text of a file.
pub fn preprocessed(command: &str, flags: &[String], path: &str) -> Result<String, CommandFault> {
    let failed = |error: io::Error| {
        CommandFault::new(format!("cannot run {command}: {error}"), sysexits::SYSTEM)
    };
    let text = read(path)?;
    let mut process = Process::new(command)
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut input = process.stdin.take().expect("it is piped");
    // A second thread writes the text to the preprocessor. With one thread, both processes would
    // block once the pipes are full.
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = process.wait_with_output().map_err(failed)?;
    // If the preprocessor stops reading early, its exit status shows why.
    let _ = writer.join();
    if !output.status.success() {
        let message = format!("{command} failed on {path}: {}", output.status);
        return Err(CommandFault::new(message, sysexits::DATA));
    }
    text_of(path, &output.stdout)
}
