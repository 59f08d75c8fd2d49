//! `slipring lb`: distributes the flows of one port over groups of outputs.

mod classic;
mod engine;
mod flags;
mod groups;
mod report;
mod settings;
mod setup;

use std::time::Duration;

use clap::ArgMatches;
use slipring_abi::name::PortName;
use slipring_cli::{ClassicName, Exit, Failure, Job, ReportFormat, Session, Signals, Verb};
use slipring_port::now;

use classic::ClassicLines;
use groups::OutputGroup;
use report::LbFigures;
use settings::LbSettings;
use slipring_datapath::confine::Confinement;
use slipring_datapath::meter::PortMeter;
use slipring_datapath::opening::PortOpening;
use slipring_datapath::workers::Workers;
use slipring_datapath::{links, publish};

/// The entry of `slipring lb` in the table of commands.
pub(crate) const VERB: Verb =
    Verb { name: "lb", classic: &[CLASSIC], command: flags::command, plan, no_metrics: None };

/// netmap's lb exits with 1 for any failure (but with 0 for a wrong flag).
const CLASSIC: ClassicName =
    ClassicName { name: "lb", status: |exit| u8::from(exit != Exit::Done) };

/// The parsed command line.
struct LbPlan {
    input: PortName,
    groups: Vec<OutputGroup>,
    opening: PortOpening,
    settings: LbSettings,
    link_wait: Duration,
    /// Period of the classic program's JSON lines on stdout. `to_syslog` is their period in the
    /// system log. `None` means that no lines are written there.
    to_stdout: Option<Duration>,
    to_syslog: Option<Duration>,
    period: Option<Duration>,
    duration: Option<Duration>,
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let plan = LbPlan::of(matches)?;
    Ok(Box::new(move |session| plan.run(session)))
}

impl LbPlan {
    fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let signals = Signals::install()?;
        let names = self.names();
        links::wait_for_links(&names, &self.opening.options, self.link_wait, &signals)?;
        let ports = self.opening.open(&names, session)?;
        Confinement::for_ports(&ports).begin(session)?;
        let meter = PortMeter::new(&ports);
        let workers = setup::make_workers(ports, &self.groups, self.settings)?;
        let mut figures = LbFigures::new(meter, &self.groups, &workers, self.settings);
        if !self.is_classic_text(session) {
            let seed = self.settings.shows_key.then_some(self.settings.key);
            session.reporter.start(seed, "monotonic", &figures.ports())?;
        }
        let _publishing = publish::start(figures.meter.clone(), None, session)?;
        let _metrics = publish::serve_metrics(&figures.meter, session)?;
        let deadline = self.duration.map(|duration| now() + duration.as_nanos() as u64);
        let mut lines = ClassicLines::new(self.to_stdout, self.to_syslog, session)?;
        let tick = self.tick();
        let workers = Workers::start(setup::tasks(workers, self.opening.wait_policy))?;
        let watched = workers.watch(&signals, tick, deadline, |interim| {
            self.report(session, &mut figures, &mut lines, interim)
        });
        let ended = workers.finish();
        let summary = figures.summary(self.is_classic_text(session));
        session.reporter.end(&figures.sample(), summary)?;
        watched?;
        ended?;
        Ok(Exit::Done)
    }

    /// Returns the input, followed by the outputs.
    fn names(&self) -> Vec<PortName> {
        std::iter::once(&self.input).chain(outputs(&self.groups)).cloned().collect()
    }

    /// Returns the shortest of the periods of all reports; `None` if there are no periodic reports.
    fn tick(&self) -> Option<Duration> {
        self.period.into_iter().chain(self.to_stdout).chain(self.to_syslog).min()
    }

    fn report(
        &self,
        session: &mut Session<'_>,
        figures: &mut LbFigures,
        lines: &mut ClassicLines,
        interim: bool,
    ) -> Result<(), Failure> {
        lines.write_due(figures, session)?;
        let due = figures.is_due(self.period) && !self.is_classic_text(session);
        if !interim && !due {
            return Ok(());
        }
        let (text, sample) = (figures.line(interim), figures.sample());
        if interim {
            session.reporter.interim(&sample, text)
        } else {
            session.reporter.interval(&sample, text)
        }
    }

    /// Returns whether stdout is used for the classic program's lines.
    fn is_classic_text(&self, session: &Session<'_>) -> bool {
        self.to_stdout.is_some() && session.reporter.format() == ReportFormat::Text
    }
}

fn outputs(groups: &[OutputGroup]) -> impl Iterator<Item = &PortName> {
    groups.iter().flat_map(|group| &group.ports)
}

#[cfg(test)]
mod tests;
