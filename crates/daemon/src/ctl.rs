//! `slipring daemon ctl`: queries and changes a running daemon.

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};
use slipring_cli::{Diagnostic, Exit, Failure, Job, ReportFormat, Session, flags};
use slipring_control::ControlClient;

use crate::memory;
use crate::service::NAME;

pub(crate) fn command() -> Command {
    let plain = |name: &'static str, about: &'static str| Command::new(name).about(about);
    let params = plain("params", "Show or set netmap's module parameters").arg(
        Arg::new("change")
            .value_name("NAME[=VALUE]")
            .num_args(0..)
            .help("A parameter to show, or to set [default: show all]"),
    );
    let command = Command::new("ctl").about("Ask and change a running daemon");
    let command =
        flags::run_dir(flags::reporting_as("daemon", command)).mut_args(|arg| arg.global(true));
    command.subcommand_required(true).subcommands([
        params,
        plain("ports", "Show the ports that programs have bound, and the drops of interfaces"),
        plain("memory", "Show the memory of each user, its limit, and persistent ports by owner"),
        plain("reload", "Read the configuration again, as HUP does, and report its errors"),
        plain("hello", "Show which daemon answers"),
    ])
}

pub(crate) fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let (word, args) = matches.subcommand().expect("clap requires one");
    let asks = match word {
        "params" => parameters(args),
        "ports" => vec![("ports", json!({}))],
        "memory" => vec![("memory", json!({}))],
        "reload" => vec![("reload", json!({}))],
        _ => vec![("hello", json!({}))],
    };
    Ok(Box::new(move |session| {
        let client = ControlClient::find(&session.run_dir, Some(NAME));
        let mut client = client.map_err(|error| Diagnostic::of(&error))?;
        for (what, args) in asks {
            let answer = client.request(what, args).map_err(|error| Diagnostic::of(&error))?;
            show(&answer, session)?;
        }
        Ok(Exit::Done)
    }))
}

fn parameters(args: &ArgMatches) -> Vec<(&'static str, Value)> {
    let changes: Vec<_> = args.get_many::<String>("change").into_iter().flatten().collect();
    if changes.is_empty() {
        return vec![("params", json!({}))];
    }
    let ask = |change: &String| match change.split_once('=') {
        Some((name, value)) => ("set-param", json!({ "name": name, "value": value })),
        None => ("params", json!({ "name": change })),
    };
    changes.into_iter().map(ask).collect()
}

/// Prints an answer as lines `name = value`, with the allowed values where they are known.
fn show(answer: &Value, session: &mut Session<'_>) -> Result<(), Failure> {
    if session.reporter.format() != ReportFormat::Text {
        return session.reporter.document(&json!({ "answer": answer }), "");
    }
    let text = match answer {
        Value::Object(answer) if answer.contains_key("ports") => ports(&answer["ports"]),
        Value::Object(answer) if answer.contains_key("memory") => {
            memory::usage_lines(&answer["memory"])
        }
        Value::Object(answer) => {
            answer.iter().map(|(name, value)| format!("{}\n", line(name, value))).collect()
        }
        _ => format!("{answer}\n"),
    };
    session.reporter.raw(text.as_bytes())
}

/// Formats the bound ports, one line per port.
fn ports(bound: &Value) -> String {
    let line = |port: &Value| {
        let word = |key: &str| port[key].as_str().unwrap_or_default();
        let mut line = format!("{:<24} {}, user {}", word("port"), word("kind"), port["uid"]);
        if let (Some(rx), Some(tx)) =
            (port["rx"]["packets"].as_u64(), port["tx"]["packets"].as_u64())
        {
            line += &format!(", received {rx}, sent {tx}");
        }
        for (cause, count) in port["drops"].as_object().into_iter().flatten() {
            line += &format!(", dropped {count} ({cause})");
        }
        line + "\n"
    };
    bound.as_array().into_iter().flatten().map(line).collect()
}

fn line(name: &str, value: &Value) -> String {
    let Value::Object(facts) = value else { return format!("{name} = {value}") };
    let fact = |key| facts.get(key).and_then(Value::as_str);
    let shown = facts.get("value").unwrap_or(&Value::Null);
    match (fact("effect"), fact("allowed")) {
        (Some("works"), Some(allowed)) => format!("{name} = {shown}    # {allowed}"),
        (Some("kept"), Some(allowed)) => {
            format!("{name} = {shown}    # {allowed}; kept, without effect")
        }
        (_, Some(allowed)) => format!("{name} = {shown}    # {allowed}"),
        _ => format!("{name} = {shown}"),
    }
}
