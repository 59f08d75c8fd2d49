//! The report as OpenMetrics text (version 1.0.0), which Prometheus reads.
//!
//! The only labels are the link, and the cause of losses. Times are in seconds, as the format
//! requires.

use slipring_cli::metrics::{MetricHistogram, MetricsText, NO_LABELS};
use slipring_link::{LinkCounters, PacketCounts};

use super::histogram::Histogram;
use super::link_report::LinkReport;
use super::measurement::LinkMeasurement;

/// Returns the bounds of time buckets, in ns: 1, 2 and 5 of each decade from 100 ns to 10 s.
fn time_bounds() -> impl Iterator<Item = u64> {
    let decades = (2..10).map(|power| 10u64.pow(power));
    decades.flat_map(|decade| [decade, 2 * decade, 5 * decade]).chain([10_000_000_000])
}

/// Returns the bounds of byte buckets: powers of four from 256 to 1 GiB.
fn byte_bounds() -> impl Iterator<Item = u64> {
    (4..=15).map(|power| 1 << (2 * power))
}

/// A counter of a link: its name, its description, and the function that returns its value.
type LinkCounter = (&'static str, &'static str, fn(&LinkCounters) -> PacketCounts);

const COUNTERS: [LinkCounter; 8] = [
    ("input", "that reached the link", |counters| counters.input),
    ("copies", "made by the link", |counters| counters.copies),
    ("output", "that left the link", |counters| counters.output),
    ("marked", "marked with congestion experienced", |counters| counters.marked),
    ("mangled", "of which bytes were written over", |counters| counters.mangled),
    ("corrupted", "sent on with bit errors", |counters| counters.corrupted),
    ("held", "held back before the queue", |counters| counters.held),
    ("clamped", "put off so that they overtake none", |counters| counters.clamped),
];

/// A unit in which a count is given, packets or bytes: its name, its description, and the function
/// that returns the value.
type PacketCountUnit = (&'static str, &'static str, fn(PacketCounts) -> u64);

/// A histogram of a link: its name, its description, the number by which values are divided for the
/// unit in the name, and the function that returns it.
type LinkHistogram = (&'static str, &'static str, f64, fn(&LinkMeasurement) -> &Histogram);

const DISTRIBUTIONS: [LinkHistogram; 4] = [
    ("delay_seconds", "Time from arrival to departure", 1e9, |seen| &seen.delay),
    ("lateness_seconds", "Departure after the release time", 1e9, |seen| &seen.error),
    ("queue_delay_seconds", "Time in the queue", 1e9, |seen| &seen.queue_delay),
    ("queue_bytes", "Bytes in the queue when a frame joined it", 1.0, |seen| &seen.queue_bytes),
];

/// Returns the metrics of these links as text, with the end mark `# EOF`.
pub(crate) fn text(links: &[LinkReport<'_>], unrouted: PacketCounts) -> String {
    let mut text = MetricsText::default();
    for counter in COUNTERS {
        write_counter(&mut text, links, counter);
    }
    write_drops(&mut text, links, unrouted);
    let inside = links.iter().map(|link| (label(link), link.counters.in_flight.packets));
    text.gauge("slipring_link_inside_packets", "Frames inside the link", inside);
    for distribution in DISTRIBUTIONS {
        write_histogram(&mut text, links, distribution);
    }
    text.finish()
}

fn write_counter(text: &mut MetricsText, links: &[LinkReport<'_>], counter: LinkCounter) {
    let (name, meaning, tally) = counter;
    let parts: [PacketCountUnit; 2] = [
        ("packets", "Frames", |tally| tally.packets),
        ("bytes", "Bytes of frames", |tally| tally.bytes),
    ];
    for (unit, noun, part) in parts {
        let rows = links.iter().map(|link| (label(link), part(tally(&link.counters))));
        text.counter(&format!("slipring_link_{name}_{unit}"), &format!("{noun} {meaning}"), rows);
    }
}

fn write_drops(text: &mut MetricsText, links: &[LinkReport<'_>], unrouted: PacketCounts) {
    let rows = links.iter().flat_map(|link| {
        let drops = link.counters.drops.iter();
        drops.map(|(cause, tally)| {
            ([("link", link.name.clone()), ("cause", cause.to_string())], tally.packets)
        })
    });
    text.counter("slipring_link_dropped_packets", "Frames lost, by cause", rows);
    let unrouted = [(NO_LABELS, unrouted.packets)];
    text.counter("slipring_unrouted_packets", "Frames that no link wanted", unrouted);
}

fn write_histogram(text: &mut MetricsText, links: &[LinkReport<'_>], distribution: LinkHistogram) {
    let (name, meaning, unit, of) = distribution;
    let bounds: Vec<u64> =
        if unit > 1.0 { time_bounds().collect() } else { byte_bounds().collect() };
    let rows = links.iter().filter_map(|link| {
        let histogram = link.measured.map(of)?;
        let buckets = bounds.iter().map(|&bound| (bound as f64 / unit, histogram.at_most(bound)));
        let buckets = buckets.collect();
        let (sum, count) = (histogram.sum() / unit, histogram.count());
        Some((label(link), MetricHistogram { sum, count, buckets }))
    });
    text.histogram(&format!("slipring_link_{name}"), meaning, rows);
}

fn label<'l>(link: &'l LinkReport<'_>) -> [(&'static str, &'l str); 1] {
    [("link", &link.name)]
}
