//! Links joined to a network: the settings `ports`, `nodes`, `link` and `class`.

use slipring_link::{NetworkLink, NetworkSpec, Source, SpecError, Target};

use super::error::ConfigError;
use super::files::Files;
use super::quantity::wrong_kind;
use super::section::{self, Section, unknown_word};
use super::tree::{Entry, Node, Place, Table, Value};
use super::{Config, class, link};
use crate::classic::{LINKS, PORTS};

/// A place where frames enter and leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSetting {
    /// Its name in the configuration.
    pub name: String,
    /// The name by which it is opened, and where that stands; virtual time needs none.
    pub device: Option<(String, Place)>,
}

/// The ports, in the order in which they stand.
pub(super) fn ports(root: &Table) -> Result<Vec<PortSetting>, ConfigError> {
    let mut ports = Vec::new();
    for entry in entries(root, "ports")? {
        if entry.key.is_empty() {
            let error = ConfigError::key("a port has no name", "").at(&entry.place);
            return Err(error.help("write [ports.left]"));
        }
        let path = format!("ports.{}", entry.key);
        let mut section = Section::new(path, &entry.node)?;
        let device = section.read("dev", |path, node| {
            section::text(path, node).map(|name| (name, node.place.clone()))
        })?;
        section.finish()?;
        ports.push(PortSetting { name: entry.key.clone(), device });
    }
    Ok(ports)
}

/// Gives a file that names no ports those of flags, and the links of flags their ends there.
pub(super) fn put_usual_ports(root: &mut Table, file: &str) {
    let source = super::Source::File { name: file.into(), line: 1 };
    let place = Place { source, column: 1 };
    let mut ports = Table::default();
    PORTS
        .into_iter()
        .for_each(|port| ports.put(port, Node::table(Table::default(), place.clone())));
    root.put("ports", Node::table(ports, place.clone()));
    let Some(Node { value: Value::Table(links), .. }) = root.get_mut("link") else { return };
    for (from, name) in LINKS.into_iter().enumerate() {
        let Some(Node { value: Value::Table(link), .. }) = links.get_mut(name) else { continue };
        for (key, port) in [("from", PORTS[from]), ("to", PORTS[1 - from])] {
            if link.get(key).is_none() {
                link.put(key, Node::text(port, place.clone()));
            }
        }
    }
}

/// The entries of a table of tables; none where it is absent.
fn entries<'n>(root: &'n Table, key: &str) -> Result<&'n [Entry], ConfigError> {
    match root.get(key) {
        None => Ok(&[]),
        Some(Node { value: Value::Table(table), .. }) => Ok(&table.entries),
        Some(other) => Err(wrong_kind(key, &other.value, &other.place)
            .help(format!("write [{key}.NAME] and its settings below it"))),
    }
}

/// Builds the network.
pub(super) fn read(config: &Config) -> Result<NetworkSpec, ConfigError> {
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
            let error = ConfigError::key("a link has no name", "").at(&entry.place);
            return Err(error.help("write [link.up]"));
        }
        network.links.push(join(root, entry, &network, &config.files)?);
    }
    if network.links.is_empty() {
        let error = ConfigError::key("there is no link", "nothing would pass");
        return Err(error.help("write [link.up] with from = \"left\" and to = \"right\""));
    }
    network.classes = class::read(root, &network)?;
    network.check().map_err(|error| placed(error, root))?;
    refuse_dead_ends(root, &network)?;
    Ok(network)
}

/// Refuses nodes where links end and none begins: all that comes there would be lost.
fn refuse_dead_ends(root: &Table, network: &NetworkSpec) -> Result<(), ConfigError> {
    let leads_on = |node: usize| network.links.iter().any(|link| link.from == Source::Node(node));
    let dead_end = |link: &NetworkLink| match link.to {
        Target::Node(node) if !leads_on(node) => Some((link.spec.name.clone(), node)),
        Target::Node(_) | Target::Exit(_) => None,
    };
    let Some((name, node)) = network.links.iter().find_map(dead_end) else { return Ok(()) };
    let node = &network.nodes[node];
    let summary = format!("no link leads on from `{node}`");
    let error = ConfigError::key(summary, "all that comes there would be lost");
    let help = format!("add a link with from = \"{node}\", or let link.{name} end at a port");
    let entry = entries(root, "link")?.iter().find(|entry| entry.key == name);
    let place = entry.map(|entry| end(entry, "to").map_or(&entry.place, |to| &to.place));
    Err(place.iter().fold(error.help(help), |error, place| error.at(place)))
}

/// Where a link begins or ends, as it is written.
fn end<'n>(entry: &'n Entry, key: &str) -> Option<&'n Node> {
    match &entry.node.value {
        Value::Table(link) => link.get(key),
        _ => None,
    }
}

/// What the network cannot have, where it is written.
fn placed(error: SpecError, root: &Table) -> ConfigError {
    let SpecError { field, value, .. } = &error;
    let links = || entries(root, "link").unwrap_or_default().iter();
    let place = match field.split('.').collect::<Vec<_>>()[..] {
        ["link", name, ..] => links().find(|entry| entry.key == name).map(|entry| {
            let from = end(entry, field.rsplit('.').next().unwrap_or_default());
            from.map_or_else(|| entry.place.clone(), |node| node.place.clone())
        }),
        // A circle: the last link that leads into it, since the first one may come from outside.
        ["node"] => links().rev().find_map(|entry| {
            let to = end(entry, "to")?;
            (to.shown() == *value).then(|| to.place.clone())
        }),
        [key] => root.get(key).map(|node| node.place.clone()),
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
    let told = match what {
        Some(what) => ConfigError::key(what, "").help(help),
        None => ConfigError::from(error),
    };
    place.iter().fold(told, |told, place| told.at(place))
}

fn nodes(root: &Table, ports: &[String]) -> Result<Vec<String>, ConfigError> {
    const FORM: &str = "write nodes = [\"core\", \"edge\"]";
    let Some(node) = root.get("nodes") else { return Ok(Vec::new()) };
    let Value::List(list) = &node.value else {
        return Err(wrong_kind("nodes", &node.value, &node.place).help(FORM));
    };
    let mut names: Vec<String> = Vec::new();
    for node in list {
        let name = section::text("nodes", node)?;
        if name.is_empty() || ports.contains(&name) || names.contains(&name) {
            let cause =
                if ports.contains(&name) { "a port is called so" } else { "it is there already" };
            return Err(ConfigError::value("nodes", &name, cause).at(&node.place).help(FORM));
        }
        names.push(name);
    }
    Ok(names)
}

fn join(
    root: &Table,
    entry: &Entry,
    network: &NetworkSpec,
    files: &Files,
) -> Result<NetworkLink, ConfigError> {
    let path = format!("link.{}", entry.key);
    let whole = resolved(root, &entry.key, &entry.node)?;
    let spec = link::read(&entry.key, &path, &whole, files)?;
    let mut section = Section::new(path, &entry.node)?;
    let places =
        |ports: &[String]| -> Vec<String> { ports.iter().chain(&network.nodes).cloned().collect() };
    let from = section.need("from", |path, node| place(path, node, &places(&network.entries)))?;
    let to = section.need("to", |path, node| place(path, node, &places(&network.exits)))?;
    let ports = network.entries.len();
    let from = if from < ports { Source::Entry(from) } else { Source::Node(from - ports) };
    let to = if to < ports { Target::Exit(to) } else { Target::Node(to - ports) };
    Ok(NetworkLink { spec, from, to })
}

pub(super) fn place(path: &str, node: &Node, names: &[String]) -> Result<usize, ConfigError> {
    let said = section::text(path, node)?;
    names.iter().position(|name| *name == said).ok_or_else(|| {
        if names.is_empty() {
            let error = ConfigError::value(path, &said, "there are no ports").at(&node.place);
            return error.help(format!("add [ports.{said}]"));
        }
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        unknown_word(path, &said, &node.place, &names)
    })
}

/// A link with all that it takes over from others.
pub(super) fn resolved(root: &Table, name: &str, node: &Node) -> Result<Node, ConfigError> {
    let mut chain = vec![(name.to_owned(), node)];
    loop {
        let (name, node) = &chain[chain.len() - 1];
        let path = format!("link.{name}");
        let Value::Table(table) = &node.value else {
            let error = wrong_kind(&path, &node.value, &node.place);
            return Err(error.help("write a table: { rate = …, delay = … }"));
        };
        let Some((base, at)) = link::like(&path, table)? else { break };
        let links = entries(root, "link")?;
        let Some(entry) = links.iter().find(|entry| entry.key == base) else {
            let names: Vec<_> = links.iter().map(|entry| entry.key.as_str()).collect();
            return Err(unknown_word(&format!("{path}.like"), &base, &at.place, &names));
        };
        if chain.iter().any(|(seen, _)| *seen == base) {
            let error = ConfigError::key(format!("{path}.like goes round in a circle"), "");
            return Err(error.at(&at.place).help("let one of them say its settings itself"));
        }
        chain.push((base, &entry.node));
    }
    let mut whole = Table::default();
    for (_, node) in chain.iter().rev() {
        if let Value::Table(own) = &node.value {
            whole = link::merged(&whole, own);
        }
    }
    Ok(Node::table(whole, node.place.clone()))
}
