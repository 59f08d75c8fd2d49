//! Translates errors of the engine to the names of settings. The engine names a field with its
//! unit, such as `target_ns`; settings have other names, and values with units.
//!
//! Not for values that cannot be parsed; those are refused when they are read.

use std::time::Duration;

use slipring_cli::units::{RateWithUnit, TimeSpan};
use slipring_link::SpecError;
use slipring_model::ParameterError;

use super::error::EmulationConfigError;
use super::tree::{ConfigNode, ConfigTable, ConfigValue};

/// The fields of the engine whose setting cannot be derived from the field's name. Each row has the
/// part of the link, the field, and the setting that errors name. If the user has not given this
/// setting, errors name the fourth element of the row instead, unless it is empty.
const SETTING_NAMES: [(&str, &str, &str, &str); 24] = [
    ("hold", "hold_ns", "time", ""),
    ("police", "committed_bps", "cir", ""),
    ("police", "committed_burst", "cbs", ""),
    ("police", "peak_bps", "pir", ""),
    ("police", "peak_burst", "pbs", ""),
    ("police", "excess_bps", "eir", ""),
    ("police", "excess_burst", "ebs", ""),
    ("loss", "good_ns", "good_time", ""),
    ("loss", "bad_ns", "bad_time", ""),
    ("loss", "pattern", "bits", "file"),
    // If the user has given neither of the two settings, errors name the second one.
    ("loss", "nth", "nth", "every"),
    ("loss", "p13 + p14", "p14", "p13"),
    ("loss", "p31 + p32", "p32", "p31"),
    ("loss", "windows.from_ns", "windows", "from"),
    ("loss", "windows.until_ns", "windows", "until"),
    ("rate", "at_ns", "trace", ""),
    ("rate", "steps.at_ns", "trace", ""),
    ("rate", "steps.bps", "trace", ""),
    ("rate", "slots.start_ns", "slots", "start"),
    ("rate", "slots.len_ns", "slots", "slot"),
    ("rate", "cells.minislot", "minislot", ""),
    ("queue", "ramp_start_ns", "step", ""),
    ("queue", "k", "coupling", ""),
    ("delay", "steps.at_ns", "file", ""),
];

/// The dimension of a field, which determines the unit in errors.
#[derive(Clone, Copy)]
enum TermUnit {
    Time,
    Rate,
    None,
}

impl TermUnit {
    fn of(field: &str) -> Self {
        match field.rsplit(['_', '.']).next() {
            Some("ns") => Self::Time,
            Some("bps") => Self::Rate,
            _ => Self::None,
        }
    }

    fn shown(self, value: u64) -> String {
        match self {
            Self::Time => time(value),
            Self::Rate => RateWithUnit::Bits(value).to_string(),
            Self::None => value.to_string(),
        }
    }

    /// Rewrites the first number in a text, if there is one, with the unit that settings have.
    fn reworded(self, text: &str) -> String {
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let start = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
        let end = start + digits(&text[start..]);
        let Ok(number) = text[start..end].parse() else { return text.to_owned() };
        let rest = match self {
            Self::Time => text[end..].trim_start_matches(" ns"),
            Self::Rate => text[end..].trim_start_matches(" bit/s"),
            Self::None => return text.to_owned(),
        };
        format!("{}{}{rest}", &text[..start], self.shown(number))
    }
}

/// Formats a time as it is written in settings, for example `20ms`.
pub(super) fn time(ns: u64) -> String {
    let span = TimeSpan::parse(&ns.to_string(), Duration::from_nanos(1));
    span.map_or_else(|_| format!("{ns}ns"), |span| span.to_string())
}

/// Translates an error of a link, with its location. `node` is the link at `path`; `entry` is the
/// index in a part that is a list.
pub(super) fn refused(
    error: SpecError,
    path: &str,
    node: &ConfigNode,
    entry: Option<usize>,
) -> EmulationConfigError {
    let field = error.field.strip_prefix(path).unwrap_or(&error.field).trim_start_matches('.');
    let (part, rest) = field.split_once('.').unwrap_or(("", field));
    let part = if part == "framing" { "rate" } else { part };
    let at_node = if part.is_empty() { Some(node) } else { held(node, part) };
    let at_node = at_node.map_or(node, |node| match (&node.value, entry) {
        (ConfigValue::List(list), Some(entry)) => list.get(entry).unwrap_or(node),
        _ => node,
    });
    let is_given = |key: &str| held(at_node, key).is_some();
    let key = key(part, rest, &is_given);
    let value = held(at_node, &key);
    let unit = TermUnit::of(rest);
    let shown =
        value.filter(|node| matches!(node.value, ConfigValue::Text(_) | ConfigValue::Number(_)));
    let shown = shown.map_or_else(|| unit.reworded(&error.value), ConfigNode::shown);
    let setting: Vec<_> = [path, part, &key].into_iter().filter(|name| !name.is_empty()).collect();
    let fault = EmulationConfigError::value(&setting.join("."), &shown, "the link cannot have it");
    let allowed = allowed(rest, unit, &error.allowed);
    fault.at(&value.unwrap_or(at_node).location).help(format!("allowed: {allowed}"))
}

/// Returns the setting for a field of the engine.
fn key(part: &str, field: &str, is_given: &dyn Fn(&str) -> bool) -> String {
    let other = SETTING_NAMES.iter().find(|(of, name, ..)| (*of, *name) == (part, field));
    if let Some((_, _, first, second)) = other {
        let key = if second.is_empty() || is_given(first) { first } else { second };
        return (*key).to_owned();
    }
    let plain = field.split('.').next().unwrap_or(field);
    let bare = plain.strip_suffix("_ns").or_else(|| plain.strip_suffix("_bps")).unwrap_or(plain);
    // A threshold of a queue may be given in packets.
    let packets = format!("{bare}_packets");
    if !is_given(bare) && is_given(&packets) { packets } else { bare.to_owned() }
}

fn allowed(field: &str, unit: TermUnit, words: &str) -> String {
    match field.split_once(" + ") {
        Some((one, other)) => format!("{one} and {other} of 1 at most together"),
        None => unit.reworded(words),
    }
}

fn held<'n>(node: &'n ConfigNode, key: &str) -> Option<&'n ConfigNode> {
    match &node.value {
        ConfigValue::Table(table) => table.get(key),
        _ => None,
    }
}

/// Formats why a distribution of times is invalid; `table` has the distribution's settings.
pub(super) fn mismatch(error: &ParameterError, table: &ConfigTable) -> String {
    let counted = ["shape", "the number of", "a probability", "the last", "what min"];
    let is_time = !counted.iter().any(|start| error.parameter.starts_with(start));
    let value = match is_time && error.value >= 0.0 {
        true => time(error.value as u64),
        false => error.value.to_string(),
    };
    // If the limit is `min`, the message contains its value, as in `at least min, 5ms,`.
    let must_be = match table.get("min") {
        Some(min) if error.must_be.ends_with(" min") => {
            format!("{}, {},", error.must_be, min.shown())
        }
        _ => error.must_be.to_owned(),
    };
    let comma = if must_be.ends_with(',') { "" } else { "," };
    format!("{} must be {must_be}{comma} and is {value}", error.parameter)
}
