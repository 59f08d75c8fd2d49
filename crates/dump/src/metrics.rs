//! `--metrics` of programs that only observe frames: the traffic of the port, and the number of
//! captured frames.
//!
//! The capturing thread stores its figures after each batch; the endpoint's thread serves the
//! latest ones. Without the flag, no figures are stored.

use std::sync::{Arc, Mutex, PoisonError};

use slipring_cli::metrics::{self, MetricsText};
use slipring_cli::report::PortReport;
use slipring_cli::{Failure, Session};
use slipring_control::metrics::MetricsEndpoint;

use crate::source::DumpSource;

/// The figures at one moment.
#[derive(Debug, Clone, Default)]
pub struct DumpFigures {
    /// The port, with the traffic received and sent.
    pub port: PortReport,
    /// Frames that matched the filter.
    pub captured: u64,
}

/// An endpoint that serves the latest figures. It ends on drop.
#[derive(Debug)]
pub struct DumpMetrics {
    last: Arc<Mutex<DumpFigures>>,
    _endpoint: MetricsEndpoint,
}

impl DumpMetrics {
    /// Starts the endpoint, if `--metrics` was given.
    ///
    /// # Errors
    /// [`Failure`] if the address is in use, or is not an address of this machine.
    pub fn serve(session: &Session<'_>) -> Result<Option<Self>, Failure> {
        let last = Arc::new(Mutex::new(DumpFigures::default()));
        let shown = last.clone();
        let endpoint = metrics::serve(session, move || {
            Ok(text(&shown.lock().unwrap_or_else(PoisonError::into_inner)))
        })?;
        Ok(endpoint.map(|_endpoint| Self { last, _endpoint }))
    }

    /// Replaces the figures. First updates the counters of `source` that only the kernel keeps.
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
        text.counter(name, help, [(labels, value)]);
    }
    let lost = port.drops.iter().map(|(cause, count)| ([labels[0], ("cause", cause)], *count));
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
