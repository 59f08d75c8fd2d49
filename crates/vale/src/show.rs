//! Requests to the daemon, and the output of its answers.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};
use slipring_cli::codes::SR0199;
use slipring_cli::{Diagnostic, Failure};
use slipring_control::{ControlClient, ControlError};

use crate::DAEMON_NAME;
use crate::action::ValeOutput;
use crate::settings::SettingChange;

/// One request to the daemon.
#[derive(Debug)]
pub(crate) enum DaemonRequest {
    /// Shows all switches, or the named one.
    Show(Option<String>),
    /// Forgets the addresses that a switch (`vale0`) has learned, or only those at a port
    /// (`vale0:a`).
    Flush(String),
    /// Changes settings of a switch (`vale0`) or of a port (`vale0:a`).
    Set(String, Vec<SettingChange>),
    /// Removes or detaches a port of another user.
    Free { what: FreeTarget, name: String, owner: String },
}

/// What to remove from the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreeTarget {
    /// A persistent port.
    Port,
    /// A port in a switch.
    AttachedPort,
}

pub(crate) fn query_daemon(run_dir: &Path, wish: &DaemonRequest) -> Result<ValeOutput, Failure> {
    let (what, args) = match wish {
        DaemonRequest::Show(name) => ("switches", selector(name.as_deref(), None)),
        DaemonRequest::Flush(port) => ("flush", port_selector(port)),
        DaemonRequest::Set(port, changes) => {
            let words = changes.iter().map(|one| format!("{}={}", one.key, one.value));
            let mut args = port_selector(port);
            args["changes"] = words.collect::<Vec<_>>().into();
            ("set", args)
        }
        DaemonRequest::Free { what, name, owner } => {
            let mut args = selector(None, None);
            (args["name"], args["owner"]) = (name.as_str().into(), owner.as_str().into());
            (if *what == FreeTarget::Port { "remove-port" } else { "detach-port" }, args)
        }
    };
    let mut client =
        ControlClient::find(run_dir, Some(DAEMON_NAME)).map_err(|error| control_error(&error))?;
    let answer = client.request(what, args).map_err(|error| control_error(&error))?;
    if let DaemonRequest::Show(Some(name)) = wish {
        check_found(name, &answer)?;
    }
    let text = match wish {
        DaemonRequest::Show(_) => table(&answer),
        DaemonRequest::Flush(_) => format!("{} addresses forgotten\n", answer["flushed"]),
        DaemonRequest::Free { what: FreeTarget::AttachedPort, .. } => {
            format!("port_index: {}\n", answer["port_index"])
        }
        DaemonRequest::Set(..) | DaemonRequest::Free { .. } => String::new(),
    };
    Ok((answer, text))
}

/// A port that a program has bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPortRow {
    /// The port's name: `eth0`, `x{1`, `vale0:a`.
    pub port: String,
    /// `interface`, `pipe`, `switch port` or `null`.
    pub kind: String,
}

/// Returns the ports bound by this user in this network namespace, according to the daemon of this
/// run directory; none if no daemon serves it.
#[must_use]
pub fn bound_ports(run_dir: &Path) -> Vec<BoundPortRow> {
    let client = ControlClient::find(run_dir, Some(DAEMON_NAME));
    let Ok(answer) = client.and_then(|mut client| client.request("ports", selector(None, None)))
    else {
        return Vec::new();
    };
    let text = |value: &Value| text_or_unknown(value).to_owned();
    let one = |port: &Value| BoundPortRow { port: text(&port["port"]), kind: text(&port["kind"]) };
    answer["ports"].as_array().into_iter().flatten().map(one).collect()
}

/// Returns an error if the user has named a switch that does not exist. Otherwise, an empty answer
/// would be shown.
fn check_found(name: &str, answer: &Value) -> Result<(), Failure> {
    if answer["switches"].as_array().is_some_and(|switches| !switches.is_empty()) {
        return Ok(());
    }
    let diagnostic = Diagnostic::new(SR0199, format!("there is no switch {name}"));
    let diagnostic = diagnostic.with_cause("a switch is there while a port is plugged into it");
    Err(diagnostic.with_help("list them: slipring vale --show").into())
}

/// Returns the part of a request that selects a switch or port of this user in this network
/// namespace.
fn selector(switch: Option<&str>, port: Option<&str>) -> Value {
    let netns = std::fs::metadata("/proc/thread-self/ns/net").map(|meta| meta.ino());
    let uid = rustix::process::geteuid().as_raw();
    let mut args = json!({ "uid": uid });
    // If the namespace cannot be determined, there is most likely only one, so the request names
    // none.
    if let Ok(netns) = netns {
        args["netns"] = netns.into();
    }
    for (key, value) in [("switch", switch), ("port", port)] {
        if let Some(value) = value {
            args[key] = value.into();
        }
    }
    args
}

/// Returns the part of a request that selects the switch `vale0` or the port `vale0:a`.
fn port_selector(selected: &str) -> Value {
    match selected.split_once(':') {
        Some((switch, port)) => selector(Some(switch), Some(port)),
        None => selector(Some(selected), None),
    }
}

fn control_error(error: &ControlError) -> Failure {
    let diagnostic = Diagnostic::of(error);
    match error {
        ControlError::Unknown { .. } | ControlError::NothingRuns { .. } => diagnostic
            .with_help("start it: slipring daemon; where its run directory is another: --run-dir")
            .into(),
        _ => diagnostic.into(),
    }
}

/// Formats switches, ports and addresses, one per line.
pub(crate) fn table(answer: &Value) -> String {
    let (mut text, none) = (String::new(), Vec::new());
    let list = |value: &Value| value.as_array().unwrap_or(&none).clone();
    for switch in list(&answer["switches"]) {
        let (ports, addresses) = (list(&switch["ports"]), list(&switch["addresses"]));
        let name = text_or_unknown(&switch["switch"]);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}: {} ports, {} addresses", ports.len(), addresses.len());
        for port in &ports {
            port_line(&mut text, port);
        }
        for one in &addresses {
            let pinned = if one["pinned"] == true { ", set by hand" } else { "" };
            let (mac, port, age) = (
                text_or_unknown(&one["mac"]),
                text_or_unknown(&one["port"]),
                one["age_s"].as_f64(),
            );
            let _ = write!(text, "  {mac} at {port}, {:.0} s ago{pinned}", age.unwrap_or(0.0));
            let _ = match &one["vlan"] {
                vlan if *vlan == 0 => writeln!(text),
                vlan => writeln!(text, ", VLAN {vlan}"),
            };
        }
    }
    text
}

fn port_line(text: &mut String, port: &Value) {
    let (name, index) = (text_or_unknown(&port["port"]), &port["port_index"]);
    let (sent, got) = (&port["tx"]["packets"], &port["rx"]["packets"]);
    // Writing to a string cannot fail.
    let _ = write!(text, "  {index:>3} {name:<16} sent {sent}, received {got}");
    for change in port["settings"]["changed"].as_array().into_iter().flatten() {
        let _ = write!(text, ", {}", text_or_unknown(change));
    }
    for (reason, count) in port["drops"].as_object().into_iter().flatten() {
        let _ = write!(text, ", lost {count} {reason}");
    }
    for monitor in port["monitors"].as_array().into_iter().flatten() {
        let _ = write!(text, ", monitor saw {}", monitor["frames"]);
        if monitor["lost"] != 0 {
            let _ = write!(text, " and lost {}", monitor["lost"]);
        }
    }
    text.push('\n');
}

fn text_or_unknown(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}
