//! The published counters of a program as OpenMetrics text.
//!
//! Each counter of a kind of objects is a family: `rx.packets` of ports becomes
//! `slipring_port_rx_packets`, with the port as a label. All loss counters of a kind form one
//! family with a label for the cause. Times are in seconds, as OpenMetrics requires.

use std::collections::BTreeMap;

use slipring_cli::metrics::{MetricValue, MetricsText};

use crate::schema::{MetricCounter, MetricKind, MetricObject, MetricSchema, NO_VALUE};

/// Prefix of the names of loss counters, before the cause.
const LOSS_PREFIX: &str = "lost.";

/// Returns the text for these counter words. Missing words and gauges without a value are omitted.
#[must_use]
pub fn text(names: &MetricSchema, words: &[u64]) -> String {
    let mut text = MetricsText::default();
    for (kind, counters) in &names.kinds {
        let objects = objects(names, kind);
        if objects.is_empty() {
            continue;
        }
        for (at, counter) in counters.iter().enumerate() {
            if !counter.name.starts_with(LOSS_PREFIX) {
                family(&mut text, kind, counter, &values(&objects, at, words));
            }
        }
        losses(&mut text, kind, counters, &objects, words);
    }
    text.finish()
}

/// Returns the objects of a kind with unique names: a second `null:` becomes `null:#2`.
fn objects<'n>(names: &'n MetricSchema, kind: &str) -> Vec<(String, &'n MetricObject)> {
    let mut met: BTreeMap<&str, u32> = BTreeMap::new();
    let of_kind = names.objects.iter().filter(|object| object.kind == kind);
    let named = of_kind.map(|object| {
        let times = met.entry(&object.name).or_default();
        *times += 1;
        let name = match *times {
            1 => object.name.clone(),
            nth => format!("{}#{nth}", object.name),
        };
        (name, object)
    });
    named.collect()
}

fn values<'o>(
    objects: &'o [(String, &MetricObject)],
    at: usize,
    words: &[u64],
) -> Vec<(&'o str, u64)> {
    let value = |(name, object): &'o (String, &MetricObject)| {
        let value = *words.get(object.first.checked_add(at)?)?;
        (value != NO_VALUE).then_some((name.as_str(), value))
    };
    objects.iter().filter_map(value).collect()
}

fn family(text: &mut MetricsText, kind: &str, counter: &MetricCounter, values: &[(&str, u64)]) {
    let base = format!("slipring_{kind}_{}", counter.name.replace(['.', '-'], "_"));
    let (name, unit) = match counter.unit.as_str() {
        "ns" => (format!("{base}_seconds"), 1e9),
        "bit/s" => (format!("{base}_bits_per_second"), 1.0),
        "1e-9" => (format!("{base}_ratio"), 1e9),
        "bytes" | "packets" if !base.ends_with(&counter.unit) => {
            (format!("{base}_{}", counter.unit), 1.0)
        }
        _ => (base, 1.0),
    };
    let help = format!("{} of the {kind}", counter.name.replace('.', " "));
    let values = values.iter().map(|&(name, value)| {
        let whole = MetricValue::Count(value);
        let value = if unit > 1.0 { MetricValue::Real(value as f64 / unit) } else { whole };
        ([(kind, name)], value)
    });
    match counter.kind {
        MetricKind::Counter => text.counter(&name, &help, values),
        MetricKind::Gauge => text.gauge(&name, &help, values),
    }
}

fn losses(
    text: &mut MetricsText,
    kind: &str,
    counters: &[MetricCounter],
    objects: &[(String, &MetricObject)],
    words: &[u64],
) {
    let mut lost = Vec::new();
    for (at, counter) in counters.iter().enumerate() {
        let Some(cause) = counter.name.strip_prefix(LOSS_PREFIX) else { continue };
        let values = values(objects, at, words).into_iter();
        lost.extend(values.map(|(name, value)| ([(kind, name), ("cause", cause)], value)));
    }
    let name = format!("slipring_{kind}_lost_packets");
    text.counter(&name, "Frames lost, by cause", lost);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> MetricSchema {
        let mut names = MetricSchema::default();
        names.describe(
            "port",
            vec![
                MetricCounter::growing("rx.packets", "packets"),
                MetricCounter::gauge("delay.p50", "ns"),
                MetricCounter::growing("lost.rx-full", "packets"),
            ],
        );
        for name in ["a", "a"] {
            let (kind, name) = ("port".to_owned(), name.to_owned());
            names.add(MetricObject { kind, name, ..MetricObject::default() });
        }
        names
    }

    #[test]
    fn every_series_is_named_once_and_causes_are_labels() {
        let text = text(&names(), &[7, 1_500_000_000, 3, 8, NO_VALUE, 4]);
        assert_eq!(
            text,
            "# HELP slipring_port_rx_packets rx packets of the port.\n\
             # TYPE slipring_port_rx_packets counter\n\
             slipring_port_rx_packets_total{port=\"a\"} 7\n\
             slipring_port_rx_packets_total{port=\"a#2\"} 8\n\
             # HELP slipring_port_delay_p50_seconds delay p50 of the port.\n\
             # TYPE slipring_port_delay_p50_seconds gauge\n\
             # UNIT slipring_port_delay_p50_seconds seconds\n\
             slipring_port_delay_p50_seconds{port=\"a\"} 1.5\n\
             # HELP slipring_port_lost_packets Frames lost, by cause.\n\
             # TYPE slipring_port_lost_packets counter\n\
             slipring_port_lost_packets_total{port=\"a\",cause=\"rx-full\"} 3\n\
             slipring_port_lost_packets_total{port=\"a#2\",cause=\"rx-full\"} 4\n# EOF\n"
        );
    }

    #[test]
    fn words_that_are_not_there_are_left_out() {
        let text = text(&names(), &[7]);
        assert!(text.contains("{port=\"a\"} 7\n") && !text.contains("a#2"), "{text}");
    }
}
