//! Settings as they were written: a tree of named values that know their place.
//!
//! Files, flags and control messages all end here, and the links are built from it. So a value
//! means the same wherever it was written, and an error can always say where that was.

use std::fmt;
use std::sync::Arc;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub source: Source,
    /// In characters from 1.
    pub column: usize,
}

/// What a value was written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A line of a file.
    File { name: Arc<str>, line: usize },
    /// The value of a flag.
    Flag(Arc<str>),
    /// The value of a flag of `tlem` or `nmreplay`: numbers may stand alone as well, and the
    /// prefixes of sizes are powers of 1024.
    Classic(Arc<str>),
    /// A control message.
    Message,
}

impl Place {
    pub fn flag(name: &str) -> Self {
        Self { source: Source::Flag(name.into()), column: 1 }
    }

    /// The same place in the command line of `tlem` or `nmreplay`, where `classic` says so.
    pub fn classic_if(self, classic: bool) -> Self {
        match self.source {
            Source::Flag(name) if classic => Self { source: Source::Classic(name), ..self },
            source => Self { source, ..self },
        }
    }

    /// The place so many characters further right.
    pub fn right(&self, chars: usize) -> Self {
        Self { source: self.source.clone(), column: self.column + chars }
    }

    /// Whether this is a flag.
    pub fn is_flag(&self) -> bool {
        matches!(self.source, Source::Flag(_) | Source::Classic(_))
    }

    /// Whether numbers mean what they meant to TLEM.
    pub fn is_classic(&self) -> bool {
        matches!(self.source, Source::Classic(_))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.column;
        match &self.source {
            Source::File { name, line } => write!(f, "{name}, line {line}, column {column}"),
            Source::Flag(flag) | Source::Classic(flag) => write!(f, "column {column} of {flag}"),
            Source::Message => write!(f, "column {column} of the value"),
        }
    }
}

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Node {
    pub place: Place,
    pub value: Value,
}

/// What can be written.
#[derive(Debug, Clone)]
pub enum Value {
    /// A string.
    Text(String),
    /// A number without a unit, as it was written.
    Number(String),
    Flag(bool),
    List(Vec<Node>),
    Table(Table),
}

impl Value {
    /// What it is, for messages.
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

impl Node {
    pub fn text(text: impl Into<String>, place: Place) -> Self {
        Self { place, value: Value::Text(text.into()) }
    }

    /// A word of a line, where nothing stands in quotes.
    pub fn word(text: &str, place: Place) -> Self {
        match text {
            "true" => Self { place, value: Value::Flag(true) },
            "false" => Self { place, value: Value::Flag(false) },
            text => Self::text(text, place),
        }
    }

    pub fn table(table: Table, place: Place) -> Self {
        Self { place, value: Value::Table(table) }
    }

    /// What was written, in one line.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Text(text) | Value::Number(text) => text.clone(),
            Value::Flag(flag) => flag.to_string(),
            Value::List(_) | Value::Table(_) => self.value.kind().to_owned(),
        }
    }
}

/// Named values, in the order in which they were written.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub entries: Vec<Entry>,
}

/// A named value; `place` is that of the name.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: String,
    pub place: Place,
    pub node: Node,
}

impl Table {
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
    }

    /// The word under a key, where it is one.
    pub fn word(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Puts a value in place of the one of that name.
    pub fn put(&mut self, key: &str, node: Node) {
        let place = node.place.clone();
        self.put_entry(Entry { key: key.to_owned(), place, node });
    }

    /// Puts a named value in place of the one of that name.
    pub fn put_entry(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|old| old.key == entry.key) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    pub fn remove(&mut self, key: &str) {
        self.entries.retain(|entry| entry.key != key);
    }

    /// The table of that name, made where there is none; none where something else has the name.
    pub fn table_at(&mut self, key: &str, place: &Place) -> Option<&mut Self> {
        if self.get(key).is_none() {
            self.put(key, Node::table(Self::default(), place.clone()));
        }
        match &mut self.get_mut(key)?.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }
}
