//! Changes at given times: the settings `[[at]]`.

use super::Config;
use super::error::ConfigError;
use super::quantity::{self, wrong_kind};
use super::section::Section;
use super::tree::{Node, Table, Value};

/// A change of settings and its time.
#[derive(Debug, Clone)]
pub struct Change {
    /// From the start of the run.
    pub at_ns: u64,
    /// All settings from then on.
    pub config: Config,
}

/// Reads the changes in the order of their times; each goes on from the one before.
pub(super) fn read(config: &Config) -> Result<Vec<Change>, ConfigError> {
    let Some(node) = config.root.get("at") else { return Ok(Vec::new()) };
    let Value::List(list) = &node.value else {
        let error = wrong_kind("at", &node.value, &node.place);
        return Err(error.help("write [[at]] above t and set"));
    };
    let mut steps = list.iter().map(step).collect::<Result<Vec<_>, _>>()?;
    steps.sort_by_key(|(at_ns, _)| *at_ns);
    let mut changes = Vec::new();
    let mut config = Config { root: config.root.clone(), ..config.clone() };
    config.root.remove("at");
    for (at_ns, set) in steps {
        for entry in &set.entries {
            config.set(&entry.key, entry.node.clone()).map_err(|error| error.at(&entry.place))?;
        }
        // Refused now rather than in the middle of the run.
        config.network()?;
        changes.push(Change { at_ns, config: config.clone() });
    }
    Ok(changes)
}

/// Reads the changes of a script, whose times count from when it is handed in; they start from
/// `config`.
///
/// # Errors
/// If it is not TOML, has more than `[[at]]`, or a change that cannot be.
pub(crate) fn script(config: &Config, text: &str) -> Result<Vec<Change>, ConfigError> {
    let root = super::toml::read("script", text)?;
    if let Some(entry) = root.entries.iter().find(|entry| entry.key != "at") {
        let error = ConfigError::key(format!("a script has no `{}`", entry.key), "");
        return Err(error.at(&entry.place).help("write [[at]] above t and set, and nothing else"));
    }
    let Some(steps) = root.get("at") else {
        let error = ConfigError::key("the script is empty", "it has no [[at]]");
        return Err(error.help("write [[at]] above t and set"));
    };
    let mut config = config.clone();
    config.root.put("at", steps.clone());
    read(&config)
}

fn step(node: &Node) -> Result<(u64, &Table), ConfigError> {
    let mut section = Section::new("at", node)?;
    let at_ns = section.need("t", quantity::time_ns)?;
    let set = section.get("set").ok_or_else(|| section.missing("set"))?;
    section.finish()?;
    match &set.value {
        Value::Table(table) => Ok((at_ns, table)),
        other => {
            let error = wrong_kind("at.set", other, &set.place);
            Err(error.help("write set = { \"link.up.rate.bps\" = \"20Mbit\" }"))
        }
    }
}
