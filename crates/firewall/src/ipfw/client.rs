//! Sends commands to the control socket of a running firewall.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use slipring_cli::{Diagnose, Diagnostic, ReportFormat, Session};
use slipring_control::{ControlClient, ControlError, REPLY_TIMEOUT, check_trust, running};

use super::error::IpfwCommandError;
use super::input::IpfwInput;
use crate::service::PROGRAM_NAME;
use slipring_rules::command_batch::{CommandBatch, CommandFault, CommandOutcome, sysexits};
use slipring_rules::save::NOT_SAVED_PREFIX;

/// Sends a batch to the firewall and returns the outcome.
pub(super) fn execute(
    input: &IpfwInput,
    order: &CommandBatch,
    session: &mut Session<'_>,
) -> Result<CommandOutcome, IpfwCommandError> {
    let mut client = find(input, session)?;
    client.set_timeout(reply_timeout(order)).map_err(fault)?;
    let answer = client.request("ipfw", json!(order)).map_err(|error| match error {
        ControlError::TimedOut { .. } => CommandFault {
            help: Some("what is under way goes on: see ipfw list".to_owned()),
            ..fault(error)
        },
        _ => fault(error),
    })?;
    serde_json::from_value(answer).map_err(|error| {
        CommandFault::new(format!("no answer: {error}"), sysexits::PROTOCOL).into()
    })
}

/// Returns the maximum time to wait for the answer to a batch: [`REPLY_TIMEOUT`] plus one second
/// per 64 KiB of commands, which is about a thousand rules.
fn reply_timeout(order: &CommandBatch) -> Duration {
    REPLY_TIMEOUT + Duration::from_secs(order.text.len() as u64 >> 16)
}

/// Prints the log lines of rules as they come, until the firewall ends.
pub(super) fn monitor(
    input: &IpfwInput,
    session: &mut Session<'_>,
) -> Result<(), IpfwCommandError> {
    let mut client = find(input, session)?;
    let mut answer = client.request("events", json!({})).map_err(fault)?;
    let mut last = answer["last"].as_u64().unwrap_or_default();
    loop {
        for line in answer["lines"].as_array().into_iter().flatten() {
            let seq = line["seq"].as_u64().unwrap_or_default();
            if let Some(missed @ 1..) = seq.checked_sub(last + 1) {
                session.reporter.warn(format_args!("{missed} lines were missed here"))?;
            }
            last = seq;
            match session.reporter.format() {
                ReportFormat::Text => {
                    let text = format!("{}\n", line["line"].as_str().unwrap_or_default());
                    session.reporter.raw(text.as_bytes())?;
                }
                _ => session.reporter.raw(format!("{line}\n").as_bytes())?,
            }
        }
        let behind = json!({ "behind": answer["last"] });
        answer = match client.request("events", behind) {
            Ok(answer) => answer,
            Err(ControlError::NoAnswer(_) | ControlError::TimedOut { .. }) => return Ok(()),
            Err(error) => return Err(fault(error).into()),
        };
    }
}

/// Asks the firewall to explain packets, and returns its answer.
pub(super) fn explain(
    input: &IpfwInput,
    args: &Value,
    session: &mut Session<'_>,
) -> Result<Value, IpfwCommandError> {
    let mut answer = find(input, session)?.request("explain", args.clone()).map_err(fault)?;
    match answer.get_mut("fault").map(Value::take) {
        None => Ok(answer),
        Some(fault) => Err(serde_json::from_value::<CommandFault>(fault)
            .unwrap_or_else(|error| {
                CommandFault::new(format!("no answer: {error}"), sysexits::PROTOCOL)
            })
            .into()),
    }
}

/// Prints the counters of rules and pipes, and the losses, as OpenMetrics text.
pub(super) fn metrics(
    input: &IpfwInput,
    session: &mut Session<'_>,
) -> Result<(), IpfwCommandError> {
    let answer = find(input, session)?.request("metrics", json!({})).map_err(fault)?;
    let text = answer.as_str().unwrap_or_default();
    match session.reporter.format() {
        ReportFormat::Text => Ok(session.reporter.raw(text.as_bytes())?),
        _ => Ok(session.reporter.document(&json!({ "metrics": values(text) }), "")?),
    }
}

/// Prints the commands that recreate the running configuration.
pub(super) fn save(input: &IpfwInput, session: &mut Session<'_>) -> Result<(), IpfwCommandError> {
    let args = json!({ "states": input.with_states });
    let answer = find(input, session)?.request("save", args).map_err(fault)?;
    let text = answer.as_str().unwrap_or_default();
    match session.reporter.format() {
        ReportFormat::Text => session.reporter.raw(text.as_bytes())?,
        _ => session.reporter.document(&json!({ "save": text }), "")?,
    }
    let mut missing = text.lines().filter_map(|line| line.strip_prefix(NOT_SAVED_PREFIX));
    missing.try_for_each(|what| Ok(session.reporter.warn(format_args!("not kept: {what}"))?))
}

/// Parses OpenMetrics text, whose lines have the form `name{label="value",…} number`.
fn values(text: &str) -> Vec<Value> {
    let value = |line: &str| {
        let (what, number) = line.rsplit_once(' ')?;
        let (name, labels) = what.trim_end_matches('}').split_once('{').unwrap_or((what, ""));
        let labels: Map<_, _> = labels
            .split(',')
            .filter_map(|label| label.split_once('='))
            .map(|(name, value)| (name.to_owned(), json!(value.trim_matches('"'))))
            .collect();
        Some(json!({ "name": name, "labels": labels, "value": number.parse::<u64>().ok()? }))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(value).collect()
}

/// Connects to the firewall that the command line names, or to the only running one. A router with
/// rules counts as a firewall.
fn find(input: &IpfwInput, session: &mut Session<'_>) -> Result<ControlClient, IpfwCommandError> {
    let dir = session.run_dir.clone();
    let dir = dir.as_path();
    check_trust(dir).map_err(|error| untrusted(&error, session))?;
    if let Some(name) = &input.name {
        let client = ControlClient::find(dir, Some(name)).map_err(fault)?;
        session.reporter.say_at(1, format_args!("asking {name} in {}", dir.display()))?;
        return Ok(client);
    }
    let (mut firewalls, mut unreachable) = (Vec::new(), None);
    for run in running(dir) {
        match client_of(dir, run.pid) {
            Ok(Some(client)) => firewalls.push((client, run)),
            Ok(None) => {}
            Err(error) => unreachable = unreachable.or(Some(error)),
        }
    }
    match firewalls.len() {
        0 => Err(unreachable.map_or_else(|| nothing(dir), fault).into()),
        1 => {
            let (client, run) = firewalls.remove(0);
            session.reporter.say_at(1, format_args!("asking {run} in {}", dir.display()))?;
            Ok(client)
        }
        _ => {
            let names: Vec<_> = firewalls.iter().map(|(_, run)| run.to_string()).collect();
            let message =
                format!("several firewalls or routers with rules run: {}", names.join(", "));
            let help = Some("say which: --name NAME, or --name PID".to_owned());
            Err(CommandFault { help, ..CommandFault::new(message, sysexits::UNAVAILABLE) }.into())
        }
    }
}

/// Connects to a process; `None` if the process is neither a firewall nor a router with rules. A
/// process that does not answer is an error, because it may be a firewall of another user.
fn client_of(dir: &Path, pid: u32) -> Result<Option<ControlClient>, ControlError> {
    let mut client = ControlClient::find(dir, Some(&pid.to_string()))?;
    let hello: Value = client.request("hello", json!({}))?;
    let has_rules = hello["program"] == PROGRAM_NAME || hello["rules"] == true;
    Ok(has_rules.then_some(client))
}

/// Returns the error for a run directory that is not trusted. The command itself is correct, so the
/// text is the one that a firewall prints when it starts with such a directory.
fn untrusted(error: &ControlError, session: &mut Session<'_>) -> IpfwCommandError {
    session.status = Some(sysexits::UNAVAILABLE);
    let error = Diagnostic::of(error).with_status(sysexits::UNAVAILABLE);
    IpfwCommandError::Failure(error.into())
}

fn nothing(dir: &Path) -> CommandFault {
    let message = format!("no firewall, and no router with rules, runs in {}", dir.display());
    let help = "start one: slipring firewall PORT PORT, or slipring route IF IF --rules FILE; or say \
                --run-dir DIR; -n needs none";
    CommandFault {
        help: Some(help.to_owned()),
        ..CommandFault::new(message, sysexits::UNAVAILABLE)
    }
}

fn fault(error: ControlError) -> CommandFault {
    let exit = match error {
        ControlError::Refused(_) | ControlError::NoAnswer(_) | ControlError::TimedOut { .. } => {
            sysexits::PROTOCOL
        }
        _ => sysexits::UNAVAILABLE,
    };
    let message = match error.cause() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    CommandFault { help: error.help(), ..CommandFault::new(message, exit) }
}
