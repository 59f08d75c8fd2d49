//! Requests to the kernel: dumps, lookups of a route, and resolution of a neighbour.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::address::ADDRESS_LEN;
use crate::attributes::aligned;
use crate::link::{LINK_LEN, ifla};
use crate::message::{HEADER_LEN, kind};
use crate::neighbour::{NEIGHBOUR_LEN, nda};
use crate::netconf::NETCONF_LEN;
use crate::next_hop::NEXT_HOP_LEN;
use crate::route::{ROUTE_LEN, rta};
use crate::rule::RULE_LEN;
use crate::{AF_UNSPEC, HeaderFlags, RouteFamily};

/// Limits a dump of routes. The kernel applies the limits only for sockets with
/// `NETLINK_GET_STRICT_CHK` set; other sockets get all routes of the family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpFilter {
    /// One family; `None` for both.
    pub family: Option<RouteFamily>,
    /// One table; `None` for all.
    pub table: Option<u32>,
}

/// Builds requests, which can be sent as they are. The caller chooses the sequence number, by which
/// answers can be distinguished.
#[derive(Clone, Copy, Debug)]
pub struct RequestBuilder {
    sequence: u32,
}

/// `NTF_USE` of `linux/neighbour.h`: starts the resolution like a packet for the neighbour.
const NTF_USE: u8 = 1 << 0;
/// `NTF_EXT_MANAGED`: the kernel resolves the neighbour and keeps it reachable.
const NTF_EXT_MANAGED: u32 = 1 << 0;
/// `RTEXT_FILTER_SKIP_STATS` of `linux/rtnetlink.h`.
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;

impl RequestBuilder {
    /// Creates a builder of requests with this sequence number.
    #[must_use]
    pub const fn new(sequence: u32) -> Self {
        Self { sequence }
    }

    /// Asks for all interfaces, without their statistics.
    #[must_use]
    pub fn dump_links(self) -> Vec<u8> {
        let mut request = self.dump(kind::LINK, AF_UNSPEC, LINK_LEN);
        attribute(&mut request, ifla::EXT_MASK, &RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
        finished(request)
    }

    /// Asks for all addresses.
    #[must_use]
    pub fn dump_addresses(self) -> Vec<u8> {
        finished(self.dump(kind::ADDRESS, AF_UNSPEC, ADDRESS_LEN))
    }

    /// Asks for routes.
    #[must_use]
    pub fn dump_routes(self, filter: DumpFilter) -> Vec<u8> {
        let family = filter.family.map_or(AF_UNSPEC, RouteFamily::number);
        let mut request = self.dump(kind::ROUTE, family, ROUTE_LEN);
        if let Some(table) = filter.table {
            attribute(&mut request, rta::TABLE, &table.to_ne_bytes());
        }
        finished(request)
    }

    /// Asks for all next-hop objects.
    #[must_use]
    pub fn dump_next_hops(self) -> Vec<u8> {
        finished(self.dump(kind::NEXT_HOP, AF_UNSPEC, NEXT_HOP_LEN))
    }

    /// Asks for all neighbours.
    #[must_use]
    pub fn dump_neighbours(self) -> Vec<u8> {
        finished(self.dump(kind::NEIGHBOUR, AF_UNSPEC, NEIGHBOUR_LEN))
    }

    /// Asks for all rules.
    #[must_use]
    pub fn dump_rules(self) -> Vec<u8> {
        finished(self.dump(kind::RULE, AF_UNSPEC, RULE_LEN))
    }

    /// Asks for the settings of all interfaces for a family.
    #[must_use]
    pub fn dump_netconf(self, family: RouteFamily) -> Vec<u8> {
        finished(self.dump(kind::NETCONF, family.number(), NETCONF_LEN))
    }

    /// Asks for the route that the kernel would choose for a packet that arrives on `input`, or for
    /// a packet of this machine if `input` is `None`.
    #[must_use]
    pub fn get_route(self, destination: IpAddr, input: Option<u32>) -> Vec<u8> {
        let family = RouteFamily::from(destination);
        let mut request = self.begin(kind::ROUTE + kind::TO_GET, HeaderFlags::REQUEST);
        let mut fixed = [0; ROUTE_LEN];
        (fixed[0], fixed[1]) = (family.number(), family.bits());
        request.extend_from_slice(&fixed);
        address_attribute(&mut request, rta::DST, destination);
        if let Some(ifindex) = input {
            attribute(&mut request, rta::IIF, &ifindex.to_ne_bytes());
        }
        finished(request)
    }

    /// Asks the kernel to resolve a neighbour as if there was a packet for it. The answer is an
    /// error message, with 0 for success.
    ///
    /// Must not be used for permanent entries, because the kernel would no longer treat them as
    /// permanent.
    #[must_use]
    pub fn use_neighbour(self, ifindex: u32, address: IpAddr) -> Vec<u8> {
        finished(self.new_neighbour(ifindex, address, NTF_USE))
    }

    /// Asks the kernel to resolve a neighbour and keep it reachable until the entry is deleted
    /// (since Linux 5.16). The answer is an error message, with 0 for success.
    ///
    /// Must not be used for permanent entries, because the kernel would no longer treat them as
    /// permanent.
    #[must_use]
    pub fn manage_neighbour(self, ifindex: u32, address: IpAddr) -> Vec<u8> {
        let mut request = self.new_neighbour(ifindex, address, 0);
        attribute(&mut request, nda::FLAGS_EXT, &NTF_EXT_MANAGED.to_ne_bytes());
        finished(request)
    }

    fn new_neighbour(self, ifindex: u32, address: IpAddr, flags: u8) -> Vec<u8> {
        let header = HeaderFlags::REQUEST | HeaderFlags::ACK | HeaderFlags::CREATE;
        let mut request = self.begin(kind::NEIGHBOUR, header);
        let mut fixed = [0; NEIGHBOUR_LEN];
        fixed[0] = RouteFamily::from(address).number();
        fixed[4..8].copy_from_slice(&ifindex.to_ne_bytes());
        fixed[10] = flags;
        request.extend_from_slice(&fixed);
        address_attribute(&mut request, nda::DST, address);
        request
    }

    fn dump(self, new: u16, family: u8, fixed: usize) -> Vec<u8> {
        let mut request = self.begin(new + kind::TO_GET, HeaderFlags::REQUEST | HeaderFlags::DUMP);
        request.push(family);
        request.resize(HEADER_LEN + fixed, 0);
        request
    }

    /// Returns the start of a request: its header, whose length field [`finished`] sets.
    fn begin(self, kind: u16, flags: u16) -> Vec<u8> {
        let mut request = Vec::with_capacity(64);
        request.extend_from_slice(&[0; 4]);
        request.extend_from_slice(&kind.to_ne_bytes());
        request.extend_from_slice(&flags.to_ne_bytes());
        request.extend_from_slice(&self.sequence.to_ne_bytes());
        request.extend_from_slice(&[0; 4]);
        request
    }
}

fn address_attribute(request: &mut Vec<u8>, kind: u16, address: IpAddr) {
    match address {
        IpAddr::V4(address) => attribute(request, kind, &address.octets()),
        IpAddr::V6(address) => attribute(request, kind, &address.octets()),
    }
}

/// Adds an attribute whose value is at most 16 bytes.
fn attribute(request: &mut Vec<u8>, kind: u16, value: &[u8]) {
    request.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    request.extend_from_slice(&kind.to_ne_bytes());
    request.extend_from_slice(value);
    request.resize(aligned(request.len()), 0);
}

fn finished(mut request: Vec<u8>) -> Vec<u8> {
    let len = request.len() as u32;
    request[..4].copy_from_slice(&len.to_ne_bytes());
    request
}
