//! The report for machines: the keys below `links` in JSON, as `docs/schema/report-1.json` has
//! them.

use std::collections::BTreeMap;

use serde::Serialize;
use slipring_link::{Counters, Tally};

use super::asked::Asked;
use super::histogram::Histogram;
use super::{Changes, LinkReport};

/// The keys of an emulation beside the common ones.
#[derive(Debug, Clone, Serialize)]
pub struct Document {
    /// One for each link.
    links: Vec<LinkDocument>,
    /// Frames that no link wanted.
    unrouted: u64,
    /// Frames stamped before their predecessors, where captures were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unordered: Option<u64>,
    /// Changes of settings since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Changes>,
}

#[derive(Debug, Clone, Serialize)]
struct LinkDocument {
    name: String,
    from: String,
    to: String,
    /// The filters that lead frames here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes: Vec<String>,
    asked: Asked,
    input: Amount,
    made: Amount,
    output: Amount,
    lost: BTreeMap<&'static str, Amount>,
    inside: Amount,
    marked: Amount,
    mangled: Amount,
    corrupted: Amount,
    held: Amount,
    clamped: Amount,
    /// Why models of the user's had no answer for the first time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    model_failures: Vec<String>,
    #[serde(flatten)]
    seen: Option<Seen>,
}

/// What the engine does not count.
#[derive(Debug, Clone, Serialize)]
struct Seen {
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ns: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_error_ns: Option<Spread>,
    late: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_delay_ns: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_bytes: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_packets: Option<Spread>,
    rate_bps: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_rate_bps: Option<u64>,
    peak_rate_1ms_bps: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_rate_1s_bps: Option<u64>,
    reordered: u64,
    reordered_share: f64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Amount {
    packets: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Spread {
    count: u64,
    min: u64,
    mean: f64,
    sd: f64,
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

impl Document {
    /// Of these links.
    pub fn of(links: &[LinkReport<'_>], unrouted: Tally) -> Self {
        let links = links.iter().map(link).collect();
        Self { links, unrouted: unrouted.packets, unordered: None, changes: None }
    }

    /// The same, where so many frames were stamped before their predecessors.
    pub fn unordered(self, unordered: Option<u64>) -> Self {
        Self { unordered, ..self }
    }

    /// The same, where settings changed.
    pub fn changed(self, changes: Changes) -> Self {
        Self { changes: Some(changes).filter(|changes| changes.times > 0), ..self }
    }
}

fn link(report: &LinkReport<'_>) -> LinkDocument {
    let Counters {
        input,
        copies,
        output,
        in_flight,
        marked,
        mangled,
        corrupted,
        held,
        clamped,
        drops,
    } = report.counters;
    let lost = drops.iter().filter(|(_, tally)| tally.packets > 0);
    LinkDocument {
        name: report.name.clone(),
        from: report.from.clone(),
        to: report.to.clone(),
        classes: report.classes.clone(),
        asked: report.asked.clone(),
        input: input.into(),
        made: copies.into(),
        output: output.into(),
        lost: lost.map(|(cause, tally)| (cause.as_str(), tally.into())).collect(),
        inside: in_flight.into(),
        marked: marked.into(),
        mangled: mangled.into(),
        corrupted: corrupted.into(),
        held: held.into(),
        clamped: clamped.into(),
        model_failures: report.troubles.clone(),
        seen: report.measured.map(seen),
    }
}

fn seen(measured: &super::measured::Measured) -> Seen {
    let rates = measured.rates();
    let whole = |bps: f64| bps.round() as u64;
    Seen {
        delay_ns: Spread::of(&measured.delay),
        delay_error_ns: Spread::of(&measured.error),
        late: measured.late,
        queue_delay_ns: Spread::of(&measured.queue_delay),
        queue_bytes: Spread::of(&measured.queue_bytes),
        queue_packets: Spread::of(&measured.queue_packets),
        rate_bps: whole(rates.mean_bps),
        line_rate_bps: rates.line_bps.map(whole),
        peak_rate_1ms_bps: whole(rates.peak_ms_bps),
        peak_rate_1s_bps: rates.peak_s_bps.map(whole),
        reordered: measured.order.reordered(),
        reordered_share: measured.order.ratio(),
    }
}

impl Spread {
    fn of(histogram: &Histogram) -> Option<Self> {
        (histogram.count() > 0).then(|| Self {
            count: histogram.count(),
            min: histogram.min(),
            mean: histogram.mean(),
            sd: histogram.sd(),
            p50: histogram.quantile(0.5),
            p99: histogram.quantile(0.99),
            p999: histogram.quantile(0.999),
            max: histogram.max(),
        })
    }
}

impl From<Tally> for Amount {
    fn from(tally: Tally) -> Self {
        Self { packets: tally.packets, bytes: tally.bytes }
    }
}
