//! The thread of the subinterfaces: tagged frames between the wire, the kernel's TAP devices and
//! the routing engine.
//!
//! ```text
//!   eth1 --packet socket, frames with our VLANs--> take_wire --> RouteEngine --> eth0, eth1, ...
//!                                                      |  for this machine, or left to the kernel
//!                                                      v
//!                                              SubinterfaceLink <--> TAP eth1.100 <--> kernel
//! ```
//!
//! The kernel routes packets as well: packets that interfaces' programs leave to it, and all
//! packets while the tables may be old. It sends these packets to the TAP device, and this thread
//! sends them on the wire with tags.

mod waiting;

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use slipring_datapath::control_queue::ControlQueue;
use slipring_datapath::environment::Clock;
use slipring_datapath::queues::WorkerQueues;
use slipring_datapath::slots;
use slipring_datapath::worker::FrameProcessor;
use slipring_fib::{FibPortIndex, ForwardingTables, VlanTags};
use slipring_port::{Nanos, QueueCounters};
use slipring_route::{
    MAX_ROUTE_BATCH, PortPolicy, PuntClass, RouteBatch, RouteConfig, RouteEngine, RouteFrame,
    RouteVerdict,
};

use super::figures::{SubinterfaceCounters, SubinterfaceFigures};
use super::link::{LinkVerdict, SubinterfaceLink, SubinterfaceOutput, WaitingPacket};
use super::tags;
use crate::drain::WorkerDrain;

/// Maximum age of the tables since they were last known to be current. If they are older, the
/// kernel forwards.
const MAX_AGE_NS: Nanos = 100_000_000;

/// A task that another thread gives to this thread.
pub(super) type SubinterfaceTask = Box<dyn FnOnce(&mut SubinterfaceProcessor) + Send>;

/// The state that the thread shares with others.
pub(super) struct SubinterfaceShared {
    pub(super) tasks: ControlQueue<SubinterfaceTask>,
    /// The last time at which the tables were known to be equal to the kernel's tables.
    pub(super) seen: AtomicU64,
    /// Generation of the snapshot in use.
    pub(super) generation: AtomicU64,
    /// Whether no other router takes the thread's frames any more.
    pub(super) has_begun: AtomicBool,
    /// The counters of each subinterface, as published after the thread's last loop iteration.
    pub(super) figures: Mutex<Vec<SubinterfaceFigures>>,
    /// The counters of the queues, each with the number of a subinterface.
    pub(super) queues: Vec<(usize, Arc<QueueCounters>)>,
}

impl SubinterfaceShared {
    /// The counters of each subinterface at this moment.
    pub(super) fn figures(&self) -> Vec<SubinterfaceFigures> {
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (number, counters) in &self.queues {
            if let Some(of) = figures.get_mut(*number) {
                of.lost.extend(counters.snapshot().drops());
            }
        }
        figures
    }
}

/// Where the frames of a queue come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueRole {
    /// The interface with this index, from which tagged frames are received.
    Wire(u32),
    /// The TAP device of the subinterface with this number.
    Tap(usize),
}

/// The thread's state of one subinterface.
#[derive(Debug)]
pub(super) struct Subinterface {
    pub(super) port: FibPortIndex,
    /// The interface that carries its frames.
    pub(super) parent: u32,
    pub(super) tags: VlanTags,
    pub(super) link: SubinterfaceLink,
    pub(super) counters: SubinterfaceCounters,
}

/// The state of the thread.
pub(super) struct SubinterfaceProcessor {
    pub(super) subinterfaces: Vec<Subinterface>,
    pub(super) roles: Vec<QueueRole>,
    pub(super) shared: Arc<SubinterfaceShared>,
    /// Priority code points of tagged frames, by the class selector of the packet's DSCP.
    pub(super) priorities: [u8; 8],
    pub(super) engine: Option<RouteEngine>,
    /// The last time at which the tables in use were known to be equal to the kernel's tables.
    seen: Nanos,
    /// Ports from and for which packets are left to the kernel.
    pub(super) left: Vec<bool>,
    batch: RouteBatch,
    /// Copies of the frames of a batch, with their ports. Only the first `used` are in use.
    frames: Vec<(Vec<u8>, FibPortIndex)>,
    used: usize,
    scratch: Vec<u8>,
    /// Packets that waited for a neighbour in the previous router, with the ports at which they
    /// arrived there.
    pub(super) handed: Vec<(FibPortIndex, Vec<u8>)>,
    /// Whether this loop iteration takes frames: no other router takes them any more.
    has_begun: bool,
    /// Slots taken in this loop iteration.
    moved: u32,
    /// Threads that wait until this thread has no frames left.
    pub(super) drain: WorkerDrain,
    /// Whether the last loop iteration has found the tx rings empty. False while no thread waits.
    has_sent_all: bool,
    turn_start: Nanos,
}

impl Drop for SubinterfaceProcessor {
    /// Closes the task queue, so that threads that wait for an answer do not wait for ever, even if
    /// this thread has failed or panicked.
    fn drop(&mut self) {
        self.shared.tasks.close();
    }
}

impl SubinterfaceProcessor {
    pub(super) fn new(
        subinterfaces: Vec<Subinterface>,
        roles: Vec<QueueRole>,
        shared: Arc<SubinterfaceShared>,
        priorities: [u8; 8],
    ) -> Self {
        Self {
            subinterfaces,
            roles,
            shared,
            priorities,
            engine: None,
            seen: 0,
            left: Vec::new(),
            batch: RouteBatch::new(),
            frames: Vec::new(),
            used: 0,
            scratch: Vec::new(),
            handed: Vec::new(),
            has_begun: false,
            moved: 0,
            drain: WorkerDrain::default(),
            has_sent_all: false,
            turn_start: 0,
        }
    }

    /// Applies a snapshot. `own` contains the addresses of the machine.
    pub(super) fn set_tables(&mut self, tables: &Arc<ForwardingTables>, own: Vec<IpAddr>) {
        let engine = self.engine.get_or_insert_with(|| {
            let config = RouteConfig { answers_in_first_vrf: true, ..RouteConfig::default() };
            let mut engine = RouteEngine::new(config, Arc::clone(tables));
            let policy = PortPolicy { priorities: self.priorities, ..PortPolicy::default() };
            engine.set_policies(vec![policy; tables.ports.len()]);
            engine
        });
        engine.set_own_addresses(own);
        engine.set_tables(Arc::clone(tables));
        // Release: all lookups in earlier tables were made before this store.
        self.shared.generation.store(tables.generation, Ordering::Release);
    }

    /// Makes the subinterfaces answer requests for the addresses in a snapshot (ARP, ND).
    pub(super) fn set_addresses(&mut self, tables: &ForwardingTables) {
        for it in &mut self.subinterfaces {
            if let Some(port) = tables.ports.get(usize::from(it.port.0)) {
                it.link.set_addresses(port.mac, &port.addresses);
            }
        }
    }

    /// Takes frames from the wire. Frames of subinterfaces go through the engine or, if the tables
    /// are old or a port is left to the kernel, all to the kernel. Returns the number of slots.
    fn take_wire(
        &mut self,
        queues: &mut WorkerQueues,
        input: usize,
        ifindex: u32,
        now_ns: Nanos,
    ) -> u32 {
        let Self { subinterfaces, frames, used, scratch, .. } = self;
        *used = 0;
        let taken = queues[input].take_frames(MAX_ROUTE_BATCH as u32, |rx, at, count| {
            // A frame for which this returns false stays in the ring.
            if *used == MAX_ROUTE_BATCH {
                return false;
            }
            let bytes = slots::bytes(rx, at, count, scratch);
            let found = tags::parse(bytes).and_then(|(tags, _)| {
                subinterfaces.iter().find(|it| (it.parent, it.tags) == (ifindex, tags))
            });
            let Some(it) = found else { return true };
            if *used == frames.len() {
                frames.push((Vec::new(), it.port));
            }
            let (frame, port) = &mut frames[*used];
            frame.clear();
            frame.extend_from_slice(bytes);
            *port = it.port;
            *used += 1;
            true
        });
        self.route_or_leave(queues, now_ns);
        taken
    }

    /// Passes the frames of the batch through the engine, or gives them to the kernel.
    fn route_or_leave(&mut self, queues: &mut WorkerQueues, now_ns: Nanos) {
        let is_current = now_ns < self.seen + MAX_AGE_NS;
        let is_left = |port: FibPortIndex| self.left.get(usize::from(port.0)) == Some(&true);
        let has_left = self.frames[..self.used].iter().any(|(_, port)| is_left(*port));
        if is_current && self.engine.is_some() && !has_left {
            self.route(queues, now_ns);
        } else {
            (0..self.used).for_each(|at| self.give_to_kernel(queues, at, now_ns));
        }
    }

    /// Passes the frames of the batch through the engine's stages.
    fn route(&mut self, queues: &mut WorkerQueues, now_ns: Nanos) {
        let Some(mut engine) = self.engine.take() else { return };
        let mut frames = std::mem::take(&mut self.frames);
        let mut of_batch: Vec<_> = frames[..self.used]
            .iter_mut()
            .map(|(frame, port)| RouteFrame::new(frame, *port))
            .collect();
        let batch = &mut self.batch;
        engine.parse(batch, &of_batch);
        engine.police(batch, &of_batch, now_ns);
        engine.look_up(batch, &of_batch);
        engine.check_sources(batch, &of_batch);
        for at in 0..of_batch.len() {
            if batch.live() >> at & 1 != 0
                && !can_send(&engine, batch, at, &self.subinterfaces, &self.left)
            {
                engine.settle(batch, at, RouteVerdict::Kernel(PuntClass::Other));
            }
        }
        engine.rewrite(batch, &mut of_batch, now_ns);
        engine.answer(batch, &of_batch, now_ns);
        drop(of_batch);
        self.frames = frames;
        self.engine = Some(engine);
        for at in 0..self.used {
            self.carry_out(queues, at, now_ns);
        }
        self.send_own(queues, now_ns);
    }

    /// Executes the engine's decision about a frame.
    fn carry_out(&mut self, queues: &mut WorkerQueues, at: usize, now_ns: Nanos) {
        match self.batch.verdict(at) {
            Some(RouteVerdict::Forward(sent)) => {
                self.scratch.clear();
                self.scratch.extend_from_slice(sent.prepend());
                self.scratch.extend_from_slice(&self.frames[at].0[sent.range()]);
                let (ingress, len) = (self.frames[at].1, self.scratch.len());
                if self.send_scratch(queues, sent.port) {
                    self.count_forwarded(ingress, len);
                } else {
                    self.count_full(Some(ingress), sent.port);
                }
            }
            Some(RouteVerdict::Fragmented) => {
                let (frame, port) = &self.frames[at];
                self.count_forwarded(*port, frame.len());
            }
            Some(RouteVerdict::Kernel(_)) => self.give_to_kernel(queues, at, now_ns),
            Some(RouteVerdict::Hold(held)) => {
                let frame = self.frames[at].0[..held.frame_len()].to_vec();
                self.hold(WaitingPacket { owner: 0, held, frame }, now_ns);
            }
            _ => {}
        }
    }

    fn count_forwarded(&mut self, ingress: FibPortIndex, len: usize) {
        if let Some(it) = self.subinterfaces.iter_mut().find(|it| it.port == ingress) {
            it.counters.forwarded += 1;
            it.counters.forwarded_bytes += len as u64;
        }
    }

    /// Counts a packet for which a ring had no space. If it was received, its ingress is given; if
    /// not, it is an answer or a fragment of a packet that is counted already.
    fn count_full(&mut self, ingress: Option<FibPortIndex>, egress: FibPortIndex) {
        let port = ingress.unwrap_or(egress);
        // The first subinterface also counts packets of the ports of other interfaces.
        let number = self.subinterfaces.iter().position(|it| it.port == port).unwrap_or(0);
        let Some(it) = self.subinterfaces.get_mut(number) else { return };
        let counter =
            if ingress.is_some() { &mut it.counters.full } else { &mut it.counters.unsent };
        *counter += 1;
    }

    /// Sends the frame in `scratch`, which already has the tags of the port, by this port. Returns
    /// whether there was space.
    fn send_scratch(&mut self, queues: &mut WorkerQueues, port: FibPortIndex) -> bool {
        let ports = self.engine.as_ref().map(|engine| &engine.tables().ports);
        let ifindex = ports.and_then(|ports| ports.get(usize::from(port.0))).map(|it| it.ifindex);
        ifindex.is_some_and(|ifindex| {
            send(queues, &self.roles, QueueRole::Wire(ifindex), &mut self.scratch)
        })
    }

    /// Gives a received frame to the kernel, without its tags, unless the link consumes it:
    /// requests for addresses, and invalid messages of address resolution.
    fn give_to_kernel(&mut self, queues: &mut WorkerQueues, at: usize, now_ns: Nanos) {
        let (frame, port) = &mut self.frames[at];
        let number = self.subinterfaces.iter().position(|it| it.port == *port);
        let (Some(number), Some((_, header_len))) = (number, tags::parse(frame)) else { return };
        let range = tags::strip(frame, header_len);
        let it = &mut self.subinterfaces[number];
        if it.link.receive(&frame[range.clone()], now_ns) != LinkVerdict::Pass {
            it.counters.resolution_from_wire += 1;
            return;
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(&frame[range]);
        let is_sent = send(queues, &self.roles, QueueRole::Tap(number), &mut self.scratch);
        it.counters.to_kernel += u64::from(is_sent);
        it.counters.full += u64::from(!is_sent);
    }

    /// Takes frames that the kernel sends through a TAP device, and sends them on the wire, except
    /// requests for addresses. Returns the number of slots.
    fn take_tap(
        &mut self,
        queues: &mut WorkerQueues,
        input: usize,
        number: usize,
        now_ns: Nanos,
    ) -> u32 {
        let Self { subinterfaces, frames, used, scratch, priorities, .. } = self;
        let it = &mut subinterfaces[number];
        *used = 0;
        let taken = queues[input].take_frames(MAX_ROUTE_BATCH as u32, |rx, at, count| {
            if *used == MAX_ROUTE_BATCH {
                return false;
            }
            let bytes = slots::bytes(rx, at, count, scratch);
            it.counters.from_kernel += 1;
            if it.link.accept_from_kernel(bytes, now_ns) != LinkVerdict::Pass {
                it.counters.resolution_from_kernel += 1;
                return true;
            }
            if *used == frames.len() {
                frames.push((Vec::new(), it.port));
            }
            tags::add(bytes, it.tags, priorities, &mut frames[*used].0);
            *used += 1;
            true
        });
        let to = QueueRole::Wire(it.parent);
        for (frame, _) in &mut frames[..*used] {
            it.counters.unsent += u64::from(!send(queues, &self.roles, to, frame));
        }
        taken
    }
}

/// Whether a frame that has no verdict after the lookup can be sent from here. The egress must not
/// be left to the kernel, and the next hop must be known or be a neighbour of a subinterface. The
/// kernel resolves all other next hops.
fn can_send(
    engine: &RouteEngine,
    batch: &RouteBatch,
    at: usize,
    subinterfaces: &[Subinterface],
    left: &[bool],
) -> bool {
    let Some(adjacency) = engine.adjacency(batch, at) else { return true };
    let is_own = || subinterfaces.iter().any(|it| it.port == adjacency.port);
    left.get(usize::from(adjacency.port.0)) != Some(&true) && (adjacency.mac.is_some() || is_own())
}

/// Pads a frame to Ethernet's minimum, and sends it by the queue with this role. Returns whether
/// there was space.
fn send(
    queues: &mut WorkerQueues,
    roles: &[QueueRole],
    to: QueueRole,
    frame: &mut Vec<u8>,
) -> bool {
    const MIN_LEN: usize = 60;
    if frame.len() < MIN_LEN {
        frame.resize(MIN_LEN, 0);
    }
    let at = roles.iter().position(|role| *role == to);
    at.is_some_and(|at| queues[at].copy_frame(frame))
}

impl FrameProcessor for SubinterfaceProcessor {
    fn process(&mut self, queues: &mut WorkerQueues, input: usize, clock: &impl Clock) -> u32 {
        let now_ns = clock.now();
        let taken = match self.roles[input] {
            QueueRole::Wire(ifindex) => self.take_wire(queues, input, ifindex, now_ns),
            QueueRole::Tap(number) => self.take_tap(queues, input, number, now_ns),
        };
        self.moved += taken;
        taken
    }

    fn run_tasks(&mut self, _: &mut WorkerQueues, clock: &impl Clock) -> bool {
        self.turn_start = clock.now();
        // Both are read before the tasks run. So the tables of that time are in use, or among these
        // tasks, and so are the packets that waited in the previous router, if frames are admitted.
        let seen = self.shared.seen.load(Ordering::Acquire);
        // Acquire: pairs with the Release of the thread that has opened the gates.
        self.has_begun = self.shared.has_begun.load(Ordering::Acquire);
        for task in Arc::clone(&self.shared).tasks.drain() {
            task(self);
        }
        self.seen = seen;
        self.has_begun
    }

    fn before_inputs(&mut self, queues: &mut WorkerQueues, clock: &impl Clock) -> u32 {
        if !self.handed.is_empty() {
            self.forward_handed(queues, clock.now());
        }
        0
    }

    fn after_inputs(&mut self, queues: &mut WorkerQueues, clock: &impl Clock) {
        self.serve_links(queues, clock.now());
        self.has_sent_all = !self.drain.is_empty() && queues.is_idle();
    }

    fn next_due(&self) -> Option<Nanos> {
        let links = self.subinterfaces.iter().filter_map(|it| it.link.next_ns());
        links.chain(self.drain.next_ns(self.turn_start)).min()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.tasks.wake_fd())
    }

    fn is_finished(&mut self, _: &mut WorkerQueues) -> bool {
        false
    }

    fn publish(&mut self) {
        let mut figures = self.shared.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.resize_with(self.subinterfaces.len(), SubinterfaceFigures::default);
        let routed = self.engine.as_ref().map(|engine| &engine.counters().ports);
        for (it, figures) in self.subinterfaces.iter().zip(&mut *figures) {
            let neighbours = it.link.neighbours();
            figures.counters = it.counters;
            figures.neighbours = neighbours.cache().len();
            figures.waiting = neighbours.cache().waiting();
            if let Some(routed) = routed.and_then(|ports| ports.get(usize::from(it.port.0))) {
                figures.routed.clone_from(routed);
            }
        }
        drop(figures);
        let moved = std::mem::take(&mut self.moved);
        self.drain.note_turn(self.has_begun && moved == 0, self.has_sent_all);
    }
}

#[cfg(test)]
mod tests;
