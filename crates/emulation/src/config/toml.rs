//! TOML to settings and back.

use std::sync::Arc;

use slipring_cli::codes::SR0009;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::tree::{Entry, Node, Place, Source, Table, Value};

/// Reads a file's text.
///
/// # Errors
/// If it is not TOML, or holds a date.
pub(crate) fn read(name: &str, text: &str) -> Result<Table, ConfigError> {
    let reader = Reader { name: name.into(), lines: line_starts(text), text };
    let table = DeTable::parse(text).map_err(|error| {
        let place = reader.place(error.span().map_or(0, |span| span.start));
        let message = error.message().trim_end_matches('.').replace('\n', ", ");
        ConfigError::new(SR0009, format!("{name} is not TOML"), message)
            .at(&place)
            .help("see an example: slipring emulate -B 10m -D 20ms --print-config")
    })?;
    reader.table(table.get_ref())
}

struct Reader<'t> {
    name: Arc<str>,
    lines: Vec<usize>,
    text: &'t str,
}

/// Where each line begins.
fn line_starts(text: &str) -> Vec<usize> {
    let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect()
}

impl Reader<'_> {
    fn place(&self, offset: usize) -> Place {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let before = self.text.get(self.lines[line - 1]..offset).unwrap_or_default();
        let source = Source::File { name: Arc::clone(&self.name), line };
        Place { source, column: before.chars().count() + 1 }
    }

    /// Names in the order in which they stand in the file.
    fn table(&self, table: &DeTable<'_>) -> Result<Table, ConfigError> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            let place = self.place(key.span().start);
            Ok(Entry { key: name.to_string(), place, node: self.node(value)? })
        };
        entries.into_iter().map(entry).collect::<Result<_, _>>().map(|entries| Table { entries })
    }

    fn node(&self, value: &toml::Spanned<DeValue<'_>>) -> Result<Node, ConfigError> {
        let start = value.span().start;
        let mut place = self.place(start);
        let value = match value.get_ref() {
            DeValue::String(text) => {
                // Columns inside of the text count from behind its quote.
                place = place.right(usize::from(self.text[start..].starts_with(['"', '\''])));
                Value::Text(text.to_string())
            }
            DeValue::Integer(number) if number.radix() == 10 => Value::Number(number.to_string()),
            DeValue::Integer(number) => {
                let value = i128::from_str_radix(number.as_str(), number.radix());
                Value::Number(value.map_or_else(|_| number.to_string(), |value| value.to_string()))
            }
            DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Datetime(_) => {
                let error = ConfigError::key("no setting is a date", "").at(&place);
                return Err(error.help("write times as 10s or 5min"));
            }
            DeValue::Array(list) => {
                Value::List(list.iter().map(|value| self.node(value)).collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => Value::Table(self.table(table)?),
        };
        Ok(Node { place, value })
    }
}

/// Writes settings so that [`read`] gives the same back: one heading for each port, link and
/// scheduled change, all else in lines.
pub(crate) fn write(table: &Table) -> String {
    let mut text = String::new();
    let is_section = |node: &Node| match &node.value {
        Value::Table(_) => true,
        Value::List(list) => {
            list.iter().all(|n| matches!(n.value, Value::Table(_))) && !list.is_empty()
        }
        _ => false,
    };
    for entry in table.entries.iter().filter(|entry| !is_section(&entry.node)) {
        text += &format!("{} = {}\n", name(&entry.key), inline(&entry.node));
    }
    for entry in table.entries.iter().filter(|entry| is_section(&entry.node)) {
        match &entry.node.value {
            Value::Table(inner) => write_section(&mut text, &name(&entry.key), inner),
            Value::List(list) => {
                for node in list {
                    if let Value::Table(inner) = &node.value {
                        text += &format!("\n[[{}]]\n{}", name(&entry.key), lines(inner));
                    }
                }
            }
            _ => {}
        }
    }
    text
}

fn write_section(text: &mut String, heading: &str, table: &Table) {
    let holds_tables = ["ports", "link"].contains(&heading);
    if !holds_tables {
        *text += &format!("\n[{heading}]\n{}", lines(table));
        return;
    }
    for entry in &table.entries {
        if let Value::Table(inner) = &entry.node.value {
            *text += &format!("\n[{heading}.{}]\n{}", name(&entry.key), lines(inner));
        }
    }
}

fn lines(table: &Table) -> String {
    let line = |entry: &Entry| format!("{} = {}\n", name(&entry.key), inline(&entry.node));
    table.entries.iter().map(line).collect()
}

fn inline(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => quoted(text),
        Value::Number(number) => number.clone(),
        Value::Flag(flag) => flag.to_string(),
        Value::List(list) => {
            let items: Vec<_> = list.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(table) => {
            let pair = |entry: &Entry| format!("{} = {}", name(&entry.key), inline(&entry.node));
            let pairs: Vec<_> = table.entries.iter().map(pair).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}

fn name(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { quoted(key) }
}

/// JSON's escapes are a part of those of a basic string in TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
