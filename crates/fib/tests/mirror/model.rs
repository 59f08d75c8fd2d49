//! A simple model of the kernel's routing. It uses linear lists, and like the kernel it removes
//! some routes without a notification.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use slipring_fib::{DumpKind, FibPortIndex, NextHopAddress, TargetAction};

use crate::ROUTER;
use crate::kernel::{self, KernelMessage, ip};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) weight: u16,
    pub(crate) gateway: Option<&'static str>,
    pub(crate) ifindex: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    Hops(Vec<Hop>),
    Object(u32),
    /// A type of route without next hops: `RTN_*`.
    Kind(u8),
}

/// A route of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) prefix: &'static str,
    pub(crate) metric: u32,
    pub(crate) lead: Lead,
    pub(crate) source: Option<&'static str>,
    pub(crate) mtu: u32,
}

impl Route {
    pub(crate) fn connected(prefix: &'static str, ifindex: u32) -> Self {
        let hop = Hop { weight: 1, gateway: None, ifindex };
        Self { prefix, metric: 0, lead: Lead::Hops(vec![hop]), source: None, mtu: 0 }
    }

    fn is_same_key(&self, other: &Self) -> bool {
        (self.prefix, self.metric) == (other.prefix, other.metric)
    }

    pub(crate) fn is_v4(&self) -> bool {
        self.prefix.contains('.')
    }

    fn covers(&self, address: IpAddr) -> Option<u8> {
        let (start, len) = self.prefix.split_once('/').unwrap();
        let len: u8 = len.parse().unwrap();
        let bits = |address: IpAddr| -> (u128, u8) {
            match address {
                IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, len),
                IpAddr::V6(address) => (address.to_bits(), len),
            }
        };
        let (start, address_bits) = (ip(start), bits(address));
        let mask = !u128::MAX.checked_shr(u32::from(len)).unwrap_or(0);
        (start.is_ipv4() == address.is_ipv4() && bits(start).0 == address_bits.0 & mask)
            .then_some(len)
    }

    pub(crate) fn message(&self) -> KernelMessage {
        let message = match &self.lead {
            Lead::Kind(kind) => kernel::table_route(self.prefix, 254, *kind),
            Lead::Object(id) => kernel::bare_route(self.prefix).next_hop_id(*id),
            Lead::Hops(hops) => match &hops[..] {
                [Hop { gateway: None, ifindex, .. }] => kernel::connected(self.prefix, *ifindex),
                [Hop { gateway: Some(gateway), ifindex, .. }] => {
                    kernel::via(self.prefix, gateway, *ifindex)
                }
                hops => {
                    let hops: Vec<_> = hops
                        .iter()
                        .map(|hop| (hop.weight, hop.gateway.unwrap(), hop.ifindex))
                        .collect();
                    kernel::multipath(self.prefix, &hops)
                }
            },
        };
        let message = if self.metric == 0 { message } else { message.metric(self.metric) };
        let message = if self.mtu == 0 { message } else { message.path_mtu(self.mtu) };
        match self.source {
            Some(source) => message.address(7, ip(source)),
            None => message,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    One(&'static str, u32),
    Group(Vec<(u32, u8)>),
}

/// What the kernel does with packets for a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Fixed(TargetAction),
    Neighbours(BTreeMap<(FibPortIndex, NextHopAddress), u64>, u32),
}

pub(crate) struct Kernel {
    pub(crate) links: BTreeMap<u32, u32>,
    /// The routes of the main table. Routes for one prefix and metric are in the order of lookups.
    pub(crate) routes: Vec<Route>,
    pub(crate) objects: BTreeMap<u32, Object>,
    /// The kernel's state of each neighbour, and the last byte of its MAC address; 0 if it has
    /// none.
    pub(crate) neighbours: BTreeMap<(u32, &'static str), (u16, u8)>,
}

pub(crate) const SUBNETS: [(&str, &str, &str, &str); 3] = [
    ("10.1.0.0/16", "fd01::/64", "10.1.0.1", "fd01::1"),
    ("10.2.0.0/16", "fd02::/64", "10.2.0.1", "fd02::1"),
    ("10.3.0.0/16", "fd03::/64", "10.3.0.1", "fd03::1"),
];

impl Kernel {
    pub(crate) fn new() -> Self {
        let mut routes = Vec::new();
        for (at, subnet) in SUBNETS.iter().enumerate() {
            routes.push(Route::connected(subnet.0, at as u32 + 1));
            routes.push(Route::connected(subnet.1, at as u32 + 1));
        }
        Self {
            links: (1..=3).map(|ifindex| (ifindex, kernel::UP)).collect(),
            routes,
            objects: BTreeMap::new(),
            neighbours: BTreeMap::new(),
        }
    }

    fn is_up(&self, ifindex: u32) -> bool {
        self.links[&ifindex] & 1 != 0
    }

    fn has_carrier(&self, ifindex: u32) -> bool {
        self.links[&ifindex] & 0x1_0040 != 0
    }

    fn is_valid(&self, route: &Route) -> bool {
        match &route.lead {
            Lead::Hops(hops) => hops.iter().all(|hop| self.is_up(hop.ifindex)),
            Lead::Object(id) => self.objects.contains_key(id),
            Lead::Kind(_) => true,
        }
    }

    /// `ip route add`, `prepend`, `append` or `replace`, depending on `flags`. Returns the
    /// notifications that the kernel sends.
    pub(crate) fn add(&mut self, route: Route, flags: u16) -> Vec<KernelMessage> {
        if !self.is_valid(&route) || self.routes.contains(&route) {
            return vec![];
        }
        if !route.is_v4() {
            return self.add_v6(route, flags);
        }
        let first = self.routes.iter().position(|other| other.is_same_key(&route));
        let last = self.routes.iter().rposition(|other| other.is_same_key(&route));
        let message = route.message().flagged(flags);
        match (flags, first, last) {
            (kernel::REPLACE, Some(at), _) => self.routes[at] = route,
            (kernel::APPEND, _, Some(at)) => self.routes.insert(at + 1, route),
            (_, Some(at), _) => self.routes.insert(at, route),
            _ => self.routes.push(route),
        }
        vec![message]
    }

    /// Like [`Self::add`], for IPv6: when a route is appended, the kernel combines routes with
    /// gateways and the same prefix and metric into one route, and announces all its next hops.
    fn add_v6(&mut self, route: Route, flags: u16) -> Vec<KernelMessage> {
        if flags == kernel::REPLACE {
            self.routes.retain(|other| !other.is_same_key(&route));
            let message = route.message().flagged(flags);
            self.routes.push(route);
            return vec![message];
        }
        let hops = |route: &Route| match &route.lead {
            Lead::Hops(hops) if hops.iter().all(|hop| hop.gateway.is_some()) => hops.clone(),
            _ => vec![],
        };
        let new = hops(&route);
        let sibling = self
            .routes
            .iter_mut()
            .find(|other| other.is_same_key(&route) && !hops(other).is_empty() && !new.is_empty());
        let told = match sibling {
            Some(sibling) if flags == kernel::APPEND => {
                let old = hops(sibling);
                if new.iter().any(|hop| {
                    old.iter().any(|it| (it.gateway, it.ifindex) == (hop.gateway, hop.ifindex))
                }) {
                    return vec![];
                }
                sibling.lead = Lead::Hops([new, old].concat());
                sibling.clone()
            }
            Some(_) => return vec![],
            None => {
                if flags != kernel::APPEND
                    && self.routes.iter().any(|other| other.is_same_key(&route))
                {
                    return vec![];
                }
                self.routes.push(route.clone());
                route
            }
        };
        vec![told.message().flagged(flags)]
    }

    /// `ip route del` of the route at index `at`, modulo the number of routes. If it is an IPv6
    /// route with several next hops, deletes only one of them.
    pub(crate) fn delete(&mut self, at: usize) -> Vec<KernelMessage> {
        if self.routes.is_empty() {
            return vec![];
        }
        let at = at % self.routes.len();
        let route = &mut self.routes[at];
        match &mut route.lead {
            Lead::Hops(hops) if hops.len() > 1 && route.prefix.contains(':') => {
                let gone = hops.remove(0);
                // The announced next hop has weight 1, whatever its weight in the route was: the
                // kernel deletes by address and interface.
                let lead = Lead::Hops(vec![Hop { weight: 1, ..gone }]);
                vec![Route { lead, ..route.clone() }.message().deleted()]
            }
            _ => vec![self.routes.remove(at).message().deleted()],
        }
    }

    /// Changes the flags of an interface, with all consequences. Returns the notifications that the
    /// kernel sends.
    pub(crate) fn set_link(&mut self, ifindex: u32, flags: u32) -> Vec<KernelMessage> {
        let was_up = self.is_up(ifindex);
        self.links.insert(ifindex, flags);
        let mut told = vec![kernel::link(ifindex, flags)];
        if !self.is_up(ifindex) || !self.has_carrier(ifindex) {
            let gone: Vec<u32> = self
                .objects
                .iter()
                .filter(|(_, it)| matches!(it, Object::One(_, on) if *on == ifindex))
                .map(|(id, _)| *id)
                .collect();
            self.drop_objects(&gone);
            let neighbours: Vec<_> =
                self.neighbours.keys().filter(|key| key.0 == ifindex).copied().collect();
            told.extend(
                neighbours
                    .into_iter()
                    .flat_map(|(on, address)| self.set_neighbour(on, address, 0, 0)),
            );
        }
        if !self.is_up(ifindex) {
            told.extend(self.drop_dead(ifindex));
        }
        if self.is_up(ifindex) && !was_up {
            let subnet = SUBNETS[ifindex as usize - 1];
            told.extend(self.add(Route::connected(subnet.0, ifindex), 0));
            told.extend(self.add(Route::connected(subnet.1, ifindex), kernel::APPEND));
        }
        told
    }

    /// Removes the routes whose next hops are all dead. Returns the kernel's notifications, which
    /// are only about IPv6.
    fn drop_dead(&mut self, ifindex: u32) -> Vec<KernelMessage> {
        let links = self.links.clone();
        let is_dead = |route: &Route| match &route.lead {
            Lead::Hops(hops) => {
                hops.iter().any(|hop| hop.ifindex == ifindex)
                    && hops.iter().all(|hop| links[&hop.ifindex] & 1 == 0)
            }
            _ => false,
        };
        let (gone, kept): (Vec<_>, Vec<_>) = self.routes.drain(..).partition(is_dead);
        self.routes = kept;
        let told = gone.into_iter().filter(|route| !route.is_v4()).flat_map(|route| {
            let Lead::Hops(hops) = route.lead.clone() else { return vec![] };
            let one =
                |hop| Route { lead: Lead::Hops(vec![hop]), ..route.clone() }.message().deleted();
            hops.into_iter().map(|hop| one(Hop { weight: 1, ..hop })).collect()
        });
        told.collect()
    }

    /// Removes next-hop objects and the routes that use them, silently. Returns the changed groups.
    fn drop_objects(&mut self, gone: &[u32]) -> Vec<u32> {
        let mut gone: BTreeSet<u32> = gone.iter().copied().collect();
        let mut changed = vec![];
        for (id, object) in &mut self.objects {
            if let Object::Group(members) = object {
                let before = members.len();
                members.retain(|member| !gone.contains(&member.0));
                if members.len() < before {
                    changed.push(*id);
                }
            }
        }
        gone.extend(
            self.objects
                .iter()
                .filter(|(_, it)| matches!(it, Object::Group(it) if it.is_empty()))
                .map(|(id, _)| *id),
        );
        self.objects.retain(|id, _| !gone.contains(id));
        self.routes.retain(|route| !matches!(&route.lead, Lead::Object(id) if gone.contains(id)));
        changed.retain(|id| !gone.contains(id));
        changed
    }

    fn object_message(&self, id: u32) -> KernelMessage {
        match &self.objects[&id] {
            Object::One(gateway, ifindex) => kernel::next_hop(id, gateway, *ifindex),
            Object::Group(members) => kernel::group(id, members),
        }
    }

    /// `ip nexthop replace`, with the route messages of compatibility mode.
    pub(crate) fn set_object(&mut self, id: u32, object: Object) -> Vec<KernelMessage> {
        let is_valid = match &object {
            Object::One(_, ifindex) => self.is_up(*ifindex) && self.has_carrier(*ifindex),
            Object::Group(members) => members
                .iter()
                .all(|member| matches!(self.objects.get(&member.0), Some(Object::One(..)))),
        };
        if !is_valid {
            return vec![];
        }
        self.objects.insert(id, object);
        let mut told = vec![self.object_message(id).flagged(kernel::REPLACE)];
        let users = self.routes.iter().filter(|route| route.lead == Lead::Object(id));
        told.extend(users.map(|route| route.message().flagged(kernel::REPLACE)));
        told
    }

    /// `ip nexthop del`.
    pub(crate) fn delete_object(&mut self, id: u32) -> Vec<KernelMessage> {
        if !self.objects.contains_key(&id) {
            return vec![];
        }
        let mut told = vec![self.object_message(id).deleted()];
        let changed = self.drop_objects(&[id]);
        told.extend(changed.into_iter().map(|id| self.object_message(id)));
        told
    }

    /// Deletes the IPv4 address of a subnet, and removes the routes that prefer it as source.
    /// Returns the kernel's notification, which is only about the address.
    pub(crate) fn delete_address(&mut self, at: usize) -> Vec<KernelMessage> {
        let subnet = SUBNETS[at];
        self.routes.retain(|route| route.source != Some(subnet.2));
        vec![kernel::address(at as u32 + 1, subnet.2, 16, 0).deleted()]
    }

    pub(crate) fn set_neighbour(
        &mut self,
        ifindex: u32,
        address: &'static str,
        state: u16,
        mac: u8,
    ) -> Vec<KernelMessage> {
        if state == 0 {
            let known = self.neighbours.remove(&(ifindex, address));
            return known
                .map(|(state, mac)| kernel::neighbour(ifindex, address, state, mac).deleted())
                .into_iter()
                .collect();
        }
        if !self.is_up(ifindex) {
            return vec![];
        }
        self.neighbours.insert((ifindex, address), (state, mac));
        vec![kernel::neighbour(ifindex, address, state, mac)]
    }

    pub(crate) fn dump(&self, kind: DumpKind) -> Vec<KernelMessage> {
        match kind {
            DumpKind::Links => {
                self.links.iter().map(|(ifindex, flags)| kernel::link(*ifindex, *flags)).collect()
            }
            DumpKind::Ipv4Routes => {
                self.routes.iter().filter(|route| route.is_v4()).map(Route::message).collect()
            }
            DumpKind::Ipv6Routes => {
                self.routes.iter().filter(|route| !route.is_v4()).map(Route::message).collect()
            }
            DumpKind::NextHops => self.objects.keys().map(|id| self.object_message(*id)).collect(),
            DumpKind::Neighbours => {
                let all = self.neighbours.iter();
                all.map(|((on, of), (state, mac))| kernel::neighbour(*on, of, *state, *mac))
                    .collect()
            }
            DumpKind::Settings => vec![kernel::settings(kernel::ALL).ignores_linkdown(true)],
            DumpKind::Addresses | DumpKind::Rules => vec![],
        }
    }

    /// Returns the last byte of the MAC address to which the kernel would send packets for
    /// `address`.
    pub(crate) fn mac(&self, ifindex: u32, address: IpAddr) -> Option<u8> {
        let found =
            self.neighbours.iter().find(|((on, of), _)| *on == ifindex && ip(of) == address);
        // NUD_VALID: all but INCOMPLETE and FAILED.
        found
            .map(|(_, entry)| *entry)
            .filter(|(state, mac)| state & 0xde != 0 && *mac != 0)
            .map(|(_, mac)| mac)
    }

    /// Returns what should happen to packets for a destination.
    pub(crate) fn expected(&self, destination: IpAddr, ignores_linkdown: bool) -> Expected {
        let kernel = Expected::Fixed(TargetAction::Kernel);
        let best = self.routes.iter().filter_map(|route| Some((route.covers(destination)?, route)));
        let best_key = best.clone().map(|(len, route)| (u8::MAX - len, route.metric)).min();
        let mut best = best.filter(|(len, route)| Some((u8::MAX - len, route.metric)) == best_key);
        let Some((_, route)) = best.next() else { return Expected::Fixed(TargetAction::NoRoute) };
        if !route.is_v4() && best.next().is_some() {
            return kernel;
        }
        let hops: Vec<Hop> = match &route.lead {
            Lead::Kind(6) => return Expected::Fixed(TargetAction::Blackhole),
            Lead::Kind(7) => return Expected::Fixed(TargetAction::Unreachable),
            Lead::Kind(8) => return Expected::Fixed(TargetAction::Prohibit),
            Lead::Kind(_) => return kernel,
            Lead::Hops(hops) => hops.clone(),
            Lead::Object(id) => self.object_hops(*id, 1),
        };
        if hops.iter().any(|hop| !ROUTER.contains(&hop.ifindex)) {
            return kernel;
        }
        let mut found: BTreeMap<(FibPortIndex, NextHopAddress), u64> = BTreeMap::new();
        for hop in &hops {
            let is_usable =
                self.is_up(hop.ifindex) && (self.has_carrier(hop.ifindex) || !ignores_linkdown);
            if is_usable {
                let host =
                    self.mac(hop.ifindex, destination).map(|_| NextHopAddress::Via(destination));
                let on_link = host.filter(|_| hops.len() == 1).unwrap_or(NextHopAddress::OnLink);
                let next_hop =
                    hop.gateway.map_or(on_link, |gateway| NextHopAddress::Via(ip(gateway)));
                *found.entry((FibPortIndex(hop.ifindex as u16 - 1), next_hop)).or_default() +=
                    u64::from(hop.weight);
            }
        }
        if found.is_empty() { kernel } else { Expected::Neighbours(found, route.mtu) }
    }

    fn object_hops(&self, id: u32, weight: u16) -> Vec<Hop> {
        match &self.objects[&id] {
            Object::One(gateway, ifindex) => {
                vec![Hop { weight, gateway: Some(gateway), ifindex: *ifindex }]
            }
            Object::Group(members) => members
                .iter()
                .flat_map(|(id, weight)| self.object_hops(*id, u16::from(*weight)))
                .collect(),
        }
    }
}
