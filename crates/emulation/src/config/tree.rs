//! Settings as they were written: a tree of named values with their locations.
//!
//! Files, flags and control messages all become such a tree, from which the links are built. So a
//! value has the same meaning wherever it was written, except in some flags (for example those of
//! `tlem`), and an error can say where its value was written.

use std::fmt;
use std::sync::Arc;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigLocation {
    pub origin: ConfigOrigin,
    /// Column in the line of the file, or in the value of the flag or message, in characters,
    /// counted from 1.
    pub column: usize,
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// A line of a file.
    File { name: Arc<str>, line: usize },
    /// The value of the flag of this name.
    Flag(Arc<str>),
    /// The value of a flag of `tlem` or `nmreplay`: bare numbers are allowed, and the prefixes of
    /// sizes are powers of 1024.
    Classic(Arc<str>),
    /// A control message.
    Message,
}

impl ConfigLocation {
    pub fn flag(name: &str) -> Self {
        Self { origin: ConfigOrigin::Flag(name.into()), column: 1 }
    }

    /// Returns this location. If it is that of a flag and `classic` is true, marks the flag as one
    /// of `tlem` or `nmreplay`.
    pub fn classic_if(self, classic: bool) -> Self {
        match self.origin {
            ConfigOrigin::Flag(name) if classic => {
                Self { origin: ConfigOrigin::Classic(name), ..self }
            }
            source => Self { origin: source, ..self },
        }
    }

    /// Returns the location `chars` characters further right.
    pub fn advanced_by(&self, chars: usize) -> Self {
        Self { origin: self.origin.clone(), column: self.column + chars }
    }

    /// Returns whether the value was written as the value of a flag.
    pub fn is_flag(&self) -> bool {
        matches!(self.origin, ConfigOrigin::Flag(_) | ConfigOrigin::Classic(_))
    }

    /// Returns whether numbers without a unit are allowed and have the meaning that TLEM gives
    /// them.
    pub fn is_classic(&self) -> bool {
        matches!(self.origin, ConfigOrigin::Classic(_))
    }
}

impl fmt::Display for ConfigLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.column;
        match &self.origin {
            ConfigOrigin::File { name, line } => write!(f, "{name}, line {line}, column {column}"),
            ConfigOrigin::Flag(flag) | ConfigOrigin::Classic(flag) => {
                write!(f, "column {column} of {flag}")
            }
            ConfigOrigin::Message => write!(f, "column {column} of the value"),
        }
    }
}

/// A value with its location.
#[derive(Debug, Clone)]
pub struct ConfigNode {
    pub location: ConfigLocation,
    pub value: ConfigValue,
}

/// A value as it was written.
#[derive(Debug, Clone)]
pub enum ConfigValue {
    /// A text: a string of TOML or JSON, or the value of a flag.
    Text(String),
    /// A number without a unit, as decimal text.
    Number(String),
    Flag(bool),
    List(Vec<ConfigNode>),
    Table(ConfigTable),
}

impl ConfigValue {
    /// Returns the type of the value, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Number(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl ConfigNode {
    pub fn text(text: impl Into<String>, location: ConfigLocation) -> Self {
        Self { location, value: ConfigValue::Text(text.into()) }
    }

    /// Creates a value from a word without quotes. `true` and `false` become booleans.
    pub fn unquoted(text: &str, location: ConfigLocation) -> Self {
        match text {
            "true" => Self { location, value: ConfigValue::Flag(true) },
            "false" => Self { location, value: ConfigValue::Flag(false) },
            text => Self::text(text, location),
        }
    }

    pub fn table(table: ConfigTable, location: ConfigLocation) -> Self {
        Self { location, value: ConfigValue::Table(table) }
    }

    /// Returns the value as text for error messages. For a list or a table, returns only the type.
    pub fn shown(&self) -> String {
        match &self.value {
            ConfigValue::Text(text) | ConfigValue::Number(text) => text.clone(),
            ConfigValue::Flag(flag) => flag.to_string(),
            ConfigValue::List(_) | ConfigValue::Table(_) => self.value.kind().to_owned(),
        }
    }
}

/// Named values, in the order in which they were written.
#[derive(Debug, Clone, Default)]
pub struct ConfigTable {
    pub entries: Vec<ConfigEntry>,
}

/// A named value; `location` is where its name was written.
#[derive(Debug, Clone)]
pub struct ConfigEntry {
    pub key: String,
    pub location: ConfigLocation,
    pub node: ConfigNode,
}

impl ConfigTable {
    pub fn get(&self, key: &str) -> Option<&ConfigNode> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut ConfigNode> {
        self.entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
    }

    /// Returns the text under a key; `None` if the key is absent or its value is not a text.
    pub fn word(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.value {
            ConfigValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Sets a value; replaces the old value if the key exists.
    pub fn put(&mut self, key: &str, node: ConfigNode) {
        let location = node.location.clone();
        self.put_entry(ConfigEntry { key: key.to_owned(), location, node });
    }

    /// Sets a named value; replaces the old value if the key exists.
    pub fn put_entry(&mut self, entry: ConfigEntry) {
        match self.entries.iter_mut().find(|old| old.key == entry.key) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    pub fn remove(&mut self, key: &str) {
        self.entries.retain(|entry| entry.key != key);
    }

    /// Returns the table under a key; creates it if the key is absent. `None` if the key has a
    /// value that is not a table.
    pub fn table_at(&mut self, key: &str, location: &ConfigLocation) -> Option<&mut Self> {
        if self.get(key).is_none() {
            self.put(key, ConfigNode::table(Self::default(), location.clone()));
        }
        match &mut self.get_mut(key)?.value {
            ConfigValue::Table(table) => Some(table),
            _ => None,
        }
    }
}
