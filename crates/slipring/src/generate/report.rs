//! Reports in slipring's own format: text for people, keys for machines.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use slipring_cli::report::{PortReport, ReportSample};
use slipring_cli::units::human;

use super::function::GenFunction;
use super::plan::FigureStyle;
use super::shared_stats::{GenFigures, ReceiveFigures, SharedGenStats};

/// The generator's own report keys.
#[derive(Debug, Serialize)]
pub(super) struct GenReportExtra {
    function: &'static str,
    /// If the run sends, frames that the port has sent; otherwise frames received. Counted from the
    /// start of the run.
    packets: u64,
    bytes: u64,
    batches: u64,
    /// Packets per second in the interval or, in the last report, over the whole run.
    rate_pps: u64,
    rate_bps: u64,
    /// Scheduled time in ns that was skipped because the port could not keep up.
    #[serde(skip_serializing_if = "is_zero")]
    behind_ns: u64,
    /// Number of frames that should have arrived; `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
    #[serde(flatten)]
    order: Option<OrderReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ns: Option<LatencyQuantiles>,
}

/// Counters of received frames.
#[derive(Debug, Serialize)]
struct OrderReport {
    received: u64,
    reordered: u64,
    duplicates: u64,
    late: u64,
    corrupt: u64,
    foreign: u64,
    streams: Vec<StreamReport>,
}

#[derive(Debug, Serialize)]
struct StreamReport {
    stream: u16,
    received: u64,
    lost: u64,
    reordered: u64,
    duplicates: u64,
    max_displacement: u64,
}

/// Quantiles in ns of the ages of frames, or of round-trip times.
#[derive(Debug, Serialize)]
struct LatencyQuantiles {
    count: u64,
    min: u64,
    mean: u64,
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Builds a report of `figures`; `over` is set for the report at the end of the run.
pub(super) fn sample(
    stats: &SharedGenStats,
    figures: &GenFigures,
    function: GenFunction,
    over: bool,
) -> ReportSample<GenReportExtra> {
    ReportSample {
        elapsed: stats.elapsed(),
        ports: stats.ports(),
        in_flight: stats.in_flight(),
        copies: 0,
        extra: extra(figures, function, over),
    }
}

fn extra(figures: &GenFigures, function: GenFunction, over: bool) -> GenReportExtra {
    let received = figures.received.as_ref();
    let outcome = figures.outcome();
    let known = over || !function.sends();
    let known = known && function != GenFunction::Pong;
    GenReportExtra {
        function: function.name(),
        packets: figures.total.packets,
        bytes: figures.total.bytes,
        batches: figures.total.batches,
        rate_pps: figures.pps().round() as u64,
        rate_bps: figures.bps().round() as u64,
        behind_ns: figures.done.forfeited,
        expected: known.then_some(outcome.sent),
        lost: known.then_some(outcome.lost),
        order: received.map(order),
        latency_ns: received.and_then(|received| received.ages.as_ref()).and_then(quantiles),
    }
}

fn order(received: &ReceiveFigures) -> OrderReport {
    let total = &received.report.total;
    let stream = |stream: &slipring_traffic::StreamCounters| StreamReport {
        stream: stream.stream,
        received: stream.counters.received,
        lost: stream.counters.lost,
        reordered: stream.counters.reordered,
        duplicates: stream.counters.duplicates,
        max_displacement: stream.counters.max_displacement,
    };
    OrderReport {
        received: total.frames,
        reordered: total.reordered,
        duplicates: total.duplicates,
        late: total.late,
        corrupt: total.corrupt,
        foreign: total.foreign,
        streams: received.report.streams.iter().map(stream).collect(),
    }
}

fn quantiles(ages: &Histogram<u64>) -> Option<LatencyQuantiles> {
    (!ages.is_empty()).then(|| LatencyQuantiles {
        count: ages.len(),
        min: ages.min(),
        mean: ages.mean().round() as u64,
        p50: ages.value_at_quantile(0.5),
        p99: ages.value_at_quantile(0.99),
        p999: ages.value_at_quantile(0.999),
        max: ages.max(),
    })
}

/// Formats one interval as a line: `   1.0s  tx 1.000 Mpps 480 Mbit/s  drop 0`.
pub(super) fn line(
    stats: &mut SharedGenStats,
    figures: &GenFigures,
    function: GenFunction,
    style: FigureStyle,
    spread: &str,
) -> String {
    let mut text = format!("{:6.1}s  {} ", stats.elapsed().as_secs_f64(), verb(function));
    text += &format!("{} {}{spread}", pps(figures.pps(), style), bps(figures.bps(), style));
    let dropped: u64 = stats.intervals().iter().map(|interval| interval.delta.dropped).sum();
    text += &format!("  drop {dropped}");
    if let Some(received) = &figures.received {
        let total = &received.report.total;
        let (lost, reordered, duplicates) = (total.lost, total.reordered, total.duplicates);
        text += &format!("  lost {lost} reordered {reordered} duplicates {duplicates}");
        text += &ages(received);
    }
    text
}

/// Formats the summary of the whole run.
pub(super) fn summary(
    figures: &GenFigures,
    function: GenFunction,
    style: FigureStyle,
    ports: &[PortReport],
) -> String {
    let time = Duration::from_nanos(figures.time);
    let done = if function.sends() { "sent" } else { "received" };
    let mut text = format!(
        "{done} {} packets, {} bytes in {}",
        figures.done.packets,
        figures.done.bytes,
        human::span(time)
    );
    text += &format!(": {} {}", pps(figures.pps(), style), bps(figures.bps(), style));
    if figures.done.forfeited > 0 {
        let behind = human::span(Duration::from_nanos(figures.done.forfeited));
        text +=
            &format!("\nthe port could not keep the rate: {behind} of the schedule were given up");
    }
    if let Some(received) = &figures.received {
        text += &format!("\n{}", receive_summary(figures, received));
    }
    text + &drops(ports)
}

/// Formats the lost frames: a line for each port and each cause.
pub(super) fn drops(ports: &[PortReport]) -> String {
    let causes =
        ports.iter().flat_map(|port| port.drops.iter().map(move |drop| (&port.name, drop)));
    causes.map(|(name, (cause, count))| format!("\n{name}: dropped {count} ({cause})")).collect()
}

/// Formats the counters of received frames.
pub(super) fn receive_summary(figures: &GenFigures, received: &ReceiveFigures) -> String {
    let total = &received.report.total;
    let mut text = String::new();
    if figures.submitted > 0 {
        text += &format!("received {} packets\n", total.frames);
    }
    let share = human::share(received.lost, received.expected);
    text += &format!("lost {} of {} ({share})", received.lost, received.expected);
    text += &format!(", reordered {}, duplicates {}", total.reordered, total.duplicates);
    for (count, what) in
        [(total.late, "too late to tell"), (total.corrupt, "corrupt"), (total.foreign, "not ours")]
    {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    if received.report.streams.len() > 1 {
        for stream in &received.report.streams {
            let tally = &stream.counters;
            text += &format!(
                "\n  stream {}: received {}, lost {}, reordered {}, duplicates {}",
                stream.stream, tally.received, tally.lost, tally.reordered, tally.duplicates
            );
        }
    }
    if received.ages.is_some() {
        text += &format!("\nlatency{}", ages(received));
    }
    text
}

/// Formats ` p50 12.1 us p99 40 us p99.9 55 us max 102 us`, if ages were measured.
fn ages(received: &ReceiveFigures) -> String {
    let Some(ages) = received.ages.as_ref().and_then(quantiles) else {
        return String::new();
    };
    let span = |nanos| human::span(Duration::from_nanos(nanos));
    let LatencyQuantiles { p50, p99, p999, max, .. } = ages;
    format!("  p50 {} p99 {} p99.9 {} max {}", span(p50), span(p99), span(p999), span(max))
}

fn verb(function: GenFunction) -> &'static str {
    if function.sends() { "tx" } else { "rx" }
}

fn pps(rate: f64, style: FigureStyle) -> String {
    if style.raw { format!("{rate:.0} pps") } else { human::packets_per_sec(rate) }
}

fn bps(rate: f64, style: FigureStyle) -> String {
    if style.raw { format!("{rate:.0} bit/s") } else { human::bits_per_sec(rate) }
}

/// Mean and standard deviation of the rates in the last 15 reports, as for pkt-gen's `-A`.
#[derive(Debug, Default)]
pub(super) struct RateDeviation {
    rates: std::collections::VecDeque<f64>,
}

impl RateDeviation {
    const NUM_REPORTS: usize = 15;

    /// Adds a rate; returns mean and standard deviation of the last 15 rates.
    pub(super) fn add(&mut self, rate: f64) -> (f64, f64) {
        if self.rates.len() == Self::NUM_REPORTS {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
        let count = self.rates.len() as f64;
        let mean = self.rates.iter().sum::<f64>() / count;
        let variance = self.rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
        (mean, variance.sqrt())
    }

    /// Adds a rate; returns mean and deviation as text, in the units of `style`.
    pub(super) fn text(&mut self, rate: f64, style: FigureStyle) -> String {
        let (mean, deviation) = self.add(rate);
        format!("  mean {} deviation {}", pps(mean, style), pps(deviation, style))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_forgets_what_is_older_than_fifteen_reports() {
        let mut spread = RateDeviation::default();
        spread.add(1e9);
        for _ in 0..14 {
            spread.add(100.0);
        }
        assert!(spread.add(100.0) == (100.0, 0.0));
        let (mean, deviation) = spread.add(115.0);
        assert_eq!((mean, deviation.round()), (101.0, 4.0));
    }
}
