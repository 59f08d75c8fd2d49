//! `slipring emulate` between ports: from the plan to the report.

use std::time::Duration;

use rustix::system::sysinfo;
use slipring_cli::report::{PortReport, ReportSample};
use slipring_cli::units::human;
use slipring_cli::{Exit, Failure, Session, Signals};
use slipring_link::{LinkDropCause, LinkDrops, LinkSource, NetworkSpec, PacketCounts};
use slipring_port::{Nanos, Port, now};

use super::{EmulationState, RealtimeOptions, RunServices};
use crate::plan::{EmulationPlan, RealtimePlan};
use crate::report::EmulationReport;
use crate::report::document::EmulationDocument;
use slipring_datapath::confine::Confinement;
use slipring_datapath::meter::{PortMeter, bps, pps};
use slipring_datapath::opening;
use slipring_datapath::workers::{Workers, WorkersEvent};

/// Frames may take the machine's memory divided by this: enough for any link, and the rest is
/// left to others.
const STORAGE_MEMORY_DIVISOR: u64 = 2;

/// Runs a plan between ports, until a signal, its end, or the loss of a port.
///
/// # Errors
/// If a port cannot be opened or is lost, or the network cannot be built.
pub(crate) fn run(
    plan: &EmulationPlan,
    how: &RealtimePlan,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    opening::require_cpus(&how.cpus)?;
    let signals = Signals::install()?;
    let place = RunServices::reserve(plan, session)?;
    opening::wait_for_links(&how.ports, how.link_wait, &signals)?;
    let mut ports = how.opening.open(&how.ports, session)?;
    if let Some(route) = &how.route {
        route.between(&mut ports, &how.ports, session)?;
    }
    Confinement::for_ports(&ports)
        .opening_files()
        .serving_metrics(plan.outputs.metrics.as_deref())
        .with_priorities()
        .begin(session)?;
    for port in receive_only_ports(&ports) {
        session.reporter.warn(format_args!(
            "{port} only gives frames: those that come there by a link are lost (tx_full)"
        ))?;
    }
    let mut meter = PortMeter::new(&ports);
    session.reporter.start(Some(plan.seed), "monotonic", &meter.reports())?;
    let (emulation, desk) = RunServices::start(ports, plan, &options(plan, how), place, session)?;
    let deadline = how.duration.map(|duration| now() + duration.as_nanos() as Nanos);
    let threads = emulation.tasks.len();
    let workers = Workers::start(emulation.tasks)?;
    for _ in 0..threads {
        if let Ok(place) = emulation.placements.recv_timeout(Duration::from_secs(1)) {
            session.reporter.say(format_args!("# {place}"))?;
        }
    }
    let watched = workers.watch_with_reload(&signals, how.period, deadline, |due| {
        if due == WorkersEvent::Reload {
            return desk.reload(plan, session);
        }
        let state = desk.channel.request_state();
        let time = meter.begin_interval();
        let text = line(&mut meter, &state, time);
        let sample = desk.sample(&meter, &state);
        if due == WorkersEvent::Interim {
            session.reporter.interim(&sample, text)
        } else {
            session.reporter.interval(&sample, text)
        }
    });
    let ended = workers.finish();
    desk.report(&meter, session)?;
    desk.close(session)?;
    watched?;
    ended?;
    Ok(Exit::Done)
}

/// Returns the ports that cannot send what others receive, such as captures that are read.
fn receive_only_ports(ports: &[Port]) -> Vec<&str> {
    let from_others = |at: usize| {
        let mut others = ports.iter().enumerate().filter(|(other, _)| *other != at);
        others.any(|(_, port)| port.info.caps.rx)
    };
    let mute = ports.iter().enumerate().filter(|(at, port)| !port.info.caps.tx && from_others(*at));
    mute.map(|(_, port)| port.info.name.as_str()).collect()
}

fn options(plan: &EmulationPlan, how: &RealtimePlan) -> RealtimeOptions {
    let defaults = RealtimeOptions::default();
    RealtimeOptions {
        seed: plan.seed,
        burst: how.burst,
        wait_policy: how.opening.wait_policy,
        cpus: how.cpus.iter().map(|&cpu| cpu as usize).collect(),
        pipeline: how.pipeline,
        late_drop: plan.outputs.late_drop_ns,
        late_warn: plan.outputs.late_warn_ns.unwrap_or(defaults.late_warn),
        storage_bytes: storage_bytes(),
    }
}

/// Returns the most memory for frames, in bytes.
pub fn storage_bytes() -> u64 {
    let memory = sysinfo();
    let bytes = memory.totalram.saturating_mul(memory.mem_unit.into());
    bytes / STORAGE_MEMORY_DIVISOR
}

/// Returns the report on the links at `state`.
pub fn report<'s>(network: &NetworkSpec, state: &'s EmulationState) -> EmulationReport<'s> {
    EmulationReport::of(network, &state.account.links, &state.measured, state.account.unrouted)
}

/// Returns the sample for an interim report.
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

/// Returns the ports with the losses of links and outlets: losses in a link count at the port where
/// it begins, frames that could not be sent at their output port.
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
            // After a node, frames of several ports mix: they count at the first one.
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
fn line(meter: &mut PortMeter, state: &EmulationState, time: Duration) -> String {
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
