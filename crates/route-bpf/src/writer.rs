//! Writes forwarding tables into the maps, as differences, while programs read them.
//!
//! Each record is a word that one store replaces. Records are written before the words that contain
//! their indices, so a program that finds a new word finds a new record; only ports are written
//! last, since frames for a port without flags go to the kernel. This is not enough if an index
//! gets another meaning: a program may have read an old word that contains the index, but not yet
//! the record to which the index now refers.
//!
//! ```text
//!   1  indices with another meaning: collected from the previous and the new snapshot
//!   2  words that will not contain such an index any more: set to "kernel"; ports: to no flags
//!   3  wait for the programs that run                     (only if step 2 changed something)
//!   4  adjacencies, buckets, targets, sources, ports (each after its egress interface)
//!   5  IPv6 trees, into the buffer that no program uses; then the buffers change places
//! ```
//! The owner of the IPv4 table entries (cells) writes them after the snapshot, so a program finds
//! the old target or the new one. Until then, the cells lead to old targets, so the snapshot still
//! has these; only the next snapshot lacks them. If packets for the old targets went to the kernel
//! instead, they could take a route that is newer than the snapshot, and packets after them would
//! take an older one.
//!
//! Packets for anything that the maps cannot represent go to the kernel: indices beyond the limits,
//! and subinterfaces.
//!
//! # Invariants
//! 1. A program that reads an index in one record finds the meaning that the index had when the
//!    record was read, or leaves the frame to the kernel.

mod changes;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slipring_bpf::{BpfError, MappedArray};
use slipring_classify::intervals::IntervalTree;
use slipring_fib::{
    Adjacency, BUCKETS, FibPort, FibPortIndex, ForwardingTables, NextHopAddress, ReversePathMode,
    Target, TargetAction, VlanTags, VrfIndex,
};
use slipring_wire::mac::MacAddr;

use crate::layout::{self, ActionCode, BpfLimits, map};
use crate::maps::MapHost;
use crate::sources::{self, PORTS_PER_WORD};
use crate::tree::TreeBuffers;
use changes::ChangedIndices;

/// What the programs may do with the frames of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResidentOptions {
    /// Whether frames that arrive on the port may be forwarded, by the program or by the engine in
    /// user space. If not, the kernel gets them.
    pub ingress: bool,
    /// Whether programs may send frames through the port. If not, for example because its driver
    /// cannot send redirected frames, the kernel gets them.
    pub egress: bool,
    /// For a port with packet sockets: whether the kernel may forward frames that arrive on it
    /// without the sockets, if a lookup is all that they need. False if the sockets' reader must
    /// see every frame.
    pub direct: bool,
}

impl Default for ResidentOptions {
    fn default() -> Self {
        Self { ingress: true, egress: true, direct: false }
    }
}

/// The tables of one VRF.
#[derive(Debug)]
struct VrfMaps<T> {
    v4: Arc<MappedArray>,
    v6: TreeBuffers<T>,
}

#[derive(Debug)]
pub(crate) struct TableWriter<H: MapHost> {
    pub(crate) host: H,
    limits: BpfLimits,
    pub(crate) control: Arc<MappedArray>,
    ports: Arc<MappedArray>,
    targets: Arc<MappedArray>,
    sources: Arc<MappedArray>,
    adjacencies: Arc<MappedArray>,
    buckets: Arc<MappedArray>,
    local: Arc<MappedArray>,
    /// Only BPF programs write to this map. It is only kept open here.
    _hosts: Arc<MappedArray>,
    vrfs: BTreeMap<u16, VrfMaps<H::Table>>,
    options: BTreeMap<FibPortIndex, ResidentOptions>,
    /// The indices of the interfaces in the map of egress interfaces, by port.
    egress: BTreeMap<u16, u32>,
    current: Option<ForwardingTables>,
    /// Snapshots whose indices programs may still use.
    retired: Vec<ForwardingTables>,
    quiesced: u64,
}

impl<H: MapHost> TableWriter<H> {
    pub(crate) fn create(mut host: H, limits: BpfLimits) -> Result<Self, BpfError> {
        let mut array = |name| host.array(name, limits.array(name).expect("these are arrays"));
        let control = array(map::CONTROL)?;
        let (ports, targets) = (array(map::PORTS)?, array(map::TARGETS)?);
        let sources = array(map::SOURCES)?;
        let (adjacencies, buckets) = (array(map::ADJACENCIES)?, array(map::BUCKETS)?);
        let (local, hosts) = (array(map::LOCAL)?, array(map::HOSTS)?);
        let mut writer = Self {
            host,
            limits,
            control,
            ports,
            targets,
            sources,
            adjacencies,
            buckets,
            local,
            _hosts: hosts,
            vrfs: BTreeMap::new(),
            options: BTreeMap::new(),
            egress: BTreeMap::new(),
            current: None,
            retired: Vec::new(),
            quiesced: 0,
        };
        writer.vrf(VrfIndex::default())?;
        Ok(writer)
    }

    /// The IPv4 table of a VRF, which is created if it does not exist.
    pub(crate) fn v4(&mut self, vrf: VrfIndex) -> Result<Arc<MappedArray>, BpfError> {
        Ok(Arc::clone(&self.vrf(vrf)?.v4))
    }

    fn vrf(&mut self, vrf: VrfIndex) -> Result<&mut VrfMaps<H::Table>, BpfError> {
        if !self.vrfs.contains_key(&vrf.0) {
            let made = self.make_vrf(vrf)?;
            self.vrfs.insert(vrf.0, made);
        }
        Ok(self.vrfs.get_mut(&vrf.0).expect("it was inserted"))
    }

    fn make_vrf(&mut self, vrf: VrfIndex) -> Result<VrfMaps<H::Table>, BpfError> {
        let spec = |name| self.limits.array(name).expect("these are arrays");
        let (v4_spec, v6_spec) = (spec(map::V4), spec(map::V6));
        let (table, v4) = self.host.table(map::V4, v4_spec)?;
        let refused = |source| BpfError::System { what: "set the table of a VRF", source };
        self.host.publish(map::V4, vrf.0, &table).map_err(refused)?;
        let v6 = TreeBuffers::new(
            self.host.table(map::V6, v6_spec)?,
            self.host.table(map::V6, v6_spec)?,
        );
        Ok(VrfMaps { v4, v6 })
    }

    /// Replaces the IPv6 tree of a VRF; afterwards no program uses the previous one.
    fn set_v6(&mut self, vrf: VrfIndex, tree: Option<&IntervalTree>) -> Result<(), BpfError> {
        let capacity = self.limits.v6_nodes;
        self.vrf(vrf)?;
        let tables = self.vrfs.get_mut(&vrf.0).expect("it was created");
        let refused = |source| BpfError::System { what: "replace an IPv6 table", source };
        let next = tables.v6.write(tree, capacity);
        self.host.publish(map::V6, vrf.0, next).map_err(refused)?;
        tables.v6.set_published();
        Ok(())
    }

    /// Sets the addresses of this machine, with their prefix lengths. If a prefix other than
    /// 127.0.0.0/8 contains more than one address, all packets go to the kernel.
    pub(crate) fn set_local(&mut self, addresses: &[(IpAddr, u8)]) {
        let mut bits = vec![0_u64; layout::LOCAL_SIZE as usize / 8];
        for &(address, len) in addresses {
            let (bit, whole) = match address {
                IpAddr::V4(address) => (layout::local_bit(address.octets()), 32),
                IpAddr::V6(address) => (layout::local_bit_v6(address.to_bits()), 128),
            };
            match len {
                _ if len == whole => bits[usize::from(bit / 64)] |= 1 << (bit % 64),
                _ if address.is_loopback() => {}
                _ => bits.fill(u64::MAX),
            }
        }
        for (at, &word) in bits.iter().enumerate() {
            store(&self.local, 8 * at, word);
        }
    }

    /// Sets how many hosts without a MAC address the kernel is asked to resolve in a tick at most,
    /// for IPv4 and for IPv6. 0 means no limit, and so does a number above `MAX_HOST_LIMIT`.
    pub(crate) fn set_host_limits(&self, limits: [u32; 2]) {
        let offsets = (layout::HOST_LIMITS_OFFSET as usize..).step_by(8);
        for (limit, at) in limits.into_iter().zip(offsets) {
            let limit = if limit > layout::MAX_HOST_LIMIT { 0 } else { limit };
            store(&self.control, at, limit.into());
        }
    }

    pub(crate) fn set_options(&mut self, port: FibPortIndex, options: ResidentOptions) {
        self.options.insert(port, options);
        let ports = self.current.as_ref().map(|tables| Arc::clone(&tables.ports));
        if let Some(fib_port) = ports.iter().flat_map(|ports| ports.get(usize::from(port.0))).next()
        {
            self.write_port(port.0, fib_port);
        }
    }

    /// Replaces the tables that programs use by those of a snapshot, except the IPv4 destinations,
    /// which their owner changes in place.
    pub(crate) fn apply(&mut self, tables: &ForwardingTables) -> Result<(), BpfError> {
        let changed = ChangedIndices::between(self.current.as_ref(), tables);
        if self.suspend(&changed, tables) {
            self.quiesce()
                .map_err(|source| BpfError::System { what: "wait for programs", source })?;
        }
        self.write_adjacencies(tables);
        self.write_buckets(tables);
        self.write_targets(tables);
        self.write_sources(tables);
        for (at, port) in tables.ports.iter().enumerate().take(self.limits.ports.into()) {
            self.write_port(at as u16, port);
        }
        for at in tables.ports.len()..self.limits.ports.into() {
            store(&self.ports, at * layout::PORT_SIZE as usize, 0);
        }
        let previous = self.current.clone();
        let is_published = self.write_v6(previous.as_ref(), tables)?;
        // The snapshot is stored only now, so if a tree could not be published, a retry writes it
        // again.
        self.current = Some(tables.clone());
        self.retired.extend(previous);
        if is_published {
            // Each publication of a tree has waited for running programs, and all other records
            // were written before it, so no program uses a retired snapshot.
            self.retired.clear();
            self.quiesced = tables.generation;
        }
        Ok(())
    }

    /// Step 5: replaces the IPv6 trees that differ from those of the previous snapshot. Returns
    /// whether any differed.
    fn write_v6(
        &mut self,
        previous: Option<&ForwardingTables>,
        tables: &ForwardingTables,
    ) -> Result<bool, BpfError> {
        let mut is_published = false;
        for (at, vrf) in tables.vrfs.iter().enumerate().take(self.limits.vrfs.into()) {
            let old = previous.and_then(|tables| tables.vrfs.get(at));
            if !old.is_some_and(|old| std::ptr::addr_eq(Arc::as_ptr(&old.v6), Arc::as_ptr(&vrf.v6)))
            {
                self.set_v6(VrfIndex(at as u16), vrf.v6.intervals())?;
                is_published = true;
            }
        }
        Ok(is_published)
    }

    /// Waits until no program uses an index of a snapshot before the current one, and drops those
    /// snapshots.
    pub(crate) fn quiesce(&mut self) -> io::Result<()> {
        self.host.quiesce()?;
        self.retired.clear();
        self.quiesced = self.current.as_ref().map_or(0, |tables| tables.generation);
        Ok(())
    }

    pub(crate) fn quiesced_generation(&self) -> u64 {
        self.quiesced
    }

    /// Step 2: disables the ports whose meaning changes, and the words that will be replaced and
    /// contain an index whose meaning changes. Returns whether there were any.
    fn suspend(&mut self, changed: &ChangedIndices, tables: &ForwardingTables) -> bool {
        let mut suspended = false;
        for &port in &changed.ports {
            suspended |= store(&self.ports, usize::from(port) * layout::PORT_SIZE as usize, 0);
        }
        let kernel = layout::target_word(ActionCode::Kernel, 0, 0);
        for (at, target) in tables.targets.iter().enumerate().take(self.limits.targets.into()) {
            let offset = at * layout::TARGET_SIZE as usize;
            let (old, new) = (load(&self.targets, offset), self.target(target));
            if old != new && changed.contain_index_of(old) {
                suspended |= store(&self.targets, offset, kernel);
            }
        }
        for (group, buckets) in tables.buckets.iter().enumerate().take(self.limits.groups.into()) {
            for (at, &new) in bucket_words(buckets).iter().enumerate() {
                let offset = group * layout::GROUP_SIZE as usize + 8 * at;
                let old = load(&self.buckets, offset);
                if old != new && changed.contain_adjacency_of(old, new) {
                    suspended |= store(&self.buckets, offset, u64::MAX);
                }
            }
        }
        suspended
    }

    fn write_adjacencies(&self, tables: &ForwardingTables) {
        let limit = usize::from(self.limits.adjacencies);
        for (at, adjacency) in tables.adjacencies.iter().enumerate().take(limit) {
            store(
                &self.adjacencies,
                at * layout::ADJACENCY_SIZE as usize,
                adjacency_word(adjacency, tables),
            );
        }
    }

    fn write_buckets(&self, tables: &ForwardingTables) {
        for (group, buckets) in tables.buckets.iter().enumerate().take(self.limits.groups.into()) {
            for (at, word) in bucket_words(buckets).into_iter().enumerate() {
                store(&self.buckets, group * layout::GROUP_SIZE as usize + 8 * at, word);
            }
        }
    }

    fn write_targets(&self, tables: &ForwardingTables) {
        for (at, target) in tables.targets.iter().enumerate().take(self.limits.targets.into()) {
            store(&self.targets, at * layout::TARGET_SIZE as usize, self.target(target));
        }
    }

    /// Writes the words by which programs check sources. No word is suspended for this: the words
    /// contain no indices, and a target index gets another meaning only after no program uses it.
    fn write_sources(&self, tables: &ForwardingTables) {
        let words = (tables.ports.len() as u32).div_ceil(PORTS_PER_WORD);
        let words = words.min(self.limits.source_size() / 8);
        for (at, target) in tables.targets.iter().enumerate().take(self.limits.targets.into()) {
            for index in 0..words {
                let offset = at * self.limits.source_size() as usize + 8 * index as usize;
                store(&self.sources, offset, sources::word(target, tables, index));
            }
        }
    }

    /// Returns the word of a target; the word of a kernel route if its index is beyond the maps'
    /// limits, or if programs do not know its action.
    fn target(&self, target: &Target) -> u64 {
        let word = |action, index| layout::target_word(action, index, target.mtu);
        match target.action {
            TargetAction::NoRoute => word(ActionCode::NoRoute, 0),
            TargetAction::Forward(adjacency) if adjacency.0 < self.limits.adjacencies => {
                word(ActionCode::Forward, adjacency.0)
            }
            TargetAction::Balance(group) if group < self.limits.groups => {
                word(ActionCode::Balance, group)
            }
            _ => word(ActionCode::Kernel, 0),
        }
    }

    /// Writes the record of a port, and first sets its egress interface.
    fn write_port(&mut self, at: u16, port: &FibPort) {
        let options = self.options.get(&FibPortIndex(at)).copied().unwrap_or_default();
        let usable = port.is_up && port.tags == VlanTags::default();
        if !usable {
            // An interface goes down before it leaves the namespace, and the kernel removes it from
            // the map when it leaves. So the entry of a port that is not usable is forgotten here.
            self.egress.remove(&at);
        }
        // The map contains the interface even if the programs do not use it, because probes use it.
        let egress = usable && self.has_egress(at, port.ifindex) && options.egress;
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(usable && options.ingress, layout::PORT_INGRESS)
            | flag(egress, layout::PORT_EGRESS)
            | flag(options.direct, layout::PORT_DIRECT)
            | check_flag(port.reverse_path)
            | check_flag(port.reverse_path_v6) << layout::PORT_V6_SHIFT;
        let record = usize::from(at) * layout::PORT_SIZE as usize;
        let second = u64::from(port.mtu) | u64::from(port.vrf.0) << 32;
        store(&self.ports, record + layout::PORT_MTU_OFFSET as usize, second);
        store(&self.ports, record + layout::PORT_IFINDEX_OFFSET as usize, port.ifindex.into());
        store(&self.ports, record, layout::mac_word(port.mac, flags));
    }

    /// Sets the interfaces to which frames for ports are redirected, before the first snapshot.
    /// Probes need nothing else.
    pub(crate) fn set_interfaces(&mut self, ports: &[FibPort]) {
        for (port, at) in ports.iter().take(self.limits.ports.into()).zip(0..) {
            if port.is_up && port.tags == VlanTags::default() {
                self.has_egress(at, port.ifindex);
            }
        }
    }

    /// Puts a port's interface into the map of egress interfaces, if it is not there yet. Returns
    /// whether it is there; it is not if the interface no longer exists.
    fn has_egress(&mut self, port: u16, ifindex: u32) -> bool {
        if self.egress.get(&port) == Some(&ifindex) {
            return true;
        }
        let is_set = self.host.set_egress(port, ifindex).is_ok();
        if is_set {
            self.egress.insert(port, ifindex);
        } else {
            self.egress.remove(&port);
        }
        is_set
    }
}

/// The flag of a check of IPv4 sources.
const fn check_flag(mode: ReversePathMode) -> u16 {
    match mode {
        ReversePathMode::Off => 0,
        ReversePathMode::Loose => layout::PORT_LOOSE,
        ReversePathMode::Strict => layout::PORT_STRICT,
    }
}

/// Stores a word if it differs from the present one, and returns whether it does. Release: programs
/// that see the word see what was stored before it.
fn store(array: &MappedArray, offset: usize, word: u64) -> bool {
    let cell = array.atomic::<AtomicU64>(0, offset).expect("offsets are within the limits");
    let differs = cell.load(Ordering::Relaxed) != word;
    if differs {
        cell.store(word, Ordering::Release);
        #[cfg(test)]
        crate::testing::note_store(array);
    }
    differs
}

fn load(array: &MappedArray, offset: usize) -> u64 {
    let cell = array.atomic::<AtomicU64>(0, offset).expect("offsets are within the limits");
    cell.load(Ordering::Relaxed)
}

fn adjacency_word(adjacency: &Adjacency, tables: &ForwardingTables) -> u64 {
    let port = tables.ports.get(usize::from(adjacency.port.0));
    match adjacency.mac {
        Some(mac) => layout::mac_word(mac, adjacency.port.0),
        // The kernel resolves the hosts of a directly connected network, except those of a
        // subinterface, which the router itself resolves.
        None if adjacency.next_hop == NextHopAddress::OnLink
            && port.is_some_and(|port| port.tags == VlanTags::default()) =>
        {
            layout::mac_word(MacAddr::ZERO, layout::HOST_WITHOUT_MAC)
        }
        None => layout::mac_word(MacAddr::ZERO, layout::NO_PORT),
    }
}

/// The buckets of a group as words of four indices.
fn bucket_words(buckets: &[slipring_fib::AdjacencyIndex; BUCKETS]) -> Vec<u64> {
    let words = buckets.chunks_exact(4);
    words
        .map(|four| four.iter().rev().fold(0, |word, index| word << 16 | u64::from(index.0)))
        .collect()
}

#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod tests;
