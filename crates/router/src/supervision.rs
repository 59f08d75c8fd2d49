//! The main thread's work during a run: signals, reports, and settings of the kernel that change
//! later.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slipring_cli::{Failure, ReportFormat, Session, Signals, manager};
use slipring_datapath::workers::Workers;
use slipring_fib::FibPortIndex;
use slipring_ring::Doorbell;

use crate::checks::{Obstacle, ObstacleKind};
use crate::compat;
use crate::plan::RoutePlan;
use crate::reload::RouterReload;
use crate::router_figures::RouterFigures;
use crate::routing::RoutingHandle;
use crate::routing_thread::RoutingThread;
use crate::rules::RunningRules;
use crate::run::sample;
use crate::subinterface::SubinterfaceThread;
use crate::watch::BypassWatch;

mod space;

/// Time after which interfaces that did not send the probe's frames are probed again.
const REPROBE_PERIOD: Duration = Duration::from_secs(10);

/// The main thread's view of a run.
pub(crate) struct Supervision<'r> {
    pub(crate) plan: &'r RoutePlan,
    pub(crate) handle: &'r RoutingHandle,
    pub(crate) thread: &'r RoutingThread,
    /// The threads of the engine in user space, if there are any.
    pub(crate) workers: Option<&'r Workers>,
    /// The thread of subinterfaces that the kernel does not have.
    pub(crate) subinterfaces: Option<&'r SubinterfaceThread>,
    pub(crate) watch: &'r BypassWatch,
    pub(crate) rules: Option<&'r RunningRules>,
    pub(crate) reload: &'r RouterReload,
    /// Wakes the main thread: the routing thread, the watch and the thread of subinterfaces ring
    /// it.
    pub(crate) changed: &'r Doorbell,
    /// Names of the interfaces, by port.
    pub(crate) interfaces: Vec<String>,
    /// Takes over from another router once this router is ready to forward. Does nothing if there
    /// is no other router.
    pub(crate) take_over: &'r dyn Fn(&mut Session<'_>) -> Result<(), Failure>,
}

impl Supervision<'_> {
    /// Does the main thread's work until the run is to end.
    pub(crate) fn run(
        &self,
        session: &mut Session<'_>,
        signals: &Signals,
        started: Instant,
    ) -> Result<(), Failure> {
        let deadline = self.plan.duration.map(|duration| started + duration);
        let mut next_report = self.plan.period.map(|period| started + period);
        let mut state = SupervisedState::default();
        while !signals.stopping() && self.is_running() {
            let time = Instant::now();
            if deadline.is_some_and(|deadline| time >= deadline) {
                break;
            }
            if signals.take_interim() {
                self.report(session, started, true)?;
            }
            if signals.take_reload() {
                self.reload(session)?;
            }
            if let (Some(due), Some(period)) = (next_report, self.plan.period)
                && time >= due
            {
                self.report(session, started, false)?;
                next_report = Some(time + period);
            }
            let until = [deadline, next_report, state.next_probe].into_iter().flatten().min();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if self.wait(signals, left) {
                self.changed.clear();
                self.follow_kernel(session, &mut state)?;
                self.follow_addresses(session)?;
                self.probe(session, &mut state)?;
                self.tell_of_refused(session)?;
                self.tell_of_rules(session, &mut state)?;
                self.tell_of_space(session, &mut state)?;
                self.tell_of_deleted(session, &mut state)?;
                self.tell_of_readiness(session, &mut state)?;
            } else if state.next_probe.is_some_and(|due| Instant::now() >= due) {
                self.probe(session, &mut state)?;
            }
        }
        Ok(())
    }

    fn is_running(&self) -> bool {
        let has_ended = self.thread.has_ended()
            || self.subinterfaces.is_some_and(SubinterfaceThread::has_ended);
        !has_ended && self.workers.is_none_or(Workers::is_running)
    }

    fn is_forwarding(&self) -> bool {
        // Interfaces that are not probed yet get no packets, so the router is not ready. `changed`
        // has already rung for them: they are probed, and then this check follows again.
        let workers = self.handle.ask(|routing| {
            let is_ready = routing.has_current_tables() && !routing.has_unprobed();
            is_ready.then(|| routing.workers.clone())
        });
        let Some(workers) = workers.flatten() else { return false };
        // A worker answers only after it has applied the tables and written its heartbeat.
        workers.iter().all(|worker| worker.ask(|_| ()).is_some())
    }

    fn report(
        &self,
        session: &mut Session<'_>,
        started: Instant,
        interim: bool,
    ) -> Result<(), Failure> {
        let Some(figures) = RouterFigures::ask(self.handle) else {
            return Ok(());
        };
        let (sample, line) = (sample(&figures, started.elapsed()), figures.line());
        match interim {
            true => session.reporter.interim(&sample, line),
            false => session.reporter.interval(&sample, line),
        }
    }

    /// Reads the files of the run again. An error does not end the run.
    fn reload(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        match self.reload.run() {
            Ok(read) => {
                read.warnings.iter().try_for_each(|warning| session.reporter.warn(warning))?;
                let mut files = read.files.iter();
                files.try_for_each(|file| {
                    session.reporter.say(format_args!("{} was read again", file.display()))
                })
            }
            Err(Failure::Error(error)) => {
                session.reporter.report_error(&error);
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    /// Updates the rules that name `me` with the interfaces' present addresses.
    fn follow_addresses(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        let tables =
            self.rules.and_then(|_| self.handle.ask(|routing| routing.tables().cloned()).flatten());
        let Some((rules, tables)) = self.rules.zip(tables) else { return Ok(()) };
        match rules.follow_addresses(&tables) {
            Ok(()) => Ok(()),
            Err(cause) => {
                session.reporter.warn(format_args!("rules do not know the new addresses: {cause}"))
            }
        }
    }

    /// Waits for an event, or for `time`. Returns whether the doorbell has rung.
    fn wait(&self, signals: &Signals, time: Option<Duration>) -> bool {
        let timeout = time.map(|time| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: time.subsec_nanos().into(),
        });
        let ended = self.thread.ended();
        let fds = [
            signals.wake_fd(),
            ended,
            self.changed.as_fd(),
            self.workers.map_or(ended, Workers::ended),
        ];
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // Even if a signal interrupted the poll, the caller checks all conditions.
        let _ = poll(&mut fds, timeout.as_ref());
        signals.acknowledge();
        !fds[2].revents().is_empty()
    }

    /// Finds out whether interfaces send redirected frames. Probes interfaces that have come up
    /// and, after [`REPROBE_PERIOD`], those that sent no frames. The main thread does this because
    /// a probe takes some tenths of a second.
    fn probe(&self, session: &mut Session<'_>, state: &mut SupervisedState) -> Result<(), Failure> {
        let is_due = state.next_probe.is_some_and(|due| Instant::now() >= due);
        let again = if is_due { state.silent.clone() } else { Vec::new() };
        for probe in self.handle.ask(|routing| routing.take_probes(again)).unwrap_or_default() {
            let port = probe.port;
            let name = &self.interfaces[usize::from(port.0)];
            // An interface that no longer exists sends nothing.
            let sends = probe.sends().unwrap_or_default();
            self.handle.tell(move |routing| routing.note_probe(port, sends));
            let was_silent = state.silent.contains(&port);
            if sends && was_silent {
                state.silent.retain(|silent| *silent != port);
                session.reporter.say(format_args!("{name}: sends what XDP redirects to it"))?;
            } else if !sends && !was_silent {
                state.silent.push(port);
                session.reporter.warn(format_args!(
                    "{name} drops what XDP redirects to it, so packets for it are left to the kernel; \
                     for veth, switch GRO on at the other end: ethtool -K PEER gro on"
                ))?;
            }
        }
        if is_due || state.next_probe.is_none() {
            state.next_probe = Some(Instant::now() + REPROBE_PERIOD);
        }
        if state.silent.is_empty() {
            state.next_probe = None;
        }
        Ok(())
    }

    /// Warns about interfaces in generic mode that refuse frames from programs in native mode.
    fn tell_of_refused(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        let refused = self.handle.ask(|routing| std::mem::take(&mut routing.refused));
        for port in refused.unwrap_or_default() {
            session.reporter.warn(format_args!(
                "{} takes no packets from XDP in a driver, so packets for it are left to the kernel; \
                 start with --io xdp-generic to forward all in the stack",
                self.interfaces[usize::from(port.0)]
            ))?;
        }
        Ok(())
    }

    /// When the router is ready for the first time, takes over from another router if there is one,
    /// and tells the user that this router forwards.
    fn tell_of_readiness(
        &self,
        session: &mut Session<'_>,
        state: &mut SupervisedState,
    ) -> Result<(), Failure> {
        if !state.is_ready && self.is_forwarding() {
            state.is_ready = true;
            (self.take_over)(session)?;
            if self.plan.compat.is_some() && session.reporter.format() == ReportFormat::Text {
                let listing = self.handle.ask(compat::interfaces).unwrap_or_default();
                session.reporter.raw(listing.as_bytes())?;
            }
            session.reporter.say("forwarding")?;
            manager::ready(session)?;
        }
        Ok(())
    }

    /// If there is a new obstacle to forwarding on an interface, such as a stage of the kernel that
    /// packets would bypass, leaves the interface to the kernel as long as the obstacle exists.
    /// Informs the user of each change.
    fn follow_kernel(
        &self,
        session: &mut Session<'_>,
        state: &mut SupervisedState,
    ) -> Result<(), Failure> {
        let new = self.not_accepted();
        if new == state.obstacles {
            return Ok(());
        }
        let left: Vec<bool> = self.interfaces.iter().map(|name| concerns(&new, name)).collect();
        let wanted = left.clone();
        // The interfaces are left to the kernel before the user is informed, because a blocked
        // output must not delay this.
        self.handle.tell(move |routing| routing.leave(&wanted));
        for found in &new {
            session.reporter.warn(format_args!("{}; see {}", found.what, found.show))?;
        }
        for (name, is_left) in self.interfaces.iter().zip(&left) {
            let by = if *is_left { "the kernel" } else { "the router" };
            session.reporter.say(format_args!("{name}: packets are forwarded by {by}"))?;
        }
        state.obstacles = new;
        Ok(())
    }

    /// Returns the obstacles to forwarding in XDP, without those that the user has accepted.
    fn not_accepted(&self) -> Vec<Obstacle> {
        let is_accepted = |found: &Obstacle| match found.kind {
            ObstacleKind::Bypass => self.plan.bypass,
            ObstacleKind::ForwardingOff => self.plan.no_fallback,
        };
        self.watch.latest().into_iter().filter(|found| !is_accepted(found)).collect()
    }

    /// Tells the user of interfaces whose packets are left to the kernel's routing rules.
    fn tell_of_rules(
        &self,
        session: &mut Session<'_>,
        state: &mut SupervisedState,
    ) -> Result<(), Failure> {
        let Some(ruled) = self.handle.ask(|routing| routing.ruled.clone()) else { return Ok(()) };
        if ruled == state.ruled || (state.ruled.is_empty() && !ruled.contains(&true)) {
            return Ok(());
        }
        for (name, is_ruled) in self.interfaces.iter().zip(&ruled) {
            let by =
                if *is_ruled { "the kernel, for rules that ip rule shows" } else { "the router" };
            session.reporter.say(format_args!("{name}: arriving packets are forwarded by {by}"))?;
        }
        state.ruled = ruled;
        Ok(())
    }
}

impl Supervision<'_> {
    /// Tells the user of deleted interfaces.
    fn tell_of_deleted(
        &self,
        session: &mut Session<'_>,
        state: &mut SupervisedState,
    ) -> Result<(), Failure> {
        let Some(deleted) = self.handle.ask(|routing| routing.deleted.clone()) else {
            return Ok(());
        };
        for (at, name) in self.interfaces.iter().enumerate().filter(|(at, _)| deleted[*at]) {
            if !state.deleted.get(at).copied().unwrap_or_default() {
                session.reporter.warn(format_args!(
                    "{name} was deleted: packets of a new interface of this name are left to the \
                     kernel; start the router again to use it"
                ))?;
            }
        }
        state.deleted = deleted;
        Ok(())
    }
}

/// The conditions of which the user has been informed.
#[derive(Default)]
pub(crate) struct SupervisedState {
    is_ready: bool,
    obstacles: Vec<Obstacle>,
    /// Interfaces that do not send redirected frames.
    silent: Vec<FibPortIndex>,
    /// When the interfaces in `silent` are probed again.
    next_probe: Option<Instant>,
    /// Indexed by port, like [`Routing::ruled`](crate::routing::Routing::ruled).
    ruled: Vec<bool>,
    /// How often routes, neighbours and the like had found no space in the tables when the user was
    /// last informed of this.
    unplaced: u64,
    /// Indexed by port, like [`Routing::deleted`](crate::routing::Routing::deleted).
    deleted: Vec<bool>,
}

fn concerns(found: &[Obstacle], name: &str) -> bool {
    found.iter().any(|found| found.interface.as_ref().is_none_or(|of| of == name))
}
