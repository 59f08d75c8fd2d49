//! The contents of routes (specs). Equal contents are stored once, for any number of routes.
//! Contents of routes that the kernel may have removed without a message (purged specs) are stored
//! separately.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_rtnetlink::{RouteHop, RouteKind, RouteMessage};

use crate::adjacencies::AdjacencyKey;
use crate::tables::TargetIndex;

/// The number of a [`RouteSpec`] in [`Specs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SpecId(pub u32);

/// One next hop as a route names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpecHop {
    pub ifindex: u32,
    pub gateway: Option<IpAddr>,
    pub weight: u16,
}

impl From<RouteHop> for SpecHop {
    fn from(hop: RouteHop) -> Self {
        Self { ifindex: hop.ifindex, gateway: hop.gateway, weight: hop.weight }
    }
}

/// The next hops of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SpecHops {
    /// One next hop.
    One(SpecHop),
    /// Several next hops, in the kernel's order.
    Many(Box<[SpecHop]>),
    /// A next-hop object, by its identifier.
    Object(u32),
}

impl SpecHops {
    /// The next hops that the route itself contains; none if it uses a next-hop object.
    pub(crate) fn named(&self) -> &[SpecHop] {
        match self {
            Self::One(hop) => core::slice::from_ref(hop),
            Self::Many(hops) => hops,
            Self::Object(_) => &[],
        }
    }

    /// Creates the variant for these hops, of which there must be at least one.
    pub(crate) fn of(hops: Vec<SpecHop>) -> Self {
        match *hops {
            [only] => Self::One(only),
            _ => Self::Many(hops.into()),
        }
    }
}

/// The content of a route: the properties that determine what happens to its packets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouteSpec {
    pub kind: RouteKind,
    pub hops: SpecHops,
    pub mtu: u32,
    /// The preferred source address of this machine's own packets. If an IPv4 address is deleted,
    /// the kernel removes the routes that prefer it.
    pub source: Option<IpAddr>,
    /// Whether the route has properties that the tables cannot represent.
    pub has_unknown: bool,
}

impl RouteSpec {
    /// The content that leaves packets to the kernel.
    pub(crate) const KERNEL: Self = Self {
        kind: RouteKind::Other(0),
        hops: SpecHops::Object(0),
        mtu: 0,
        source: None,
        has_unknown: true,
    };

    pub(crate) fn of(route: &RouteMessage<'_>) -> Self {
        let hops = match (route.next_hop_id, route.multipath) {
            (Some(id), _) if id != 0 => SpecHops::Object(id),
            (_, Some(_)) => SpecHops::of(route.hops().map(SpecHop::from).collect()),
            _ => SpecHops::One(route.hop.into()),
        };
        // For a route with a next-hop object, unknown properties of hops belong to the object, not
        // to the route. A message does not distinguish the two, so the route is left to the kernel
        // in both cases.
        let (kind, mtu, has_unknown) = (route.kind, route.mtu, route.has_unknown);
        Self { kind, hops, mtu, source: route.preferred_source, has_unknown }
    }

    /// Whether the tables can never represent the route.
    const fn is_kernel(&self) -> bool {
        let by_kind = !matches!(
            self.kind,
            RouteKind::Unicast
                | RouteKind::Blackhole
                | RouteKind::Unreachable
                | RouteKind::Prohibit
        );
        by_kind || self.has_unknown
    }
}

/// A [`RouteSpec`] in use.
#[derive(Debug)]
pub(crate) struct SpecState {
    pub spec: RouteSpec,
    /// Number of routes with this spec, and of records of their deletion.
    uses: u32,
    /// Whether the kernel may have removed the routes of this spec without a message. They are left
    /// to the kernel until a dump shows whether they exist.
    pub is_purged: bool,
    /// Whether no index was free for this spec. Its routes were then written as routes that lead to
    /// the kernel.
    pub is_starved: bool,
    /// The target that lookups return for its routes; [`TargetIndex::KERNEL`] if it has no index of
    /// its own.
    pub target: TargetIndex,
    /// The adjacencies of its target, with weights.
    pub adjacencies: Vec<(AdjacencyKey, u16)>,
    /// The index of the bucket array of its target, if the target has several next hops.
    pub buckets: Option<u16>,
}

impl SpecState {
    /// Whether the spec needs its own target.
    pub(crate) const fn wants_target(&self) -> bool {
        !self.spec.is_kernel()
    }
}

/// Numbers of recently used specs, by a hash of their contents. A number may belong to another spec
/// by now.
#[derive(Debug)]
struct RecentSpecs(Box<[Option<SpecId>; RecentSpecs::LEN]>);

impl RecentSpecs {
    const LEN: usize = 1 << 10;

    /// Returns the index of a spec in the array. It is a hash of the first next hop's interface and
    /// the end of its gateway, or of the next-hop object.
    fn place(spec: &RouteSpec) -> usize {
        let of = |hop: &SpecHop| (hop.ifindex, hop.gateway.map_or(0, end_of));
        let (ifindex, end) = match &spec.hops {
            SpecHops::One(hop) => of(hop),
            SpecHops::Many(hops) => hops.first().map_or((0, 0), of),
            SpecHops::Object(id) => (0, *id),
        };
        // The multiplier is a prime near 2^32 divided by the golden ratio, as in Fibonacci hashing
        // (Knuth, vol. 3, 6.4).
        let hash = (end ^ ifindex << 16).wrapping_mul(0x9e37_79b1);
        (hash >> (u32::BITS - Self::LEN.trailing_zeros())) as usize
    }

    fn at(&self, place: usize) -> Option<SpecId> {
        self.0[place]
    }

    fn put(&mut self, place: usize, id: SpecId) {
        self.0[place] = Some(id);
    }
}

impl Default for RecentSpecs {
    fn default() -> Self {
        Self(Box::new([None; Self::LEN]))
    }
}

/// The last 32 bits of an address.
fn end_of(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => address.to_bits() as u32,
    }
}

/// All [`RouteSpec`]s of all tables.
#[derive(Debug, Default)]
pub(crate) struct Specs {
    states: Vec<Option<SpecState>>,
    ids: BTreeMap<RouteSpec, SpecId>,
    /// One purged spec for each content.
    purged: BTreeMap<RouteSpec, SpecId>,
    free: Vec<SpecId>,
    /// The last acquired specs, by a hash: a dump contains the same few specs again and again.
    recent: RecentSpecs,
    /// Specs that are new, or were purged or have become unused, since the last publication.
    pub changed: Vec<SpecId>,
}

impl Specs {
    /// Returns the number of a spec and adds a use.
    pub(crate) fn acquire(&mut self, spec: RouteSpec) -> SpecId {
        let place = RecentSpecs::place(&spec);
        let recent = self
            .recent
            .at(place)
            .filter(|id| self.get(*id).is_some_and(|it| !it.is_purged && it.spec == spec));
        let id = match recent.or_else(|| self.ids.get(&spec).copied()) {
            Some(id) => id,
            None => {
                let id = self.add(spec.clone(), false);
                self.ids.insert(spec, id);
                id
            }
        };
        self.recent.put(place, id);
        self.retain(id);
        id
    }

    /// Like [`Self::acquire`], for a route that the kernel may have removed without a notification.
    pub(crate) fn acquire_purged(&mut self, spec: RouteSpec) -> SpecId {
        let id = match self.purged.get(&spec) {
            Some(id) => *id,
            None => {
                let id = self.add(spec.clone(), true);
                self.purged.insert(spec, id);
                id
            }
        };
        self.retain(id);
        id
    }

    fn add(&mut self, spec: RouteSpec, is_purged: bool) -> SpecId {
        let state = SpecState {
            spec,
            uses: 0,
            is_purged,
            is_starved: false,
            target: TargetIndex::KERNEL,
            adjacencies: Vec::new(),
            buckets: None,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.states[id.0 as usize] = Some(state);
                id
            }
            None => {
                self.states.push(Some(state));
                SpecId(self.states.len() as u32 - 1)
            }
        };
        self.changed.push(id);
        id
    }

    /// Adds a use.
    pub(crate) fn retain(&mut self, id: SpecId) {
        if let Some(state) = self.get_mut(id) {
            state.uses += 1;
        }
    }

    /// Removes a use. The number stays valid until [`Self::remove_unused`].
    pub(crate) fn release(&mut self, id: SpecId) {
        if let Some(state) = self.get_mut(id) {
            state.uses -= 1;
            if state.uses == 0 {
                self.changed.push(id);
            }
        }
    }

    /// Removes the spec if it has no uses, and returns it.
    pub(crate) fn remove_unused(&mut self, id: SpecId) -> Option<SpecState> {
        let state = self.states.get_mut(id.0 as usize)?.take_if(|state| state.uses == 0)?;
        let ids = if state.is_purged { &mut self.purged } else { &mut self.ids };
        // There may be more than one purged spec with the same content, and `ids` contains only one
        // of them.
        if ids.get(&state.spec) == Some(&id) {
            ids.remove(&state.spec);
        }
        self.free.push(id);
        Some(state)
    }

    pub(crate) fn get(&self, id: SpecId) -> Option<&SpecState> {
        self.states.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: SpecId) -> Option<&mut SpecState> {
        self.states.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = SpecId> + use<> {
        (0..self.states.len() as u32).map(SpecId)
    }

    /// Marks the specs for which `is_gone` returns true as purged, so that their routes are left to
    /// the kernel. Later routes with the same content get another number. Returns the number of
    /// specs marked.
    pub(crate) fn purge(&mut self, is_gone: impl Fn(&RouteSpec) -> bool) -> usize {
        let mut count = 0;
        for (at, state) in self.states.iter_mut().enumerate() {
            let Some(state) = state.as_mut().filter(|it| !it.is_purged && is_gone(&it.spec)) else {
                continue;
            };
            state.is_purged = true;
            self.ids.remove(&state.spec);
            self.purged.entry(state.spec.clone()).or_insert(SpecId(at as u32));
            self.changed.push(SpecId(at as u32));
            count += 1;
        }
        count
    }
}
