//! Settings of flags as a file has them: with units, written in full.
//!
//! In a flag `10m` may be ten milliseconds or ten megabits, by the setting that it is for. Here
//! stands which setting is what.

use slipring_cli::units::{Bytes, Rate};
use slipring_link::Framing;

use super::quantity;
use super::section;
use super::shape::Part;
use super::terms;
use super::tree::{Node, Table, Value};

/// What a setting measures, where that has a unit, or that it is true or false.
#[derive(Clone, Copy)]
enum Kind {
    Time,
    Rate,
    Size,
    Truth,
}

/// Settings that are written otherwise in files, by part; those of a link itself have no part.
const KINDS: [(&str, Kind, &[&str]); 19] = [
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
    ("rate", Kind::Truth, &["whole_frames"]),
    ("queue", Kind::Truth, &["ecn", "gentle"]),
    ("mangle", Kind::Truth, &["fix_checksum"]),
    ("corrupt", Kind::Truth, &["fix_checksum"]),
    ("delay", Kind::Truth, &["in_turn", "smooth"]),
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
    write_no_rate(link);
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

/// In a flag a rate of 0 is none; in a file it is an error.
fn write_no_rate(link: &mut Table) {
    let Some(Node { value: Value::Table(rate), place }) = link.get_mut("rate") else { return };
    let none = |node: &&Node| node.place.is_flag() && quantity::rate_bps("", node) == Ok(0);
    if rate.get("bps").filter(none).is_none() {
        return;
    }
    // What a frame takes up still counts, where a profile has a rate.
    if rate.word("model") == Some("ether") && rate.get("overhead").is_none() {
        let value = Value::Number(Framing::ETHER.overhead_bytes.to_string());
        rate.put("overhead", Node { place: place.clone(), value });
    }
    ["bps", "model"].into_iter().for_each(|key| rate.remove(key));
    if rate.entries.is_empty() {
        link.remove("rate");
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
    let Some((_, kind, _)) = kind.filter(|_| node.place.is_flag()) else { return };
    let text = match kind {
        Kind::Truth => {
            if let Ok(flag) = section::truth("", node) {
                node.value = Value::Flag(flag);
            }
            return;
        }
        Kind::Time => quantity::time_ns("", node).ok().map(terms::time),
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
