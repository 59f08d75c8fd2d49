//! The engine inside the kernel: XDP programs that forward by the tables that this process writes.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use slipring_cli::Failure;
use slipring_fib::{FibPort, FibPortIndex, ForwardingTables, Ipv4Table, VrfIndex};
use slipring_port::iface::Iface;
use slipring_route::{PortPolicy, RouteConfig, RouteEngine};
use slipring_route_bpf::{
    BpfLimits, BpfRouter, DriverDrops, FrameInjector, ResidentCounters, ResidentHash,
    ResidentHeartbeat, ResidentOptions,
};

use crate::checks::{self, CheckedInterface};
use crate::io_choice::IoChoice;
use crate::neighbour_space;

mod attach;
mod refusal;
mod succession;

pub(crate) use attach::{AttachedInterface, InterfaceSockets};
use attach::{Attachments, InterfacePrograms};
pub(crate) use refusal::no_privilege;
use refusal::refused;
pub(crate) use succession::EngineOffer;

/// The parts of the engine in the kernel that the workers use.
pub(crate) struct UserSpaceIo {
    pub(crate) injector: Arc<FrameInjector>,
    pub(crate) heartbeat: ResidentHeartbeat,
    /// Seed of the hash that chooses among several next hops.
    pub(crate) seed: u64,
    /// The policies of the interfaces.
    pub(crate) policies: Vec<PortPolicy>,
}

/// The attached programs. They are detached when this value is dropped, or when the process ends,
/// unless a successor has taken over their links.
pub(crate) struct ResidentEngine {
    router: BpfRouter,
    /// Decides which of several next hops a flow takes.
    hash: ResidentHash,
    attachments: Vec<AttachedInterface>,
    /// Why packet sockets are used although XDP was preferred, as text.
    fallback: Option<String>,
    /// Counts the redirected frames that drivers drop, if drivers can drop frames and this kernel
    /// reports it.
    drops: Option<Arc<DriverDrops>>,
    /// Why drops are not counted although drivers can drop frames, as text.
    uncounted: Option<String>,
    /// The generation for which [`Self::settle`] must wait: until then, programs may also use
    /// indices of earlier snapshots. `None` if no wait is needed.
    unsettled: Option<u64>,
    /// How many neighbours the kernel can store, for IPv4 and for IPv6; 0 if it does not report it.
    neighbour_space: [u32; 2],
    /// Whether there are rules, which must check every packet that the router forwards.
    has_rules: bool,
    /// Whether a client traces packets. Programs then forward no packets that workers could
    /// forward.
    is_traced: bool,
    /// Whether [`Self::stop`] was called, and [`Self::go_on`] was not called since then.
    is_stopped: bool,
}

impl ResidentEngine {
    /// Loads the programs and attaches them. They forward nothing yet. With `has_rules`, packets
    /// with IP options also go to the engine in user space, so that rules can check them.
    ///
    /// With an offer of another router, the programs are only loaded, and replace those of that
    /// router later.
    ///
    /// # Errors
    /// If a privilege is missing, another program is attached, or no mode works.
    pub(crate) fn open(
        ifaces: &[Iface],
        choice: IoChoice,
        has_rules: bool,
        offer: Option<EngineOffer>,
    ) -> Result<Self, Failure> {
        let queues = ifaces.iter().map(|iface| iface.rx_queues).max().unwrap_or(1);
        let queues = u16::try_from(queues).unwrap_or(u16::MAX);
        let limits = BpfLimits { queues, v6_nodes: ipv6_nodes(), ..BpfLimits::default() };
        // With the predecessor's seed, each flow keeps its next hop.
        let seed = offer.as_ref().map_or_else(random_seed, |offer| Ok(offer.seed))?;
        let hash = ResidentHash { seed, ..ResidentHash::default() };
        let router = BpfRouter::create(limits, hash).map_err(|error| refused(&error, None))?;
        let Attachments { interfaces: attachments, fallback } = match offer {
            Some(offer) => succession::succeed_all(&router, ifaces, offer)?,
            None => attach::attach_all(&router, ifaces, (choice, has_rules))?,
        };
        let (drops, uncounted) = driver_drops(&router, &attachments);
        let neighbour_space = neighbour_space::sizes().unwrap_or_default();
        let mut engine = Self {
            router,
            hash,
            attachments,
            fallback,
            drops,
            uncounted,
            unsettled: None,
            neighbour_space,
            has_rules,
            is_traced: false,
            is_stopped: false,
        };
        // An interface gets no redirected frames until it is known whether it sends them.
        (0..ifaces.len()).for_each(|at| engine.leave(FibPortIndex(at as u16), false));
        Ok(engine)
    }

    /// Returns the choice that names the running engine alone. `choice` is the one it was opened
    /// with.
    pub(crate) fn io(&self, choice: IoChoice) -> IoChoice {
        choice.of_running(self.attachments.iter().map(|of| of.mode))
    }

    pub(crate) fn interfaces(&self) -> &[AttachedInterface] {
        &self.attachments
    }

    /// Why packet sockets are used although XDP was preferred, as text.
    pub(crate) fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Returns why the frames that drivers drop are not counted, as text.
    pub(crate) fn uncounted(&self) -> Option<&str> {
        self.uncounted.as_deref()
    }

    /// Returns the counter of redirected frames that drivers drop; `None` if no driver can drop
    /// frames, or if this kernel does not report it.
    pub(crate) const fn drops(&self) -> Option<&Arc<DriverDrops>> {
        self.drops.as_ref()
    }

    /// Returns how many frames were redirected to a port and then dropped by its driver, without
    /// those of a previous router.
    pub(crate) fn driver_drops(&self, port: FibPortIndex) -> u64 {
        let before = self.attachments.get(usize::from(port.0)).map_or(0, |of| of.dropped_before);
        self.drops.as_ref().map_or(0, |drops| drops.dropped(port).saturating_sub(before))
    }

    /// Stops sending redirected frames to interfaces whose drivers have begun to refuse them.
    /// Returns the ports of these interfaces.
    pub(crate) fn stop_refused(&mut self) -> Vec<FibPortIndex> {
        let Some(drops) = &self.drops else { return Vec::new() };
        let mut stopped = Vec::new();
        for (of, port) in self.attachments.iter_mut().zip((0..).map(FibPortIndex)) {
            let refused = drops.refused(port);
            // Refused frames that were still in flight when the interface was stopped do not count
            // as a new refusal.
            if std::mem::replace(&mut of.refused, refused) != refused && of.sends {
                stopped.push(port);
            }
        }
        stopped.iter().for_each(|port| self.set_sends(*port, false));
        stopped
    }

    /// Returns what the checks for stages that packets would bypass need to know of each interface.
    pub(crate) fn checked(&self) -> Vec<CheckedInterface> {
        let of = |of: &AttachedInterface| CheckedInterface::new(&of.iface, of.tcx_programs());
        self.attachments.iter().map(of).collect()
    }

    /// Takes the sockets that get the frames of interfaces, if packets are forwarded in user space.
    /// Returns each of these interfaces with its sockets.
    pub(crate) fn take_sockets(&mut self) -> Vec<(Iface, InterfaceSockets)> {
        let take = |of: &mut AttachedInterface| Some((of.iface.clone(), of.sockets.take()?));
        self.attachments.iter_mut().filter_map(take).collect()
    }

    /// Returns the parts of this engine that workers in user space use.
    ///
    /// # Errors
    /// If the kernel refuses the program through which workers leave frames to it.
    pub(crate) fn user_space_io(&self) -> Result<UserSpaceIo, Failure> {
        let mut injector = self.router.injector().map_err(|error| refused(&error, None))?;
        for of in &self.attachments {
            if let InterfacePrograms::Packet(interception) = &of.link {
                injector.pass_interception(interception)?;
            }
        }
        Ok(UserSpaceIo {
            injector: Arc::new(injector),
            heartbeat: self.router.heartbeat(),
            seed: self.hash.seed,
            policies: self.attachments.iter().map(|of| policy(&of.iface.name)).collect(),
        })
    }

    /// Returns the IPv4 tables of the first `vrfs` VRFs, in the memory that the XDP programs read.
    ///
    /// # Errors
    /// If the kernel has no memory for them.
    pub(crate) fn ipv4_tables(&mut self, vrfs: usize) -> Result<Vec<Box<dyn Ipv4Table>>, Failure> {
        let indices = (0..vrfs).map(|at| VrfIndex(at as u16));
        let tables = indices.map(|vrf| self.router.ipv4_table(vrf)).collect::<Result<_, _>>();
        Ok(tables.map_err(|error| refused(&error, None))?)
    }

    /// Sets the interfaces of ports, for probes before the first snapshot.
    pub(crate) fn set_interfaces(&mut self, ports: &[FibPort]) {
        self.router.set_interfaces(ports);
    }

    /// The maximum number of nodes with which programs can search an IPv6 tree.
    pub(crate) fn ipv6_nodes(&self) -> usize {
        self.router.limits().v6_nodes as usize
    }

    /// Makes the kernel forward all packets until [`Self::go_on`]. Workers still process the
    /// packets that they already have.
    ///
    /// # Errors
    /// The kernel's error while waiting for running programs.
    pub(crate) fn stop(&mut self) -> io::Result<()> {
        self.is_stopped = true;
        self.router.disable()
    }

    /// Makes the programs use a snapshot. The first snapshot starts the forwarding.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn apply(&mut self, tables: &ForwardingTables) -> io::Result<()> {
        self.router.apply(tables).map_err(io::Error::other)?;
        self.unsettled = Some(tables.generation);
        if !self.is_stopped {
            self.router.enable();
        }
        Ok(())
    }

    /// Waits until no program uses indices of snapshots before the newest one. Returns the
    /// generation of the newest snapshot, or `None` if no wait was needed.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn settle(&mut self) -> io::Result<Option<u64>> {
        let Some(generation) = self.unsettled.take() else { return Ok(None) };
        self.router.quiesce()?;
        Ok(Some(generation))
    }

    /// Waits until programs that were replaced have ended, so that their counters are final.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn wait_for_programs(&mut self) -> io::Result<()> {
        self.router.quiesce()
    }

    /// Makes the next [`Self::settle`] wait again, and return at least this generation, because
    /// another reader still uses an earlier snapshot.
    pub(crate) fn unsettle(&mut self, generation: u64) {
        self.unsettled = self.unsettled.max(Some(generation));
    }

    /// Returns the writer of heartbeats. Without heartbeats, all packets are left to the kernel.
    pub(crate) fn heartbeat(&self) -> ResidentHeartbeat {
        self.router.heartbeat()
    }

    /// Tells the programs the addresses of this machine. Packets from these addresses are not
    /// forwarded.
    pub(crate) fn set_local(&mut self, addresses: &[(IpAddr, u8)]) {
        self.router.set_local(addresses);
    }

    /// If `is_limited` is true, limits how many hosts per second the programs pass to the kernel
    /// for the resolution of their MAC addresses: to as many as the kernel can store. Otherwise
    /// removes the limit.
    pub(crate) fn limit_hosts(&self, is_limited: bool) {
        self.router.set_host_limits(if is_limited { self.neighbour_space } else { [0; 2] });
    }

    /// Leaves an interface's packets to the kernel, or forwards them again.
    pub(crate) fn leave(&mut self, port: FibPortIndex, is_left: bool) {
        self.change(port, |of| of.is_left = is_left);
    }

    /// Sets whether packets that arrive on an interface are left to the kernel's routing rules.
    pub(crate) fn set_ruled(&mut self, port: FibPortIndex, is_ruled: bool) {
        self.change(port, |of| of.is_ruled = is_ruled);
    }

    /// Sets whether redirected frames can leave by an interface. If not, frames for it are left to
    /// the kernel.
    pub(crate) fn set_sends(&mut self, port: FibPortIndex, sends: bool) {
        self.change(port, |of| of.sends = sends);
    }

    /// Sets whether a policer limits packets that arrive on an interface.
    pub(crate) fn set_policed(&mut self, port: FibPortIndex, is_policed: bool) {
        self.change(port, |of| of.is_policed = is_policed);
    }

    /// Sets whether a client traces packets. On ports with sockets, the programs then forward
    /// nothing themselves: workers get these packets.
    pub(crate) fn set_traced(&mut self, is_traced: bool) {
        if std::mem::replace(&mut self.is_traced, is_traced) != is_traced {
            let ports = 0..self.attachments.len() as u16;
            ports.for_each(|at| self.change(FibPortIndex(at), |_| ()));
        }
    }

    fn change(&mut self, port: FibPortIndex, change: impl FnOnce(&mut AttachedInterface)) {
        let Some(of) = self.attachments.get_mut(usize::from(port.0)) else { return };
        change(of);
        let ingress = !of.is_left && !of.is_ruled;
        let direct = !self.has_rules && !self.is_traced && !of.is_policed;
        let options = ResidentOptions { ingress, egress: !of.is_left && of.sends, direct };
        self.router.set_options(port, options);
    }

    /// Returns an engine in user space that makes the same decisions as the programs. It serves to
    /// explain them.
    pub(crate) fn model(&self, tables: Arc<ForwardingTables>, own: Vec<IpAddr>) -> RouteEngine {
        let ResidentHash { seed, uses_flow_label } = self.hash;
        let config =
            RouteConfig { seed, uses_flow_label, own_addresses: own, ..RouteConfig::default() };
        RouteEngine::new(config, tables)
    }

    /// Returns the programs' counters, by port.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn counters(&self) -> io::Result<Vec<ResidentCounters>> {
        let ports = 0..self.attachments.len();
        ports.map(|at| self.router.counters(FibPortIndex(at as u16))).collect()
    }
}

impl Drop for ResidentEngine {
    /// First stops all programs from giving packets to workers. Otherwise, the workers' packet
    /// sockets would still get packets after the program that hides these packets from the kernel
    /// is detached. Both the workers and the kernel would then forward them.
    fn drop(&mut self) {
        // If the kernel refuses, running programs keep the previous setting.
        let _ = self.router.disable();
    }
}

/// Checks whether the kernel lets this process load programs. Called before another router is
/// ended.
///
/// # Errors
/// If a privilege is missing.
pub(crate) fn try_to_load() -> Result<(), Failure> {
    let router = BpfRouter::create(BpfLimits::default(), ResidentHash::default());
    let loaded = router.and_then(|router| router.injector());
    Ok(loaded.map(drop).map_err(|error| refused(&error, None))?)
}

/// Starts counting the frames that drivers drop, if any interface sends redirected frames through
/// its driver. Returns the counter or, if the kernel cannot count, the reason as text.
fn driver_drops(
    router: &BpfRouter,
    attachments: &[AttachedInterface],
) -> (Option<Arc<DriverDrops>>, Option<String>) {
    if attachments.iter().all(|of| of.probe.is_none()) {
        return (None, None);
    }
    let ifindexes: Vec<_> = attachments.iter().map(|of| of.iface.index).collect();
    match router.driver_drops(&ifindexes) {
        Ok(drops) => (Some(Arc::new(drops)), None),
        Err(error) => (None, Some(error.to_string())),
    }
}

/// Returns the number of nodes of an IPv6 tree for twice as many routes as the kernel has now. The
/// maps cannot grow later.
fn ipv6_nodes() -> u32 {
    let least = BpfLimits::default().v6_nodes;
    let text = std::fs::read_to_string("/proc/thread-self/net/rt6_stats").unwrap_or_default();
    // The fourth number, in hexadecimal, is the number of entries (`rt6_stats_seq_show`).
    let entries = text.split_ascii_whitespace().nth(3);
    let entries = entries.and_then(|entries| u32::from_str_radix(entries, 16).ok()).unwrap_or(0);
    // A node contains at least 13 starts of ranges on average, and a route creates two starts. So
    // twice as many routes as entries need less than one node for every three entries.
    (entries / 3).clamp(least, BpfLimits::MAX_V6_NODES)
}

/// Converts the kernel's settings of an interface to a policy for the engine in user space.
pub(crate) fn policy(name: &str) -> PortPolicy {
    let withholds_v4_redirects = !checks::is_set_for(name, "send_redirects");
    PortPolicy { withholds_v4_redirects, ..PortPolicy::default() }
}

fn random_seed() -> io::Result<u64> {
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(seed))
}
