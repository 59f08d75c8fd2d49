//! The mirror: a copy of the kernel's forwarding state, built from its messages.
//!
//! ```text
//!   messages --> receive --> links, addresses, rules, next hops, neighbours, routes
//!                  |                                    |
//!                  +--> needs_resync                    v   publish, after each batch
//!                                         specs evaluated, ForwardingTables
//!                                                       |
//!                                   readers use these   v   write_ipv4
//!                                         ranges of IPv4 tables written
//! ```
//!
//! # What the kernel does not say
//! It removes IPv4 routes without a message when an interface goes down, when their preferred
//! source address is deleted, and when their next-hop object is removed. It removes next-hop
//! objects without a message when their interface goes down or loses its carrier. So after these
//! events, the next publication leaves the routes concerned to the kernel, and dumps are requested.
//! When the dumps are complete, routes that no longer exist are removed.

mod commit;
mod names;
mod publish;
mod questions;
mod receive;
mod targets;
mod verify;
mod write;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_classify::intervals::IntervalTree;
use slipring_rtnetlink::RouteFamily;
use slipring_simd::Simd;

use crate::adjacencies::AdjacencyTable;
use crate::balanced::BucketArrays;
use crate::config::{MirrorConfig, PortConfig, VrfConfig};
use crate::crowding::CrowdedPrefixes;
use crate::deferred::DeferredChanges;
use crate::indices::PublishedSnapshots;
use crate::links::Links;
use crate::lookups::{Ipv4Table, Ipv6Tree};
use crate::neighbours::NeighbourTable;
use crate::next_hops::NextHopObjects;
use crate::prefix::RoutePrefix;
use crate::resync::{DumpKind, DumpSet, Resync};
use crate::rib::RouteRecord;
use crate::routes::{RESERVED_TABLE, RouteTables};
use crate::rules::RoutingRules;
use crate::specs::{RouteSpec, Specs};
use crate::tables::{FibPortIndex, ForwardingTables, ReversePathMode, TargetIndex, VrfIndex};
use crate::targets::{HostKey, TargetTable};

pub use names::{InterfaceEntry, NeighbourInfo, RouteEntry, RouteLead};
pub use questions::{GatewayRequest, RouteAnswer};
pub use verify::{VerifyBusy, VerifyReport};

/// Counts of errors since the mirror was created, and of objects for which there was no space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorCounters {
    /// Routes for which there was no space ([`FibLimits::routes`](crate::FibLimits::routes)).
    /// Packets that they would match are left to the kernel.
    pub refused_routes: u64,
    /// Neighbours for which there was no space; their packets are left to the kernel.
    pub refused_neighbours: u64,
    /// Next-hop objects for which there was no space. Packets of the routes that use them are left
    /// to the kernel.
    pub refused_next_hops: u64,
    /// How often there was no target index, adjacency or bucket array for a route or host, so that
    /// it was left to the kernel.
    pub exhausted: u64,
    /// How often a /24 prefix was left to the kernel for lack of a tail block.
    pub exhausted_blocks: u64,
    /// IPv6 prefixes left to the kernel because a tree was full. A prefix is counted each time that
    /// there were too few nodes.
    pub exhausted_prefixes: u64,
    /// How often notifications of the kernel were lost.
    pub overruns: u64,
    /// Dumps that must be repeated: the kernel has marked them as inconsistent, they have failed,
    /// or they may lack changes of the time in which they ran.
    pub interrupted_dumps: u64,
    /// Routes that the kernel had removed without a notification, as a dump showed.
    pub silent_removals: u64,
    /// Messages that contradicted the mirror. Each of them causes a dump.
    pub doubtful_messages: u64,
}

impl MirrorCounters {
    /// Returns how often there was no space for an object of any kind.
    #[must_use]
    pub const fn unplaced(&self) -> u64 {
        self.refused_routes
            + self.refused_neighbours
            + self.refused_next_hops
            + self.exhausted
            + self.exhausted_blocks
            + self.exhausted_prefixes
    }
}

/// The tables of a VRF that the mirror writes.
#[derive(Debug)]
struct VrfState {
    config: VrfConfig,
    v4: Box<dyn Ipv4Table>,
    v4_reader: Arc<dyn crate::tables::Ipv4Lookup>,
    /// The number of blocks of `v4` that had been retired when the newest snapshot was made.
    v4_retired: usize,
    v6: Arc<Ipv6Tree>,
    /// IPv6 prefixes that were left to the kernel because there were too few nodes.
    crowded: CrowdedPrefixes,
    /// IPv4 slots (/24) that were left to the kernel because there were too few blocks.
    starved: BTreeSet<u32>,
    /// The hosts that have their own entries in the lookup structures, with the keys of their
    /// targets.
    hosts: BTreeMap<IpAddr, HostKey>,
}

/// The kernel's forwarding state, and the tables made from it.
#[derive(Debug)]
pub struct Mirror {
    config: MirrorConfig,
    links: Links,
    next_hops: NextHopObjects,
    neighbours: NeighbourTable,
    rules: RoutingRules,
    v4: RouteTables<u32>,
    v6: RouteTables<u128>,
    specs: Specs,
    targets: TargetTable,
    adjacencies: AdjacencyTable,
    buckets: BucketArrays,
    vrfs: Vec<VrfState>,
    resync: Resync,
    counters: MirrorCounters,
    snapshots: PublishedSnapshots,
    published: Option<Arc<ForwardingTables>>,
    /// The generation of the next snapshot.
    generation: u64,
    deferred: DeferredChanges,
    /// Whether the contents of routes ([`RouteSpec`]) must be evaluated again, because interfaces
    /// or other objects on which their targets depend have changed.
    has_stale_specs: bool,
    /// Hosts whose entries in the lookup structures may have to be updated.
    dirty_hosts: BTreeSet<IpAddr>,
    /// Whether some specs or hosts found no space since all were last evaluated.
    is_starved: bool,
    /// The adjacency after which the next [`Self::solicit`] continues.
    asked: Option<crate::adjacencies::AdjacencyKey>,
    /// The running verification; `None` if none runs.
    check: Option<verify::Check>,
    simd: Simd,
}

impl Mirror {
    /// Creates an empty mirror, for which all tables must be dumped. `ipv4` contains one table per
    /// VRF, in which all addresses have the value 0.
    ///
    /// # Panics
    /// If there is no VRF, or if `ipv4` does not contain one table for each VRF.
    #[must_use]
    pub fn new(config: MirrorConfig, ipv4: Vec<Box<dyn Ipv4Table>>) -> Self {
        assert!(!config.vrfs.is_empty(), "at least one VRF");
        assert_eq!(config.vrfs.len(), ipv4.len(), "an IPv4 table for each VRF");
        let simd = Simd::detect();
        let vrfs =
            config.vrfs.iter().zip(ipv4).map(|(vrf, v4)| VrfState::new(vrf.clone(), v4, simd));
        let mut mirror = Self {
            vrfs: vrfs.collect(),
            links: Links::new(config.ports.clone()),
            next_hops: NextHopObjects::default(),
            neighbours: NeighbourTable::default(),
            rules: RoutingRules::default(),
            v4: RouteTables::new(RouteFamily::V4),
            v6: RouteTables::new(RouteFamily::V6),
            specs: Specs::default(),
            targets: TargetTable::new(),
            adjacencies: AdjacencyTable::new(config.limits.adjacencies.min(1 << 16)),
            buckets: BucketArrays::new(config.limits.balanced.min(1 << 16)),
            resync: Resync::new(),
            counters: MirrorCounters::default(),
            snapshots: PublishedSnapshots::new(config.has_external_readers),
            published: None,
            generation: 1,
            deferred: DeferredChanges::default(),
            has_stale_specs: true,
            dirty_hosts: BTreeSet::new(),
            is_starved: false,
            asked: None,
            check: None,
            simd,
            config,
        };
        mirror.choose_tables();
        mirror.reserve();
        mirror
    }

    /// Replaces the router's interfaces. Their order determines their indices.
    pub fn set_ports(&mut self, ports: Vec<PortConfig>) {
        self.links.set_ports(ports.clone());
        self.config.ports = ports;
        self.has_stale_specs = true;
    }

    /// Changes the tables of a VRF, after the kernel's rules have changed.
    pub fn set_vrf(&mut self, vrf: VrfIndex, config: VrfConfig) {
        let Some(state) = self.vrfs.get_mut(usize::from(vrf.0)) else { return };
        if state.config != config {
            state.config = config;
            self.choose_tables();
            self.mark_all();
        }
    }

    /// The tables of the VRFs, by [`VrfIndex`].
    #[must_use]
    pub fn vrf_configs(&self) -> Vec<VrfConfig> {
        self.vrfs.iter().map(|vrf| vrf.config.clone()).collect()
    }

    /// Changes the VRF of a port, after the kernel's rules have changed.
    pub fn set_port_vrf(&mut self, port: FibPortIndex, vrf: VrfIndex) {
        self.links.set_vrf(port, vrf);
    }

    /// Sets how the sources of packets are checked, by port, even if the kernel does not check
    /// them. Ports beyond the end have only the kernel's check. The setting is in force with the
    /// next snapshot.
    pub fn set_source_checks(&mut self, checks: Vec<ReversePathMode>) {
        self.links.set_source_checks(checks);
    }

    /// Selects the tables of the VRFs for mirroring. New tables must be dumped.
    fn choose_tables(&mut self) {
        let of = |tables: fn(&VrfConfig) -> &Vec<u32>| -> Vec<u32> {
            let all = self.vrfs.iter().flat_map(|vrf| tables(&vrf.config).iter().copied());
            core::iter::once(RESERVED_TABLE).chain(all).collect()
        };
        let (v4, v6) = (of(|config| &config.v4), of(|config| &config.v6));
        if self.v4.set_tables(&v4, &mut self.specs) {
            self.resync.want_one(DumpKind::Ipv4Routes);
        }
        if self.v6.set_tables(&v6, &mut self.specs) {
            self.resync.want_one(DumpKind::Ipv6Routes);
        }
    }

    /// Leaves to the kernel all destinations that a router never forwards. For IPv4, these are this
    /// network and loopback (RFC 1122, 3.2.1.3), multicast, and the limited broadcast with the rest
    /// of its /24, so that this /24 needs no block. For IPv6, these are the unspecified address and
    /// loopback (RFC 4291, 2.5.2 and 2.5.3), link-local, and multicast.
    fn reserve(&mut self) {
        let spec = self.specs.acquire(RouteSpec::KERNEL);
        let record = RouteRecord::new(spec, 0, 0, 0, 0);
        for (start, len) in
            [(0x0000_0000_u32, 8), (0x7f00_0000, 8), (0xe000_0000, 4), (0xffff_ff00, 24)]
        {
            let rib = self.v4.ribs.entry(RESERVED_TABLE).or_default();
            rib.insert_first(RoutePrefix::around(start, len), record);
        }
        for (start, len) in [(0_u128, 127), (0xfe80 << 112, 10), (0xff00 << 112, 8)] {
            let rib = self.v6.ribs.entry(RESERVED_TABLE).or_default();
            rib.insert_first(RoutePrefix::around(start, len), record);
        }
    }

    /// Marks all addresses of all tables to be written again.
    fn mark_all(&mut self) {
        self.v4.dirty.add_all();
        self.v6.dirty.add_all();
    }

    /// Returns the tables that must be dumped, because they were not dumped yet, or because
    /// notifications were lost or are incomplete. The program must begin these dumps with
    /// [`Self::begin_dump`], in the order of the set.
    #[must_use]
    pub const fn needs_resync(&self) -> DumpSet {
        self.resync.wanted()
    }

    /// Whether each table was dumped at least once, so that packets can be forwarded.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.resync.is_complete()
    }

    /// Whether the kernel's rules were dumped at least once, so that it is known which tables are
    /// needed.
    #[must_use]
    pub const fn knows_rules(&self) -> bool {
        self.resync.was_dumped(DumpKind::Rules)
    }

    /// Returns the counts of errors, and of objects without space.
    #[must_use]
    pub const fn counters(&self) -> MirrorCounters {
        self.counters
    }

    /// The number of routes of a family.
    #[must_use]
    pub fn route_count(&self, family: RouteFamily) -> usize {
        match family {
            RouteFamily::V4 => self.v4.len(),
            RouteFamily::V6 => self.v6.len(),
        }
    }

    /// Records that readers without an `Arc`, such as a BPF program, now use the tables of this
    /// generation or a later one. Call this only with
    /// [`MirrorConfig::has_external_readers`](crate::MirrorConfig::has_external_readers).
    pub fn quiesced(&mut self, generation: u64) {
        self.snapshots.quiesced(generation);
    }
}

impl VrfState {
    fn new(config: VrfConfig, v4: Box<dyn Ipv4Table>, simd: Simd) -> Self {
        let v6 = IntervalTree::build(&[(0_u128, u32::from(TargetIndex::NO_ROUTE.0))], simd);
        Self {
            config,
            v4_reader: v4.reader(),
            v4,
            v4_retired: 0,
            v6: Arc::new(Ipv6Tree(v6)),
            crowded: CrowdedPrefixes::default(),
            starved: BTreeSet::new(),
            hosts: BTreeMap::new(),
        }
    }
}
