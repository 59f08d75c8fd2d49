//! `--metrics` of a program whose figures are those of its ports.

use slipring_cli::{Failure, Session, metrics};
use slipring_control::metrics::Endpoint;
use slipring_monitor::names::{Names, Object};
use slipring_monitor::openmetrics;

use super::ports;
use crate::meter::Meter;

/// Serves the counters of ports, where `--metrics` asks for it, until the endpoint is dropped.
///
/// # Errors
/// If the address is taken, or none of this machine.
pub fn serve_metrics(meter: &Meter, session: &Session<'_>) -> Result<Option<Endpoint>, Failure> {
    let (meter, mut names) = (meter.clone(), Names::default());
    names.describe("port", ports::counters(&[]));
    for (name, _) in meter.snapshots() {
        let (kind, name) = ("port".to_owned(), name.to_owned());
        names.add(Object { kind, name, ..Object::default() });
    }
    metrics::serve(session, move || {
        let mut words = Vec::new();
        meter.snapshots().for_each(|(_, counts)| ports::values(&counts, &mut words));
        Ok(openmetrics::text(&names, &words))
    })
}
