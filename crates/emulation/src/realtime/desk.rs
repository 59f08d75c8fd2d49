//! What stands around the thread that moves frames, whichever command runs it: where it is asked
//! and changed, where its figures are fetched, and where its frames are written down.
//!
//! Nothing of it is left when the desk is closed: neither socket nor thread.

use std::sync::Arc;

use slipring_cli::report::Sample;
use slipring_cli::{Diagnose, Failure, Session};
use slipring_control::metrics::Endpoint;
use slipring_control::{Reservation, Server};
use slipring_link::NetworkSpec;
use slipring_port::{Nanos, Port, now};

use super::job::{report, sample, summary};
use super::{Board, Emulation, Manner, State, log, prepare};
use crate::control::{self, Versions};
use crate::plan::Plan;
use crate::published::{Published, Run};
use crate::report::document::Document;
use slipring_program::meter::Meter;
use slipring_program::publish::{self, Publishing};

/// See the module.
pub struct Desk {
    /// Where the thread that moves frames is asked and changed.
    pub board: Arc<Board>,
    versions: Arc<Versions>,
    log: Option<log::Writer>,
    /// Whether all figures are told at the end.
    stats: bool,
    _endpoint: Option<Endpoint>,
    _control: Option<Server>,
    _publishing: Option<Publishing>,
}

/// What a run begins with.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// When, on the clock of [`now`]: the times of the plan's changes count from here.
    pub at_ns: Nanos,
    /// Memory for frames at most, in bytes.
    pub storage_bytes: u64,
}

impl Desk {
    /// Takes the run's place in the run directory, and its name, before any port is opened: a run
    /// that cannot have its name takes no interface from its host for it. A run that asked for no
    /// name goes on without a place where there can be none.
    ///
    /// # Errors
    /// If the name that was asked for cannot be had.
    pub fn reserve(plan: &Plan, session: &mut Session<'_>) -> Result<Option<Reservation>, Failure> {
        match control::reserve(&session.run_dir, plan) {
            Ok(place) => Ok(Some(place)),
            Err(Failure::Error(error)) if plan.name.is_none() => {
                session.reporter.say(format_args!("# no live control: {}", error.summary()))?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes an emulation between ports, and the desk around it.
    ///
    /// # Errors
    /// If the network cannot be built, or something that was asked for cannot be had.
    pub fn around(
        ports: Vec<Port>,
        plan: &Plan,
        manner: &Manner,
        place: Option<Reservation>,
        session: &mut Session<'_>,
    ) -> Result<(Emulation, Self), Failure> {
        let meter = Meter::new(&ports);
        let names: Vec<_> = ports.iter().map(|port| port.info.name.clone()).collect();
        let (emulation, log) = match log::open(&plan.outputs, &plan.network, &names)? {
            None => (prepare(ports, &plan.network, manner, ())?, None),
            Some((tap, log)) => (prepare(ports, &plan.network, manner, tap)?, Some(log)),
        };
        let board = emulation.board.clone();
        let start = Start { at_ns: now(), storage_bytes: manner.storage_bytes };
        let desk = Self::open(plan, start, board, meter, place, session)?;
        Ok((emulation, desk.with_log(log)))
    }

    /// The desk of whoever answers to `board`, with no log of frames. Hands in the changes that
    /// the plan knows of.
    ///
    /// # Errors
    /// If something that was asked for cannot be had.
    pub fn open(
        plan: &Plan,
        start: Start,
        board: Arc<Board>,
        meter: Meter,
        place: Option<Reservation>,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        let versions = Arc::new(Versions::start(plan, start, board.clone())?);
        let published = Published::new(Run {
            name: plan.name.clone(),
            seed: plan.seed,
            board: board.clone(),
            network: Box::new({
                let versions = versions.clone();
                move || versions.network()
            }),
        });
        Ok(Self {
            _publishing: publish::start(meter.clone(), Some(Box::new(published)), session)?,
            _endpoint: endpoint(plan, &board, &versions)?,
            _control: place
                .map(|place| control::serve(place, plan, &versions, meter))
                .transpose()?,
            log: None,
            stats: plan.stats,
            board,
            versions,
        })
    }

    /// The same, with the writer of a log that it waits for at the end.
    #[must_use]
    pub fn with_log(self, log: Option<log::Writer>) -> Self {
        Self { log, ..self }
    }

    /// The links as they are now.
    pub fn network(&self) -> Arc<NetworkSpec> {
        self.versions.network()
    }

    /// The summary for people; with `--stats`, all figures below it.
    pub fn summary(&self, meter: &Meter, state: &State) -> String {
        let network = self.network();
        let text = summary(&network, meter, state) + &self.versions.changes().line();
        match self.stats {
            true => format!("{text}\n{}", report(&network, state).openmetrics()),
            false => text,
        }
    }

    /// What an interval is reported by.
    pub fn sample(&self, meter: &Meter, state: &State) -> Sample<Document> {
        let mut sample = sample(&self.network(), meter, state);
        sample.extra = sample.extra.changed(self.versions.changes());
        sample
    }

    /// Reads the file of the settings again, and tells what came of it: what cannot be is refused
    /// whole, and the run goes on as it was.
    ///
    /// # Errors
    /// If nothing can be told.
    pub fn reload(&self, plan: &Plan, session: &mut Session<'_>) -> Result<(), Failure> {
        let read = plan.read_again().and_then(|config| match config {
            None => Ok("there is no file to read again: start with --config"),
            Some(config) => {
                self.versions.replace(config).map_err(Failure::Error)?;
                Ok("the settings were read again")
            }
        });
        match read {
            Ok(told) => session.reporter.say(format_args!("# {told}")),
            Err(Failure::Error(error)) => {
                session.reporter.complain(&error);
                Ok(())
            }
            Err(left) => Err(left),
        }
    }

    /// Reports the whole run.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn report(&self, meter: &Meter, session: &mut Session<'_>) -> Result<(), Failure> {
        let state = self.board.last();
        let sample = self.sample(meter, &state);
        session.reporter.end(&sample, self.summary(meter, &state))
    }

    /// Ends it, once the thread that moves frames has ended: waits for what is being written.
    ///
    /// # Errors
    /// If a log could not be written.
    pub fn close(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let Some(log) = self.log else { return Ok(()) };
        match log.finish(&self.board.last().account)? {
            0 => Ok(()),
            missing => {
                session.reporter.warn(format_args!("{missing} entries are missing in the log"))
            }
        }
    }
}

fn endpoint(
    plan: &Plan,
    board: &Arc<Board>,
    versions: &Arc<Versions>,
) -> Result<Option<Endpoint>, Failure> {
    let Some(place) = &plan.outputs.metrics else { return Ok(None) };
    let (board, versions) = (board.clone(), versions.clone());
    let metrics = move || report(&versions.network(), &board.ask()).openmetrics();
    slipring_cli::metrics::open(place, move || Ok(metrics())).map(Some)
}
