//! `slipring gen`: sends and receives packets, and says exactly what became of them. pkt-gen's
//! flags and words under pkt-gen's name.
//!
//! ```text
//!   tx    source -> schedule -> tx ring -> port            send.rs
//!   rx    port -> rx ring -> tracker, histogram            receive.rs
//!   ping  both, pong turns frames round                    ping.rs
//!         threads -> progress, ears -> board -> reports    board.rs
//! ```
//!
//! Not for connections: there is no TCP here that listens.

mod board;
mod carrier;
mod classic;
mod dump;
mod flags;
mod function;
mod ping;
mod plan;
mod progress;
mod receive;
mod report;
mod schedule;
mod send;
mod setup;
mod source;

use clap::ArgMatches;
use slipring_cli::report::PortReport;
use slipring_cli::{
    Classic, Diagnostic, Exit, Failure, Format, Job, Session, Signals, Verb, codes,
};
use slipring_port::{PortInfo, now};

use board::{Board, Figures};
use plan::Plan;
use report::Spread;
use slipring_program::confine::Confinement;
use slipring_program::meter::Meter;
use slipring_program::opening;
use slipring_program::publish;
use slipring_program::workers::Workers;

/// The command.
pub(crate) const VERB: Verb =
    Verb { name: "gen", classic: &[CLASSIC], command: flags::command, plan };

/// pkt-gen: 255 for usage, 1 for what fails later.
const CLASSIC: Classic = Classic {
    name: "pkt-gen",
    status: |exit| match exit {
        Exit::Done => 0,
        Exit::Usage => 255,
        Exit::Expectation | Exit::Machine | Exit::PeerLost => 1,
    },
};

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let plan = Plan::of(matches)?;
    Ok(Box::new(move |session| plan.run(session)))
}

impl Plan {
    fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let signals = Signals::install()?;
        let mut teller = Teller::new(&self, session);
        teller.warn()?;
        let frames = setup::load(&self.frames)?;
        let names: Vec<_> =
            [Some(&self.port), self.sink.as_ref()].into_iter().flatten().cloned().collect();
        opening::wait_for_links(&names, self.link_wait, &signals)?;
        if self.function.sends() {
            carrier::wait(&self.port, self.link_wait, &signals, teller.session.reporter)?;
        }
        let direction = if self.sink.is_some() {
            slipring_port::Interest::BOTH
        } else {
            self.function.direction()
        };
        let ports = self.opening.clone().towards(direction).open(&names, teller.session)?;
        Confinement::around(&ports).begin(teller.session)?;
        let streams = u32::from(self.stream)..u32::from(self.stream) + u32::from(self.threads);
        let meter = Meter::new(&ports);
        let _publishing = publish::start(meter.clone(), None, teller.session)?;
        let _metrics = publish::serve_metrics(&meter, teller.session)?;
        let board = Board::new(meter, self.function, streams, self.framing);
        let mut board = board.behind(self.header());
        let heads: Vec<_> =
            ports.iter().map(|port| (port.info.clone(), port.queues.len())).collect();
        let tasks = setup::tasks(&self, ports, frames, &mut board)?;
        teller.start(&board, &heads)?;
        let deadline = self.duration.map(|duration| now() + duration.as_nanos() as u64);
        let workers = Workers::start(tasks)?;
        let watched = workers
            .watch(&signals, self.period, deadline, |interim| teller.interval(&mut board, interim));
        let ended = workers.finish();
        teller.end(&board)?;
        watched?;
        ended?;
        self.judge(&board)
    }

    /// Holds what was reached against what was expected.
    fn judge(&self, board: &Board) -> Result<Exit, Failure> {
        let unmet = self.expectations.unmet(&board.total(true).outcome());
        if unmet.is_empty() {
            return Ok(Exit::Done);
        }
        let error = Diagnostic::new(codes::SR0404, "the run missed what was expected of it");
        let causes: Vec<_> = unmet.iter().map(ToString::to_string).collect();
        Err(error.with_cause(causes.join("; ")).into())
    }
}

/// Reports, in our words or in pkt-gen's.
struct Teller<'r, 's, 'p> {
    plan: &'r Plan,
    session: &'s mut Session<'p>,
    spread: Option<Spread>,
}

impl<'r, 's, 'p> Teller<'r, 's, 'p> {
    fn new(plan: &'r Plan, session: &'s mut Session<'p>) -> Self {
        let spread = plan.style.statistics.then(Spread::default);
        Self { plan, session, spread }
    }

    /// Whether to speak as pkt-gen does; JSON is the same under every name.
    fn is_classic(&self) -> bool {
        self.session.classic.is_some() && self.session.reporter.format() == Format::Text
    }

    fn warn(&mut self) -> Result<(), Failure> {
        self.plan.warnings.iter().try_for_each(|warning| self.session.reporter.warn(warning))
    }

    fn start(&mut self, board: &Board, ports: &[(PortInfo, usize)]) -> Result<(), Failure> {
        if !self.is_classic() {
            return self.session.reporter.start(Some(self.plan.seed), "monotonic", &board.ports());
        }
        for (info, _) in ports {
            let text = format!("interface is {info}");
            self.session.reporter.say(classic::said("main", line!(), &text))?;
        }
        let cpus = self.plan.pinning.map_or(1, |pinning| pinning.count as usize);
        let (info, queues) = &ports[0];
        let head = classic::head(self.plan.function, &info.name, *queues, self.plan.threads, cpus);
        self.session.reporter.say(head)?;
        self.session.reporter.say(classic::said("main", line!(), "Ready..."))
    }

    fn interval(&mut self, board: &mut Board, interim: bool) -> Result<(), Failure> {
        let (function, style) = (self.plan.function, self.plan.style);
        let figures = board.interval();
        if self.is_classic() {
            return self.session.reporter.say(classic::line(&figures, style, self.spread.as_mut()));
        }
        let spread =
            self.spread.as_mut().map_or(String::new(), |spread| spread.text(figures.pps(), style));
        let line = report::line(board, &figures, function, style, &spread);
        let sample = report::sample(board, &figures, function, false);
        let reporter = &mut self.session.reporter;
        if interim { reporter.interim(&sample, line) } else { reporter.interval(&sample, line) }
    }

    fn end(&mut self, board: &Board) -> Result<(), Failure> {
        let (function, style) = (self.plan.function, self.plan.style);
        let figures = board.total(true);
        let sample = report::sample(board, &figures, function, true);
        let text = if self.is_classic() {
            self.confess(&figures, &sample.ports)?;
            classic::result(&figures, function, style)
        } else {
            report::summary(&figures, function, style, &sample.ports)
        };
        self.session.reporter.end(&sample, text)
    }

    /// Says what pkt-gen never did, beside its words: what was lost, and how late frames were.
    fn confess(&mut self, figures: &Figures, ports: &[PortReport]) -> Result<(), Failure> {
        let heard = figures.heard.as_ref().map(|heard| report::hearing(figures, heard));
        let text = heard.unwrap_or_default() + &report::drops(ports);
        let mut lines = text.lines().filter(|line| !line.is_empty());
        lines.try_for_each(|line| self.session.reporter.say(classic::said("main", line!(), line)))
    }
}
