//! The settings `[[at]]`: changes at given times.

use super::EmulationConfig;
use super::error::EmulationConfigError;
use super::quantity::{self, wrong_kind};
use super::section::ConfigSection;
use super::tree::{ConfigEntry, ConfigNode, ConfigValue};

/// A change of settings, with its time.
#[derive(Debug, Clone)]
pub struct ScheduledChange {
    /// When the change applies, in ns since the start of the run.
    pub at_ns: u64,
    /// The values that the change sets.
    pub set: Vec<ConfigEntry>,
    /// All settings after the change.
    pub config: EmulationConfig,
}

/// A change in a script.
#[derive(Debug, Clone)]
pub(crate) struct ScriptStep {
    /// When the change applies, in ns since the submission of the script.
    pub(crate) at_ns: u64,
    /// The values that the change sets.
    pub(crate) set: Vec<ConfigEntry>,
}

/// Reads the changes and returns them in the order of their times. Each change builds on the
/// settings after the previous change.
pub(super) fn read(config: &EmulationConfig) -> Result<Vec<ScheduledChange>, EmulationConfigError> {
    let Some(node) = config.root.get("at") else { return Ok(Vec::new()) };
    let mut changes = Vec::new();
    let mut config = EmulationConfig { root: config.root.clone(), ..config.clone() };
    config.root.remove("at");
    for ScriptStep { at_ns, set } in steps(node)?.into_iter().filter(|step| !step.set.is_empty()) {
        config = config.changed(&set)?;
        // An invalid network is an error now, at the start, and not in the middle of the run.
        config.network()?;
        changes.push(ScheduledChange { at_ns, set, config: config.clone() });
    }
    Ok(changes)
}

/// Returns the `[[at]]` blocks in the order of their times.
fn steps(node: &ConfigNode) -> Result<Vec<ScriptStep>, EmulationConfigError> {
    let ConfigValue::List(list) = &node.value else {
        let error = wrong_kind("at", &node.value, &node.location);
        return Err(error.help("write [[at]] above t and set"));
    };
    let mut steps = list.iter().map(step).collect::<Result<Vec<_>, _>>()?;
    steps.sort_by_key(|step| step.at_ns);
    Ok(steps)
}

/// Parses a script; `name` is its file name, for errors. Returns the changes in the order of their
/// times.
///
/// # Errors
/// [`EmulationConfigError`] if the text is not TOML, if it lacks `[[at]]` or has another top-level
/// key, or if a block has an invalid time or an unknown key.
pub(crate) fn script(name: &str, text: &str) -> Result<Vec<ScriptStep>, EmulationConfigError> {
    let root = super::toml::read(name, text)?;
    if let Some(entry) = root.entries.iter().find(|entry| entry.key != "at") {
        let error = EmulationConfigError::key(format!("a script has no `{}`", entry.key), "");
        return Err(error
            .at(&entry.location)
            .help("write [[at]] above t and set, and nothing else"));
    }
    let Some(node) = root.get("at") else {
        let error = EmulationConfigError::key("the script is empty", "it has no [[at]]");
        return Err(error.help("write [[at]] above t and set"));
    };
    steps(node)
}

fn step(node: &ConfigNode) -> Result<ScriptStep, EmulationConfigError> {
    let mut section = ConfigSection::new("at", node)?;
    let (t, set) = (section.get("t"), section.get("set"));
    // A misspelt key is reported before a missing key, because it is usually the cause.
    section.finish()?;
    let at_ns = quantity::time_ns("at.t", t.ok_or_else(|| section.missing("t"))?)?;
    let set = set.ok_or_else(|| section.missing("set"))?;
    match &set.value {
        ConfigValue::Table(table) => Ok(ScriptStep { at_ns, set: table.entries.clone() }),
        other => {
            let error = wrong_kind("at.set", other, &set.location);
            Err(error.help("write set = { \"link.up.rate.bps\" = \"20Mbit\" }"))
        }
    }
}
