//! Answers questions about one destination, and lists the neighbours to resolve.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::{Mirror, RouteEntry};
use crate::prefix::{AddressBits, RoutePrefix};
use crate::routes::{RESERVED_TABLE, RouteTables};
use crate::tables::{NextHopAddress, Target, TargetIndex, VrfIndex};

/// A neighbour that routes use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayRequest {
    /// The index of the interface, to which routes refer.
    pub ifindex: u32,
    /// The address.
    pub address: IpAddr,
}

/// The answer of the tables for a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteAnswer {
    /// The route that applies; `None` if there is none, or the destination is never forwarded.
    pub route: Option<RouteEntry>,
    /// The index that lookups return, according to the last snapshot.
    pub index: TargetIndex,
    /// What happens to the packets.
    pub target: Target,
}

impl Mirror {
    /// Looks a destination up in the tables of a VRF. `None` before the first snapshot, and for a
    /// VRF that does not exist.
    #[must_use]
    pub fn route_get(&self, vrf: VrfIndex, destination: IpAddr) -> Option<RouteAnswer> {
        let state = self.vrfs.get(usize::from(vrf.0))?;
        let tables = self.published.as_ref()?.vrfs.get(usize::from(vrf.0))?;
        let mut index = [TargetIndex::KERNEL];
        let route = match destination {
            IpAddr::V4(address) => {
                tables.v4.lookup(&[address.to_bits()], &mut index);
                self.match_in(&self.v4, &state.config.v4, address.to_bits())
            }
            IpAddr::V6(address) => {
                tables.v6.lookup(&[address.to_bits()], &mut index);
                self.match_in(&self.v6, &state.config.v6, address.to_bits())
            }
        };
        let [index] = index;
        Some(RouteAnswer { route, index, target: self.targets.get(index) })
    }

    fn match_in<A: AddressBits>(
        &self,
        tables: &RouteTables<A>,
        chain: &[u32],
        address: A,
    ) -> Option<RouteEntry> {
        let host = RoutePrefix::around(address, A::BITS);
        let reserved = tables.ribs.get(&RESERVED_TABLE);
        if reserved.is_some_and(|rib| rib.covering(host).is_some()) {
            return None;
        }
        chain.iter().find_map(|table| {
            let rib = tables.ribs.get(table)?;
            let prefix = rib.covering(host)?;
            self.route_entry(*table, prefix, rib.first(prefix)?)
        })
    }

    /// Returns at most `limit` gateways in use whose MAC address is not known. The next call
    /// continues where this one ends, so each gateway has its turn. The program asks the kernel to
    /// resolve each of them
    /// ([`RequestBuilder::use_neighbour`](slipring_rtnetlink::RequestBuilder::use_neighbour)).
    pub fn solicit(&mut self, limit: usize) -> Vec<GatewayRequest> {
        let mut found = Vec::new();
        let start = self.asked.take();
        for (key, adjacency) in self.adjacencies.after(start) {
            if found.len() == limit {
                break;
            }
            self.asked = Some(key);
            let is_up =
                |ifindex: &u32| self.links.links.get(*ifindex).is_some_and(|link| link.is_up());
            let ifindex = self.links.ifindex(key.port).filter(is_up);
            if let (NextHopAddress::Via(address), None, Some(ifindex)) =
                (key.next_hop, adjacency.mac, ifindex)
            {
                found.push(GatewayRequest { ifindex, address });
            }
        }
        if found.len() < limit {
            self.asked = None;
        }
        found
    }

    /// Returns all gateways that routes use, resolved or not, and the resolved hosts of connected
    /// subnets.
    pub fn gateways(&self) -> impl Iterator<Item = GatewayRequest> + '_ {
        self.adjacencies.after(None).filter_map(|(key, _)| match key.next_hop {
            NextHopAddress::Via(address) => {
                Some(GatewayRequest { ifindex: self.links.ifindex(key.port)?, address })
            }
            NextHopAddress::OnLink => None,
        })
    }
}
