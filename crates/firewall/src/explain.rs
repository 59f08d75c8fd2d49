//! What rules make of a packet, told without counting it: on a copy of rules and states.

use serde_json::{Map, Value, json};
use slipring_ipfw::packet::Malformed;
use slipring_ipfw::rule::Hop;
use slipring_ipfw::run::{Crossed, Crossing, Denied, Firewall, Outcome, Outputs, PortId, Verdict};

use crate::desk::Desk;
use crate::join::{Bypass, Join, Nanos, bypass};
use crate::order::{Fault, sysexits};
use crate::ways::Aside;

/// Answers `explain`: `frames` in hexadecimal, each as if it came by `port`.
pub(crate) fn answer(desk: &Desk, args: &Map<String, Value>, now: Nanos) -> Result<Value, Fault> {
    let wrong = |what: &str| Fault::new(format!("explain: {what}"), sysexits::USAGE);
    let frames = args.get("frames").and_then(Value::as_array);
    let frames = frames.ok_or_else(|| wrong("`frames` is no list"))?;
    let frames: Option<Vec<_>> = frames.iter().map(|frame| bytes(frame.as_str()?)).collect();
    let frames = frames.ok_or_else(|| wrong("a frame is no even number of hexadecimal digits"))?;
    let mut firewall = desk.look(Firewall::before)?.into_firewall();
    // One engine knows a flow; any will do for a flow that nobody knows.
    let known = desk.ask(|| |join: &mut Join, _: &mut Aside, _| join.firewall().known_flows())?;
    known.into_iter().for_each(|known| firewall.take_flows(known));
    let port = match args.get("port").and_then(Value::as_str) {
        None => 0,
        Some(name) => {
            let at = firewall.config().ports.iter().position(|port| port == name);
            let missing = || Fault {
                expected: Some(firewall.config().ports.join(", ")),
                ..Fault::new(format!("there is no port {name}"), sysexits::UNAVAILABLE)
            };
            at.ok_or_else(missing)? as PortId
        }
    };
    let targets = desk.ask(|| move |join: &mut Join, _: &mut Aside, _| ways_out(join, port))?;
    let targets = targets.into_iter().next().unwrap_or_default();
    let is_out = args.get("out") == Some(&Value::Bool(true));
    let mut way = Way { firewall: &mut firewall, port, targets, now };
    Ok(frames.into_iter().map(|frame| way.explained(frame, is_out)).collect())
}

/// The ports that a frame leaves by which came by `port`, where rules are asked again there.
fn ways_out(join: &Join, port: PortId) -> Option<Vec<PortId>> {
    join.checks_out().then(|| join.map().targets(port).to_vec())
}

/// The way of frames through the firewall.
struct Way<'f> {
    firewall: &'f mut Firewall,
    port: PortId,
    /// Where frames leave that are not sent elsewhere; none where frames are checked once.
    targets: Option<Vec<PortId>>,
    now: Nanos,
}

impl Way<'_> {
    fn explained(&mut self, mut frame: Vec<u8>, is_out: bool) -> Value {
        let mut crossing = Crossing::incoming(self.port);
        if is_out {
            crossing = crossing.outgoing(PortId::from(self.port == 0));
        }
        let settings = &self.firewall.config().settings;
        if let Some(what) = bypass(settings, &frame) {
            return json!({ "rules": [], "verdict": bypass_text(what) });
        }
        let (verdict, mut told) = self.pass(&mut frame, &mut crossing);
        if !is_out && let Some(targets) = &self.targets {
            let out = self.ways_of(&verdict, targets).into_iter();
            let out = out.map(|to| self.leaving(frame.clone(), &crossing, to));
            told["out"] = out.collect();
        }
        told
    }

    /// The ports by which a frame leaves, as far as that is known here: who has the address of a
    /// `fwd` is not.
    fn ways_of(&self, verdict: &Verdict, targets: &[PortId]) -> Vec<PortId> {
        let ports = &self.firewall.config().ports;
        let one_pass = self.firewall.config().settings.one_pass;
        match verdict {
            Verdict::Accept => targets.to_vec(),
            // It goes on from there.
            Verdict::Pipe(_) | Verdict::Queue(_) if one_pass => targets.to_vec(),
            Verdict::Forward(Hop::Port(name)) => {
                (0..).zip(ports).filter(|(_, port)| *port == name).map(|(at, _)| at).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The same frame, asked about once more as it leaves by a port.
    fn leaving(&mut self, mut frame: Vec<u8>, crossing: &Crossing, to: PortId) -> Value {
        let (_, mut told) = self.pass(&mut frame, &mut crossing.clone().outgoing(to));
        told["port"] = json!(self.firewall.config().port_name(Some(to)));
        told
    }

    fn pass(&mut self, frame: &mut [u8], crossing: &mut Crossing) -> (Verdict, Value) {
        let mut outputs = Outputs::default();
        let (crossed, verdict) = self.firewall.explain(frame, crossing, self.now, &mut outputs);
        let rules: Vec<_> = crossed.iter().map(row).collect();
        let told = json!({ "rules": rules, "verdict": verdict_text(&verdict) });
        (verdict, told)
    }
}

const fn bypass_text(what: Bypass) -> &'static str {
    match what {
        Bypass::Arp => "accepted: ARP meets no rules (net.link.bridge.ipfw_arp is 0)",
        Bypass::NonIp => {
            "accepted: neither IP nor ARP, it meets no rules (net.link.bridge.pfil_onlyip is 0)"
        }
        Bypass::Dropped => "dropped: non_ip (net.link.bridge.pfil_onlyip is 1)",
    }
}

fn row(crossed: &Crossed) -> Value {
    let why = match &crossed.outcome {
        Outcome::Disabled => "its set is disabled".to_owned(),
        Outcome::Chance => "prob left it out".to_owned(),
        Outcome::NoState => "there is no state".to_owned(),
        Outcome::State(number) => format!("a state of rule {number}: its action is run"),
        Outcome::Unmet(clause) => format!("not: {clause}"),
        Outcome::Passed => "matches, and goes on".to_owned(),
        Outcome::Jumped => "matches, and goes on elsewhere".to_owned(),
        Outcome::Ended => "matches, and ends the search".to_owned(),
        Outcome::Translated(ends) => format!("matches, and makes it {ends}"),
        Outcome::Untranslated => "matches, and leaves it as it is".to_owned(),
        Outcome::Refused => "matches, and does not let it through".to_owned(),
    };
    json!({ "number": crossed.number, "rule": crossed.rule, "why": why })
}

fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accepted".to_owned(),
        Verdict::Deny(Denied::Malformed(kind)) => format!("dropped: {}", malformed_name(*kind)),
        Verdict::Deny(why) => format!("dropped: {}", crate::join::Loss::from(*why).name()),
        Verdict::Forward(hop) => format!("forwarded to {hop}"),
        Verdict::Pipe(number) => format!("into pipe {number}"),
        Verdict::Queue(number) => format!("into queue {number}"),
        Verdict::Nat(_) | Verdict::Nptv6(_) => "translated".to_owned(),
        Verdict::Held => "a fragment, held for the others".to_owned(),
    }
}

fn malformed_name(kind: Malformed) -> String {
    let name = Malformed::ALL.into_iter().find(|(one, _)| *one == kind);
    format!("malformed_{}", name.map_or("", |(_, name)| name))
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
