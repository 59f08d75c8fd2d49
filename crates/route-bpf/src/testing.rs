//! A router without a kernel: maps in memory, programs in the interpreter. There is one snapshot of
//! tables, in which each target is a test case.
//!
//! ```text
//!   10.0.T.0/24, 10.1.0.T, 2001:db8:T::/48, 2001:db8:ff::T  -->  target T
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slipring_bpf::{
    BpfCode, BpfError, BpfMapKind, BpfMapSpec, Interpreter, MappedArray, SimulatedMap, XdpMeta,
    XdpOutcome,
};
use slipring_classify::dir24::Cells;
use slipring_classify::intervals::IntervalTree;
use slipring_fib::{
    Adjacency, AdjacencyIndex, BUCKETS, FibPort, FibPortIndex, ForwardingTables, Ipv4Lookup,
    Ipv6Lookup, NextHopAddress, ReversePathMode, Target, TargetAction, TargetIndex, VlanTags,
    VrfIndex, VrfTables,
};
use slipring_simd::Simd;
use slipring_wire::mac::MacAddr;

use crate::cells::MappedCells;
use crate::flow_hash::ResidentHash;
use crate::layout::{BLOCK_FLAG, BpfLimits, PassReason, map};
use crate::maps::{KernelMaps, MapHost};
use crate::program::context::{HeaderAccess, PortConstants};
use crate::program::forwarding_program;
use crate::writer::TableWriter;
use crate::{ResidentCounters, ResidentHeartbeat};

pub(crate) const LIMITS: BpfLimits = BpfLimits {
    ports: 8,
    queues: 2,
    vrfs: 2,
    targets: 64,
    adjacencies: 64,
    groups: 2,
    tail_blocks: 4,
    v6_nodes: 64,
};
/// The BTF id of the function that returns removed tags, in the interpreter.
pub(crate) const TAG_FUNCTION: i32 = 4711;
pub(crate) const SEED: u64 = 0x1234_5678_9abc_def0;
pub(crate) const HASH: ResidentHash = ResidentHash { seed: SEED, uses_flow_label: true };

/// Targets of the test snapshot.
pub(crate) mod target {
    pub(crate) const NO_ROUTE: u16 = 0;
    pub(crate) const KERNEL: u16 = 1;
    pub(crate) const FORWARD: u16 = 2;
    pub(crate) const UNRESOLVED: u16 = 3;
    pub(crate) const SAME_PORT: u16 = 4;
    pub(crate) const PORT_DOWN: u16 = 5;
    pub(crate) const MTU_1000: u16 = 6;
    pub(crate) const BLACKHOLE: u16 = 7;
    pub(crate) const BALANCE: u16 = 8;
    pub(crate) const SMALL_PORT: u16 = 9;
    pub(crate) const SUBINTERFACE: u16 = 10;
    pub(crate) const COUNT: u16 = 11;
}

/// The MAC address of a port of the test snapshot.
pub(crate) const fn port_mac(port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0x10, port as u8])
}

/// The MAC address of a next hop of the test snapshot.
pub(crate) const fn hop_mac(adjacency: u16) -> MacAddr {
    MacAddr([6, 1, 2, 3, 0x20, adjacency as u8])
}

/// The address of this machine in the test snapshot.
pub(crate) const LOCAL: [u8; 4] = [10, 200, 0, 1];

/// A lookup that must not be called, with the tree that programs search.
#[derive(Debug)]
struct NoLookup(Option<IntervalTree>);

impl Ipv4Lookup for NoLookup {
    fn lookup(&self, _: &[u32], _: &mut [TargetIndex]) {
        unreachable!("programs look up in the maps");
    }
}

impl Ipv6Lookup for NoLookup {
    fn lookup(&self, _: &[u128], _: &mut [TargetIndex]) {
        unreachable!("programs look up in the maps");
    }

    fn intervals(&self) -> Option<&IntervalTree> {
        self.0.as_ref()
    }
}

fn port(at: u16, mtu: u32) -> FibPort {
    FibPort {
        ifindex: 1,
        name: format!("p{at}"),
        mac: port_mac(at),
        mtu,
        is_up: true,
        vrf: VrfIndex(0),
        reverse_path: ReversePathMode::Off,
        reverse_path_v6: ReversePathMode::Off,
        tags: VlanTags::default(),
        addresses: Vec::new(),
    }
}

fn ports() -> Vec<FibPort> {
    let mut ports =
        [1500, 1500, 600, 1500, 1500].into_iter().zip(0..).map(|(mtu, at)| port(at, mtu));
    let mut ports: Vec<_> = ports.by_ref().collect();
    ports[3].is_up = false;
    ports[4].tags.outer = Some((0x8100, 7));
    ports
}

fn adjacency(at: u16, port: u16) -> Adjacency {
    let next_hop = NextHopAddress::Via(IpAddr::V4(Ipv4Addr::new(10, 9, 0, at as u8)));
    Adjacency { port: FibPortIndex(port), next_hop, mac: Some(hop_mac(at)) }
}

/// The test snapshot. Frames arrive on port 0.
pub(crate) fn snapshot() -> ForwardingTables {
    use TargetAction::{Balance, Blackhole, Forward, Kernel, NoRoute};
    let mut adjacencies: Vec<_> =
        [1, 1, 0, 3, 2, 4].into_iter().zip(0..).map(|(port, at)| adjacency(at, port)).collect();
    adjacencies[1].mac = None;
    let forward = |at| Forward(AdjacencyIndex(at));
    let actions = [
        (NoRoute, 0),
        (Kernel, 0),
        (forward(0), 0),
        (forward(1), 0),
        (forward(2), 0),
        (forward(3), 0),
        (forward(0), 1000),
        (Blackhole, 0),
        (Balance(0), 0),
        (forward(4), 0),
        (forward(5), 0),
    ];
    let targets: Vec<_> = actions.map(|(action, mtu)| Target { action, mtu }).into();
    let mut buckets = [AdjacencyIndex(0); BUCKETS];
    buckets.iter_mut().skip(1).step_by(2).for_each(|bucket| *bucket = AdjacencyIndex(4));
    let lookup = VrfTables { v4: Arc::new(NoLookup(None)), v6: Arc::new(NoLookup(Some(tree()))) };
    ForwardingTables {
        generation: 1,
        ports: ports().into(),
        vrfs: [lookup].into(),
        targets: targets.into(),
        adjacencies: adjacencies.into(),
        buckets: [buckets].into(),
    }
}

/// The test snapshot, with this check of the sources of packets that arrive on port 0.
pub(crate) fn snapshot_checking(mode: ReversePathMode) -> ForwardingTables {
    snapshot_checking_each([mode, mode])
}

/// As [`snapshot_checking`], with a check for IPv4 and one for IPv6.
fn snapshot_checking_each(modes: [ReversePathMode; 2]) -> ForwardingTables {
    let tables = snapshot();
    let mut ports = tables.ports.to_vec();
    [ports[0].reverse_path, ports[0].reverse_path_v6] = modes;
    ForwardingTables { ports: ports.into(), ..tables }
}

/// The IPv6 tree of the picture above.
fn tree() -> IntervalTree {
    let group = |at: u16| 0x2001_0db8_u128 << 96 | u128::from(at) << 80;
    let mut starts = vec![(0, 0)];
    starts.extend((1..target::COUNT).map(|at| (group(at), at.into())));
    starts.push((group(target::COUNT), 0));
    starts.extend((0..target::COUNT).map(|at| (group(0xff) | u128::from(at), at.into())));
    // From the end of this /64 on, there is no route.
    starts.push((group(0xff) + (1 << 64), 0));
    IntervalTree::build(&starts, Simd::detect())
}

/// The tables of the test snapshot in the kernel. `None`, with the reason printed, if BPF is not
/// permitted.
pub(crate) fn in_kernel() -> Option<TableWriter<KernelMaps>> {
    let maps = match KernelMaps::create(&LIMITS) {
        Ok(maps) => maps,
        Err(error) if matches!(error.raw_os_error(), Some(1 | 38)) => {
            slipring_test_support::skip!("{error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut writer = TableWriter::create(maps, LIMITS).unwrap();
    fill(&mut writer);
    Some(writer)
}

/// Writes heartbeats for all queues, almost as far ahead of the kernel's clock as programs accept,
/// because other tests may delay the program on a busy machine.
pub(crate) fn beat_ahead(writer: &TableWriter<KernelMaps>) {
    const AHEAD_NS: u64 = 90_000_000;
    let heartbeat = ResidentHeartbeat::of(Arc::clone(&writer.control), LIMITS.queues);
    heartbeat.beat_all(ResidentHeartbeat::now() + AHEAD_NS);
}

/// Fills the tables of the first VRF as in the picture above, and starts the router.
pub(crate) fn fill<H: MapHost>(writer: &mut TableWriter<H>) {
    writer.apply(&snapshot()).unwrap();
    writer.set_local(&[(IpAddr::from(LOCAL), 32)]);
    let (root, tail) = MappedCells::of(&writer.v4(VrfIndex(0)).unwrap());
    for at in 0..target::COUNT {
        root.set(10 << 16 | usize::from(at), at);
        tail.set(256 + usize::from(at), at);
    }
    root.set(10 << 16 | 1 << 8, BLOCK_FLAG | 1);
    // The block of the first cell and the target of the second one do not exist.
    root.set(10 << 16 | 2 << 8, BLOCK_FLAG | LIMITS.tail_blocks);
    root.set(10 << 16 | 3 << 8, LIMITS.targets);
    enable(writer);
}

/// Starts the router.
pub(crate) fn enable<H: MapHost>(writer: &TableWriter<H>) {
    writer.control.atomic::<AtomicU64>(0, 0).unwrap().store(1, Ordering::Relaxed);
}

/// Maps in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryMaps {
    arrays: Vec<(String, Arc<MappedArray>)>,
    published: BTreeMap<(&'static str, u16), String>,
    egress: BTreeMap<u16, u32>,
    /// The word at this offset of a map is recorded at each wait for programs.
    pub(crate) watched: Option<(&'static str, usize)>,
    /// The recorded words; 0 if no word is watched.
    pub(crate) waits: Vec<u64>,
}

impl MemoryMaps {
    /// The maps, by name.
    pub(crate) fn arrays(&self) -> &[(String, Arc<MappedArray>)] {
        &self.arrays
    }

    /// Copies the maps to an interpreter, after changes.
    pub(crate) fn copy_to(&self, interpreter: &mut Interpreter) {
        for (name, array) in &self.arrays {
            if interpreter.map(name).is_none() {
                let spec = BpfMapSpec::mappable_array(array.value_size() as u32, 1);
                interpreter.add_map(name, SimulatedMap::new(spec));
            }
            interpreter.map(name).unwrap().copy_from(array);
        }
        for ((name, vrf), table) in &self.published {
            assert!(interpreter.set_inner(name, u32::from(*vrf), table));
        }
        for &port in self.egress.keys() {
            assert!(interpreter.set_reference(map::EGRESS, port.into(), egress_of(port)));
        }
    }

    fn watched_word(&self) -> Option<u64> {
        let (name, offset) = self.watched?;
        let (_, array) = self.arrays.iter().find(|(known, _)| known == name)?;
        Some(array.atomic::<AtomicU64>(0, offset)?.load(Ordering::Relaxed))
    }
}

fn out_of_memory(source: io::Error) -> BpfError {
    BpfError::System { what: "map memory", source }
}

impl MapHost for MemoryMaps {
    type Table = String;

    fn array(
        &mut self,
        name: &'static str,
        spec: BpfMapSpec,
    ) -> Result<Arc<MappedArray>, BpfError> {
        let array = Arc::new(MappedArray::in_memory(&spec).map_err(out_of_memory)?);
        self.arrays.push((name.to_owned(), Arc::clone(&array)));
        Ok(array)
    }

    fn table(
        &mut self,
        name: &'static str,
        spec: BpfMapSpec,
    ) -> Result<(String, Arc<MappedArray>), BpfError> {
        let array = Arc::new(MappedArray::in_memory(&spec).map_err(out_of_memory)?);
        let full_name = format!("{name}#{}", self.arrays.len());
        self.arrays.push((full_name.clone(), Arc::clone(&array)));
        Ok((full_name, array))
    }

    fn publish(&mut self, name: &'static str, vrf: u16, table: &String) -> io::Result<()> {
        self.published.insert((name, vrf), table.clone());
        self.quiesce()
    }

    fn quiesce(&mut self) -> io::Result<()> {
        let noted = self.watched_word().unwrap_or(0);
        self.waits.push(noted);
        Ok(())
    }

    fn set_egress(&mut self, port: u16, ifindex: u32) -> io::Result<()> {
        self.egress.insert(port, ifindex);
        Ok(())
    }
}

type StoreObserver = Box<dyn FnMut(&MappedArray)>;

thread_local! {
    static OBSERVER: RefCell<Option<StoreObserver>> = const { RefCell::new(None) };
}

/// Calls `observer` after each store to a map, until it is replaced.
pub(crate) fn observe_stores(observer: Option<StoreObserver>) {
    OBSERVER.set(observer);
}

/// Tells the observer that a word or a cell of this map has been stored.
pub(crate) fn note_store(array: &MappedArray) {
    if let Some(mut observer) = OBSERVER.take() {
        observer(array);
        OBSERVER.set(Some(observer));
    }
}

/// The interface to which a frame for a port is redirected in the interpreter.
pub(crate) const fn egress_of(port: u16) -> u32 {
    100 + port as u32
}

/// The socket of queue 0 in the interpreter.
pub(crate) const SOCKET: u32 = 9;

/// An interpreter for programs of the router, without the maps that the writer fills.
pub(crate) fn interpreter() -> Interpreter {
    let mut interpreter = Interpreter::new();
    interpreter.now_ns = 1 << 40;
    const ENODATA: u64 = 61;
    interpreter.set_function(TAG_FUNCTION, |_, _| Some(ENODATA.wrapping_neg()));
    interpreter.add_map(map::COUNTERS, SimulatedMap::new(LIMITS.counters()));
    interpreter.add_map(map::EGRESS, SimulatedMap::new(LIMITS.egress()));
    for name in [map::V4, map::V6] {
        let outer = BpfMapSpec::of_descriptors(BpfMapKind::ArrayOfMaps, LIMITS.vrfs.into());
        interpreter.add_map(name, SimulatedMap::new(outer));
    }
    interpreter
}

/// A router whose programs the interpreter runs.
#[derive(Debug)]
pub(crate) struct Simulation {
    pub(crate) writer: TableWriter<MemoryMaps>,
    pub(crate) interpreter: Interpreter,
    code: BpfCode,
}

impl Simulation {
    /// The router of the test snapshot, with the program of port 0.
    pub(crate) fn new(is_software: bool) -> Self {
        Self::with(&constants(is_software))
    }

    /// The router of the test snapshot, with the program that hands packets of queue 0 over to
    /// [`SOCKET`].
    pub(crate) fn with_socket() -> Self {
        let mut router = Self::with(&PortConstants { has_sockets: true, ..constants(false) });
        let sockets = BpfMapSpec::of_descriptors(BpfMapKind::XskMap, 2);
        router.interpreter.add_map(map::SOCKETS, SimulatedMap::new(sockets));
        assert!(router.interpreter.set_reference(map::SOCKETS, 0, SOCKET));
        router
    }

    fn with(constants: &PortConstants) -> Self {
        let mut writer = TableWriter::create(MemoryMaps::default(), LIMITS).unwrap();
        fill(&mut writer);
        let code = forwarding_program(constants);
        let mut simulation = Self { writer, interpreter: interpreter(), code };
        simulation.beat();
        simulation.copy_maps();
        simulation
    }

    /// Writes a heartbeat of this moment for all queues.
    pub(crate) fn beat(&mut self) {
        let heartbeat = ResidentHeartbeat::of(Arc::clone(&self.writer.control), LIMITS.queues);
        heartbeat.beat_all(self.interpreter.now_ns);
    }

    /// Sets how the sources of frames are checked.
    pub(crate) fn checking(self, mode: ReversePathMode) -> Self {
        self.checking_each([mode, mode])
    }

    /// As [`Self::checking`], with a check for IPv4 and one for IPv6.
    pub(crate) fn checking_each(mut self, modes: [ReversePathMode; 2]) -> Self {
        self.writer.apply(&snapshot_checking_each(modes)).unwrap();
        self.copy_maps();
        self
    }

    /// Writes a heartbeat of this moment, and keeps what programs have written to the map of hosts.
    pub(crate) fn beat_and_keep_hosts(&mut self) {
        self.beat();
        let host = &self.writer.host;
        let (name, control) = host.arrays.iter().find(|(name, _)| name == map::CONTROL).unwrap();
        self.interpreter.map(name).unwrap().copy_from(control);
    }

    /// Copies the maps to the interpreter, after changes.
    pub(crate) fn copy_maps(&mut self) {
        self.writer.host.copy_to(&mut self.interpreter);
    }

    pub(crate) fn run(&mut self, frame: &[u8]) -> XdpOutcome {
        self.run_on_queue(frame, 0)
    }

    pub(crate) fn run_on_queue(&mut self, frame: &[u8], rx_queue: u32) -> XdpOutcome {
        let meta = XdpMeta { ifindex: 1, rx_queue };
        self.interpreter.run_xdp(&self.code, frame, meta).unwrap()
    }

    /// The counters of port 0.
    pub(crate) fn counters(&mut self) -> ResidentCounters {
        let counters = self.interpreter.map(map::COUNTERS).unwrap();
        ResidentCounters::sum(counters.get(&[0; 4]).unwrap())
    }

    /// Runs the program on a frame that it must leave to the kernel unchanged; returns the reason.
    #[track_caller]
    pub(crate) fn reason(&mut self, frame: &[u8]) -> PassReason {
        let before = self.counters();
        let outcome = self.run(frame);
        assert_eq!((outcome.action, outcome.frame), (2, frame.to_vec()), "action, frame");
        let after = self.counters();
        let increased = |reason: &PassReason| after.passed(*reason) > before.passed(*reason);
        let reasons: Vec<_> = PassReason::ALL.iter().copied().filter(increased).collect();
        assert_eq!((after.seen(), reasons.len()), (before.seen() + 1, 1), "{reasons:?}");
        reasons[0]
    }
}

pub(crate) const fn constants(is_software: bool) -> PortConstants {
    PortConstants {
        port: FibPortIndex(0),
        is_software,
        tag_function: Some(TAG_FUNCTION),
        hash: HASH,
        limits: LIMITS,
        has_sockets: false,
        takes_options: false,
        headers: HeaderAccess::Frame,
    }
}
