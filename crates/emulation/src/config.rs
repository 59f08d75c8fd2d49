//! The settings of links as they were written: as flags, in a file, or in a control message.
//!
//! ```text
//! -B ether,10g -D normal,20ms,3ms classic.rs           ┐
//! --up 'rate=50m,queue=codel()'   call.rs              │ tree of values  link.rs and
//! link.toml                       toml.rs              ├ with their   -> network.rs -> NetworkSpec
//! set link.up.rate.bps=20Mbit     EmulationConfig::set ┘ locations       (engine)
//! ```
//!
//! # Invariants
//! 1. In an [`EmulationConfig`] every part of a link is a table, or for losses a list of tables. A
//!    part that is written in one line, such as `delay = "normal(20ms, 3ms)"`, is expanded to a
//!    table when it is read, so each value has a path.
//! 2. A change that is refused leaves the settings unchanged.
//!
//! Not for: applying settings to running links.

pub(crate) mod call;
mod canonical;
mod class;
mod delay;
mod endpoint;
mod engine_errors;
pub(crate) mod error;
mod explain;
mod files;
mod link;
mod loss;
mod mangle;
pub(crate) mod names;
mod network;
mod output;
pub(crate) mod parts;
mod path;
pub(crate) mod quantity;
mod queue;
mod rate;
mod route;
mod schedule;
mod section;
mod theaterq;
mod toml;
pub(crate) mod tree;
mod wasm;

use std::path::Path;

use slipring_link::{NetworkLink, NetworkSpec};

pub(crate) use delay::MeanMismatch;
pub(crate) use error::EmulationConfigError;
pub(crate) use explain::{explain, greatest_delay_ns, likely_bytes, mean_delay_ns};
use files::ConfigFiles;
pub(crate) use network::PortSetting;
pub(crate) use output::RunOutputs;
pub(crate) use queue::DEFAULT_QUEUE_BYTES;
pub(crate) use route::{RouteGateway, RouteSetting};
pub(crate) use schedule::{ScheduledChange, ScriptStep, script};
use section::ConfigSection;
use tree::{ConfigEntry, ConfigLocation, ConfigNode, ConfigOrigin, ConfigTable, ConfigValue};

/// The settings of a run.
#[derive(Debug, Clone, Default)]
pub struct EmulationConfig {
    pub root: ConfigTable,
    pub files: ConfigFiles,
}

/// The top-level keys of a file.
const TOP_LEVEL_KEYS: [&str; 9] =
    ["seed", "ports", "nodes", "link", "class", "at", "output", "name", "route"];

impl EmulationConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if the file cannot be read, is not TOML or has an invalid model
    /// call. Unknown keys are found by [`Self::network`].
    pub fn open(path: &Path) -> Result<Self, EmulationConfigError> {
        let shown = path.display().to_string();
        let mut config = Self::parse(&shown, &files::configuration(path)?)?;
        config.files = ConfigFiles::beside(path);
        Ok(config)
    }

    /// Parses `text` as the contents of a file; errors refer to the file as `name`.
    ///
    /// # Errors
    /// Same as [`Self::open`].
    pub fn parse(name: &str, text: &str) -> Result<Self, EmulationConfigError> {
        let mut root = toml::read(name, text)?;
        if root.get("ports").is_none() {
            network::put_usual_ports(&mut root, name);
        }
        let mut config = Self { root, files: ConfigFiles::default() };
        config.expand()?;
        Ok(config)
    }

    /// Returns the settings as TOML text; quantities from flags get unabbreviated units.
    pub fn to_toml(&self) -> String {
        toml::write(&canonical::written(&self.root))
    }

    /// Returns the settings as a JSON document with the same keys as a settings file.
    pub fn to_json(&self) -> serde_json::Value {
        ::toml::from_str(&self.to_toml()).expect("settings are written as TOML")
    }

    /// Builds the network from the settings.
    ///
    /// # Errors
    /// [`EmulationConfigError`] for the first invalid setting, with its location.
    pub fn network(&self) -> Result<NetworkSpec, EmulationConfigError> {
        self.check_top()?;
        network::read(self)
    }

    /// Returns the ports, in the order of their indices in the network.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if a port has no name, or an unknown or invalid setting.
    pub fn ports(&self) -> Result<Vec<PortSetting>, EmulationConfigError> {
        network::ports(&self.root)
    }

    /// Returns the seed; `None` if none is given.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if the seed is not a whole number.
    pub fn seed(&self) -> Result<Option<u64>, EmulationConfigError> {
        self.root.get("seed").map(|node| quantity::count("seed", node)).transpose()
    }

    /// Returns the name of the run; `None` if none is given.
    pub fn name(&self) -> Option<String> {
        self.root.word("name").map(str::to_owned)
    }

    /// Returns the scheduled changes, each a complete network.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if a time or a setting is invalid.
    pub fn schedule(&self) -> Result<Vec<ScheduledChange>, EmulationConfigError> {
        schedule::read(self)
    }

    /// Returns the output settings.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if an output has an unknown or invalid setting.
    pub fn outputs(&self) -> Result<RunOutputs, EmulationConfigError> {
        self.root.get("output").map(output::read).transpose().map(Option::unwrap_or_default)
    }

    /// Returns the router settings; `None` if the run is not a router.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if there is an unknown or invalid setting.
    pub(crate) fn route(&self) -> Result<Option<RouteSetting>, EmulationConfigError> {
        self.root.get("route").map(route::read).transpose()
    }

    /// Sets the value at a path such as `link.up.rate.bps` or `up.delay`.
    pub fn set(&mut self, path: &str, node: ConfigNode) -> Result<(), EmulationConfigError> {
        if let Some(top) = self.is_of_the_run(path) {
            let error = EmulationConfigError::key(
                format!("{path} cannot change in a run"),
                RUN_SETTING_CAUSE,
            );
            return Err(error
                .at(&node.location)
                .help(format!("start again with {top} as you want it: {RESTART_HELP}")));
        }
        let path = &*path::full(path);
        let mut root = self.root.clone();
        let (last, parents) = path::split(path)?;
        let mut table = &mut root;
        for (depth, name) in parents.iter().enumerate() {
            let held = parents[..=depth].join(".");
            // A path to a link that does not exist is an error. A part that the link does not have
            // yet is created.
            if depth < 2 && table.get(name).is_none() {
                return Err(no_such(path, name, table, &node.location));
            }
            table = table.table_at(name, &node.location).ok_or_else(|| {
                let error = EmulationConfigError::key(format!("{held} is a single value"), "");
                error.at(&node.location).help(format!("set {held} itself"))
            })?;
        }
        if parents.len() < 2 {
            return Err(no_such(path, last, table, &node.location));
        }
        choose_model(table, parents.last().copied().unwrap_or_default(), last);
        table.put(last, node);
        let mut changed = Self { root, files: self.files.clone() };
        changed.expand()?;
        *self = changed;
        Ok(())
    }

    /// Returns the top-level key with which a path begins; `None` if there is none, or if it is
    /// `link` or the name of a link.
    fn is_of_the_run(&self, path: &str) -> Option<&'static str> {
        let first = path.split('.').next()?;
        let is_link = match self.root.get("link").map(|node| &node.value) {
            Some(ConfigValue::Table(links)) => links.get(first).is_some(),
            _ => false,
        };
        TOP_LEVEL_KEYS.into_iter().find(|top| *top == first && *top != "link" && !is_link)
    }

    /// Returns a copy with changed values, for links that are running. The ends of links (`from`,
    /// `to`) must not change.
    ///
    /// # Errors
    /// Same as for [`Self::with`]; also an error if a path names an end of a link.
    pub(crate) fn changed(&self, entries: &[ConfigEntry]) -> Result<Self, EmulationConfigError> {
        entries.iter().try_for_each(|entry| {
            let path = path::full(&entry.key);
            let (last, parents) = path::split(&path).map_err(|error| error.at(&entry.location))?;
            if parents.len() != 2 || !is_end(last) {
                return Ok(());
            }
            let error =
                EmulationConfigError::key(format!("{path} cannot be set"), FIXED_LINKS_CAUSE);
            Err(error.at(&entry.location).help(RESTART_HELP))
        })?;
        self.with(entries)
    }

    /// Returns a copy with changed values.
    ///
    /// # Errors
    /// [`EmulationConfigError`] if a path cannot be set, or two paths name the same setting.
    pub(crate) fn with(&self, entries: &[ConfigEntry]) -> Result<Self, EmulationConfigError> {
        path::refuse_twice(entries)?;
        let mut config = self.clone();
        for entry in entries {
            config
                .set(&entry.key, entry.node.clone())
                .map_err(|error| error.at(&entry.location))?;
        }
        Ok(config)
    }

    /// Returns a copy in which each link has all of its settings: those that it inherits through
    /// `like` are filled in.
    pub(crate) fn resolved(&self) -> Self {
        let mut resolved = self.clone();
        let Some(ConfigNode { value: ConfigValue::Table(links), .. }) =
            resolved.root.get_mut("link")
        else {
            return resolved;
        };
        for entry in &mut links.entries {
            if let Ok(whole) = network::resolved(&self.root, &entry.key, &entry.node) {
                entry.node = whole;
            }
        }
        resolved
    }

    /// Returns the names of the links that set a constant rate, but neither the kind nor the limit
    /// of their queue. Their queues get the default limit.
    pub(crate) fn usual_queues(&self, network: &NetworkSpec) -> Vec<String> {
        let resolved = self.resolved();
        let Some(ConfigValue::Table(links)) = resolved.root.get("link").map(|node| &node.value)
        else {
            return Vec::new();
        };
        let usual = |link: &&NetworkLink| match links.get(&link.spec.name).map(|node| &node.value) {
            Some(ConfigValue::Table(table)) if table.get("rate").is_some() => {
                queue::usual_bytes(table.get("queue"), &link.spec.rate).is_some()
            }
            _ => false,
        };
        let links = network.links.iter().filter(usual);
        links.map(|link| link.spec.name.clone()).collect()
    }

    /// Expands every part of every link into a table.
    fn expand(&mut self) -> Result<(), EmulationConfigError> {
        let Some(ConfigNode { value: ConfigValue::Table(links), .. }) = self.root.get_mut("link")
        else {
            return Ok(());
        };
        for entry in &mut links.entries {
            if let ConfigValue::Table(link) = &mut entry.node.value {
                call::expand(link, &format!("link.{}", entry.key))?;
            }
        }
        Ok(())
    }

    fn check_top(&self) -> Result<(), EmulationConfigError> {
        let location = ConfigLocation { origin: ConfigOrigin::Message, column: 1 };
        let mut section = ConfigSection::of_table("", &self.root, &location);
        for key in TOP_LEVEL_KEYS {
            section.get(key);
        }
        section.finish()
    }
}

/// Parses the values of a control message.
///
/// A path has the keys of a settings file: `link.up.rate.bps` for a single value, or
/// `link.up.delay` for a whole part, with a value such as `normal(20ms, 3ms)`. A leading `link.`
/// may be left out.
///
/// # Errors
/// [`EmulationConfigError`] if a value has a type that no setting can have.
pub(crate) fn entries<'v>(
    settings: impl IntoIterator<Item = (&'v str, &'v serde_json::Value)>,
) -> Result<Vec<ConfigEntry>, EmulationConfigError> {
    let entry = |(path, value)| {
        let node = message(path, value)?;
        Ok(ConfigEntry { key: String::from(path), location: node.location.clone(), node })
    };
    settings.into_iter().map(entry).collect()
}

/// Parses a value of a control message.
fn message(path: &str, value: &serde_json::Value) -> Result<ConfigNode, EmulationConfigError> {
    use serde_json::Value as Json;
    let location = ConfigLocation { origin: ConfigOrigin::Message, column: 1 };
    let value = match value {
        // `ctl set` sends every value as a string, so the text determines its type.
        Json::String(text) => return Ok(ConfigNode::unquoted(text, location)),
        Json::Number(number) => ConfigValue::Number(number.to_string()),
        Json::Bool(flag) => ConfigValue::Flag(*flag),
        Json::Array(list) => ConfigValue::List(
            list.iter().map(|value| message(path, value)).collect::<Result<_, _>>()?,
        ),
        Json::Object(object) => {
            let mut table = ConfigTable::default();
            for (key, value) in object {
                table.put(key, message(path, value)?);
            }
            ConfigValue::Table(table)
        }
        Json::Null => {
            let error = EmulationConfigError::key(format!("{path} cannot be null"), "");
            return Err(error.help("to switch a part off, set it to none"));
        }
    };
    Ok(ConfigNode { location, value })
}

/// Cause in the error for a change of a setting of the whole run.
const RUN_SETTING_CAUSE: &str = "it is a setting of the whole run; those of links can change: \
    link.NAME.PART";

/// Help text for adding, removing or reconnecting links: restart with a new file.
pub(crate) const RESTART_HELP: &str = "write the settings to a file, slipring emulate ctl get > link.toml, \
    change the links there, and start again: slipring emulate --config link.toml";

fn no_such(
    path: &str,
    name: &str,
    table: &ConfigTable,
    location: &ConfigLocation,
) -> EmulationConfigError {
    let names: Vec<_> = table.entries.iter().map(|entry| entry.key.as_str()).collect();
    let near = error::nearest(name, &names);
    let running = location.origin == ConfigOrigin::Message;
    if running && near == Some(name) {
        let error = EmulationConfigError::key(
            format!("{path} cannot be set as a whole"),
            FIXED_LINKS_CAUSE,
        )
        .at(location);
        return error.help(format!("set its parts: {name}.rate=20Mbit; or {RESTART_HELP}"));
    }
    let cause = if running { FIXED_LINKS_CAUSE } else { "" };
    let error = EmulationConfigError::key(format!("there is no {path}"), cause).at(location);
    if running && near.is_none() {
        let names = names.join(", ");
        return error.help(format!("there are: {names}; or {RESTART_HELP}"));
    }
    error.help(match near {
        Some(near) => format!("did you mean `{near}`? write it as link.NAME.PART or deeper"),
        None => format!("write it as link.NAME.PART or deeper; there are: {}", names.join(", ")),
    })
}

/// Returns whether a key of a link is one of its ends.
fn is_end(key: &str) -> bool {
    matches!(key, "from" | "to")
}

/// Cause in the errors for adding, removing or reconnecting links during a run.
const FIXED_LINKS_CAUSE: &str = "links are neither added nor removed while they run";

/// A rate has `bps` or `trace`, but not both. So if `bps` is set, the settings of the trace are
/// removed, and if `trace` is set, `bps` is removed.
fn choose_model(table: &mut ConfigTable, part: &str, key: &str) {
    if part == "rate" && key == "bps" && table.get("trace").is_some() {
        let trace = ["trace", "format", "mtu", "end", "unit", "period", "model"];
        trace.into_iter().for_each(|key| table.remove(key));
    }
    if part == "rate" && key == "trace" {
        ["bps", "model"].into_iter().for_each(|key| table.remove(key));
    }
}
