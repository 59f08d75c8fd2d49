//! `slipring gen`: sends and receives packets, and reports how many were sent, received and lost.
//! Under pkt-gen's name, it takes pkt-gen's flags and prints pkt-gen's texts.
//!
//! ```text
//!   tx    source -> schedule -> tx ring -> port            send.rs
//!   rx    port -> rx ring -> tracker, histogram            receive.rs
//!   ping  both, pong sends frames back                     ping.rs
//!         threads -> progress, rx stats -> reports         shared_stats.rs
//! ```
//!
//! Not for connections: it has no TCP stack.

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
mod shared_stats;
mod source;

use clap::ArgMatches;
use slipring_cli::report::PortReport;
use slipring_cli::{
    ClassicName, Diagnostic, Exit, Failure, Job, ReportFormat, Session, Signals, Verb, codes,
};
use slipring_port::{PortInfo, now};

use crate::carrier;
use plan::GenPlan;
use report::RateDeviation;
use shared_stats::{GenFigures, SharedGenStats};
use slipring_datapath::confine::Confinement;
use slipring_datapath::meter::PortMeter;
use slipring_datapath::workers::Workers;
use slipring_datapath::{links, publish};

/// The entry of `slipring gen` in the table of commands.
pub(crate) const VERB: Verb =
    Verb { name: "gen", classic: &[CLASSIC], command: flags::command, plan, no_metrics: None };

/// pkt-gen exits with 255 after a usage error, and with 1 after any later failure.
const CLASSIC: ClassicName = ClassicName {
    name: "pkt-gen",
    status: |exit| match exit {
        Exit::Done => 0,
        Exit::Usage => 255,
        Exit::Expectation | Exit::Machine | Exit::PeerLost => 1,
    },
};

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let plan = GenPlan::of(matches)?;
    Ok(Box::new(move |session| plan.run(session)))
}

impl GenPlan {
    fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let signals = Signals::install()?;
        let mut teller = GenOutput::new(&self, session);
        teller.warn()?;
        let frames = setup::load(&self.frames)?;
        let names: Vec<_> =
            [Some(&self.port), self.sink.as_ref()].into_iter().flatten().cloned().collect();
        if self.function.sends() {
            let (options, reporter) = (&self.opening.options, &mut *teller.session.reporter);
            carrier::wait(&self.port, options, self.link_wait, &signals, reporter)?;
        }
        links::wait_for_links(&names, &self.opening.options, self.link_wait, &signals)?;
        let direction = if self.sink.is_some() {
            slipring_port::Interest::BOTH
        } else {
            self.function.direction()
        };
        let mut ports =
            self.opening.clone().one_direction(direction).open(&names, teller.session)?;
        Confinement::for_ports(&ports).begin(teller.session)?;
        if self.function.sends() {
            let (wait, reporter) = (self.card_link_wait, &mut *teller.session.reporter);
            carrier::wait_for_cards(&mut ports[..1], wait, &signals, reporter)?;
        }
        let streams = u32::from(self.stream)..u32::from(self.stream) + u32::from(self.threads);
        let meter = PortMeter::new(&ports);
        let _publishing = publish::start(meter.clone(), None, teller.session)?;
        let _metrics = publish::serve_metrics(&meter, teller.session)?;
        let stats = SharedGenStats::new(meter, self.function, streams, self.framing);
        let mut stats = stats.with_header(self.header());
        let heads: Vec<_> =
            ports.iter().map(|port| (port.info.clone(), port.queues.len())).collect();
        let tasks = setup::tasks(&self, ports, frames, &mut stats)?;
        teller.start(&stats, &heads)?;
        let deadline = self.duration.map(|duration| now() + duration.as_nanos() as u64);
        let workers = Workers::start(tasks)?;
        let watched = workers
            .watch(&signals, self.period, deadline, |interim| teller.interval(&mut stats, interim));
        let ended = workers.finish();
        teller.end(&stats)?;
        watched?;
        ended?;
        self.check_expectations(&stats)
    }

    /// Returns an error if the result does not meet what the user's flags require, such as
    /// `--max-loss`.
    fn check_expectations(&self, stats: &SharedGenStats) -> Result<Exit, Failure> {
        let unmet = self.expectations.unmet(&stats.total(true).outcome());
        if unmet.is_empty() {
            return Ok(Exit::Done);
        }
        let error = Diagnostic::new(codes::SR0404, "the run missed what was expected of it");
        let causes: Vec<_> = unmet.iter().map(ToString::to_string).collect();
        Err(error.with_cause(causes.join("; ")).into())
    }
}

/// Prints reports, in our format or in pkt-gen's.
struct GenOutput<'r, 's, 'p> {
    plan: &'r GenPlan,
    session: &'s mut Session<'p>,
    rate_deviation: Option<RateDeviation>,
}

impl<'r, 's, 'p> GenOutput<'r, 's, 'p> {
    fn new(plan: &'r GenPlan, session: &'s mut Session<'p>) -> Self {
        let rate_deviation = plan.style.statistics.then(RateDeviation::default);
        Self { plan, session, rate_deviation }
    }

    /// Returns whether to print pkt-gen's texts. JSON is the same under every name.
    fn is_classic(&self) -> bool {
        self.session.classic.is_some() && self.session.reporter.format() == ReportFormat::Text
    }

    fn warn(&mut self) -> Result<(), Failure> {
        self.plan.warnings.iter().try_for_each(|warning| self.session.reporter.warn(warning))
    }

    fn start(
        &mut self,
        stats: &SharedGenStats,
        ports: &[(PortInfo, usize)],
    ) -> Result<(), Failure> {
        if !self.is_classic() {
            return self.session.reporter.start(Some(self.plan.seed), "monotonic", &stats.ports());
        }
        for (info, _) in ports {
            let text = format!("interface is {info}");
            self.session.reporter.say(classic::log_line("main", line!(), &text))?;
        }
        let cpus = self.plan.pinning.map_or(1, |pinning| pinning.count as usize);
        let (info, queues) = &ports[0];
        let head = classic::head(self.plan.function, &info.name, *queues, self.plan.threads, cpus);
        self.session.reporter.say(head)?;
        self.session.reporter.say(classic::log_line("main", line!(), "Ready..."))
    }

    fn interval(&mut self, stats: &mut SharedGenStats, interim: bool) -> Result<(), Failure> {
        let (function, style) = (self.plan.function, self.plan.style);
        let figures = stats.interval();
        if self.is_classic() {
            return self.session.reporter.say(classic::line(
                &figures,
                style,
                self.rate_deviation.as_mut(),
            ));
        }
        let spread = self
            .rate_deviation
            .as_mut()
            .map_or(String::new(), |spread| spread.text(figures.pps(), style));
        let line = report::line(stats, &figures, function, style, &spread);
        let sample = report::sample(stats, &figures, function, false);
        let reporter = &mut self.session.reporter;
        if interim { reporter.interim(&sample, line) } else { reporter.interval(&sample, line) }
    }

    fn end(&mut self, stats: &SharedGenStats) -> Result<(), Failure> {
        let (function, style) = (self.plan.function, self.plan.style);
        let figures = stats.total(true);
        let sample = report::sample(stats, &figures, function, true);
        let text = if self.is_classic() {
            self.print_losses(&figures, &sample.ports)?;
            classic::result(&figures, function, style)
        } else {
            report::summary(&figures, function, style, &sample.ports)
        };
        self.session.reporter.end(&sample, text)
    }

    /// Prints losses and latencies in addition to pkt-gen's texts; pkt-gen does not report these.
    fn print_losses(&mut self, figures: &GenFigures, ports: &[PortReport]) -> Result<(), Failure> {
        let received =
            figures.received.as_ref().map(|received| report::receive_summary(figures, received));
        let text = received.unwrap_or_default() + &report::drops(ports);
        let mut lines = text.lines().filter(|line| !line.is_empty());
        lines.try_for_each(|line| {
            self.session.reporter.say(classic::log_line("main", line!(), line))
        })
    }
}
