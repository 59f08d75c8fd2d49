//! Counters of a gateway.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use slipring_cli::metrics::{MetricsText, NO_LABELS};

/// Numbers of connections and answers since the start.
#[derive(Debug, Default)]
pub struct HttpCounters {
    connections: AtomicU64,
    rejected: AtomicU64,
    /// Numbers of answers by the first digit of their status, which is 1 to 5.
    responses: [AtomicU64; 5],
}

impl HttpCounters {
    /// Returns the counters as OpenMetrics text.
    #[must_use]
    pub fn text(&self) -> String {
        // Relaxed: no counter guards other data.
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut text = MetricsText::default();
        let name = "slipring_serve_connections";
        text.counter(name, "Connections of clients", [(NO_LABELS, value(&self.connections))]);
        let name = "slipring_serve_turned_away_connections";
        let help = "Connections closed at once because all places were taken";
        text.counter(name, help, [(NO_LABELS, value(&self.rejected))]);
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(&self.responses);
        let answers = classes.map(|(class, count)| ([("status", class)], value(count)));
        text.counter("slipring_serve_answers", "Requests answered, by status", answers);
        text.finish()
    }

    pub(crate) fn count_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_response(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100);
        if let Some(count) = class.checked_sub(1).and_then(|class| self.responses.get(class)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_the_class_of_their_status() {
        let counts = HttpCounters::default();
        counts.count_connection();
        for status in [StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::FORBIDDEN] {
            counts.count_response(status);
        }
        let text = counts.text();
        assert!(text.contains("slipring_serve_connections_total 1\n"), "{text}");
        assert!(text.contains("slipring_serve_answers_total{status=\"2xx\"} 1\n"), "{text}");
        assert!(text.contains("slipring_serve_answers_total{status=\"4xx\"} 2\n"), "{text}");
    }
}
