//! Changes at given times: the settings `[[at]]`.

use super::Config;
use super::error::ConfigError;
use super::quantity::{self, wrong_kind};
use super::section::Section;
use super::tree::{Entry, Node, Value};

/// A change of settings and its time.
#[derive(Debug, Clone)]
pub struct Change {
    /// From the start of the run.
    pub at_ns: u64,
    /// What it sets.
    pub set: Vec<Entry>,
    /// All settings from then on.
    pub config: Config,
}

/// A change of a script.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// From when the script is handed in.
    pub(crate) at_ns: u64,
    /// What it sets.
    pub(crate) set: Vec<Entry>,
}

/// Reads the changes in the order of their times; each goes on from the one before.
pub(super) fn read(config: &Config) -> Result<Vec<Change>, ConfigError> {
    let Some(node) = config.root.get("at") else { return Ok(Vec::new()) };
    let mut changes = Vec::new();
    let mut config = Config { root: config.root.clone(), ..config.clone() };
    config.root.remove("at");
    for Step { at_ns, set } in steps(node)?.into_iter().filter(|step| !step.set.is_empty()) {
        config = config.changed(&set)?;
        // Refused now rather than in the middle of the run.
        config.network()?;
        changes.push(Change { at_ns, set, config: config.clone() });
    }
    Ok(changes)
}

/// The blocks of `[[at]]` in the order of their times.
fn steps(node: &Node) -> Result<Vec<Step>, ConfigError> {
    let Value::List(list) = &node.value else {
        let error = wrong_kind("at", &node.value, &node.place);
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
pub(crate) fn script(name: &str, text: &str) -> Result<Vec<Step>, ConfigError> {
    let root = super::toml::read(name, text)?;
    if let Some(entry) = root.entries.iter().find(|entry| entry.key != "at") {
        let error = ConfigError::key(format!("a script has no `{}`", entry.key), "");
        return Err(error.at(&entry.place).help("write [[at]] above t and set, and nothing else"));
    }
    let Some(node) = root.get("at") else {
        let error = ConfigError::key("the script is empty", "it has no [[at]]");
        return Err(error.help("write [[at]] above t and set"));
    };
    steps(node)
}

fn step(node: &Node) -> Result<Step, ConfigError> {
    let mut section = Section::new("at", node)?;
    let (t, set) = (section.get("t"), section.get("set"));
    // A name that is misspelt is told as such, not as one that is missing.
    section.finish()?;
    let at_ns = quantity::time_ns("at.t", t.ok_or_else(|| section.missing("t"))?)?;
    let set = set.ok_or_else(|| section.missing("set"))?;
    match &set.value {
        Value::Table(table) => Ok(Step { at_ns, set: table.entries.clone() }),
        other => {
            let error = wrong_kind("at.set", other, &set.place);
            Err(error.help("write set = { \"link.up.rate.bps\" = \"20Mbit\" }"))
        }
    }
}
