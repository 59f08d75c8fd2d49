//! The answer to `why` as text.

use serde_json::Value;
use slipring_rules::explain::rules_text;

use crate::show::{self, field, word};

/// Returns the packet, a line for each stage, and the outcome.
pub(crate) fn text(answer: &Value) -> String {
    let mut text = packet_text(&answer["packet"]) + "\n";
    for stage in answer["stages"].as_array().into_iter().flatten() {
        text += &of_stage(stage);
    }
    text + &outcome(answer) + "\n"
}

fn outcome(answer: &Value) -> String {
    let mac = word(answer, "mac", "to");
    let reason = field(answer, "reason");
    let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
    format!("{}{}{mac}{reason}", field(answer, "action"), word(answer, "dev", "by"))
}

/// The packet of an explanation or of a trace.
fn packet_text(packet: &Value) -> String {
    let part = |key| field(packet, key);
    let name = part("in");
    if packet["source"].is_null() {
        return format!("no valid IP packet, in by {name}");
    }
    let (source, destination) = (part("source"), part("destination"));
    let (protocol, len) = (part("protocol"), part("len"));
    format!("{source} > {destination}, protocol {protocol}, {len} bytes, in by {name}")
}

/// Describes a packet of a trace and its outcome.
pub(crate) fn traced(packet: &Value) -> String {
    format!("{}: {}\n", packet_text(&packet["packet"]), outcome(packet))
}

fn of_stage(stage: &Value) -> String {
    let name = field(stage, "stage");
    match &*name {
        "route" if !stage["route"].is_null() => format!("route: {}", show::route(&stage["route"])),
        "next hop" => {
            let known = word(stage, "mac", "lladdr") + &word(stage, "state", "");
            let flow = if stage["by_flow"] == true { ", chosen by the flow" } else { "" };
            format!(
                "next hop: {}{}{known}{flow}\n",
                field(stage, "verdict"),
                word(stage, "dev", "dev")
            )
        }
        _ => format!("{name}: {}\n{}", field(stage, "verdict"), rules_text(stage, "    ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_explanation_has_a_line_for_each_stage_and_ends_with_the_outcome() {
        let answer = json!({
            "packet": { "in": "eth0", "source": "10.1.0.2:4000", "destination": "10.3.0.2:53",
                        "protocol": 17, "len": 46 },
            "stages": [
                { "stage": "parse", "verdict": "accepted" },
                { "stage": "rules in", "verdict": "accepted", "rules": [
                    { "number": 100, "rule": "allow ip from any to any",
                      "why": "matches, and ends the search" } ] },
                { "stage": "route", "verdict": "10.3.0.0/24", "route": {
                    "prefix": "10.3.0.0/24", "kind": "unicast", "nexthops": [{ "dev": "eth1" }] } },
                { "stage": "next hop", "verdict": "10.3.0.2", "dev": "eth1",
                  "mac": "02:00:00:00:03:02", "state": "REACHABLE", "by_flow": false },
            ],
            "action": "forwarded", "reason": null, "dev": "eth1", "mac": "02:00:00:00:03:02",
        });
        assert_eq!(
            text(&answer),
            "10.1.0.2:4000 > 10.3.0.2:53, protocol 17, 46 bytes, in by eth0\n\
             parse: accepted\n\
             rules in: accepted\n    \
             00100 allow ip from any to any   <- matches, and ends the search\n\
             route: 10.3.0.0/24 dev eth1\n\
             next hop: 10.3.0.2 dev eth1 lladdr 02:00:00:00:03:02 REACHABLE\n\
             forwarded by eth1 to 02:00:00:00:03:02\n"
        );
    }
}
