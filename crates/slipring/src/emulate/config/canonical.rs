//! Settings of flags as a file has them: with units, written in full.
//!
//! In a flag `10m` may be ten milliseconds or ten megabits, by the setting that it is for. Here
//! stands which setting is what.

use super::quantity;
use super::shape::Part;
use super::tree::{Node, Table, Value};
use slipring_cli::units::Bytes;
use slipring_cli::units::Rate;
use slipring_cli::units::Span;
use std::time::Duration;

/// What a setting measures, where that has a unit.
#[derive(Clone, Copy)]
enum Kind {
    Time,
    Rate,
    Size,
}

/// Settings with units, by part. `*` stands for every model of the part.
const KINDS: [(&str, Kind, &[&str]); 13] = [
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
