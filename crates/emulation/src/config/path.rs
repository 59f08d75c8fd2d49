//! Paths of settings: `link.up.rate.bps`, or `up.rate.bps` for short.
//!
//! # Invariants
//! 1. In a set of changes, each setting has at most one value, even if its path is written in
//!    different forms. Otherwise it would be undefined which value applies.
//!
//! Not for: reading or setting the values at a path.

use std::borrow::Cow;

use super::error::EmulationConfigError;
use super::tree::ConfigEntry;

/// Returns the full path. A leading `link.` is optional, and added if it is missing.
pub(super) fn full(path: &str) -> Cow<'_, str> {
    match path.starts_with("link.") {
        true => path.into(),
        false => format!("link.{path}").into(),
    }
}

/// Splits a path into its last name and the names before it.
pub(super) fn split(path: &str) -> Result<(&str, Vec<&str>), EmulationConfigError> {
    let mut names: Vec<_> = path.split('.').collect();
    match names.pop() {
        Some(last) if !last.is_empty() && names.iter().all(|name| !name.is_empty()) => {
            Ok((last, names))
        }
        _ => {
            let error =
                EmulationConfigError::key(format!("`{path}` is no path"), "a name is missing");
            Err(error.help("write it as link.up.rate.bps"))
        }
    }
}

/// Returns an error if a setting has two values, or if both a part and a setting inside that part
/// have a value.
pub(super) fn refuse_twice(entries: &[ConfigEntry]) -> Result<(), EmulationConfigError> {
    let names =
        |entry: &ConfigEntry| full(&entry.key).split('.').map(str::to_owned).collect::<Vec<_>>();
    let mut named: Vec<_> = entries.iter().map(|entry| (names(entry), entry)).collect();
    // After sorting, a part is directly followed by its settings.
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    let twice = named.windows(2).find(|pair| pair[1].0.starts_with(&pair[0].0));
    let Some([(whole, first), (inner, second)]) = twice else { return Ok(()) };
    let summary = format!("{} is given twice", inner.join("."));
    let (one, other) = (&first.key, &second.key);
    let cause = match whole.len() == inner.len() {
        true if one == other => String::new(),
        true => format!("`{one}` and `{other}` are one setting"),
        false => format!("`{one}` sets it too"),
    };
    let help = match whole.len() == inner.len() {
        true => "give each setting one value",
        false => "give the whole part: up.delay='normal(20ms, 3ms)'; or its values, one by one",
    };
    Err(EmulationConfigError::key(summary, cause).at(&second.location).help(help))
}
