//! All flows of an instance, found from either side, forgotten in time.

use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::Ipv4Addr;

use hashbrown::{HashMap, HashTable};
use siphasher::sip::SipHasher13;
use slipring_model::Wheel;
use slipring_wire::assigned::IpProto;

use crate::flow::{End, Flow, Lifetimes};

/// The side from which a flow is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Inside,
    Outside,
}

/// Protocol, our end as seen from there, far end.
pub(crate) type Tuple = (IpProto, End, End);

/// Place of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowId(u32);

/// Hashes by a secret: who does not know it cannot prepare flows that collide.
#[derive(Clone, Copy, Debug)]
struct Secret([u64; 2]);

impl BuildHasher for Secret {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

impl Secret {
    fn of(self, (proto, near, far): Tuple) -> u64 {
        let mut bytes = [0; 13];
        bytes[0] = proto.0;
        bytes[1..5].copy_from_slice(&near.address.octets());
        bytes[5..7].copy_from_slice(&near.port.to_be_bytes());
        bytes[7..11].copy_from_slice(&far.address.octets());
        bytes[11..].copy_from_slice(&far.port.to_be_bytes());
        self.build_hasher().hash(&bytes)
    }
}

/// When a flow is to be looked at: place, generation, time.
type Wake = (u32, u32, u64);

#[derive(Clone, Debug, Default)]
struct Slot {
    generation: u32,
    flow: Option<Flow>,
}

#[derive(Clone, Debug)]
pub(crate) struct Flows {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_inside: HashTable<u32>,
    by_outside: HashTable<u32>,
    /// How many flows an address has toward a remote end: so many ports are taken.
    crowds: HashMap<(IpProto, Ipv4Addr, End), u32, Secret>,
    wheel: Wheel<Wake>,
    secret: Secret,
}

impl Flow {
    fn tuple(&self, from: From) -> Tuple {
        let near = match from {
            From::Inside => self.inside,
            From::Outside => self.outside,
        };
        (self.proto, near, self.remote)
    }

    fn crowd(&self) -> (IpProto, Ipv4Addr, End) {
        (self.proto, self.outside.address, self.remote)
    }
}

impl Flows {
    pub(crate) fn new(secret: [u64; 2]) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_inside: HashTable::new(),
            by_outside: HashTable::new(),
            crowds: HashMap::with_hasher(Secret(secret)),
            wheel: Wheel::new(),
            secret: Secret(secret),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_inside.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.slots.iter().filter_map(|slot| slot.flow.as_ref())
    }

    pub(crate) fn get(&self, id: FlowId) -> &Flow {
        self.slots[id.0 as usize].flow.as_ref().expect("an id is of a flow that is there")
    }

    /// The flow of a tuple.
    pub(crate) fn find(&self, from: From, tuple: Tuple) -> Option<FlowId> {
        let table = match from {
            From::Inside => &self.by_inside,
            From::Outside => &self.by_outside,
        };
        let is_it = |&id: &u32| tuple_of(&self.slots, id, from) == Some(tuple);
        table.find(self.secret.of(tuple), is_it).copied().map(FlowId)
    }

    /// Adds a flow of which neither tuple is taken, and which [`Self::touch`] will wake.
    pub(crate) fn insert(&mut self, flow: Flow) -> FlowId {
        *self.crowds.entry(flow.crowd()).or_insert(0) += 1;
        let tuples = [flow.tuple(From::Inside), flow.tuple(From::Outside)];
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        self.slots[id as usize].flow = Some(flow);
        let (slots, secret) = (&self.slots, self.secret);
        let rehash = |from: From| {
            move |id: &u32| tuple_of(slots, *id, from).map_or(0, |tuple| secret.of(tuple))
        };
        self.by_inside.insert_unique(secret.of(tuples[0]), id, rehash(From::Inside));
        self.by_outside.insert_unique(secret.of(tuples[1]), id, rehash(From::Outside));
        FlowId(id)
    }

    /// A packet of the flow came.
    pub(crate) fn touch(
        &mut self,
        id: FlowId,
        (outwards, tcp_flags): (bool, u8),
        life: &Lifetimes,
        now: u64,
    ) {
        let slot = &mut self.slots[id.0 as usize];
        let Some(flow) = &mut slot.flow else { return };
        flow.touch(outwards, tcp_flags, life, now);
        if flow.expires_ns < flow.wake_ns {
            flow.wake_ns = flow.expires_ns;
            self.wheel.push(flow.wake_ns, (id.0, slot.generation, flow.wake_ns));
        }
    }

    /// Forgets flows that have ended; how many.
    pub(crate) fn expire(&mut self, now: u64) -> u64 {
        let mut ended = 0;
        while let Some((id, generation, wake)) = self.wheel.pop_due(now) {
            let slot = &mut self.slots[id as usize];
            let current = slot.generation == generation;
            let Some(flow) = slot.flow.as_mut().filter(|flow| current && flow.wake_ns == wake)
            else {
                continue;
            };
            if flow.expires_ns <= now {
                self.remove(id);
                ended += 1;
            } else {
                flow.wake_ns = flow.expires_ns;
                self.wheel.push(flow.wake_ns, (id, generation, flow.wake_ns));
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

    /// How many ports `address` uses toward a remote end.
    pub(crate) fn crowd(&self, proto: IpProto, address: Ipv4Addr, remote: End) -> u32 {
        self.crowds.get(&(proto, address, remote)).copied().unwrap_or(0)
    }

    fn remove(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let Some(flow) = slot.flow.take() else { return };
        self.free.push(id);
        for (table, from) in
            [(&mut self.by_inside, From::Inside), (&mut self.by_outside, From::Outside)]
        {
            let hash = self.secret.of(flow.tuple(from));
            if let Ok(entry) = table.find_entry(hash, |&found| found == id) {
                entry.remove();
            }
        }
        if let hashbrown::hash_map::Entry::Occupied(mut crowd) = self.crowds.entry(flow.crowd()) {
            *crowd.get_mut() -= 1;
            if *crowd.get() == 0 {
                crowd.remove();
            }
        }
    }
}

fn tuple_of(slots: &[Slot], id: u32, from: From) -> Option<Tuple> {
    slots[id as usize].flow.as_ref().map(|flow| flow.tuple(from))
}
