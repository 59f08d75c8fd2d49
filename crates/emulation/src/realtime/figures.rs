//! Reports on a run in real time: samples, interim lines and the summary.

use std::time::Duration;

use slipring_cli::report::{PortReport, ReportSample};
use slipring_cli::units::human;
use slipring_link::{LinkDropCause, LinkDrops, LinkSource, NetworkSpec, PacketCounts};

use crate::account::EmulationState;
use crate::report::EmulationReport;
use crate::report::document::EmulationDocument;
use slipring_datapath::meter::{PortMeter, bps, pps};

/// Returns the report on the links for the figures in `state`.
pub fn report<'s>(network: &NetworkSpec, state: &'s EmulationState) -> EmulationReport<'s> {
    EmulationReport::of(network, &state.account.links, &state.measured, state.account.unrouted)
}

/// Returns the sample for an interim or final report.
pub fn sample(
    network: &NetworkSpec,
    meter: &PortMeter,
    state: &EmulationState,
) -> ReportSample<EmulationDocument> {
    ReportSample {
        elapsed: meter.elapsed(),
        ports: ports(network, meter, state),
        in_flight: state.account.in_flight().packets + meter.in_flight(),
        copies: state.account.copies().packets,
        extra: report(network, state).document().unordered(state.account.unordered()),
    }
}

/// Returns the reports on the ports, including lost frames: losses in a link count at the port
/// where the link begins, and frames that could not be sent count at their output port.
fn ports(network: &NetworkSpec, meter: &PortMeter, state: &EmulationState) -> Vec<PortReport> {
    let (account, mut ports) = (&state.account, meter.reports());
    for (port, entry) in ports.iter_mut().zip(&account.entries) {
        add(port, entry.refused.iter());
    }
    for (port, exit) in ports.iter_mut().zip(&account.exits) {
        add(port, exit.dropped.values().flat_map(LinkDrops::iter));
    }
    for (link, counters) in network.links.iter().zip(&account.links) {
        let entry = match link.from {
            LinkSource::Entry(entry) => entry,
            // If the link begins at a node, the port of its frames is not known, so they count at
            // the first port.
            LinkSource::Node(_) => 0,
        };
        let on_the_way = |&(cause, _): &(LinkDropCause, _)| {
            !matches!(cause, LinkDropCause::Late | LinkDropCause::TxFull)
        };
        if let Some(port) = ports.get_mut(entry) {
            add(port, counters.drops.iter().filter(on_the_way));
        }
    }
    if let Some(first) = ports.first_mut().filter(|_| account.unrouted.packets > 0) {
        *first.drops.entry("route".to_owned()).or_default() += account.unrouted.packets;
    }
    ports
}

fn add(port: &mut PortReport, drops: impl Iterator<Item = (LinkDropCause, PacketCounts)>) {
    for (cause, tally) in drops.filter(|(_, tally)| tally.packets > 0) {
        *port.drops.entry(cause.as_str().to_owned()).or_default() += tally.packets;
    }
}

/// Formats an interim line: `12.0s  netmap:a rx 1.20 Mpps tx 0.98 Mpps …  inside 240 lost 3  late
/// p99 45 us`
pub(crate) fn line(meter: &mut PortMeter, state: &EmulationState, time: Duration) -> String {
    let mut text = format!("{:6.1}s", meter.elapsed().as_secs_f64());
    for interval in meter.intervals() {
        let (name, change) = (interval.name, interval.delta);
        let (rx, tx) = (pps(change.rx.packets, time), pps(change.tx.packets, time));
        text += &format!("  {name} rx {rx} tx {tx} {}", bps(change.tx.bytes, time));
    }
    let (account, errors) = (&state.account, state.measured.iter().map(|link| &link.error));
    text += &format!("  inside {} lost {}", account.in_flight().packets, account.lost().packets);
    let late = errors.filter(|error| error.count() > 0).map(|error| error.quantile(0.99)).max();
    if let Some(late) = late {
        text += &format!("  late p99 {}", human::span(Duration::from_nanos(late)));
    }
    text
}

/// Formats the summary at the end of a run.
pub(crate) fn summary(network: &NetworkSpec, meter: &PortMeter, state: &EmulationState) -> String {
    let mut text = report(network, state).summary();
    for port in ports(network, meter, state) {
        let (rx, tx) = (port.rx.packets, port.tx.packets);
        text += &format!("\n{}: received {rx} packets, sent {tx} packets", port.name);
        for (cause, count) in &port.drops {
            text += &format!(", dropped {count} ({cause})");
        }
    }
    let inside = state.account.in_flight().packets;
    text + &format!(
        "\n{} in all, {inside} packets in flight at the end",
        human::span(meter.elapsed())
    )
}
