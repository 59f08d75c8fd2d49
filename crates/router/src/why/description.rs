//! The stages of an explained packet, each with its verdict.

use std::net::IpAddr;

use serde_json::{Value, json};
use slipring_fib::{Adjacency, NextHopAddress, TargetAction};
use slipring_ipfw::run::CheckPass;
use slipring_route::{RouteOutput, RouteStep};
use slipring_rules::{ExplainedCheck, explain};

use super::explained::ExplainedPacket;
use crate::kernel_words::state_name;
use crate::names::{InterfaceNames, port_name};
use crate::routing::Routing;

impl ExplainedPacket {
    /// All stages that the packet has reached, in their order.
    pub(super) fn stages(&self, routing: &Routing) -> Vec<Value> {
        let of_pass = |pass| self.checks.iter().filter(move |check| check.pass == pass).map(rules);
        let (mut on_input, mut on_output) = (of_pass(CheckPass::In), of_pass(CheckPass::Out));
        let mut stages = Vec::new();
        for step in &self.steps {
            match step {
                RouteStep::Parsed { .. } => {
                    stages.push(json!({ "stage": "parse", "verdict": "accepted" }));
                    stages.extend(on_input.by_ref());
                }
                RouteStep::Policed { dscp } => stages.push(policed(*dscp)),
                RouteStep::Matched { address, target, adjacency, .. } => {
                    stages.push(self.route(routing, *address, target.action));
                    let hop = adjacency.map(|hop| next_hop(routing, *address, hop, target.action));
                    stages.extend(hop);
                    stages.extend(on_output.by_ref());
                }
                RouteStep::Decided(..) => {
                    stages.extend(on_input.by_ref().chain(on_output.by_ref()));
                }
                RouteStep::Made(output) => stages.push(made(routing, output)),
                RouteStep::Rejected { .. } => {}
            }
        }
        stages
    }

    /// The route of an address, in the form of `route show`.
    fn route(&self, routing: &Routing, address: IpAddr, action: TargetAction) -> Value {
        let vrf = routing.vrf_of_port(self.path.ingress);
        let found = routing.mirror.route_get(vrf, address).and_then(|found| found.route);
        let verdict = match (&found, action) {
            (Some(entry), _) => format!("{}/{}", entry.prefix.0, entry.prefix.1),
            (None, TargetAction::Kernel) => "left to the kernel".to_owned(),
            (None, _) => "no route".to_owned(),
        };
        let row = found.map(|entry| InterfaceNames::of(routing).route(routing, &entry));
        json!({ "stage": "route", "address": address, "verdict": verdict, "route": row })
    }
}

fn rules(check: &ExplainedCheck) -> Value {
    let mut value = explain::check_value(&check.rules, &check.verdict);
    value["stage"] = json!(match check.pass {
        CheckPass::In => "rules in",
        CheckPass::Out => "rules out",
    });
    value
}

fn policed(dscp: Option<u8>) -> Value {
    let verdict = match dscp {
        Some(dscp) => format!("accepted with DSCP {dscp}"),
        None => "accepted".to_owned(),
    };
    json!({ "stage": "police", "verdict": verdict })
}

/// Describes the chosen next hop, and the kernel's state of this neighbour.
fn next_hop(routing: &Routing, address: IpAddr, hop: Adjacency, action: TargetAction) -> Value {
    let to = match hop.next_hop {
        NextHopAddress::OnLink => address,
        NextHopAddress::Via(to) => to,
    };
    let ifindex = routing.ifindexes().nth(usize::from(hop.port.0));
    let known = ifindex.and_then(|ifindex| routing.mirror.neighbour(ifindex, to));
    json!({
        "stage": "next hop",
        "verdict": to,
        "dev": port_name(routing, hop.port),
        "mac": hop.mac.map(|mac| mac.to_string()),
        "state": known.map(|known| state_name(known.state)),
        "by_flow": matches!(action, TargetAction::Balance(_)),
    })
}

fn made(routing: &Routing, output: &RouteOutput) -> Value {
    let (port, len, verb) = match output {
        RouteOutput::Send { port, frame } => (*port, frame.len(), "sent"),
        RouteOutput::Hold { held, frame } => (held.port, frame.len(), "held, to resolve"),
    };
    let dev = port_name(routing, port);
    let verdict = format!("{len} bytes {verb} by {}", dev.as_deref().unwrap_or_default());
    json!({ "stage": "made", "verdict": verdict, "dev": dev, "len": len })
}
