//! The router's maps and programs in the kernel.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use slipring_bpf::{
    BpfAttachType, BpfError, BpfLink, BpfLinkFlags, BpfMap, BpfMapKind, BpfMapSpec, BpfProgram,
    MappedArray,
};
use slipring_classify::dir24::Dir24;
use slipring_fib::{FibPort, FibPortIndex, ForwardingTables, Ipv4Table, VrfIndex};
use slipring_wire::mac::MacAddr;

use crate::cells::MappedCells;
use crate::counters::ResidentCounters;
use crate::driver_drops::DriverDrops;
use crate::flow_hash::ResidentHash;
use crate::inject::{self, FrameInjector};
use crate::layout::{BEAT_LIMIT_NS, BEATS_OFFSET, BpfLimits, ENABLED_OFFSET};
use crate::maps::KernelMaps;
use crate::probe::{self, EgressProbe};
use crate::program::context::{HeaderAccess, PortConstants};
use crate::program::forwarding_program;
use crate::writer::{ResidentOptions, TableWriter};

/// Where in the kernel the program of an interface runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResidentMode {
    /// In the driver.
    Native,
    /// In the network stack (generic XDP), before protocols: works on any interface, and costs a
    /// copy of most frames.
    Generic,
}

/// How an interface's program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachOptions {
    /// Where the program runs.
    pub mode: ResidentMode,
    /// Whether the driver takes VLAN tags out of frames. The program then asks the driver for the
    /// tags, and leaves frames that had one to the kernel. This needs [`ResidentMode::Native`],
    /// Linux 6.8 and a driver that supports it. If false, the interface must leave tags in frames
    /// (`rxvlan off`).
    pub checks_stripped_tags: bool,
    /// Whether frames may come from senders on this machine: veth, TAP, bridges. Packets whose
    /// transport checksum may be unfinished then go to the kernel.
    pub is_software: bool,
    /// If it is not 0, the frames of this number of queues go to AF_XDP sockets, and are forwarded
    /// by the engine in user space. [`ResidentAttachment::take_sockets`] returns the map of these
    /// sockets.
    pub socket_queues: u32,
    /// Whether packets with IP options go to the sockets as well, instead of the kernel.
    pub takes_options: bool,
}

/// Why a router could not be created, or its program could not be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResidentError {
    /// The host is big-endian.
    #[error("the program for XDP is for little-endian machines only")]
    BigEndian,
    /// The kernel refused a map or a program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The kernel refused to attach the program.
    #[error("cannot attach the program to interface {ifindex}: {source}")]
    Attach {
        /// The interface.
        ifindex: u32,
        /// EBUSY if another program is attached, EOPNOTSUPP if the driver does not support XDP.
        source: io::Error,
    },
}

/// The fast path of a router in the kernel. Its programs forward frames by the tables that this
/// value writes.
///
/// The process that creates it needs CAP_BPF and CAP_NET_ADMIN. It also needs them for all
/// operations that load programs (such as [`Self::attach`] and [`Self::egress_probe`]), and for the
/// first use of a VRF. All other operations need no capability. Frames are forwarded only after
/// [`Self::enable`], and only with recent heartbeats.
#[derive(Debug)]
pub struct BpfRouter {
    pub(crate) writer: TableWriter<KernelMaps>,
    pub(crate) limits: BpfLimits,
    pub(crate) hash: ResidentHash,
}

impl BpfRouter {
    /// Creates the maps. `hash` must be the same as in the router's other engines.
    ///
    /// # Errors
    /// [`ResidentError::Bpf`]: EPERM without the privileges, ENOMEM without enough memory.
    pub fn create(limits: BpfLimits, hash: ResidentHash) -> Result<Self, ResidentError> {
        if cfg!(target_endian = "big") {
            return Err(ResidentError::BigEndian);
        }
        let writer = TableWriter::create(KernelMaps::create(&limits)?, limits)?;
        Ok(Self { writer, limits, hash })
    }

    /// Attaches a program to an interface of this thread's network namespace, as the router's port
    /// `port`, until the result is dropped or the process ends.
    ///
    /// # Errors
    /// [`ResidentError`].
    pub fn attach(
        &self,
        ifindex: u32,
        port: FibPortIndex,
        options: AttachOptions,
    ) -> Result<ResidentAttachment, ResidentError> {
        let flags = match options.mode {
            ResidentMode::Native => BpfLinkFlags::XdpNative,
            ResidentMode::Generic => BpfLinkFlags::XdpGeneric,
        };
        let (program, sockets) = self.prepare(ifindex, port, options)?;
        let link = retry_while_busy(|| program.attach(ifindex, BpfAttachType::Xdp, flags));
        let link = link.map_err(|source| ResidentError::Attach { ifindex, source })?;
        Ok(ResidentAttachment { link, program, port, sockets })
    }

    /// Loads the program of an interface, and makes the map of its sockets, if it has any.
    pub(crate) fn prepare(
        &self,
        ifindex: u32,
        port: FibPortIndex,
        options: AttachOptions,
    ) -> Result<(BpfProgram, Option<BpfMap>), ResidentError> {
        let asks_driver_of = options.checks_stripped_tags.then_some(ifindex);
        let sockets = sockets(options.socket_queues)?;
        let sockets_and_options = sockets.as_ref().map(|map| (map, options.takes_options));
        let program = self.load(port, options.is_software, asks_driver_of, sockets_and_options)?;
        Ok((program, sockets))
    }

    /// Loads the program of a port without attaching it, to measure it.
    ///
    /// # Errors
    /// [`ResidentError::Bpf`].
    pub fn program(
        &self,
        port: FibPortIndex,
        is_software: bool,
    ) -> Result<BpfProgram, ResidentError> {
        self.load(port, is_software, None, None)
    }

    /// Returns an injector, which makes the kernel receive frames that the engine in user space
    /// leaves to it.
    ///
    /// # Errors
    /// [`ResidentError::Bpf`].
    pub fn injector(&self) -> Result<FrameInjector, ResidentError> {
        Ok(FrameInjector::new(self.writer.host.load(&inject::pass_program(), None, None)?))
    }

    /// Loads the program of a port. If an interface is given, the program asks its driver for tags.
    /// The map of sockets comes with a flag: whether the sockets get packets with options.
    fn load(
        &self,
        port: FibPortIndex,
        is_software: bool,
        asks_driver_of: Option<u32>,
        sockets: Option<(&BpfMap, bool)>,
    ) -> Result<BpfProgram, ResidentError> {
        let what = "find bpf_xdp_metadata_rx_vlan_tag";
        let tag_function = asks_driver_of
            .map(|_| slipring_bpf::kernel_function("bpf_xdp_metadata_rx_vlan_tag"))
            .transpose()
            .map_err(|source| BpfError::System { what, source })?;
        let (hash, limits) = (self.hash, self.limits);
        let constants = PortConstants {
            port,
            is_software,
            tag_function,
            hash,
            limits,
            has_sockets: sockets.is_some(),
            takes_options: sockets.is_some_and(|(_, takes_options)| takes_options),
            headers: HeaderAccess::Frame,
        };
        let (code, map) = (forwarding_program(&constants), sockets.map(|(map, _)| map));
        Ok(self.writer.host.load(&code, asks_driver_of, map)?)
    }

    /// Returns a probe that finds out whether frames that are redirected to a port leave its
    /// interface. `mac` is the address of the interface. Programs in [`ResidentMode::Generic`] can
    /// redirect to any interface; for programs in native mode, switch off
    /// [`ResidentOptions::egress`] if frames do not leave.
    ///
    /// # Errors
    /// [`ResidentError::Bpf`].
    pub fn egress_probe(
        &self,
        port: FibPortIndex,
        mac: MacAddr,
    ) -> Result<EgressProbe, ResidentError> {
        let program = self.writer.host.load(&probe::redirect_program(port.0), None, None)?;
        Ok(EgressProbe::new(program, port, mac))
    }

    /// Starts counting, by port, the frames that are dropped after they were redirected to the
    /// interfaces with these indices. Also needs CAP_PERFMON.
    ///
    /// # Errors
    /// [`ResidentError::Bpf`]: without the privilege, or if the kernel does not describe its
    /// structures.
    pub fn driver_drops(&self, ifindexes: &[u32]) -> Result<DriverDrops, ResidentError> {
        Ok(DriverDrops::start(ifindexes, self.writer.host.egress())?)
    }

    /// Returns the root and the tail of the IPv4 table of a VRF, which is created if it does not
    /// exist, with zeros in all cells.
    ///
    /// # Errors
    /// [`ResidentError::Bpf`].
    pub fn cells(&mut self, vrf: VrfIndex) -> Result<(MappedCells, MappedCells), ResidentError> {
        Ok(MappedCells::of(&self.writer.v4(vrf)?))
    }

    /// Returns the IPv4 table of a VRF in the form that a [`Mirror`](slipring_fib::Mirror) uses.
    /// The mirror's limits should not exceed those of this router.
    ///
    /// # Errors
    /// [`ResidentError::Bpf`].
    pub fn ipv4_table(&mut self, vrf: VrfIndex) -> Result<Box<dyn Ipv4Table>, ResidentError> {
        let (root, tail) = self.cells(vrf)?;
        Ok(slipring_fib::dir24_table(Dir24::new(root, tail)))
    }

    /// Sets the addresses of this machine (the routes of its local table), with the lengths of
    /// their prefixes: packets with such a source go to the kernel.
    pub fn set_local(&mut self, addresses: &[(IpAddr, u8)]) {
        self.writer.set_local(addresses);
    }

    /// Limits how many hosts of connected subnets per second the kernel is asked to resolve, for
    /// IPv4 and for IPv6; packets for further hosts are dropped. 0 means no limit, and so do values
    /// above 16,384. A good limit is the number of neighbours that the kernel can store, since no
    /// more can be resolved at a time. Use no limit if the tables may lack adjacencies of hosts
    /// that the kernel knows.
    pub fn set_host_limits(&self, limits: [u32; 2]) {
        self.writer.set_host_limits(limits);
    }

    /// Sets which frames of a port are forwarded.
    pub fn set_options(&mut self, port: FibPortIndex, options: ResidentOptions) {
        self.writer.set_options(port, options);
    }

    /// Sets the interfaces of ports, for probes before the first snapshot. The calling thread must
    /// be in the namespace of the interfaces.
    pub fn set_interfaces(&mut self, ports: &[FibPort]) {
        self.writer.set_interfaces(ports);
    }

    /// Writes the ports, targets, adjacencies, buckets and IPv6 destinations of a snapshot, if they
    /// differ from the previous ones. Write the IPv4 destinations afterwards
    /// ([`Mirror::write_ipv4`](slipring_fib::Mirror::write_ipv4)). The calling thread must be in
    /// the namespace of the interfaces.
    ///
    /// # Errors
    /// [`ResidentError::Bpf`]: the maps are partly written, and a repeated call completes them.
    pub fn apply(&mut self, tables: &ForwardingTables) -> Result<(), ResidentError> {
        Ok(self.writer.apply(tables)?)
    }

    /// Waits until no running program uses an index of an earlier snapshot, or an IPv4 block that
    /// was retired before the call, and drops the snapshots that [`Self::apply`] has kept. This
    /// takes as long as a grace period of the kernel's RCU, some milliseconds. After the call, pass
    /// [`Self::quiesced_generation`] to [`Mirror::quiesced`](slipring_fib::Mirror::quiesced).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn quiesce(&mut self) -> io::Result<()> {
        self.writer.quiesce()
    }

    /// The generation of the oldest snapshot whose indices running programs may use.
    #[must_use]
    pub fn quiesced_generation(&self) -> u64 {
        self.writer.quiesced_generation()
    }

    /// Allows forwarding. Call this when all tables are complete.
    pub fn enable(&self) {
        self.enabled().store(1, Ordering::Release);
    }

    /// Stops forwarding: when this returns, no program forwards until [`Self::enable`].
    ///
    /// # Errors
    /// The kernel's error while waiting for running programs.
    pub fn disable(&mut self) -> io::Result<()> {
        self.enabled().store(0, Ordering::Release);
        self.writer.quiesce()
    }

    fn enabled(&self) -> &AtomicU64 {
        let word = self.writer.control.atomic(0, ENABLED_OFFSET as usize);
        word.expect("the word is part of the map")
    }

    /// The capacity of the maps.
    #[must_use]
    pub fn limits(&self) -> BpfLimits {
        self.limits
    }

    /// Returns the writer of heartbeats.
    #[must_use]
    pub fn heartbeat(&self) -> ResidentHeartbeat {
        ResidentHeartbeat::of(Arc::clone(&self.writer.control), self.limits.queues)
    }

    /// Returns the counters of a port's program.
    ///
    /// # Errors
    /// The kernel's error; `NotFound` if there is no such port.
    pub fn counters(&self, port: FibPortIndex) -> io::Result<ResidentCounters> {
        Ok(ResidentCounters::sum(&self.writer.host.counters(port.0)?))
    }

    /// The size in bytes of the maps that the kernel has allocated, without the counters and the
    /// map of egress interfaces.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.writer.host.bytes
    }
}

/// Writes heartbeats. If a queue has had no heartbeat for 100 ms, its frames go to the kernel.
#[derive(Debug, Clone)]
pub struct ResidentHeartbeat {
    control: Arc<MappedArray>,
    queues: u16,
}

impl ResidentHeartbeat {
    pub(crate) fn of(control: Arc<MappedArray>, queues: u16) -> Self {
        Self { control, queues }
    }

    /// The clock of heartbeats, in ns: CLOCK_MONOTONIC_COARSE, which programs read as well.
    #[must_use]
    pub fn now() -> u64 {
        let now = clock_gettime(ClockId::MonotonicCoarse);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }

    /// Writes the heartbeat of one queue, for all interfaces. Queues beyond the limit have no
    /// heartbeat.
    pub fn beat(&self, queue: u16, now: u64) {
        let offset = BEATS_OFFSET as usize + 8 * usize::from(queue);
        if let Some(beat) = self.control.atomic::<AtomicU64>(0, offset) {
            beat.store(now, Ordering::Relaxed);
        }
    }

    /// Whether all queues have a recent heartbeat.
    #[must_use]
    pub fn is_current(&self, now: u64) -> bool {
        let is_late = |queue: u16| {
            let offset = BEATS_OFFSET as usize + 8 * usize::from(queue);
            let beat = self.control.atomic::<AtomicU64>(0, offset);
            beat.is_none_or(|beat| {
                now.saturating_sub(beat.load(Ordering::Relaxed)) >= BEAT_LIMIT_NS
            })
        };
        !(0..self.queues).any(is_late)
    }

    /// Writes the heartbeats of all queues.
    pub fn beat_all(&self, now: u64) {
        (0..self.queues).for_each(|queue| self.beat(queue, now));
    }
}

/// A program attached to an interface, until this is dropped.
#[derive(Debug)]
pub struct ResidentAttachment {
    pub(crate) link: BpfLink,
    pub(crate) program: BpfProgram,
    pub(crate) port: FibPortIndex,
    pub(crate) sockets: Option<BpfMap>,
}

impl ResidentAttachment {
    /// Takes the map of the interface's AF_XDP sockets, by queue; `None` if the program has none,
    /// or the map was taken before. The program uses the map until the program is detached.
    pub fn take_sockets(&mut self) -> Option<BpfMap> {
        self.sockets.take()
    }

    /// The router's port.
    #[must_use]
    pub fn port(&self) -> FibPortIndex {
        self.port
    }
}

impl From<ResidentAttachment> for OwnedFd {
    /// The link's descriptor, to pass it to another process.
    fn from(attachment: ResidentAttachment) -> Self {
        attachment.link.into()
    }
}

/// Makes the map of the sockets of an interface with `queues` queues; `None` for 0 queues.
fn sockets(queues: u32) -> Result<Option<BpfMap>, BpfError> {
    let make = || {
        let spec = BpfMapSpec::of_descriptors(BpfMapKind::XskMap, queues);
        BpfMap::create("slip_sockets", spec)
    };
    (queues > 0).then(make).transpose()
}

/// Repeats `attempt` for up to a second while the device is busy, and returns the last result. A
/// previous program stays attached as long as any copy of its descriptor is open, and a child
/// process that is being started has a copy for a moment.
fn retry_while_busy<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const RETRY_FOR: Duration = Duration::from_secs(1);
    const PAUSE: Duration = Duration::from_millis(5);
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && start.elapsed() < RETRY_FOR =>
            {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}
