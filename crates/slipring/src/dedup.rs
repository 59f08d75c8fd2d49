//! `slipring dedup`: forwards frames from one port to another, and drops duplicates.

mod engine;
mod flags;
mod report;

use std::time::Duration;

use clap::ArgMatches;
use slipring_abi::name::PortName;
use slipring_cli::units::Ratio;
use slipring_cli::{
    ClassicName, Diagnostic, Exit, Failure, Job, ReportFormat, Session, Signals, Verb, codes,
};
use slipring_dedup::{Dedup, DedupLimits};
use slipring_port::{Port, now};

use crate::port_pair;
use engine::DedupOptions;
use report::DedupFigures;
use slipring_datapath::confine::Confinement;
use slipring_datapath::meter::PortMeter;
use slipring_datapath::opening::PortOpening;
use slipring_datapath::workers::{WorkerTask, Workers};
use slipring_datapath::{links, publish};

/// The entry of `slipring dedup` in the table of commands.
pub(crate) const VERB: Verb =
    Verb { name: "dedup", classic: &[CLASSIC], command: flags::command, plan, no_metrics: None };

/// netmap's dedup exits with 1 for any failure.
const CLASSIC: ClassicName =
    ClassicName { name: "dedup", status: |exit| u8::from(exit != Exit::Done) };

/// The parsed command line.
struct DedupPlan {
    ports: [PortName; 2],
    opening: PortOpening,
    limits: DedupLimits,
    hold: bool,
    copy: bool,
    burst: u32,
    link_wait: Duration,
    period: Option<Duration>,
    duration: Option<Duration>,
    max_duplicates: Option<Ratio>,
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let plan = DedupPlan::of(matches)?;
    Ok(Box::new(move |session| plan.run(session)))
}

impl DedupPlan {
    fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let dedup = self.window()?;
        let signals = Signals::install()?;
        links::wait_for_links(&self.ports, &self.opening.options, self.link_wait, &signals)?;
        let mut ports = self.opening.open(&self.ports, session)?;
        let (from, to) = (&ports[0].info, &ports[1].info);
        if !port_pair::can_pass(from, to) {
            return Err(port_pair::no_path(from, to).into());
        }
        Confinement::for_ports(&ports).begin(session)?;
        let mut figures = DedupFigures::new(PortMeter::new(&ports), self.limits, self.hold);
        session.reporter.start(None, "monotonic", &figures.ports())?;
        self.announce(session, &mut ports)?;
        let _publishing = publish::start(figures.meter.clone(), None, session)?;
        let _metrics = publish::serve_metrics(&figures.meter, session)?;
        let deadline = self.duration.map(|duration| now() + duration.as_nanos() as u64);
        let workers = Workers::start(vec![self.task(ports, dedup, &figures)])?;
        let watched = workers.watch(&signals, self.period, deadline, |interim| {
            let text = figures.line();
            let sample = figures.sample();
            if interim {
                session.reporter.interim(&sample, text)
            } else {
                session.reporter.interval(&sample, text)
            }
        });
        let ended = workers.finish();
        session.reporter.end(&figures.sample(), figures.summary())?;
        watched?;
        ended?;
        self.check_expectations(session, &figures)
    }

    /// Creates the window of recent frames. Its hash is keyed with random words.
    fn window(&self) -> Result<Dedup, Failure> {
        let window = Dedup::new(self.limits, engine::secret()).map_err(|error| {
            Diagnostic::new(codes::SR0003, "the window makes no sense")
                .with_cause(error.to_string())
                .with_help("give a time or a number of frames: --window 50us --fifo 10")
        })?;
        Ok(if self.hold { window.holding() } else { window })
    }

    fn announce(&self, session: &mut Session<'_>, ports: &mut [Port]) -> Result<(), Failure> {
        if session.reporter.format() != ReportFormat::Text {
            return Ok(());
        }
        let swap = !self.copy && !self.hold && port_pair::in_one_region(ports);
        session
            .reporter
            .say(format_args!("zerocopy {}supported", if swap { "" } else { "NOT " }))?;
        session.reporter.say("Ready to go")
    }

    fn task(&self, ports: Vec<Port>, dedup: Dedup, figures: &DedupFigures) -> WorkerTask {
        let [input, output] = <[Port; 2]>::try_from(ports).expect("a port per name, and two names");
        let options = DedupOptions { burst: self.burst, may_swap: !self.copy, hold: self.hold };
        let stats = figures.stats.clone();
        let worker = engine::worker(input.queues, output.queues, dedup, options, stats);
        worker.into_task("dedup", self.opening.wait_policy)
    }

    fn check_expectations(
        &self,
        session: &mut Session<'_>,
        figures: &DedupFigures,
    ) -> Result<Exit, Failure> {
        let (duplicates, frames) = figures.duplicates();
        let Some(most) = self.max_duplicates.filter(|most| most.is_exceeded_by(duplicates, frames))
        else {
            return Ok(Exit::Done);
        };
        let error = Diagnostic::new(codes::SR0404, "the run missed what was expected of it")
            .with_cause(format!(
                "{duplicates} of {frames} frames were duplicates, more than {most}"
            ))
            .with_help("find out who sends twice: slipring gen -f rx shows the frames by -X");
        session.reporter.say(error.to_text(false).trim_end())?;
        Ok(Exit::Expectation)
    }
}

#[cfg(test)]
mod tests;
