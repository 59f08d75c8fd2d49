//! Explains what happens to one packet, stage by stage (`ctl why`). The packet passes through
//! copies of the engine and the rules, so nothing is counted, stored or sent.
//!
//! ```text
//!   IP packet --> routing thread: PacketPath, with a copy of the engine
//!             --> this thread:    RouteEngine::explain_with, with a copy of the rules
//!             --> routing thread: names, routes and neighbours --> answer
//! ```
//!
//! The packet passes through the rules outside the routing thread, which must not be delayed.

mod description;
mod explained;
mod outcome;
mod path;
mod text;

use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use slipring_control::ControlRefusal;
use slipring_fib::FibPortIndex;
use slipring_ipfw::packet::{IpFamily, PacketHeaders};
use slipring_port::now;
use slipring_route::{
    ExplainedStages, PuntClass, RouteBatch, RouteEngine, RouteFrame, RouteVerdict,
};
use slipring_rules::{RuleStage, explain};

use crate::names::{ANSWER_VERSION, ask, port_name};
use crate::routing::{Routing, RoutingHandle};
use crate::rules::RunningRules;
use explained::ExplainedPacket;
use outcome::PacketOutcome;
pub(crate) use outcome::decided;
use path::{PacketPath, address_of};
pub(crate) use text::{text, traced};

/// Answers the request `why`: `packet` contains an IP packet in hexadecimal, `in` the interface on
/// which it arrives.
pub(crate) fn answer(
    routing: &RoutingHandle,
    rules: Option<&RunningRules>,
    args: &Map<String, Value>,
) -> Result<Value, ControlRefusal> {
    let text = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let packet = explain::bytes(&text("packet")).filter(|packet| is_ip(packet));
    let packet = packet
        .ok_or_else(|| ControlRefusal::malformed("`packet` is no IP packet in hexadecimal"))?;
    let name = text("in");
    let has_rules = rules.is_some();
    // The thread of this request waits for the worker, because the routing thread must continue to
    // write heartbeats.
    let worker = ask(routing, |routing| routing.workers.first().cloned())?;
    let of_worker = worker.and_then(|worker| worker.ask(|worker| worker.engine.clone()));
    let path =
        move |routing: &mut Routing| PacketPath::of(routing, &name, packet, (has_rules, of_worker));
    let path = ask(routing, path)??;
    let rules = rules.filter(|_| path.engine.is_some());
    let rules = rules.map(|rules| rules.explaining_stage()).transpose();
    let explained = path.explain(rules.map_err(ControlRefusal::malformed)?);
    ask(routing, move |routing| explained.answer(routing))
}

/// Returns what happens to a frame that meets no rules; `None` if rules check the frame. It arrives
/// on the interface `port` of `args`, by default on the first one. With `out`, the frame leaves:
/// rules then check every IP packet without a VLAN tag.
pub(crate) fn bypass(
    routing: &RoutingHandle,
    args: &Map<String, Value>,
    frame: &[u8],
) -> Option<String> {
    let headers = PacketHeaders::parse(frame).ok()?;
    if headers.version == IpFamily::None {
        return Some("to the kernel: no IP packet, it meets no rules".to_owned());
    }
    if headers.tags[0].is_some() {
        return Some("to the kernel: it has a VLAN tag, and meets no rules".to_owned());
    }
    if args.get("out") == Some(&Value::Bool(true)) {
        return None;
    }
    let name = args.get("port").and_then(Value::as_str).map(str::to_owned);
    let packet = frame.get(headers.l3..).filter(|packet| is_ip(packet))?.to_vec();
    let passed = ask(routing, move |routing| {
        let name = name.or_else(|| port_name(routing, FibPortIndex(0)))?;
        PacketPath::of(routing, &name, packet, (true, None)).ok()?.passed
    });
    let reason = passed.ok()??;
    Some(format!("to the kernel: {reason}; it meets no rules"))
}

/// Whether the packet is IPv4 with at least 20 bytes, or IPv6 with at least 40 bytes: the lengths
/// of their headers without options.
fn is_ip(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => packet.len() >= 20,
        Some(6) => packet.len() >= 40,
        _ => false,
    }
}

impl PacketPath {
    /// Passes the packet through copies of the stages. Returns what they have decided.
    fn explain(mut self, rules: Option<RuleStage>) -> ExplainedPacket {
        let left = std::mem::take(&mut self.left);
        let mut stages = StagesOfPath { rules, left, left_to: None };
        let mut frame = self.frame.clone();
        let frame = RouteFrame::new(&mut frame, self.ingress);
        let engine = self.engine.take();
        let steps = engine.map(|engine| engine.explain_with(&mut stages, &frame, now()));
        let checks = stages.rules.as_mut().map(RuleStage::take_explained).unwrap_or_default();
        let left_to = stages.left_to;
        ExplainedPacket { path: self, steps: steps.unwrap_or_default(), checks, left_to }
    }
}

/// Executes the stages between those of the engine, as a worker does.
struct StagesOfPath {
    rules: Option<RuleStage>,
    left: Vec<bool>,
    left_to: Option<FibPortIndex>,
}

impl ExplainedStages for StagesOfPath {
    fn after_parse(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        now_ns: u64,
    ) {
        if let Some(rules) = &mut self.rules {
            rules.after_parse(engine, batch, frames, now_ns);
        }
    }

    fn after_look_up(
        &mut self,
        engine: &mut RouteEngine,
        batch: &mut RouteBatch,
        frames: &mut [RouteFrame<'_>],
        now_ns: u64,
    ) {
        if let Some(rules) = &mut self.rules {
            rules.after_look_up(engine, batch, frames, now_ns);
        }
        let egress = engine.egress(batch, 0).filter(|_| batch.live() != 0);
        let is_left = |port: &FibPortIndex| self.left.get(usize::from(port.0)) == Some(&true);
        if let Some(port) = egress.filter(is_left) {
            engine.settle(batch, 0, RouteVerdict::Kernel(PuntClass::Other));
            self.left_to = Some(port);
        }
    }
}

impl ExplainedPacket {
    fn answer(self, routing: &mut Routing) -> Value {
        let PacketOutcome { action, reason, egress } = self.outcome(routing);
        let of = egress.and_then(|port| Some((port, self.next_hop()?)));
        let (dev, mac) = of.map(|(port, hop)| (port_name(routing, port), hop.mac)).unzip();
        json!({
            "v": ANSWER_VERSION,
            "packet": packet_value(Some(self.path.name.clone()), &self.path.frame),
            "stages": self.stages(routing),
            "action": action,
            "reason": reason,
            "dev": dev,
            "mac": mac.flatten().map(|mac| mac.to_string()),
        })
    }
}

/// Describes the packet of a frame that arrives on an interface.
pub(crate) fn packet_value(name: Option<String>, frame: &[u8]) -> Value {
    let mut value = json!({ "in": name, "len": null });
    let Ok(headers) = PacketHeaders::parse(frame) else { return value };
    if headers.version == IpFamily::None {
        return value;
    }
    let end = |address: u128, port: u16| {
        let address = address_of(address, headers.version == IpFamily::V6);
        match headers.has_ports {
            true => SocketAddr::new(address, port).to_string(),
            false => address.to_string(),
        }
    };
    value["len"] = json!(headers.ip_len);
    value["source"] = json!(end(headers.src, headers.src_port));
    value["destination"] = json!(end(headers.dst, headers.dst_port));
    value["protocol"] = json!(headers.proto);
    value
}
