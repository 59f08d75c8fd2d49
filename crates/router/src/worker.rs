//! The engine in user space: threads that forward what programs in the kernel give to AF_XDP
//! sockets or packet sockets.
//!
//! ```text
//!   rx queue i of each interface --> turn.rs: RouteEngine, up to 64 frames at a time
//!                                      |-- forward, ICMP errors, fragments --> tx queue of egress
//!                                      |-- kernel: punt.rs, limited by class --> received by the
//!                                      |                                         real interface
//!                                      |-- hold: held.rs --> the routing thread asks the kernel;
//!                                      |                     the next tables have the answer
//!                                      '-- another worker's, by the rules: handover.rs
//!   routing thread --tables--> WorkerLink --> run_tasks
//! ```
//!
//! Worker `w` of `n` owns the queues `q` of every interface with `q mod n = w`: it receives from
//! all of them, and sends by queue `w`. The buffers of these queues, and of the pipes between
//! workers, are in one region, so that a packet is usually forwarded by an exchange of buffers.
//!
//! # Invariants
//! 1. A worker writes the heartbeat of its queues. The heartbeat is never later than that of the
//!    routing thread for the worker's tables. If the worker, the routing thread, or another worker
//!    that gets frames of the queue hangs, the program of the interface leaves the queue's packets
//!    to the kernel. For a worker that has had no frames for a while, the routing thread writes
//!    the heartbeat (`parking.rs`).
//! 2. A frame in a slot of the worker is in memory that no other thread writes: the region is
//!    private, and the kernel gets the buffer back only after the slot is released.
//! 3. A worker forwards a frame by tables at least as new as those by which the program of the
//!    interface accepted it: a worker is told of new tables before the programs get them, and takes
//!    no frames while tasks wait. So packets that follow those that the program has forwarded by a
//!    new route do not take the old route again.
//! 4. Received packets, and the packets that the router makes, are forwarded, given to the kernel,
//!    dropped for a counted cause, or held. At the end, frames have [`SEND_LIMITS`] to leave the tx
//!    rings; those that have not left are counted.

mod deliver;
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
mod trace;
mod turn;
mod unread;
mod vlan;
mod vlan_queues;
mod vlan_state;

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slipring_datapath::environment::Clock;
use slipring_datapath::queues::WorkerQueues;
use slipring_datapath::worker::{DrainLimits, FrameProcessor};
use slipring_fib::{FibPortIndex, ForwardingTables};
use slipring_port::{DropCause, Nanos, QueueCounters, RunError};
use slipring_ring::RxRing;
use slipring_route::{MAX_ROUTE_BATCH, RouteBatch, RouteCounters, RouteEngine, RouteOutput};
use slipring_route_bpf::ResidentHeartbeat;
use slipring_rules::{RuleStage, RuleStageCounters};

pub(crate) use link::{DRAIN_LIMIT, SEND_LIMIT, WorkerLink};
pub(crate) use open::{UserSpacePorts, raise_fd_limit};

use crate::drain::WorkerDrain;
use crate::live::LiveSettings;
use crate::pace::{BUSY_PERIOD_NS, IDLE_AFTER_NS};
use crate::packet_trace::PacketTrace;
use crate::routing::RoutingHandle;
use crate::subinterface::{QueueRole, SubinterfaceCounters};
use crate::traffic::ForwardedTraffic;
use handover::Handover;
use held::HeldFrames;
use link::WorkerShared;
use punt::{KernelPunts, PuntFigures};
use vlan_state::WorkerSubinterfaces;

/// Maximum age of the tables by which frames are forwarded, the same as for the programs.
const MAX_TABLES_AGE_NS: u64 = 100_000_000;
/// How long frames may take to leave the tx rings at the end of a run, and after a takeover. A
/// successor waits longer than this for the end of its predecessor.
const SEND_LIMITS: DrainLimits = DrainLimits { stalled_ns: 1_000_000_000, total_ns: 5_000_000_000 };
/// The loop wakes this long before the next event, and polls until the event is due. A heartbeat
/// does not need this precision: its event is this much later than the heartbeat itself, so the
/// loop wakes when the heartbeat is due, and does not poll.
const WAKE_MARGIN_NS: Nanos = 30_000;

/// The queues and interfaces of a worker.
pub(crate) struct WorkerPorts {
    /// The port of each of the worker's queues, indexed by queue. `None` for the pipes from other
    /// workers: each frame in a pipe carries its own port.
    pub(crate) of_queue: Vec<Option<FibPortIndex>>,
    /// The queue through which frames leave by each interface, indexed by interface. The ports of
    /// interfaces have the same indices.
    pub(crate) tx_of: Vec<usize>,
    /// The kernel's index of each interface: first the interfaces of the router, then interfaces
    /// that only carry subinterfaces.
    pub(crate) ifindexes: Vec<u32>,
    /// The numbers of the queues that this worker owns, of all interfaces together.
    pub(crate) numbers: Vec<u16>,
    /// Counters of each of the worker's queues, without the pipes. They include frames that the
    /// kernel has lost before they reached the queues.
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

/// The frame processor of a worker thread.
pub(crate) struct RouteWorker {
    id: usize,
    pub(crate) engine: RouteEngine,
    batch: Box<RouteBatch>,
    /// The rules that check packets between the engine's stages, if there are any.
    pub(crate) rules: Option<RuleStage>,
    /// Traces that clients have requested; usually none.
    pub(crate) traces: Vec<Arc<PacketTrace>>,
    ports: WorkerPorts,
    /// Subinterfaces that the kernel does not have, if there are any.
    subinterfaces: Option<WorkerSubinterfaces>,
    /// Pipes to the other workers; `None` without rules, or with one worker.
    handover: Option<Handover>,
    /// The interface of each port of the tables, as an index into [`WorkerPorts::ifindexes`].
    interface_of: Vec<Option<usize>>,
    /// By interface, whether its packets are left to the kernel. Interfaces that only carry
    /// subinterfaces have no entry.
    is_left: Vec<bool>,
    punts: KernelPunts,
    held: HeldFrames,
    /// Packets that waited for a neighbour of a subinterface in the previous router, with the ports
    /// at which they arrived there.
    handed: Vec<(FibPortIndex, Vec<u8>)>,
    /// A packet that the engine has created and that waits for space in its tx queue.
    unsent: Option<RouteOutput>,
    scratch: Vec<u8>,
    shared: Arc<WorkerShared>,
    /// The access to the routing thread, which asks the kernel to resolve neighbours. The next
    /// tables contain the results.
    routing: RoutingHandle,
    heartbeat: ResidentHeartbeat,
    /// The routing thread's heartbeat for the tables in use.
    seen: u64,
    next_beat: Nanos,
    /// When the worker leaves its heartbeat to the routing thread, unless frames come before.
    busy_until: Nanos,
    is_parked: bool,
    /// Whether this loop iteration may take frames.
    admits_frames: bool,
    turn_start: Nanos,
    moved: u32,
    /// Threads that wait until the worker has no frames left.
    drain: WorkerDrain,
    /// Whether the last loop iteration has found the tx rings empty, and has sent nothing itself.
    /// False while no thread waits.
    has_sent_all: bool,
    totals: WorkerTotals,
}

/// A worker's counters since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerTotals {
    /// Frames taken from the interfaces and from other workers, without those that were given to
    /// other workers.
    pub(crate) frames: u64,
    /// Time spent in loop iterations that moved frames, in ns.
    pub(crate) busy_ns: u64,
    /// Packets forwarded, by the port on which they arrived.
    pub(crate) forwarded: Vec<ForwardedTraffic>,
    /// Frames that the worker has put into pipes minus those that it has taken out of pipes, by the
    /// port on which they arrived. The sum over all workers is what the pipes contain.
    pub(crate) in_pipes: Vec<i64>,
    /// Received frames that the worker had not taken when it ended, by the port on which they
    /// arrived.
    pub(crate) unread: Vec<u64>,
}

impl WorkerTotals {
    /// Makes space for the counters of this number of ports.
    fn resize(&mut self, ports: usize) {
        self.forwarded.resize(ports, ForwardedTraffic::default());
        self.in_pipes.resize(ports, 0);
        self.unread.resize(ports, 0);
    }

    /// Counts a frame that was put into a pipe (1), or taken out (-1).
    fn count_in_pipe(&mut self, port: FibPortIndex, change: i64) {
        if let Some(count) = self.in_pipes.get_mut(usize::from(port.0)) {
            *count += change;
        }
    }
}

/// The figures of a worker at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerFigures {
    /// Whether the worker has ended.
    pub(crate) is_final: bool,
    pub(crate) id: usize,
    pub(crate) queues: Vec<u16>,
    pub(crate) totals: WorkerTotals,
    pub(crate) route: RouteCounters,
    /// Frames given to other workers, which count them as received.
    pub(crate) handed: u64,
    pub(crate) punts: PuntFigures,
    /// The rules' counters, if there are rules.
    pub(crate) rules: Option<RuleStageCounters>,
    /// Frames that the queues have lost, with the port of the queue and the cause.
    pub(crate) lost: Vec<(FibPortIndex, DropCause, u64)>,
    /// The subinterfaces' counters apart from those of the engine, by number.
    pub(crate) subinterfaces: Vec<SubinterfaceCounters>,
}

impl RouteWorker {
    /// The figures of this moment.
    pub(crate) fn figures(&self) -> WorkerFigures {
        WorkerFigures {
            is_final: false,
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

    /// Applies a snapshot. Packets whose neighbours are resolved in it can be sent afterwards.
    pub(crate) fn set_tables(&mut self, tables: Arc<ForwardingTables>, now_ns: Nanos) {
        let index = |ifindex| self.ports.ifindexes.iter().position(|other| *other == ifindex);
        self.interface_of = tables.ports.iter().map(|port| index(port.ifindex)).collect();
        self.totals.resize(tables.ports.len());
        self.held.resolve(&tables, now_ns);
        let generation = tables.generation;
        self.engine.set_tables(tables);
        self.shared.set_generation(generation);
    }

    /// Does what must follow the IPv4 table entries (cells) of a snapshot, which are written after
    /// [`Self::set_tables`]. A packet for a new neighbour may have been held before that, because
    /// no entry led to the neighbour. From now on, subinterfaces answer requests for the new
    /// addresses (ARP, ND).
    pub(crate) fn follow_cells(&mut self, tables: &ForwardingTables, now_ns: Nanos) {
        self.held.resolve(tables, now_ns);
        self.subinterfaces.iter().for_each(|of| of.set_addresses(tables));
    }

    /// Applies settings.
    pub(crate) fn configure(&mut self, settings: &LiveSettings) {
        self.punts.set_rates(settings.punt_rates, slipring_port::now());
        self.engine.set_icmp_limits(settings.icmp_limits);
        self.engine.set_sends_redirects(settings.sends_redirects);
    }

    /// Sets whether packets that would leave by an interface are left to the kernel.
    pub(crate) fn leave(&mut self, interface: usize, is_left: bool) {
        // Ports without an entry are subinterfaces: `leave_subinterfaces` sets them.
        if let Some(of) = self.is_left.get_mut(interface) {
            *of = is_left;
        }
    }

    /// Writes the heartbeats immediately, because the routing thread was late, or has just started.
    /// Earlier tasks have brought the tables that this heartbeat of the routing thread is for.
    pub(crate) fn catch_up(&mut self, heartbeat: u64) {
        self.seen = self.seen.max(heartbeat);
        self.next_beat = slipring_port::now() + BUSY_PERIOD_NS;
        // The times at which the other workers last ran are ignored here: those workers were late
        // as well, and will run soon.
        let beat = self.seen.min(ResidentHeartbeat::now());
        self.shared.parking.note_run(beat);
        self.write_beat(beat);
    }

    /// Ends the wait of frames for a neighbour that the kernel could not resolve.
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

    /// Writes the heartbeats. If no frames have come for a while, leaves that to the routing
    /// thread.
    fn keep_alive(&mut self, now: Nanos, has_moved: bool) {
        if has_moved {
            self.busy_until = now + IDLE_AFTER_NS;
        }
        // A worker with old tables may have frames waiting. So it does not park: it takes them when
        // it has the next tables.
        let parks = now >= self.busy_until && self.admits_frames;
        let was_parked = std::mem::replace(&mut self.is_parked, parks);
        if self.is_parked {
            self.shared.parking.park(ResidentHeartbeat::now());
            return;
        }
        if was_parked {
            self.next_beat = 0;
            // This wakes the routing thread. From now on, it reads its sockets more often, so that
            // heartbeats can prove that the tables are current.
            self.routing.tell(|_| ());
        }
        self.beat(now);
    }

    /// Writes the heartbeats of this worker's queues, if they are due.
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
        // The programs may have accepted these frames by tables that came after `run_tasks`. Then
        // the frames wait for the next iteration.
        if self.shared.tasks.is_signalled() {
            self.admits_frames = false;
            return 0;
        }
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
        // The time is read before the tasks. So the tables of that time are in use, or among these
        // tasks.
        let seen = self.shared.seen.load(Ordering::Acquire);
        for task in self.shared.tasks.drain() {
            task(self);
        }
        self.seen = self.seen.max(seen);
        let has_rules = self
            .rules
            .as_ref()
            .is_none_or(|rules| self.shared.tasks.has_admitted_frames() && !rules.holds_frames());
        // If the process was stopped in between, frames wait until the tables are current again.
        let age = ResidentHeartbeat::now().saturating_sub(self.seen);
        self.admits_frames =
            has_rules && age <= MAX_TABLES_AGE_NS && self.shared.has_begun.load(Ordering::Acquire);
        self.admits_frames
    }

    fn before_inputs(&mut self, queues: &mut WorkerQueues, _: &impl Clock) -> u32 {
        self.forward_handed(queues, self.turn_start);
        self.run_rules(self.turn_start);
        self.end_delayed(queues, self.turn_start);
        self.send_held(queues, self.turn_start);
        self.serve_subinterfaces(queues, self.turn_start);
        self.send_outputs(queues);
        // These frames were counted when they arrived.
        0
    }

    fn after_inputs(&mut self, queues: &mut WorkerQueues, _: &impl Clock) {
        self.end_delayed(queues, self.turn_start);
        self.send_held(queues, self.turn_start);
        self.serve_subinterfaces(queues, self.turn_start);
        self.send_outputs(queues);
        // The next hops of ICMP errors may be unknown, so neighbours are requested here.
        self.serve_subinterfaces(queues, self.turn_start);
        self.ask_for_neighbours();
        self.has_sent_all = !self.drain.is_empty() && self.unsent.is_none() && queues.is_idle();
    }

    fn next_due(&self) -> Option<Nanos> {
        let beat = (!self.is_parked).then_some(self.next_beat + WAKE_MARGIN_NS);
        let rules = self.rules.as_ref().and_then(RuleStage::next_ns);
        let links = self.subinterfaces.as_ref().and_then(WorkerSubinterfaces::next_ns);
        let drain = self.drain.next_ns(self.turn_start);
        [beat, self.held.next_ns(), rules, links, drain].into_iter().flatten().min()
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
        self.drain.note_turn(self.admits_frames && moved == 0, self.has_sent_all);
        self.keep_alive(now, moved > 0);
    }

    fn drain(&mut self, queues: &mut WorkerQueues, _: &impl Clock) -> Result<bool, RunError> {
        self.send_outputs(queues);
        Ok(self.unsent.is_none())
    }

    fn drain_limits(&self) -> DrainLimits {
        SEND_LIMITS
    }

    fn abandon(&mut self, queues: &mut WorkerQueues) {
        self.count_unread(queues);
        queues.count_unsent();
        while let Some(output) = self.unsent.take().or_else(|| self.engine.pop()) {
            if let RouteOutput::Send { port, .. } = output
                && let Some(interface) = self.interface(port)
            {
                queues[self.ports.tx_of[interface]].count_one_unsent();
            }
        }
    }

    fn publish_final(&mut self) {
        self.shared.end(self.figures());
    }
}

impl Drop for RouteWorker {
    /// Stores the last figures and closes the task queue. So threads that wait for an answer do not
    /// wait for ever, even if the worker's loop has never run or has panicked.
    fn drop(&mut self) {
        self.shared.end(self.figures());
    }
}
