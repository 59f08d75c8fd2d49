//! Forwarding tables of an engine, filled from synthetic routes.

use std::net::IpAddr;
use std::sync::Arc;

use slipring_classify::intervals::IntervalTree;
use slipring_fib::{
    Adjacency, AdjacencyIndex, FibPort, FibPortIndex, ForwardingTables, Ipv4Table, Ipv6Lookup,
    NextHopAddress, ReversePathMode, Target, TargetAction, TargetIndex, VlanTags, VrfIndex,
    VrfTables,
};
use slipring_rtnetlink::RouteFamily;
use slipring_simd::Simd;
use slipring_wire::MacAddr;

use super::table::{BenchRoute, BenchTable, NUM_GATEWAYS};
use crate::measure::BenchError;

/// The MAC address of the ingress port.
pub(super) const ROUTER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// Target of the first gateway. The targets for no route and for the kernel come before it.
const FIRST_TARGET: u16 = 2;

/// Returns the tables of an engine with these routes. IPv4 routes are written into `v4`, in which
/// no address has a route yet; IPv6 routes into a new tree.
pub(super) fn forwarding_tables(
    table: &BenchTable,
    v4: &mut dyn Ipv4Table,
) -> Result<ForwardingTables, BenchError> {
    let mut routes = table.routes.clone();
    let mut starts = vec![(0, TargetIndex::NO_ROUTE.0.into())];
    match table.family {
        RouteFamily::V4 => fill(&mut routes, v4)?,
        RouteFamily::V6 => starts = interval_starts(&mut routes),
    }
    let v6 = Arc::new(BenchTree(IntervalTree::build(&starts, Simd::detect())));
    let fixed = [TargetAction::NoRoute, TargetAction::Kernel];
    let forward = (0..NUM_GATEWAYS).map(|at| TargetAction::Forward(AdjacencyIndex(at)));
    let targets = fixed.into_iter().chain(forward).map(|action| Target { action, mtu: 0 });
    Ok(ForwardingTables {
        generation: 1,
        ports: [port(1), port(2)].into(),
        vrfs: [VrfTables { v4: v4.reader(), v6 }].into(),
        targets: targets.collect(),
        adjacencies: (0..NUM_GATEWAYS).map(adjacency).collect(),
        buckets: [].into(),
    })
}

fn target(route: &BenchRoute) -> u16 {
    FIRST_TARGET + route.gateway
}

/// Writes the routes into the table, shorter prefixes first, so that longer ones replace them.
fn fill(routes: &mut [BenchRoute], v4: &mut dyn Ipv4Table) -> Result<(), BenchError> {
    routes.sort_unstable_by_key(|route| route.len);
    for route in routes {
        let start = (route.bits >> 96) as u32;
        let end = start | u32::MAX.checked_shr(route.len.into()).unwrap_or(0);
        if v4.set(start, end, &[(start, target(route))]).is_err() {
            return Err(BenchError::Failed("the table has no free block".into()));
        }
    }
    Ok(())
}

/// Returns the addresses at which the longest match changes, each with its target.
fn interval_starts(routes: &mut [BenchRoute]) -> Vec<(u128, u32)> {
    routes.sort_unstable_by_key(|route| (route.bits, route.len));
    let mut starts: Vec<(u128, u32)> = vec![(0, 0)];
    // The last addresses and targets of the routes that contain the current address.
    let mut open: Vec<(u128, u32)> = Vec::new();
    for route in routes {
        while let Some((end, _)) = open.pop_if(|(end, _)| *end < route.bits) {
            emit(&mut starts, end + 1, innermost(&open));
        }
        open.push((route.bits | u128::MAX >> route.len, target(route).into()));
        emit(&mut starts, route.bits, innermost(&open));
    }
    while let Some((end, _)) = open.pop() {
        if let Some(next) = end.checked_add(1) {
            emit(&mut starts, next, innermost(&open));
        }
    }
    starts
}

fn innermost(open: &[(u128, u32)]) -> u32 {
    open.last().map_or(0, |(_, target)| *target)
}

/// Appends a start of an interval. If the last interval starts at the same address, only its target
/// is replaced.
fn emit(starts: &mut Vec<(u128, u32)>, at: u128, target: u32) {
    match starts.last_mut() {
        Some(last) if last.0 == at => last.1 = target,
        _ => starts.push((at, target)),
    }
}

fn port(number: u8) -> FibPort {
    FibPort {
        ifindex: number.into(),
        name: format!("eth{number}"),
        mac: MacAddr([2, 0, 0, 0, 0, number]),
        mtu: 1500,
        is_up: true,
        vrf: VrfIndex(0),
        reverse_path: ReversePathMode::Off,
        reverse_path_v6: ReversePathMode::Off,
        tags: VlanTags::default(),
        addresses: vec![(IpAddr::from([10, 9, number, 1]), 24)],
    }
}

fn adjacency(number: u16) -> Adjacency {
    Adjacency {
        port: FibPortIndex(1),
        next_hop: NextHopAddress::Via(IpAddr::from([10, 9, 2, 2 + number as u8])),
        mac: Some(MacAddr([2, 0, 0, 1, 0, number as u8])),
    }
}

/// An IPv6 table. The numbers that its tree stores are indices of targets.
#[derive(Debug)]
struct BenchTree(IntervalTree);

impl Ipv6Lookup for BenchTree {
    fn lookup(&self, destinations: &[u128], targets: &mut [TargetIndex]) {
        let mut numbers = [0; 64];
        for (destinations, targets) in destinations.chunks(64).zip(targets.chunks_mut(64)) {
            let numbers = &mut numbers[..destinations.len()];
            self.0.get_all(destinations, numbers);
            for (target, number) in targets.iter_mut().zip(numbers) {
                *target = TargetIndex(*number as u16);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use slipring_fib::heap_table;

    use super::*;

    /// Returns the target of the longest route that contains an address, by trying all routes.
    fn longest(routes: &[BenchRoute], bits: u128) -> u16 {
        let covers = |route: &&BenchRoute| (bits ^ route.bits) >> (128 - route.len) == 0;
        routes.iter().filter(covers).max_by_key(|route| route.len).map_or(0, target)
    }

    #[test]
    fn tables_find_the_longest_route() {
        let route = |bits, len, gateway| BenchRoute { bits, len, gateway };
        let net = 0x20_u128 << 120;
        for family in [RouteFamily::V4, RouteFamily::V6] {
            // Routes that are nested, adjacent, or equal at their starts or ends, and one with the
            // last address of all.
            let routes = vec![
                route(net, 8, 1),
                route(net, 16, 2),
                route(net | 0xff << 112, 16, 3),
                route(net | 0xffff_ff00 << 96 & !(0xff << 120), 24, 4),
                route(0xff << 120, 8, 5),
                route(net | 1 << 120, 8, 6),
            ];
            let table = BenchTable { family, routes };
            let mut v4 = heap_table(16);
            let tables = forwarding_tables(&table, v4.as_mut()).unwrap();
            let edges = table.routes.iter().flat_map(|route| {
                let end = route.bits | u128::MAX >> route.len;
                let step = 1_u128 << 96;
                [route.bits, route.bits.wrapping_sub(step), end, end.wrapping_add(step)]
            });
            for bits in edges {
                let mut found = [TargetIndex(0)];
                match family {
                    RouteFamily::V4 => tables.vrfs[0].v4.lookup(&[(bits >> 96) as u32], &mut found),
                    RouteFamily::V6 => tables.vrfs[0].v6.lookup(&[bits], &mut found),
                }
                assert_eq!(found[0].0, longest(&table.routes, bits), "{family:?} {bits:x}");
            }
        }
    }
}
