//! The network of links: the settings `ports`, `nodes`, `link` and `class`.

use slipring_link::{LinkSource, LinkTarget, NetworkLink, NetworkSpec, SpecError};

use super::endpoint::endpoint_index;
use super::error::EmulationConfigError;
use super::files::ConfigFiles;
use super::names::{LINK_NAMES, PORT_NAMES};
use super::quantity::wrong_kind;
use super::section::{self, ConfigSection, unknown_word};
use super::tree::{ConfigEntry, ConfigLocation, ConfigNode, ConfigTable, ConfigValue};
use super::{EmulationConfig, class, link};

/// A port, where frames enter and leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSetting {
    /// The port's name in the configuration.
    pub name: String,
    /// The netmap port name to open, and where it was written; `None` if none is given, as for
    /// virtual time, which opens no ports.
    pub device: Option<(String, ConfigLocation)>,
}

/// Returns the ports, in the order of the file.
pub(super) fn ports(root: &ConfigTable) -> Result<Vec<PortSetting>, EmulationConfigError> {
    let mut ports = Vec::new();
    for entry in entries(root, "ports")? {
        if entry.key.is_empty() {
            let error = EmulationConfigError::key("a port has no name", "").at(&entry.location);
            return Err(error.help("write [ports.left]"));
        }
        let path = format!("ports.{}", entry.key);
        let mut section = ConfigSection::new(path, &entry.node)?;
        let device = section.read("dev", |path, node| {
            section::text(path, node).map(|name| (name, node.location.clone()))
        })?;
        section.finish()?;
        ports.push(PortSetting { name: entry.key.clone(), device });
    }
    Ok(ports)
}

/// Adds the default ports to a file without ports, and connects the default links to them.
pub(super) fn put_usual_ports(root: &mut ConfigTable, file: &str) {
    let source = super::ConfigOrigin::File { name: file.into(), line: 1 };
    let location = ConfigLocation { origin: source, column: 1 };
    let mut ports = ConfigTable::default();
    PORT_NAMES.into_iter().for_each(|port| {
        ports.put(port, ConfigNode::table(ConfigTable::default(), location.clone()))
    });
    root.put("ports", ConfigNode::table(ports, location.clone()));
    let Some(ConfigNode { value: ConfigValue::Table(links), .. }) = root.get_mut("link") else {
        return;
    };
    for (from, name) in LINK_NAMES.into_iter().enumerate() {
        let Some(ConfigNode { value: ConfigValue::Table(link), .. }) = links.get_mut(name) else {
            continue;
        };
        for (key, port) in [("from", PORT_NAMES[from]), ("to", PORT_NAMES[1 - from])] {
            if link.get(key).is_none() {
                link.put(key, ConfigNode::text(port, location.clone()));
            }
        }
    }
}

/// Returns the entries of the table at `key`; empty if there is no such table.
fn entries<'n>(
    root: &'n ConfigTable,
    key: &str,
) -> Result<&'n [ConfigEntry], EmulationConfigError> {
    match root.get(key) {
        None => Ok(&[]),
        Some(ConfigNode { value: ConfigValue::Table(table), .. }) => Ok(&table.entries),
        Some(other) => Err(wrong_kind(key, &other.value, &other.location)
            .help(format!("write [{key}.NAME] and its settings below it"))),
    }
}

/// Builds the network.
pub(super) fn read(config: &EmulationConfig) -> Result<NetworkSpec, EmulationConfigError> {
    let root = &config.root;
    let names: Vec<String> = ports(root)?.into_iter().map(|port| port.name).collect();
    let mut network = NetworkSpec {
        nodes: nodes(root, &names)?,
        entries: names.clone(),
        exits: names,
        ..NetworkSpec::default()
    };
    for entry in entries(root, "link")? {
        if entry.key.is_empty() {
            let error = EmulationConfigError::key("a link has no name", "").at(&entry.location);
            return Err(error.help("write [link.up]"));
        }
        network.links.push(read_network_link(root, entry, &network, &config.files)?);
    }
    if network.links.is_empty() {
        let error = EmulationConfigError::key("there is no link", "nothing would pass");
        return Err(error.help("write [link.up] with from = \"left\" and to = \"right\""));
    }
    network.classes = class::read(root, &network)?;
    network.check().map_err(|error| with_location(error, root))?;
    refuse_dead_ends(root, &network)?;
    Ok(network)
}

/// Returns an error for a node at which links end but none begins, since all its frames would be
/// lost.
fn refuse_dead_ends(root: &ConfigTable, network: &NetworkSpec) -> Result<(), EmulationConfigError> {
    let leads_on =
        |node: usize| network.links.iter().any(|link| link.from == LinkSource::Node(node));
    let dead_end = |link: &NetworkLink| match link.to {
        LinkTarget::Node(node) if !leads_on(node) => Some((link.spec.name.clone(), node)),
        LinkTarget::Node(_) | LinkTarget::Exit(_) => None,
    };
    let Some((name, node)) = network.links.iter().find_map(dead_end) else { return Ok(()) };
    let node = &network.nodes[node];
    let summary = format!("no link leads on from `{node}`");
    let error = EmulationConfigError::key(summary, "all that comes there would be lost");
    let help = format!("add a link with from = \"{node}\", or let link.{name} end at a port");
    let entry = entries(root, "link")?.iter().find(|entry| entry.key == name);
    let location = entry.map(|entry| end(entry, "to").map_or(&entry.location, |to| &to.location));
    Err(location.iter().fold(error.help(help), |error, location| error.at(location)))
}

/// Returns the value of `from` or `to` as it is written.
fn end<'n>(entry: &'n ConfigEntry, key: &str) -> Option<&'n ConfigNode> {
    match &entry.node.value {
        ConfigValue::Table(link) => link.get(key),
        _ => None,
    }
}

/// Adds the location to an error of the network.
fn with_location(error: SpecError, root: &ConfigTable) -> EmulationConfigError {
    let SpecError { field, value, .. } = &error;
    let links = || entries(root, "link").unwrap_or_default().iter();
    let location = match field.split('.').collect::<Vec<_>>()[..] {
        ["link", name, ..] => links().find(|entry| entry.key == name).map(|entry| {
            let from = end(entry, field.rsplit('.').next().unwrap_or_default());
            from.map_or_else(|| entry.location.clone(), |node| node.location.clone())
        }),
        // In a loop of links, this names the last link that leads to the node, because the first
        // one may come from outside the loop.
        ["node"] => links().rev().find_map(|entry| {
            let to = end(entry, "to")?;
            (to.shown() == *value).then(|| to.location.clone())
        }),
        [key] => root.get(key).map(|node| node.location.clone()),
        _ => None,
    };
    let what = match field.as_str() {
        "node" => Some(format!("links lead round in a circle, back to `{value}`")),
        field if field.ends_with(".from") => {
            Some(format!("a second link without a class begins at `{value}`"))
        }
        _ => None,
    };
    let help = format!("allowed: {}", error.allowed);
    let fault = match what {
        Some(what) => EmulationConfigError::key(what, "").help(help),
        None => EmulationConfigError::from(error),
    };
    location.iter().fold(fault, |fault, location| fault.at(location))
}

fn nodes(root: &ConfigTable, ports: &[String]) -> Result<Vec<String>, EmulationConfigError> {
    const NODES_SYNTAX: &str = "write nodes = [\"core\", \"edge\"]";
    let Some(node) = root.get("nodes") else { return Ok(Vec::new()) };
    let ConfigValue::List(list) = &node.value else {
        return Err(wrong_kind("nodes", &node.value, &node.location).help(NODES_SYNTAX));
    };
    let mut names: Vec<String> = Vec::new();
    for node in list {
        let name = section::text("nodes", node)?;
        if name.is_empty() || ports.contains(&name) || names.contains(&name) {
            let cause =
                if ports.contains(&name) { "a port is called so" } else { "it is there already" };
            return Err(EmulationConfigError::value("nodes", &name, cause)
                .at(&node.location)
                .help(NODES_SYNTAX));
        }
        names.push(name);
    }
    Ok(names)
}

fn read_network_link(
    root: &ConfigTable,
    entry: &ConfigEntry,
    network: &NetworkSpec,
    files: &ConfigFiles,
) -> Result<NetworkLink, EmulationConfigError> {
    let path = format!("link.{}", entry.key);
    let whole = resolved(root, &entry.key, &entry.node)?;
    let spec = link::read(&entry.key, &path, &whole, files)?;
    let mut section = ConfigSection::new(path, &entry.node)?;
    let nodes =
        |ports: &[String]| -> Vec<String> { ports.iter().chain(&network.nodes).cloned().collect() };
    let from = section
        .required("from", |path, node| endpoint_index(path, node, &nodes(&network.entries)))?;
    let to =
        section.required("to", |path, node| endpoint_index(path, node, &nodes(&network.exits)))?;
    let ports = network.entries.len();
    let from = if from < ports { LinkSource::Entry(from) } else { LinkSource::Node(from - ports) };
    let to = if to < ports { LinkTarget::Exit(to) } else { LinkTarget::Node(to - ports) };
    Ok(NetworkLink { spec, from, to })
}

/// Returns a link with all settings that it inherits from other links.
pub(super) fn resolved(
    root: &ConfigTable,
    name: &str,
    node: &ConfigNode,
) -> Result<ConfigNode, EmulationConfigError> {
    let mut chain = vec![(name.to_owned(), node)];
    loop {
        let (name, node) = &chain[chain.len() - 1];
        let path = format!("link.{name}");
        let ConfigValue::Table(table) = &node.value else {
            let error = wrong_kind(&path, &node.value, &node.location);
            return Err(error.help("write a table: { rate = …, delay = … }"));
        };
        let Some((base, at)) = link::like(&path, table)? else { break };
        let links = entries(root, "link")?;
        let Some(entry) = links.iter().find(|entry| entry.key == base) else {
            let names: Vec<_> = links.iter().map(|entry| entry.key.as_str()).collect();
            return Err(unknown_word(&format!("{path}.like"), &base, &at.location, &names));
        };
        if chain.iter().any(|(seen, _)| *seen == base) {
            let error =
                EmulationConfigError::key(format!("{path}.like goes round in a circle"), "");
            return Err(error.at(&at.location).help("let one of them say its settings itself"));
        }
        chain.push((base, &entry.node));
    }
    let mut whole = ConfigTable::default();
    for (_, node) in chain.iter().rev() {
        if let ConfigValue::Table(own) = &node.value {
            whole = link::merged(&whole, own);
        }
    }
    Ok(ConfigNode::table(whole, node.location.clone()))
}
