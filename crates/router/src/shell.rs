//! `slipring route ctl` without a command: reads commands from standard input.
//!
//! On a terminal, there is a history and completion (`shell/terminal.rs`), and the shell continues
//! after a mistake. From a pipe or a file, the lines are a script, which ends at its first mistake.
//!
//! Each command uses its own connection, so that the shell also works after a restart of the
//! router.

mod terminal;

use std::io::{self, BufRead, IsTerminal, Read};
use std::path::Path;

use clap::Command;
use serde_json::{Value, json};
use slipring_cli::{Exit, Failure, ReportFormat, Session, parse_refusal};
use slipring_control::ControlClient;

use crate::ctl;
use crate::service::PROGRAM_NAME;
use terminal::TerminalInput;

/// Maximum length of a line from a pipe, so that reading ends even if the input is a device.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Reads and executes commands until the input ends, or until `exit`. `name` is the name of the
/// run, if the user has given one.
///
/// # Errors
/// The first mistake, if the input is not a terminal.
pub(crate) fn run(name: Option<&str>, session: &mut Session<'_>) -> Result<Exit, Failure> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        interactive(name, session)
    } else {
        script(name, session)
    }
}

fn interactive(name: Option<&str>, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let interfaces = interfaces(&session.run_dir, name);
    let mut input = TerminalInput::new(table(), interfaces)?;
    session.reporter.say("help lists the commands; exit or Ctrl-D leaves")?;
    while let Some(line) = input.next_line()? {
        match execute(&line, name, session) {
            Ok(ShellStep::Next) => {}
            Ok(ShellStep::End) => break,
            Err(Failure::Error(error)) => _ = session.reporter.report_error(&error),
            Err(Failure::ReaderLeft) => break,
        }
    }
    Ok(Exit::Done)
}

fn script(name: Option<&str>, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let mut input = io::stdin().lock();
    for number in 1_u64.. {
        let mut line = Vec::new();
        let read = take_line(&mut input, &mut line)?;
        if read == 0 {
            break;
        }
        let line = String::from_utf8_lossy(&line);
        match execute(&line, name, session) {
            Ok(ShellStep::Next) => {}
            Ok(ShellStep::End) => break,
            Err(Failure::Error(error)) => {
                let note = format!("line {number} of the input; those before have been executed");
                return Err(error.with_note(note).into());
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(Exit::Done)
}

/// Reads a line of limited length; returns the number of its bytes.
fn take_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let read = input.take(MAX_LINE_BYTES).read_until(b'\n', line)?;
    if read as u64 == MAX_LINE_BYTES {
        return Err(io::Error::other("a line has more than 1 MiB"));
    }
    Ok(read)
}

/// What the shell does after a line.
#[derive(Debug, PartialEq, Eq)]
enum ShellStep {
    Next,
    End,
}

fn execute(
    line: &str,
    name: Option<&str>,
    session: &mut Session<'_>,
) -> Result<ShellStep, Failure> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    match words[..] {
        [] => return Ok(ShellStep::Next),
        [first, ..] if first.starts_with('#') => return Ok(ShellStep::Next),
        // In the shells of other routers, these words leave the shell and do not stop the router.
        ["exit" | "quit"] => return Ok(ShellStep::End),
        ["help" | "?"] => {
            session.reporter.raw(help().as_bytes())?;
            return Ok(ShellStep::Next);
        }
        _ => {}
    }
    match table().try_get_matches_from(&words) {
        Ok(matches) => ctl::execute(&matches, name, session)?,
        Err(error) => _ = parse_refusal(&error, "slipring route ctl", session.reporter)?,
    }
    Ok(ShellStep::Next)
}

/// Returns the commands of `ctl`, as the lines of the shell have them: without the name of the
/// program.
fn table() -> Command {
    ctl::command().no_binary_name(true).subcommand_required(true).disable_help_subcommand(true)
}

/// Returns a line of help for each command.
fn help() -> String {
    let all = table();
    let mut text = String::new();
    for command in all.get_subcommands() {
        let inner: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        let name = [&[command.get_name()][..], &[&*inner.join("|")]].concat().join(" ");
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        text += &format!("{:<22} {about}\n", name.trim_end());
    }
    text + "exit                   Leave this shell\n\nCOMMAND --help explains a command\n"
}

/// The router's interfaces, for completion; empty if the router does not answer.
fn interfaces(run_dir: &Path, name: Option<&str>) -> Vec<String> {
    let client = ControlClient::find_program(run_dir, name, PROGRAM_NAME);
    let answer = client.and_then(|mut client| client.request("interface", json!({})));
    let rows = answer.ok().map(|mut answer| answer["interfaces"].take());
    let rows = rows.as_ref().and_then(Value::as_array).into_iter().flatten();
    rows.filter_map(|row| row["name"].as_str().map(str::to_owned)).collect()
}

/// Runs `job` with the format that the line requests, or with the shell's own format if the line
/// requests [`ReportFormat::Text`]. Then restores the shell's format, and returns the result of
/// `job`.
pub(crate) fn with_format<T>(
    format: ReportFormat,
    session: &mut Session<'_>,
    job: impl FnOnce(&mut Session<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let usual = session.reporter.format();
    if format != ReportFormat::Text {
        session.reporter.report_as(format);
    }
    let done = job(session);
    session.reporter.report_as(usual);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_line_of_help() {
        let help = help();
        for command in ["status  ", "route show|get  ", "shutdown  ", "fib verify  ", "exit  "] {
            assert!(help.lines().any(|line| line.starts_with(command)), "{command}: {help}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        assert!(take_line(&mut endless, &mut Vec::new()).is_err());
        let (mut two, mut line) = (&b"status\nexit"[..], Vec::new());
        assert_eq!((take_line(&mut two, &mut line).unwrap(), &line[..]), (7, &b"status\n"[..]));
        assert_eq!(take_line(&mut two, &mut Vec::new()).unwrap(), 4);
        assert_eq!(take_line(&mut two, &mut Vec::new()).unwrap(), 0);
    }
}
