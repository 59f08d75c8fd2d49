//! One instance: packets through it, and what it counts.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use slipring_model::Stream;
use slipring_wire::assigned::IpProto;

use crate::flow::{End, Flow, Lifetimes};
use crate::flows::{FlowId, Flows, From, Tuple};
use crate::fragments::Fragments;
use crate::icmp;
use crate::outcome::{Counters, Dropped, Outcome};
use crate::packet::{self, Load, Part, Side, View};
use crate::redirect;
use crate::rewrite;
use crate::settings::{Mode, Outside, Settings};

/// Most tries for a free port where so many are taken that perhaps none is.
const LAST_TRIES: u32 = 64;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From inside to the world: the source is ours.
    Out,
    /// From the world to inside: the destination is ours.
    In,
}

/// What may be done for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// What flows and redirections say: no new flow goes out, and what is not known is left
    /// alone (`nat global`).
    Known,
}

/// An instance of `nat`.
///
/// ```
/// use slipring_nat::{Outcome, Outside, Scope, Settings, Translator, Way};
/// use slipring_wire::FrameSpec;
///
/// let outside = Outside::Address([203, 0, 113, 9].into());
/// let mut nat = Translator::new(Settings { outside, ..Settings::default() }, 7);
/// let mut frame = FrameSpec::default().build(60)?.bytes;
/// assert_eq!(nat.translate(&mut frame[14..], Way::Out, Scope::All, 0), Outcome::Translated);
/// assert_eq!(frame[26..30], [203, 0, 113, 9]);
/// # Ok::<(), slipring_wire::frame::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Translator {
    settings: Settings,
    /// Of [`Outside::Interface`] and [`Outside::None`].
    learned: Option<Ipv4Addr>,
    /// How often each redirection has been taken.
    turns: Vec<usize>,
    flows: Flows,
    fragments: Fragments,
    draws: Stream,
    counters: Counters,
    /// How long flows are remembered.
    pub lifetimes: Lifetimes,
    /// Most flows at once.
    pub max_flows: usize,
}

/// What is known of a packet under way: its header, ours and the far end.
#[derive(Clone, Copy)]
struct Seen {
    view: View,
    way: Way,
    near: End,
    far: End,
}

impl Seen {
    const fn tuple(&self) -> Tuple {
        (self.view.proto, self.near, self.far)
    }
}

impl Way {
    /// The side of a packet on which our end stands.
    const fn side(self) -> Side {
        match self {
            Self::Out => Side::Src,
            Self::In => Side::Dst,
        }
    }

    const fn from(self) -> From {
        match self {
            Self::Out => From::Inside,
            Self::In => From::Outside,
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
    /// An instance without flows. All random decisions follow from `seed`.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        let mut draws = Stream::new(seed, "nat/ports");
        let secret = [draws.next_u64(), draws.next_u64()];
        Self {
            turns: alloc::vec![0; settings.redirects.len()],
            settings,
            learned: None,
            flows: Flows::new(secret),
            fragments: Fragments::default(),
            draws,
            counters: Counters::default(),
            lifetimes: Lifetimes::default(),
            max_flows: 1 << 20,
        }
    }

    /// What it is told to do.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Tells it to do something else. Flows go on; with `reset` they end if the address changes.
    pub fn configure(&mut self, settings: Settings) {
        let before = self.address();
        self.turns = alloc::vec![0; settings.redirects.len()];
        self.settings = settings;
        self.moved_from(before);
    }

    /// Tells the address of its interface, or the one it has where none is said; or that there is
    /// none.
    pub fn set_address(&mut self, address: Option<Ipv4Addr>) {
        let before = self.address();
        self.learned = address;
        self.moved_from(before);
    }

    fn moved_from(&mut self, before: Option<Ipv4Addr>) {
        if self.settings.modes.has(Mode::Reset) && before != self.address() {
            self.counters.ended += self.flows.len() as u64;
            self.flows.clear();
        }
    }

    /// Its address outside, if it has one.
    #[must_use]
    pub const fn address(&self) -> Option<Ipv4Addr> {
        match self.settings.outside {
            Outside::Address(address) => Some(address),
            Outside::Interface(_) | Outside::None => self.learned,
        }
    }

    /// What it has done.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Its flows.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter()
    }

    /// Packets in pieces that it remembers.
    #[must_use]
    pub fn fragments(&self) -> usize {
        self.fragments.len()
    }

    /// Forgets what is over.
    pub fn tick(&mut self, now_ns: u64) {
        self.counters.ended += self.flows.expire(now_ns);
        self.fragments.expire(now_ns);
    }

    /// When [`Self::tick`] has something to do next.
    #[must_use]
    pub fn next_tick_ns(&self) -> Option<u64> {
        self.flows.next_wake_ns()
    }

    /// Translates an IPv4 packet, from its header on.
    pub fn translate(&mut self, packet: &mut [u8], way: Way, scope: Scope, now_ns: u64) -> Outcome {
        // From here on all flows that are found are alive.
        self.tick(now_ns);
        let way = if self.settings.modes.has(Mode::Reverse) { way.reversed() } else { way };
        let outcome = if self.settings.modes.has(Mode::ProxyOnly) {
            Outcome::Untouched
        } else {
            self.whichever(packet, way, scope, now_ns).unwrap_or_else(Outcome::Dropped)
        };
        self.counters.count(way, outcome);
        outcome
    }

    fn whichever(
        &mut self,
        packet: &mut [u8],
        way: Way,
        scope: Scope,
        now: u64,
    ) -> Result<Outcome, Dropped> {
        let view = View::read(packet).ok_or(Dropped::Malformed)?;
        if view.part == Part::Later {
            return self.later_fragment(packet, &view, way, scope, now);
        }
        let load = view.load(packet).ok_or(Dropped::Malformed)?;
        match load {
            Load::Error(at) => self.error(packet, &view, (way, scope), at),
            Load::Message => Ok(Outcome::Untouched),
            Load::Ports(..) | Load::Query(_) | Load::Bare => {
                let [near, far] = view.ends(load, way.side());
                self.packet(packet, &Seen { view, way, near, far }, scope, now)
            }
        }
    }

    fn packet(
        &mut self,
        packet: &mut [u8],
        seen: &Seen,
        scope: Scope,
        now: u64,
    ) -> Result<Outcome, Dropped> {
        let Seen { view, way, .. } = seen;
        let flow = match self.flows.find(way.from(), seen.tuple()) {
            Some(flow) => flow,
            None => match self.new_ends(seen, scope)? {
                Some(ends) => self.make(view.proto, ends)?,
                None => return Ok(Outcome::Untouched),
            },
        };
        let said = (*way == Way::Out, view.tcp_flags(packet));
        self.flows.touch(flow, said, &self.lifetimes, now);
        let end = self.other_end(flow, *way);
        if end != seen.near {
            rewrite::set_end(packet, view, way.side(), end);
        }
        if view.part == Part::First {
            let until = now.saturating_add(u64::from(self.lifetimes.fragments) * 1_000_000_000);
            self.fragments.remember(view, *way == Way::Out, end.address, until);
        }
        Ok(if end == seen.near { Outcome::Kept } else { Outcome::Translated })
    }

    /// What our end becomes.
    fn other_end(&self, flow: FlowId, way: Way) -> End {
        let flow = self.flows.get(flow);
        match way {
            Way::Out => flow.outside,
            Way::In => flow.inside,
        }
    }

    /// The ends of a flow for a packet that belongs to none: inside, outside, remote. `None` is
    /// for a packet that is left alone.
    fn new_ends(&mut self, seen: &Seen, scope: Scope) -> Result<Option<[End; 3]>, Dropped> {
        match seen.way {
            Way::Out => {
                let outside = self.outside_of(seen, scope)?;
                Ok(outside.map(|outside| [seen.near, outside, seen.far]))
            }
            Way::In => {
                let inside = self.inside_of(seen, scope)?;
                Ok(inside.map(|inside| [inside, seen.near, seen.far]))
            }
        }
    }

    /// Where a new flow that comes in goes.
    fn inside_of(&mut self, seen: &Seen, scope: Scope) -> Result<Option<End>, Dropped> {
        let own = self.address();
        // Without an address of its own, it is that of the packet.
        let takes_any = self.settings.outside == Outside::None;
        let own = own.or_else(|| takes_any.then_some(seen.near.address));
        let find = |addresses| {
            let redirects = &self.settings.redirects;
            redirect::inwards(redirects, &self.turns, seen.tuple(), own, addresses)
        };
        let denies = self.settings.modes.has(Mode::DenyIn);
        let found = find(false).or_else(|| find(true).filter(|_| !denies));
        if let Some(found) = found {
            self.turns[found.place] = self.turns[found.place].wrapping_add(1);
            return Ok(Some(found.end));
        }
        match scope {
            Scope::Known => Ok(None),
            Scope::All if denies => Err(Dropped::Refused),
            Scope::All => Ok(Some(seen.near)),
        }
    }

    /// What a new flow that goes out has outside.
    fn outside_of(&mut self, seen: &Seen, scope: Scope) -> Result<Option<End>, Dropped> {
        let own = self.address();
        let find =
            |addresses| redirect::outwards(&self.settings.redirects, seen.tuple(), own, addresses);
        if let Some(found) = find(false) {
            return Ok(Some(found.end));
        }
        if let Some(found) = find(true) {
            return self.port(seen, found.end.address, true).map(Some);
        }
        if scope == Scope::Known {
            return Ok(None);
        }
        if !self.settings.takes(seen.near.address) {
            return Ok(Some(seen.near));
        }
        let own = own.ok_or(Dropped::NoAddress)?;
        let keeps = self.settings.modes.has(Mode::SamePorts);
        self.port(seen, own, keeps).map(Some)
    }

    /// A free port of `address`; the flow's own if it `keeps` that and it is free.
    fn port(&mut self, seen: &Seen, address: Ipv4Addr, keeps: bool) -> Result<End, Dropped> {
        let (proto, near, far) = seen.tuple();
        let own = End { address, ..near };
        let has_port = packet::can_change_port(proto);
        if keeps || !has_port {
            if self.flows.find(From::Outside, (proto, own, far)).is_none() {
                return Ok(own);
            }
            self.counters.port_taken += 1;
        }
        if !has_port {
            return Err(Dropped::Collision);
        }
        let (first, count) = self.settings.port_range();
        // A range that has room is searched wholly.
        let has_room = self.flows.crowd(proto, address, far) < count;
        let tries = if has_room { count } else { count.min(LAST_TRIES) };
        let start = (self.draws.next_u64() % u64::from(count)) as u32;
        for step in 0..tries {
            let port = first + ((start + step) % count) as u16;
            let end = End { address, port };
            if self.flows.find(From::Outside, (proto, end, far)).is_none() {
                return Ok(end);
            }
        }
        Err(Dropped::Exhausted)
    }

    fn make(&mut self, proto: IpProto, ends: [End; 3]) -> Result<FlowId, Dropped> {
        let [inside, outside, remote] = ends;
        let taken = self.flows.find(From::Inside, (proto, inside, remote)).is_some()
            || self.flows.find(From::Outside, (proto, outside, remote)).is_some();
        if taken {
            return Err(Dropped::Collision);
        }
        if self.flows.len() >= self.max_flows {
            return Err(Dropped::Full);
        }
        self.counters.made += 1;
        Ok(self.flows.insert(Flow::new(proto, ends)))
    }

    /// A fragment without ports goes where its first one went.
    fn later_fragment(
        &mut self,
        packet: &mut [u8],
        view: &View,
        way: Way,
        scope: Scope,
        now: u64,
    ) -> Result<Outcome, Dropped> {
        let found = self.fragments.find(view, way == Way::Out, now);
        let address = match (found, way) {
            (Some(address), _) => address,
            (None, _) if scope == Scope::Known => return Ok(Outcome::Untouched),
            (None, Way::In) => return Err(Dropped::UnknownFragment),
            // Ahead of its first: whatever port that will get, this will be its address.
            (None, Way::Out) => self.usual_address(view)?,
        };
        if address == near(view, way) {
            return Ok(Outcome::Kept);
        }
        rewrite::set_end(packet, view, way.side(), End::new(address, 0));
        Ok(Outcome::Translated)
    }

    /// The address that packets of a source mostly get.
    fn usual_address(&self, view: &View) -> Result<Ipv4Addr, Dropped> {
        let (near, far) = (End::new(view.src, 0), End::new(view.dst, 0));
        let (redirects, own) = (&self.settings.redirects, self.address());
        match redirect::outwards(redirects, (view.proto, near, far), own, true) {
            Some(found) => Ok(found.end.address),
            None if !self.settings.takes(view.src) => Ok(view.src),
            None => own.ok_or(Dropped::NoAddress),
        }
    }

    /// An error about a packet of a flow goes to whom it is for. The quoted packet went the other
    /// way, so our end is on its other side.
    fn error(
        &mut self,
        packet: &mut [u8],
        view: &View,
        (way, scope): (Way, Scope),
        at: usize,
    ) -> Result<Outcome, Dropped> {
        let quoted_side = way.reversed().side();
        let flow = icmp::quoted(packet, at).and_then(|quoted| {
            let [near, far] = quoted.view.ends(quoted.load, quoted_side);
            let flow = self.flows.find(way.from(), (quoted.view.proto, near, far))?;
            Some((quoted, (flow, near)))
        });
        let denies = self.settings.modes.has(Mode::DenyIn) && scope == Scope::All;
        let Some((quoted, flow)) = flow else {
            let refused = way == Way::In && denies;
            return if refused { Err(Dropped::Refused) } else { Ok(Outcome::Untouched) };
        };
        let (flow, quoted_near) = flow;
        let end = self.other_end(flow, way);
        if end == quoted_near && end.address == near(view, way) {
            return Ok(Outcome::Kept);
        }
        quoted.set_end(packet, view, quoted_side, end);
        rewrite::set_end(packet, view, way.side(), End::new(end.address, rest(packet, view)));
        Ok(Outcome::Translated)
    }
}

/// The address on our side of a packet that goes so.
const fn near(view: &View, way: Way) -> Ipv4Addr {
    match way {
        Way::Out => view.src,
        Way::In => view.dst,
    }
}

/// What stands where a question would have its identifier: it stays.
fn rest(packet: &[u8], view: &View) -> u16 {
    rewrite::be16(packet, view.l4 + 4).unwrap_or(0)
}
