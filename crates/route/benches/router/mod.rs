//! A router with a table of any size, and frames for it, for measurements.

use std::net::IpAddr;
use std::sync::Arc;

use slipring_classify::dir24::{Dir24, Dir24Writer, HeapCells, ROOT_CELLS};
use slipring_classify::intervals::IntervalTree;
use slipring_fib::{
    Adjacency, AdjacencyIndex, FibPort, FibPortIndex, ForwardingTables, Ipv4Lookup, Ipv6Lookup,
    NextHopAddress, ReversePathMode, Target, TargetAction, TargetIndex, VlanTags, VrfIndex,
    VrfTables,
};
use slipring_model::Stream;
use slipring_route::{RouteConfig, RouteEngine};
use slipring_simd::Simd;
use slipring_wire::MacAddr;
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec};

/// Number of neighbours to which routes lead.
const NEIGHBOURS: u16 = 200;
/// Target of the first neighbour.
const FIRST_TARGET: u16 = 2;
/// MAC address of the ingress port.
pub(crate) const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

#[derive(Debug)]
struct V4Table(Dir24<HeapCells>);

impl Ipv4Lookup for V4Table {
    fn lookup(&self, destinations: &[u32], targets: &mut [TargetIndex]) {
        self.0.lookup_with(destinations, targets, TargetIndex);
    }
}

#[derive(Debug)]
struct V6Table(IntervalTree);

impl Ipv6Lookup for V6Table {
    fn lookup(&self, destinations: &[u128], targets: &mut [TargetIndex]) {
        let mut numbers = [0; 64];
        let numbers = &mut numbers[..targets.len()];
        self.0.get_all(destinations, numbers);
        for (target, number) in targets.iter_mut().zip(numbers) {
            *target = TargetIndex(*number as u16);
        }
    }
}

/// Returns `count` random prefixes within `base`, sorted by length. The lengths are drawn from
/// `lengths`, which are distributed roughly as on the Internet.
fn prefixes(count: usize, base: u128, lengths: &[u32]) -> Vec<(u128, u32)> {
    let mut draws = Stream::new(1, "route/bench/prefixes");
    let mut all: Vec<_> = (0..count)
        .map(|_| {
            let len = lengths[draws.below(lengths.len() as u64) as usize];
            let random = u128::from(draws.next_u64()) << 64 | u128::from(draws.next_u64());
            (base | (random >> 3 & u128::MAX << (128 - len)), len)
        })
        .collect();
    all.sort_unstable_by_key(|(_, len)| *len);
    all
}

fn target(at: usize) -> u16 {
    FIRST_TARGET + (at % usize::from(NEIGHBOURS)) as u16
}

/// A router and destinations of its routes.
pub(crate) struct Router {
    /// The engine.
    pub(crate) engine: RouteEngine,
    /// Random destinations with routes, as 128-bit numbers. IPv4 addresses are in the upper bits.
    pub(crate) destinations: Vec<u128>,
    is_v6: bool,
}

impl Router {
    /// A router with `count` IPv4 routes, and `destinations` random destinations.
    pub(crate) fn v4(count: usize, destinations: usize) -> Self {
        const LENGTHS: [u32; 16] = [24, 24, 24, 24, 24, 24, 24, 24, 24, 23, 22, 22, 21, 20, 19, 16];
        let table = Dir24::new(HeapCells::new(ROOT_CELLS), HeapCells::new(256 * 64));
        let mut writer = Dir24Writer::new(&table);
        let mut prefixes = prefixes(count, 0x20 << 120, &LENGTHS);
        if count == 1 {
            prefixes = vec![(0x20 << 120, 8)];
        }
        for (at, (prefix, len)) in prefixes.iter().enumerate() {
            let start = (prefix >> 96) as u32;
            let end = start | u32::MAX.checked_shr(*len).unwrap_or(0);
            writer.set(&table, start, end, &[(start, target(at))]).expect("no block is needed");
        }
        let v6 = V6Table(IntervalTree::build(&[(0u128, 0)], Simd::detect()));
        Self::new(V4Table(table), v6, &draw_destinations(&prefixes, destinations), false)
    }

    /// A router with `count` IPv6 routes, and `destinations` random destinations.
    pub(crate) fn v6(count: usize, destinations: usize) -> Self {
        const LENGTHS: [u32; 8] = [48, 48, 48, 48, 44, 40, 36, 32];
        let mut prefixes = prefixes(count, 0x2 << 124, &LENGTHS);
        if count == 1 {
            prefixes = vec![(0x2 << 124, 4)];
        }
        let v6 = V6Table(IntervalTree::build(&starts(&prefixes), Simd::detect()));
        let v4 = Dir24::new(HeapCells::new(ROOT_CELLS), HeapCells::new(256));
        Self::new(V4Table(v4), v6, &draw_destinations(&prefixes, destinations), true)
    }

    fn new(v4: V4Table, v6: V6Table, destinations: &[u128], is_v6: bool) -> Self {
        let engine = RouteEngine::new(RouteConfig::default(), Arc::new(tables(v4, v6)));
        Self { engine, destinations: destinations.to_vec(), is_v6 }
    }

    /// Returns 64 frames for the destinations from index `at` on; after the last destination the
    /// first follows. Without the CRC, a frame has 60 bytes for IPv4, and 62 bytes for IPv6.
    pub(crate) fn frames(&self, at: usize) -> Vec<Vec<u8>> {
        (at..at + 64)
            .map(|at| self.frame(self.destinations[at % self.destinations.len()]))
            .collect()
    }

    fn frame(&self, destination: u128) -> Vec<u8> {
        let ip = if self.is_v6 {
            let dst = destination.into();
            let src = "2001:db8::1".parse().expect("an address");
            IpSpec::V6(Ipv6Spec { src, dst, ..Ipv6Spec::default() })
        } else {
            let dst = ((destination >> 96) as u32).into();
            IpSpec::V4(Ipv4Spec { dst, ..Ipv4Spec::default() })
        };
        let spec = FrameSpec { dst_mac: MAC, ip, ..FrameSpec::default() };
        spec.build(if self.is_v6 { 62 } else { 60 }).expect("a plain frame").bytes
    }
}

/// Random addresses of random prefixes.
fn draw_destinations(prefixes: &[(u128, u32)], count: usize) -> Vec<u128> {
    let mut draws = Stream::new(2, "route/bench/destinations");
    let mut draw = || {
        let (prefix, len) = prefixes[draws.below(prefixes.len() as u64) as usize];
        let random = u128::from(draws.next_u64()) << 64 | u128::from(draws.next_u64());
        prefix | random >> len
    };
    (0..count).map(|_| draw()).collect()
}

fn tables(v4: V4Table, v6: V6Table) -> ForwardingTables {
    let port = |index: u8| FibPort {
        ifindex: u32::from(index),
        name: format!("eth{index}"),
        mac: MacAddr([2, 0, 0, 0, 0, index]),
        mtu: 1500,
        is_up: true,
        vrf: VrfIndex(0),
        reverse_path: ReversePathMode::Off,
        reverse_path_v6: ReversePathMode::Off,
        tags: VlanTags::default(),
        addresses: vec![(IpAddr::from([10, 9, index, 1]), 24)],
    };
    let adjacency = |index: u16| Adjacency {
        port: FibPortIndex(1),
        next_hop: NextHopAddress::Via(IpAddr::from([10, 9, 2, index as u8])),
        mac: Some(MacAddr([2, 0, 0, 1, 0, index as u8])),
    };
    let fixed = [TargetAction::NoRoute, TargetAction::Kernel];
    let forward = (0..NEIGHBOURS).map(|index| TargetAction::Forward(AdjacencyIndex(index)));
    let targets = fixed.into_iter().chain(forward).map(|action| Target { action, mtu: 0 });
    ForwardingTables {
        generation: 1,
        ports: [port(1), port(2)].into(),
        vrfs: [VrfTables { v4: Arc::new(v4), v6: Arc::new(v6) }].into(),
        targets: targets.collect(),
        adjacencies: (0..NEIGHBOURS).map(adjacency).collect(),
        buckets: [].into(),
    }
}

/// Returns the addresses at which the longest match changes, each with the target from there on.
fn starts(prefixes: &[(u128, u32)]) -> Vec<(u128, u32)> {
    let mut nested = prefixes.to_vec();
    nested.sort_unstable();
    nested.dedup();
    let mut starts = vec![(0u128, 0u32)];
    let mut open: Vec<(u128, u32)> = Vec::new();
    let mut emit = |at: u128, number: u32| match starts.last_mut() {
        Some(last) if last.0 == at => last.1 = number,
        _ => starts.push((at, number)),
    };
    for (at, (prefix, len)) in nested.iter().enumerate() {
        while let Some((end, _)) = open.last().copied().filter(|(end, _)| end < prefix) {
            open.pop();
            emit(end + 1, open.last().map_or(0, |(_, number)| *number));
        }
        let number = u32::from(target(at));
        emit(*prefix, number);
        open.push((prefix | u128::MAX.checked_shr(*len).unwrap_or(0), number));
    }
    while let Some((end, _)) = open.pop() {
        if end != u128::MAX {
            emit(end + 1, open.last().map_or(0, |(_, number)| *number));
        }
    }
    starts
}
