//! A run of `slipring firewall`, from its start to its end.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use slipring_abi::name::PortName;
use slipring_cli::codes::{SR0018, SR0201};
use slipring_cli::{Diagnostic, Exit, Failure, Session, Signals, manager};
use slipring_control::{ControlError, ControlServer, Reservation};
use slipring_datapath::confine::Confinement;
use slipring_datapath::meter::PortMeter;
use slipring_datapath::workers::{Workers, WorkersEvent};
use slipring_datapath::{links, publish};
use slipring_dummynet::Dummynet;
use slipring_ipfw::run::Firewall;
use slipring_port::now;

use crate::bench::RuleBench;
use crate::dataplane::Dataplane;
use crate::figures::FirewallFigures;
use crate::flags::FirewallPlan;
use crate::metrics;
use crate::service::FirewallService;
use crate::shared_stats::SharedDataplaneStats;
use crate::task_queue::TaskQueue;
use crate::threads::{self, FirewallThreads};
use slipring_rules::command_batch::{CommandBatch, CommandOutcome};
use slipring_rules::control_plane::ControlPlane;
use slipring_rules::distribution::FlowDistribution;
use slipring_rules::dry_run::{DryRunPorts, dry_run_file};
use slipring_rules::randomness::Randomness;
use slipring_rules::rules_file::{check_accepted, read_rules, read_text};
use slipring_rules::save;
use slipring_rules::state_file::StateFile;
use slipring_rules::{LogEvents, LogFileWriter};

impl FirewallPlan {
    /// Sets whether packets that no rule matches are accepted. Changes nothing if the command line
    /// has already set this.
    pub(crate) fn accepting_by_default(mut self, accepts: bool) -> Self {
        self.is_open.get_or_insert(accepts);
        self
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let kept = self.state.as_deref().filter(|_| self.bench.is_none());
        let kept = kept.map(StateFile::lock).transpose()?;
        let begin =
            self.initial_rules_path().map(|path| self.read_initial_rules(path)).transpose()?;
        if let Some(source) = &self.bench {
            let bench = RuleBench::new(source, self.duration)?;
            return self.run_bench(bench, begin.as_ref(), session);
        }
        let reservation = self.reserve(session)?;
        let signals = Signals::install()?;
        links::wait_for_links(&self.ports, &self.opening.options, self.link_wait, &signals)?;
        let events = Arc::new(LogEvents::default());
        let log_file = self.log_file()?;
        let random = Randomness::draw(self.seed);
        let pipes = threads::worker_pipes(self.ports.len(), self.threads);
        let ports = self.opening.open_with_pipes(&self.ports, &pipes, session)?;
        // The process also opens files later: it reads rules files again on HUP, and saves states.
        // So opening files stays allowed.
        Confinement::for_ports(&ports).opening_files().begin(session)?;
        let log = LogFileWriter::start(events.clone(), log_file);
        let meter = PortMeter::new(&ports[..self.ports.len()]);
        let FirewallThreads { tasks, task_queues, stats } =
            threads::threads(&self, ports, random, &events)?;
        let mut figures = FirewallFigures { meter, stats, events: events.clone() };
        session.reporter.start(Some(random.seed), "monotonic", &figures.meter.reports())?;
        let mut control_plane = ControlPlane::new(self.firewall(random), task_queues);
        if self.threads > 1 {
            control_plane =
                control_plane.with_distribution(FlowDistribution::new(random.secret, self.threads));
        }
        let control_plane = Arc::new(control_plane.persist_to(kept, self.persists_states));
        let workers = Workers::start(tasks)?;
        let result = self.serve_until_stopped(
            session,
            &workers,
            &signals,
            (reservation, &control_plane, begin),
            &mut figures,
        );
        let ended = workers.finish();
        drop(log);
        session.reporter.end(&figures.sample(), figures.summary())?;
        result?;
        ended?;
        Ok(Exit::Done)
    }

    /// Returns the file with the initial rules. This is the state file if it exists, otherwise the
    /// rules file.
    fn initial_rules_path(&self) -> Option<&Path> {
        // If the file cannot be accessed, the error is reported when it is read.
        let kept = self.state.as_deref().filter(|path| path.try_exists().unwrap_or(true));
        kept.or(self.rules.as_deref())
    }

    /// Reads the initial rules. A truncated or empty state file is an error, because without the
    /// missing rules, unwanted frames could pass.
    fn read_initial_rules(&self, path: &Path) -> Result<CommandBatch, Failure> {
        if self.state.as_deref() != Some(path) {
            return read_rules(path);
        }
        let text = read_text(path)?;
        let cause = match save::truncated_at(&text) {
            Some(line) => format!("its end is not there: it stops at line {line}"),
            None if text.trim_matches(['\0', ' ', '\n']).is_empty() => "it is empty".to_owned(),
            None => return read_rules(path),
        };
        let shown = path.display();
        let begin = match &self.rules {
            Some(rules) => format!("begin with {}", rules.display()),
            None => "begin without rules".to_owned(),
        };
        Err(Diagnostic::new(SR0018, format!("{shown}: the rules that were kept are not whole"))
            .with_cause(cause)
            .with_help(format!("to {begin}, set it aside: mv {shown} {shown}.cut"))
            .into())
    }

    /// Runs `--bench`, which measures the rules without ports. Commands are also executed during
    /// the measurement.
    fn run_bench(
        &self,
        bench: RuleBench,
        begin: Option<&CommandBatch>,
        session: &mut Session<'_>,
    ) -> Result<Exit, Failure> {
        let random = Randomness::draw(self.seed.or(Some(1)));
        let signals = Signals::install()?;
        let events = Arc::new(LogEvents::default());
        let log_file = self.log_file()?;
        Confinement::drop_all().opening_files().begin(session)?;
        let log = LogFileWriter::start(events.clone(), log_file);
        let reservation = self.reserve(session);
        let (task_queue, stats) =
            (Arc::new(TaskQueue::new()?), Arc::<SharedDataplaneStats>::default());
        let firewall = Firewall::new(random.seed, random.secret);
        let shaper = Dummynet::new(random.seed, random.secret);
        let dataplane = Dataplane::new(firewall, shaper, self.map.clone(), self.passes);
        let figures = FirewallFigures {
            meter: PortMeter::new(&[]),
            stats: vec![stats.clone()],
            events: events.clone(),
        };
        let control_plane =
            Arc::new(ControlPlane::new(self.firewall(random), vec![task_queue.clone()]));
        let is_refused = AtomicBool::new(false);
        let is_over = || signals.stopping() || is_refused.load(Ordering::Relaxed);
        let (report, result) = std::thread::scope(|scope| {
            let handles = (&*task_queue, &*stats, events.clone());
            let engine = scope.spawn(|| bench.run(dataplane, handles, &is_over));
            let result = self.load_initial_rules(session, &control_plane, begin);
            is_refused.store(result.is_err(), Ordering::Relaxed);
            let serve = |()| {
                reservation
                    .and_then(|reservation| self.serve(reservation, &control_plane, &figures))
            };
            let server = result.as_ref().ok().copied().map(serve);
            if let Some(Err(Failure::Error(error))) = &server {
                // This is only a warning, because the measurement works without a control socket.
                let _ = session.reporter.warn(error.to_text(false).trim_end());
            }
            // Commands are answered at the control socket until the measurement has ended.
            let report = engine.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (report, result)
        });
        drop(log);
        result?;
        report.print(session)?;
        Ok(Exit::Done)
    }

    /// Executes the commands that install the initial rules, if there are any, and then lets the
    /// threads process frames.
    fn load_initial_rules(
        &self,
        session: &mut Session<'_>,
        control_plane: &ControlPlane,
        begin: Option<&CommandBatch>,
    ) -> Result<(), Failure> {
        check_accepted(&control_plane.begin(), None)?;
        if let Some(order) = begin {
            let outcome = control_plane.execute(order, now());
            check_accepted(&outcome, self.initial_rules_path())?;
            outcome.warnings.iter().try_for_each(|warning| session.reporter.warn(warning))?;
        }
        control_plane.admit_frames();
        Ok(())
    }

    /// Creates the control socket. The socket does not answer requests yet.
    fn reserve(&self, session: &Session<'_>) -> Result<Reservation, Failure> {
        Reservation::new(&session.run_dir, self.name.as_deref()).map_err(control_failure)
    }

    /// Starts to answer commands at the control socket.
    fn serve(
        &self,
        reservation: Reservation,
        control_plane: &Arc<ControlPlane>,
        figures: &FirewallFigures,
    ) -> Result<ControlServer, Failure> {
        let service = FirewallService {
            name: self.name.clone(),
            control_plane: control_plane.clone(),
            events: figures.events.clone(),
            figures: figures.clone(),
        };
        reservation.serve(Box::new(service)).map_err(control_failure)
    }

    /// Installs the initial rules. Then answers commands and supervises the workers until the run
    /// ends.
    fn serve_until_stopped(
        &self,
        session: &mut Session<'_>,
        workers: &Workers,
        signals: &Signals,
        (reservation, control_plane, begin): (
            Reservation,
            &Arc<ControlPlane>,
            Option<CommandBatch>,
        ),
        figures: &mut FirewallFigures,
    ) -> Result<(), Failure> {
        self.load_initial_rules(session, control_plane, begin.as_ref())?;
        let _server = self.serve(reservation, control_plane, figures)?;
        let _publishing = publish::start(figures.meter.clone(), None, session)?;
        let (asked, counted) = (control_plane.clone(), figures.clone());
        let _metrics = slipring_cli::metrics::serve(session, move || {
            metrics::text(&asked, &counted).map_err(|fault| fault.message)
        })?;
        session.reporter.say("Ready to go")?;
        manager::ready(session)?;
        let deadline = self.duration.map(|duration| now() + duration.as_nanos() as u64);
        let ended = workers.watch_with_reload(signals, self.period, deadline, |due| match due {
            WorkersEvent::Interval => session.reporter.interval(&figures.sample(), figures.line()),
            WorkersEvent::Interim => session.reporter.interim(&figures.sample(), figures.line()),
            WorkersEvent::Reload => self.reload(session, control_plane),
        });
        // The states are saved before the threads that own them end.
        if let Some(warning) = control_plane.persist_states(now()) {
            session.reporter.warn(warning)?;
        }
        ended
    }

    /// Loads the rules file again. If it has a mistake, the rules stay unchanged.
    fn reload(
        &self,
        session: &mut Session<'_>,
        control_plane: &ControlPlane,
    ) -> Result<(), Failure> {
        let Some(path) = &self.rules else {
            return session.reporter.say("there is no rules file to load: see --rules");
        };
        let loaded = read_rules(path).and_then(|order| {
            let outcome = control_plane.replace(&order, now());
            check_accepted(&outcome, Some(path)).map(|()| outcome.warnings)
        });
        match loaded {
            Ok(warnings) => {
                warnings.iter().try_for_each(|warning| session.reporter.warn(warning))?;
                session.reporter.say(format_args!("{} loaded", path.display()))
            }
            Err(Failure::Error(error)) => session.reporter.warn(error.to_text(false).trim_end()),
            Err(failure) => Err(failure),
        }
    }

    /// Executes rules on a separate firewall in the same way as at start, to find mistakes.
    pub(crate) fn try_rules(&self, rules: &CommandBatch, path: &Path) -> Result<(), Failure> {
        let tried = dry_run_file(
            rules,
            self.firewall(Randomness { seed: 0, secret: [0; 2] }),
            DryRunPorts::Known,
        );
        let outcome = CommandOutcome { fault: tried.err(), ..CommandOutcome::default() };
        check_accepted(&outcome, Some(path))
    }

    pub(crate) fn firewall(&self, Randomness { seed, secret }: Randomness) -> Firewall {
        let create = if self.is_open == Some(true) { Firewall::open } else { Firewall::new };
        let mut firewall = create(seed, secret);
        firewall.set_ports(self.ports.iter().map(rule_name).collect());
        firewall.set_me(self.me.clone());
        let settings = format!(
            "sysctl net.link.bridge.ipfw_arp={}\nsysctl net.link.bridge.pfil_onlyip={}",
            u8::from(self.arp_meets_rules),
            self.non_ip as u8
        );
        firewall.load(&settings, 0).expect("values in their ranges");
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix = since.map_or(0, |time| time.as_nanos() as u64);
        firewall.set_epoch_ns(unix.saturating_sub(now()));
        firewall
    }

    fn log_file(&self) -> Result<Box<dyn Write + Send>, Failure> {
        let Some(path) = &self.log else { return Ok(Box::new(io::stderr())) };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|error| {
            Diagnostic::new(SR0201, format!("cannot open {}", path.display()))
                .with_cause(error.to_string())
                .with_help("say another file by --log, or leave it out for standard error")
        })?;
        Ok(Box::new(file))
    }
}

/// Returns the name by which rules refer to a port: the name of its interface, or the whole port
/// name if the port has no interface or is a pipe.
fn rule_name(port: &PortName) -> String {
    if port.kind.names_interface() && port.pipe.is_none() {
        port.name.clone()
    } else {
        port.to_string()
    }
}

/// Converts an error of the control socket to a failure of the program.
fn control_failure(error: ControlError) -> Failure {
    Diagnostic::of(&error).into()
}
