//! Explains what the rules do to a packet. Uses a copy of the rules and states, so that the packet
//! is not counted.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use slipring_ipfw::packet::MalformedReason;
use slipring_ipfw::rule::NextHop;
use slipring_ipfw::run::{
    CheckOutputs, DenyReason, Firewall, IpfwSettings, PacketMetadata, PortIndex, RuleOutcome,
    RuleTrace, RuleVerdict,
};

use crate::command_batch::{CommandFault, sysexits};
use crate::control_plane::ControlPlane;
use crate::dataplane::RuleDataplane;

/// Describes what happens to a frame that bypasses the rules; `None` if the rules check it.
pub type BypassedFrame<'b> = &'b dyn Fn(&IpfwSettings, &[u8]) -> Option<String>;

/// Copies the rules and the states of all engines.
///
/// # Errors
/// [`CommandFault`] if an engine does not answer.
pub fn copy_of_rules(control_plane: &ControlPlane) -> Result<Firewall, CommandFault> {
    let mut firewall = control_plane.with_master(Firewall::before)?.into_firewall();
    // Each engine knows only the states of its own flows. So the states are copied from all
    // engines.
    let known = control_plane.run_on_engines(|| {
        |dataplane: &mut dyn RuleDataplane, _| dataplane.firewall().flow_snapshot()
    })?;
    firewall.take_flows(known);
    Ok(firewall)
}

/// Answers the request `explain`. `frames` are in hexadecimal; each is treated as if `port` had
/// received it.
///
/// # Errors
/// [`CommandFault`] if the request has a mistake, or an engine does not answer.
pub fn answer(
    control_plane: &ControlPlane,
    args: &Map<String, Value>,
    bypass: BypassedFrame<'_>,
    now_ns: u64,
) -> Result<Value, CommandFault> {
    let wrong = |what: &str| CommandFault::new(format!("explain: {what}"), sysexits::USAGE);
    let frames = args.get("frames").and_then(Value::as_array);
    let frames = frames.ok_or_else(|| wrong("`frames` is no list"))?;
    let frames: Option<Vec<_>> = frames.iter().map(|frame| bytes(frame.as_str()?)).collect();
    let frames = frames.ok_or_else(|| wrong("a frame is no even number of hexadecimal digits"))?;
    let mut firewall = copy_of_rules(control_plane)?;
    let port = match args.get("port").and_then(Value::as_str) {
        None => 0,
        Some(name) => {
            let at = firewall.config().ports.iter().position(|port| port == name);
            let missing = || CommandFault {
                expected: Some(firewall.config().ports.join(", ")),
                ..CommandFault::new(format!("there is no port {name}"), sysexits::UNAVAILABLE)
            };
            at.ok_or_else(missing)? as PortIndex
        }
    };
    let targets = control_plane.run_on_engines(|| {
        move |dataplane: &mut dyn RuleDataplane, _| dataplane.egress_ports(port)
    })?;
    let targets = targets.into_iter().next().unwrap_or_default();
    let is_out = args.get("out") == Some(&Value::Bool(true));
    let mut walk = PacketWalk { firewall: &mut firewall, port, targets, bypass, now_ns };
    Ok(frames.into_iter().map(|frame| walk.explained(frame, is_out)).collect())
}

/// Explains packets, one after the other, with a copy of the firewall.
struct PacketWalk<'f> {
    firewall: &'f mut Firewall,
    port: PortIndex,
    /// The default output ports; `None` if frames are checked only on input.
    targets: Option<Vec<PortIndex>>,
    bypass: BypassedFrame<'f>,
    now_ns: u64,
}

impl PacketWalk<'_> {
    fn explained(&mut self, mut frame: Vec<u8>, is_out: bool) -> Value {
        let mut crossing = PacketMetadata::incoming(self.port);
        if is_out {
            crossing = crossing.outgoing(PortIndex::from(self.port == 0));
        }
        let settings = &self.firewall.config().settings;
        if let Some(what) = (self.bypass)(settings, &frame) {
            return json!({ "rules": [], "verdict": what });
        }
        let (verdict, mut explanation) = self.pass(&mut frame, &mut crossing);
        if !is_out && let Some(targets) = &self.targets {
            let out = self.egress_of(&verdict, targets).into_iter();
            let out = out.map(|to| self.explain_egress(frame.clone(), &crossing, to));
            explanation["out"] = out.collect();
        }
        explanation
    }

    /// Returns the output ports for a verdict. The list is empty if the frame leaves by no port,
    /// and also for a `fwd` to an address, because its port depends on the neighbour.
    fn egress_of(&self, verdict: &RuleVerdict, targets: &[PortIndex]) -> Vec<PortIndex> {
        let ports = &self.firewall.config().ports;
        let one_pass = self.firewall.config().settings.one_pass;
        match verdict {
            RuleVerdict::Accept => targets.to_vec(),
            // After the pipe or queue, the packet goes to its output ports.
            RuleVerdict::Pipe(_) | RuleVerdict::Queue(_) if one_pass => targets.to_vec(),
            RuleVerdict::Forward(NextHop::Port(name)) => {
                (0..).zip(ports).filter(|(_, port)| *port == name).map(|(at, _)| at).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Explains the second check of the frame, on output to a port.
    fn explain_egress(
        &mut self,
        mut frame: Vec<u8>,
        crossing: &PacketMetadata,
        to: PortIndex,
    ) -> Value {
        let (_, mut explanation) = self.pass(&mut frame, &mut crossing.clone().outgoing(to));
        explanation["port"] = json!(self.firewall.config().port_name(Some(to)));
        explanation
    }

    fn pass(&mut self, frame: &mut [u8], crossing: &mut PacketMetadata) -> (RuleVerdict, Value) {
        let mut outputs = CheckOutputs::default();
        let (crossed, verdict) = self.firewall.explain(frame, crossing, self.now_ns, &mut outputs);
        let explanation = check_value(&crossed, &verdict);
        (verdict, explanation)
    }
}

/// Returns the rules that a packet has met in one check, and the verdict, as a JSON value.
pub fn check_value(crossed: &[RuleTrace], verdict: &RuleVerdict) -> Value {
    let rules: Vec<_> = crossed.iter().map(row).collect();
    json!({ "rules": rules, "verdict": verdict_text(verdict) })
}

/// The rules of [`check_value`] as text, one a line, each after `indent`.
pub fn rules_text(check: &Value, indent: &str) -> String {
    let mut text = String::new();
    for row in check["rules"].as_array().into_iter().flatten() {
        let number = row["number"].as_u64().unwrap_or(0);
        let word = |key: &str| row[key].as_str().unwrap_or_default();
        let _ = writeln!(text, "{indent}{number:05} {}   <- {}", word("rule"), word("why"));
    }
    text
}

fn row(crossed: &RuleTrace) -> Value {
    let why = match &crossed.outcome {
        RuleOutcome::Disabled => "its set is disabled".to_owned(),
        RuleOutcome::Chance => "prob left it out".to_owned(),
        RuleOutcome::NoState => "there is no state".to_owned(),
        RuleOutcome::State(number) => format!("a state of rule {number}: its action is run"),
        RuleOutcome::Unmet(clause) => format!("not: {clause}"),
        RuleOutcome::Passed => "matches, and goes on".to_owned(),
        RuleOutcome::Jumped => "matches, and goes on elsewhere".to_owned(),
        RuleOutcome::Ended => "matches, and ends the search".to_owned(),
        RuleOutcome::Translated(ends) => format!("matches, and makes it {ends}"),
        RuleOutcome::Untranslated => "matches, and leaves it as it is".to_owned(),
        RuleOutcome::Refused => "matches, and does not let it through".to_owned(),
    };
    json!({ "number": crossed.number, "rule": crossed.rule, "why": why })
}

fn verdict_text(verdict: &RuleVerdict) -> String {
    match verdict {
        RuleVerdict::Accept => "accepted".to_owned(),
        RuleVerdict::Deny(DenyReason::Malformed(kind)) => {
            format!("dropped: {}", malformed_name(*kind))
        }
        RuleVerdict::Deny(why) => {
            format!("dropped: {}", deny_name(*why))
        }
        RuleVerdict::Reject(_) => "dropped: denied".to_owned(),
        RuleVerdict::Forward(hop) => format!("forwarded to {hop}"),
        RuleVerdict::Pipe(number) => format!("into pipe {number}"),
        RuleVerdict::Queue(number) => format!("into queue {number}"),
        RuleVerdict::Nat(_) | RuleVerdict::Nptv6(_) => "translated".to_owned(),
        RuleVerdict::Held => "a fragment, held for the others".to_owned(),
    }
}

/// The name of a deny reason in outputs.
pub const fn deny_name(why: DenyReason) -> &'static str {
    match why {
        DenyReason::Rule => "denied",
        DenyReason::Malformed(_) => "malformed",
        DenyReason::StatesFull => "states_full",
        DenyReason::StateLimit => "state_limit",
        DenyReason::CallDepth | DenyReason::CallLoop => "calls",
        DenyReason::NoNumber => "no_number",
        DenyReason::Translation => "translation",
    }
}

fn malformed_name(kind: MalformedReason) -> String {
    let name = MalformedReason::ALL.into_iter().find(|(one, _)| *one == kind);
    format!("malformed_{}", name.map_or("", |(_, name)| name))
}

/// Parses hexadecimal digits, two for each byte; `None` if their number is odd, or another
/// character occurs.
pub fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
