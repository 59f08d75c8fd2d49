//! Removes ports that exist without their programs. Only root and the user of the daemon can use
//! the control socket. They may remove the ports of any user.

use std::sync::Arc;

use serde_json::{Value, json};
use slipring_control::{ControlRefusal, ControlRequest};
use slipring_netmap::{Domain, Errno};

use crate::accounts::Accounts;

/// Performs `remove-port` (a persistent port) or `detach-port` (a port in a switch) for the user
/// that `owner` names. Returns the answer to the request. If the network namespace `netns` has no
/// port with this name, but exactly one other namespace has one, that port is used.
pub(crate) fn remove(
    domains: &[Arc<Domain>],
    request: &ControlRequest,
) -> Result<Value, ControlRefusal> {
    let text = |key: &str| {
        let text = request.args.get(key).and_then(Value::as_str);
        text.ok_or_else(|| ControlRefusal::malformed(format!("`{key}` is no text")))
    };
    let (name, owner) = (text("name")?, text("owner")?);
    let uid = owner.parse().ok().or_else(|| Accounts::read().user(owner));
    let uid = uid.ok_or_else(|| ControlRefusal {
        help: Some("say the number instead: slipring daemon ctl memory".to_owned()),
        ..ControlRefusal::malformed(format!("there is no user {owner}"))
    })?;
    let domain = domains.iter().find(|one| one.uid() == uid);
    let domain = domain.ok_or_else(|| not_found(owner, name))?;
    let ours = request.args.get("netns").and_then(Value::as_u64);
    if request.what == "remove-port" {
        let netns =
            choose_namespace(namespaces_with(domain.persistent_ports(), name), ours, owner, name)?;
        domain.remove_persistent(netns, name).map_err(|error| refused(error, owner, name))?;
        return Ok(json!({ "port": name, "uid": uid }));
    }
    let ports = domain.switches().into_iter();
    let ports = ports.flat_map(|one| one.ports.into_iter().map(move |port| (one.netns, port.name)));
    let netns = choose_namespace(namespaces_with(ports.collect(), name), ours, owner, name)?;
    let index = domain.detach(netns, name).map_err(|error| refused(error, owner, name))?;
    Ok(json!({ "port": name, "uid": uid, "port_index": index.0 }))
}

/// Returns the network namespaces that have a port with this name.
fn namespaces_with(ports: Vec<(u64, String)>, name: &str) -> Vec<u64> {
    ports.into_iter().filter(|(_, one)| one == name).map(|(netns, _)| netns).collect()
}

/// Selects the namespace that the request refers to.
fn choose_namespace(
    namespaces: Vec<u64>,
    ours: Option<u64>,
    owner: &str,
    name: &str,
) -> Result<u64, ControlRefusal> {
    match namespaces[..] {
        [] => Err(not_found(owner, name)),
        [only] => Ok(only),
        _ => ours.filter(|ours| namespaces.contains(ours)).ok_or_else(|| ControlRefusal {
            help: Some(
                "ask in the namespace that is meant: nsenter --net=/proc/PID/ns/net slipring vale .."
                    .to_owned(),
            ),
            ..refusal(
                format!("{} network namespaces have a port {name} of user {owner}", namespaces.len()),
                "none of them is yours".to_owned(),
            )
        }),
    }
}

fn not_found(owner: &str, name: &str) -> ControlRefusal {
    ControlRefusal {
        help: Some("list them: slipring daemon ctl memory; slipring daemon ctl ports".to_owned()),
        ..refusal(
            format!("user {owner} has no port {name}"),
            "neither persistent nor in a switch".to_owned(),
        )
    }
}

fn refused(error: Errno, owner: &str, name: &str) -> ControlRefusal {
    let (cause, help) = match error {
        Errno::BUSY => (
            "a program has it open, or it is in a switch".to_owned(),
            format!(
                "plug it out: slipring vale -d SWITCH:{name} --owner {owner}; or end the program"
            ),
        ),
        Errno::INVAL => (
            "it is there as long as the program that has it open".to_owned(),
            "end the program: slipring daemon ctl ports".to_owned(),
        ),
        error => (
            std::io::Error::from(error).to_string(),
            "see what is there now: slipring daemon ctl ports".to_owned(),
        ),
    };
    ControlRefusal { help: Some(help), ..refusal(format!("{name} of user {owner} stays"), cause) }
}

fn refusal(summary: String, cause: String) -> ControlRefusal {
    ControlRefusal {
        code: ControlRefusal::MALFORMED.to_owned(),
        summary,
        cause: Some(cause),
        help: None,
    }
}
