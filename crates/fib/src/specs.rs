//! What routes say about their packets, each kept once however many routes say it.

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

/// To where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SpecHops {
    /// One next hop.
    One(SpecHop),
    /// Several, in the kernel's order.
    Many(Box<[SpecHop]>),
    /// A next-hop object.
    Object(u32),
}

impl SpecHops {
    /// The next hops that the route itself names.
    pub(crate) fn named(&self) -> &[SpecHop] {
        match self {
            Self::One(hop) => core::slice::from_ref(hop),
            Self::Many(hops) => hops,
            Self::Object(_) => &[],
        }
    }

    /// Makes it of at least one hop.
    pub(crate) fn of(hops: Vec<SpecHop>) -> Self {
        match *hops {
            [only] => Self::One(only),
            _ => Self::Many(hops.into()),
        }
    }
}

/// What a route says about its packets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouteSpec {
    pub kind: RouteKind,
    pub hops: SpecHops,
    pub mtu: u32,
    /// The source address that this machine's own packets prefer: when it goes, the route does.
    pub source: Option<IpAddr>,
    /// The route has properties that the tables cannot represent.
    pub has_unknown: bool,
}

impl RouteSpec {
    /// Packets that the kernel handles whatever happens.
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
        // The content of an object, not of the route, says what is unknown about its hops. But a
        // message does not tell the two apart, so the route is the kernel's in both cases.
        let (kind, mtu, has_unknown) = (route.kind, route.mtu, route.has_unknown);
        Self { kind, hops, mtu, source: route.preferred_source, has_unknown }
    }

    /// Whether no event can make the tables represent the route.
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
    /// The routes that say it, and the notes of their deletion.
    uses: u32,
    /// The kernel has removed its routes without a message, so they are the kernel's until a dump
    /// shows what has become of them.
    pub is_purged: bool,
    /// It has found no index, so that its routes were written as the kernel's.
    pub is_starved: bool,
    /// What lookups return for its routes: [`TargetIndex::KERNEL`] if it has no index of its own.
    pub target: TargetIndex,
    /// The adjacencies of its target, with weights.
    pub adjacencies: Vec<(AdjacencyKey, u16)>,
    /// The buckets of its target.
    pub buckets: Option<u16>,
}

impl SpecState {
    /// Whether it is to have a target of its own.
    pub(crate) const fn wants_target(&self) -> bool {
        !self.spec.is_kernel()
    }
}

/// Numbers of specs by a hash of what they say. A number may have another meaning by now.
#[derive(Debug)]
struct RecentSpecs(Box<[Option<SpecId>; RecentSpecs::LEN]>);

impl RecentSpecs {
    const LEN: usize = 1 << 10;

    /// Where a spec is, if it is there: by its interface and the end of its gateway, or its object.
    fn place(spec: &RouteSpec) -> usize {
        let of = |hop: &SpecHop| (hop.ifindex, hop.gateway.map_or(0, end_of));
        let (ifindex, end) = match &spec.hops {
            SpecHops::One(hop) => of(hop),
            SpecHops::Many(hops) => hops.first().map_or((0, 0), of),
            SpecHops::Object(id) => (0, *id),
        };
        // 2^32 divided by the golden ratio, as in Fibonacci hashing (Knuth, vol. 3, 6.4).
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
    /// Those that are purged.
    purged: BTreeMap<RouteSpec, SpecId>,
    free: Vec<SpecId>,
    /// Specs that were acquired last, by a hash: a dump names few of them, again and again.
    recent: RecentSpecs,
    /// Without uses or new since the last publication.
    pub changed: Vec<SpecId>,
}

impl Specs {
    /// Returns the number of what a route says, with one use more.
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

    /// As [`Self::acquire`], for a route that may have been removed silently since it was told.
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

    /// Removes the spec if nothing uses it, and returns it.
    pub(crate) fn remove_unused(&mut self, id: SpecId) -> Option<SpecState> {
        let state = self.states.get_mut(id.0 as usize)?.take_if(|state| state.uses == 0)?;
        let ids = if state.is_purged { &mut self.purged } else { &mut self.ids };
        // There may be more than one purged spec with the same content.
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

    /// Leaves the routes of the specs that `is_gone` names to the kernel. Later routes that say the
    /// same get another number. Returns how many specs it names.
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
