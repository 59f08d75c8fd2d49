//! Synthetic tables that resemble public ones, and destinations in them.

use std::collections::HashSet;
use std::net::IpAddr;

use slipring_model::Stream;
use slipring_rtnetlink::RouteFamily;

/// Number of gateways of the routes in a full table.
pub(super) const NUM_GATEWAYS: u16 = 200;
/// Number of destinations of the frames.
pub(super) const NUM_DESTINATIONS: usize = 1 << 16;
/// Number of routes of the full tables, for IPv4 and IPv6.
pub(super) const FULL_V4: usize = 1_000_000;
pub(super) const FULL_V6: usize = 210_000;

/// Prefix lengths, each with its share of the routes in thousandths, as in public tables of 2026.
/// In IPv4, three in a thousand routes are longer than /24.
const V4_SHARES: [(u8, u64); 15] = [
    (24, 609),
    (23, 100),
    (22, 110),
    (21, 52),
    (20, 46),
    (19, 27),
    (18, 15),
    (17, 8),
    (16, 14),
    (15, 6),
    (14, 5),
    (13, 4),
    (12, 1),
    (28, 2),
    (32, 1),
];
const V6_SHARES: [(u8, u64); 21] = [
    (48, 460),
    (32, 110),
    (44, 100),
    (40, 90),
    (36, 55),
    (29, 45),
    (46, 40),
    (47, 25),
    (42, 20),
    (45, 12),
    (38, 8),
    (34, 7),
    (33, 6),
    (35, 5),
    (30, 4),
    (39, 3),
    (41, 3),
    (43, 3),
    (37, 2),
    (31, 1),
    (64, 1),
];

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BenchRoute {
    /// The prefix, in the uppermost bits for both families.
    pub(super) bits: u128,
    pub(super) len: u8,
    /// Number of the gateway, below [`NUM_GATEWAYS`].
    pub(super) gateway: u16,
}

/// The routes of one family.
#[derive(Debug)]
pub(super) struct BenchTable {
    pub(super) family: RouteFamily,
    pub(super) routes: Vec<BenchRoute>,
}

impl BenchTable {
    /// A table with this number of different prefixes, the same in each run.
    pub(super) fn draw(family: RouteFamily, count: usize) -> Self {
        let mut draws = Stream::new(18, "bench/route/table");
        let (mut seen, mut routes) = (HashSet::with_capacity(count), Vec::with_capacity(count));
        while routes.len() < count {
            let (bits, len) = prefix(family, &mut draws);
            if seen.insert((bits, len)) {
                let gateway = draws.below(u64::from(NUM_GATEWAYS)) as u16;
                routes.push(BenchRoute { bits, len, gateway });
            }
        }
        Self { family, routes }
    }

    /// The full table of a family.
    pub(super) fn full(family: RouteFamily) -> Self {
        Self::draw(family, if family == RouteFamily::V4 { FULL_V4 } else { FULL_V6 })
    }

    /// The destination addresses of this table's frames: random ones within random routes.
    pub(super) fn destinations(&self, count: usize) -> Vec<IpAddr> {
        let mut draws = Stream::new(19, "bench/route/destinations");
        let mut draw = || {
            let route = self.routes[draws.below(self.routes.len() as u64) as usize];
            let host = random(&mut draws) >> route.len;
            address(self.family, route.bits | host)
        };
        (0..count).map(|_| draw()).collect()
    }
}

/// Returns the address whose bits are the uppermost ones of `bits`.
pub(super) fn address(family: RouteFamily, bits: u128) -> IpAddr {
    match family {
        RouteFamily::V4 => IpAddr::V4(((bits >> 96) as u32).into()),
        RouteFamily::V6 => IpAddr::V6(bits.into()),
    }
}

fn prefix(family: RouteFamily, draws: &mut Stream) -> (u128, u8) {
    let (len, top) = match family {
        // Draws from 20.0.0.0 to 115.255.255.255, where there are no private, loopback or multicast
        // addresses.
        RouteFamily::V4 => (length(&V4_SHARES, draws), u128::from(20 + draws.below(96)) << 120),
        // 2000::/3, without 2000::/8.
        RouteFamily::V6 => (length(&V6_SHARES, draws), u128::from(0x21 + draws.below(31)) << 120),
    };
    ((top | random(draws) >> 8) & u128::MAX << (128 - len), len)
}

fn length(shares: &[(u8, u64)], draws: &mut Stream) -> u8 {
    let mut left = draws.below(1000);
    for &(len, share) in shares {
        if left < share {
            return len;
        }
        left -= share;
    }
    unreachable!("the shares add up to 1000")
}

fn random(draws: &mut Stream) -> u128 {
    u128::from(draws.next_u64()) << 64 | u128::from(draws.next_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_lengths_add_up() {
        for shares in [&V4_SHARES[..], &V6_SHARES] {
            assert_eq!(shares.iter().map(|(_, share)| share).sum::<u64>(), 1000);
        }
    }

    #[test]
    fn a_table_has_as_many_different_prefixes_as_wanted_without_host_bits() {
        for family in [RouteFamily::V4, RouteFamily::V6] {
            let table = BenchTable::draw(family, 5000);
            let distinct: HashSet<_> =
                table.routes.iter().map(|route| (route.bits, route.len)).collect();
            assert_eq!(distinct.len(), 5000);
            for route in &table.routes {
                assert_eq!(route.bits << route.len, 0, "{route:?}");
                assert!(route.len <= family.bits() && route.gateway < NUM_GATEWAYS, "{route:?}");
            }
        }
    }

    #[test]
    fn every_destination_has_a_route() {
        for family in [RouteFamily::V4, RouteFamily::V6] {
            let table = BenchTable::draw(family, 100);
            let covers = |destination: IpAddr| {
                let bits = match destination {
                    IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
                    IpAddr::V6(address) => address.into(),
                };
                table.routes.iter().any(|route| (bits ^ route.bits) >> (128 - route.len) == 0)
            };
            let destinations = table.destinations(1000);
            assert!(destinations.iter().all(|&destination| covers(destination)));
            assert_eq!(destinations, table.destinations(1000), "the same in each run");
        }
    }
}
