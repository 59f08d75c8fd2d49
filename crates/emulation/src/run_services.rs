//! Services for a command that runs emulated links in real time: control socket, changes of
//! settings, metrics, and logs.
//!
//! After [`RunServices::close`], no socket or thread is left.

use std::sync::Arc;

use slipring_cli::report::ReportSample;
use slipring_cli::{Diagnose, Failure, Session};
use slipring_control::metrics::MetricsEndpoint;
use slipring_control::{ControlServer, Reservation};
use slipring_link::NetworkSpec;
use slipring_port::{Port, now};

use crate::account::EmulationState;
use crate::control::{self, RunStart, SettingsHistory};
use crate::link_publisher::{LinkPublisher, PublishedRun};
use crate::plan::EmulationPlan;
use crate::realtime::figures::{report, sample, summary};
use crate::realtime::{Emulation, EmulatorChannel, LogWriter, RealtimeOptions, open_log, prepare};
use crate::report::document::EmulationDocument;
use slipring_datapath::meter::PortMeter;
use slipring_datapath::publish::{self, PublishGuard};

/// The services of a run.
pub struct RunServices {
    /// The channel to the thread that moves frames.
    pub channel: Arc<EmulatorChannel>,
    history: Arc<SettingsHistory>,
    log: Option<LogWriter>,
    /// Whether all figures are printed at the end, not only the main ones.
    reports_all: bool,
    _endpoint: Option<MetricsEndpoint>,
    _control: Option<ControlServer>,
    _publishing: Option<PublishGuard>,
}

impl RunServices {
    /// Reserves the run's name and its control socket before any port is opened. So a run that
    /// cannot have its name has not taken an interface from the host. If no name was requested and
    /// the socket cannot be created, returns `None`, and the run continues without a socket.
    ///
    /// # Errors
    /// [`Failure`] if the requested name cannot be reserved, or stderr cannot be written.
    pub fn reserve(
        plan: &EmulationPlan,
        session: &mut Session<'_>,
    ) -> Result<Option<Reservation>, Failure> {
        match control::reserve(&session.run_dir, plan) {
            Ok(reservation) => Ok(Some(reservation)),
            Err(Failure::Error(error)) if plan.name.is_none() => {
                session.reporter.say(format_args!("# no live control: {}", error.summary()))?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates an emulation between ports, and its services.
    ///
    /// # Errors
    /// [`Failure`] if the network cannot be built, or a requested service cannot be provided.
    pub fn start(
        ports: Vec<Port>,
        plan: &EmulationPlan,
        options: &RealtimeOptions,
        reservation: Option<Reservation>,
        session: &mut Session<'_>,
    ) -> Result<(Emulation, Self), Failure> {
        let meter = PortMeter::new(&ports);
        let names: Vec<_> = ports.iter().map(|port| port.info.name.clone()).collect();
        let (emulation, log) = match open_log(&plan.outputs, &plan.network, &names)? {
            None => (prepare(ports, &plan.network, options, ())?, None),
            Some((tap, log)) => (prepare(ports, &plan.network, options, tap)?, Some(log)),
        };
        let channel = emulation.channel.clone();
        let start = RunStart { at_ns: now(), storage_bytes: options.storage_bytes };
        let services = Self::open(plan, start, channel, meter, reservation, session)?;
        Ok((emulation, services.with_log(log)))
    }

    /// Starts the services for the thread behind `channel`, without a log of frames. Submits the
    /// scheduled changes of the plan.
    ///
    /// # Errors
    /// [`Failure`] if a requested service cannot be provided.
    pub fn open(
        plan: &EmulationPlan,
        start: RunStart,
        channel: Arc<EmulatorChannel>,
        meter: PortMeter,
        reservation: Option<Reservation>,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        let versions = Arc::new(SettingsHistory::start(plan, start, channel.clone())?);
        let published = LinkPublisher::new(PublishedRun {
            name: plan.name.clone(),
            seed: plan.seed,
            channel: channel.clone(),
            network: Box::new({
                let versions = versions.clone();
                move || versions.network()
            }),
        });
        Ok(Self {
            _publishing: publish::start(meter.clone(), Some(Box::new(published)), session)?,
            _endpoint: endpoint(plan, &channel, &versions)?,
            _control: reservation
                .map(|reservation| control::serve(reservation, plan, &versions, meter))
                .transpose()?,
            log: None,
            reports_all: plan.stats,
            channel,
            history: versions,
        })
    }

    /// Sets the writer of the frame log; [`Self::close`] waits until it has written the whole log.
    #[must_use]
    pub fn with_log(self, log: Option<LogWriter>) -> Self {
        Self { log, ..self }
    }

    /// Returns the links with the settings that apply now.
    pub fn network(&self) -> Arc<NetworkSpec> {
        self.history.network()
    }

    /// Returns the summary as text; with `--stats`, followed by all figures.
    pub fn summary(&self, meter: &PortMeter, state: &EmulationState) -> String {
        let network = self.network();
        let text = summary(&network, meter, state) + &self.history.changes().line();
        match self.reports_all {
            true => format!("{text}\n{}", report(&network, state).openmetrics()),
            false => text,
        }
    }

    /// Returns the sample for an interim report.
    pub fn sample(
        &self,
        meter: &PortMeter,
        state: &EmulationState,
    ) -> ReportSample<EmulationDocument> {
        let mut sample = sample(&self.network(), meter, state);
        sample.extra = sample.extra.changed(self.history.changes());
        sample
    }

    /// Reads the settings file again and prints whether it was applied. If any setting is invalid,
    /// the whole file is refused and the run continues unchanged.
    ///
    /// # Errors
    /// [`Failure`] if the output cannot be written.
    pub fn reload(&self, plan: &EmulationPlan, session: &mut Session<'_>) -> Result<(), Failure> {
        let read = plan.reread_config().and_then(|config| match config {
            None => Ok("there is no file to read again: start with --config"),
            Some(config) => {
                self.history.replace(config).map_err(Failure::Error)?;
                Ok("the settings were read again")
            }
        });
        match read {
            Ok(line) => session.reporter.say(format_args!("# {line}")),
            Err(Failure::Error(error)) => {
                session.reporter.report_error(&error);
                Ok(())
            }
            Err(left) => Err(left),
        }
    }

    /// Prints the final report, on the whole run.
    ///
    /// # Errors
    /// [`Failure`] if the output cannot be written.
    pub fn report(&self, meter: &PortMeter, session: &mut Session<'_>) -> Result<(), Failure> {
        let state = self.channel.last_state();
        let sample = self.sample(meter, &state);
        session.reporter.end(&sample, self.summary(meter, &state))
    }

    /// Closes the services after the thread that moves frames has ended; waits until the
    /// log is written.
    ///
    /// # Errors
    /// [`Failure`] if a log could not be written.
    pub fn close(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let Some(log) = self.log else { return Ok(()) };
        match log.finish(&self.channel.last_state().account)? {
            0 => Ok(()),
            missing => {
                session.reporter.warn(format_args!("{missing} entries are missing in the log"))
            }
        }
    }
}

fn endpoint(
    plan: &EmulationPlan,
    channel: &Arc<EmulatorChannel>,
    versions: &Arc<SettingsHistory>,
) -> Result<Option<MetricsEndpoint>, Failure> {
    let Some(reservation) = &plan.outputs.metrics else { return Ok(None) };
    let (channel, versions) = (channel.clone(), versions.clone());
    let metrics = move || report(&versions.network(), &channel.request_state()).openmetrics();
    slipring_cli::metrics::open(reservation, move || Ok(metrics())).map(Some)
}
