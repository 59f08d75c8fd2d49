//! Writes changes to the lookup structures.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_classify::intervals::IntervalTree;
use slipring_rtnetlink::RouteFamily;

use super::Mirror;
use crate::adjacencies::AdjacencyKey;
use crate::crowding::CrowdedPrefixes;
use crate::deferred::ReleasedItem;
use crate::lookups::Ipv6Tree;
use crate::prefix::{AddressBits, RoutePrefix};
use crate::ranges::{AddressRanges, overlay, set_ones, table_ranges};
use crate::rib::{Rib, RouteRecord};
use crate::routes::{RESERVED_TABLE, RouteTables};
use crate::specs::Specs;
use crate::tables::{NextHopAddress, TargetIndex};
use crate::targets::HostKey;

/// Number of leading bits of an IPv4 address that select its root cell.
const SLOT_BITS: u8 = 24;
/// Lowest limit of the number of nodes of a tree: enough for the destinations that are never
/// forwarded.
const MIN_NODES: usize = 64;
/// IPv4 tables are written in prefixes of at least this length, so that ranges use little memory.
const CHUNK_BITS: u8 = 8;

/// Returns the target of the routes for a prefix; `first` is the first of these routes.
pub(super) fn target_of<A: AddressBits>(
    family: RouteFamily,
    rib: &Rib<A>,
    specs: &Specs,
    prefix: RoutePrefix<A>,
    first: RouteRecord,
) -> TargetIndex {
    let second = rib.second(prefix, first);
    // If IPv6 routes with the same metric are separate, the kernel chooses among them by
    // reachability, so the tables cannot represent the choice.
    let is_ambiguous =
        family == RouteFamily::V6 && second.is_some_and(|second| second.key() == first.key());
    if first.covers_refused() || first.tos != 0 || is_ambiguous {
        return TargetIndex::KERNEL;
    }
    specs.get(first.spec).map_or(TargetIndex::KERNEL, |state| state.target)
}

/// Returns the targets within a prefix, according to the reserved table and the tables of `chain`,
/// without hosts.
pub(super) fn route_ranges<A: AddressBits>(
    family: RouteFamily,
    tables: &RouteTables<A>,
    chain: &[u32],
    specs: &Specs,
    within: RoutePrefix<A>,
) -> AddressRanges<A, TargetIndex> {
    let mut ranges = alloc::vec![(within.start, None)];
    for table in chain.iter().rev().chain([&RESERVED_TABLE]) {
        let Some(rib) = tables.ribs.get(table) else { continue };
        let value = |prefix, first| target_of(family, rib, specs, prefix, first);
        let uncovered = rib.has_uncovered_refusal.then_some(TargetIndex::KERNEL);
        ranges = overlay(&table_ranges(rib, within, value, uncovered), ranges);
    }
    ranges
        .into_iter()
        .map(|(start, target)| (start, target.unwrap_or(TargetIndex::NO_ROUTE)))
        .collect()
}

impl Mirror {
    /// Writes all changed prefixes: of IPv6 into new tables, of IPv4 into the deferred changes (or
    /// into the tables, before the first snapshot). Returns whether there were any.
    pub(super) fn write_tables(&mut self) -> bool {
        let hosts = core::mem::take(&mut self.dirty_hosts);
        let mut has_changed = false;
        for at in 0..self.vrfs.len() {
            let starved = self.starved_to_retry(at);
            let others =
                hosts.iter().filter_map(|address| host_prefix::<u32>(*address)).chain(starved);
            let prefixes = self.v4.dirty.of(&self.tables_of(at, RouteFamily::V4), others);
            has_changed |= !prefixes.is_empty();
            prefixes.into_iter().for_each(|prefix| self.write_v4(at, prefix));
            let others = hosts.iter().filter_map(|address| host_prefix::<u128>(*address));
            let prefixes = self.v6.dirty.of(&self.tables_of(at, RouteFamily::V6), others);
            if !prefixes.is_empty() {
                has_changed = true;
                self.write_v6(at, &prefixes);
            }
        }
        self.v4.dirty.clear();
        self.v6.dirty.clear();
        has_changed
    }

    /// The tables on which the destinations of a VRF depend.
    fn tables_of(&self, vrf: usize, family: RouteFamily) -> Vec<u32> {
        let config = &self.vrfs[vrf].config;
        let tables = match family {
            RouteFamily::V4 => &config.v4,
            RouteFamily::V6 => &config.v6,
        };
        tables.iter().copied().chain([RESERVED_TABLE]).collect()
    }

    fn starved_to_retry(&mut self, vrf: usize) -> Vec<RoutePrefix<u32>> {
        let state = &mut self.vrfs[vrf];
        if state.starved.is_empty() || state.v4.free_blocks() == 0 {
            return Vec::new();
        }
        let slots = core::mem::take(&mut state.starved);
        slots.into_iter().map(|slot| RoutePrefix::around(slot, SLOT_BITS)).collect()
    }

    fn write_v4(&mut self, vrf: usize, prefix: RoutePrefix<u32>) {
        if prefix.len < CHUNK_BITS {
            let step = 1 << (32 - CHUNK_BITS);
            for start in (prefix.start..=prefix.last()).step_by(step) {
                self.write_v4(vrf, RoutePrefix::around(start, CHUNK_BITS));
            }
            return;
        }
        let chain = &self.vrfs[vrf].config.v4;
        let ranges = route_ranges(RouteFamily::V4, &self.v4, chain, &self.specs, prefix);
        let ranges = self.with_hosts(vrf, prefix, ranges);
        let numbers = ranges.iter().map(|range| (range.0, range.1.0)).collect();
        self.change_v4(vrf, prefix, numbers);
    }

    /// Writes the ranges of a prefix to an IPv4 table.
    pub(super) fn set_v4(&mut self, vrf: usize, prefix: RoutePrefix<u32>, numbers: &[(u32, u16)]) {
        if self.vrfs[vrf].v4.set(prefix.start, prefix.last(), numbers).is_err() {
            self.write_by_slot(vrf, prefix, numbers);
        }
    }

    /// Writes ranges when there are not enough blocks: all packets of a slot without a block are
    /// left to the kernel.
    fn write_by_slot(&mut self, vrf: usize, prefix: RoutePrefix<u32>, ranges: &[(u32, u16)]) {
        let slots = (prefix.start.masked(SLOT_BITS)..=prefix.last()).step_by(1 << (32 - SLOT_BITS));
        for slot in slots {
            let (start, last) = (slot.max(prefix.start), slot.filled(SLOT_BITS).min(prefix.last()));
            let first = ranges.partition_point(|range| range.0 <= start) - 1;
            let end = ranges.partition_point(|range| range.0 <= last);
            let mut inside = ranges[first..end].to_vec();
            inside[0].0 = start;
            let state = &mut self.vrfs[vrf];
            if state.v4.set(start, last, &inside).is_err() {
                let kernel = [(slot, TargetIndex::KERNEL.0)];
                // This cannot fail: if all addresses of a slot have the same target, it needs no
                // block.
                let written = state.v4.set(slot, slot.filled(SLOT_BITS), &kernel);
                debug_assert!(written.is_ok(), "a whole slot is always written");
                state.starved.insert(slot);
                self.counters.exhausted_blocks += 1;
            }
        }
    }

    fn write_v6(&mut self, vrf: usize, prefixes: &[RoutePrefix<u128>]) {
        let is_whole = matches!(prefixes, [only] if only.len == 0);
        let state = &self.vrfs[vrf];
        if is_whole || state.v6.0.needs_rebuild() || state.crowded.may_fit(self.v6.len()) {
            return self.build_v6(vrf);
        }
        let mut tree = state.v6.0.clone();
        for prefix in prefixes {
            let numbers = self.numbers_v6(vrf, *prefix);
            let numbers = self.vrfs[vrf].crowded.cover(numbers, *prefix);
            tree.replace(prefix.start, prefix.last(), &numbers);
        }
        if tree.nodes().len() > self.config.limits.ipv6_nodes.max(MIN_NODES) {
            return self.build_v6(vrf);
        }
        self.vrfs[vrf].v6 = Arc::new(Ipv6Tree(tree));
    }

    /// Creates a new tree. Prefixes without space in it are left to the kernel.
    fn build_v6(&mut self, vrf: usize) {
        let numbers = self.numbers_v6(vrf, RoutePrefix::ALL);
        let mut tree = IntervalTree::build(&numbers, self.simd);
        let limit = self.config.limits.ipv6_nodes.max(MIN_NODES);
        let mut crowded = CrowdedPrefixes::default();
        // Some nodes are kept free for changes, because each change without space requires a new
        // tree.
        let mut space = limit - limit / 8;
        while tree.nodes().len() > limit {
            crowded = CrowdedPrefixes::choose(&numbers, space, self.v6.len());
            let covered = crowded.cover(numbers.clone(), RoutePrefix::ALL);
            tree = IntervalTree::build(&covered, self.simd);
            space /= 2;
        }
        self.counters.exhausted_prefixes += crowded.count() as u64;
        let state = &mut self.vrfs[vrf];
        (state.crowded, state.v6) = (crowded, Arc::new(Ipv6Tree(tree)));
    }

    fn numbers_v6(&mut self, vrf: usize, prefix: RoutePrefix<u128>) -> Vec<(u128, u32)> {
        let chain = &self.vrfs[vrf].config.v6;
        let ranges = route_ranges(RouteFamily::V6, &self.v6, chain, &self.specs, prefix);
        let ranges = self.with_hosts(vrf, prefix, ranges);
        ranges.into_iter().map(|(start, target)| (start, u32::from(target.0))).collect()
    }

    /// Returns the ranges of a prefix with the resolved hosts of connected subnets added.
    fn with_hosts<A: AddressBits>(
        &mut self,
        vrf: usize,
        prefix: RoutePrefix<A>,
        ranges: AddressRanges<A, TargetIndex>,
    ) -> AddressRanges<A, TargetIndex> {
        let (first, last) = (prefix.start.address(), prefix.last().address());
        let hosts: Vec<(IpAddr, HostKey)> = self
            .neighbours
            .usable_in(first, last)
            .filter_map(|(address, ifindex)| {
                Some((address, self.host_key(address, ifindex, &ranges)?))
            })
            .collect();
        let mut ones = Vec::with_capacity(hosts.len());
        let mut kept = Vec::with_capacity(hosts.len());
        for (address, key) in hosts {
            if let Some((number, target)) = A::of(address).zip(self.acquire_host(key)) {
                ones.push((number, target));
                kept.push((address, key));
            }
        }
        self.replace_hosts(vrf, first, last, kept);
        if ones.is_empty() { ranges } else { set_ones(&ranges, &ones, prefix.last()) }
    }

    /// Returns the key of a host's target, if the host's longest match is a subnet that is
    /// connected to the host's interface.
    fn host_key<A: AddressBits>(
        &self,
        address: IpAddr,
        ifindex: u32,
        ranges: &AddressRanges<A, TargetIndex>,
    ) -> Option<HostKey> {
        let number = A::of(address)?;
        let at = ranges.partition_point(|range| range.0 <= number).checked_sub(1)?;
        let subnet = ranges[at].1;
        let (port, _) =
            self.links.port(ifindex).filter(|_| self.targets.link(subnet) == ifindex)?;
        Some((subnet, AdjacencyKey { port, next_hop: NextHopAddress::Via(address) }))
    }

    fn acquire_host(&mut self, key: HostKey) -> Option<TargetIndex> {
        if let Some(target) = self.targets.retain_host(key) {
            return Some(target);
        }
        let Some(adjacency) = self.adjacencies.acquire(key.1, self.mac_of(key.1)) else {
            self.note_exhausted();
            return None;
        };
        let target = self.targets.add_host(key, adjacency);
        if target.is_none() {
            self.release(ReleasedItem::Adjacency(key.1));
            self.note_exhausted();
        }
        target
    }

    /// Replaces the list of the hosts from `first` to `last` that have their own entries in the
    /// lookup structures, and releases the targets of the hosts that were in the list.
    fn replace_hosts(
        &mut self,
        vrf: usize,
        first: IpAddr,
        last: IpAddr,
        hosts: Vec<(IpAddr, HostKey)>,
    ) {
        let known = &mut self.vrfs[vrf].hosts;
        let old: Vec<HostKey> =
            known.extract_if(first..=last, |_, _| true).map(|(_, key)| key).collect();
        known.extend(hosts);
        for key in old {
            if let Some(index) = self.targets.release_host(key) {
                self.release(ReleasedItem::Target(index));
                self.release(ReleasedItem::Adjacency(key.1));
            }
        }
    }
}

fn host_prefix<A: AddressBits>(address: IpAddr) -> Option<RoutePrefix<A>> {
    Some(RoutePrefix::around(A::of(address)?, A::BITS))
}
