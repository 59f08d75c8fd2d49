//! The mirror: the kernel's forwarding state, as its messages tell it.
//!
//! ```text
//!   messages --> receive --> links, addresses, rules, next hops, neighbours, routes
//!                  |                                    |
//!                  +--> needs_resync                    v   publish, after each batch
//!                                         specs evaluated, ranges written, ForwardingTables
//! ```
//!
//! # What the kernel does not say
//! It removes IPv4 routes without a message when an interface goes down, when an address is
//! deleted that they prefer as source, and when their next-hop object goes; next-hop objects when
//! their interface goes down or loses its carrier. So these events leave the routes in question to
//! the kernel at once, and ask for dumps; the dumps' ends remove what no longer exists.

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

/// What went wrong, or did not fit, since the mirror was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorCounters {
    /// Routes that found no space ([`FibLimits::routes`](crate::FibLimits::routes)). What they
    /// would have matched is left to the kernel.
    pub refused_routes: u64,
    /// Neighbours that found no space; their packets are left to the kernel.
    pub refused_neighbours: u64,
    /// Next-hop objects that found no space; routes to them are left to the kernel.
    pub refused_next_hops: u64,
    /// Times that a route or a host found no target index, adjacency or bucket array, and was left
    /// to the kernel.
    pub exhausted: u64,
    /// /24 prefixes left to the kernel for lack of a tail block.
    pub exhausted_blocks: u64,
    /// IPv6 prefixes left to the kernel because the tree was full, each time that there were too few nodes.
    pub exhausted_prefixes: u64,
    /// Times that the kernel's notifications were lost.
    pub overruns: u64,
    /// Dumps that the kernel has called inconsistent.
    pub interrupted_dumps: u64,
    /// Routes that a dump has not mentioned, so that their removal was silent.
    pub silent_removals: u64,
    /// Messages that did not agree with what was known, so that a dump was asked for.
    pub doubtful_messages: u64,
}

impl MirrorCounters {
    /// Routes, neighbours, next hops and prefixes that have found no space, each time.
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
    v6: Arc<Ipv6Tree>,
    /// What of IPv6 was left to the kernel for lack of nodes.
    crowded: CrowdedPrefixes,
    /// Slots (/24) of IPv4 that were left to the kernel for lack of blocks.
    starved: BTreeSet<u32>,
    /// The hosts that have cells of their own, with what their targets are known by.
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
    /// Of the next snapshot.
    generation: u64,
    /// Specs must be evaluated again, because of what they depend on.
    has_stale_specs: bool,
    /// Hosts whose cells may have to change.
    dirty_hosts: BTreeSet<IpAddr>,
    /// Specs or hosts have found no space since the last evaluation of all.
    is_starved: bool,
    /// The next adjacency for which neighbours are asked.
    asked: Option<crate::adjacencies::AdjacencyKey>,
    /// A verification runs.
    check: Option<verify::Check>,
    simd: Simd,
}

impl Mirror {
    /// Makes a mirror that knows nothing yet: all tables are to be dumped. `ipv4` are the tables of
    /// the VRFs, in which all addresses have the value 0.
    ///
    /// # Panics
    /// If there is no VRF, or not one table for each.
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

    /// Changes which interfaces are the router's; by their order, they have their indices.
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

    /// Checks the sources of packets from ports, by port, also if the kernel does not; ports beyond have
    /// no check but the kernel's. It is in force with the next snapshot.
    pub fn set_source_checks(&mut self, checks: Vec<ReversePathMode>) {
        self.links.set_source_checks(checks);
    }

    /// Mirrors the tables of the VRFs. New ones must be dumped.
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

    /// Leaves destinations to the kernel that no router forwards by its tables: this network and
    /// loopback (RFC 1122, 3.2.1.3), multicast, and the limited broadcast with the rest of its /24,
    /// which so needs no block; for IPv6, the unspecified
    /// address and loopback (RFC 4291, 2.5.2 and 2.5.3), link-local, multicast.
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

    /// Has all tables written again.
    fn mark_all(&mut self) {
        self.v4.dirty.add_all();
        self.v6.dirty.add_all();
    }

    /// What must be dumped, because it was not yet, or because notifications were lost or do not
    /// tell all. The program begins these dumps with [`Self::begin_dump`], in this order.
    #[must_use]
    pub const fn needs_resync(&self) -> DumpSet {
        self.resync.wanted()
    }

    /// Whether every table was dumped once, so that there are tables to forward by.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.resync.is_complete()
    }

    /// Whether the kernel's rules were dumped once, so that it is known which tables are needed.
    #[must_use]
    pub const fn knows_rules(&self) -> bool {
        self.resync.was_dumped(DumpKind::Rules)
    }

    /// What went wrong, or did not fit.
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

    /// Notes that readers which do not hold an `Arc`, such as a BPF program, use the tables of this
    /// generation or a later one. Only with
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
            v6: Arc::new(Ipv6Tree(v6)),
            crowded: CrowdedPrefixes::default(),
            starved: BTreeSet::new(),
            hosts: BTreeMap::new(),
        }
    }
}
