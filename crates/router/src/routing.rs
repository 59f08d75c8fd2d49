//! The thread that keeps the tables: it passes the kernel's messages through the mirror to the
//! programs.
//!
//! ```text
//!   run:  beat -> wait -> KernelFeed -> Mirror -> (20 ms after the first change) publish -> engine
//!           |              ^ dumps that the mirror wants                 |
//!           |              '---------------------------------------------+--> quiesced
//!           '-- RoutingTask of other threads: questions, settings
//! ```
//!
//! This thread writes the heartbeat: if it hangs or ends, the programs leave all packets to the
//! kernel within 100 ms, or 150 ms if the router was idle. Workers of the engine in user space
//! write their own heartbeats, which are never later than this thread's.
//!
//! # Invariants
//! 1. Nothing is forwarded before every table has been dumped once.
//! 2. A change is visible to the programs within [`LiveSettings::coalesce_ns`] after it was read,
//!    plus the time to write it.

mod beat;
mod by_rules;
mod distribution;
mod host_addresses;
mod hosts;
mod port_settings;
mod probes;
mod reader;
mod settle;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc;

use slipring_datapath::control_queue::ControlQueue;
use slipring_fib::{FibPortIndex, ForwardingTables, GatewayRequest, Mirror, VrfIndex};
use slipring_port::{Nanos, now};
use slipring_ring::Doorbell;
use slipring_route::{PortPolicer, PuntClass};
use slipring_route_bpf::ResidentHeartbeat;

use crate::backoff::ProbeBackoff;
use crate::drop_counts::DropBaseline;
use crate::feed::{FeedProgress, KernelFeed};
use crate::inherited_figures::InheritedFigures;
use crate::live::LiveSettings;
use crate::neighbours::NeighbourRequests;
use crate::pace::{BeatInterval, BeatPace};
use crate::packet_trace::PacketTrace;
use crate::port_settings::InterfaceVrf;
use crate::resident::ResidentEngine;
use crate::router_events::RouterEvents;
use crate::subinterface::SubinterfaceHandle;
use crate::worker::{RouteWorker, WorkerLink};
use host_addresses::host_addresses;
use reader::MirrorReader;

/// If the previous heartbeat had no lead ([`BeatInterval::lead`]), the next one is late after this
/// time; the programs' limit is 100 ms.
const LATE_BEAT_NS: Nanos = 75_000_000;
/// Maximum number of gateways without MAC address that the kernel is asked to resolve when a
/// snapshot is applied.
const MAX_SOLICITS: usize = 64;

/// A task that another thread gives to this thread.
pub(crate) type RoutingTask = Box<dyn FnOnce(&mut Routing) + Send>;

/// The tables, and the state from which they are computed.
pub(crate) struct Routing {
    pub(crate) mirror: Mirror,
    pub(crate) engine: ResidentEngine,
    feed: KernelFeed,
    neighbours: NeighbourRequests,
    heartbeat: ResidentHeartbeat,
    /// The threads of the engine in user space; empty if programs forward.
    pub(crate) workers: Vec<WorkerLink>,
    /// The value of `seen` that was last sent to the workers.
    told: u64,
    /// The latest time up to which all messages of the kernel have been read. `seen` is by the
    /// clock of heartbeats, `seen_at` by [`slipring_port::now`].
    seen: u64,
    seen_at: Nanos,
    /// Whether notifications were lost or a table is new. The mirror is then incomplete until dumps
    /// have completed.
    is_behind: bool,
    /// By port, whether its VRF has changed, or has new tables, and is not in use yet. Until then,
    /// the port's packets are left to the kernel.
    waits: Vec<bool>,
    /// The VRF of each port; `None` for ports whose packets the kernel looks up.
    pub(crate) vrf_of: Vec<Option<VrfIndex>>,
    /// By port, the VRF that the kernel's rules must choose; `None` or no element: any VRF.
    pub(crate) named_vrfs: Vec<Option<InterfaceVrf>>,
    /// By port, the rate at which packets are accepted. All workers share it.
    policers: Vec<Option<Arc<PortPolicer>>>,
    /// When the changes that have been read will be written; `None` if there are no changes.
    publish_at: Option<Nanos>,
    /// The newest snapshot; `None` before the first one.
    current: Option<Arc<ForwardingTables>>,
    /// Whether the programs' maps contain all of `current`. If not, it is applied again.
    is_applied: bool,
    /// Wakes the main thread: when the first snapshot is in use, when the tables are complete or
    /// applied again, when interfaces must be probed, when addresses have changed, and when it has
    /// something to report to the user.
    ready: Arc<Doorbell>,
    settle_at: Nanos,
    pace: BeatPace,
    /// The lead of the last heartbeat, and the time from it to the next one.
    interval: BeatInterval,
    /// By port, whether the kernel looks up its packets, because the router does not follow the
    /// routing rules for them.
    pub(crate) ruled: Vec<bool>,
    /// By port, whether its interface was deleted.
    pub(crate) deleted: Vec<bool>,
    /// The interfaces' addresses, by port, in the newest snapshot.
    addresses: Vec<Vec<(IpAddr, u8)>>,
    /// By port, whether its interface is up in the newest snapshot.
    up: Vec<bool>,
    /// Interfaces that have come up, or that are due again according to `backoff`, and have not
    /// been probed since then.
    unprobed: Vec<FibPortIndex>,
    /// Decides when interfaces whose drivers have refused frames are probed again.
    backoff: ProbeBackoff,
    /// Interfaces whose drivers have refused frames and that cannot be probed, as long as the user
    /// has not been informed.
    pub(crate) refused: Vec<FibPortIndex>,
    /// Subinterfaces that the kernel does not have; their ports come after all others.
    pub(crate) subinterfaces: Option<SubinterfaceHandle>,
    /// By port, whether its packets are left to the kernel because of an
    /// [`Obstacle`](crate::checks::Obstacle).
    left: Vec<bool>,
    settings: LiveSettings,
    /// How often routes, neighbours and the like had found no space in the tables when the main
    /// thread was last woken for a warning.
    unplaced: u64,
    pub(crate) counters: RoutingCounters,
    /// The events for clients of `ctl monitor`.
    pub(crate) events: RouterEvents,
    /// The counts of drops at the last reset.
    pub(crate) drops: DropBaseline,
    /// The traces of packets that clients have requested. They may include some that have ended.
    traces: Vec<Arc<PacketTrace>>,
    /// The counters of routers that this router has taken over from.
    pub(crate) inherited: InheritedFigures,
}

/// The counters of the thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoutingCounters {
    /// Snapshots that were written.
    pub(crate) published: u64,
    /// How often the kernel refused a snapshot.
    pub(crate) failed: u64,
    /// Dumps that were read to their end.
    pub(crate) dumps: u64,
}

/// The other threads' access to the routing thread.
#[derive(Clone)]
pub(crate) struct RoutingHandle {
    tasks: Arc<ControlQueue<RoutingTask>>,
}

impl RoutingHandle {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { tasks: Arc::new(ControlQueue::new()?) })
    }

    /// Asks the thread a question. Returns `None` if the thread has ended.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Routing) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = mpsc::sync_channel(1);
        // If the asking thread has ended, the answer is not needed.
        self.tasks.push(Box::new(move |routing| drop(sender.send(question(routing)))));
        answer.recv().ok()
    }

    /// Gives the thread a task without waiting for it.
    pub(crate) fn tell(&self, task: impl FnOnce(&mut Routing) + Send + 'static) {
        self.tasks.push(Box::new(task));
    }

    /// Refuses further tasks. Threads that wait for an answer get none.
    pub(crate) fn close(&self) {
        self.tasks.close();
    }
}

impl Routing {
    pub(crate) fn new(
        mirror: Mirror,
        engine: ResidentEngine,
        feed: KernelFeed,
        neighbours: NeighbourRequests,
        workers: Vec<WorkerLink>,
        ready: Arc<Doorbell>,
        subinterfaces: Option<SubinterfaceHandle>,
    ) -> Self {
        let heartbeat = engine.heartbeat();
        let own = subinterfaces.as_ref().map_or(0, |own| own.devices.len());
        let ports = engine.interfaces().len() + own;
        let none = vec![false; ports];
        Self {
            mirror,
            engine,
            feed,
            neighbours,
            heartbeat,
            workers,
            told: 0,
            publish_at: None,
            current: None,
            is_applied: true,
            ready,
            settle_at: 0,
            pace: BeatPace::new(now()),
            interval: BeatInterval::BUSY,
            ruled: none.clone(),
            deleted: none.clone(),
            addresses: Vec::new(),
            up: none.clone(),
            seen: 0,
            seen_at: 0,
            is_behind: false,
            waits: none,
            vrf_of: vec![Some(VrfIndex(0)); ports],
            named_vrfs: Vec::new(),
            policers: Vec::new(),
            unprobed: Vec::new(),
            backoff: ProbeBackoff::default(),
            refused: Vec::new(),
            subinterfaces,
            left: Vec::new(),
            settings: LiveSettings::default(),
            unplaced: 0,
            counters: RoutingCounters::default(),
            events: RouterEvents::default(),
            drops: DropBaseline::default(),
            traces: Vec::new(),
            inherited: InheritedFigures::default(),
        }
    }

    /// Packets per second that all workers together may give to the kernel, by class.
    pub(crate) const fn punt_rates(&self) -> [u64; PuntClass::COUNT] {
        self.settings.punt_rates
    }

    /// Applies settings, also in the threads that forward.
    pub(crate) fn configure(&mut self, settings: LiveSettings) {
        self.settings = settings;
        self.workers.iter().for_each(|worker| worker.tell(move |it| it.configure(&settings)));
        if let Some(own) = &self.subinterfaces {
            own.set_icmp_limits(settings.icmp_limits);
        }
    }

    /// Keeps the tables up to date until `is_stopped` returns true. The thread that makes it return
    /// true must also ring `stop`.
    ///
    /// # Errors
    /// If netlink fails, so that the tables cannot be kept up to date.
    pub(crate) fn run(
        &mut self,
        handle: &RoutingHandle,
        stop: &Doorbell,
        is_stopped: impl Fn() -> bool,
    ) -> io::Result<()> {
        let mut progress = FeedProgress::Backlog;
        while !is_stopped() {
            if progress.must_wait()
                && let Some(quiet) = self.wait(handle, stop)
                && progress == FeedProgress::Empty
                && self.beat_unread(quiet)
            {
                continue;
            }
            progress = self.follow()?;
            for task in handle.tasks.drain() {
                progress = self.follow()?;
                task(self);
            }
        }
        Ok(())
    }

    /// Reads the kernel's messages, writes changes that are due, and then writes the heartbeat: the
    /// time up to which all messages of the kernel have been read. So wherever this thread is
    /// stopped, the programs never use tables that lack changes older than 100 ms, or 150 ms if the
    /// router was idle, plus [`LiveSettings::coalesce_ns`]. After such a stop, and after lost
    /// notifications, the tables are updated before the next heartbeat.
    fn follow(&mut self) -> io::Result<FeedProgress> {
        let (seen, start) = (ResidentHeartbeat::now(), now());
        let progress = self.read()?;
        let is_current = progress < FeedProgress::Ahead;
        self.probe_early();
        let is_late = start > self.seen_at + LATE_BEAT_NS + self.interval.lead;
        let time = now();
        // The first tables are published as soon as they are complete.
        let is_first = self.counters.published == 0 && self.publish_at.is_some();
        let is_ready = is_first && self.mirror.is_complete() && self.feed.is_quiet();
        let must_publish = is_current && (is_late || is_ready);
        if time >= self.settle_at && !must_publish {
            // This is not done in an iteration that publishes, because publishing may also wait for
            // programs.
            self.settle(time);
        } else if must_publish || self.publish_at.is_some_and(|at| at <= time) {
            self.publish(time);
        }
        if is_current && !self.is_behind {
            (self.seen, self.seen_at) = (seen, start);
        }
        self.beat();
        Ok(progress)
    }

    /// If the driver of an interface has begun to refuse redirected frames, leaves packets for this
    /// interface to the kernel until a probe shows that frames leave again.
    fn stop_refused(&mut self) {
        let (probed, others): (Vec<_>, Vec<_>) = self
            .engine
            .stop_refused()
            .into_iter()
            .partition(|port| self.engine.interfaces()[usize::from(port.0)].probe.is_some());
        let time = now();
        probed.into_iter().for_each(|port| self.backoff.refuse(port, time));
        let due = self.backoff.take_due(time);
        if !due.is_empty() || !others.is_empty() {
            self.unprobed.extend(due);
            self.refused.extend(others);
            self.ready.ring();
        }
    }

    /// Requests the dumps that the mirror needs, and reads the kernel's messages. Returns what may
    /// still be unread.
    fn read(&mut self) -> io::Result<FeedProgress> {
        for kind in self.mirror.needs_resync().iter() {
            self.feed.request(kind);
        }
        let mut reader = MirrorReader {
            mirror: &mut self.mirror,
            neighbours: &mut self.neighbours,
            dumps: &mut self.counters.dumps,
            events: &self.events,
            has_read: false,
            has_lost: false,
        };
        // Until packets are forwarded, it does not matter up to which time the sockets were read.
        let progress = self.feed.receive(&mut reader, self.counters.published == 0)?;
        self.is_behind |= reader.has_lost;
        if reader.has_read && self.publish_at.is_none() {
            self.publish_at = Some(now() + self.settings.coalesce_ns);
        }
        self.neighbours.send();
        for GatewayRequest { ifindex, address } in self.neighbours.take_failed() {
            let fail = move |worker: &mut RouteWorker| worker.fail_neighbour(ifindex, address);
            self.workers.iter().for_each(|worker| worker.tell(fail));
        }
        Ok(progress)
    }

    fn publish(&mut self, time: Nanos) {
        self.publish_at = None;
        self.follow_rules();
        let tables = self.mirror.publish();
        if tables.is_some() || !self.is_applied {
            self.current = tables.or_else(|| self.current.take());
            self.apply(time);
        }
        self.limit_hosts();
        self.note_unplaced();
        let is_complete = self.mirror.needs_resync().is_empty() && self.feed.is_quiet();
        if self.is_behind && self.is_applied && is_complete {
            self.is_behind = false;
            self.ready.ring();
        }
        if self.is_applied && !self.is_behind && self.waits.contains(&true) {
            self.waits.fill(false);
            self.leave_ruled();
        }
    }

    /// Makes the programs use the newest snapshot.
    fn apply(&mut self, time: Nanos) {
        self.note_links();
        let Some(tables) = &self.current else { return };
        let local = self.mirror.local_addresses();
        // The workers get the snapshot before the programs: see the third invariant of `worker.rs`.
        self.distribute(tables, &local);
        let had_failed = !self.is_applied;
        self.is_applied = self.engine.apply(tables).is_ok();
        // The entries (cells) of the IPv4 tables are written after the programs have the targets.
        // If a cell led to a target that the programs do not have, they would leave packets to the
        // kernel, which may have an even newer route. This happens only if the kernel has refused
        // the snapshot, until the snapshot is applied again.
        self.mirror.write_ipv4();
        self.tell_of_cells(tables);
        if self.is_applied {
            self.counters.published += 1;
        } else {
            // The snapshot will be applied again. Until then, packets whose routes are not yet in
            // the maps are left to the kernel.
            self.counters.failed += 1;
            self.publish_at = Some(time + self.settings.coalesce_ns);
        }
        let is_current_again = had_failed && self.is_applied;
        if is_current_again || self.counters.published == 1 || !self.unprobed.is_empty() {
            self.ready.ring();
        }
        self.engine.set_local(&local);
        for request in self.mirror.solicit(MAX_SOLICITS) {
            self.neighbours.want(request);
        }
    }

    /// Records addresses, and which interfaces were deleted or have come up.
    fn note_links(&mut self) {
        let deleted = self.mirror.deleted_ports();
        if deleted != self.deleted {
            self.deleted = deleted;
            self.ready.ring();
        }
        let Some(tables) = &self.current else { return };
        let addresses: Vec<_> = tables.ports.iter().map(|port| port.addresses.clone()).collect();
        if addresses != self.addresses {
            self.addresses = addresses;
            self.ready.ring();
        }
        let ports = Arc::clone(&tables.ports);
        self.note_up(&ports);
    }

    /// The indices of all interfaces, by port.
    pub(crate) fn ifindexes(&self) -> impl Iterator<Item = u32> + '_ {
        let own = self.subinterfaces.iter().flat_map(|own| &own.devices).map(|it| it.ifindex);
        self.engine.interfaces().iter().map(|of| of.iface.index).chain(own)
    }

    /// Returns the addresses of this machine. Packets from these addresses are not forwarded.
    pub(crate) fn own_addresses(&self) -> Vec<IpAddr> {
        host_addresses(&self.mirror.local_addresses())
    }

    /// Asks the kernel to resolve neighbours for which workers hold packets.
    pub(crate) fn want_neighbours(&mut self, requests: Vec<GatewayRequest>) {
        requests.into_iter().for_each(|request| self.neighbours.want(request));
        self.neighbours.send();
    }

    /// Number of requests for neighbours that were dropped because there were too many at a time.
    pub(crate) fn dropped_requests(&self) -> u64 {
        self.neighbours.dropped
    }

    /// The newest snapshot.
    pub(crate) fn tables(&self) -> Option<&Arc<ForwardingTables>> {
        self.current.as_ref()
    }

    /// Whether the programs use the newest snapshot, and no dump is outstanding for lost
    /// notifications or a new table.
    pub(crate) const fn has_current_tables(&self) -> bool {
        self.is_applied && self.counters.published > 0 && !self.is_behind
    }

    /// Whether all queues have a recent heartbeat, written by this thread or by the workers.
    pub(crate) fn has_heartbeat(&self) -> bool {
        self.heartbeat.is_current(ResidentHeartbeat::now())
    }

    /// By port, leaves an interface's packets to the kernel, or forwards them again.
    pub(crate) fn leave(&mut self, left: &[bool]) {
        for (at, &is_left) in left.iter().enumerate() {
            self.engine.leave(FibPortIndex(at as u16), is_left);
            self.workers.iter().for_each(|worker| worker.tell(move |it| it.leave(at, is_left)));
        }
        self.left = left.to_vec();
        self.tell_what_is_left();
    }

    /// Tells the subinterfaces which ports are left to the kernel or to its routing rules.
    fn tell_what_is_left(&self) {
        let Some(own) = &self.subinterfaces else { return };
        let left: Vec<bool> = (0..self.ruled.len()).map(|at| self.is_left(at)).collect();
        for worker in &self.workers {
            let of_own = left[self.engine.interfaces().len()..].to_vec();
            worker.tell(move |worker| worker.leave_subinterfaces(&of_own));
        }
        own.set_left(left);
    }

    /// Whether packets that arrive on a port are left to the kernel, or to its routing rules.
    pub(crate) fn is_left(&self, at: usize) -> bool {
        self.left.get(at) == Some(&true) || self.ruled[at] || self.waits[at]
    }
}
