//! Settings of flags as a file has them: with units, written in full.
//!
//! In a flag `10m` may be ten milliseconds or ten megabits, by the setting that it is for. Here
//! stands which setting is what.

use std::time::Duration;

use slipring_cli::units::{Bytes, Rate, Span};

use super::quantity;
use super::shape::Part;
use super::tree::{Node, Table, Value};

/// What a setting measures, where that has a unit.
#[derive(Clone, Copy)]
enum Kind {
    Time,
    Rate,
    Size,
}

/// Settings with units, by part; those of a link itself have no part.
const KINDS: [(&str, Kind, &[&str]); 14] = [
    ("hold", Kind::Time, &["time"]),
    ("police", Kind::Rate, &["bps", "cir", "pir", "eir"]),
    ("police", Kind::Size, &["burst", "cbs", "pbs", "ebs"]),
    ("loss", Kind::Time, &["good_time", "bad_time", "from", "until", "period"]),
    ("rate", Kind::Rate, &["bps", "from", "to", "mean", "amplitude", "sd", "min", "max"]),
    ("rate", Kind::Time, &["period", "slot", "start", "guard", "duration", "step", "half_life"]),
    ("queue", Kind::Size, &["bytes", "min", "max"]),
    (
        "queue",
        Kind::Time,
        &["time", "target", "interval", "update", "max_burst", "step", "ramp", "mark_above"],
    ),
    ("duplicate", Kind::Time, &["after"]),
    ("delay", Kind::Time, &["mean", "sd", "min", "max", "half_life", "scale", "delay"]),
    ("delay", Kind::Time, &["min_gap", "max_gap", "period"]),
    ("output", Kind::Time, &["late_drop", "late_warn"]),
    ("", Kind::Time, &["offset"]),
    ("", Kind::Rate, &["output"]),
];

/// The settings as a file has them.
pub(super) fn written(root: &Table) -> Table {
    let mut root = root.clone();
    if let Some(Node { value: Value::Table(links), .. }) = root.get_mut("link") {
        for link in &mut links.entries {
            if let Value::Table(link) = &mut link.node.value {
                write_link(link);
            }
        }
    }
    if let Some(Node { value: Value::Table(output), .. }) = root.get_mut("output") {
        write_part("output", output);
    }
    root
}

fn write_link(link: &mut Table) {
    for entry in &mut link.entries {
        match &mut entry.node.value {
            Value::Table(part) => write_part(&entry.key, part),
            Value::List(list) => {
                for node in list {
                    if let Value::Table(part) = &mut node.value {
                        write_part(&entry.key, part);
                    }
                }
            }
            _ if Part::named(&entry.key).is_none() => write_value("", &entry.key, &mut entry.node),
            _ => {}
        }
    }
}

fn write_part(part: &str, table: &mut Table) {
    for entry in &mut table.entries {
        write_value(part, &entry.key, &mut entry.node);
    }
}

/// What cannot be read stays as it is: building the network says what is wrong with it.
fn write_value(part: &str, key: &str, node: &mut Node) {
    if let ("rate", "states", Value::List(states)) = (part, key, &mut node.value) {
        states.iter_mut().for_each(write_state);
        return;
    }
    let kind = KINDS.iter().find(|(of, _, keys)| *of == part && keys.contains(&key));
    let Some((_, kind, _)) = kind.filter(|_| node.place.is_classic()) else { return };
    let text = match kind {
        Kind::Time => quantity::time_ns("", node).ok().and_then(|ns| {
            let span = Span::parse(&ns.to_string(), Duration::from_nanos(1));
            span.ok().map(|span| span.to_string())
        }),
        Kind::Rate => quantity::rate_bps("", node).ok().map(|bps| Rate::Bits(bps).to_string()),
        Kind::Size => quantity::size_bytes("", node).ok().map(|bytes| Bytes(bytes).to_string()),
    };
    if let Some(text) = text {
        node.value = Value::Text(text);
    }
}

/// `10m:2` is `10Mbit/s:2s`.
fn write_state(node: &mut Node) {
    let Value::Text(text) = &node.value else { return };
    let Some((rate, time)) = text.split_once(':') else { return };
    let mut rate = Node::text(rate, node.place.clone());
    let mut time = Node::text(time, node.place.clone());
    write_value("rate", "bps", &mut rate);
    write_value("rate", "duration", &mut time);
    node.value = Value::Text(format!("{}:{}", rate.shown(), time.shown()));
}
