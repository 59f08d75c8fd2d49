//! Converts settings from flags to the form that files have, with unabbreviated units.
//!
//! In a flag `10m` may be ten milliseconds or ten megabits, depending on the setting. The table
//! here defines the dimension of each setting.

use slipring_cli::units::{ByteCount, RateWithUnit};
use slipring_link::Framing;

use super::engine_errors;
use super::parts::LinkPart;
use super::quantity;
use super::section;
use super::tree::{ConfigNode, ConfigTable, ConfigValue};

/// The kind of a setting's value: its dimension, or a boolean.
#[derive(Clone, Copy)]
enum CanonicalKind {
    Time,
    Rate,
    Size,
    Flag,
}

/// The settings whose form in files differs from that in flags. For each: the part of the link
/// (empty for settings of the link itself) or the table `output`, the kind, and the keys.
const SETTING_KINDS: [(&str, CanonicalKind, &[&str]); 19] = [
    ("hold", CanonicalKind::Time, &["time"]),
    ("police", CanonicalKind::Rate, &["bps", "cir", "pir", "eir"]),
    ("police", CanonicalKind::Size, &["burst", "cbs", "pbs", "ebs"]),
    ("loss", CanonicalKind::Time, &["good_time", "bad_time", "from", "until", "period"]),
    ("rate", CanonicalKind::Rate, &["bps", "from", "to", "mean", "amplitude", "sd", "min", "max"]),
    (
        "rate",
        CanonicalKind::Time,
        &["period", "slot", "start", "guard", "duration", "step", "half_life"],
    ),
    ("queue", CanonicalKind::Size, &["bytes", "min", "max"]),
    (
        "queue",
        CanonicalKind::Time,
        &["time", "target", "interval", "update", "max_burst", "step", "ramp", "mark_above"],
    ),
    ("duplicate", CanonicalKind::Time, &["after"]),
    ("delay", CanonicalKind::Time, &["mean", "sd", "min", "max", "half_life", "scale", "delay"]),
    ("delay", CanonicalKind::Time, &["min_gap", "max_gap", "period"]),
    ("output", CanonicalKind::Time, &["late_drop", "late_warn"]),
    ("rate", CanonicalKind::Flag, &["whole_frames"]),
    ("queue", CanonicalKind::Flag, &["ecn", "gentle"]),
    ("mangle", CanonicalKind::Flag, &["fix_checksum"]),
    ("corrupt", CanonicalKind::Flag, &["fix_checksum"]),
    ("delay", CanonicalKind::Flag, &["in_turn", "smooth"]),
    ("", CanonicalKind::Time, &["offset"]),
    ("", CanonicalKind::Rate, &["output"]),
];

/// Returns the settings in the form of a file.
pub(super) fn written(root: &ConfigTable) -> ConfigTable {
    let mut root = root.clone();
    if let Some(ConfigNode { value: ConfigValue::Table(links), .. }) = root.get_mut("link") {
        for link in &mut links.entries {
            if let ConfigValue::Table(link) = &mut link.node.value {
                write_link(link);
            }
        }
    }
    if let Some(ConfigNode { value: ConfigValue::Table(output), .. }) = root.get_mut("output") {
        write_part("output", output);
    }
    root
}

fn write_link(link: &mut ConfigTable) {
    write_no_rate(link);
    for entry in &mut link.entries {
        match &mut entry.node.value {
            ConfigValue::Table(part) => write_part(&entry.key, part),
            ConfigValue::List(list) => {
                for node in list {
                    if let ConfigValue::Table(part) = &mut node.value {
                        write_part(&entry.key, part);
                    }
                }
            }
            _ if LinkPart::by_name(&entry.key).is_none() => {
                write_value("", &entry.key, &mut entry.node)
            }
            _ => {}
        }
    }
}

/// Removes a rate of 0. In a flag, 0 means an unlimited rate, but in a file it is an error.
fn write_no_rate(link: &mut ConfigTable) {
    let Some(ConfigNode { value: ConfigValue::Table(rate), location }) = link.get_mut("rate")
    else {
        return;
    };
    let none =
        |node: &&ConfigNode| node.location.is_flag() && quantity::rate_bps("", node) == Ok(0);
    if rate.get("bps").filter(none).is_none() {
        return;
    }
    // The overhead of a frame is kept, because it still matters if a profile sets a rate.
    if rate.word("model") == Some("ether") && rate.get("overhead").is_none() {
        let value = ConfigValue::Number(Framing::ETHER.overhead_bytes.to_string());
        rate.put("overhead", ConfigNode { location: location.clone(), value });
    }
    ["bps", "model"].into_iter().for_each(|key| rate.remove(key));
    if rate.entries.is_empty() {
        link.remove("rate");
    }
}

fn write_part(part: &str, table: &mut ConfigTable) {
    for entry in &mut table.entries {
        write_value(part, &entry.key, &mut entry.node);
    }
}

/// Converts the value of a setting. An invalid value stays unchanged; the error is reported when
/// the setting is used.
fn write_value(part: &str, key: &str, node: &mut ConfigNode) {
    if let ("rate", "states", ConfigValue::List(states)) = (part, key, &mut node.value) {
        states.iter_mut().for_each(write_state);
        return;
    }
    let kind = SETTING_KINDS.iter().find(|(of, _, keys)| *of == part && keys.contains(&key));
    let Some((_, kind, _)) = kind.filter(|_| node.location.is_flag()) else { return };
    let text = match kind {
        CanonicalKind::Flag => {
            if let Ok(flag) = section::truth("", node) {
                node.value = ConfigValue::Flag(flag);
            }
            return;
        }
        CanonicalKind::Time => quantity::time_ns("", node).ok().map(engine_errors::time),
        CanonicalKind::Rate => {
            quantity::rate_bps("", node).ok().map(|bps| RateWithUnit::Bits(bps).to_string())
        }
        CanonicalKind::Size => {
            quantity::size_bytes("", node).ok().map(|bytes| ByteCount(bytes).to_string())
        }
    };
    if let Some(text) = text {
        node.value = ConfigValue::Text(text);
    }
}

/// Converts a state of a Markov rate: `10m:2` to `10Mbit/s:2s`.
fn write_state(node: &mut ConfigNode) {
    let ConfigValue::Text(text) = &node.value else { return };
    let Some((rate, time)) = text.split_once(':') else { return };
    let mut rate = ConfigNode::text(rate, node.location.clone());
    let mut time = ConfigNode::text(time, node.location.clone());
    write_value("rate", "bps", &mut rate);
    write_value("rate", "duration", &mut time);
    node.value = ConfigValue::Text(format!("{}:{}", rate.shown(), time.shown()));
}
