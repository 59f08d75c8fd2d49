//! The engine in user space: threads that forward what XDP programs hand over to AF_XDP sockets.
//!
//! ```text
//!   rx queue i of each interface --> turn.rs: RouteEngine, up to 64 frames at a time
//!                                      |-- forward, ICMP errors, fragments --> tx queue of the egress
//!                                      |-- kernel: punt.rs, limited by class --> received by the
//!                                      |                                         real interface
//!                                      |-- hold: held.rs --> the routing thread asks the kernel
//!                                      '-- another worker's, by the rules: handover.rs
//!   routing thread --tables--> WorkerLink --> run_tasks          and tells by the next tables
//! ```
//!
//! Worker `w` of `n` owns the queues `q` of every interface with `q mod n = w`: it receives from all of
//! them, and sends by queue `w`. Buffers of all queues are in one region, so that a packet is forwarded
//! by an exchange of buffers.
//!
//! # Invariants
//! 1. The heartbeat of a queue is written by its worker, and is never later than the time up to which
//!    the routing thread had read all changes when the tables that the worker uses were current. If
//!    either thread hangs, or another worker that gets frames of the queue, the program of the
//!    interface leaves the queue's packets to the kernel.
//!    For a worker that has had no frames for a while, the routing thread writes it (`parking.rs`).
//! 2. A frame in a slot of the worker is in memory that no one else writes: the region is private, and
//!    the kernel gets the buffer back only after the slot is released.
//! 3. Received packets, and the packets that the router makes, are forwarded, given to the kernel,
//!    dropped for a counted cause, or held.

mod deliver;
mod drain;
mod gate;
mod handover;
mod held;
mod link;
mod of_kernel;
mod open;
mod parking;
mod pipes;
mod punt;
mod rule_turn;
mod steer;
mod survivor;
mod trace;
mod turn;
mod vlan;
mod vlan_queues;
mod vlan_state;

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slipring_datapath::environment::Clock;
use slipring_datapath::queues::WorkerQueues;
use slipring_datapath::worker::FrameProcessor;
use slipring_fib::{FibPortIndex, ForwardingTables};
use slipring_port::{DropCause, Nanos, QueueCounters};
use slipring_ring::RxRing;
use slipring_route::{MAX_ROUTE_BATCH, RouteBatch, RouteCounters, RouteEngine, RouteOutput};
use slipring_route_bpf::ResidentHeartbeat;
use slipring_rules::{RuleStage, RuleStageCounters};

pub(crate) use gate::QueueGate;
pub(crate) use link::WorkerLink;
pub(crate) use open::UserSpacePorts;

use crate::live::LiveSettings;
use crate::pace::{BUSY_PERIOD_NS, IDLE_AFTER_NS};
use crate::packet_trace::PacketTrace;
use crate::routing::RoutingHandle;
use crate::subinterface::{QueueRole, SubinterfaceCounters};
use crate::traffic::ForwardedTraffic;
use drain::WorkerDrain;
use handover::Handover;
use held::HeldFrames;
use link::WorkerShared;
use punt::{KernelPunts, PuntFigures};
use vlan_state::WorkerSubinterfaces;

/// How old the tables may be by which frames are forwarded, as for the programs.
const MAX_TABLES_AGE_NS: u64 = 100_000_000;
/// By how much the loop ends a sleep before the next event. The heartbeat need not be so exact that
/// the loop polls for that time.
const WAKE_MARGIN_NS: Nanos = 30_000;

/// The queues and interfaces of a worker.
pub(crate) struct WorkerPorts {
    /// The port of each of the worker's queues, by the index of the queue; none for the pipes from
    /// other workers, whose frames each say their port.
    pub(crate) of_queue: Vec<Option<FibPortIndex>>,
    /// The queue by which frames leave, by interface: the first ports have the same index.
    pub(crate) tx_of: Vec<usize>,
    /// Kernel's index of each interface: those of the router, then those that only carry
    /// subinterfaces.
    pub(crate) ifindexes: Vec<u32>,
    /// Numbers of the interfaces' queues that this worker owns.
    pub(crate) numbers: Vec<u16>,
    /// Counters of each of these queues but the pipes, with what the kernel has lost before them.
    pub(crate) counters: Vec<Arc<QueueCounters>>,
}

impl WorkerPorts {
    /// The port at which a frame in a queue's rx ring arrived.
    fn ingress(&self, input: usize, at: u32, rx: &RxRing) -> FibPortIndex {
        self.of_queue[input].unwrap_or_else(|| FibPortIndex(rx.word(at).unwrap_or_default() as u16))
    }

    /// The ports at which the first `count` frames in a queue's rx ring arrived.
    fn ingresses(&self, input: usize, count: u32, rx: &RxRing) -> [FibPortIndex; MAX_ROUTE_BATCH] {
        if let Some(port) = self.of_queue[input] {
            return [port; MAX_ROUTE_BATCH];
        }
        let mut ports = [FibPortIndex(0); MAX_ROUTE_BATCH];
        for (port, at) in ports.iter_mut().zip(0..count) {
            *port = self.ingress(input, at, rx);
        }
        ports
    }

    fn lost(&self) -> Vec<(FibPortIndex, DropCause, u64)> {
        let mut lost = Vec::new();
        for (port, counters) in self.of_queue.iter().flatten().zip(&self.counters) {
            let counts = counters.snapshot();
            lost.extend(counts.drops().map(|(cause, count)| (*port, cause, count)));
        }
        lost
    }
}

/// The processor of a thread.
pub(crate) struct RouteWorker {
    id: usize,
    pub(crate) engine: RouteEngine,
    batch: Box<RouteBatch>,
    /// The rules that packets meet between the engine's stages, if there are any.
    pub(crate) rules: Option<RuleStage>,
    /// What clients want to see of its packets; none, as a rule.
    pub(crate) traces: Vec<Arc<PacketTrace>>,
    ports: WorkerPorts,
    /// Subinterfaces that the kernel does not have, if there are any.
    subinterfaces: Option<WorkerSubinterfaces>,
    /// The other workers, if there are several and rules.
    handover: Option<Handover>,
    /// The interface of each port of the tables, as an index into [`WorkerPorts::ifindexes`].
    interface_of: Vec<Option<usize>>,
    /// Interfaces whose packets the kernel forwards, by interface; those that only carry
    /// subinterfaces are after its end.
    is_left: Vec<bool>,
    punts: KernelPunts,
    held: HeldFrames,
    /// A packet of the engine that waits for space in the queue by which it leaves.
    unsent: Option<RouteOutput>,
    scratch: Vec<u8>,
    shared: Arc<WorkerShared>,
    /// What has the kernel find neighbours: what it finds comes with the next tables.
    routing: RoutingHandle,
    heartbeat: ResidentHeartbeat,
    /// Time of the tables in use, by the clock of heartbeats.
    seen: u64,
    next_beat: Nanos,
    /// When the routing thread will write the heartbeat if no frames come.
    busy_until: Nanos,
    is_parked: bool,
    /// Whether this turn may take frames.
    admits_frames: bool,
    turn_start: Nanos,
    moved: u32,
    /// The threads that wait until no frame is left.
    drain: WorkerDrain,
    totals: WorkerTotals,
}

/// What a worker has done since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerTotals {
    /// Frames taken from the queues and from other workers.
    pub(crate) frames: u64,
    /// Time of turns that moved frames, in ns.
    pub(crate) busy_ns: u64,
    /// Packets forwarded, by the port on which they arrived.
    pub(crate) forwarded: Vec<ForwardedTraffic>,
}

/// The figures of a worker at one moment.
#[derive(Clone, Debug)]
pub(crate) struct WorkerFigures {
    pub(crate) id: usize,
    pub(crate) queues: Vec<u16>,
    pub(crate) totals: WorkerTotals,
    pub(crate) route: RouteCounters,
    /// Frames given to other workers, which have counted them.
    pub(crate) handed: u64,
    pub(crate) punts: PuntFigures,
    /// What the rules have done, if there are any.
    pub(crate) rules: Option<RuleStageCounters>,
    /// Frames that the queues have lost, with the port on which they arrived.
    pub(crate) lost: Vec<(FibPortIndex, DropCause, u64)>,
    /// What subinterfaces have counted apart from the engine, by number.
    pub(crate) subinterfaces: Vec<SubinterfaceCounters>,
}

impl RouteWorker {
    /// The figures of this moment.
    pub(crate) fn figures(&self) -> WorkerFigures {
        WorkerFigures {
            id: self.id,
            queues: self.ports.numbers.clone(),
            totals: self.totals.clone(),
            route: self.engine.counters().clone(),
            handed: self.handover.as_ref().map_or(0, Handover::handed),
            punts: self.punts.figures().clone(),
            rules: self.rules.as_ref().map(|rules| *rules.counters()),
            lost: self.ports.lost(),
            subinterfaces: self.subinterfaces.as_ref().map_or(Vec::new(), |of| of.counters.clone()),
        }
    }

    /// Takes over a snapshot: packets that waited for its neighbours can be sent.
    pub(crate) fn set_tables(&mut self, tables: Arc<ForwardingTables>, now_ns: Nanos) {
        let index = |ifindex| self.ports.ifindexes.iter().position(|other| *other == ifindex);
        self.interface_of = tables.ports.iter().map(|port| index(port.ifindex)).collect();
        self.totals.forwarded.resize(tables.ports.len(), ForwardedTraffic::default());
        self.held.resolve(&tables, now_ns);
        self.subinterfaces.iter().for_each(|of| of.set_tables(&tables));
        let generation = tables.generation;
        self.engine.set_tables(tables);
        self.shared.set_generation(generation);
    }

    /// Takes settings over.
    pub(crate) fn configure(&mut self, settings: &LiveSettings) {
        self.punts.set_rates(settings.punt_rates, slipring_port::now());
        self.engine.set_icmp_limits(settings.icmp_limits);
        self.engine.set_sends_redirects(settings.sends_redirects);
    }

    /// Leaves an interface to the kernel, for packets that would leave by it, or takes it back.
    pub(crate) fn leave(&mut self, interface: usize, is_left: bool) {
        // Other ports have no queues here; what is for them is the kernel's anyway.
        if let Some(of) = self.is_left.get_mut(interface) {
            *of = is_left;
        }
    }

    /// Beats at once, since the routing thread was late, or is at its first tables. The tasks before
    /// this one have brought the tables up to `seen`.
    pub(crate) fn catch_up(&mut self, seen: u64) {
        self.seen = self.seen.max(seen);
        self.next_beat = slipring_port::now() + BUSY_PERIOD_NS;
        // Not by the others' last runs: they have been late as well, and run soon.
        let beat = self.seen.min(ResidentHeartbeat::now());
        self.shared.parking.note_run(beat);
        self.write_beat(beat);
    }

    /// Drops the frames that wait for a neighbour which the kernel has not found.
    pub(crate) fn fail_neighbour(&mut self, ifindex: u32, neighbour: IpAddr) {
        for (at, port) in self.engine.tables().ports.iter().enumerate() {
            if port.ifindex == ifindex {
                self.held.fail(at, neighbour);
            }
        }
    }

    /// The interface of a port.
    fn interface(&self, port: FibPortIndex) -> Option<usize> {
        *self.interface_of.get(usize::from(port.0))?
    }

    /// Beats, or leaves that to the routing thread if no frames have come for a while.
    fn keep_alive(&mut self, now: Nanos, has_moved: bool) {
        if has_moved {
            self.busy_until = now + IDLE_AFTER_NS;
        }
        // A worker with old tables may have frames, which it takes when the next are there.
        let parks = now >= self.busy_until && self.admits_frames;
        let was_parked = std::mem::replace(&mut self.is_parked, parks);
        if self.is_parked {
            self.shared.parking.park(ResidentHeartbeat::now());
            return;
        }
        if was_parked {
            self.next_beat = 0;
            // From now on, it reads more often up to when the tables are current.
            self.routing.tell(|_| ());
        }
        self.beat(now);
    }

    /// Writes the heartbeats of this worker's queues, if it is time.
    fn beat(&mut self, now: Nanos) {
        if now < self.next_beat {
            return;
        }
        self.next_beat = now + BUSY_PERIOD_NS;
        let time = ResidentHeartbeat::now();
        let own = self.seen.min(time);
        self.shared.parking.note_run(own);
        let steering = self.steering();
        let others = self.handover.as_ref().and_then(|others| others.oldest_beat(steering, time));
        self.write_beat(others.map_or(own, |oldest| own.min(oldest)));
    }

    fn write_beat(&self, beat: u64) {
        self.ports.numbers.iter().for_each(|number| self.heartbeat.beat(*number, beat));
    }
}

impl FrameProcessor for RouteWorker {
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, clock: &impl Clock) -> u32 {
        let now_ns = clock.now();
        match self.subinterfaces.as_ref().and_then(|of| of.role(input)) {
            None => self.forward(queues, input, now_ns),
            Some(QueueRole::Wire(parent)) => self.forward_tagged(queues, (input, parent), now_ns),
            Some(QueueRole::Tap(number)) => self.send_of_kernel(queues, (input, number), now_ns),
        }
    }

    fn run_tasks(&mut self, _: &mut WorkerQueues, clock: &impl Clock) -> bool {
        self.turn_start = clock.now();
        if self.is_parked {
            self.shared.parking.unpark(ResidentHeartbeat::now());
        }
        // Before the tasks: the tables of that time are among them.
        let seen = self.shared.seen.load(Ordering::Acquire);
        for task in self.shared.tasks.drain() {
            task(self);
        }
        self.seen = self.seen.max(seen);
        let has_rules = self
            .rules
            .as_ref()
            .is_none_or(|rules| self.shared.tasks.has_admitted_frames() && !rules.holds_frames());
        // After a stop of the process, frames wait until the tables are current again.
        let age = ResidentHeartbeat::now().saturating_sub(self.seen);
        self.admits_frames =
            has_rules && age <= MAX_TABLES_AGE_NS && self.shared.has_begun.load(Ordering::Acquire);
        self.admits_frames
    }

    fn before_inputs(&mut self, queues: &mut WorkerQueues, _: &impl Clock) -> u32 {
        self.run_rules(self.turn_start);
        self.end_delayed(queues, self.turn_start);
        self.send_held(queues, self.turn_start);
        self.serve_subinterfaces(queues, self.turn_start);
        self.send_outputs(queues);
        // These frames were counted when they came.
        0
    }

    fn after_inputs(&mut self, queues: &mut WorkerQueues, _: &impl Clock) {
        self.end_delayed(queues, self.turn_start);
        self.send_held(queues, self.turn_start);
        self.serve_subinterfaces(queues, self.turn_start);
        self.send_outputs(queues);
        // ICMP errors may have found no neighbour.
        self.serve_subinterfaces(queues, self.turn_start);
        self.ask_for_neighbours();
    }

    fn next_due(&self) -> Option<Nanos> {
        let beat = (!self.is_parked).then_some(self.next_beat + WAKE_MARGIN_NS);
        let rules = self.rules.as_ref().and_then(RuleStage::next_ns);
        let links = self.subinterfaces.as_ref().and_then(WorkerSubinterfaces::next_ns);
        [beat, self.held.next_ns(), rules, links].into_iter().flatten().min()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.tasks.wake_fd())
    }

    fn is_finished(&mut self, _: &mut WorkerQueues) -> bool {
        false
    }

    fn publish(&mut self) {
        let moved = std::mem::take(&mut self.moved);
        let now = if moved > 0 { slipring_port::now() } else { self.turn_start };
        self.totals.busy_ns += now - self.turn_start;
        self.drain.note_turn(self.admits_frames && moved == 0 && self.unsent.is_none());
        self.keep_alive(now, moved > 0);
    }

    fn publish_final(&mut self) {
        self.shared.tasks.close();
    }
}

impl Drop for RouteWorker {
    /// A thread that waits for an answer gets none, after a lost port as well.
    fn drop(&mut self) {
        self.shared.tasks.close();
    }
}
