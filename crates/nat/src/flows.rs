//! The table of all flows of a `nat` instance, with lookup from both sides and expiry.

use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::Ipv4Addr;

use hashbrown::{HashMap, HashTable};
use siphasher::sip::SipHasher13;
use slipring_model::Wheel;
use slipring_wire::assigned::IpProto;

use crate::flow::{NatEndpoint, NatFlow, NatLifetimes};

/// The side from which a flow is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupSide {
    Inside,
    Outside,
}

/// The protocol, the inside host's end as seen from the side of the lookup, and the remote end.
pub(crate) type FlowTuple = (IpProto, NatEndpoint, NatEndpoint);

/// The index of a flow's slot in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NatFlowId(u32);

/// Hashes with a secret key, so that an attacker cannot construct colliding flows.
#[derive(Clone, Copy, Debug)]
struct SecretBuildHasher([u64; 2]);

impl BuildHasher for SecretBuildHasher {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

impl SecretBuildHasher {
    fn hash_tuple(self, (proto, near, far): FlowTuple) -> u64 {
        let mut bytes = [0; 13];
        bytes[0] = proto.0;
        bytes[1..5].copy_from_slice(&near.address.octets());
        bytes[5..7].copy_from_slice(&near.port.to_be_bytes());
        bytes[7..11].copy_from_slice(&far.address.octets());
        bytes[11..].copy_from_slice(&far.port.to_be_bytes());
        self.build_hasher().hash(&bytes)
    }
}

/// A timer for a flow: the index of the flow's slot, and the time in ns at which to check the flow.
/// The timer is outdated, and ignored, if that time differs from the flow's `wake_ns`.
type FlowTimer = (u32, u64);

#[derive(Clone, Debug)]
pub(crate) struct NatFlowTable {
    slots: Vec<Option<NatFlow>>,
    free: Vec<u32>,
    by_inside: HashTable<u32>,
    by_outside: HashTable<u32>,
    /// Number of flows, which is the number of ports in use, by protocol, outside address and
    /// remote end.
    used_ports: HashMap<(IpProto, Ipv4Addr, NatEndpoint), u32, SecretBuildHasher>,
    wheel: Wheel<FlowTimer>,
    secret: SecretBuildHasher,
}

impl NatFlow {
    fn tuple(&self, from: LookupSide) -> FlowTuple {
        let near = match from {
            LookupSide::Inside => self.inside,
            LookupSide::Outside => self.outside,
        };
        (self.proto, near, self.remote)
    }

    fn port_pool(&self) -> (IpProto, Ipv4Addr, NatEndpoint) {
        (self.proto, self.outside.address, self.remote)
    }
}

impl NatFlowTable {
    pub(crate) fn new(secret: [u64; 2]) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_inside: HashTable::new(),
            by_outside: HashTable::new(),
            used_ports: HashMap::with_hasher(SecretBuildHasher(secret)),
            wheel: Wheel::new(),
            secret: SecretBuildHasher(secret),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_inside.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &NatFlow> {
        self.slots.iter().flatten()
    }

    pub(crate) fn get(&self, id: NatFlowId) -> &NatFlow {
        self.slots[id.0 as usize].as_ref().expect("an id is of a flow that is there")
    }

    /// Finds the flow with this tuple, as seen from the side `from`.
    pub(crate) fn find(&self, from: LookupSide, tuple: FlowTuple) -> Option<NatFlowId> {
        let table = match from {
            LookupSide::Inside => &self.by_inside,
            LookupSide::Outside => &self.by_outside,
        };
        let is_it = |&id: &u32| tuple_of(&self.slots, id, from) == Some(tuple);
        table.find(self.secret.hash_tuple(tuple), is_it).copied().map(NatFlowId)
    }

    /// Adds a flow and returns its id. The table must contain no flow with either of its tuples.
    /// [`Self::touch`] schedules the flow's first check.
    pub(crate) fn insert(&mut self, flow: NatFlow) -> NatFlowId {
        *self.used_ports.entry(flow.port_pool()).or_insert(0) += 1;
        let tuples = [flow.tuple(LookupSide::Inside), flow.tuple(LookupSide::Outside)];
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[id as usize] = Some(flow);
        let (slots, secret) = (&self.slots, self.secret);
        let rehash = |from: LookupSide| {
            move |id: &u32| tuple_of(slots, *id, from).map_or(0, |tuple| secret.hash_tuple(tuple))
        };
        self.by_inside.insert_unique(secret.hash_tuple(tuples[0]), id, rehash(LookupSide::Inside));
        self.by_outside.insert_unique(
            secret.hash_tuple(tuples[1]),
            id,
            rehash(LookupSide::Outside),
        );
        NatFlowId(id)
    }

    /// Updates state and expiry of a flow for one of its packets.
    pub(crate) fn touch(
        &mut self,
        id: NatFlowId,
        (outwards, tcp_flags): (bool, u8),
        life: &NatLifetimes,
        now: u64,
    ) {
        let Some(flow) = &mut self.slots[id.0 as usize] else { return };
        flow.touch(outwards, tcp_flags, life, now);
        if flow.expires_ns < flow.wake_ns {
            flow.wake_ns = flow.expires_ns;
            self.wheel.push(flow.wake_ns, (id.0, flow.wake_ns));
        }
    }

    /// Removes flows that have expired by `now`; returns their number.
    pub(crate) fn expire(&mut self, now: u64) -> u64 {
        let mut ended = 0;
        while let Some((id, wake)) = self.wheel.pop_due(now) {
            let flow = self.slots[id as usize].as_mut().filter(|flow| flow.wake_ns == wake);
            let Some(flow) = flow else { continue };
            if flow.expires_ns <= now {
                self.remove(id);
                ended += 1;
            } else {
                flow.wake_ns = flow.expires_ns;
                self.wheel.push(flow.wake_ns, (id, flow.wake_ns));
            }
        }
        ended
    }

    pub(crate) fn next_wake_ns(&self) -> Option<u64> {
        self.wheel.next_release_ns()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.secret.0);
    }

    /// Returns how many ports of `address` are in use toward the remote end `remote`.
    pub(crate) fn used_ports(&self, proto: IpProto, address: Ipv4Addr, remote: NatEndpoint) -> u32 {
        self.used_ports.get(&(proto, address, remote)).copied().unwrap_or(0)
    }

    fn remove(&mut self, id: u32) {
        let Some(flow) = self.slots[id as usize].take() else { return };
        self.free.push(id);
        for (table, from) in
            [(&mut self.by_inside, LookupSide::Inside), (&mut self.by_outside, LookupSide::Outside)]
        {
            let hash = self.secret.hash_tuple(flow.tuple(from));
            if let Ok(entry) = table.find_entry(hash, |&found| found == id) {
                entry.remove();
            }
        }
        if let hashbrown::hash_map::Entry::Occupied(mut crowd) =
            self.used_ports.entry(flow.port_pool())
        {
            *crowd.get_mut() -= 1;
            if *crowd.get() == 0 {
                crowd.remove();
            }
        }
    }
}

fn tuple_of(slots: &[Option<NatFlow>], id: u32, from: LookupSide) -> Option<FlowTuple> {
    slots[id as usize].as_ref().map(|flow| flow.tuple(from))
}

#[cfg(test)]
mod tests;
