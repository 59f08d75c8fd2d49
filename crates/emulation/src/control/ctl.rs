//! `slipring emulate ctl`: queries and changes a running emulator.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;
use serde_json::{Map, Value, json};
use slipring_cli::codes::{SR0002, SR0009, SR0201};
use slipring_cli::units::TimeSpan;
use slipring_cli::{Diagnostic, Exit, Failure, Job, ReportFormat, Session, flags};
use slipring_control::{ControlClient, ControlError};

use super::change_time::ChangeTime;
use super::diagnose::diagnostic;
use super::service::PROGRAM_NAME;
use super::settings_history::flattened;
use crate::config::tree::{ConfigLocation, ConfigNode};

/// The request that `ctl` sends: a single request with its arguments, or a watch with its period.
enum CtlRequest {
    Once(&'static str, Value),
    Watch(Duration),
}

/// Converts the command line to a job that sends the request and shows the answer.
pub(crate) fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let (word, args) = matches.subcommand().expect("clap requires one");
    let name = args.get_one::<String>("name").cloned();
    let path = (word == "get").then(|| args.get_one::<String>("path").cloned()).flatten();
    let ask = request(word, args)?;
    Ok(Box::new(move |session| {
        let client = ControlClient::find_program(&session.run_dir, name.as_deref(), PROGRAM_NAME);
        let mut client = client.map_err(failure)?;
        match ask {
            CtlRequest::Watch(period) => watch(&mut client, period, session),
            CtlRequest::Once(what, args) => {
                let answer = client.request(what, args).map_err(failure)?;
                show(what, answer, path.as_deref(), session)
            }
        }
    }))
}

fn request(word: &str, args: &ArgMatches) -> Result<CtlRequest, Failure> {
    Ok(match word {
        "set" => CtlRequest::Once("set", set(args)?),
        "get" => CtlRequest::Once("config", json!({})),
        "stats" => {
            CtlRequest::Once("stats", json!({ "text": flags::format(args) == ReportFormat::Text }))
        }
        "explain" => CtlRequest::Once("explain", json!({})),
        "script" => {
            let path: &PathBuf = args.get_one("file").expect("clap requires it");
            CtlRequest::Once(
                "script",
                json!({ "text": read(path)?, "name": path.display().to_string() }),
            )
        }
        "stop-script" => CtlRequest::Once("stop-script", json!({})),
        "undo" => CtlRequest::Once("undo", json!({})),
        "history" => CtlRequest::Once("history", json!({})),
        "hello" => CtlRequest::Once("hello", json!({})),
        "quit" => CtlRequest::Once("quit", json!({})),
        _ => {
            let period: &TimeSpan = args.get_one("period").expect("it has a default");
            CtlRequest::Watch(period.duration())
        }
    })
}

fn set(args: &ArgMatches) -> Result<Value, Failure> {
    let mut changes = Map::new();
    for text in args.get_many::<String>("change").into_iter().flatten() {
        let Some((path, value)) = text.split_once('=') else {
            let error = Diagnostic::new(SR0002, format!("`{text}` is no PATH=VALUE"));
            return Err(error.with_help("write: set link.up.rate.bps=20Mbit").into());
        };
        if changes.insert(path.to_owned(), json!(value)).is_some() {
            let error = Diagnostic::new(SR0002, format!("{path} is given twice"));
            return Err(error.with_help("give each setting one value").into());
        }
    }
    let at = args.get_one::<String>("at");
    let at = at
        .map(|at| {
            ChangeTime::read(
                "--at",
                &ConfigNode::text(at, ConfigLocation::flag("--at").classic_if(true)),
            )
        })
        .transpose()?;
    Ok(json!({ "changes": changes, "at": at.map(ChangeTime::to_request) }))
}

fn read(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|error| {
        let failed = Diagnostic::new(SR0201, format!("cannot open {shown}"));
        failed.with_cause(error.to_string()).with_help(format!("check the path: ls -l {shown}"))
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let refused = Diagnostic::new(SR0009, format!("{shown} is no script"));
        let refused = refused.with_cause(format!("byte {at} is not UTF-8"));
        refused.with_help("a script is a TOML file of [[at]] blocks with t and set").into()
    })
}

fn failure(error: ControlError) -> Failure {
    diagnostic(&error).into()
}

fn watch(
    client: &mut ControlClient,
    period: Duration,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let mut shown = Ok(());
    let watched = client.watch(period, |value| {
        shown = session.reporter.raw(format!("{value}\n").as_bytes());
        shown.is_ok()
    });
    // A failure to write the output also ends the watch, so the error of the output is reported
    // first.
    shown?;
    watched.map_err(failure)?;
    Ok(Exit::Done)
}

fn show(
    what: &str,
    answer: Value,
    path: Option<&str>,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    match session.reporter.format() {
        ReportFormat::Text => session.reporter.raw(text(what, &answer, path).as_bytes())?,
        // The answer to `stats` is already a JSON report.
        _ if what == "stats" => session.reporter.raw(format!("{answer}\n").as_bytes())?,
        _ => session.reporter.document(&json!({ "answer": answer }), "")?,
    }
    Ok(Exit::Done)
}

/// Formats an answer as text.
fn text(what: &str, answer: &Value, path: Option<&str>) -> String {
    let list = |entry: fn(&Value) -> String| {
        answer.as_array().into_iter().flatten().map(entry).collect::<String>()
    };
    match what {
        "config" => settings(answer, path),
        "stats" | "explain" => {
            format!("{}\n", answer["text"].as_str().unwrap_or_default().trim_end())
        }
        "set" => accepted(answer),
        "undo" => undone(answer),
        "script" => list(accepted),
        "history" => list(version),
        "stop-script" => format!("changes taken back: {}\n", answer["taken_back"]),
        "quit" => "it ends\n".to_owned(),
        _ => lines(answer),
    }
}

fn settings(answer: &Value, path: Option<&str>) -> String {
    let below = |key: &str| {
        path.is_none_or(|path| {
            let full = if key.starts_with(path) { path.to_owned() } else { format!("link.{path}") };
            key.strip_prefix(&full).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let flat = flattened(answer);
    let held = flat.iter().filter(|(key, _)| below(key));
    held.map(|(key, value)| format!("{key} = {}\n", toml_of(value))).collect()
}

/// Formats a value as in a configuration file, so that the output can be used there.
fn toml_of(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let entries = table.iter().map(|(key, value)| format!("{key} = {}", toml_of(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(list) => {
            format!("[{}]", list.iter().map(toml_of).collect::<Vec<_>>().join(", "))
        }
        // Texts and numbers have the same form in JSON and TOML.
        _ => value.to_string(),
    }
}

fn accepted(answer: &Value) -> String {
    let (version, time) = (&answer["version"], seconds_of(&answer["applies_at_ns"]));
    match answer["changed"] == false {
        true => format!("nothing changed: version {version} holds at {time} as it is\n"),
        false => format!("version {version} holds from {time} on{}\n", links(answer)),
    }
}

/// Formats the names of the links whose settings differ after a change, as `: up, down`. Links that
/// inherit from a link named in the change are included.
fn links(answer: &Value) -> String {
    let links: Vec<_> = answer["links"].as_array().into_iter().flatten().collect();
    let links: Vec<_> = links.into_iter().filter_map(Value::as_str).collect();
    if links.is_empty() { String::new() } else { format!(": {}", links.join(", ")) }
}

/// Formats the result of an undo, which removes all changes that were submitted together.
fn undone(answer: &Value) -> String {
    let gone: Vec<_> = answer["taken_back"].as_array().into_iter().flatten().collect();
    let gone: Vec<_> = gone.iter().map(ToString::to_string).collect();
    let versions = if gone.len() == 1 { "version" } else { "versions" };
    let (version, time) = (&answer["version"], seconds_of(&answer["applies_at_ns"]));
    format!("{versions} {} taken back: version {version} holds at {time}\n", gone.join(", "))
}

fn version(version: &Value) -> String {
    let state = match (version.get("taken_back_at_ns"), &version["begun"]) {
        (Some(at_ns), _) => format!("  (taken back at {})", seconds_of(at_ns)),
        (None, begun) if begun == true => String::new(),
        (None, _) => "  (to come)".to_owned(),
    };
    let changes = version["changes"].as_object().into_iter().flatten();
    let changes: String = changes.map(|(path, value)| format!("  {path}={value}")).collect();
    format!("{}  {}{changes}{state}\n", version["version"], seconds_of(&version["at_ns"]))
}

/// Formats a time since the start of the run.
fn seconds_of(ns: &Value) -> String {
    format!("{:.6}s", ns.as_u64().unwrap_or(0) as f64 / 1e9)
}

fn lines(answer: &Value) -> String {
    let keys = answer.as_object().into_iter().flatten();
    keys.map(|(key, value)| format!("{key}: {value}\n")).collect()
}
