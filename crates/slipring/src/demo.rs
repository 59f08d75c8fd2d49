//! `slipring demo`: two networks, an emulated link between them, and real traffic of real programs.
//!
//! ```text
//!   namespace "left"            the program's own             namespace "right"
//!   10.77.0.1  eth0 ===veth=== left -[xdp]-link-[xdp]- right ===veth=== eth0  10.77.0.2
//!   10.77.0.1  left -------------[tap]-link-[tap]------------- right  10.77.0.2   (no root)
//! ```
//! Nothing has a name that outlives the program: namespaces are held by descriptors, links vanish
//! with their namespaces, programs that it starts are killed by the kernel when it ends.

mod own;
mod program;
mod site;
mod story;
mod witness;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use serde::Serialize;
use slipring_cli::codes::SR0403;
use slipring_cli::report::Sample;
use slipring_cli::units::Span;
use slipring_cli::{Diagnostic, Exit, Failure, Format, Job, Session, Signals, Verb, flags};
use slipring_link::{DelayModel, DelaySpec, Framing, LinkSpec, NetworkSpec, QueueSpec, RateSpec};
use slipring_port::RunError;

use site::{Kind, Site};
use slipring_emulation::{self as emulation, Board, Document, Manner, State};
use slipring_program::meter::Meter;
use slipring_program::workers::{Stop, Task, Workers};
use witness::Findings;

pub(crate) const VERB: Verb = Verb { name: "demo", classic: &[], command, plan };

/// How often figures are shown.
const PERIOD: Duration = Duration::from_secs(1);
/// The link, each way: its rate on the wire, its delay, and the bytes that may wait for it, which
/// is what one TCP needs to fill it.
const RATE_BPS: u64 = 10_000_000;
const DELAY_NS: u64 = 20_000_000;
const QUEUE_BYTES: u64 = 64_000;
/// The same in every run.
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
        .value_parser(|text: &str| Span::parse(text, Duration::from_secs(1)))
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
    let duration = matches.get_one::<Span>("duration").map_or(PERIOD, |span| span.duration());
    let kind = match matches.get_one::<String>("ports").map(String::as_str) {
        Some("xdp") => Some(Kind::Xdp),
        Some("packet") => Some(Kind::Packet),
        Some("tap") => Some(Kind::Tap),
        _ => None,
    };
    Ok(Box::new(move |session| run(kind, duration, session)))
}

fn run(
    wanted: Option<Kind>,
    duration: Duration,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    // Before anything else: a process with threads cannot change its user namespace.
    let ground = site::become_private()?;
    let signals = Signals::install()?;
    let (site, ports) = Site::build(ground, wanted)?;
    tell(session, story::opening(&site))?;
    let (links, meter) = (links(), Meter::new(&ports));
    session.reporter.start(Some(SEED), "monotonic", &meter.reports())?;
    let manner = Manner { seed: SEED, ..Manner::default() };
    let emulation = emulation::prepare(ports, &links, &manner, ())?;
    let board = emulation.board;
    let mut demo = Demo { links, board, meter, findings: Findings::default(), duration };
    let emulator = Workers::start(emulation.tasks)?;
    let shown = demo.show(&site, &signals, session);
    let ended = emulator.finish();
    let state = demo.board.last();
    let sample = demo.sample(&state);
    let measured = emulation::report(&demo.links, &state).summary();
    session.reporter.end(&sample, story::closing(&site, &sample, &measured))?;
    shown?;
    ended?;
    demo.verdict(&signals)
}

/// The same link both ways.
fn links() -> NetworkSpec {
    let link = |name: &str| LinkSpec {
        rate: RateSpec::Constant { bps: RATE_BPS },
        framing: Framing::ETHER,
        queue: QueueSpec { bytes: Some(QUEUE_BYTES), ..QueueSpec::default() },
        delay: DelaySpec { model: DelayModel::Constant(DELAY_NS), ..DelaySpec::default() },
        ..LinkSpec::wire(name)
    };
    NetworkSpec::between("left", "right", link("there"), link("back"))
}

/// The demo's own keys in reports.
#[derive(Serialize)]
struct Seen {
    #[serde(flatten)]
    findings: Findings,
    #[serde(flatten)]
    links: Document,
}

struct Demo {
    links: NetworkSpec,
    board: Arc<Board>,
    meter: Meter,
    findings: Findings,
    duration: Duration,
}

impl Demo {
    /// Sends traffic through, one witness after the other.
    fn show(
        &mut self,
        site: &Site,
        signals: &Signals,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        tell(session, story::PING)?;
        let net = site.net.clone();
        self.findings.ping = self.step(signals, session, move |stop| witness::ping(&net, stop))?;
        tell(session, story::ping(self.findings.ping.as_ref()))?;
        if signals.stopping() {
            return Ok(());
        }
        tell(session, story::transfer(self.duration))?;
        let (net, duration) = (site.net.clone(), self.duration);
        let transfer = move |stop: &Stop| witness::transfer(&net, duration, stop);
        self.findings.tcp = self.step(signals, session, transfer)?;
        tell(session, story::tcp(self.findings.tcp.as_ref()))
    }

    /// Runs one witness in a thread of its own and shows figures meanwhile.
    fn step<T: Send + 'static>(
        &mut self,
        signals: &Signals,
        session: &mut Session<'_>,
        work: impl FnOnce(&Stop) -> std::io::Result<Option<T>> + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        let (result, found) = mpsc::channel();
        let task: Task = Box::new(move |stop| {
            let seen = work(stop);
            let seen =
                seen.map_err(|error| RunError::system("demo", "watch the traffic", error))?;
            // The receiver waits below.
            let _ = result.send(seen);
            Ok(())
        });
        let worker = Workers::start(vec![task])?;
        self.meter.intervals();
        let watched = worker.watch(signals, Some(PERIOD), None, |_| {
            let line = story::interval(&self.meter.intervals(), PERIOD);
            session.reporter.interval(&self.sample(&self.board.ask()), line)
        });
        worker.finish()?;
        watched?;
        Ok(found.recv().ok().flatten())
    }

    fn sample(&self, state: &State) -> Sample<Seen> {
        let Sample { elapsed, ports, in_flight, copies, extra } =
            emulation::sample(&self.links, &self.meter, state);
        let extra = Seen { findings: self.findings.clone(), links: extra };
        Sample { elapsed, ports, in_flight, copies, extra }
    }

    /// Whether all that was to be seen was seen, unless the user ended it early.
    fn verdict(&self, signals: &Signals) -> Result<Exit, Failure> {
        let silent = match &self.findings {
            _ if signals.stopping() => return Ok(Exit::Done),
            Findings { ping: Some(ping), .. } if ping.received == 0 => "ping got no answer",
            Findings { tcp: Some(tcp), .. } if tcp.bits_per_sec == 0 => "no TCP data arrived",
            Findings { ping: Some(_), tcp: Some(_) } => return Ok(Exit::Done),
            _ => "a witness ended without a result",
        };
        Err(Diagnostic::new(SR0403, "the demo's traffic did not pass")
            .with_cause(silent)
            .with_help("see what this machine lacks: slipring doctor")
            .into())
    }
}

/// Tells the story, which is for people only.
fn tell(session: &mut Session<'_>, text: impl Into<String>) -> Result<(), Failure> {
    match session.reporter.format() {
        Format::Text => session.reporter.raw(format!("{}\n", text.into()).as_bytes()),
        _ => Ok(()),
    }
}
