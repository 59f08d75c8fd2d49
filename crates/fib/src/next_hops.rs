//! Next-hop objects and groups of them.

use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_rtnetlink::NextHopMessage;

use crate::mirrored::{Mirrored, Origin};
use crate::specs::SpecHop;

/// A next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextHopObject {
    /// The object is one next hop.
    One { ifindex: u32, gateway: Option<IpAddr> },
    /// The object drops packets.
    Blackhole,
    /// The object is a group of other objects, with their weights.
    Group(Vec<(u32, u16)>),
    /// An object that the tables cannot represent, with its interface (0 for none).
    Unknown { ifindex: u32 },
}

impl NextHopObject {
    fn of(message: &NextHopMessage<'_>) -> Self {
        match message.group {
            _ if message.has_unknown || message.is_fdb => {
                Self::Unknown { ifindex: message.ifindex }
            }
            Some(group) => Self::Group(group.collect()),
            None if message.is_blackhole => Self::Blackhole,
            None => Self::One { ifindex: message.ifindex, gateway: message.gateway },
        }
    }
}

/// The result of the lookup of a next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectHops {
    /// Packets are sent to these next hops.
    Hops(Vec<SpecHop>),
    /// Packets are dropped.
    Blackhole,
}

/// The kernel's next-hop objects, by identifier.
#[derive(Debug, Default)]
pub(crate) struct NextHopObjects {
    objects: Mirrored<u32, NextHopObject>,
}

impl NextHopObjects {
    /// Whether there are already `limit` objects and the object `id` is not one of them.
    pub(crate) fn is_full_for(&self, id: u32, limit: usize) -> bool {
        self.objects.len() >= limit && self.objects.get(id).is_none()
    }

    /// Stores an object.
    pub(crate) fn set(&mut self, message: &NextHopMessage<'_>, origin: Origin) {
        self.objects.set(message.id, NextHopObject::of(message), origin);
    }

    /// Removes an object, also from its groups, and removes groups that become empty. Returns all
    /// removed objects.
    pub(crate) fn remove(&mut self, id: u32) -> Vec<u32> {
        self.objects.remove(id);
        let mut removed = self.remove_from_groups(&[id]);
        removed.push(id);
        removed
    }

    /// Removes the objects of an interface, and returns all removed objects. The kernel does this
    /// without a message when the interface goes down or loses its carrier. Blackholes have no
    /// interface.
    pub(crate) fn purge_link(&mut self, ifindex: u32) -> Vec<u32> {
        let is_on = |object: &NextHopObject| match object {
            NextHopObject::One { ifindex: on, .. } | NextHopObject::Unknown { ifindex: on } => {
                *on == ifindex
            }
            NextHopObject::Blackhole | NextHopObject::Group(_) => false,
        };
        let mut gone: Vec<u32> =
            self.objects.iter().filter(|(_, object)| is_on(object)).map(|(id, _)| id).collect();
        if gone.is_empty() {
            return gone;
        }
        for id in &gone {
            self.objects.remove(*id);
        }
        let groups = self.remove_from_groups(&gone);
        gone.extend(groups);
        gone
    }

    fn remove_from_groups(&mut self, gone: &[u32]) -> Vec<u32> {
        let has_gone = |object: &NextHopObject| match object {
            NextHopObject::Group(members) => members.iter().any(|member| gone.contains(&member.0)),
            _ => false,
        };
        let groups: Vec<u32> =
            self.objects.iter().filter(|(_, object)| has_gone(object)).map(|(id, _)| id).collect();
        let mut empty = Vec::new();
        for id in groups {
            let Some(NextHopObject::Group(members)) = self.objects.get_mut(id) else { continue };
            members.retain(|member| !gone.contains(&member.0));
            if members.is_empty() {
                self.objects.remove(id);
                empty.push(id);
            }
        }
        empty
    }

    pub(crate) fn begin_dump(&mut self) {
        self.objects.begin_dump();
    }

    /// Ends the dump. If it was complete, removes and returns the objects that no longer exist.
    pub(crate) fn end_dump(&mut self, is_complete: bool) -> Vec<u32> {
        self.objects.end_dump(is_complete).into_iter().map(|(id, _)| id).collect()
    }

    /// Returns the next hops of an object; `None` if the object or a member is unknown or cannot be
    /// represented.
    pub(crate) fn resolve(&self, id: u32) -> Option<ObjectHops> {
        match self.objects.get(id)? {
            NextHopObject::Unknown { .. } => None,
            NextHopObject::Blackhole => Some(ObjectHops::Blackhole),
            NextHopObject::One { ifindex, gateway } => {
                let hop = SpecHop { ifindex: *ifindex, gateway: *gateway, weight: 1 };
                Some(ObjectHops::Hops(alloc::vec![hop]))
            }
            NextHopObject::Group(members) => self.resolve_group(members),
        }
    }

    fn resolve_group(&self, members: &[(u32, u16)]) -> Option<ObjectHops> {
        let mut hops = Vec::with_capacity(members.len());
        for (id, weight) in members {
            match self.objects.get(*id)? {
                NextHopObject::One { ifindex, gateway } => {
                    hops.push(SpecHop { ifindex: *ifindex, gateway: *gateway, weight: *weight });
                }
                // The kernel has no groups of groups. A blackhole must be the only member of its
                // group.
                NextHopObject::Blackhole if members.len() == 1 => {
                    return Some(ObjectHops::Blackhole);
                }
                _ => return None,
            }
        }
        Some(ObjectHops::Hops(hops))
    }
}
