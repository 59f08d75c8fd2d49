//! Converts routes to targets: next hops become adjacencies and buckets.

use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_rtnetlink::RouteKind;
use slipring_wire::mac::MacAddr;

use super::Mirror;
use crate::adjacencies::AdjacencyKey;
use crate::deferred::ReleasedItem;
use crate::next_hops::ObjectHops;
use crate::specs::{RouteSpec, SpecHop, SpecHops, SpecId, SpecState};
use crate::tables::{AdjacencyIndex, BUCKETS, NextHopAddress, Target, TargetAction, TargetIndex};

/// What happens to a route's packets.
enum Resolved {
    /// The same action for all packets.
    Fixed(TargetAction),
    /// Packets go to these neighbours, by weight. There is at least one, and all differ.
    Neighbours(Vec<(AdjacencyKey, u16)>),
}

/// When at least this many targets, as many adjacencies and as many bucket arrays are free, routes
/// and hosts that had found no space are evaluated again.
const ENOUGH: usize = 64;

impl Mirror {
    /// Updates the targets of the route specs that may have changed.
    pub(super) fn update_targets(&mut self) {
        let mut ids = core::mem::take(&mut self.specs.changed);
        if self.has_space_for_starved() {
            self.is_starved = false;
            self.has_stale_specs = true;
            self.dirty_hosts.extend(self.neighbours.iter().map(|((address, _), _)| address));
        }
        if core::mem::take(&mut self.has_stale_specs) {
            ids = self.specs.ids().collect();
        }
        if ids.is_empty() {
            return;
        }
        for id in ids {
            match self.specs.remove_unused(id) {
                Some(state) => self.drop_spec(state),
                None => self.update_spec(id),
            }
        }
        self.targets.follow_all();
    }

    fn has_space_for_starved(&self) -> bool {
        let available =
            [self.targets.available(), self.adjacencies.available(), self.buckets.available()];
        self.is_starved && available.iter().all(|available| *available >= ENOUGH)
    }

    fn drop_spec(&mut self, state: SpecState) {
        for (key, _) in state.adjacencies {
            self.release(ReleasedItem::Adjacency(key));
        }
        if let Some(index) = state.buckets {
            self.release(ReleasedItem::Buckets(index));
        }
        if state.target != TargetIndex::KERNEL {
            self.release(ReleasedItem::Target(state.target));
        }
    }

    fn update_spec(&mut self, id: SpecId) {
        let Some(state) = self.specs.get(id).filter(|state| state.wants_target()) else { return };
        let (old_target, old_adjacencies, old_buckets) =
            (state.target, state.adjacencies.clone(), state.buckets);
        let mtu = state.spec.mtu;
        let resolved = if state.is_purged {
            Resolved::Fixed(TargetAction::Kernel)
        } else {
            self.resolve(&state.spec)
        };
        let Some(target) = self.target_index(id, old_target) else { return };
        let (action, adjacencies, buckets) = self.act(resolved, old_buckets);
        for (key, _) in &old_adjacencies {
            self.release(ReleasedItem::Adjacency(*key));
        }
        if let Some(index) = old_buckets.filter(|_| buckets.is_none()) {
            self.release(ReleasedItem::Buckets(index));
        }
        let link = self.link_of(action);
        let old_link = self.targets.link(target);
        if self.targets.set(target, Target { action, mtu }, link) {
            self.mark_hosts_of([old_link, link]);
        }
        if let Some(state) = self.specs.get_mut(id) {
            (state.target, state.adjacencies, state.buckets) = (target, adjacencies, buckets);
        }
    }

    /// Returns the target index of a spec: `old` or, if `old` is [`TargetIndex::KERNEL`], a new
    /// one. `None` if no index is free.
    fn target_index(&mut self, id: SpecId, old: TargetIndex) -> Option<TargetIndex> {
        if old != TargetIndex::KERNEL {
            return Some(old);
        }
        let index = self.targets.take();
        let state = self.specs.get_mut(id)?;
        let was_starved = core::mem::replace(&mut state.is_starved, index.is_none());
        match index {
            // The routes with this spec were written to the lookup structures while it had no
            // index, so everything is written again.
            Some(_) if was_starved => self.mark_all(),
            Some(_) => {}
            None => self.note_exhausted(),
        }
        index
    }

    pub(super) const fn note_exhausted(&mut self) {
        self.is_starved = true;
        self.counters.exhausted += 1;
    }

    /// Acquires the adjacencies and the bucket array that `resolved` needs. Returns the resulting
    /// action, the acquired adjacencies and the index of the bucket array. If there is no space,
    /// the action leaves packets to the kernel.
    fn act(
        &mut self,
        resolved: Resolved,
        old_buckets: Option<u16>,
    ) -> (TargetAction, Vec<(AdjacencyKey, u16)>, Option<u16>) {
        let keys = match resolved {
            Resolved::Fixed(action) => return (action, Vec::new(), None),
            Resolved::Neighbours(keys) => keys,
        };
        let mut hops: Vec<(AdjacencyIndex, u16)> = Vec::with_capacity(keys.len());
        for (key, weight) in &keys {
            let mac = self.mac_of(*key);
            let Some(index) = self.adjacencies.acquire(*key, mac) else { break };
            hops.push((index, *weight));
        }
        let buckets = match hops[..] {
            [(only, _)] if keys.len() == 1 => return (TargetAction::Forward(only), keys, None),
            _ if hops.len() == keys.len() => self.buckets.assign(old_buckets, &hops),
            _ => None,
        };
        if let Some(index) = buckets {
            return (TargetAction::Balance(index), keys, buckets);
        }
        for (key, _) in &keys[..hops.len()] {
            self.release(ReleasedItem::Adjacency(*key));
        }
        self.note_exhausted();
        (TargetAction::Kernel, Vec::new(), None)
    }

    pub(super) fn mac_of(&self, key: AdjacencyKey) -> Option<MacAddr> {
        match key.next_hop {
            NextHopAddress::OnLink => None,
            NextHopAddress::Via(address) => {
                self.neighbours.mac(self.links.ifindex(key.port)?, address)
            }
        }
    }

    /// Returns the interface to whose hosts an action sends packets; 0 for other actions.
    fn link_of(&self, action: TargetAction) -> u32 {
        let TargetAction::Forward(index) = action else { return 0 };
        let adjacency =
            self.adjacencies.get(index).filter(|it| it.next_hop == NextHopAddress::OnLink);
        adjacency.and_then(|it| self.links.ifindex(it.port)).unwrap_or(0)
    }

    /// Records that the entries of all hosts on these interfaces in the lookup structures must be
    /// written again.
    fn mark_hosts_of(&mut self, links: [u32; 2]) {
        let on = self.neighbours.iter().filter(|((_, ifindex), _)| links.contains(ifindex));
        let addresses: Vec<IpAddr> = on.map(|((address, _), _)| address).collect();
        self.dirty_hosts.extend(addresses);
    }

    fn resolve(&self, spec: &RouteSpec) -> Resolved {
        let kernel = Resolved::Fixed(TargetAction::Kernel);
        match spec.kind {
            RouteKind::Blackhole => return Resolved::Fixed(TargetAction::Blackhole),
            RouteKind::Unreachable => return Resolved::Fixed(TargetAction::Unreachable),
            RouteKind::Prohibit => return Resolved::Fixed(TargetAction::Prohibit),
            RouteKind::Unicast => {}
            _ => return kernel,
        }
        let object;
        let hops = match &spec.hops {
            SpecHops::Object(id) => match self.next_hops.resolve(*id) {
                None => return kernel,
                Some(ObjectHops::Blackhole) => return Resolved::Fixed(TargetAction::Blackhole),
                Some(ObjectHops::Hops(hops)) => {
                    object = hops;
                    &object[..]
                }
            },
            named => named.named(),
        };
        match self.usable(hops) {
            Some(keys) if !keys.is_empty() && keys.len() <= BUCKETS => Resolved::Neighbours(keys),
            _ => kernel,
        }
    }

    /// Returns the adjacencies of the next hops that the kernel would use; `None` if the router
    /// cannot use one of them.
    fn usable(&self, hops: &[SpecHop]) -> Option<Vec<(AdjacencyKey, u16)>> {
        let mut keys: Vec<(AdjacencyKey, u16)> = Vec::with_capacity(hops.len());
        for hop in hops {
            // If the mirror does not know the interface yet, packets are left to the kernel, which
            // knows it.
            let link = self.links.links.get(hop.ifindex)?;
            let (port, _) = self.links.port(hop.ifindex)?;
            let is_skipped = !link.flags.has_carrier()
                && self.links.settings.ignores_routes_with_linkdown(hop.ifindex);
            if !link.is_up() || is_skipped {
                continue;
            }
            let next_hop = hop.gateway.map_or(NextHopAddress::OnLink, NextHopAddress::Via);
            let key = AdjacencyKey { port, next_hop };
            match keys.iter_mut().find(|known| known.0 == key) {
                Some(known) => known.1 = known.1.saturating_add(hop.weight),
                None => keys.push((key, hop.weight)),
            }
        }
        Some(keys)
    }
}
