//! `slipring emulate` between ports: from the plan to the report.

use std::time::Duration;

use rustix::system::sysinfo;
use slipring_cli::report::{PortReport, Sample};
use slipring_cli::units::human;
use slipring_cli::{Exit, Failure, Session, Signals};
use slipring_link::{Cause, Drops, NetworkSpec, Source, Tally};
use slipring_port::{Nanos, Port, now};

use super::{Desk, Manner, State};
use crate::plan::{Plan, RealTime};
use crate::report::Report;
use crate::report::document::Document;
use slipring_program::confine::Confinement;
use slipring_program::meter::{Meter, bps, pps};
use slipring_program::opening;
use slipring_program::workers::{Due, Workers};

/// Memory for frames at most: more than any link is long on this machine, and less than it has.
const STORAGE_SHARE: u64 = 2;

/// Runs a plan between ports, until a signal, its end, or the loss of a port.
///
/// # Errors
/// If a port cannot be opened or is lost, or the network cannot be built.
pub(crate) fn run(plan: &Plan, how: &RealTime, session: &mut Session<'_>) -> Result<Exit, Failure> {
    opening::require_cpus(&how.cpus)?;
    let signals = Signals::install()?;
    let place = Desk::reserve(plan, session)?;
    opening::wait_for_links(&how.ports, how.link_wait, &signals)?;
    let mut ports = how.opening.open(&how.ports, session)?;
    if let Some(route) = &how.route {
        route.between(&mut ports, &how.ports, session)?;
    }
    Confinement::around(&ports)
        .opening_files()
        .serving_metrics(plan.outputs.metrics.as_deref())
        .with_priorities()
        .begin(session)?;
    for port in ends(&ports) {
        session.reporter.warn(format_args!(
            "{port} only gives frames: those that come there by a link are lost (tx_full)"
        ))?;
    }
    let mut meter = Meter::new(&ports);
    session.reporter.start(Some(plan.seed), "monotonic", &meter.reports())?;
    let (emulation, desk) = Desk::around(ports, plan, &manner(plan, how), place, session)?;
    let deadline = how.duration.map(|duration| now() + duration.as_nanos() as Nanos);
    let threads = emulation.tasks.len();
    let workers = Workers::start(emulation.tasks)?;
    for _ in 0..threads {
        if let Ok(place) = emulation.places.recv_timeout(Duration::from_secs(1)) {
            session.reporter.say(format_args!("# {place}"))?;
        }
    }
    let watched = workers.attend(&signals, how.period, deadline, |due| {
        if due == Due::Reload {
            return desk.reload(plan, session);
        }
        let state = desk.board.ask();
        let time = meter.lap();
        let text = line(&mut meter, &state, time);
        let sample = desk.sample(&meter, &state);
        if due == Due::Interim {
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

/// The ports that cannot send what others receive, such as captures that are read.
fn ends(ports: &[Port]) -> Vec<&str> {
    let from_others = |at: usize| {
        let mut others = ports.iter().enumerate().filter(|(other, _)| *other != at);
        others.any(|(_, port)| port.info.caps.rx)
    };
    let mute = ports.iter().enumerate().filter(|(at, port)| !port.info.caps.tx && from_others(*at));
    mute.map(|(_, port)| port.info.name.as_str()).collect()
}

fn manner(plan: &Plan, how: &RealTime) -> Manner {
    let defaults = Manner::default();
    Manner {
        seed: plan.seed,
        burst: how.burst,
        patience: how.opening.patience,
        cpus: how.cpus.iter().map(|&cpu| cpu as usize).collect(),
        pipeline: how.pipeline,
        late_drop: plan.outputs.late_drop_ns,
        late_warn: plan.outputs.late_warn_ns.unwrap_or(defaults.late_warn),
        storage_bytes: storage_bytes(),
    }
}

/// Memory for frames at most, in bytes.
pub fn storage_bytes() -> u64 {
    let memory = sysinfo();
    let bytes = memory.totalram.saturating_mul(memory.mem_unit.into());
    bytes / STORAGE_SHARE
}

/// What the links did, as far as it is known at `state`.
pub fn report<'s>(network: &NetworkSpec, state: &'s State) -> Report<'s> {
    Report::of(network, &state.account.links, &state.measured, state.account.unrouted)
}

/// What an interval is reported by.
pub fn sample(network: &NetworkSpec, meter: &Meter, state: &State) -> Sample<Document> {
    Sample {
        elapsed: meter.elapsed(),
        ports: ports(network, meter, state),
        in_flight: state.account.in_flight().packets + meter.in_flight(),
        copies: state.account.copies().packets,
        extra: report(network, state).document().unordered(state.account.unordered()),
    }
}

/// The ports with what links and outlets lost: what a link loses, at the port where it begins,
/// and what could not be sent, at the port that was to send it.
fn ports(network: &NetworkSpec, meter: &Meter, state: &State) -> Vec<PortReport> {
    let (account, mut ports) = (&state.account, meter.reports());
    for (port, entry) in ports.iter_mut().zip(&account.entries) {
        add(port, entry.refused.iter());
    }
    for (port, exit) in ports.iter_mut().zip(&account.exits) {
        add(port, exit.dropped.values().flat_map(Drops::iter));
    }
    for (link, counters) in network.links.iter().zip(&account.links) {
        let entry = match link.from {
            Source::Entry(entry) => entry,
            // Behind a node frames of several ports meet: the first one stands for them.
            Source::Node(_) => 0,
        };
        let on_the_way = |&(cause, _): &(Cause, _)| !matches!(cause, Cause::Late | Cause::TxFull);
        if let Some(port) = ports.get_mut(entry) {
            add(port, counters.drops.iter().filter(on_the_way));
        }
    }
    if let Some(first) = ports.first_mut().filter(|_| account.unrouted.packets > 0) {
        *first.drops.entry("route".to_owned()).or_default() += account.unrouted.packets;
    }
    ports
}

fn add(port: &mut PortReport, drops: impl Iterator<Item = (Cause, Tally)>) {
    for (cause, tally) in drops.filter(|(_, tally)| tally.packets > 0) {
        *port.drops.entry(cause.as_str().to_owned()).or_default() += tally.packets;
    }
}

/// `12.0s  netmap:a rx 1.20 Mpps tx 0.98 Mpps …  inside 240 lost 3  late p99 45 us`
fn line(meter: &mut Meter, state: &State, time: Duration) -> String {
    let mut text = format!("{:6.1}s", meter.elapsed().as_secs_f64());
    for interval in meter.intervals() {
        let (name, change) = (interval.name, interval.change);
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

pub(crate) fn summary(network: &NetworkSpec, meter: &Meter, state: &State) -> String {
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
