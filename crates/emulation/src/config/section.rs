//! Reads the values of one table by key. A key that no code reads is an error.

use slipring_model::Chance;

use super::error::{EmulationConfigError, listed, nearest};
use super::parts::LinkPart;
use super::quantity;
use super::tree::{ConfigLocation, ConfigNode, ConfigTable, ConfigValue};

/// A table that is being read. Every key that a reader has requested counts as known.
pub(crate) struct ConfigSection<'n> {
    /// The table's path, such as `link.up.rate`.
    pub path: String,
    pub location: &'n ConfigLocation,
    table: &'n ConfigTable,
    known_keys: Vec<&'static str>,
}

impl<'n> ConfigSection<'n> {
    pub(crate) fn new(
        path: impl Into<String>,
        node: &'n ConfigNode,
    ) -> Result<Self, EmulationConfigError> {
        let path = path.into();
        match &node.value {
            ConfigValue::Table(table) => {
                Ok(Self { path, location: &node.location, table, known_keys: Vec::new() })
            }
            other => {
                let error = quantity::wrong_kind(&path, other, &node.location);
                Err(error.help("write a table: { name = value, … }"))
            }
        }
    }

    pub(crate) fn of_table(
        path: &str,
        table: &'n ConfigTable,
        location: &'n ConfigLocation,
    ) -> Self {
        Self { path: path.to_owned(), location, table, known_keys: Vec::new() }
    }

    /// Returns the path of a key in this table.
    pub(crate) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(crate) fn get(&mut self, key: &'static str) -> Option<&'n ConfigNode> {
        self.known_keys.push(key);
        self.table.get(key)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    /// Reads a value with `reader`; `None` if the key is absent.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        reader: impl Fn(&str, &'n ConfigNode) -> Result<T, EmulationConfigError>,
    ) -> Result<Option<T>, EmulationConfigError> {
        let path = self.path_of(key);
        self.get(key).map(|node| reader(&path, node)).transpose()
    }

    /// Reads a required value.
    pub(crate) fn required<T>(
        &mut self,
        key: &'static str,
        reader: impl Fn(&str, &'n ConfigNode) -> Result<T, EmulationConfigError>,
    ) -> Result<T, EmulationConfigError> {
        self.read(key, reader)?.ok_or_else(|| self.missing(key))
    }

    pub(crate) fn missing(&self, key: &str) -> EmulationConfigError {
        let summary = format!("{} is missing", self.path_of(key));
        let part = self.path.rsplit('.').next().and_then(LinkPart::by_name);
        let model = part
            .and_then(|part| part.model(self.table.word(part.selector).unwrap_or(part.default)));
        EmulationConfigError::key(summary, "").at(self.location).help(match model {
            Some(model) => format!("{} takes: {}", model.name, listed(model.arguments)),
            None => format!("add {key} = …"),
        })
    }

    pub(crate) fn time(&mut self, key: &'static str) -> Result<Option<u64>, EmulationConfigError> {
        self.read(key, quantity::time_ns)
    }

    pub(crate) fn size(&mut self, key: &'static str) -> Result<Option<u64>, EmulationConfigError> {
        self.read(key, quantity::size_bytes)
    }

    pub(crate) fn probability(
        &mut self,
        key: &'static str,
    ) -> Result<Option<f64>, EmulationConfigError> {
        self.read(key, quantity::probability)
    }

    pub(crate) fn real(&mut self, key: &'static str) -> Result<Option<f64>, EmulationConfigError> {
        self.read(key, quantity::real)
    }

    pub(crate) fn count(&mut self, key: &'static str) -> Result<Option<u64>, EmulationConfigError> {
        self.read(key, quantity::count)
    }

    pub(crate) fn count_u32(
        &mut self,
        key: &'static str,
    ) -> Result<Option<u32>, EmulationConfigError> {
        self.read(key, small)
    }

    pub(crate) fn chance(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Chance>, EmulationConfigError> {
        self.read(key, chance)
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, EmulationConfigError> {
        self.read(key, truth)
    }

    pub(crate) fn text(
        &mut self,
        key: &'static str,
    ) -> Result<Option<String>, EmulationConfigError> {
        self.read(key, text)
    }

    /// Reads a word that must be one of `words`, and returns the value that belongs to it.
    pub(crate) fn one_of<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, EmulationConfigError> {
        self.read(key, |path, node| one_of(path, node, words))
    }

    /// Returns the table itself.
    pub(crate) const fn table(&self) -> &'n ConfigTable {
        self.table
    }

    /// Returns the location of the value at `key`, or of the table if the key is absent.
    pub(crate) fn location_of(&self, key: &str) -> &'n ConfigLocation {
        self.table.get(key).map_or(self.location, |node| &node.location)
    }

    /// Returns an error for the first key that no reader has requested, if there is one.
    pub(crate) fn finish(&self) -> Result<(), EmulationConfigError> {
        let strange = |key: &str| !self.known_keys.contains(&key);
        let Some(entry) = self.table.entries.iter().find(|entry| strange(&entry.key)) else {
            return Ok(());
        };
        let holder = if self.path.is_empty() { "the configuration" } else { &self.path };
        let near = nearest(&entry.key, &self.known_keys);
        let error = EmulationConfigError::key(format!("{holder} has no `{}`", entry.key), "");
        let known = listed(&self.known_keys);
        Err(error.at(&entry.location).help(match near {
            Some(near) => format!("did you mean `{near}`? allowed: {known}"),
            None => format!("allowed: {known}"),
        }))
    }
}

pub(crate) fn chance(path: &str, node: &ConfigNode) -> Result<Chance, EmulationConfigError> {
    let p = quantity::probability(path, node)?;
    Ok(Chance::from_f64(p).expect("a probability was checked to be one"))
}

pub(crate) fn small(path: &str, node: &ConfigNode) -> Result<u32, EmulationConfigError> {
    let value = quantity::count(path, node)?;
    u32::try_from(value).map_err(|_| {
        let error =
            EmulationConfigError::value(path, &node.shown(), "too large").at(&node.location);
        error.help("write a whole number up to 4294967295")
    })
}

/// Reads a boolean. In a flag of the command line, words such as `yes` are allowed too, because a
/// flag's value has no type.
pub(crate) fn truth(path: &str, node: &ConfigNode) -> Result<bool, EmulationConfigError> {
    match &node.value {
        ConfigValue::Flag(flag) => Ok(*flag),
        ConfigValue::Text(text)
            if node.location.is_flag() && matches!(text.as_str(), "yes" | "on" | "1") =>
        {
            Ok(true)
        }
        ConfigValue::Text(text)
            if node.location.is_flag() && matches!(text.as_str(), "no" | "off" | "0") =>
        {
            Ok(false)
        }
        other => {
            let error =
                EmulationConfigError::value(path, &node.shown(), format!("it is {}", other.kind()));
            let quotes = if node.location.is_flag() { "" } else { ", without quotes" };
            Err(error.at(&node.location).help(format!("write true or false{quotes}")))
        }
    }
}

pub(crate) fn text(path: &str, node: &ConfigNode) -> Result<String, EmulationConfigError> {
    match &node.value {
        ConfigValue::Text(text) => Ok(text.clone()),
        other => Err(quantity::wrong_kind(path, other, &node.location).help("write a text: \"…\"")),
    }
}

/// Reads a word that must be one of `words`, and returns the value that belongs to it.
pub(crate) fn one_of<T: Copy>(
    path: &str,
    node: &ConfigNode,
    words: &[(&str, T)],
) -> Result<T, EmulationConfigError> {
    let text = text(path, node)?;
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        unknown_word(path, &text, &node.location, &names)
    })
}

pub(crate) fn unknown_word(
    path: &str,
    text: &str,
    location: &ConfigLocation,
    names: &[&str],
) -> EmulationConfigError {
    let error = EmulationConfigError::value(path, text, "unknown name").at(location);
    error.help(match nearest(text, names) {
        Some(near) => format!("did you mean `{near}`? allowed: {}", listed(names)),
        None => format!("allowed: {}", listed(names)),
    })
}
