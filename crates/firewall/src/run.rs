//! A run of `slipring firewall`.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use slipring_abi::name::PortName;
use slipring_cli::codes::{SR0018, SR0201};
use slipring_cli::report::ReportSample;
use slipring_cli::units::human;
use slipring_cli::{Diagnostic, Exit, Failure, Session, Signals};
use slipring_control::{ControlError, ControlServer, Reservation};
use slipring_datapath::confine::Confinement;
use slipring_datapath::meter::{PortInterval, PortMeter, bps, pps};
use slipring_datapath::workers::{Workers, WorkersEvent};
use slipring_datapath::{opening, publish};
use slipring_dummynet::text::QueueCaps;
use slipring_ipfw::run::Firewall;
use slipring_port::now;

use crate::KIPFW;
use crate::bench::RuleBench;
use crate::command_batch::{CommandBatch, CommandOutcome};
use crate::control_plane::ControlPlane;
use crate::dataplane::{BypassCounters, Dataplane, DataplaneCounters};
use crate::distributor::FlowDistribution;
use crate::events::{LogEvents, LogFileWriter};
use crate::file_trial::{TrialPorts, try_file};
use crate::flags::FirewallPlan;
use crate::manager;
use crate::metrics;
use crate::save;
use crate::service::FirewallService;
use crate::shared_stats::{DataplaneStats, SharedDataplaneStats};
use crate::state_file::StateFile;
use crate::task_queue::TaskQueue;
use crate::threads::{self, FirewallThreads};

/// All figures of a run.
#[derive(Clone)]
pub(crate) struct FirewallFigures {
    pub(crate) meter: PortMeter,
    stats: Vec<Arc<SharedDataplaneStats>>,
    events: Arc<LogEvents>,
}

/// The keys that `slipring firewall` adds to a report.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FirewallReportExtra {
    firewall: FirewallReport,
}

#[derive(Debug, Clone, Serialize)]
struct FirewallReport {
    /// Frames received, copied and made here; they were sent, lost, or wait.
    offered: u64,
    made: u64,
    /// Frames that bypassed the rules and passed.
    bypassed: BypassCounters,
    sent: u64,
    waiting: u64,
    /// Frames in the rings of ports that have not been processed yet.
    unread: u64,
    lost: std::collections::BTreeMap<String, u64>,
    states: u64,
    checks_out: bool,
    log_lines: u64,
    log_missed: u64,
}

impl FirewallFigures {
    pub(crate) fn dataplane_stats(&self) -> DataplaneStats {
        let all = self.stats.iter().map(|board| board.snapshot());
        let sum = all.reduce(|sum, one| DataplaneStats {
            counters: sum.counters.plus(&one.counters),
            pending_frames: sum.pending_frames + one.pending_frames,
            states: sum.states + one.states,
            ..one
        });
        let mut shown = sum.unwrap_or_default();
        // Add the frames in transit between threads.
        let DataplaneCounters { handed_off: away, foreign: guests, .. } = shown.counters;
        shown.counters.waiting += away.saturating_sub(guests);
        shown
    }

    /// Returns the lines that rules with `log` have produced.
    pub(crate) fn log_lines(&self) -> u64 {
        self.events.count()
    }

    /// Returns how many of them the log has missed.
    pub(crate) fn log_missed(&self) -> u64 {
        self.events.missed()
    }

    /// Returns the frames in the rings of ports, of which `offered` were processed.
    fn unread(&self, offered: u64) -> u64 {
        let received: u64 = self.meter.reports().iter().map(|port| port.rx.packets).sum();
        received.saturating_sub(offered)
    }

    fn sample(&self) -> ReportSample<FirewallReportExtra> {
        let shown = self.dataplane_stats();
        let DataplaneCounters { offered, made, bypassed, sent, waiting, copies, .. } =
            shown.counters;
        let told = FirewallReport {
            offered,
            made,
            bypassed,
            sent,
            waiting,
            unread: self.unread(offered),
            lost: shown.counters.losses().filter(|(_, count)| *count > 0).collect(),
            states: shown.states,
            checks_out: shown.checks_out,
            log_lines: self.log_lines(),
            log_missed: self.log_missed(),
        };
        ReportSample {
            elapsed: self.meter.elapsed(),
            ports: self.meter.reports(),
            in_flight: self.meter.in_flight() + waiting + shown.pending_frames + told.unread,
            copies,
            extra: FirewallReportExtra { firewall: told },
        }
    }

    /// Formats an interim line: `12.0s  netmap:a rx 1.20 Mpps tx 0.98 Mpps drop 0  …  lost 12
    /// states 3`
    fn line(&mut self) -> String {
        let time = self.meter.begin_interval();
        let mut text = format!("{:6.1}s", self.meter.elapsed().as_secs_f64());
        for PortInterval { name, delta: change } in self.meter.intervals() {
            let (rx, tx) = (pps(change.rx.packets, time), pps(change.tx.packets, time));
            let rate = bps(change.tx.bytes, time);
            text += &format!("  {name} rx {rx} tx {tx} {rate} drop {}", change.dropped);
        }
        let DataplaneStats { counters: tally, states, .. } = self.dataplane_stats();
        text + &format!("  lost {}  waiting {}  states {states}", tally.lost(), tally.waiting)
    }

    fn summary(&self) -> String {
        let shown = self.dataplane_stats();
        let DataplaneCounters { offered, copies, made, sent, waiting, .. } = shown.counters;
        let mut text =
            format!("{} in all\n{offered} frames came", human::span(self.meter.elapsed()));
        for (count, what) in [(copies, "copied"), (made, "made here")] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        text += &format!(", {sent} sent, {} lost, {waiting} wait", shown.counters.lost());
        let BypassCounters { arp, non_ip } = shown.counters.bypassed;
        for (count, what) in [(arp, "of ARP"), (non_ip, "neither IP nor ARP")] {
            if count > 0 {
                text += &format!("\n{count} frames {what} passed and met no rules");
            }
        }
        let unread = self.unread(offered);
        if unread > 0 {
            text += &format!("\n{unread} frames were received and not looked at");
        }
        for (cause, count) in shown.counters.losses().filter(|(_, count)| *count > 0) {
            text += &format!("\nlost: {count} ({cause})");
        }
        for port in self.meter.reports() {
            let (rx, tx) = (port.rx.packets, port.tx.packets);
            text += &format!("\n{}: received {rx} packets, sent {tx} packets", port.name);
            for (cause, count) in &port.drops {
                text += &format!(", dropped {count} ({cause})");
            }
        }
        text
    }
}

impl FirewallPlan {
    /// Sets the default action by the name of the command: netmap-ipfw's kipfw accepts what
    /// no rule matches.
    pub(crate) fn with_classic_name(mut self, classic: Option<&str>) -> Self {
        self.is_open.get_or_insert(classic == Some(KIPFW));
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
        let place = self.reserve(session)?;
        let signals = Signals::install()?;
        opening::wait_for_links(&self.ports, self.link_wait, &signals)?;
        let events = Arc::new(LogEvents::default());
        let log_file = self.log_file()?;
        let seed = self.seed.unwrap_or_else(slipring_ring::secret_word);
        let pipes = threads::worker_pipes(self.ports.len(), self.threads);
        let ports = self.opening.open_with_pipes(&self.ports, &pipes, session)?;
        // Rules files are read again on HUP, and states are saved.
        Confinement::for_ports(&ports).opening_files().begin(session)?;
        let log = LogFileWriter::start(events.clone(), log_file);
        let meter = PortMeter::new(&ports[..self.ports.len()]);
        let FirewallThreads { tasks, task_queues: mails, stats: boards } =
            threads::threads(&self, ports, seed, &events)?;
        let mut figures = FirewallFigures { meter, stats: boards, events: events.clone() };
        session.reporter.start(Some(seed), "monotonic", &figures.meter.reports())?;
        let mut desk = ControlPlane::new(self.firewall(seed), mails);
        if self.threads > 1 {
            desk = desk.with_distribution(FlowDistribution::new(seed, self.threads));
        }
        let desk = Arc::new(desk.persist_to(kept, self.persists_states));
        let workers = Workers::start(tasks)?;
        let result = self.serve_until_stopped(
            session,
            &workers,
            &signals,
            (place, &desk, begin),
            &mut figures,
        );
        let ended = workers.finish();
        drop(log);
        session.reporter.end(&figures.sample(), figures.summary())?;
        result?;
        ended?;
        Ok(Exit::Done)
    }

    /// Returns the file of the initial rules: the saved state if it exists, else the rules file.
    fn initial_rules_path(&self) -> Option<&Path> {
        // An unreadable file is reported when it is read.
        let kept = self.state.as_deref().filter(|path| path.try_exists().unwrap_or(true));
        kept.or(self.rules.as_deref())
    }

    /// Reads the initial rules. A truncated or empty state file is an error: no frame may pass
    /// because rules are missing.
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

    /// Measures the rules alone; commands reach them meanwhile.
    fn run_bench(
        &self,
        bench: RuleBench,
        begin: Option<&CommandBatch>,
        session: &mut Session<'_>,
    ) -> Result<Exit, Failure> {
        let seed = self.seed.unwrap_or(1);
        let signals = Signals::install()?;
        let events = Arc::new(LogEvents::default());
        let log_file = self.log_file()?;
        Confinement::drop_all().opening_files().begin(session)?;
        let log = LogFileWriter::start(events.clone(), log_file);
        let place = self.reserve(session);
        let (mail, board) = (Arc::new(TaskQueue::new()?), Arc::<SharedDataplaneStats>::default());
        let join = Dataplane::new(Firewall::new(seed), seed, self.map.clone(), self.passes);
        let figures = FirewallFigures {
            meter: PortMeter::new(&[]),
            stats: vec![board.clone()],
            events: events.clone(),
        };
        let desk = Arc::new(ControlPlane::new(self.firewall(seed), vec![mail.clone()]));
        let is_refused = AtomicBool::new(false);
        let is_over = || signals.stopping() || is_refused.load(Ordering::Relaxed);
        let (report, result) = std::thread::scope(|scope| {
            let lane = (&*mail, &*board, events.clone());
            let engine = scope.spawn(|| bench.run(join, lane, &is_over));
            let result = self.load_initial_rules(session, &desk, begin);
            is_refused.store(result.is_err(), Ordering::Relaxed);
            let serve = |()| place.and_then(|place| self.serve(place, &desk, &figures));
            let server = result.as_ref().ok().copied().map(serve);
            if let Some(Err(Failure::Error(error))) = &server {
                // The measurement continues without a control socket.
                let _ = session.reporter.warn(error.to_text(false).trim_end());
            }
            // The socket answers as long as frames are offered.
            let report = engine.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (report, result)
        });
        drop(log);
        result?;
        report.print(session)?;
        Ok(Exit::Done)
    }

    /// Executes the initial rules and admits frames.
    fn load_initial_rules(
        &self,
        session: &mut Session<'_>,
        desk: &ControlPlane,
        begin: Option<&CommandBatch>,
    ) -> Result<(), Failure> {
        check_accepted(&desk.begin(), None)?;
        if let Some(order) = begin {
            let outcome = desk.execute(order, now());
            check_accepted(&outcome, self.initial_rules_path())?;
            outcome.warnings.iter().try_for_each(|warning| session.reporter.warn(warning))?;
        }
        desk.admit_frames();
        Ok(())
    }

    /// Creates the control socket, which does not answer yet.
    fn reserve(&self, session: &Session<'_>) -> Result<Reservation, Failure> {
        Reservation::new(&session.run_dir, self.name.as_deref()).map_err(control_failure)
    }

    /// Starts to answer at the control socket.
    fn serve(
        &self,
        place: Reservation,
        desk: &Arc<ControlPlane>,
        figures: &FirewallFigures,
    ) -> Result<ControlServer, Failure> {
        let service = FirewallService {
            name: self.name.clone(),
            control_plane: desk.clone(),
            events: figures.events.clone(),
            figures: figures.clone(),
        };
        place.serve(Box::new(service)).map_err(control_failure)
    }

    /// Answers commands and supervises the workers, once the initial rules are in force.
    fn serve_until_stopped(
        &self,
        session: &mut Session<'_>,
        workers: &Workers,
        signals: &Signals,
        (place, desk, begin): (Reservation, &Arc<ControlPlane>, Option<CommandBatch>),
        figures: &mut FirewallFigures,
    ) -> Result<(), Failure> {
        self.load_initial_rules(session, desk, begin.as_ref())?;
        let _server = self.serve(place, desk, figures)?;
        let _publishing = publish::start(figures.meter.clone(), None, session)?;
        let (asked, counted) = (desk.clone(), figures.clone());
        let _metrics = slipring_cli::metrics::serve(session, move || {
            metrics::text(&asked, &counted).map_err(|fault| fault.message)
        })?;
        session.reporter.say("Ready to go")?;
        if let Err(error) = manager::ready() {
            let told = "the service manager cannot be told that it is ready: see NOTIFY_SOCKET";
            session.reporter.warn(format_args!("{told}: {error}"))?;
        }
        let deadline = self.duration.map(|duration| now() + duration.as_nanos() as u64);
        let ended = workers.watch_with_reload(signals, self.period, deadline, |due| match due {
            WorkersEvent::Interval => session.reporter.interval(&figures.sample(), figures.line()),
            WorkersEvent::Interim => session.reporter.interim(&figures.sample(), figures.line()),
            WorkersEvent::Reload => self.reload(session, desk),
        });
        // Save states while the threads that have them still run.
        if let Some(warning) = desk.persist_states(now()) {
            session.reporter.warn(warning)?;
        }
        ended
    }

    /// Loads the rules file again; a mistake in it leaves everything unchanged.
    fn reload(&self, session: &mut Session<'_>, desk: &ControlPlane) -> Result<(), Failure> {
        let Some(path) = &self.rules else {
            return session.reporter.say("there is no rules file to load: see --rules");
        };
        let loaded = read_rules(path).and_then(|order| {
            let outcome = desk.replace(&order, now());
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

    /// Dry run: executes rules on a scratch firewall, as this one would at its start.
    pub(crate) fn try_rules(&self, rules: &CommandBatch, path: &Path) -> Result<(), Failure> {
        let tried = try_file(rules, self.firewall(0), TrialPorts::Known);
        let outcome = CommandOutcome { fault: tried.err(), ..CommandOutcome::default() };
        check_accepted(&outcome, Some(path))
    }

    pub(crate) fn firewall(&self, seed: u64) -> Firewall {
        let mut firewall =
            if self.is_open == Some(true) { Firewall::open(seed) } else { Firewall::new(seed) };
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

/// Returns the name of a port in rules: its interface if it is one, else the whole name.
fn rule_name(port: &PortName) -> String {
    if port.kind.names_interface() && port.pipe.is_none() {
        port.name.clone()
    } else {
        port.to_string()
    }
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let shown = path.display().to_string();
    crate::ipfw::read_file(&shown).map_err(|fault| {
        Diagnostic::new(SR0201, format!("cannot open {shown}"))
            .with_cause(fault.message)
            .with_help(format!("check the path: ls -l {shown}"))
            .into()
    })
}

/// Reads a rules file and the profiles that it names.
pub(crate) fn read_rules(path: &Path) -> Result<CommandBatch, Failure> {
    let text = read_text(path)?;
    let mut order = CommandBatch { text, is_file: true, ..CommandBatch::default() };
    for name in CommandBatch::profiles_of(&order.text, true) {
        let text = read_text(Path::new(&name))?;
        order.profiles.insert(name, text);
    }
    // Only the control plane knows the queue limits.
    if let Err(fault) = order.steps(QueueCaps::NONE) {
        check_accepted(
            &CommandOutcome { fault: Some(fault), ..CommandOutcome::default() },
            Some(path),
        )?;
    }
    Ok(order)
}

/// Converts an error of the control socket.
fn control_failure(error: ControlError) -> Failure {
    Diagnostic::of(&error).into()
}

/// Converts the fault of rules that are not accepted, if there is one.
fn check_accepted(outcome: &CommandOutcome, path: Option<&Path>) -> Result<(), Failure> {
    let Some(fault) = &outcome.fault else { return Ok(()) };
    let file = path.map_or_else(String::new, |path| path.display().to_string());
    let error = Diagnostic::new(SR0018, format!("{file}: the rules cannot be loaded"));
    let error = error.with_cause(fault.message.clone());
    Err(match &fault.expected {
        Some(expected) => error.with_help(format!("expected: {expected}")),
        None => error.with_help(format!(
            "try it: slipring ipfw -n {file}; where it names ports, the same command line with --check"
        )),
    }
    .into())
}
