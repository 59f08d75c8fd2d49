//! The report as JSON. `docs/schema/report-1.json` defines the keys.

use std::collections::BTreeMap;

use serde::Serialize;
use slipring_link::{LinkCounters, PacketCounts};

use super::histogram::Histogram;
use super::link_report::{LinkReport, SettingsChanges};
use super::requested::RequestedLink;

/// The keys that the report of an emulation has in addition to those of every command.
#[derive(Debug, Clone, Serialize)]
pub struct EmulationDocument {
    /// One document for each link.
    links: Vec<LinkDocument>,
    /// Number of frames that no link accepts.
    unrouted: u64,
    /// Number of frames with an earlier timestamp than their predecessor; `None` if no captures
    /// were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unordered: Option<u64>,
    /// Changes of settings since the start; `None` if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<SettingsChanges>,
}

#[derive(Debug, Clone, Serialize)]
struct LinkDocument {
    name: String,
    from: String,
    to: String,
    /// The filters that direct frames to the link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes: Vec<String>,
    asked: RequestedLink,
    input: FrameAmount,
    made: FrameAmount,
    output: FrameAmount,
    lost: BTreeMap<&'static str, FrameAmount>,
    inside: FrameAmount,
    marked: FrameAmount,
    mangled: FrameAmount,
    corrupted: FrameAmount,
    held: FrameAmount,
    clamped: FrameAmount,
    /// The first error of each user model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    model_failures: Vec<String>,
    #[serde(flatten)]
    seen: Option<MeasuredDocument>,
}

/// Figures that the engine does not count.
#[derive(Debug, Clone, Serialize)]
struct MeasuredDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ns: Option<DistributionDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_error_ns: Option<DistributionDocument>,
    late: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_delay_ns: Option<DistributionDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_bytes: Option<DistributionDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_packets: Option<DistributionDocument>,
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
struct FrameAmount {
    packets: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct DistributionDocument {
    count: u64,
    min: u64,
    mean: f64,
    sd: f64,
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

impl EmulationDocument {
    /// Creates the document from the reports on the links.
    pub fn of(links: &[LinkReport<'_>], unrouted: PacketCounts) -> Self {
        let links = links.iter().map(link).collect();
        Self { links, unrouted: unrouted.packets, unordered: None, changes: None }
    }

    /// Adds the number of frames with an earlier timestamp than their predecessor.
    pub fn unordered(self, unordered: Option<u64>) -> Self {
        Self { unordered, ..self }
    }

    /// Adds the changes of settings.
    pub fn changed(self, changes: SettingsChanges) -> Self {
        Self { changes: Some(changes).filter(|changes| changes.times > 0), ..self }
    }
}

fn link(report: &LinkReport<'_>) -> LinkDocument {
    let LinkCounters {
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
        asked: report.requested.clone(),
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
        model_failures: report.model_failures.clone(),
        seen: report.measured.map(measured_document),
    }
}

fn measured_document(measured: &super::measurement::LinkMeasurement) -> MeasuredDocument {
    let rates = measured.rates();
    let whole = |bps: f64| bps.round() as u64;
    MeasuredDocument {
        delay_ns: DistributionDocument::of(&measured.delay),
        delay_error_ns: DistributionDocument::of(&measured.error),
        late: measured.late,
        queue_delay_ns: DistributionDocument::of(&measured.queue_delay),
        queue_bytes: DistributionDocument::of(&measured.queue_bytes),
        queue_packets: DistributionDocument::of(&measured.queue_packets),
        rate_bps: whole(rates.mean_bps),
        line_rate_bps: rates.line_bps.map(whole),
        peak_rate_1ms_bps: whole(rates.peak_ms_bps),
        peak_rate_1s_bps: rates.peak_s_bps.map(whole),
        reordered: measured.order.reordered(),
        reordered_share: measured.order.ratio(),
    }
}

impl DistributionDocument {
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

impl From<PacketCounts> for FrameAmount {
    fn from(tally: PacketCounts) -> Self {
        Self { packets: tally.packets, bytes: tally.bytes }
    }
}
