//! Changes at given times: the settings `[[at]]`.

use super::EmulationConfig;
use super::error::EmulationConfigError;
use super::quantity::{self, wrong_kind};
use super::section::ConfigSection;
use super::tree::{ConfigEntry, ConfigNode, ConfigValue};

/// A change of settings and its time.
#[derive(Debug, Clone)]
pub struct ScheduledChange {
    /// From the start of the run.
    pub at_ns: u64,
    /// What it sets.
    pub set: Vec<ConfigEntry>,
    /// All settings from then on.
    pub config: EmulationConfig,
}

/// A change of a script.
#[derive(Debug, Clone)]
pub(crate) struct ScriptStep {
    /// From when the script is handed in.
    pub(crate) at_ns: u64,
    /// What it sets.
    pub(crate) set: Vec<ConfigEntry>,
}

/// Reads the changes in the order of their times; each goes on from the one before.
pub(super) fn read(config: &EmulationConfig) -> Result<Vec<ScheduledChange>, EmulationConfigError> {
    let Some(node) = config.root.get("at") else { return Ok(Vec::new()) };
    let mut changes = Vec::new();
    let mut config = EmulationConfig { root: config.root.clone(), ..config.clone() };
    config.root.remove("at");
    for ScriptStep { at_ns, set } in steps(node)?.into_iter().filter(|step| !step.set.is_empty()) {
        config = config.changed(&set)?;
        // Refused now rather than in the middle of the run.
        config.network()?;
        changes.push(ScheduledChange { at_ns, set, config: config.clone() });
    }
    Ok(changes)
}

/// The blocks of `[[at]]` in the order of their times.
fn steps(node: &ConfigNode) -> Result<Vec<ScriptStep>, EmulationConfigError> {
    let ConfigValue::List(list) = &node.value else {
        let error = wrong_kind("at", &node.value, &node.location);
        return Err(error.help("write [[at]] above t and set"));
    };
    let mut steps = list.iter().map(step).collect::<Result<Vec<_>, _>>()?;
    steps.sort_by_key(|step| step.at_ns);
    Ok(steps)
}

/// Reads the changes of a script, of a file of that name, in the order of their times.
///
/// # Errors
/// If it is not TOML, or has more than `[[at]]`.
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
    // A name that is misspelt is told as such, not as one that is missing.
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
