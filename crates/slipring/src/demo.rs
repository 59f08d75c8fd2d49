//! `slipring demo`: two networks, an emulated link between them, and traffic from real programs.
//!
//! ```text
//!   namespace "left"            the program's own             namespace "right"
//!   10.77.0.1  eth0 ===veth=== left -[xdp]-link-[xdp]- right ===veth=== eth0  10.77.0.2
//!   10.77.0.1  left -------------[tap]-link-[tap]------------- right  10.77.0.2   (no root)
//! ```
//! Nothing outlives the process: its descriptors keep the namespaces alive, links vanish with their
//! namespaces, and the kernel kills the child programs when the process ends.

mod builtin_probes;
mod probes;
mod program;
mod sandbox;
mod script;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use serde::Serialize;
use slipring_cli::codes::SR0403;
use slipring_cli::report::ReportSample;
use slipring_cli::units::TimeSpan;
use slipring_cli::{Diagnostic, Exit, Failure, Job, ReportFormat, Session, Signals, Verb, flags};
use slipring_link::{
    DelayModel, DelaySpec, Framing, LinkQueueSpec, LinkSpec, NetworkSpec, RateSpec,
};
use slipring_port::RunError;

use probes::ProbeFindings;
use sandbox::{DemoPortKind, DemoSandbox};
use slipring_datapath::meter::PortMeter;
use slipring_datapath::workers::{WorkerTask, Workers, WorkersStop};
use slipring_emulation::{
    self as emulation, EmulationDocument, EmulationState, EmulatorChannel, RealtimeOptions,
};

pub(crate) const VERB: Verb = Verb {
    name: "demo",
    classic: &[],
    command,
    plan,
    no_metrics: Some("ends after its transfers"),
};

/// Interval between reports.
const REPORT_PERIOD: Duration = Duration::from_secs(1);
/// Rate of the link in each direction, in bit/s on the wire. The next two constants are its delay
/// and the size of its queue, which is what one TCP connection needs to fill the link.
const RATE_BPS: u64 = 10_000_000;
const DELAY_NS: u64 = 20_000_000;
const QUEUE_BYTES: u64 = 64_000;
/// Seed of the link's random decisions, the same in every run.
const SEED: u64 = 1;

const EXAMPLES: &str = "\
Examples:
  slipring demo
  slipring demo -t 10s --ports tap";

fn command() -> Command {
    let duration = Arg::new("duration")
        .short('t')
        .long("duration")
        .value_name("TIME")
        .default_value("5")
        .value_parser(|text: &str| TimeSpan::parse(text, Duration::from_secs(1)))
        .help("Length of the TCP transfer [default unit: s]");
    let ports = Arg::new("ports")
        .long("ports")
        .value_name("KIND")
        .default_value("best")
        .value_parser(["best", "xdp", "packet", "tap"])
        .help("Kind of ports at the link's ends; best is xdp for root, tap for others");
    let command = Command::new("demo")
        .about("Send ping and TCP through an emulated link of 20 ms and 10 Mbit/s; needs no NIC")
        .after_help(EXAMPLES)
        .args([duration, ports]);
    flags::reporting(command)
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let duration =
        matches.get_one::<TimeSpan>("duration").map_or(REPORT_PERIOD, |span| span.duration());
    let kind = match matches.get_one::<String>("ports").map(String::as_str) {
        Some("xdp") => Some(DemoPortKind::Xdp),
        Some("packet") => Some(DemoPortKind::Packet),
        Some("tap") => Some(DemoPortKind::Tap),
        _ => None,
    };
    Ok(Box::new(move |session| run(kind, duration, session)))
}

fn run(
    wanted: Option<DemoPortKind>,
    duration: Duration,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    // This comes first, because a process with several threads cannot change its user namespace.
    let ground = sandbox::become_private()?;
    let signals = Signals::install()?;
    let (site, ports) = DemoSandbox::build(ground, wanted)?;
    narrate(session, script::opening_text(&site))?;
    let (links, meter) = (links(), PortMeter::new(&ports));
    session.reporter.start(Some(SEED), "monotonic", &meter.reports())?;
    let options = RealtimeOptions { seed: SEED, ..RealtimeOptions::default() };
    let emulation = emulation::prepare(ports, &links, &options, ())?;
    let channel = emulation.channel;
    let mut demo = DemoRun { links, channel, meter, findings: ProbeFindings::default(), duration };
    let emulator = Workers::start(emulation.tasks)?;
    let shown = demo.run_probes(&site, &signals, session);
    let ended = emulator.finish();
    let state = demo.channel.last_state();
    let sample = demo.sample(&state);
    let measured = emulation::report(&demo.links, &state).summary();
    session.reporter.end(&sample, script::closing_text(&site, &sample, &measured))?;
    shown?;
    ended?;
    demo.verdict(&signals)
}

/// Describes the link: the same in both directions.
fn links() -> NetworkSpec {
    let link = |name: &str| LinkSpec {
        rate: RateSpec::Constant { bps: RATE_BPS },
        framing: Framing::ETHER,
        queue: LinkQueueSpec { bytes: Some(QUEUE_BYTES), ..LinkQueueSpec::default() },
        delay: DelaySpec { model: DelayModel::Constant(DELAY_NS), ..DelaySpec::default() },
        ..LinkSpec::wire(name)
    };
    NetworkSpec::between("left", "right", link("there"), link("back"))
}

/// The demo's own keys in reports.
#[derive(Serialize)]
struct DemoReportExtra {
    #[serde(flatten)]
    findings: ProbeFindings,
    #[serde(flatten)]
    links: EmulationDocument,
}

struct DemoRun {
    links: NetworkSpec,
    channel: Arc<EmulatorChannel>,
    meter: PortMeter,
    findings: ProbeFindings,
    duration: Duration,
}

impl DemoRun {
    /// Sends traffic over the link, one probe after the other.
    fn run_probes(
        &mut self,
        site: &DemoSandbox,
        signals: &Signals,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        narrate(session, script::PING_HEADING)?;
        let net = site.namespaces.clone();
        self.findings.ping =
            self.run_probe(signals, session, move |stop| probes::ping(&net, stop))?;
        narrate(session, script::ping(self.findings.ping.as_ref()))?;
        if signals.stopping() {
            return Ok(());
        }
        narrate(session, script::transfer(self.duration))?;
        let (net, duration) = (site.namespaces.clone(), self.duration);
        let transfer = move |stop: &WorkersStop| probes::transfer(&net, duration, stop);
        self.findings.tcp = self.run_probe(signals, session, transfer)?;
        narrate(session, script::tcp(self.findings.tcp.as_ref()))
    }

    /// Runs one probe in a separate thread, and reports until it ends.
    fn run_probe<T: Send + 'static>(
        &mut self,
        signals: &Signals,
        session: &mut Session<'_>,
        work: impl FnOnce(&WorkersStop) -> std::io::Result<Option<T>> + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        let (result, found) = mpsc::channel();
        let task: WorkerTask = Box::new(move |stop| {
            let seen = work(stop);
            let seen =
                seen.map_err(|error| RunError::system("demo", "watch the traffic", error))?;
            // Sending cannot fail, because the receiver is not dropped before this task has ended.
            let _ = result.send(seen);
            Ok(())
        });
        let worker = Workers::start(vec![task])?;
        self.meter.intervals();
        let watched = worker.watch(signals, Some(REPORT_PERIOD), None, |_| {
            let line = script::interval(&self.meter.intervals(), REPORT_PERIOD);
            session.reporter.interval(&self.sample(&self.channel.request_state()), line)
        });
        worker.finish()?;
        watched?;
        Ok(found.recv().ok().flatten())
    }

    fn sample(&self, state: &EmulationState) -> ReportSample<DemoReportExtra> {
        let ReportSample { elapsed, ports, in_flight, copies, extra } =
            emulation::sample(&self.links, &self.meter, state);
        let extra = DemoReportExtra { findings: self.findings.clone(), links: extra };
        ReportSample { elapsed, ports, in_flight, copies, extra }
    }

    /// Returns an error if a probe failed or gave no result. A demo that the user ended early
    /// counts as done.
    fn verdict(&self, signals: &Signals) -> Result<Exit, Failure> {
        let silent = match &self.findings {
            _ if signals.stopping() => return Ok(Exit::Done),
            ProbeFindings { ping: Some(ping), .. } if ping.received == 0 => "ping got no answer",
            ProbeFindings { tcp: Some(tcp), .. } if tcp.bits_per_sec == 0 => "no TCP data arrived",
            ProbeFindings { ping: Some(_), tcp: Some(_) } => return Ok(Exit::Done),
            _ => "a witness ended without a result",
        };
        Err(Diagnostic::new(SR0403, "the demo's traffic did not pass")
            .with_cause(silent)
            .with_help("see what this machine lacks: slipring doctor")
            .into())
    }
}

/// Prints text between the reports, in text format only.
fn narrate(session: &mut Session<'_>, text: impl Into<String>) -> Result<(), Failure> {
    match session.reporter.format() {
        ReportFormat::Text => session.reporter.raw(format!("{}\n", text.into()).as_bytes()),
        _ => Ok(()),
    }
}
