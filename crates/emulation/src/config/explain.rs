//! Explains the effective values of links after all rounding: probabilities, truncated delays, and
//! the memory that the links need.

mod models;

use std::time::Duration;

use serde_json::{Value, json};
use slipring_cli::units::human;
use slipring_link::{
    BitErrorSpec, DelayModel, DelayStep, Framing, LineCells, LinkSpec, NetworkSpec, RateSpec,
};
use slipring_model::Chance;

use crate::report::model_failures;
use crate::report::requested::mangled;
use models::{discipline, loss_model, meter, rate_model};

/// The effective figures of a network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExplainedNetwork {
    pub seed: u64,
    pub links: Vec<ExplainedLink>,
}

/// The effective figures of a link, most of them with the name of a setting of the link.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExplainedLink {
    pub name: String,
    pub figures: Vec<ExplainedFigure>,
}

/// One figure of a link.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExplainedFigure {
    pub name: &'static str,
    /// The figure as text.
    pub text: String,
    /// The figure as JSON; the keys contain the units.
    pub value: Value,
}

impl ExplainedNetwork {
    /// Formats the figures as text, a block for each link.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("seed {}\n", self.seed);
        for link in &self.links {
            text += &format!("{}\n", link.name);
            for figure in &link.figures {
                text += &format!("  {:<10} {}\n", figure.name, figure.text);
            }
        }
        text
    }

    /// Returns the JSON fields for a report.
    pub(crate) fn fields(&self) -> Value {
        json!({ "seed": self.seed, "explained": self.links() })
    }

    /// Returns the JSON answer for the control socket.
    pub(crate) fn json(&self) -> Value {
        json!({ "schema": 1, "event": "explain", "seed": self.seed, "links": self.links() })
    }

    fn links(&self) -> Value {
        let links: serde_json::Map<_, _> =
            self.links.iter().map(|link| (link.name.clone(), link.json())).collect();
        Value::Object(links)
    }
}

impl ExplainedLink {
    /// Returns the figures by name. Several figures of one name, as those of several losses, are an
    /// array.
    fn json(&self) -> Value {
        let mut figures = serde_json::Map::new();
        for ExplainedFigure { name, value, .. } in &self.figures {
            let value = value.clone();
            match figures.get_mut(*name) {
                None => drop(figures.insert((*name).to_owned(), value)),
                Some(Value::Array(several)) => several.push(value),
                Some(first) => *first = json!([first.take(), value]),
            }
        }
        Value::Object(figures)
    }
}

/// Explains a network.
pub(crate) fn explain(network: &NetworkSpec, seed: u64) -> ExplainedNetwork {
    let links = network.links.iter().map(|link| explain_link(&link.spec)).collect();
    ExplainedNetwork { seed, links }
}

fn explain_link(link: &LinkSpec) -> ExplainedLink {
    let mut figures = vec![rate(link)];
    figures.extend(link.police.iter().map(|police| {
        let (text, value) = meter(&police.meter);
        ExplainedFigure { name: "police", text, value }
    }));
    figures.extend(link.loss.iter().map(|loss| {
        let (text, mut value) = loss_model(&loss.model);
        let position = format!("{:?}", loss.position).to_lowercase();
        value["where"] = json!(position);
        ExplainedFigure { name: "loss", text: format!("{text} ({position})"), value }
    }));
    figures.extend(link.hold.iter().map(|hold| {
        let p = probability(hold.chance);
        let text = format!("{} for {}", chance_text(hold.chance), span(hold.hold_ns));
        ExplainedFigure {
            name: "hold",
            text,
            value: json!({ "probability": p, "hold_ns": hold.hold_ns }),
        }
    }));
    if link.has_line() {
        figures.push(queue(link));
    }
    figures.extend(link.mangle.iter().map(|mangle| {
        let text = mangled(mangle) + " with " + &chance_text(mangle.chance);
        let p = probability(mangle.chance);
        figure("mangle", text, json!({ "probability": p, "at": mangle.at }))
    }));
    figures.extend(link.corrupt.iter().map(|corrupt| match corrupt.errors {
        BitErrorSpec::Ber(ber) => {
            figure("corrupt", format!("each bit with {ber:e}"), json!({ "ber": ber }))
        }
        BitErrorSpec::Burst { chance, bits } => {
            let text = format!("{bits} bits with {}", chance_text(chance));
            figure("corrupt", text, json!({ "probability": probability(chance), "bits": bits }))
        }
    }));
    figures.extend(link.duplicate.iter().map(|duplicate| {
        let text = format!("{} copies with {}", duplicate.copies, chance_text(duplicate.chance));
        let p = probability(duplicate.chance);
        figure("duplicate", text, json!({ "probability": p, "copies": duplicate.copies }))
    }));
    figures.push(delay(link));
    if link.offset_ns > 0 {
        let text = format!("{} less", span(link.offset_ns));
        figures.push(figure("offset", text, json!({ "offset_ns": link.offset_ns })));
    }
    figures.push(memory(link));
    figures.extend(model_failures(link).into_iter().map(|trouble| {
        let value = json!({ "cause": &trouble });
        figure("failing", trouble, value)
    }));
    ExplainedLink { name: link.name.clone(), figures }
}

fn figure(name: &'static str, text: String, value: Value) -> ExplainedFigure {
    ExplainedFigure { name, text, value }
}

fn span(ns: u64) -> String {
    human::span(Duration::from_nanos(ns))
}

fn bps(bps: u64) -> String {
    slipring_cli::units::RateWithUnit::Bits(bps).to_string()
}

/// Returns the probability that the engine uses: a multiple of 2^-63.
fn probability(chance: Chance) -> f64 {
    chance.to_f64()
}

fn chance_text(chance: Chance) -> String {
    match probability(chance) {
        0.0 => "probability 0".to_owned(),
        p => format!("probability {p:e}"),
    }
}

fn rate(link: &LinkSpec) -> ExplainedFigure {
    let (text, mut value) = rate_model(&link.rate);
    let framing = &link.framing;
    let mut text = text;
    if link.has_line() {
        let least = framing.wire_bytes(60);
        text += &format!("; a frame of 60 bytes takes {least} on the line");
        value["wire_bytes_of_60"] = json!(least);
        if let RateSpec::Constant { bps } = link.rate {
            let ns = least as f64 * 8e9 / bps as f64;
            text += &format!(", {ns:.3} ns");
            value["ns_of_60"] = json!(ns);
        }
    }
    text += &match framing.cells {
        LineCells::None => String::new(),
        LineCells::Atm => " (cells of ATM, 53 bytes for 48".to_owned() + &overhead(framing) + ")",
        LineCells::Docsis { minislot } => format!(" (minislots of {minislot} bytes)"),
    };
    value["overhead_bytes"] = json!(framing.overhead_bytes);
    figure("rate", text, value)
}

/// Describes the bytes that are added to each frame before the frame is split into cells.
fn overhead(framing: &Framing) -> String {
    match framing.overhead_bytes {
        0 => String::new(),
        bytes => format!(", and {bytes:+} bytes a frame"),
    }
}

fn queue(link: &LinkSpec) -> ExplainedFigure {
    let queue = &link.queue;
    let limits = [
        queue.bytes.map(|bytes| format!("{bytes} bytes")),
        queue.packets.map(|packets| format!("{packets} packets")),
        queue.delay_ns.map(span),
    ];
    let limits: Vec<_> = limits.into_iter().flatten().collect();
    let mut text = match limits[..] {
        [] => "no limit".to_owned(),
        _ => limits.join(" and "),
    };
    if let (Some(bytes), RateSpec::Constant { bps }) = (queue.bytes, &link.rate) {
        let ns = (bytes as f64 * 8e9 / *bps as f64) as u64;
        text += &format!(" ({} of the line)", span(ns));
    }
    let discipline = discipline(&queue.discipline);
    text += &format!(", {discipline}{}", if queue.ecn { ", marks ECN" } else { "" });
    let value = json!({
        "bytes": queue.bytes,
        "packets": queue.packets,
        "delay_ns": queue.delay_ns,
        "discipline": discipline,
        "ecn": queue.ecn,
    });
    figure("queue", text, value)
}

fn delay(link: &LinkSpec) -> ExplainedFigure {
    let order = format!("{:?}", link.order).to_lowercase();
    let (mean, greatest) = (mean_delay_ns(link), greatest_delay_ns(link));
    let (what, sd) = match &link.delay.model {
        DelayModel::Constant(ns) => (span(*ns), 0.0),
        DelayModel::Random(dist) => {
            let what = format!(
                "{}: mean {}, sd {}, up to {}",
                dist.describe(),
                span(mean as u64),
                span(dist.sd_ns() as u64),
                span(greatest)
            );
            (what, dist.sd_ns())
        }
        DelayModel::Trace { steps, period_ns, .. } => {
            let (count, period) = (steps.len(), span(*period_ns));
            (format!("trace of {count} steps in {period}, mean {}", span(mean as u64)), 0.0)
        }
        DelayModel::InTurn(delays) => (format!("{} delays in turn", delays.len()), 0.0),
        DelayModel::InterPacket { min_gap_ns, max_gap_ns, delay_ns } => {
            let (least, most) = (span(*min_gap_ns), span(*max_gap_ns));
            (format!("{} and gaps of {least} to {most}", span(*delay_ns)), 0.0)
        }
        DelayModel::User(_) => ("a model of the user's".into(), 0.0),
    };
    let half_life = link.delay.half_life_ns.map(|ns| format!(", half-life {}", span(ns)));
    let text = format!("{what}{}, order {order}", half_life.unwrap_or_default());
    let value = json!({
        "mean_ns": mean, "sd_ns": sd, "greatest_ns": greatest, "order": order,
        "half_life_ns": link.delay.half_life_ns,
    });
    figure("delay", text, value)
}

/// Explains the bytes in a full link: those in transit at the line's rate for the longest delay,
/// and the queue.
fn memory(link: &LinkSpec) -> ExplainedFigure {
    let limits = &link.queue;
    let bounded = limits.bytes.or(limits.packets).or(limits.delay_ns).is_some();
    // Only a limit in bytes bounds the memory of a queue.
    let (bytes, beside) = match bytes_when_full(link) {
        Some(bytes) if !bounded => (None, Some((bytes, "the queue has no bound"))),
        Some(bytes) if limits.bytes.is_none() => (None, Some((bytes, "what the queue holds"))),
        bytes => (bytes, None),
    };
    let text = match (bytes, beside) {
        (Some(bytes), _) => format!("{} when full", human::bytes(bytes)),
        (None, Some((bytes, queue))) => {
            format!("{} on its way when full, and {queue}", human::bytes(bytes))
        }
        (None, None) => "as much as is in flight".to_owned(),
    };
    figure("memory", text, json!({ "bytes_when_full": bytes }))
}

/// Returns the bytes that a full link holds; `None` if its rate is not constant, or if no time
/// bounds how long a packet is on its way. A queue without a limit in bytes counts as empty.
fn bytes_when_full(link: &LinkSpec) -> Option<u64> {
    let RateSpec::Constant { bps } = link.rate else { return None };
    let travelling = bps as f64 / 8.0 * transit_ns(link)? as f64 / 1e9;
    Some((travelling as u64).saturating_add(link.queue.bytes.unwrap_or(0)))
}

/// Like [`bytes_when_full`], but with the 99.9 % quantile of a random delay instead of the longest
/// delay.
pub(crate) fn likely_bytes(link: &LinkSpec) -> Option<u64> {
    let RateSpec::Constant { bps } = link.rate else { return None };
    let delay_ns = match &link.delay.model {
        DelayModel::Random(dist) => dist.quantile_ns(0.999),
        _ => greatest_delay_ns(link) as f64,
    };
    let travelling = bps as f64 / 8.0 * delay_ns / 1e9;
    Some((travelling as u64).saturating_add(link.queue.bytes.unwrap_or(0)))
}

/// Returns the mean propagation delay, in ns; 0 for a user's model. Gaps between packets are not
/// included.
pub(crate) fn mean_delay_ns(link: &LinkSpec) -> f64 {
    match &link.delay.model {
        DelayModel::Constant(ns) => *ns as f64,
        DelayModel::Random(dist) => dist.mean_ns(),
        DelayModel::InterPacket { delay_ns, .. } => *delay_ns as f64,
        DelayModel::InTurn(delays) => {
            delays.iter().map(|ns| *ns as f64).sum::<f64>() / delays.len() as f64
        }
        DelayModel::Trace { steps, period_ns, smooth, .. } => {
            mean_of_trace(steps, *period_ns, *smooth)
        }
        DelayModel::User(_) => 0.0,
    }
}

/// Returns the mean delay over one period of a trace, in ns: each delay is weighted by its
/// duration, and the first one applies from the start of the period. If `smooth`, a step counts
/// with the mean of its delay and the next one.
fn mean_of_trace(steps: &[DelayStep], period_ns: u64, smooth: bool) -> f64 {
    let head = steps.first().map_or(0.0, |first| first.at_ns as f64 * first.delay_ns as f64);
    let area = |(index, step): (usize, &DelayStep)| {
        let next = steps.get(index + 1);
        let end_ns = next.map_or(period_ns, |next| next.at_ns);
        let delay_ns = match next {
            Some(next) if smooth => (step.delay_ns as f64 + next.delay_ns as f64) / 2.0,
            _ => step.delay_ns as f64,
        };
        (end_ns - step.at_ns) as f64 * delay_ns
    };
    (head + steps.iter().enumerate().map(area).sum::<f64>()) / period_ns.max(1) as f64
}

/// Returns the longest time for which a packet that has left the line is on its way, in ns; `None`
/// if nothing bounds it: packets that arrive faster than the gaps between them allow wait behind one
/// another, and a user's model returns what it likes.
fn transit_ns(link: &LinkSpec) -> Option<u64> {
    match link.delay.model {
        DelayModel::InterPacket { max_gap_ns: 1.., .. } | DelayModel::User(_) => None,
        _ => Some(greatest_delay_ns(link)),
    }
}

/// Returns the greatest delay that the settings of the delay model ask for, in ns; 0 for a user's
/// model. Gaps between packets count as one gap. A packet behind a backlog waits for several, as it
/// would in a queue; that is load, and no setting.
pub(crate) fn greatest_delay_ns(link: &LinkSpec) -> u64 {
    match &link.delay.model {
        DelayModel::Constant(ns) => *ns,
        DelayModel::Random(dist) => *dist.bounds().end(),
        DelayModel::InTurn(delays) => delays.iter().copied().max().unwrap_or(0),
        DelayModel::InterPacket { delay_ns, max_gap_ns, .. } => {
            delay_ns.saturating_add(*max_gap_ns)
        }
        DelayModel::Trace { steps, .. } => {
            steps.iter().map(|step| step.delay_ns).max().unwrap_or(0)
        }
        DelayModel::User(_) => 0,
    }
}
