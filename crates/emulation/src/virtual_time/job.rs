//! Runs `slipring emulate --virtual`, from the plan to the final report.

use std::path::Path;
use std::time::Duration;

use slipring_cli::report::{PortReport, PortTraffic, ReportSample};
use slipring_cli::units::human;
use slipring_cli::{Exit, Failure, Session, Signals};
use slipring_datapath::confine::Confinement;
use slipring_link::{LinkDrops, LinkSource, NetworkSpec, PacketCounts};

use super::{CaptureDirection, CaptureInput, VirtualResult, VirtualRun};
use crate::account::EmulationAccount;
use crate::plan::{CapturePair, CapturePairs, EmulationPlan};
use crate::report::EmulationReport;
use slipring_datapath::files::is_stdout;

/// Runs a plan in virtual time, on the clock of its captures.
///
/// # Errors
/// As [`VirtualRun::run`].
pub(crate) fn run(
    plan: &EmulationPlan,
    captures: &CapturePairs,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let signals = Signals::install()?;
    Confinement::drop_all().opening_files().begin(session)?;
    let links = prepare(plan, captures, &signals)?;
    let mut files = captures.pairs.iter().map(|pair| &pair.output).chain(&plan.outputs.log);
    let to_stdout = files.any(|path| is_stdout(path));
    if !to_stdout {
        let ports = ports(&plan.network, &EmulationAccount::default());
        session.reporter.start(Some(plan.seed), "virtual", &ports)?;
    }
    let done = links.run(|| signals.stopping())?;
    let network = &done.network;
    let report =
        EmulationReport::of(network, &done.account.links, &done.measured, done.account.unrouted)
            .changed(plan.changes(done.elapsed_ns));
    let mut text = text(&report, &done);
    if plan.stats {
        text += &format!("\n{}", report.openmetrics());
    }
    if to_stdout {
        // A capture or the log is written to standard output, so the report must not go there.
        session.reporter.say(text)?;
    } else {
        let sample = ReportSample {
            elapsed: Duration::from_nanos(done.elapsed_ns),
            ports: ports(&plan.network, &done.account),
            in_flight: done.account.in_flight().packets,
            copies: done.account.copies().packets,
            extra: report.document().unordered(done.account.unordered()),
        };
        session.reporter.end(&sample, text)?;
    }
    Ok(Exit::Done)
}

fn prepare<'p>(
    plan: &'p EmulationPlan,
    captures: &CapturePairs,
    signals: &Signals,
) -> Result<VirtualRun<'p>, Failure> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let direction = |pair: &CapturePair| {
        let input = CaptureInput::open(&text(&pair.input), Some(1), signals.stop_flag())?;
        Ok(CaptureDirection { input, retime: None, output: text(&pair.output) })
    };
    let changes = plan.schedule.iter().map(|change| Ok((change.at_ns, change.config.network()?)));
    Ok(VirtualRun {
        network: &plan.network,
        changes: changes.collect::<Result<_, Failure>>()?,
        seed: plan.seed,
        duration_ns: captures.duration.map(|duration| duration.as_nanos() as u64),
        directions: captures.pairs.iter().map(direction).collect::<Result<_, Failure>>()?,
        log: plan.outputs.log.as_deref().map(text),
        mahimahi: plan.outputs.mahimahi.as_deref().map(text),
        command: std::env::args().collect::<Vec<_>>().join(" "),
    })
}

fn text(report: &EmulationReport<'_>, done: &VirtualResult) -> String {
    let elapsed = human::span(Duration::from_nanos(done.elapsed_ns));
    let remarks = done.remarks();
    format!("{}\n{elapsed} of virtual time{remarks}", report.summary())
}

/// Returns a report with frame counts for each port; an entry and an exit of the network with the
/// same name are one port.
pub fn ports(network: &NetworkSpec, account: &EmulationAccount) -> Vec<PortReport> {
    let mut names = network.entries.clone();
    names.extend(network.exits.iter().filter(|name| !network.entries.contains(name)).cloned());
    let report = |name: String| {
        let entry = network.entries.iter().position(|entry| *entry == name);
        let exit = network.exits.iter().position(|exit| *exit == name);
        let received = entry.and_then(|entry| account.entries.get(entry));
        let sent = exit.and_then(|exit| account.exits.get(exit));
        let mut report = PortReport {
            name,
            kind: "pcap".to_owned(),
            mode: "virtual".to_owned(),
            rx: received.map_or(PortTraffic::default(), |entry| traffic(entry.received)),
            tx: sent.map_or(PortTraffic::default(), |exit| traffic(exit.sent)),
            ..PortReport::default()
        };
        received.into_iter().for_each(|entry| add(&mut report, &entry.refused));
        for (link, counters) in network.links.iter().zip(&account.links) {
            if entry.is_some() && entry == Some(beginning(network, link.from)) {
                add(&mut report, &counters.drops);
            }
        }
        report
    };
    let mut ports: Vec<_> = names.into_iter().map(report).collect();
    if let Some(first) = ports.first_mut().filter(|_| account.unrouted.packets > 0) {
        *first.drops.entry("route".to_owned()).or_default() += account.unrouted.packets;
    }
    ports
}

/// Returns the entry at which a link begins. If it begins at a node, the entry of its frames is not
/// known; then this is the first entry, or `usize::MAX` if the network has none.
fn beginning(network: &NetworkSpec, from: LinkSource) -> usize {
    match from {
        LinkSource::Entry(entry) => entry,
        LinkSource::Node(_) if network.entries.is_empty() => usize::MAX,
        LinkSource::Node(_) => 0,
    }
}

fn traffic(tally: PacketCounts) -> PortTraffic {
    PortTraffic { packets: tally.packets, bytes: tally.bytes }
}

fn add(report: &mut PortReport, drops: &LinkDrops) {
    for (cause, tally) in drops.iter().filter(|(_, tally)| tally.packets > 0) {
        *report.drops.entry(cause.as_str().to_owned()).or_default() += tally.packets;
    }
}
