//! The router that takes over from a running router.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::channel::Channel;
use super::predecessor::{RunningPredecessor, refused};
use super::protocol::{receive_offer, take_over};
use super::{TAKEOVER_VERSION, queues_of, settings_of};
use crate::checks::{self, Obstacle};
use crate::inherited_figures::InheritedFigures;
use crate::plan::RoutePlan;
use crate::resident::{self, EngineOffer};
use crate::routing::RoutingHandle;
use crate::rules::RunningRules;
use crate::start;
use crate::subinterface::{
    OwnSubinterface, SubinterfaceHandle, SubinterfaceOffer, SubinterfaceState,
};
use crate::worker::WorkerLink;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};
use serde::Deserialize;
use serde_json::{Map, Value};
use slipring_cli::codes::{SR0114, SR0405};
use slipring_cli::{Diagnostic, Failure, Session};
use slipring_port::iface::Iface;

/// Maximum time that the previous router may take to end. In this time, it forwards the frames that
/// its threads have taken, and removes its files.
const END_LIMIT: Duration = Duration::from_secs(10);

/// The connection to the router that forwards until this router takes over.
pub(crate) struct Successor {
    channel: Channel,
    pid: u32,
    /// A pidfd, which becomes readable when the previous router has ended.
    process: OwnedFd,
}

/// The conditions under which a run begins.
pub(crate) struct TakeoverStart {
    /// The obstacles that the checks have found, such as stages of the kernel that packets would
    /// bypass.
    pub(crate) found: Vec<Obstacle>,
    /// The state of a previous router that has already ended. The kernel forwards until this router
    /// does. Empty without such a router.
    pub(crate) handed: HandedState,
    /// A router that forwards until [`Successor::commit`], and its offer; `None` if there is no
    /// such router.
    pub(crate) offered: Option<(Successor, EngineOffer)>,
    /// The sockets and devices of the previous router's subinterfaces. Empty without such a router.
    pub(crate) subinterfaces: SubinterfaceOffer,
}

/// The state that the previous router handed over when it stopped.
#[derive(Default)]
pub(crate) struct HandedState {
    /// The ring positions at which it stopped reading: interface, queue number, position.
    positions: Vec<(usize, usize, u32)>,
    /// The states of its rules, as commands; `None` without rules.
    states: Option<String>,
    /// Its counters, with those of its own predecessors.
    pub(crate) counters: InheritedFigures,
    subinterfaces: SubinterfaceState,
}

impl HandedState {
    fn read(state: &Value) -> Option<Self> {
        let position = |of: &Value| {
            let number = |at: usize| usize::try_from(of[at].as_u64()?).ok();
            Some((number(0)?, number(1)?, u32::try_from(of[2].as_u64()?).ok()?))
        };
        let positions =
            state["positions"].as_array()?.iter().map(position).collect::<Option<_>>()?;
        Some(Self {
            positions,
            states: state["states"].as_str().map(str::to_owned),
            counters: InheritedFigures::read(&state["counters"]).unwrap_or_default(),
            subinterfaces: SubinterfaceState::deserialize(&state["subinterfaces"]).ok()?,
        })
    }

    /// Makes the subinterfaces go on with the sockets, devices and neighbours of a previous router
    /// that has ended. Returns a warning if the frames of some do not arrive.
    pub(crate) fn begin_subinterfaces(self, handle: &RoutingHandle) -> Option<String> {
        let (own, ifindexes, workers) = parts_of_subinterfaces(handle)?;
        own.learn(&self.subinterfaces);
        begin(&own, self.subinterfaces, &ifindexes, &workers)
    }

    /// Gives the rules the states that the previous router had for them. Returns warnings about
    /// states whose rule no longer exists.
    ///
    /// # Errors
    /// If the threads have ended.
    pub(crate) fn restore_states(&self, rules: Option<&RunningRules>) -> io::Result<Vec<String>> {
        match rules.zip(self.states.as_deref()) {
            Some((rules, states)) => rules.restore_states(states).map_err(io::Error::other),
            None => Ok(Vec::new()),
        }
    }
}

impl RoutePlan {
    /// Checks the conditions that must hold before a packet is forwarded. For a takeover, also
    /// finds the running router and requests its offer. If that router must end before this one
    /// opens its sockets, makes it end now.
    ///
    /// # Errors
    /// If a check fails, if no router runs, or if the running router has other settings or refuses.
    pub(crate) fn begin_takeover(
        &self,
        running: Option<RunningPredecessor>,
        (ifaces, own): (&[Iface], &[OwnSubinterface]),
        session: &mut Session<'_>,
    ) -> Result<TakeoverStart, Failure> {
        let alone = |found| TakeoverStart {
            found,
            handed: HandedState::default(),
            offered: None,
            subinterfaces: SubinterfaceOffer::default(),
        };
        let Some(running) = running else {
            return Ok(alone(start::check(self, ifaces, 0)?));
        };
        let mut successor = self.connect(running, ifaces)?;
        let offer = receive_offer(&mut successor.channel).map_err(|error| failed(&error))?;
        let invalid = || failed(&io::ErrorKind::InvalidData.into());
        let (document, mut fds) = (offer.document, offer.fds.into_iter());
        let ends_first = document["ends_first"] == true;
        let engine = match ends_first {
            true => None,
            false => Some(EngineOffer::read(&document["engine"], &mut fds).ok_or_else(invalid)?),
        };
        let subinterfaces = SubinterfaceOffer::read(&document["subinterfaces"], &mut fds);
        let mut subinterfaces = subinterfaces.ok_or_else(invalid)?;
        subinterfaces.keep(own);
        if let Some(parent) = subinterfaces.changed_parent(own) {
            let why = format!("{parent} had another number of receive queues when it was started");
            return Err(self.cannot_be_taken_over(&why).into());
        }
        let Some(engine) = engine else {
            let found = start::check(self, ifaces, 0)?;
            resident::try_to_load()?;
            let handed = successor.let_end(session)?;
            return Ok(TakeoverStart { handed, subinterfaces, ..alone(found) });
        };
        if !engine.fits(ifaces) {
            return Err(invalid());
        }
        let found = start::check(self, ifaces, engine.tcx_programs())?;
        let offered = Some((successor, engine));
        Ok(TakeoverStart { offered, subinterfaces, ..alone(found) })
    }

    fn connect(&self, running: RunningPredecessor, ifaces: &[Iface]) -> Result<Successor, Failure> {
        let mut client = running.client;
        let names = ifaces.iter().map(|iface| iface.name.as_str()).collect();
        let settings = settings_of(self, names).into_iter();
        let mut args: Map<String, Value> =
            settings.map(|(name, value)| (name.to_owned(), value)).collect();
        args.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
        args.insert("ifindexes".to_owned(), ifaces.iter().map(|iface| iface.index).collect());
        args.insert("queues".to_owned(), queues_of(ifaces.iter()));
        args.insert("protocol".to_owned(), TAKEOVER_VERSION.into());
        let answer = client.request("takeover", Value::Object(args)).map_err(refused)?;
        let stream = client.into_stream().map_err(refused)?;
        let (pid, process) = process_of(&stream, &answer).map_err(|error| failed(&error))?;
        Ok(Successor { channel: Channel::new(stream), pid, process })
    }
}

impl Successor {
    /// Makes the previous router end before this router opens its sockets, because both routers
    /// need the same queues. Returns the state that the previous router has handed over.
    fn let_end(mut self, session: &mut Session<'_>) -> Result<HandedState, Failure> {
        let missing = checks::missing_forwarding();
        if !missing.is_empty() {
            return Err(would_lose(&missing).into());
        }
        session.reporter.warn(
            "the kernel forwards until this router has its own AF_XDP sockets, without rules, and \
             packets may overtake others",
        )?;
        let state = self.take(&[], |_| Ok(()))?;
        match self.wait_for_end() {
            true => Ok(state),
            false => Err(failed(&io::ErrorKind::TimedOut.into())),
        }
    }

    /// Sends this router's programs to the previous router, and receives the previous router's
    /// state. `prepare` gets the state before this router takes over.
    fn take(
        &mut self,
        programs: &[OwnedFd],
        prepare: impl FnOnce(&HandedState) -> io::Result<()>,
    ) -> Result<HandedState, Failure> {
        let programs: Vec<_> = programs.iter().map(AsFd::as_fd).collect();
        let mut handed = HandedState::default();
        let taken = take_over(&mut self.channel, &programs, |state| {
            handed = HandedState::read(state).ok_or(io::ErrorKind::InvalidData)?;
            prepare(&handed)
        });
        taken.map_err(|error| failed(&error))?;
        Ok(handed)
    }

    /// Takes over when this router is ready to forward. After a successful return, it forwards.
    /// Returns warnings.
    ///
    /// # Errors
    /// If the previous router does not hand over, or has ended. This router has then taken no
    /// frames.
    pub(crate) fn commit(
        &mut self,
        handle: &RoutingHandle,
        rules: Option<&RunningRules>,
    ) -> Result<Vec<String>, Failure> {
        let parts = handle.ask(|it| Ok((it.engine.programs()?, it.workers.clone())));
        let parts = parts.unwrap_or_else(|| Err(io::Error::from(io::ErrorKind::NotConnected)));
        let (programs, workers) = parts.map_err(|error| failed(&error))?;
        let mut warnings = Vec::new();
        let own = parts_of_subinterfaces(handle);
        let handed = self.take(&programs, |handed| {
            if let Some((own, ..)) = &own {
                own.fits(&handed.subinterfaces).then_some(()).ok_or(io::ErrorKind::InvalidData)?;
                own.learn(&handed.subinterfaces);
            }
            warnings = handed.restore_states(rules)?;
            let counters = handed.counters.clone();
            handle.ask(move |routing| {
                routing.engine.begin_counting();
                routing.inherited = counters;
            });
            Ok(())
        })?;
        handle.ask(|routing| routing.engine.inherit_settings());
        handed.positions.iter().for_each(|at| open_gate(&workers, *at));
        if let Some((own, ifindexes, workers)) = own {
            warnings.extend(begin(&own, handed.subinterfaces, &ifindexes, &workers));
        }
        workers.iter().for_each(WorkerLink::begin);
        Ok(warnings)
    }

    /// Process ID of the previous router.
    pub(crate) const fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the previous router has ended, so that its name, sockets and ports are free.
    /// Returns whether it has ended within [`END_LIMIT`].
    pub(crate) fn wait_for_end(&self) -> bool {
        let end = Instant::now() + END_LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let mut fds = [PollFd::new(&self.process, PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Err(rustix::io::Errno::INTR) => {}
                ready => return ready.is_ok_and(|ready| ready > 0),
            }
        }
    }
}

/// Returns the process ID of the peer, and a pidfd. The ID is from the kernel, and the peer's
/// answer must contain the same ID.
///
/// # Errors
/// If the peer is in another PID namespace, where its end cannot be observed; or the system's
/// error.
fn process_of(stream: &UnixStream, answer: &Value) -> io::Result<(u32, OwnedFd)> {
    let process = socket_peercred(stream)?.pid;
    let pid = process.as_raw_pid() as u32;
    // For a process in another PID namespace, the kernel returns 0. No process has this ID, so it
    // differs from the ID in the answer.
    if answer["pid"].as_u64() != Some(pid.into()) {
        return Err(io::Error::other("it is in another PID namespace: its end cannot be seen"));
    }
    Ok((pid, pidfd_open(process, PidfdFlags::empty())?))
}

fn open_gate(workers: &[WorkerLink], (interface, number, position): (usize, usize, u32)) {
    let mut gates = workers.iter().flat_map(WorkerLink::gates);
    let gate = gates.find(|gate| (gate.interface, gate.number) == (interface, number));
    if let Some(gate) = gate {
        gate.open_at(position);
    }
}

/// The subinterfaces, the interface of each port, and the threads that forward. `None` without
/// subinterfaces that this router makes.
fn parts_of_subinterfaces(
    handle: &RoutingHandle,
) -> Option<(SubinterfaceHandle, Vec<u32>, Vec<WorkerLink>)> {
    handle.ask(|routing| {
        let own = routing.subinterfaces.clone()?;
        Some((own, routing.ifindexes().collect(), routing.workers.clone()))
    })?
}

fn begin(
    own: &SubinterfaceHandle,
    state: SubinterfaceState,
    ifindexes: &[u32],
    workers: &[WorkerLink],
) -> Option<String> {
    let hand = |thread: usize, packet| {
        if let Some(worker) = workers.get(thread % workers.len().max(1)) {
            worker.tell(|worker| worker.hand(packet));
        }
    };
    let begun = own.begin(state, ifindexes, hand);
    workers.iter().for_each(WorkerLink::wake);
    begun.err().map(|error| format!("frames of some VLANs do not arrive: {error}"))
}

pub(super) fn failed(error: &io::Error) -> Failure {
    Diagnostic::new(SR0405, "the running router does not hand over")
        .with_cause(error.to_string())
        .with_help("see whether it still runs: slipring route ctl status")
        .with_note("without one, start without --takeover")
        .into()
}

fn would_lose(missing: &[String]) -> Diagnostic {
    Diagnostic::new(SR0114, "packets would be lost while no router has sockets")
        .with_cause(
            "with AF_XDP sockets, the kernel forwards in between, and its forwarding is off",
        )
        .with_help(missing.join("\n"))
        .with_note("with --io packet, the new router goes on with the sockets of the running one")
}
