//! `--metrics` of programs that only look at frames: what passed, and what was kept of it.
//!
//! The thread that takes frames hands its figures over after each batch; the endpoint's thread
//! shows the last ones. Without the flag nothing is handed over.

use std::sync::{Arc, Mutex, PoisonError};

use slipring_cli::metrics::{self, MetricsText};
use slipring_cli::report::PortReport;
use slipring_cli::{Failure, Session};
use slipring_control::metrics::MetricsEndpoint;

use crate::source::DumpSource;

/// Figures at one moment.
#[derive(Debug, Clone, Default)]
pub struct DumpFigures {
    /// The port, with what came in and went out.
    pub port: PortReport,
    /// Frames that the filter let through.
    pub captured: u64,
}

/// An endpoint that shows the last figures. Dropped, it ends.
#[derive(Debug)]
pub struct DumpMetrics {
    last: Arc<Mutex<DumpFigures>>,
    _endpoint: MetricsEndpoint,
}

impl DumpMetrics {
    /// Serves them, where `--metrics` asks for it.
    ///
    /// # Errors
    /// If the address is taken, or none of this machine.
    pub fn serve(session: &Session<'_>) -> Result<Option<Self>, Failure> {
        let last = Arc::new(Mutex::new(DumpFigures::default()));
        let shown = last.clone();
        let endpoint = metrics::serve(session, move || {
            Ok(text(&shown.lock().unwrap_or_else(PoisonError::into_inner)))
        })?;
        Ok(endpoint.map(|_endpoint| Self { last, _endpoint }))
    }

    /// Replaces the figures; `source` is asked what only the kernel knows.
    pub fn update(&self, source: &mut DumpSource, figures: impl FnOnce(PortReport) -> DumpFigures) {
        source.update_stats();
        let figures = figures(source.report());
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }
}

fn text(figures: &DumpFigures) -> String {
    let DumpFigures { port, captured } = figures;
    let mut text = MetricsText::default();
    let labels = [("port", port.name.as_str())];
    let rows = [
        ("slipring_port_rx_packets", "rx packets of the port", port.rx.packets),
        ("slipring_port_rx_bytes", "rx bytes of the port", port.rx.bytes),
        ("slipring_port_tx_packets", "tx packets of the port", port.tx.packets),
        ("slipring_port_tx_bytes", "tx bytes of the port", port.tx.bytes),
        ("slipring_captured_packets", "Frames that the filter let through", *captured),
    ];
    for (name, help, value) in rows {
        text.counter(name, help, [(&labels[..], value)]);
    }
    let lost: Vec<_> =
        port.drops.iter().map(|(cause, count)| ([labels[0], ("cause", cause)], count)).collect();
    let lost = lost.iter().map(|(labels, count)| (&labels[..], count));
    text.counter("slipring_port_lost_packets", "Frames lost, by cause", lost);
    text.finish()
}

#[cfg(test)]
mod tests {
    use slipring_cli::report::PortTraffic;

    use super::*;

    #[test]
    fn figures_are_those_of_the_port_and_what_was_captured() {
        let rx = PortTraffic { packets: 5, bytes: 300 };
        let drops = [("rx_kernel".to_owned(), 2)].into();
        let port = PortReport { name: "packet:x".into(), rx, drops, ..PortReport::default() };
        let text = text(&DumpFigures { port, captured: 4 });
        for line in [
            "slipring_port_rx_packets_total{port=\"packet:x\"} 5\n",
            "slipring_captured_packets_total{port=\"packet:x\"} 4\n",
            "slipring_port_lost_packets_total{port=\"packet:x\",cause=\"rx_kernel\"} 2\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
