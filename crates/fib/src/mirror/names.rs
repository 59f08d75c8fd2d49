//! The contents of the mirror, for display.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_rtnetlink::{LinkFlags, NudState, RouteFamily, RouteKind, TABLE_LOCAL};
use slipring_wire::mac::MacAddr;

use super::Mirror;
use crate::config::PortConfig;
use crate::next_hops::ObjectHops;
use crate::prefix::{AddressBits, RoutePrefix};
use crate::rib::RouteRecord;
use crate::routes::{RESERVED_TABLE, RouteTables};
use crate::rules::RoutingRule;
use crate::specs::SpecHops;

/// One next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteLead {
    /// The index of the interface; 0 if the route names none.
    pub ifindex: u32,
    /// The gateway; `None` if destinations are on the link.
    pub gateway: Option<IpAddr>,
    /// The weight of this next hop among several.
    pub weight: u16,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteEntry {
    /// The table that contains the route.
    pub table: u32,
    /// The destination and the length of its prefix.
    pub prefix: (IpAddr, u8),
    /// What the route does with packets.
    pub kind: RouteKind,
    /// The metric. Of several routes for a prefix, the one with the lowest metric is used.
    pub metric: u32,
    /// The creator of the route: `RTPROT_*`.
    pub protocol: u8,
    /// The next hops. If the route uses a next-hop object, these are the next hops of the object.
    pub leads: Vec<RouteLead>,
    /// The identifier of the route's next-hop object; `None` if it uses none.
    pub next_hop_id: Option<u32>,
    /// The path MTU that the route sets, or 0.
    pub mtu: u32,
    /// Whether the route has properties for which its packets are left to the kernel.
    pub has_unknown: bool,
}

/// A neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourInfo {
    /// The index of the interface.
    pub ifindex: u32,
    /// The address of the neighbour.
    pub address: IpAddr,
    /// The MAC address of the neighbour, if it is known.
    pub mac: Option<MacAddr>,
    /// The kernel's state of the neighbour.
    pub state: NudState,
}

/// An interface of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceEntry {
    /// The index.
    pub ifindex: u32,
    /// The name.
    pub name: String,
    /// The flags of the interface, which contain its state.
    pub flags: LinkFlags,
    /// Maximum length of an IP packet, in bytes.
    pub mtu: u32,
    /// The MAC address of the interface.
    pub mac: MacAddr,
    /// The index of the bridge, bond or VRF device of which the interface is a port.
    pub master: Option<u32>,
    /// The addresses of the interface with their prefix lengths, the primary addresses first.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl Mirror {
    /// The routes of a family, by table and prefix; those for the same prefix are in the kernel's
    /// order. Routes that the kernel may have removed without a notification are left out.
    pub fn routes(&self, family: RouteFamily) -> impl Iterator<Item = RouteEntry> + '_ {
        self.routes_after(family, None)
    }

    /// Like [`Self::routes`], but starts after all routes for a prefix of a table: the next page of
    /// a list.
    pub fn routes_after(
        &self,
        family: RouteFamily,
        after: Option<(u32, (IpAddr, u8))>,
    ) -> impl Iterator<Item = RouteEntry> + '_ {
        let v4 = (family == RouteFamily::V4).then(|| self.routes_of(&self.v4, after));
        let v6 = (family == RouteFamily::V6).then(|| self.routes_of(&self.v6, after));
        v4.into_iter().flatten().chain(v6.into_iter().flatten())
    }

    fn routes_of<'m, A: AddressBits>(
        &'m self,
        tables: &'m RouteTables<A>,
        after: Option<(u32, (IpAddr, u8))>,
    ) -> impl Iterator<Item = RouteEntry> + 'm {
        let first = after.map_or(0, |after| after.0);
        let prefix = after.and_then(|(_, (address, len))| {
            Some(RoutePrefix::around(A::of(address)?, len.min(A::BITS)))
        });
        let shown = tables.ribs.range(first..).filter(|(table, _)| **table != RESERVED_TABLE);
        shown.flat_map(move |(table, rib)| {
            let rest = rib.all_after(prefix.filter(|_| *table == first));
            rest.filter_map(move |(prefix, record)| self.route_entry(*table, prefix, record))
        })
    }

    /// Returns the route that is used, among the routes for exactly this prefix in a table.
    #[must_use]
    pub fn route_for(&self, table: u32, (address, len): (IpAddr, u8)) -> Option<RouteEntry> {
        match address {
            IpAddr::V4(address) => self.route_in(&self.v4, table, address.to_bits(), len),
            IpAddr::V6(address) => self.route_in(&self.v6, table, address.to_bits(), len),
        }
    }

    fn route_in<A: AddressBits>(
        &self,
        tables: &RouteTables<A>,
        table: u32,
        start: A,
        len: u8,
    ) -> Option<RouteEntry> {
        let rib = tables.ribs.get(&table).filter(|_| table != RESERVED_TABLE)?;
        let prefix = RoutePrefix { start, len };
        rib.list(prefix).into_iter().find_map(|record| self.route_entry(table, prefix, record))
    }

    pub(super) fn route_entry<A: AddressBits>(
        &self,
        table: u32,
        prefix: RoutePrefix<A>,
        record: RouteRecord,
    ) -> Option<RouteEntry> {
        let state = self.specs.get(record.spec).filter(|state| !state.is_purged)?;
        let (next_hop_id, hops) = match &state.spec.hops {
            SpecHops::Object(id) => (Some(*id), self.next_hops.resolve(*id)),
            named => (None, Some(ObjectHops::Hops(named.named().to_vec()))),
        };
        let hops = match hops {
            Some(ObjectHops::Hops(hops)) => hops,
            _ => Vec::new(),
        };
        let lead = |hop: crate::specs::SpecHop| RouteLead {
            ifindex: hop.ifindex,
            gateway: hop.gateway,
            weight: hop.weight,
        };
        Some(RouteEntry {
            table,
            prefix: (prefix.start.address(), prefix.len),
            kind: state.spec.kind,
            metric: record.metric,
            protocol: record.protocol,
            leads: hops.into_iter().map(lead).collect(),
            next_hop_id,
            mtu: state.spec.mtu,
            has_unknown: state.spec.has_unknown,
        })
    }

    /// The neighbours, by address and interface.
    pub fn neighbours(&self) -> impl Iterator<Item = NeighbourInfo> + '_ {
        self.neighbours_after(None)
    }

    /// Like [`Self::neighbours`], but starts after an address on an interface: the next page of a
    /// list.
    pub fn neighbours_after(
        &self,
        after: Option<(IpAddr, u32)>,
    ) -> impl Iterator<Item = NeighbourInfo> + '_ {
        self.neighbours.after(after).map(|((address, ifindex), entry)| NeighbourInfo {
            ifindex,
            address,
            mac: entry.mac,
            state: entry.state,
        })
    }

    /// Returns all interfaces of the kernel, by index, not only those of the router.
    pub fn interfaces(&self) -> impl Iterator<Item = InterfaceEntry> + '_ {
        self.links.links.iter().map(|(ifindex, link)| InterfaceEntry {
            ifindex,
            name: link.name.clone(),
            flags: link.flags,
            mtu: link.mtu,
            mac: link.mac,
            master: link.master,
            addresses: self.links.addresses_of(ifindex),
        })
    }

    /// Whether the interface of each port was deleted. Such a port is no longer used, even if a new
    /// interface has the same name or index.
    #[must_use]
    pub fn deleted_ports(&self) -> Vec<bool> {
        self.links.ports().iter().map(|port| self.links.is_deleted(port)).collect()
    }

    /// The present name of an interface.
    #[must_use]
    pub fn interface_name(&self, ifindex: u32) -> Option<&str> {
        self.links.links.get(ifindex).map(|link| link.name.as_str())
    }

    /// Returns the kernel's entry for a neighbour.
    #[must_use]
    pub fn neighbour(&self, ifindex: u32, address: IpAddr) -> Option<NeighbourInfo> {
        let entry = self.neighbours.get(ifindex, address)?;
        Some(NeighbourInfo { ifindex, address, mac: entry.mac, state: entry.state })
    }

    /// The MAC address of a neighbour, if it is known and usable.
    #[must_use]
    pub fn neighbour_mac(&self, ifindex: u32, address: IpAddr) -> Option<MacAddr> {
        self.neighbours.mac(ifindex, address)
    }

    /// Whether there is an adjacency for each host on the router's links whose MAC address the
    /// kernel knows. This is false if there was ever no space for a host or a route, or if a link
    /// has no address resolution (`IFF_NOARP`).
    #[must_use]
    pub fn knows_all_hosts(&self) -> bool {
        let resolves = |port: &PortConfig| {
            let link = self.links.links.get(port.ifindex);
            link.is_none_or(|link| !link.flags.has(LinkFlags::NO_ARP))
        };
        self.counters.refused_neighbours == 0
            && self.counters.exhausted == 0
            && self.links.ports().iter().all(resolves)
    }

    /// Returns the addresses of this machine, from the kernel's table `local`, with their prefix
    /// lengths.
    #[must_use]
    pub fn local_addresses(&self) -> Vec<(IpAddr, u8)> {
        let v4 = self.local_of(&self.v4);
        v4.into_iter().chain(self.local_of(&self.v6)).collect()
    }

    fn local_of<A: AddressBits>(&self, tables: &RouteTables<A>) -> Vec<(IpAddr, u8)> {
        let routes = tables.ribs.get(&TABLE_LOCAL).into_iter().flat_map(|rib| rib.all());
        let is_local = |record: &RouteRecord| {
            self.specs.get(record.spec).is_some_and(|state| state.spec.kind == RouteKind::Local)
        };
        let local = routes.filter(|(_, record)| is_local(record));
        local.map(|(prefix, _)| (prefix.start.address(), prefix.len)).collect()
    }

    /// The kernel's rules, by priority.
    #[must_use]
    pub fn rules(&self) -> &[RoutingRule] {
        self.rules.all()
    }

    /// The tables of a family that the kernel's rules select for packets that arrive on an
    /// interface, in order. The [`VrfConfig`](crate::VrfConfig) of the interface's VRF must
    /// contain these tables.
    ///
    /// # Errors
    /// The first rule that concerns such packets and cannot be represented: the program refuses to
    /// start, or leaves the interface to the kernel.
    pub fn tables_for(&self, family: RouteFamily, ifindex: u32) -> Result<Vec<u32>, &RoutingRule> {
        let link = self.links.links.get(ifindex);
        let master = link.and_then(|link| self.links.links.get(link.master?));
        let name = link.map_or("", |link| &link.name);
        self.rules.tables(family, name, master.and_then(|master| master.vrf_table))
    }

    /// The tables that the kernel's rules select for this machine's own packets, such as ICMP
    /// errors.
    ///
    /// # Errors
    /// The first rule that concerns such packets and cannot be represented.
    pub fn tables_for_output(&self, family: RouteFamily) -> Result<Vec<u32>, &RoutingRule> {
        self.rules.output_tables(family)
    }

    /// Whether an interface is a port of a VRF device. Such a device has addresses and routes of
    /// its own.
    #[must_use]
    pub fn is_vrf_port(&self, ifindex: u32) -> bool {
        let master = self.links.links.get(ifindex).and_then(|link| link.master);
        master.and_then(|of| self.links.links.get(of)).is_some_and(|it| it.vrf_table.is_some())
    }
}
