//! What rules make of a packet, told without counting it: on a copy of rules and states.

use serde_json::{Map, Value, json};
use slipring_ipfw::run::{Crossed, Crossing, Firewall, Outcome, Outputs, PortId, Verdict};

use crate::desk::Desk;
use crate::join::{Join, Nanos};
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
            at.ok_or_else(|| wrong(&format!("there is no port {name}")))? as PortId
        }
    };
    let told = frames.into_iter().map(|frame| explained(&mut firewall, frame, port, (args, now)));
    Ok(told.collect())
}

fn explained(
    firewall: &mut Firewall,
    mut frame: Vec<u8>,
    port: PortId,
    (args, now): (&Map<String, Value>, Nanos),
) -> Value {
    let mut crossing = Crossing::incoming(port);
    if args.get("out") == Some(&Value::Bool(true)) {
        let other = PortId::from(port == 0);
        crossing = crossing.outgoing(other);
    }
    let (crossed, verdict) =
        firewall.explain(&mut frame, &mut crossing, now, &mut Outputs::default());
    let rules: Vec<_> = crossed.iter().map(row).collect();
    json!({ "rules": rules, "verdict": verdict_text(&verdict) })
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
        Verdict::Deny(why) => format!("dropped: {}", crate::join::Loss::from(*why).name()),
        Verdict::Forward(hop) => format!("forwarded to {hop}"),
        Verdict::Pipe(number) => format!("into pipe {number}"),
        Verdict::Queue(number) => format!("into queue {number}"),
        Verdict::Nat(_) | Verdict::Nptv6(_) => "translated".to_owned(),
        Verdict::Held => "a fragment, held for the others".to_owned(),
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
