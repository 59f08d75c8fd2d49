//! One instance of `nat`: it translates packets and counts them.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use slipring_model::Stream;
use slipring_wire::assigned::IpProto;

use crate::config::{NatConfig, NatMode, OutsideAddress};
use crate::flow::{NatEndpoint, NatFlow, NatLifetimes};
use crate::flows::{FlowTuple, LookupSide, NatFlowId, NatFlowTable};
use crate::fragments::NatFragments;
use crate::icmp;
use crate::outcome::{NatCounters, NatDropReason, NatOutcome};
use crate::packet::{self, FragmentPart, Ipv4View, L4Content, SrcOrDst};
use crate::redirect;
use crate::rewrite;

/// Maximum number of ports that are tried for a flow when it is not certain that any port toward
/// its remote end is free.
const MAX_PORT_TRIES: u32 = 64;

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatDirection {
    /// The packet goes from inside to outside: its source is the inside host.
    Out,
    /// The packet comes from outside to inside: its destination is the inside host.
    In,
}

/// The operations that are allowed on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatScope {
    /// Full translation: packets may create flows.
    All,
    /// `nat global`: only existing flows and redirections apply; other packets pass unchanged.
    Known,
}

/// An instance of `nat`, with its configuration, flows and counters.
///
/// ```
/// use slipring_nat::{NatOutcome, OutsideAddress, NatScope, NatConfig, Translator, NatDirection};
/// use slipring_wire::FrameSpec;
///
/// let outside = OutsideAddress::Address([203, 0, 113, 9].into());
/// let mut nat = Translator::new(NatConfig { outside, ..NatConfig::default() }, 7);
/// let mut frame = FrameSpec::default().build(60)?.bytes;
/// let outcome = nat.translate(&mut frame[14..], NatDirection::Out, NatScope::All, 0);
/// assert_eq!(outcome, NatOutcome::Translated);
/// assert_eq!(frame[26..30], [203, 0, 113, 9]);
/// # Ok::<(), slipring_wire::frame::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Translator {
    config: NatConfig,
    /// The address set by [`Translator::set_address`], for [`OutsideAddress::Interface`] and
    /// [`OutsideAddress::None`].
    assigned_address: Option<Ipv4Addr>,
    /// For each redirection, the number of connections that have used it.
    redirect_uses: Vec<usize>,
    flows: NatFlowTable,
    fragments: NatFragments,
    rng: Stream,
    counters: NatCounters,
    /// Lifetimes of flows after their last packet.
    pub lifetimes: NatLifetimes,
    /// Maximum number of concurrent flows.
    pub max_flows: usize,
}

/// A packet's header, its direction, the end of the inside host (`near`) and the remote end
/// (`far`).
#[derive(Clone, Copy)]
struct PacketContext {
    view: Ipv4View,
    direction: NatDirection,
    near: NatEndpoint,
    far: NatEndpoint,
}

impl PacketContext {
    const fn tuple(&self) -> FlowTuple {
        (self.view.proto, self.near, self.far)
    }
}

impl NatDirection {
    /// Returns which end of a packet in this direction is the inside host: `Src` if it is the
    /// sender, otherwise `Dst`.
    const fn side(self) -> SrcOrDst {
        match self {
            Self::Out => SrcOrDst::Src,
            Self::In => SrcOrDst::Dst,
        }
    }

    const fn from(self) -> LookupSide {
        match self {
            Self::Out => LookupSide::Inside,
            Self::In => LookupSide::Outside,
        }
    }

    const fn reversed(self) -> Self {
        match self {
            Self::Out => Self::In,
            Self::In => Self::Out,
        }
    }
}

impl Translator {
    /// Creates an instance without flows. `secret` determines the ports that flows get, and the
    /// keys of the hashes.
    #[must_use]
    pub fn new(config: NatConfig, secret: u64) -> Self {
        let mut rng = Stream::new(secret, "nat/ports");
        let keys = [rng.next_u64(), rng.next_u64()];
        Self {
            redirect_uses: alloc::vec![0; config.redirects.len()],
            config,
            assigned_address: None,
            flows: NatFlowTable::new(keys),
            fragments: NatFragments::default(),
            rng,
            counters: NatCounters::default(),
            lifetimes: NatLifetimes::default(),
            max_flows: 1 << 20,
        }
    }

    /// Returns the configuration, as last set by `new` or `configure`.
    #[must_use]
    pub const fn config(&self) -> &NatConfig {
        &self.config
    }

    /// Replaces the configuration. Flows continue. With `reset`, they end if the address changes.
    pub fn configure(&mut self, settings: NatConfig) {
        let before = self.address();
        self.redirect_uses = alloc::vec![0; settings.redirects.len()];
        self.config = settings;
        self.address_changed(before);
    }

    /// Sets or clears the outside address, unless the configuration has a fixed address.
    pub fn set_address(&mut self, address: Option<Ipv4Addr>) {
        let before = self.address();
        self.assigned_address = address;
        self.address_changed(before);
    }

    fn address_changed(&mut self, before: Option<Ipv4Addr>) {
        if self.config.modes.has(NatMode::Reset) && before != self.address() {
            self.counters.ended += self.flows.len() as u64;
            self.flows.clear();
        }
    }

    /// Returns the outside address; `None` if the instance has none yet.
    #[must_use]
    pub const fn address(&self) -> Option<Ipv4Addr> {
        match self.config.outside {
            OutsideAddress::Address(address) => Some(address),
            OutsideAddress::Interface(_) | OutsideAddress::None => self.assigned_address,
        }
    }

    /// Returns the counters of all packets since the instance was created.
    #[must_use]
    pub const fn counters(&self) -> &NatCounters {
        &self.counters
    }

    /// The flows, in no particular order.
    pub fn flows(&self) -> impl Iterator<Item = &NatFlow> {
        self.flows.iter()
    }

    /// The number of fragmented packets whose address is remembered for later fragments.
    #[must_use]
    pub fn fragments(&self) -> usize {
        self.fragments.len()
    }

    /// Removes flows and fragments that have expired by `now_ns`.
    pub fn tick(&mut self, now_ns: u64) {
        self.counters.ended += self.flows.expire(now_ns);
        self.fragments.expire(now_ns);
    }

    /// Returns the time in ns at which [`Self::tick`] must be called next; `None` if there is no
    /// flow. Fragments need no call, because [`Self::translate`] removes those that have expired.
    #[must_use]
    pub fn next_tick_ns(&self) -> Option<u64> {
        self.flows.next_wake_ns()
    }

    /// Translates an IPv4 packet that starts with its header, and returns what happened to it.
    pub fn translate(
        &mut self,
        packet: &mut [u8],
        direction: NatDirection,
        scope: NatScope,
        now_ns: u64,
    ) -> NatOutcome {
        // Expired flows and fragments are removed first, so that all those found below are valid.
        self.tick(now_ns);
        let direction =
            if self.config.modes.has(NatMode::Reverse) { direction.reversed() } else { direction };
        let outcome = if self.config.modes.has(NatMode::ProxyOnly) {
            NatOutcome::Untouched
        } else {
            self.translate_read(packet, direction, scope, now_ns)
                .unwrap_or_else(NatOutcome::Dropped)
        };
        self.counters.count(direction, outcome);
        outcome
    }

    fn translate_read(
        &mut self,
        packet: &mut [u8],
        direction: NatDirection,
        scope: NatScope,
        now: u64,
    ) -> Result<NatOutcome, NatDropReason> {
        let view = Ipv4View::read(packet).ok_or(NatDropReason::Malformed)?;
        if view.part == FragmentPart::Later {
            return self.later_fragment(packet, &view, direction, scope);
        }
        let load = view.load(packet).ok_or(NatDropReason::Malformed)?;
        match load {
            L4Content::Error(at) => self.error(packet, &view, (direction, scope), at),
            L4Content::Message => self.message(direction, scope),
            L4Content::Ports(..) | L4Content::Query(_) | L4Content::Bare => {
                let [near, far] = view.ends(load, direction.side());
                self.packet(packet, &PacketContext { view, direction, near, far }, scope, now)
            }
        }
    }

    /// Passes an ICMP message that is neither a query nor an error, such as a redirect or a message
    /// of router discovery. Such a message concerns only its receiver and the receiver's link, so
    /// its addresses need no translation. With `deny_in`, incoming ones are dropped, since no
    /// inside host has requested them.
    fn message(
        &self,
        direction: NatDirection,
        scope: NatScope,
    ) -> Result<NatOutcome, NatDropReason> {
        let denies = self.config.modes.has(NatMode::DenyIn) && scope == NatScope::All;
        if denies && direction == NatDirection::In {
            return Err(NatDropReason::Refused);
        }
        Ok(NatOutcome::Untouched)
    }

    fn packet(
        &mut self,
        packet: &mut [u8],
        seen: &PacketContext,
        scope: NatScope,
        now: u64,
    ) -> Result<NatOutcome, NatDropReason> {
        let PacketContext { view, direction, .. } = seen;
        let flow = match self.flows.find(direction.from(), seen.tuple()) {
            Some(flow) => flow,
            None => match self.new_ends(seen, scope)? {
                Some(ends) => self.make(view.proto, ends)?,
                None => return Ok(NatOutcome::Untouched),
            },
        };
        let state = (*direction == NatDirection::Out, view.tcp_flags(packet));
        self.flows.touch(flow, state, &self.lifetimes, now);
        let end = self.other_end(flow, *direction);
        if end != seen.near {
            rewrite::set_end(packet, view, direction.side(), end);
        }
        if view.part == FragmentPart::First {
            let until = now.saturating_add(u64::from(self.lifetimes.fragments) * 1_000_000_000);
            self.fragments.remember(view, *direction == NatDirection::Out, end.address, until);
        }
        Ok(if end == seen.near { NatOutcome::Unmodified } else { NatOutcome::Translated })
    }

    /// Returns the end that replaces the inside host's end in a packet of this direction.
    fn other_end(&self, flow: NatFlowId, direction: NatDirection) -> NatEndpoint {
        let flow = self.flows.get(flow);
        match direction {
            NatDirection::Out => flow.outside,
            NatDirection::In => flow.inside,
        }
    }

    /// Returns the inside, outside and remote end of a new flow, for a packet that belongs to no
    /// flow; `None` if the packet must pass unchanged.
    fn new_ends(
        &mut self,
        seen: &PacketContext,
        scope: NatScope,
    ) -> Result<Option<[NatEndpoint; 3]>, NatDropReason> {
        match seen.direction {
            NatDirection::Out => {
                let outside = self.outside_of(seen, scope)?;
                Ok(outside.map(|outside| [seen.near, outside, seen.far]))
            }
            NatDirection::In => {
                let inside = self.inside_of(seen, scope)?;
                Ok(inside.map(|inside| [inside, seen.near, seen.far]))
            }
        }
    }

    /// Returns the inside end of an incoming packet's new flow; `None` if it passes unchanged.
    fn inside_of(
        &mut self,
        seen: &PacketContext,
        scope: NatScope,
    ) -> Result<Option<NatEndpoint>, NatDropReason> {
        let own = self.address();
        // Without an address, as long as none is set, packets for any address are accepted.
        let takes_any = self.config.outside == OutsideAddress::None;
        let own = own.or_else(|| takes_any.then_some(seen.near.address));
        let find = |addresses| {
            let redirects = &self.config.redirects;
            redirect::inwards(redirects, &self.redirect_uses, seen.tuple(), own, addresses)
        };
        let denies = self.config.modes.has(NatMode::DenyIn);
        let found = find(false).or_else(|| find(true).filter(|_| !denies));
        if let Some(found) = found {
            self.redirect_uses[found.index] = self.redirect_uses[found.index].wrapping_add(1);
            return Ok(Some(found.end));
        }
        match scope {
            NatScope::Known => Ok(None),
            NatScope::All if denies => Err(NatDropReason::Refused),
            NatScope::All => Ok(Some(seen.near)),
        }
    }

    /// Returns the outside end of an outgoing packet's new flow; `None` if it passes unchanged.
    fn outside_of(
        &mut self,
        seen: &PacketContext,
        scope: NatScope,
    ) -> Result<Option<NatEndpoint>, NatDropReason> {
        let own = self.address();
        let find =
            |addresses| redirect::outwards(&self.config.redirects, seen.tuple(), own, addresses);
        if let Some(found) = find(false) {
            return Ok(Some(found.end));
        }
        if let Some(found) = find(true) {
            return self.port(seen, found.end.address, true).map(Some);
        }
        if scope == NatScope::Known {
            return Ok(None);
        }
        if !self.config.translates_source(seen.near.address) {
            return Ok(Some(seen.near));
        }
        let own = own.ok_or(NatDropReason::NoAddress)?;
        let keeps = self.config.modes.has(NatMode::SamePorts);
        self.port(seen, own, keeps).map(Some)
    }

    /// Finds a free port of `address` for a flow. If `keeps` is set, prefers the port that the
    /// inside host uses. If the port of the protocol cannot be changed, tries only that port.
    fn port(
        &mut self,
        seen: &PacketContext,
        address: Ipv4Addr,
        keeps: bool,
    ) -> Result<NatEndpoint, NatDropReason> {
        let (proto, near, far) = seen.tuple();
        let own = NatEndpoint { address, ..near };
        let has_port = packet::can_change_port(proto);
        if keeps || !has_port {
            if self.flows.find(LookupSide::Outside, (proto, own, far)).is_none() {
                return Ok(own);
            }
            self.counters.port_taken += 1;
        }
        if !has_port {
            return Err(NatDropReason::Collision);
        }
        let (first, count) = self.config.port_range();
        // If fewer than `count` ports are in use, a free port exists, so all ports are tried.
        let has_room = self.flows.used_ports(proto, address, far) < count;
        let tries = if has_room { count } else { MAX_PORT_TRIES } as usize;
        let start = (self.rng.next_u64() % u64::from(count)) as u32;
        (start..count)
            .chain(0..start)
            .take(tries)
            .map(|offset| NatEndpoint { address, port: first + offset as u16 })
            .find(|&end| self.flows.find(LookupSide::Outside, (proto, end, far)).is_none())
            .ok_or(NatDropReason::Exhausted)
    }

    fn make(&mut self, proto: IpProto, ends: [NatEndpoint; 3]) -> Result<NatFlowId, NatDropReason> {
        let [inside, outside, remote] = ends;
        let taken = self.flows.find(LookupSide::Inside, (proto, inside, remote)).is_some()
            || self.flows.find(LookupSide::Outside, (proto, outside, remote)).is_some();
        if taken {
            return Err(NatDropReason::Collision);
        }
        if self.flows.len() >= self.max_flows {
            return Err(NatDropReason::Full);
        }
        self.counters.created += 1;
        Ok(self.flows.insert(NatFlow::new(proto, ends)))
    }

    /// Translates a later fragment, which has no ports, in the same way as its first fragment.
    fn later_fragment(
        &mut self,
        packet: &mut [u8],
        view: &Ipv4View,
        direction: NatDirection,
        scope: NatScope,
    ) -> Result<NatOutcome, NatDropReason> {
        let found = self.fragments.find(view, direction == NatDirection::Out);
        let address = match (found, direction) {
            (Some(address), _) => address,
            (None, _) if scope == NatScope::Known => return Ok(NatOutcome::Untouched),
            (None, NatDirection::In) => return Err(NatDropReason::UnknownFragment),
            // If a later fragment goes out before the first one, it gets the address that the first
            // one will get if no redirection of a port or protocol applies to it.
            (None, NatDirection::Out) => self.usual_address(view)?,
        };
        if address == near(view, direction) {
            return Ok(NatOutcome::Unmodified);
        }
        rewrite::set_end(packet, view, direction.side(), NatEndpoint::new(address, 0));
        Ok(NatOutcome::Translated)
    }

    /// Returns the address that replaces the source of outgoing packets to which no redirection of
    /// a port or protocol applies.
    fn usual_address(&self, view: &Ipv4View) -> Result<Ipv4Addr, NatDropReason> {
        let (near, far) = (NatEndpoint::new(view.src, 0), NatEndpoint::new(view.dst, 0));
        let (redirects, own) = (&self.config.redirects, self.address());
        match redirect::outwards(redirects, (view.proto, near, far), own, true) {
            Some(found) => Ok(found.end.address),
            None if !self.config.translates_source(view.src) => Ok(view.src),
            None => own.ok_or(NatDropReason::NoAddress),
        }
    }

    /// Translates an ICMP error about a packet of a flow. The quoted packet went in the opposite
    /// direction, so its source is on the side of the error's destination.
    fn error(
        &mut self,
        packet: &mut [u8],
        view: &Ipv4View,
        (direction, scope): (NatDirection, NatScope),
        at: usize,
    ) -> Result<NatOutcome, NatDropReason> {
        let quoted_side = direction.reversed().side();
        let flow = icmp::parse_quoted(packet, at).and_then(|quoted| {
            let [near, far] = quoted.view.ends(quoted.load, quoted_side);
            let flow = self.flows.find(direction.from(), (quoted.view.proto, near, far))?;
            Some((quoted, (flow, near)))
        });
        let denies = self.config.modes.has(NatMode::DenyIn) && scope == NatScope::All;
        let Some((quoted, flow)) = flow else {
            let refused = direction == NatDirection::In && denies;
            return if refused { Err(NatDropReason::Refused) } else { Ok(NatOutcome::Untouched) };
        };
        let (flow, quoted_near) = flow;
        let end = self.other_end(flow, direction);
        if end == quoted_near && end.address == near(view, direction) {
            return Ok(NatOutcome::Unmodified);
        }
        quoted.set_end(packet, view, quoted_side, end);
        rewrite::set_end(
            packet,
            view,
            direction.side(),
            NatEndpoint::new(end.address, echo_id(packet, view)),
        );
        Ok(NatOutcome::Translated)
    }
}

/// Returns the address of the inside host's end in a packet of this direction.
const fn near(view: &Ipv4View, direction: NatDirection) -> Ipv4Addr {
    match direction {
        NatDirection::Out => view.src,
        NatDirection::In => view.dst,
    }
}

/// Returns the bytes of an ICMP message where a query has its identifier.
fn echo_id(packet: &[u8], view: &Ipv4View) -> u16 {
    rewrite::be16(packet, view.l4 + 4).unwrap_or(0)
}
