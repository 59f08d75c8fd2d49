//! Converts TOML to settings and back.

use std::sync::Arc;

use slipring_cli::codes::SR0009;
use slipring_cli::config::quoted;
use toml::de::{DeTable, DeValue};

use super::error::EmulationConfigError;
use super::tree::{
    ConfigEntry, ConfigLocation, ConfigNode, ConfigOrigin, ConfigTable, ConfigValue,
};

/// Parses the TOML text of the file `name`.
///
/// # Errors
/// [`EmulationConfigError`] if the text is not TOML, or contains a date.
pub(crate) fn read(name: &str, text: &str) -> Result<ConfigTable, EmulationConfigError> {
    let reader = TomlReader { name: name.into(), lines: line_starts(text), text };
    let table = DeTable::parse(text).map_err(|error| {
        let location = reader.location(error.span().map_or(0, |span| span.start));
        let message = error.message().trim_end_matches('.').replace('\n', ", ");
        EmulationConfigError::new(SR0009, format!("{name} is not TOML"), message)
            .at(&location)
            .help("see an example: slipring emulate -B 10m -D 20ms --print-config")
    })?;
    reader.table(table.get_ref())
}

struct TomlReader<'t> {
    name: Arc<str>,
    lines: Vec<usize>,
    text: &'t str,
}

/// Returns the byte offset of the start of each line.
fn line_starts(text: &str) -> Vec<usize> {
    let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect()
}

impl TomlReader<'_> {
    fn location(&self, offset: usize) -> ConfigLocation {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let before = self.text.get(self.lines[line - 1]..offset).unwrap_or_default();
        let source = ConfigOrigin::File { name: Arc::clone(&self.name), line };
        ConfigLocation { origin: source, column: before.chars().count() + 1 }
    }

    /// Converts a table, with the keys in the order of the file.
    fn table(&self, table: &DeTable<'_>) -> Result<ConfigTable, EmulationConfigError> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            let location = self.location(key.span().start);
            Ok(ConfigEntry { key: name.to_string(), location, node: self.node(value)? })
        };
        entries
            .into_iter()
            .map(entry)
            .collect::<Result<_, _>>()
            .map(|entries| ConfigTable { entries })
    }

    fn node(&self, value: &toml::Spanned<DeValue<'_>>) -> Result<ConfigNode, EmulationConfigError> {
        let start = value.span().start;
        let mut location = self.location(start);
        let value = match value.get_ref() {
            DeValue::String(text) => {
                // Columns within a quoted text are counted from the character after the quote.
                location =
                    location.advanced_by(usize::from(self.text[start..].starts_with(['"', '\''])));
                ConfigValue::Text(text.to_string())
            }
            DeValue::Integer(number) if number.radix() == 10 => {
                ConfigValue::Number(number.to_string())
            }
            DeValue::Integer(number) => {
                let value = i128::from_str_radix(number.as_str(), number.radix());
                ConfigValue::Number(
                    value.map_or_else(|_| number.to_string(), |value| value.to_string()),
                )
            }
            DeValue::Float(number) => ConfigValue::Number(number.as_str().to_owned()),
            DeValue::Boolean(flag) => ConfigValue::Flag(*flag),
            DeValue::Datetime(_) => {
                let error = EmulationConfigError::key("no setting is a date", "").at(&location);
                return Err(error.help("write times as 10s or 5min"));
            }
            DeValue::Array(list) => ConfigValue::List(
                list.iter().map(|value| self.node(value)).collect::<Result<_, _>>()?,
            ),
            DeValue::Table(table) => ConfigValue::Table(self.table(table)?),
        };
        Ok(ConfigNode { location, value })
    }
}

/// Writes settings so that [`read`] returns the same settings: first a line for each setting of the
/// run, then a TOML table with a heading for each port, link and scheduled change, and for each
/// other table at the top level.
pub(crate) fn write(table: &ConfigTable) -> String {
    let mut text = String::new();
    let is_section = |node: &ConfigNode| match &node.value {
        ConfigValue::Table(_) => true,
        ConfigValue::List(list) => {
            list.iter().all(|n| matches!(n.value, ConfigValue::Table(_))) && !list.is_empty()
        }
        _ => false,
    };
    for entry in table.entries.iter().filter(|entry| !is_section(&entry.node)) {
        text += &format!("{} = {}\n", name(&entry.key), inline(&entry.node));
    }
    for entry in table.entries.iter().filter(|entry| is_section(&entry.node)) {
        match &entry.node.value {
            ConfigValue::Table(inner) => write_section(&mut text, &name(&entry.key), inner),
            ConfigValue::List(list) => {
                for node in list {
                    if let ConfigValue::Table(inner) = &node.value {
                        text += &format!("\n[[{}]]\n{}", name(&entry.key), lines(inner));
                    }
                }
            }
            _ => {}
        }
    }
    text
}

fn write_section(text: &mut String, heading: &str, table: &ConfigTable) {
    let holds_tables = ["ports", "link"].contains(&heading);
    if !holds_tables {
        *text += &format!("\n[{heading}]\n{}", lines(table));
        return;
    }
    for entry in &table.entries {
        if let ConfigValue::Table(inner) = &entry.node.value {
            *text += &format!("\n[{heading}.{}]\n{}", name(&entry.key), lines(inner));
        }
    }
}

fn lines(table: &ConfigTable) -> String {
    let line = |entry: &ConfigEntry| format!("{} = {}\n", name(&entry.key), inline(&entry.node));
    table.entries.iter().map(line).collect()
}

fn inline(node: &ConfigNode) -> String {
    match &node.value {
        ConfigValue::Text(text) => quoted(text),
        ConfigValue::Number(number) => number.clone(),
        ConfigValue::Flag(flag) => flag.to_string(),
        ConfigValue::List(list) => {
            let items: Vec<_> = list.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        ConfigValue::Table(table) => {
            let pair =
                |entry: &ConfigEntry| format!("{} = {}", name(&entry.key), inline(&entry.node));
            let pairs: Vec<_> = table.entries.iter().map(pair).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

fn name(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { quoted(key) }
}
