//! `--metrics` of a program that has only port counters.

use slipring_cli::{Failure, Session, metrics};
use slipring_control::metrics::MetricsEndpoint;
use slipring_top::openmetrics;
use slipring_top::schema::{MetricObject, MetricSchema};

use super::ports;
use crate::meter::PortMeter;

/// Serves the counters of ports until the endpoint is dropped. Does nothing if `--metrics` was not
/// given.
///
/// # Errors
/// [`Failure`] if the address is in use, or is not an address of this machine.
pub fn serve_metrics(
    meter: &PortMeter,
    session: &Session<'_>,
) -> Result<Option<MetricsEndpoint>, Failure> {
    let (meter, mut names) = (meter.clone(), MetricSchema::default());
    names.describe("port", ports::counters(&[]));
    for (name, _) in meter.snapshots() {
        let (kind, name) = ("port".to_owned(), name.to_owned());
        names.add(MetricObject { kind, name, ..MetricObject::default() });
    }
    metrics::serve(session, move || {
        let mut words = Vec::new();
        meter.snapshots().for_each(|(_, counts)| ports::values(&counts, &mut words));
        Ok(openmetrics::text(&names, &words))
    })
}
