//! `slipring replay`: sends a capture with its own timing, and reports the accuracy of the timing.
//! Under nmreplay's name, it takes nmreplay's flags.
//!
//! ```text
//!   capture -> pace (when each frame is due) -> network (effects of the link) -> port
//! ```
//!
//! The schedule is known ahead of time. So the link engine decides on each frame some milliseconds
//! ahead, and the sending loop only has to send on time. With `--virtual`, the frames go to a
//! capture instead of a port, with the times at which they were due: this shows the timing without
//! a port or a privilege.
//!
//! Not for: generating frames (`slipring gen`) or waiting for answers.

mod flags;
mod pace;
mod player;
mod port;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;
use slipring_abi::name::{PortName, PortNameKind};
use slipring_cli::codes::{SR0003, SR0006, SR0202};
use slipring_cli::report::ReportSample;
use slipring_cli::units::TimeSpan;
use slipring_cli::{ClassicName, Diagnostic, Exit, Failure, Job, Session, Signals, Verb};

use pace::{PacingMode, ReplayPacer};
use slipring_datapath::confine::Confinement;
use slipring_datapath::files::{RunFile, is_stdout};
use slipring_datapath::opening::{PortOpening, PortRole};
use slipring_emulation::{
    BurstLimit, CaptureDirection, CaptureInput, CapturePair, CapturePairs, EmulationPlan,
    EmulationReport, RunClock, VirtualResult, VirtualRun, duration, ports, refuse_ports_flags,
    refuse_ports_outputs, refuse_second_direction,
};

/// The entry of `slipring replay` in the table of commands.
pub(crate) const VERB: Verb =
    Verb { name: "replay", classic: &[CLASSIC], command: flags::command, plan, no_metrics: None };

/// nmreplay exits with 1 for any failure.
const CLASSIC: ClassicName =
    ClassicName { name: "nmreplay", status: |exit| u8::from(exit != Exit::Done) };

/// The parsed command line.
struct ReplayPlan {
    file: String,
    target: ReplayTarget,
    /// Time from the start after which the replay ends; `None` means that only the end of the
    /// capture ends it.
    duration: Option<Duration>,
    /// How often the capture is sent; `None` if the user gave no number.
    loops: Option<u64>,
    pacing: PacingMode,
    /// The emulated link; the frames pass it in its first direction.
    links: EmulationPlan,
}

/// Where the frames go.
enum ReplayTarget {
    /// The frames are written to a capture file, in virtual time.
    Capture(String),
    /// The frames are sent to a port, in real time.
    Port(Box<ReplayPort>),
}

struct ReplayPort {
    name: PortName,
    opening: PortOpening,
    link_wait: Duration,
    /// How long to wait for the link of a card with a native driver; `None` if the user has not
    /// said.
    card_link_wait: Option<Duration>,
    /// The CPU to which the sending thread is bound; `None` if it is not bound.
    cpu: Option<u32>,
    /// Maximum frames and bytes between two tx syncs.
    burst: BurstLimit,
    period: Option<Duration>,
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let replay = ReplayPlan::of(matches)?;
    Ok(Box::new(move |session| replay.run(session)))
}

impl ReplayPlan {
    fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        refuse_second_direction(matches)?;
        let file = matches.get_one::<String>("file").ok_or_else(|| {
            let error = Diagnostic::new(SR0006, "no capture is named");
            error.with_help("name it: slipring replay -f trace.pcap -i netmap:eth0")
        })?;
        let target = target(matches, file)?;
        // With either kind of output, the emulated link runs on the capture's clock.
        let output = match &target {
            ReplayTarget::Capture(path) => {
                refuse_ports_flags(matches)?;
                PathBuf::from(path)
            }
            ReplayTarget::Port(port) if port.name.kind == PortNameKind::Pcap => {
                PathBuf::from(&port.name.name)
            }
            ReplayTarget::Port(_) => PathBuf::new(),
        };
        let pairs = vec![CapturePair { input: PathBuf::from(file), output }];
        let duration = duration(matches);
        let captures = CapturePairs { pairs, duration };
        let links = EmulationPlan::with_clock(matches, |_| Ok(RunClock::Virtual(captures)))?;
        match target {
            ReplayTarget::Port(_) => refuse_late_drop(&links)?,
            ReplayTarget::Capture(_) => refuse_ports_outputs(&links.outputs)?,
        }
        Ok(Self {
            file: file.clone(),
            target,
            duration,
            loops: matches.get_one("loops").copied(),
            pacing: PacingMode::of(matches)?,
            links,
        })
    }

    fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        if let Some(exit) = self.links.preface(session)? {
            return Ok(exit);
        }
        let passes = self.passes(session)?;
        self.pacing.refuse_unused_pass_gap(passes)?;
        let signals = Signals::install()?;
        match &self.target {
            ReplayTarget::Capture(path) => self.to_capture(path, passes, session, &signals),
            ReplayTarget::Port(port) => port::play(&self, port, passes, session, &signals),
        }
    }

    /// Returns how often the capture is sent; `None` means without end, as in nmreplay.
    fn passes(&self, session: &mut Session<'_>) -> Result<Option<u64>, Failure> {
        match (self.loops, session.classic) {
            (Some(0), _)
                if self.duration.is_none() && matches!(self.target, ReplayTarget::Capture(_)) =>
            {
                let error = Diagnostic::new(SR0003, "a capture that never ends cannot be written");
                Err(error.with_help("give a number of loops, or an end: --loops 3, -t 10s").into())
            }
            (Some(0), _) => Ok(None),
            (Some(loops), _) => Ok(Some(loops)),
            (None, Some("nmreplay")) if matches!(self.target, ReplayTarget::Port(_)) => {
                session.reporter.say("the capture is sent again and again; once: --loops 1")?;
                Ok(None)
            }
            (None, _) => Ok(Some(1)),
        }
    }

    /// Returns the capture with its own times, and the pacing of its frames.
    fn source(
        &self,
        passes: Option<u64>,
        signals: &Signals,
    ) -> Result<(CaptureInput, ReplayPacer), Failure> {
        let input = CaptureInput::open(&self.file, passes, signals.stop_flag())?;
        Ok((input, ReplayPacer::new(&self.pacing)))
    }

    fn to_capture(
        &self,
        output: &str,
        passes: Option<u64>,
        session: &mut Session<'_>,
        signals: &Signals,
    ) -> Result<Exit, Failure> {
        Confinement::drop_all().opening_files().begin(session)?;
        let (input, mut pace) = self.source(passes, signals)?;
        let retime = Some(Box::new(move |chunk: &mut _| pace.retime(chunk)) as _);
        let changes = self.links.schedule.iter();
        let changes = changes.map(|change| Ok((change.at_ns, change.config.network()?)));
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let links = VirtualRun {
            network: &self.links.network,
            changes: changes.collect::<Result<_, Failure>>()?,
            seed: self.links.seed,
            duration_ns: self.duration.map(|duration| duration.as_nanos() as u64),
            directions: vec![CaptureDirection { input, retime, output: output.to_owned() }],
            log: self.links.outputs.log.as_ref().map(text),
            mahimahi: self.links.outputs.mahimahi.as_ref().map(text),
            command: std::env::args().collect::<Vec<_>>().join(" "),
        };
        let log = self.links.outputs.log.as_deref();
        let quiet = is_stdout(Path::new(output)) || log.is_some_and(is_stdout);
        if !quiet {
            let none = Default::default();
            let ports = ports(&self.links.network, &none);
            session.reporter.start(Some(self.links.seed), "virtual", &ports)?;
        }
        let done = links.run(|| signals.stopping())?;
        self.refuse_empty(done.account.received().packets, signals)?;
        self.report(&done, quiet, session)
    }

    /// Reports the result: on stdout or, if stdout is the capture or the log (`quiet`), on stderr.
    fn report(
        &self,
        done: &VirtualResult,
        quiet: bool,
        session: &mut Session<'_>,
    ) -> Result<Exit, Failure> {
        let network = &done.network;
        let (links, unrouted) = (&done.account.links, done.account.unrouted);
        let report = EmulationReport::of(network, links, &done.measured, unrouted)
            .changed(self.links.changes(done.elapsed_ns));
        let sample = ReportSample {
            elapsed: Duration::from_nanos(done.elapsed_ns),
            ports: ports(network, &done.account),
            in_flight: done.account.in_flight().packets,
            copies: done.account.copies().packets,
            extra: report.document().unordered(done.account.unordered()),
        };
        let mut text = report.summary() + &done.remarks();
        if self.links.stats {
            text += &format!("\n{}", report.openmetrics());
        }
        match quiet {
            true => session.reporter.say(text)?,
            false => session.reporter.end(&sample, text)?,
        }
        Ok(Exit::Done)
    }

    /// Returns an error if there were no frames to send.
    fn refuse_empty(&self, frames: u64, signals: &Signals) -> Result<(), Failure> {
        // It is no error if the user ended the run before the first frame arrived through a pipe.
        if frames > 0 || signals.stopping() {
            return Ok(());
        }
        let error = Diagnostic::new(SR0202, format!("`{}` holds no frame to send", self.file));
        Err(error
            .with_help(format!("see what is in it: slipring trace -i pcap:{}", self.file))
            .into())
    }
}

/// Returns an error if the settings drop late frames: a replay sends the whole capture, even late.
fn refuse_late_drop(links: &EmulationPlan) -> Result<(), Failure> {
    if links.outputs.late_drop_ns.is_none() {
        return Ok(());
    }
    let error = Diagnostic::new(SR0003, "--late-drop does not go together with a port here");
    let error = error.with_cause("a frame that is late is sent all the same, and counted");
    Err(error.with_help("leave it out: the report says how late frames were").into())
}

fn target(matches: &ArgMatches, file: &str) -> Result<ReplayTarget, Failure> {
    let port = matches.get_one::<PortName>("interface");
    let span = |id: &str| matches.get_one::<TimeSpan>(id).map(|span| span.duration());
    match (matches.get_one::<String>("virtual"), port) {
        (Some(path), _) => Ok(ReplayTarget::Capture(path.clone())),
        (None, Some(name)) => Ok(ReplayTarget::Port(Box::new(ReplayPort {
            name: name.clone(),
            opening: PortOpening::of(matches)
                .with_roles([(name, PortRole::Sink)], vec![RunFile::read(Path::new(file))])?,
            link_wait: span("wait").unwrap_or_default(),
            card_link_wait: span("wait"),
            cpu: matches.get_one("cpu").copied(),
            burst: matches.get_one("burst").copied().unwrap_or_default(),
            period: span("period").filter(|period| !period.is_zero()),
        }))),
        (None, None) => {
            let error = Diagnostic::new(SR0006, "neither a port nor a capture to send to is named");
            let help = "name one: -i netmap:eth0, or --virtual out.pcap";
            Err(error.with_help(help).into())
        }
    }
}
