//! A run of `slipring firewall`.

use std::fs::OpenOptions;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use slipring_abi::name::PortName;
use slipring_cli::codes::{SR0009, SR0201};
use slipring_cli::report::Sample;
use slipring_cli::units::human;
use slipring_cli::{Diagnostic, Exit, Failure, Session, Signals};
use slipring_control::Server;
use slipring_dummynet::text::Caps;
use slipring_ipfw::run::Firewall;
use slipring_port::now;
use slipring_program::meter::{Interval, Meter, bps, pps};
use slipring_program::workers::{Due, Workers};
use slipring_program::{opening, publish};

use crate::bench::{self, Source};
use crate::board::{Board, Shown};
use crate::desk::{self, Desk};
use crate::events::{Events, Log};
use crate::flags::Plan;
use crate::join::{Join, Tally};
use crate::order::{Order, Outcome, sysexits};
use crate::service::Controlled;
use crate::threads::{self, Threads};

/// All figures of a run.
#[derive(Clone)]
pub(crate) struct Figures {
    pub(crate) meter: Meter,
    boards: Vec<Arc<Board>>,
    events: Arc<Events>,
}

/// The keys that `slipring firewall` adds to a report.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Extra {
    firewall: Told,
}

#[derive(Debug, Clone, Serialize)]
struct Told {
    /// Frames that came, copies, and frames made here; they were sent, lost, or wait.
    offered: u64,
    made: u64,
    sent: u64,
    waiting: u64,
    /// Frames that ports have received and nobody has looked at yet.
    unread: u64,
    lost: std::collections::BTreeMap<String, u64>,
    states: u64,
    checks_out: bool,
    log_lines: u64,
    log_missed: u64,
}

impl Figures {
    pub(crate) fn shown(&self) -> Shown {
        let all = self.boards.iter().map(|board| board.look());
        let sum = all.reduce(|sum, one| Shown {
            tally: sum.tally.plus(&one.tally),
            late: sum.late + one.late,
            states: sum.states + one.states,
            ..one
        });
        let mut shown = sum.unwrap_or_default();
        // Those on their way from thread to thread.
        let Tally { away, guests, .. } = shown.tally;
        shown.tally.waiting += away.saturating_sub(guests);
        shown
    }

    /// Lines that rules with `log` have given.
    pub(crate) fn log_lines(&self) -> u64 {
        self.events.count()
    }

    /// How many of them the log has missed.
    pub(crate) fn log_missed(&self) -> u64 {
        self.events.missed()
    }

    /// Frames in the rings of ports, where `offered` were looked at.
    fn unread(&self, offered: u64) -> u64 {
        let received: u64 = self.meter.reports().iter().map(|port| port.rx.packets).sum();
        received.saturating_sub(offered)
    }

    fn sample(&self) -> Sample<Extra> {
        let shown = self.shown();
        let Tally { offered, made, sent, waiting, copies, .. } = shown.tally;
        let told = Told {
            offered,
            made,
            sent,
            waiting,
            unread: self.unread(offered),
            lost: shown.tally.losses().filter(|(_, count)| *count > 0).collect(),
            states: shown.states,
            checks_out: shown.checks_out,
            log_lines: self.log_lines(),
            log_missed: self.log_missed(),
        };
        Sample {
            elapsed: self.meter.elapsed(),
            ports: self.meter.reports(),
            in_flight: self.meter.in_flight() + waiting + shown.late + told.unread,
            copies,
            extra: Extra { firewall: told },
        }
    }

    /// `12.0s  netmap:a rx 1.20 Mpps tx 0.98 Mpps drop 0  …  lost 12  states 3`
    fn line(&mut self) -> String {
        let time = self.meter.lap();
        let mut text = format!("{:6.1}s", self.meter.elapsed().as_secs_f64());
        for Interval { name, change } in self.meter.intervals() {
            let (rx, tx) = (pps(change.rx.packets, time), pps(change.tx.packets, time));
            let rate = bps(change.tx.bytes, time);
            text += &format!("  {name} rx {rx} tx {tx} {rate} drop {}", change.dropped);
        }
        let Shown { tally, states, .. } = self.shown();
        text + &format!("  lost {}  waiting {}  states {states}", tally.lost(), tally.waiting)
    }

    fn summary(&self) -> String {
        let shown = self.shown();
        let Tally { offered, copies, made, sent, waiting, .. } = shown.tally;
        let mut text =
            format!("{} in all\n{offered} frames came", human::span(self.meter.elapsed()));
        for (count, what) in [(copies, "copied"), (made, "made here")] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        text += &format!(", {sent} sent, {} lost, {waiting} wait", shown.tally.lost());
        let unread = self.unread(offered);
        if unread > 0 {
            text += &format!("\n{unread} frames were received and not looked at");
        }
        for (cause, count) in shown.tally.losses().filter(|(_, count)| *count > 0) {
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

impl Plan {
    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<Exit, Failure> {
        let begin = self.rules.as_deref().map(read_rules).transpose()?;
        if let Some(source) = &self.bench {
            return self.measure(source, begin.as_ref(), session);
        }
        let signals = Signals::install()?;
        opening::wait_for_links(&self.ports, self.link_wait, &signals)?;
        let events = Arc::new(Events::default());
        let log = Log::start(events.clone(), self.log_file()?);
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(0_u8));
        let pipes = threads::pipes(self.ports.len(), self.threads);
        let ports = self.opening.open_beside(&self.ports, &pipes)?;
        let meter = Meter::new(&ports[..self.ports.len()]);
        let Threads { tasks, mails, boards } = threads::threads(&self, ports, seed, &events)?;
        let mut figures = Figures { meter, boards, events: events.clone() };
        session.reporter.start(Some(seed), "monotonic", &figures.meter.reports())?;
        let desk = Arc::new(Desk::new(self.firewall(seed), mails));
        let workers = Workers::start(tasks)?;
        let result = self.attend(session, &workers, &signals, (&desk, begin), &mut figures, events);
        let ended = workers.finish();
        drop(log);
        session.reporter.end(&figures.sample(), figures.summary())?;
        result?;
        ended?;
        Ok(Exit::Done)
    }

    /// Measures the rules by themselves.
    fn measure(
        &self,
        source: &Source,
        begin: Option<&Order>,
        session: &mut Session<'_>,
    ) -> Result<Exit, Failure> {
        let seed = self.seed.unwrap_or(1);
        let mut master = self.firewall(seed);
        master.set_plain(true);
        let mut join = Join::new(Firewall::new(seed), seed, self.map.clone(), self.passes);
        if let Some(order) = begin {
            let outcome = desk::begin_alone(&mut master, &mut join, order, now());
            accepted(&outcome, self.rules.as_deref())?;
        }
        join.adopt(&mut master.ruleset());
        let time = self.duration.map(|time| time.as_nanos() as u64);
        bench::run(source, join, time, session)
    }

    /// Opens the control socket and watches, once the rules to begin with hold.
    fn attend(
        &self,
        session: &mut Session<'_>,
        workers: &Workers,
        signals: &Signals,
        (desk, begin): (&Arc<Desk>, Option<Order>),
        figures: &mut Figures,
        events: Arc<Events>,
    ) -> Result<(), Failure> {
        accepted(&desk.begin(), None)?;
        if let Some(order) = begin {
            accepted(&desk.carry_out(&order, now()), self.rules.as_deref())?;
        }
        desk.let_in();
        let service = Controlled {
            name: self.name.clone(),
            desk: desk.clone(),
            events,
            figures: figures.clone(),
        };
        let _server = Server::open(&session.run_dir, self.name.as_deref(), Box::new(service))
            .map_err(|error| Failure::from(Diagnostic::of(&error)))?;
        let _publishing = publish::start(figures.meter.clone(), None, session)?;
        session.reporter.say("Ready to go")?;
        let deadline = self.duration.map(|duration| now() + duration.as_nanos() as u64);
        workers.attend(signals, self.period, deadline, |due| match due {
            Due::Interval => session.reporter.interval(&figures.sample(), figures.line()),
            Due::Interim => session.reporter.interim(&figures.sample(), figures.line()),
            Due::Reload => self.reload(session, desk),
        })
    }

    /// Loads the rules file anew; a mistake in it leaves everything as it was.
    fn reload(&self, session: &mut Session<'_>, desk: &Desk) -> Result<(), Failure> {
        let Some(path) = &self.rules else {
            return session.reporter.say("there is no rules file to load: see --rules");
        };
        let loaded =
            read_rules(path).and_then(|order| accepted(&desk.replace(&order, now()), Some(path)));
        match loaded {
            Ok(()) => session.reporter.say(format_args!("{} loaded", path.display())),
            Err(Failure::Error(error)) => session.reporter.warn(error.to_text(false).trim_end()),
            Err(failure) => Err(failure),
        }
    }

    pub(crate) fn firewall(&self, seed: u64) -> Firewall {
        let mut firewall = if self.is_open { Firewall::open(seed) } else { Firewall::new(seed) };
        firewall.set_ports(self.ports.iter().map(rule_name).collect());
        firewall.set_me(self.me.clone());
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

/// The name by which rules know a port: its interface where it is one, else the whole name.
fn rule_name(port: &PortName) -> String {
    if port.kind.names_interface() && port.pipe.is_none() {
        port.name.clone()
    } else {
        port.to_string()
    }
}

/// Reads a rules file, and the profiles that it names.
pub(crate) fn read_rules(path: &Path) -> Result<Order, Failure> {
    let read = |path: &Path| {
        let shown = path.display().to_string();
        crate::ipfw::read_file(&shown).map_err(|fault| {
            Diagnostic::new(SR0201, format!("cannot open {shown}"))
                .with_cause(fault.message)
                .with_help(format!("check the path: ls -l {shown}"))
        })
    };
    let text = read(path)?;
    let mut order = Order { text, is_file: true, ..Order::default() };
    for name in Order::profiles_of(&order.text, true) {
        let text = read(Path::new(&name))?;
        order.profiles.insert(name, text);
    }
    // The desk knows what pipes may hold.
    if let Err(fault) = order.steps(Caps::NONE) {
        accepted(&Outcome { fault: Some(fault), ..Outcome::default() }, Some(path))?;
    }
    Ok(order)
}

/// The words for rules that are not accepted.
fn accepted(outcome: &Outcome, path: Option<&Path>) -> Result<(), Failure> {
    let Some(fault) = &outcome.fault else { return Ok(()) };
    let file = path.map_or_else(String::new, |path| path.display().to_string());
    let error = Diagnostic::new(SR0009, format!("{file}: the rules cannot be loaded"));
    let error = error.with_cause(fault.message.clone());
    Err(match &fault.expected {
        Some(expected) => error.with_help(format!("expected: {expected}")),
        // A trial knows nothing of that.
        None if fault.exit == sysexits::UNAVAILABLE => {
            error.with_help("name what is there: a port of the command line, a table made before")
        }
        None => error.with_help(format!("try it: slipring ipfw -n {file}")),
    }
    .into())
}
