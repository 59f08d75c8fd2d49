//! Opens the queues of the router's interfaces in one region, and distributes them over workers.

use std::io;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use slipring_cli::Failure;
use slipring_datapath::queues::{WorkerQueue, WorkerQueues};
use slipring_datapath::worker::Worker;
use slipring_datapath::workers::WorkerTask;
use slipring_fib::{FibPortIndex, ForwardingTables};
use slipring_neighbour::NeighbourLimits;
use slipring_port::iface::Iface;
use slipring_port::xdp::XdpSocketMap;
use slipring_port::{OpenCause, OpenError, OpenOptions, Port, Queue, RegionNeeds, XdpMode};
use slipring_port::{packet, xdp};
use slipring_ring::{BUF_SIZE_FOR_DEVICES, Geometry, HugePages, Region};
use slipring_route::{PortPolicy, RouteBatch, RouteConfig, RouteEngine};

use super::handover::Handover;
use super::held::HeldFrames;
use super::link::{WorkerLink, WorkerShared};
use super::pipes::{WorkerPipe, WorkerPipes};
use super::punt::KernelPunts;
use super::vlan_queues::SubinterfaceQueues;
use super::{RouteWorker, WorkerPorts, WorkerTotals};
use crate::config::EngineSettings;
use crate::drain::WorkerDrain;
use crate::pace::IDLE_AFTER_NS;
use crate::queue_gate::{GateWatch, QueueGate};
use crate::resident::{InterfaceSockets, UserSpaceIo};
use crate::routing::RoutingHandle;
use crate::rules::InitialRules;
use crate::subinterface::{OwnSubinterface, SubinterfacePorts, parents};
use crate::surviving_queue::SurvivingQueue;

/// Slots of a ring.
const SLOTS: u32 = 1024;

/// The open ports, one for each interface.
pub(crate) struct UserSpacePorts {
    ports: Vec<Port>,
    ifindexes: Vec<u32>,
    workers: usize,
    pipes: WorkerPipes,
    /// Whether another router still reads the sockets.
    succeeds: bool,
}

impl UserSpacePorts {
    /// Opens a port for each interface, which gets the frames that the interface's programs leave
    /// to workers. `threads` is the maximum number of workers; `None` means the number of CPUs.
    /// With rules, workers give frames to each other. `own` contains the subinterfaces that the
    /// workers will serve. `retries` decides whether to wait for a queue that is in use.
    ///
    /// # Errors
    /// If an interface has no AF_XDP in the mode, or there is no memory; or the error of `retries`.
    pub(crate) fn open(
        interfaces: Vec<(Iface, InterfaceSockets)>,
        mode: XdpMode,
        (threads, has_rules): (Option<usize>, bool),
        own: &[OwnSubinterface],
        retries: &mut RetryDecision<'_>,
    ) -> Result<Self, Failure> {
        let options = OpenOptions { slots: SLOTS, xdp: mode, ..OpenOptions::default() };
        let mut needs = RegionNeeds::default();
        for (iface, sockets) in &interfaces {
            let name = &iface.name;
            needs += match sockets {
                InterfaceSockets::Xdp(_) => xdp::needs(name, name, None, &options)?,
                InterfaceSockets::Packet(_) | InterfaceSockets::Inherited(_) => {
                    packet::needs(name, name, None, &options)?
                }
            };
        }
        let carriers = interfaces.iter().map(|(iface, _)| iface).chain(parents(own));
        let workers = worker_count(carriers, threads);
        let piped = if has_rules { workers } else { 1 };
        needs += WorkerPipes::needs(piped);
        let geometry = Geometry {
            ring_bytes: needs.ring_bytes + 4096,
            // Buffers 0 and 1 are reserved.
            bufs: needs.bufs + 2,
            buf_size: BUF_SIZE_FOR_DEVICES,
        };
        let region = Region::create(geometry, HugePages::Try)
            .map_err(|error| OpenError::new("route", error))?;
        let ifindexes = interfaces.iter().map(|(iface, _)| iface.index).collect();
        let is_inherited = |(_, sockets): &(_, InterfaceSockets)| sockets.are_inherited();
        let succeeds = interfaces.iter().any(is_inherited);
        let open = |(iface, sockets): (Iface, InterfaceSockets)| {
            open_port(&iface.name, sockets, &region, &options, retries)
        };
        let ports = interfaces.into_iter().map(open).collect::<Result<_, _>>()?;
        let pipes = WorkerPipes::open(piped, &region)?;
        Ok(Self { ports, ifindexes, workers, pipes, succeeds })
    }

    /// Returns the mode of each port, as text.
    pub(crate) fn modes(&self) -> Vec<String> {
        let mode = |port: &Port| {
            let kind = if port.info.kind == "xdp" { "xsk" } else { port.info.kind };
            let tx = port.info.mode.get("tx").map(|tx| format!(" tx={tx}")).unwrap_or_default();
            format!("{kind} {}{tx}", port.info.mode.get("mode").unwrap_or_default())
        };
        self.ports.iter().map(mode).collect()
    }

    /// Number of workers.
    pub(crate) const fn workers(&self) -> usize {
        self.workers
    }

    /// Creates the workers: a task for each thread, and the routing thread's access to each worker.
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub(crate) fn into_workers(
        self,
        io: &UserSpaceIo,
        routing: &RoutingHandle,
        rules: Option<&InitialRules>,
        settings: &EngineSettings,
        own: Option<SubinterfacePorts>,
    ) -> Result<(Vec<WorkerTask>, Vec<WorkerLink>), Failure> {
        let (count, interfaces) = (self.workers, self.ports.len());
        let mut queues: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
        for (interface, port) in self.ports.into_iter().enumerate() {
            for (number, queue) in port.queues.into_iter().enumerate() {
                queues[number % count].push((interface, number, queue));
            }
        }
        let mut own = own.map(|own| SubinterfaceQueues::new(own, &self.ifindexes, count));
        let succeeds = self.succeeds;
        let share = |owned: &Vec<OwnedQueue>| {
            let gates = gates(owned, succeeds)?;
            WorkerShared::new(numbers(owned), gates, !succeeds).map(Arc::new)
        };
        let shared = queues.iter().map(share);
        let shared: Vec<_> = shared.collect::<io::Result<_>>()?;
        let links: Vec<_> = shared.iter().map(|shared| WorkerLink(shared.clone())).collect();
        let parkings: Vec<_> = shared.iter().map(|shared| shared.parking.clone()).collect();
        let mut tasks = Vec::new();
        let pipes = self.pipes.ends.into_iter().chain(std::iter::repeat_with(Vec::new));
        for (id, ((owned, pipes), shared)) in queues.into_iter().zip(pipes).zip(shared).enumerate()
        {
            let (ports, mut inputs) = owned_queues(id, owned, &self.ifindexes, &shared.gates);
            let spread = rules.filter(|_| count > 1).map(|rules| rules.distribution(count));
            let (mut ports, pipe_of) = add_pipes(ports, &mut inputs, pipes, count);
            let handover =
                spread.map(|spread| Handover::new(id, spread, pipe_of, parkings.clone()));
            let subinterfaces = own.as_mut().map(|own| own.add_to(&mut ports, &mut inputs, id));
            let worker = RouteWorker {
                id,
                engine: engine(io, own.as_ref().map_or(&[], |own| &own.policies)),
                batch: Box::new(RouteBatch::new()),
                rules: rules.map(|rules| rules.stage(id)),
                handover,
                traces: Vec::new(),
                interface_of: Vec::new(),
                is_left: vec![false; interfaces],
                ports,
                subinterfaces,
                punts: KernelPunts::new(io.injector.clone(), count),
                held: HeldFrames::new(settings.limits(NeighbourLimits::default())),
                handed: Vec::new(),
                unsent: None,
                scratch: Vec::new(),
                shared,
                routing: routing.clone(),
                heartbeat: io.heartbeat.clone(),
                seen: 0,
                next_beat: 0,
                busy_until: slipring_port::now() + IDLE_AFTER_NS,
                is_parked: false,
                admits_frames: false,
                turn_start: 0,
                moved: 0,
                drain: WorkerDrain::default(),
                has_sent_all: false,
                totals: WorkerTotals::default(),
            };
            let worker = Worker::new(worker, WorkerQueues::new(inputs));
            tasks.push(worker.into_task("route", settings.wait));
        }
        if let Some(own) = own {
            own.connect(&links);
        }
        Ok((tasks, links))
    }
}

/// Decides whether to try again to open a queue that is in use. It gets the error of the last
/// attempt.
pub(crate) type RetryDecision<'d> = dyn FnMut(&OpenError) -> Result<bool, Failure> + 'd;

/// Opens the AF_XDP sockets of an interface. As long as a queue is in use and `retries` returns
/// true, tries again: the kernel does not announce that a queue is free, so each attempt repeats
/// bind(2) for a second.
fn open_xdp(
    name: &str,
    region: &Arc<Region>,
    options: &OpenOptions,
    map: &XdpSocketMap,
    retries: &mut RetryDecision<'_>,
) -> Result<Port, Failure> {
    loop {
        match xdp::open_into(name, name, region, options, map.clone()) {
            Err(error) if matches!(*error.cause, OpenCause::Busy { .. }) && retries(&error)? => {}
            opened => return Ok(opened?),
        }
    }
}

/// Opens the sockets of an interface.
fn open_port(
    name: &str,
    sockets: InterfaceSockets,
    region: &Arc<Region>,
    options: &OpenOptions,
    retries: &mut RetryDecision<'_>,
) -> Result<Port, Failure> {
    let shared = OpenOptions { shared: true, promiscuous: false, ..options.clone() };
    let opened = match sockets {
        InterfaceSockets::Xdp(map) => return open_xdp(name, region, options, &map, retries),
        InterfaceSockets::Packet(socket_filters) => {
            let options = OpenOptions { socket_filters, sends_by_xdp: true, ..shared };
            packet::open(name, name, None, region, &options)
        }
        InterfaceSockets::Inherited(sockets) => {
            packet::open_inherited(name, name, region, &shared, sockets)
        }
    };
    Ok(opened?)
}

/// Raises the limit of open descriptors to the maximum. With rules, each pair of workers needs four
/// descriptors, and a VLAN that slipring makes needs about eight.
pub(crate) fn raise_fd_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If the kernel refuses this, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A queue of an interface: the interface's index, the queue's number, and the queue.
type OwnedQueue = (usize, usize, Box<dyn Queue>);

fn numbers(owned: &[OwnedQueue]) -> Vec<u16> {
    let mut numbers: Vec<u16> = owned.iter().map(|(_, number, _)| *number as u16).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Creates the gates of these queues. They are closed if another router still reads the
/// sockets.
///
/// # Errors
/// The system's error if the process is out of descriptors.
fn gates(owned: &[OwnedQueue], are_closed: bool) -> io::Result<Vec<Arc<QueueGate>>> {
    let gate = |(interface, number, queue): &OwnedQueue| {
        QueueGate::new(*interface, *number, &**queue, are_closed).map(Arc::new)
    };
    owned.iter().map(gate).collect()
}

/// Returns the queues of worker `id`, and the ports and counters that the worker needs for them.
fn owned_queues(
    id: usize,
    owned: Vec<OwnedQueue>,
    ifindexes: &[u32],
    gates: &[Arc<QueueGate>],
) -> (WorkerPorts, Vec<WorkerQueue>) {
    let mut ports = WorkerPorts {
        of_queue: Vec::new(),
        tx_of: vec![0; ifindexes.len()],
        ifindexes: ifindexes.to_vec(),
        numbers: numbers(&owned),
        counters: Vec::new(),
    };
    let mut inputs = Vec::new();
    for ((interface, number, queue), gate) in owned.into_iter().zip(gates) {
        if number == id {
            ports.tx_of[interface] = inputs.len();
        }
        ports.of_queue.push(Some(FibPortIndex(interface as u16)));
        ports.counters.push(queue.counters().clone());
        let queue = SurvivingQueue::new(queue, Some(GateWatch::new(gate.clone())));
        inputs.push(WorkerQueue::input(Box::new(queue)));
    }
    (ports, inputs)
}

/// Adds a worker's pipes to its queues in `inputs` and `ports`. Returns these ports and, for each
/// of the `workers` workers, the index of the queue that is the pipe to it.
fn add_pipes(
    mut ports: WorkerPorts,
    inputs: &mut Vec<WorkerQueue>,
    pipes: Vec<WorkerPipe>,
    workers: usize,
) -> (WorkerPorts, Vec<Option<usize>>) {
    let mut pipe_of = vec![None; workers];
    for (other, pipe) in pipes {
        pipe_of[other] = Some(inputs.len());
        ports.of_queue.push(None);
        inputs.push(WorkerQueue::input(pipe));
    }
    (ports, pipe_of)
}

/// Creates an engine without routes, which leaves all packets to the kernel.
fn engine(io: &UserSpaceIo, of_own: &[PortPolicy]) -> RouteEngine {
    // The policies already contain the kernel's settings of the interfaces for IPv4. For IPv6 the
    // kernel has no such settings.
    let config = RouteConfig {
        seed: io.seed,
        sends_redirects: true,
        answers_in_first_vrf: true,
        ..RouteConfig::default()
    };
    let tables = ForwardingTables {
        generation: 0,
        ports: [].into(),
        vrfs: [].into(),
        targets: [].into(),
        adjacencies: [].into(),
        buckets: [].into(),
    };
    let mut engine = RouteEngine::new(config, Arc::new(tables));
    engine.set_policies([&io.policies[..], of_own].concat());
    engine
}

/// Returns the number of workers. Each needs its own queue of every interface, to receive and to
/// send.
fn worker_count<'i>(ifaces: impl Iterator<Item = &'i Iface>, threads: Option<usize>) -> usize {
    let queues = ifaces.map(|iface| iface.rx_queues.min(iface.tx_queues)).min().unwrap_or(1);
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    threads.unwrap_or_else(cpus).min(queues as usize).max(1)
}
