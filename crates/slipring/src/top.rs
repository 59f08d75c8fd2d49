//! `slipring top`: shows the activity of a running program, from its shared counters only.
//!
//! The `top` crate does the work; this module has its flags.

use std::cell::RefCell;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::Serialize;
use slipring_cli::{Exit, Failure, Job, ReportFormat, Session, Signals, Verb, flags, metrics};
use slipring_control::metrics::MetricsEndpoint;
use slipring_datapath::confine::Confinement;
use slipring_top::attach::AttachedProgram;
use slipring_top::figures::TopSample;
use slipring_top::watch::{self, ProgramWatch};
use slipring_top::{openmetrics, plain, screen};

pub(crate) const VERB: Verb = Verb { name: "top", classic: &[], command, plan, no_metrics: None };

fn command() -> Command {
    let target = Arg::new("target")
        .value_name("NAME")
        .help("Name or process number of the program [default: the only one]");
    let once = Arg::new("once")
        .long("once")
        .action(ArgAction::SetTrue)
        .help("Print the figures of one period and end");
    let command = Command::new("top")
        .about("Show what a running program does: rates, delays, queues and losses")
        .after_help(
            "q quits, arrows select a link, p pauses, ? explains.\n\n\
             Examples:\n  \
             slipring top\n  \
             slipring top lab --once\n  \
             slipring top 4121 --json=lines -T 100ms",
        )
        .args([target, once, flags::period()]);
    flags::run_dir(flags::configuration(flags::reporting(metrics::flag(command))))
}

/// The parsed command line.
struct TopCommand {
    target: Option<String>,
    once: bool,
    period: Duration,
}

/// The keys that `slipring top` adds to a report: one sample of the watched program.
#[derive(Serialize)]
struct TopDocument {
    run: TopSample,
}

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    let top = TopCommand {
        target: matches.get_one::<String>("target").cloned(),
        once: matches.get_flag("once"),
        // A period of 0 would show nothing, so the default is used.
        period: flags::period_of(matches).unwrap_or(Duration::from_secs(1)),
    };
    Ok(Box::new(move |session| {
        let signals = Signals::install()?;
        // The capability to open other users' files is kept, because the counters of their runs
        // are opened later.
        Confinement::drop_all().opening_files().begin(session)?;
        let _metrics = top.serve(session)?;
        match session.reporter.format() {
            ReportFormat::Text if !top.once && screen::is_there() => {
                let target = top.target.as_deref();
                watch::on_terminal(&session.run_dir, target, top.period, &signals)?;
                Ok(Exit::Done)
            }
            ReportFormat::JsonLines if !top.once => top.lines(session, &signals),
            _ => top.once(session, &signals),
        }
    }))
}

impl TopCommand {
    fn once(&self, session: &mut Session<'_>, signals: &Signals) -> Result<Exit, Failure> {
        if !self.once && session.reporter.format() == ReportFormat::Text {
            session.reporter.say("# stdout is no terminal: one frame, as with --once")?;
        }
        let mut watch = self.begin(session)?;
        let run = watch.sample_over(self.period, signals).map_err(watch::failure)?;
        let text = plain::text(&run);
        session.reporter.document(&TopDocument { run }, text.trim_end())?;
        Ok(Exit::Done)
    }

    /// Prints a JSON object per period, until a signal arrives or the watched program ends.
    fn lines(&self, session: &mut Session<'_>, signals: &Signals) -> Result<Exit, Failure> {
        let mut watch = self.begin(session)?;
        while !signals.stopping() && watch.is_alive() {
            let run = watch.sample_over(self.period, signals).map_err(watch::failure)?;
            session.reporter.write_sample(&TopDocument { run })?;
        }
        Ok(Exit::Done)
    }

    /// If `--metrics` is given, serves the watched program's counters to Prometheus as well, until
    /// the returned value is dropped.
    fn serve(&self, session: &Session<'_>) -> Result<Option<MetricsEndpoint>, Failure> {
        if session.metrics.is_none() {
            return Ok(None);
        }
        let attached = AttachedProgram::find(&session.run_dir, self.target.as_deref());
        let attached = RefCell::new(attached.map_err(watch::failure)?);
        metrics::serve(session, move || {
            let mut attached = attached.borrow_mut();
            if !attached.is_alive() {
                return Err("the program has ended".to_owned());
            }
            let seen = attached.snapshot().map_err(|error| error.to_string())?;
            Ok(openmetrics::text(attached.schema(), &seen.words))
        })
    }

    fn begin(&self, session: &Session<'_>) -> Result<ProgramWatch, Failure> {
        let attached = AttachedProgram::find(&session.run_dir, self.target.as_deref());
        attached.and_then(ProgramWatch::begin).map_err(watch::failure)
    }
}
