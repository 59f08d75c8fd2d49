//! The running router, which can be taken over.

use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Map, Value, json};
use slipring_control::ControlRefusal;
use slipring_port::{SocketRing, now, packet};

use super::channel::Channel;
use super::protocol::{HandedOver, OfferMessage, Predecessor, hand_over, turn_away};
use super::{TAKEOVER_VERSION, queues_of, settings_of};
use crate::drain::DrainGoal;
use crate::plan::RoutePlan;
use crate::queue_gate::QueueGate;
use crate::router_figures::RouterFigures;
use crate::routing::RoutingHandle;
use crate::rules::RunningRules;
use crate::service::terminate;
use crate::subinterface::{SubinterfaceHandle, SubinterfaceState};
use crate::worker::{DRAIN_LIMIT, SEND_LIMIT, WorkerLink};

/// Why a router that is about to end cannot be taken over.
const ENDS: &str = "it ends";

/// The parts of a run that a takeover uses.
pub(crate) struct TakeoverService {
    plan: RoutePlan,
    routing: RoutingHandle,
    rules: Option<Arc<RunningRules>>,
    /// The subinterfaces that the router has made.
    own: Option<SubinterfaceHandle>,
    phase: Mutex<TakeoverPhase>,
    /// Notified when a takeover has succeeded or failed.
    is_over: Condvar,
}

/// The state of a run as regards takeovers.
#[derive(Default)]
struct TakeoverPhase {
    /// The connection to the router that takes over; `None` if there is none.
    serving: Option<UnixStream>,
    /// Whether the run ends. No router can take over then.
    ends: bool,
    /// Whether a successor forwards.
    is_handed_over: bool,
}

impl TakeoverPhase {
    /// Why no other router can take over now, as text.
    fn obstacle(&self) -> Option<&'static str> {
        match self.serving {
            _ if self.ends => Some(ENDS),
            Some(_) if !self.is_abandoned() => Some("another router is taking over"),
            _ => None,
        }
    }

    /// Whether the router that was taking over has ended. Its takeover is over soon.
    fn is_abandoned(&self) -> bool {
        self.serving.as_ref().is_some_and(|stream| {
            let mut fds = [PollFd::new(stream, PollFlags::empty())];
            let is_polled = poll(&mut fds, Some(&Timespec::default())).is_ok();
            is_polled && fds[0].revents().contains(PollFlags::HUP)
        })
    }
}

/// The right to be the only takeover, until it is dropped.
struct TakeoverClaim<'s>(&'s TakeoverService);

impl Drop for TakeoverClaim<'_> {
    fn drop(&mut self) {
        self.0.phase().serving = None;
        self.0.is_over.notify_all();
    }
}

impl TakeoverService {
    pub(crate) fn new(
        plan: RoutePlan,
        routing: RoutingHandle,
        rules: Option<Arc<RunningRules>>,
        own: Option<SubinterfaceHandle>,
    ) -> Self {
        Self { plan, routing, rules, own, phase: Mutex::default(), is_over: Condvar::new() }
    }

    /// What a router needs to know before it requests a takeover: the subinterfaces that this
    /// router has made, its engine, and whether its threads forward.
    pub(crate) fn query(&self) -> Value {
        let own = self.own.iter().flat_map(|own| &own.devices).map(|it| &it.name);
        json!({
            "subinterfaces": own.collect::<Vec<_>>(),
            "io": self.plan.io.name(),
            "threads": self.routing.ask(|routing| !routing.workers.is_empty()),
        })
    }

    /// Checks whether the requesting router can take over.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) fn check(&self, args: &Map<String, Value>) -> Result<Value, ControlRefusal> {
        let version = (args.get("version").and_then(Value::as_str), args.get("protocol"));
        let own = (Some(env!("CARGO_PKG_VERSION")), Some(&json!(TAKEOVER_VERSION)));
        if version != own {
            return Err(self.refusal(&other_version(version), true));
        }
        let known = self.routing.ask(|routing| {
            let ifaces = || routing.engine.interfaces().iter().map(|of| &of.iface);
            let names = ifaces().map(|iface| iface.name.clone()).collect::<Vec<_>>();
            (names, ifaces().map(|iface| iface.index).collect::<Vec<_>>(), queues_of(ifaces()))
        });
        let Some((names, indexes, queues)) = known else { return Err(self.refusal_for_now(ENDS)) };
        for (name, value) in settings_of(&self.plan, names.iter().map(String::as_str).collect()) {
            let asked = args.get(name).unwrap_or(&Value::Null);
            if *asked != value {
                return Err(
                    self.refusal(&format!("it has {name} {value}, the new one {asked}"), false)
                );
            }
        }
        if args.get("ifindexes") != Some(&json!(indexes)) {
            let cause = "its interfaces were deleted, and others have their names";
            return Err(self.refusal(cause, true));
        }
        let asked = args.get("queues").unwrap_or(&Value::Null);
        if *asked != queues {
            let cause = format!(
                "its interfaces had other numbers of queues when it was started, [receive, send]: \
                 {queues}, and have {asked} now"
            );
            return Err(self.refusal(&cause, true));
        }
        // Another successor may claim the takeover between this check and the claim. The protocol
        // then refuses the later one.
        if let Some(obstacle) = self.phase().obstacle() {
            return Err(self.refusal_for_now(obstacle));
        }
        Ok(json!({ "pid": std::process::id() }))
    }

    fn refusal_for_now(&self, obstacle: &str) -> ControlRefusal {
        ControlRefusal {
            help: Some("wait until that is over: slipring route ctl status".to_owned()),
            ..self.refusal(obstacle, false)
        }
    }

    fn refusal(&self, cause: &str, needs_restart: bool) -> ControlRefusal {
        let name =
            self.plan.name.as_deref().map_or(String::new(), |name| format!(" --name {name}"));
        let help = match needs_restart {
            true => format!(
                "end it, and start again without --takeover: slipring route ctl shutdown{name}"
            ),
            false => format!(
                "use its settings, or end it and start again without --takeover: \
                 slipring route ctl shutdown{name}"
            ),
        };
        ControlRefusal {
            code: "SR0003".to_owned(),
            summary: "the running router cannot be taken over".to_owned(),
            cause: Some(cause.to_owned()),
            help: Some(help),
        }
    }

    /// Serves a router that takes over. Returns when the takeover has succeeded or failed.
    pub(crate) fn serve(&self, stream: &UnixStream) {
        let Ok(own) = stream.try_clone() else { return };
        let mut channel = Channel::new(own);
        let _claim = match self.claim(stream) {
            Ok(claim) => claim,
            Err(why) => {
                turn_away(&mut channel, &why);
                return;
            }
        };
        let workers = self.routing.ask(|routing| routing.workers.clone()).unwrap_or_default();
        let gates = workers.iter().flat_map(WorkerLink::gates).cloned().collect();
        let mut router = HandingOverRouter { service: self, workers, gates };
        match hand_over(&mut channel, &mut router) {
            HandedOver::Yes => {
                // A successor that opens its interfaces after this router's end changes the
                // settings itself.
                if !router.ends_first() {
                    self.routing.ask(|routing| routing.engine.keep_settings());
                }
                let mut phase = self.phase();
                (phase.ends, phase.is_handed_over) = (true, true);
                drop(phase);
                terminate();
            }
            HandedOver::No(why) => {
                self.routing.ask(move |routing| routing.events.note_failed_takeover(&why));
            }
        }
    }

    /// Claims the takeover for this connection, so that no other router can take over. Before that,
    /// waits until the takeover of a router that has ended is over.
    ///
    /// # Errors
    /// Why a takeover is not possible now, as text.
    fn claim(&self, stream: &UnixStream) -> Result<TakeoverClaim<'_>, String> {
        let phase = self.is_over.wait_while(self.phase(), |phase| phase.is_abandoned());
        let mut phase = phase.unwrap_or_else(PoisonError::into_inner);
        match phase.obstacle() {
            Some(obstacle) => Err(obstacle.to_owned()),
            None => {
                phase.serving = Some(stream.try_clone().map_err(|error| error.to_string())?);
                Ok(TakeoverClaim(self))
            }
        }
    }

    /// Ends a takeover in progress: gives it up, unless the successor already forwards. Waits until
    /// the takeover is over, and returns whether a successor forwards. From this call on, no router
    /// can take over.
    pub(crate) fn end(&self) -> bool {
        let mut phase = self.phase();
        phase.ends = true;
        if let Some(stream) = &phase.serving {
            // Messages that the successor has already sent are still read. If the connection is
            // gone, the takeover ends as well.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let over = self.is_over.wait_while(phase, |phase| phase.serving.is_some());
        over.unwrap_or_else(PoisonError::into_inner).is_handed_over
    }

    /// A poisoned lock can be ignored: no change can fail in the middle.
    fn phase(&self) -> MutexGuard<'_, TakeoverPhase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running router, during a takeover.
struct HandingOverRouter<'s> {
    service: &'s TakeoverService,
    workers: Vec<WorkerLink>,
    gates: Vec<Arc<QueueGate>>,
}

/// Says what differs between this program and a successor of another version: its version and the
/// version of its takeover protocol are given.
fn other_version((version, protocol): (Option<&str>, Option<&Value>)) -> String {
    let own = env!("CARGO_PKG_VERSION");
    match (version, protocol.and_then(Value::as_u64)) {
        (Some(version), Some(protocol)) if version == own => format!(
            "it has version {TAKEOVER_VERSION} of the takeover protocol, the new one {protocol}"
        ),
        (Some(version), None) if version == own => {
            format!("it has version {TAKEOVER_VERSION} of the takeover protocol, the new one none")
        }
        (version, _) => format!("it has version {own}, the new one {}", version.unwrap_or("none")),
    }
}

impl HandingOverRouter<'_> {
    /// Whether this router must end before the successor opens its sockets, because some of the
    /// workers' sockets cannot be handed over. The kernel forwards in between.
    fn ends_first(&self) -> bool {
        !self.workers.is_empty() && self.gates.iter().any(|gate| gate.socket().is_none())
    }

    /// Returns the sockets of each interface, by queue.
    ///
    /// # Errors
    /// The system's error, if this process has too many open descriptors.
    fn sockets(&self) -> std::io::Result<Vec<Vec<(OwnedFd, SocketRing)>>> {
        let count = self.service.routing.ask(|routing| routing.engine.interfaces().len());
        let mut all: Vec<Vec<_>> = (0..count.unwrap_or_default()).map(|_| Vec::new()).collect();
        let mut gates: Vec<_> = self.gates.iter().collect();
        gates.sort_by_key(|gate| (gate.interface, gate.number));
        for gate in gates {
            if let Some((socket, ring)) = gate.socket() {
                all[gate.interface].push((socket.try_clone()?, ring));
            }
        }
        Ok(all)
    }

    /// Waits until the workers have forwarded all frames that they had taken, and then for a moment
    /// until these frames have left the tx rings.
    fn drain(&self) -> Result<(), String> {
        let own = self.service.own.as_ref();
        let reach = |goal, limit| own.is_none_or(|own| own.reach(goal, limit));
        let is_drained = WorkerLink::drain_all(&self.workers);
        if !is_drained || !reach(DrainGoal::Processed, DRAIN_LIMIT) {
            return Err("its threads have not forwarded what they had taken within a second".into());
        }
        WorkerLink::send_all(&self.workers);
        reach(DrainGoal::Sent, SEND_LIMIT);
        Ok(())
    }

    /// Returns the document and the descriptors of the subinterfaces.
    fn offer_of_subinterfaces(&self) -> Result<(Value, Vec<OwnedFd>), String> {
        let own = self.service.own.clone().unwrap_or_default();
        own.offer().map_err(|error| error.to_string())
    }

    fn state_of_subinterfaces(&self) -> Result<SubinterfaceState, String> {
        let Some(own) = &self.service.own else { return Ok(SubinterfaceState::default()) };
        let ifindexes = self.service.routing.ask(|routing| routing.ifindexes().collect::<Vec<_>>());
        own.state(&ifindexes.unwrap_or_default())
    }

    fn run_programs(&self, programs: Option<Vec<OwnedFd>>) -> Result<(), String> {
        let gates = self.gates.clone();
        let set_filter = move |interface: usize, queue: usize, program: OwnedFd| {
            let mut of = gates.iter().filter(|it| (it.interface, it.number) == (interface, queue));
            match of.next().and_then(|gate| gate.socket()) {
                Some((socket, _)) => packet::set_filter(socket.as_fd(), program.as_fd()),
                None => Ok(()),
            }
        };
        let run = self.service.routing.ask(|it| it.engine.run_programs(programs, set_filter));
        let run = run.unwrap_or_else(|| Err(std::io::ErrorKind::NotConnected.into()));
        run.map_err(|error| format!("the kernel does not exchange the programs: {error}"))
    }
}

impl Predecessor for HandingOverRouter<'_> {
    fn offer(&mut self) -> Result<OfferMessage, String> {
        let (own, mut fds_of_own) = self.offer_of_subinterfaces()?;
        if self.ends_first() {
            let document = json!({ "step": "offer", "ends_first": true, "subinterfaces": own });
            return Ok(OfferMessage { document, fds: fds_of_own });
        }
        let sockets = self.sockets().map_err(|error| error.to_string())?;
        let offer = self.service.routing.ask(move |routing| routing.engine.offer(&sockets));
        let offer = offer.unwrap_or_else(|| Err(std::io::ErrorKind::NotConnected.into()));
        let (engine, mut fds) = offer.map_err(|error| error.to_string())?;
        fds.append(&mut fds_of_own);
        let document = json!({ "step": "offer", "engine": engine, "subinterfaces": own });
        Ok(OfferMessage { document, fds })
    }

    fn release(&mut self, programs: Vec<OwnedFd>) -> Result<Value, String> {
        if self.ends_first() {
            self.service.routing.ask(|routing| drop(routing.engine.stop()));
        } else {
            self.gates.iter().for_each(|gate| gate.close());
        }
        self.service.own.iter().for_each(SubinterfaceHandle::close_gates);
        self.workers.iter().for_each(WorkerLink::wake);
        self.drain()?;
        let mut positions = Vec::new();
        if !self.ends_first() {
            for gate in &self.gates {
                let position = gate.position().ok_or("a thread does not leave its socket")?;
                positions.push(json!([gate.interface, gate.number, position]));
            }
            self.run_programs(Some(programs))?;
        }
        let own = self.state_of_subinterfaces()?;
        let states = self.service.rules.as_ref().map(|rules| rules.states(now())).transpose()?;
        // If the wait fails, the counters may lack a few packets.
        self.service.routing.ask(|routing| drop(routing.engine.wait_for_programs()));
        let counters = RouterFigures::ask(&self.service.routing);
        Ok(json!({
            "positions": positions, "states": states, "counters": counters, "subinterfaces": own,
        }))
    }

    fn resume(&mut self) {
        if self.ends_first() {
            self.service.routing.ask(|routing| routing.engine.go_on());
        } else {
            // An error is ignored: if the kernel refuses to run a program of this router now,
            // another attempt would fail as well.
            let _ = self.run_programs(None);
            self.gates.iter().for_each(|gate| gate.reopen());
        }
        self.service.own.iter().for_each(SubinterfaceHandle::reopen_gates);
        self.workers.iter().for_each(WorkerLink::wake);
    }
}
