//! The way to the running firewall.

use std::path::Path;

use serde_json::{Value, json};
use slipring_cli::{Diagnose, Format, Session};
use slipring_control::{Client, ControlError, running};

use super::Ended;
use super::input::Input;
use crate::order::{Fault, Order, Outcome, sysexits};
use crate::service::PROGRAM;

/// Has a firewall carry out an order.
pub(super) fn ask(
    input: &Input,
    order: &Order,
    session: &mut Session<'_>,
) -> Result<Outcome, Ended> {
    let mut client = find(input, session)?;
    let answer = client.ask("ipfw", json!(order)).map_err(fault)?;
    serde_json::from_value(answer)
        .map_err(|error| Fault::new(format!("no answer: {error}"), sysexits::PROTOCOL).into())
}

/// Shows lines of rules with `log` as they come, until the firewall ends.
pub(super) fn monitor(input: &Input, session: &mut Session<'_>) -> Result<(), Ended> {
    let mut client = find(input, session)?;
    let mut answer = client.ask("events", json!({})).map_err(fault)?;
    loop {
        for line in answer["lines"].as_array().into_iter().flatten() {
            match session.reporter.format() {
                Format::Text => {
                    let text = format!("{}\n", line["line"].as_str().unwrap_or_default());
                    session.reporter.raw(text.as_bytes())?;
                }
                _ => session.reporter.raw(format!("{line}\n").as_bytes())?,
            }
        }
        let behind = json!({ "behind": answer["last"] });
        answer = match client.ask("events", behind) {
            Ok(answer) => answer,
            Err(ControlError::NoAnswer(_)) => return Ok(()),
            Err(error) => return Err(fault(error).into()),
        };
    }
}

/// Has packets explained.
pub(super) fn explain(
    input: &Input,
    args: &Value,
    session: &mut Session<'_>,
) -> Result<Value, Ended> {
    Ok(find(input, session)?.ask("explain", args.clone()).map_err(fault)?)
}

/// Shows rules, pipes and losses as OpenMetrics text.
pub(super) fn metrics(input: &Input, session: &mut Session<'_>) -> Result<(), Ended> {
    let answer = find(input, session)?.ask("metrics", json!({})).map_err(fault)?;
    Ok(session.reporter.raw(answer.as_str().unwrap_or_default().as_bytes())?)
}

/// The firewall of this name, or the only one.
fn find(input: &Input, session: &mut Session<'_>) -> Result<Client, Ended> {
    let dir = session.run_dir.clone();
    let dir = dir.as_path();
    if let Some(name) = &input.name {
        let client = Client::find(dir, Some(name)).map_err(fault)?;
        session.reporter.say_at(1, format_args!("asking {name} in {}", dir.display()))?;
        return Ok(client);
    }
    let mut firewalls: Vec<_> =
        running(dir).into_iter().filter_map(|run| Some((client_of(dir, run.pid)?, run))).collect();
    match firewalls.len() {
        0 => Err(nothing(dir).into()),
        1 => {
            let (client, run) = firewalls.remove(0);
            session.reporter.say_at(1, format_args!("asking {run} in {}", dir.display()))?;
            Ok(client)
        }
        _ => {
            let names: Vec<_> = firewalls.iter().map(|(_, run)| run.to_string()).collect();
            let message = format!("several firewalls run: {}", names.join(", "));
            let expected = Some("--name NAME, or --name PID".to_owned());
            Err(Fault { expected, ..Fault::new(message, sysexits::UNAVAILABLE) }.into())
        }
    }
}

/// A connection, if what answers is a firewall.
fn client_of(dir: &Path, pid: u32) -> Option<Client> {
    let mut client = Client::find(dir, Some(&pid.to_string())).ok()?;
    let hello: Value = client.ask("hello", json!({})).ok()?;
    (hello["program"] == PROGRAM).then_some(client)
}

fn nothing(dir: &Path) -> Fault {
    let message = format!("no firewall runs in {}", dir.display());
    let expected = "one: slipring firewall PORT PORT, or --run-dir DIR; -n needs none".to_owned();
    Fault { expected: Some(expected), ..Fault::new(message, sysexits::UNAVAILABLE) }
}

fn fault(error: ControlError) -> Fault {
    let exit = match error {
        ControlError::Refused(_) | ControlError::NoAnswer(_) => sysexits::PROTOCOL,
        _ => sysexits::UNAVAILABLE,
    };
    let message = match error.cause() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    Fault { expected: error.help(), ..Fault::new(message, exit) }
}
