//! The report as OpenMetrics text (version 1.0.0), which Prometheus reads.
//!
//! Few labels: the link, and the cause of losses. Times are in seconds, as the format requires.

use std::fmt::Write;

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

/// A counter of a link: its name, its description, and its source.
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

/// A part of a tally: its unit, its description, and its source.
type TallyPart = (&'static str, &'static str, fn(PacketCounts) -> u64);

/// A histogram of a link: its name, its description, its values per unit, and its source.
type LinkHistogram = (&'static str, &'static str, f64, fn(&LinkMeasurement) -> &Histogram);

const DISTRIBUTIONS: [LinkHistogram; 4] = [
    ("delay_seconds", "Time from arrival to departure", 1e9, |seen| &seen.delay),
    ("lateness_seconds", "Departure after the release time", 1e9, |seen| &seen.error),
    ("queue_delay_seconds", "Time in the queue", 1e9, |seen| &seen.queue_delay),
    ("queue_bytes", "Bytes in the queue when a frame joined it", 1.0, |seen| &seen.queue_bytes),
];

/// Returns the text for these links, with its end mark.
pub(crate) fn text(links: &[LinkReport<'_>], unrouted: PacketCounts) -> String {
    let mut text = String::new();
    for (name, meaning, tally) in COUNTERS {
        counter(&mut text, links, name, meaning, tally);
    }
    drops(&mut text, links, unrouted);
    inside(&mut text, links);
    for distribution in DISTRIBUTIONS {
        histogram(&mut text, links, distribution);
    }
    text.push_str("# EOF\n");
    text
}

fn counter(
    text: &mut String,
    links: &[LinkReport<'_>],
    name: &str,
    meaning: &str,
    tally: fn(&LinkCounters) -> PacketCounts,
) {
    let parts: [TallyPart; 2] = [
        ("packets", "Frames", |tally| tally.packets),
        ("bytes", "Bytes of frames", |tally| tally.bytes),
    ];
    for (unit, noun, part) in parts {
        head(
            text,
            &format!("slipring_link_{name}_{unit}"),
            "counter",
            &format!("{noun} {meaning}"),
        );
        for link in links {
            let (label, value) = (label(&link.name), part(tally(&link.counters)));
            line(text, &format!("slipring_link_{name}_{unit}_total{{link=\"{label}\"}}"), value);
        }
    }
}

fn drops(text: &mut String, links: &[LinkReport<'_>], unrouted: PacketCounts) {
    head(text, "slipring_link_dropped_packets", "counter", "Frames lost, by cause");
    for link in links {
        let name = label(&link.name);
        for (cause, tally) in link.counters.drops.iter() {
            let labels = format!("{{link=\"{name}\",cause=\"{cause}\"}}");
            line(text, &format!("slipring_link_dropped_packets_total{labels}"), tally.packets);
        }
    }
    head(text, "slipring_unrouted_packets", "counter", "Frames that no link wanted");
    line(text, "slipring_unrouted_packets_total", unrouted.packets);
}

fn inside(text: &mut String, links: &[LinkReport<'_>]) {
    head(text, "slipring_link_inside_packets", "gauge", "Frames inside the link");
    for link in links {
        let name = format!("slipring_link_inside_packets{{link=\"{}\"}}", label(&link.name));
        line(text, &name, link.counters.in_flight.packets);
    }
}

fn histogram(text: &mut String, links: &[LinkReport<'_>], distribution: LinkHistogram) {
    let (name, meaning, unit, of) = distribution;
    let full = format!("slipring_link_{name}");
    head(text, &full, "histogram", meaning);
    let bounds: Vec<u64> =
        if unit > 1.0 { time_bounds().collect() } else { byte_bounds().collect() };
    for link in links {
        let Some(histogram) = link.measured.map(of) else { continue };
        let name = label(&link.name);
        for &bound in &bounds {
            let le = bound as f64 / unit;
            let bucket = format!("{full}_bucket{{link=\"{name}\",le=\"{le:?}\"}}");
            line(text, &bucket, histogram.at_most(bound));
        }
        let count = histogram.count();
        line(text, &format!("{full}_bucket{{link=\"{name}\",le=\"+Inf\"}}"), count);
        line(text, &format!("{full}_sum{{link=\"{name}\"}}"), histogram.sum() / unit);
        line(text, &format!("{full}_count{{link=\"{name}\"}}"), count);
    }
}

fn head(text: &mut String, name: &str, kind: &str, meaning: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if let Some(unit) = ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(unit)) {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    let _ = writeln!(text, "# HELP {name} {meaning}.");
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "{name} {value}");
}

/// Escapes the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
