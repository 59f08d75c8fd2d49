//! Writes OpenMetrics text, version 1.0.0, for `--metrics` of every program.
//!
//! `prometheus-client` writes the text. Programs keep their own counters, so each scrape creates a
//! text from the values at that moment. This module does the work that the crate leaves to its
//! callers:
//!
//! 1. It replaces characters that the standard does not allow in names, and escapes help texts.
//! 2. It writes a `UNIT` line for a name that ends in a unit.
//! 3. It writes bounds of buckets in the standard's canonical form.
//!
//! Not for exemplars or timestamps. Prometheus uses the time of the scrape.

use std::fmt::{self, Display};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

/// The labels of a family that has only one value.
pub const NO_LABELS: [(&str, &str); 0] = [];

/// Units that a name may end in.
const UNITS: [(&str, Unit); 2] = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)];

/// An OpenMetrics text, built family by family.
#[derive(Debug, Default)]
pub struct MetricsText(Registry);

/// The value of a counter or gauge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricValue {
    /// An integer.
    Count(u64),
    /// A number that is not an integer.
    Real(f64),
}

/// A distribution of values at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricHistogram {
    /// Sum of all values.
    pub sum: f64,
    /// Number of all values.
    pub count: u64,
    /// Upper bounds in ascending order, each with the number of values up to that bound. The text
    /// has one more bucket, without a bound, which counts all values.
    pub buckets: Vec<(f64, u64)>,
}

impl MetricsText {
    /// Adds a family of counters. The name of each value gets the suffix `_total`.
    pub fn counter<K: Display, T: Display, L: IntoIterator<Item = (K, T)>>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, impl Into<MetricValue>)>,
    ) {
        let name = name.strip_suffix("_total").unwrap_or(name);
        self.family(name, help, MetricType::Counter, rows, |value| {
            MetricSample::Counter(value.into())
        });
    }

    /// Adds a family of gauges.
    pub fn gauge<K: Display, T: Display, L: IntoIterator<Item = (K, T)>>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, impl Into<MetricValue>)>,
    ) {
        self.family(name, help, MetricType::Gauge, rows, |value| MetricSample::Gauge(value.into()));
    }

    /// Adds a family of histograms.
    pub fn histogram<K: Display, T: Display, L: IntoIterator<Item = (K, T)>>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (L, MetricHistogram)>,
    ) {
        self.family(name, help, MetricType::Histogram, rows, MetricSample::Histogram);
    }

    /// Returns the text with its end mark.
    #[must_use]
    pub fn finish(self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.0).expect("a string takes every value");
        with_canonical_bounds(&text)
    }

    fn family<K: Display, T: Display, L: IntoIterator<Item = (K, T)>, V>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        rows: impl IntoIterator<Item = (L, V)>,
        sample: impl Fn(V) -> MetricSample,
    ) {
        let text_of = |(key, value): (K, T)| (allowed_name(&key.to_string()), value.to_string());
        let rows = rows
            .into_iter()
            .map(|(labels, value)| (labels.into_iter().map(text_of).collect(), sample(value)));
        let family = MetricFamily { kind, rows: rows.collect() };
        let (name, help) = (allowed_name(name), escaped(help));
        let unit = UNITS.into_iter().find_map(|(end, unit)| Some((name.strip_suffix(end)?, unit)));
        match unit {
            Some((name, unit)) => self.0.register_with_unit(name, help, unit, family),
            None => self.0.register(name, help, family),
        }
    }
}

impl From<u64> for MetricValue {
    fn from(value: u64) -> Self {
        Self::Count(value)
    }
}

impl From<f64> for MetricValue {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// One family: its samples with their labels.
#[derive(Debug)]
struct MetricFamily {
    kind: MetricType,
    rows: Vec<(Vec<(String, String)>, MetricSample)>,
}

#[derive(Debug)]
enum MetricSample {
    Counter(MetricValue),
    Gauge(MetricValue),
    Histogram(MetricHistogram),
}

impl EncodeMetric for MetricFamily {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        self.rows
            .iter()
            .try_for_each(|(labels, sample)| sample.encode(encoder.encode_family(labels)?))
    }

    fn metric_type(&self) -> MetricType {
        self.kind
    }
}

impl MetricSample {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter(MetricValue::Count(value)) => {
                encoder.encode_counter::<NoLabelSet, _, f64>(value, None)
            }
            Self::Counter(MetricValue::Real(value)) => {
                encoder.encode_counter::<NoLabelSet, _, f64>(value, None)
            }
            Self::Gauge(MetricValue::Count(value)) => encoder.encode_gauge(value),
            Self::Gauge(MetricValue::Real(value)) => encoder.encode_gauge(value),
            Self::Histogram(MetricHistogram { sum, count, buckets }) => {
                let buckets = single_counts(buckets, *count);
                encoder.encode_histogram::<NoLabelSet>(*sum, *count, &buckets, None)
            }
        }
    }
}

/// Converts cumulative counts to the number of values in each bucket alone. The last element counts
/// the values above all bounds.
fn single_counts(buckets: &[(f64, u64)], count: u64) -> Vec<(f64, u64)> {
    let mut below = 0;
    let all = buckets.iter().copied().chain([(f64::INFINITY, count)]);
    all.map(|(bound, up_to)| (bound, up_to.saturating_sub(std::mem::replace(&mut below, up_to))))
        .collect()
}

/// Writes bounds below 0.0001 in the form that the standard requires: `1e-05`, where the crate
/// writes `0.00001`.
fn with_canonical_bounds(text: &str) -> String {
    /// `prometheus-client` writes the label `le` before all other labels. A quotation mark in a
    /// label's value is escaped, so this text occurs nowhere else.
    const BOUND: &str = "_bucket{le=\"";
    let mut pieces = text.split(BOUND);
    let mut canonical = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (bound, rest) = piece.split_once('"').unwrap_or((piece, ""));
        canonical += BOUND;
        canonical += &match bound.parse::<f64>() {
            Ok(number) if (1e-9..1e-4).contains(&number) => {
                format!("{number:e}").replace("e-", "e-0")
            }
            _ => bound.to_owned(),
        };
        canonical.push('"');
        canonical += rest;
    }
    canonical
}

/// Replaces characters that are not allowed in a name.
fn allowed_name(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_")
}

/// Escapes a help text, because the crate does not.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_help_type_and_unit_before_its_values() {
        let mut text = MetricsText::default();
        text.counter("x_bytes", "Bytes of \"a\"", [(vec![("port", "a\"b\\")], 7), (vec![], 1u64)]);
        text.gauge("x_inside", "Frames inside", [([("port", "a"), ("way", "in")], 2.5)]);
        text.gauge("x.y", "Name with a dot", [(NO_LABELS, 0)]);
        assert_eq!(
            text.finish(),
            "# HELP x_bytes Bytes of \\\"a\\\".\n# TYPE x_bytes counter\n# UNIT x_bytes bytes\n\
             x_bytes_total{port=\"a\\\"b\\\\\"} 7\nx_bytes_total 1\n\
             # HELP x_inside Frames inside.\n# TYPE x_inside gauge\n\
             x_inside{port=\"a\",way=\"in\"} 2.5\n\
             # HELP x_y Name with a dot.\n# TYPE x_y gauge\nx_y 0\n# EOF\n"
        );
    }

    #[test]
    fn bounds_of_buckets_are_canonical_and_their_counts_add_up() {
        let mut text = MetricsText::default();
        let buckets = vec![(1e-7, 1), (2e-6, 1), (1e-5, 3), (1e-4, 3), (10.0, 4)];
        let histogram = MetricHistogram { sum: 20.5, count: 5, buckets };
        text.histogram("x_seconds", "Time", [([("link", "_bucket{le=\"0.00001\"")], histogram)]);
        let link = "link=\"_bucket{le=\\\"0.00001\\\"\"";
        let mut expected = format!(
            "# HELP x_seconds Time.\n# TYPE x_seconds histogram\n# UNIT x_seconds seconds\n\
             x_seconds_sum{{{link}}} 20.5\nx_seconds_count{{{link}}} 5\n"
        );
        let counts = [("1e-07", 1), ("2e-06", 1), ("1e-05", 3), ("0.0001", 3), ("10.0", 4)];
        for (bound, count) in counts.into_iter().chain([("+Inf", 5)]) {
            expected += &format!("x_seconds_bucket{{le=\"{bound}\",{link}}} {count}\n");
        }
        assert_eq!(text.finish(), expected + "# EOF\n");
    }
}
