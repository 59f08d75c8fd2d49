//! OpenMetrics text, version 1.0.0, family by family.

use std::fmt::{Display, Write};

/// Labels of one value, as pairs of name and text.
pub type MetricLabels<'l> = &'l [(&'l str, &'l str)];

/// An OpenMetrics text, built family by family.
#[derive(Debug, Default)]
pub struct MetricsText(String);

impl MetricsText {
    /// Adds a family of counters: `name` is without `_total`, which each value gets.
    pub fn counter<'l, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (MetricLabels<'l>, V)>,
    ) {
        self.head(name, "counter", help);
        for (labels, value) in values {
            self.line(&format!("{name}_total"), labels, value);
        }
    }

    /// Adds a family of gauges.
    pub fn gauge<'l, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (MetricLabels<'l>, V)>,
    ) {
        self.head(name, "gauge", help);
        for (labels, value) in values {
            self.line(name, labels, value);
        }
    }

    /// Returns the text with its end mark.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.0 += "# EOF\n";
        self.0
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if let Some(unit) = ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(unit)) {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {}.", escaped(help));
    }

    fn line(&mut self, name: &str, labels: MetricLabels<'_>, value: impl Display) {
        self.0 += name;
        for (at, (label, text)) in labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{}\"", escaped(text));
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

/// Escapes a label value or the text of a HELP line.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_type_unit_and_help_before_its_values() {
        let mut text = MetricsText::default();
        text.counter("x_bytes", "Bytes that came", [(&[("port", "a\"b")][..], 7), (&[], 1)]);
        text.gauge("x_inside", "Frames inside", [(&[("port", "a"), ("way", "in")][..], 2.5)]);
        assert_eq!(
            text.finish(),
            "# TYPE x_bytes counter\n# UNIT x_bytes bytes\n# HELP x_bytes Bytes that came.\n\
             x_bytes_total{port=\"a\\\"b\"} 7\nx_bytes_total 1\n\
             # TYPE x_inside gauge\n# HELP x_inside Frames inside.\n\
             x_inside{port=\"a\",way=\"in\"} 2.5\n# EOF\n"
        );
    }
}
