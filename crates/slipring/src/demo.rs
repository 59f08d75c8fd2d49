//! `slipring demo`: two networks, joined by this program, with real traffic of real programs.
//!
//! ```text
//!   namespace "left"          the program's own           namespace "right"
//!   10.77.0.1  eth0 ===veth=== left -[xdp]-[xdp]- right ===veth=== eth0  10.77.0.2
//!   10.77.0.1  left -------------[tap]-[tap]------------- right  10.77.0.2   (no root)
//! ```
//! Nothing has a name that outlives the program: namespaces are held by descriptors, links vanish
//! with their namespaces, programs that it starts are killed by the kernel when it ends.

mod own;
mod program;
mod site;
mod story;
mod witness;

use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use slipring_cli::codes::SR0403;
use slipring_cli::report::Sample;
use slipring_cli::units::Span;
use slipring_cli::{Diagnostic, Exit, Failure, Format, Job, Session, Signals, Verb, flags};
use slipring_port::{Patience, Port, RunError};

use crate::bridge::engine::Lane;
use crate::meter::Meter;
use crate::workers::{Stop, Task, Workers};
use site::{Kind, Site};
use witness::Findings;

pub(crate) const VERB: Verb = Verb { name: "demo", classic: &[], command, plan };

/// How often figures are shown.
const PERIOD: Duration = Duration::from_secs(1);
/// Slots forwarded at most at a time.
const BURST: u32 = 256;

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
        .help("Kind of ports to join; best is xdp for root, tap for others");
    let command = Command::new("demo")
        .about("Join two network namespaces and send ping and TCP through; needs no NIC")
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
    let mut demo = Demo { meter: Meter::new(&ports), findings: Findings::default(), duration };
    session.reporter.start(None, "monotonic", &demo.meter.reports())?;
    let bridge = Workers::start(vec![forward(ports)])?;
    let shown = demo.show(&site, &signals, session);
    let ended = bridge.finish();
    let sample = demo.sample();
    session.reporter.end(&sample, story::closing(&site, &sample))?;
    shown?;
    ended?;
    demo.verdict(&signals)
}

/// The loop of `slipring bridge`.
fn forward(ports: Vec<Port>) -> Task {
    let mut queues = ports.into_iter().map(|port| port.queues);
    let (left, right) = (queues.next().unwrap_or_default(), queues.next().unwrap_or_default());
    let mut lane = Lane::new(left, right, BURST, slipring_ring::forward);
    Box::new(move |stop| lane.run(Patience::default(), stop.flag(), stop.bell.as_fd()))
}

struct Demo {
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
            session.reporter.interval(&self.sample(), line)
        });
        worker.finish()?;
        watched?;
        Ok(found.recv().ok().flatten())
    }

    fn sample(&self) -> Sample<Findings> {
        Sample {
            elapsed: self.meter.elapsed(),
            ports: self.meter.reports(),
            in_flight: self.meter.in_flight(),
            copies: 0,
            extra: self.findings.clone(),
        }
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
        Err(Diagnostic::new(SR0403, "the demo's traffic did not pass").with_cause(silent).into())
    }
}

/// Tells the story, which is for people only.
fn tell(session: &mut Session<'_>, text: impl Into<String>) -> Result<(), Failure> {
    match session.reporter.format() {
        Format::Text => session.reporter.raw(format!("{}\n", text.into()).as_bytes()),
        _ => Ok(()),
    }
}
