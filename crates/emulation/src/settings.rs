//! Reads the settings of a command line: from its configuration file or its link flags, with the
//! values of other flags on top.

use std::path::PathBuf;

use clap::ArgMatches;
use slipring_cli::codes::{SR0002, SR0003};
use slipring_cli::units::Count;
use slipring_cli::{Diagnostic, Failure};

use crate::classic;
use crate::config::tree::{ConfigEntry, ConfigLocation, ConfigNode, ConfigTable, ConfigValue};
use crate::config::{EmulationConfig, PortSetting};

/// Returns the settings of the file or of the flags, and the names of the links to which the flags
/// gave TLEM's default queue.
pub(crate) fn settings(
    matches: &ArgMatches,
) -> Result<(EmulationConfig, Vec<&'static str>), Failure> {
    let flags = classic::first_link_flag(matches);
    let (mut config, unasked) = match (matches.get_one::<PathBuf>("config-file"), flags) {
        (Some(_), Some(flag)) => {
            let error =
                Diagnostic::new(SR0003, format!("{flag} does not go together with --config"));
            return Err(error.with_help("change the file's settings by --set PATH=VALUE").into());
        }
        (Some(path), None) => (EmulationConfig::open(path)?, Vec::new()),
        (None, _) => classic::settings(matches)?,
    };
    let mut changes = Vec::new();
    for text in matches.get_many::<String>("set").into_iter().flatten() {
        let Some((path, value)) = text.split_once('=') else {
            let error = Diagnostic::new(SR0002, format!("`{text}` does not fit --set"));
            return Err(error.with_help("write --set link.up.rate.bps=20Mbit").into());
        };
        let location = classic::flag(matches, "--set").advanced_by(path.chars().count() + 1);
        let node = ConfigNode::unquoted(value, location.clone());
        changes.push(ConfigEntry { key: path.to_owned(), location, node });
    }
    config = config.with(&changes)?;
    name_ports(&mut config, matches)?;
    // The seed of the file is checked even if a flag replaces it.
    config.seed()?;
    put_run_flags(&mut config, matches);
    Ok((config, unasked))
}

/// Stores the values of the flags that do not concern links under the keys that they have in a
/// file.
fn put_run_flags(config: &mut EmulationConfig, matches: &ArgMatches) {
    let root = &mut config.root;
    if let Some(Count(seed)) = matches.get_one("seed") {
        let value = ConfigValue::Number(seed.to_string());
        root.put("seed", ConfigNode { location: ConfigLocation::flag("--seed"), value });
    }
    if let Some(name) = matches.get_one::<String>("name") {
        root.put("name", ConfigNode::text(name, ConfigLocation::flag("--name")));
    }
    put_route(root, matches);
    let path = |id: &str| matches.get_one::<PathBuf>(id).map(|path| path.display().to_string());
    let text = |id: &str| matches.get_one::<String>(id).cloned();
    let outputs = [
        ("pcapng", "--log", path("log")),
        ("mahimahi", "--mahimahi-log", path("mahimahi-log")),
        ("metrics", "--metrics", text("metrics")),
        ("late_drop", "-d", text("late-drop")),
    ];
    for (key, flag, value) in outputs {
        let Some(value) = value else { continue };
        let location = classic::flag(matches, flag);
        // If `output` is not a table, the error is reported where it is read.
        let Some(table) = root.table_at("output", &location) else { return };
        table.put(key, ConfigNode::text(value, location));
    }
}

/// Stores `-r` and its related flags.
fn put_route(root: &mut ConfigTable, matches: &ArgMatches) {
    // Commands other than `emulate` do not define the flag `-r`. For them, this is no error.
    if !matches.try_get_one("route").ok().flatten().copied().unwrap_or(false) {
        return;
    }
    let location = ConfigLocation::flag("-r");
    let Some(table) = root.table_at("route", &location) else { return };
    let given: Vec<_> = matches.get_raw("gateway").into_iter().flatten().collect();
    if !given.is_empty() {
        let gateway = |text: &std::ffi::OsStr| {
            ConfigNode::text(text.to_string_lossy(), ConfigLocation::flag("-G"))
        };
        let value = ConfigValue::List(given.into_iter().map(gateway).collect());
        table.put("gateways", ConfigNode { location: ConfigLocation::flag("-G"), value });
    }
    if matches.get_flag("decrement-ttl") {
        table.put("decrement_ttl", ConfigNode { location, value: ConfigValue::Flag(true) });
    }
}

/// Stores the port names given by `-i` as the devices of the ports, in the order of the ports.
fn name_ports(config: &mut EmulationConfig, matches: &ArgMatches) -> Result<(), Failure> {
    // Not every command defines the flag `-i`. If it does not, this is no error.
    let given = matches.try_get_raw("interface").ok().flatten();
    let given: Vec<_> = given.into_iter().flatten().collect();
    let ports = config.ports()?;
    if given.len() > ports.len() {
        let error = Diagnostic::new(SR0002, format!("{} ports are given", given.len()));
        let help = format!("the links have {}: {}", ports.len(), listed(&ports));
        return Err(error.with_help(help).into());
    }
    let location = ConfigLocation::flag("-i");
    for (name, port) in given.iter().zip(&ports) {
        let root = config.root.table_at("ports", &location);
        let port = root.and_then(|table| table.table_at(&port.name, &location));
        let table = port.expect("ports were read as tables");
        table.put("dev", ConfigNode::text(name.to_string_lossy(), location.clone()));
    }
    Ok(())
}

fn listed(ports: &[PortSetting]) -> String {
    let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
    names.join(", ")
}
