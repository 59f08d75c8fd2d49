//! Updates the mirror for each message.

use slipring_rtnetlink::{
    AddressMessage, Change, HeaderFlags, LinkMessage, MessageBody, NeighbourMessage,
    NetconfMessage, NetconfScope, NetlinkHeader, NetlinkMessage, NextHopMessage, RouteFamily,
    RouteMessage, RuleMessage,
};

use super::Mirror;
use crate::adjacencies::AdjacencyKey;
use crate::links::KernelLink;
use crate::mirrored::Origin;
use crate::purges::Purge;
use crate::resync::{DumpEnd, DumpKind, DumpSet};
use crate::specs::SpecHop;
use crate::tables::NextHopAddress;

impl Mirror {
    /// Processes a notification, or an element of a running dump. Messages of other kinds, and
    /// objects that do not concern the router, have no effect.
    pub fn receive(&mut self, message: &NetlinkMessage<'_>) {
        if message.header.flags.has(HeaderFlags::DUMP_INTERRUPTED) {
            self.resync.interrupt(kind_of(&message.body));
        }
        match message.body {
            MessageBody::Link(change, link) => self.receive_link(change, &link, message.header),
            MessageBody::Address(change, address) => {
                self.receive_address(change, &address, message.header)
            }
            MessageBody::Route(change, route) => self.receive_route(change, &route, message.header),
            MessageBody::NextHop(change, next_hop) => {
                self.receive_next_hop(change, &next_hop, message.header)
            }
            MessageBody::Neighbour(change, it) => {
                self.receive_neighbour(change, &it, message.header)
            }
            MessageBody::Rule(change, rule) => self.receive_rule(change, &rule, message.header),
            MessageBody::Netconf(change, settings) => {
                self.receive_settings(change, &settings, message.header)
            }
            MessageBody::Done(done) if done.errno != 0 => self.resync.interrupt(None),
            MessageBody::Overrun => self.overrun(),
            _ => {}
        }
    }

    /// Handles the loss of notifications (`ENOBUFS` of the socket): everything must be dumped.
    pub fn overrun(&mut self) {
        self.counters.overruns += 1;
        self.resync.want(DumpSet::ALL);
        // Notifications during a running dump may be lost as well, so running dumps must be
        // repeated.
        self.resync.interrupt(None);
    }

    fn origin(&self, kind: DumpKind, header: NetlinkHeader) -> Origin {
        let is_dump = header.flags.has(HeaderFlags::MULTI) && self.resync.is_running(kind);
        if is_dump { Origin::Dump } else { Origin::Notification }
    }

    /// Begins a dump. Call this before the request for the dump is sent. Only one dump of each kind
    /// may run at a time.
    pub fn begin_dump(&mut self, kind: DumpKind) {
        self.resync.begin(kind);
        if matches!(kind, DumpKind::Ipv4Routes | DumpKind::Ipv6Routes) {
            // A verification and a dump would mark the same routes, so a running verification is
            // given up.
            self.check = None;
        }
        match kind {
            DumpKind::Links => self.links.links.begin_dump(),
            DumpKind::Addresses => self.links.begin_address_dump(),
            DumpKind::Settings => self.links.settings.begin_dump(),
            DumpKind::Rules => self.rules.begin_dump(),
            DumpKind::NextHops => self.next_hops.begin_dump(),
            DumpKind::Ipv4Routes => self.v4.begin_dump(&mut self.specs),
            DumpKind::Ipv6Routes => self.v6.begin_dump(&mut self.specs),
            DumpKind::Neighbours => self.neighbours.begin_dump(),
        }
    }

    /// Ends a dump after its `NLMSG_DONE`: objects that it did not contain no longer exist. If the
    /// kernel has marked the dump as inconsistent, nothing is removed, and the dump must be
    /// repeated.
    pub fn end_dump(&mut self, kind: DumpKind) {
        let is_complete = self.resync.end(kind) == DumpEnd::Complete;
        self.counters.interrupted_dumps += u64::from(!is_complete);
        match kind {
            DumpKind::Links => {
                for (ifindex, _) in self.links.links.end_dump(is_complete) {
                    self.links.note_deleted(ifindex);
                    self.lost_link(ifindex, true);
                }
            }
            DumpKind::Addresses => self.links.end_address_dump(is_complete),
            DumpKind::Settings => {
                let has_lost = self.links.settings.end_dump(is_complete);
                self.note_settings(has_lost);
            }
            DumpKind::Rules => self.rules.end_dump(is_complete),
            DumpKind::NextHops => {
                let gone = self.next_hops.end_dump(is_complete);
                self.lost_next_hops(&gone);
            }
            DumpKind::Ipv4Routes | DumpKind::Ipv6Routes => self.end_route_dump(kind, is_complete),
            DumpKind::Neighbours => {
                let gone: alloc::vec::Vec<_> = self.neighbours.end_dump(is_complete).collect();
                for (address, ifindex) in gone {
                    self.changed_neighbour(ifindex, address);
                }
            }
        }
    }

    /// Ends a dump that failed, for example because its request was refused. The dump must be
    /// repeated.
    pub fn abort_dump(&mut self, kind: DumpKind) {
        self.resync.interrupt(Some(kind));
        self.end_dump(kind);
    }

    fn end_route_dump(&mut self, kind: DumpKind, is_complete: bool) {
        let (has_lost, removed) = match kind {
            DumpKind::Ipv4Routes => {
                (self.v4.has_lost_changes(), self.v4.end_dump(&mut self.specs, is_complete))
            }
            _ => (self.v6.has_lost_changes(), self.v6.end_dump(&mut self.specs, is_complete)),
        };
        if has_lost {
            self.resync.want_one(kind);
        }
        self.counters.silent_removals += removed as u64;
    }

    fn receive_link(&mut self, change: Change, message: &LinkMessage<'_>, header: NetlinkHeader) {
        let ifindex = message.ifindex;
        if change == Change::Deleted {
            self.links.links.remove(ifindex);
            self.links.note_deleted(ifindex);
            self.lost_link(ifindex, true);
            return;
        }
        let (is_up, has_carrier) =
            (message.flags.has(slipring_rtnetlink::LinkFlags::UP), message.flags.has_carrier());
        let origin = self.origin(DumpKind::Links, header);
        let link = KernelLink::of(message);
        let Some(before) = self.links.links.set(ifindex, link, origin) else {
            // The interface may have been up before the mirror knew of it, and a running dump may
            // still contain routes of that time. So it is handled like an interface that is lost
            // now.
            let is_dumping = self.resync.is_running(DumpKind::Ipv4Routes)
                || self.resync.is_running(DumpKind::Ipv6Routes);
            if !(is_up && has_carrier) && is_dumping && origin == Origin::Notification {
                self.lost_link(ifindex, !is_up);
            }
            return;
        };
        self.links.has_changed = true;
        self.has_stale_specs = true;
        match before {
            Some(before) if before.is_up() && !is_up => self.lost_link(ifindex, true),
            Some(before) if before.flags.has_carrier() && !has_carrier => {
                self.lost_link(ifindex, false)
            }
            // The kernel announces the routes that it adds again, but not that next hops of the
            // remaining routes work again. So the routes are dumped.
            Some(before) if !before.is_up() && is_up => self.resync.want(DumpSet::ROUTING),
            _ => {}
        }
    }

    /// Handles an interface that was deleted, is down, or has only lost its carrier.
    fn lost_link(&mut self, ifindex: u32, is_down: bool) {
        self.links.has_changed = true;
        self.has_stale_specs = true;
        let gone = self.next_hops.purge_link(ifindex);
        // If next-hop objects are not known completely, routes that use unknown objects may also
        // have been removed.
        let knows_all = !self.resync.wanted().contains(DumpKind::NextHops)
            && !self.resync.is_running(DumpKind::NextHops);
        if !gone.is_empty() || is_down || !knows_all {
            self.resync.want(DumpSet::ROUTING);
        }
        self.lost_next_hops(&gone);
        if !is_down {
            return;
        }
        let purge = Purge::Link(ifindex);
        let links = &self.links.links;
        let is_dead = |hop: &SpecHop| links.get(hop.ifindex).is_none_or(|link| !link.is_up());
        // A route stays if it has another next hop that is alive.
        self.specs.purge(|spec| purge.concerns(spec) && spec.hops.named().iter().all(is_dead));
        self.note_purge(&purge);
    }

    /// Records a purge in running dumps, which may still mention the removed routes.
    fn note_purge(&mut self, purge: &Purge) {
        self.v4.note_purge(purge);
        self.v6.note_purge(purge);
    }

    /// Handles the removal of next-hop objects. The kernel also removes the routes that use them.
    fn lost_next_hops(&mut self, gone: &[u32]) {
        if gone.is_empty() {
            return;
        }
        self.has_stale_specs = true;
        let purge = Purge::Objects(gone.to_vec());
        self.specs.purge(|spec| purge.concerns(spec));
        self.note_purge(&purge);
    }

    fn receive_address(&mut self, change: Change, message: &AddressMessage, header: NetlinkHeader) {
        match change {
            Change::New => {
                let origin = self.origin(DumpKind::Addresses, header);
                self.links.set_address(message, origin);
            }
            Change::Deleted => {
                self.links.remove_address(message);
                // The kernel has removed routes with this preferred source, without messages.
                if message.local.is_ipv4() {
                    let purge = Purge::Source(message.local);
                    self.specs.purge(|spec| purge.concerns(spec));
                    self.note_purge(&purge);
                    self.resync.want_one(DumpKind::Ipv4Routes);
                }
            }
        }
    }

    fn receive_route(&mut self, change: Change, message: &RouteMessage<'_>, header: NetlinkHeader) {
        let kind = DumpKind::routes(message.family);
        let origin = self.origin(kind, header);
        let has_space = self.v4.len() + self.v6.len() < self.config.limits.routes;
        let (flags, specs) = (header.flags, &mut self.specs);
        let outcome = match (change, message.family) {
            (Change::New, RouteFamily::V4) => self.v4.add(specs, message, flags, origin, has_space),
            (Change::New, RouteFamily::V6) => self.v6.add(specs, message, flags, origin, has_space),
            (Change::Deleted, RouteFamily::V4) => self.v4.delete(specs, message),
            (Change::Deleted, RouteFamily::V6) => self.v6.delete(specs, message),
        };
        self.counters.refused_routes += u64::from(outcome.is_refused);
        if outcome.is_doubtful {
            self.counters.doubtful_messages += 1;
            self.resync.want_one(kind);
        }
        self.retry_refused();
    }

    /// Requests dumps of the routes when there is space again for routes that were refused.
    fn retry_refused(&mut self) {
        let refused = self.v4.refused + self.v6.refused;
        let limit = self.config.limits.routes;
        // Refused routes are requested only when a twentieth of the space is free, not after each
        // deletion.
        if refused > 0 && self.v4.len() + self.v6.len() < limit - limit / 20 {
            for kind in [DumpKind::Ipv4Routes, DumpKind::Ipv6Routes] {
                if !self.resync.is_running(kind) {
                    self.resync.want_one(kind);
                }
            }
        }
    }

    fn receive_next_hop(
        &mut self,
        change: Change,
        message: &NextHopMessage<'_>,
        header: NetlinkHeader,
    ) {
        self.has_stale_specs = true;
        if change == Change::Deleted {
            let gone = self.next_hops.remove(message.id);
            self.lost_next_hops(&gone);
            self.resync.want(DumpSet::ROUTING);
            return;
        }
        let origin = self.origin(DumpKind::NextHops, header);
        let limit = self.config.limits.next_hop_objects;
        if self.next_hops.is_full_for(message.id, limit) {
            self.counters.refused_next_hops += 1;
        } else {
            self.next_hops.set(message, origin);
        }
    }

    fn receive_neighbour(
        &mut self,
        change: Change,
        message: &NeighbourMessage,
        header: NetlinkHeader,
    ) {
        let (ifindex, address) = (message.ifindex, message.address);
        let origin = self.origin(DumpKind::Neighbours, header);
        let changed = match change {
            Change::Deleted => Some(self.neighbours.remove(ifindex, address)),
            Change::New => self.neighbours.set(message, origin, self.config.limits.neighbours),
        };
        match changed {
            Some(true) => self.changed_neighbour(ifindex, address),
            Some(false) => {}
            None => self.counters.refused_neighbours += 1,
        }
    }

    /// Handles a change of a neighbour's usable MAC address.
    fn changed_neighbour(&mut self, ifindex: u32, address: core::net::IpAddr) {
        let Some((port, _)) = self.links.port(ifindex) else { return };
        let key = AdjacencyKey { port, next_hop: NextHopAddress::Via(address) };
        self.adjacencies.set_mac(key, self.neighbours.mac(ifindex, address));
        self.dirty_hosts.insert(address);
    }

    fn receive_settings(
        &mut self,
        change: Change,
        message: &NetconfMessage,
        header: NetlinkHeader,
    ) {
        if message.family != RouteFamily::V4 {
            return;
        }
        let origin = self.origin(DumpKind::Settings, header);
        if origin == Origin::Notification && self.resync.is_running(DumpKind::Settings) {
            // A notification contains only some settings. The dump's values of the other settings
            // would be ignored, so the dump must be repeated.
            self.resync.interrupt(Some(DumpKind::Settings));
        }
        if origin == Origin::Notification && message.scope == NetconfScope::Default {
            // The kernel has also changed interfaces that have never had an address, without a
            // notification.
            self.resync.want_one(DumpKind::Settings);
        }
        let has_changed = match change {
            Change::New => self.links.settings.set(message, origin),
            Change::Deleted => self.links.settings.remove(message.scope),
        };
        self.note_settings(has_changed);
    }

    /// Records whether settings have changed.
    const fn note_settings(&mut self, has_changed: bool) {
        self.links.has_changed |= has_changed;
        self.has_stale_specs |= has_changed;
    }

    fn receive_rule(&mut self, change: Change, message: &RuleMessage<'_>, header: NetlinkHeader) {
        let origin = self.origin(DumpKind::Rules, header);
        if origin == Origin::Notification {
            // The list of the running dump may lack this change, so the dump must be repeated.
            if self.resync.is_running(DumpKind::Rules) {
                self.resync.interrupt(Some(DumpKind::Rules));
            }
        }
        match change {
            Change::New => self.rules.add(message, origin),
            Change::Deleted => self.rules.remove(message),
        }
    }
}

/// Returns the kind of dump to which a message belongs.
const fn kind_of(body: &MessageBody<'_>) -> Option<DumpKind> {
    Some(match body {
        MessageBody::Link(..) => DumpKind::Links,
        MessageBody::Address(..) => DumpKind::Addresses,
        MessageBody::Rule(..) => DumpKind::Rules,
        MessageBody::Netconf(..) => DumpKind::Settings,
        MessageBody::NextHop(..) => DumpKind::NextHops,
        MessageBody::Neighbour(..) => DumpKind::Neighbours,
        MessageBody::Route(_, route) => DumpKind::routes(route.family),
        _ => return None,
    })
}
