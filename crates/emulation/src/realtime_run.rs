//! Runs `slipring emulate` between ports, from the plan to the final report.

use std::time::Duration;

use slipring_cli::{Exit, Failure, Session, Signals};
use slipring_port::{Nanos, Port, now};

use crate::plan::{EmulationPlan, RealtimePlan};
use crate::realtime::RealtimeOptions;
use crate::realtime::figures::line;
use crate::run_services::RunServices;
use crate::store::storage_bytes;
use slipring_datapath::confine::Confinement;
use slipring_datapath::meter::PortMeter;
use slipring_datapath::workers::{Workers, WorkersEvent};
use slipring_datapath::{links, opening};

/// Runs a plan between ports, until a signal, the end of the run's duration or captures, or the
/// loss of a port.
///
/// # Errors
/// [`Failure`] if a port cannot be opened or is lost, or the network cannot be built.
pub(crate) fn run(
    plan: &EmulationPlan,
    how: &RealtimePlan,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    opening::require_cpus(&how.cpus)?;
    let signals = Signals::install()?;
    let reservation = RunServices::reserve(plan, session)?;
    links::wait_for_links(&how.ports, &how.opening.options, how.link_wait, &signals)?;
    let ports = open_ports(plan, how, session)?;
    let mut meter = PortMeter::new(&ports);
    session.reporter.start(Some(plan.seed), "monotonic", &meter.reports())?;
    let (emulation, services) =
        RunServices::start(ports, plan, &options(plan, how), reservation, session)?;
    let deadline = how.duration.map(|duration| now() + duration.as_nanos() as Nanos);
    let threads = emulation.tasks.len();
    let workers = Workers::start(emulation.tasks)?;
    for _ in 0..threads {
        if let Ok(placement) = emulation.placements.recv_timeout(Duration::from_secs(1)) {
            session.reporter.say(format_args!("# {placement}"))?;
        }
    }
    let watched = workers.watch_with_reload(&signals, how.period, deadline, |due| {
        if due == WorkersEvent::Reload {
            return services.reload(plan, session);
        }
        let state = services.channel.request_state();
        let time = meter.begin_interval();
        let text = line(&mut meter, &state, time);
        let sample = services.sample(&meter, &state);
        if due == WorkersEvent::Interim {
            session.reporter.interim(&sample, text)
        } else {
            session.reporter.interval(&sample, text)
        }
    });
    let ended = workers.finish();
    services.report(&meter, session)?;
    services.close(session)?;
    watched?;
    ended?;
    Ok(Exit::Done)
}

/// Opens the ports, inserts the router in route mode, drops the privileges that the run does not
/// need, and prints a warning for each of the [`receive_only_ports`].
fn open_ports(
    plan: &EmulationPlan,
    how: &RealtimePlan,
    session: &mut Session<'_>,
) -> Result<Vec<Port>, Failure> {
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
    Ok(ports)
}

/// Returns the names of the ports that cannot send, for example captures that are opened for
/// reading, if another port can receive. Frames from the other port may have to leave through a
/// port that cannot send.
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
