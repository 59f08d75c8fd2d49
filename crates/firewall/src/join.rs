//! The engines joined: rules decide, pipes delay, and every frame leaves, waits or is lost with a
//! cause.
//!
//! ```text
//!   offer --> check (in) --accept--> map --> check (out) --accept--> its port
//!     | ARP      | pipe, queue                  |
//!     v          '--> shaper --release--> accept, or check behind the rule (`one_pass`)
//!    map --> its port
//! ```
//!
//! # Invariants
//! 1. Frames offered, copied and made here = sent + lost by cause + waiting ([`Join::balance`]).
//! 2. Nothing here waits, and nothing is slower for frames that no rule logs or answers.
//! 3. Of several joins, to which flows are dealt out, the first one has the pipes of all: a link is
//!    as fast as it is, whoever uses it. Frames go there and come back as [`Parcel`]s.
//!
//! # What needed a decision
//! - **The second check.** A frame is checked as it comes in, and as it goes out if the list asks
//!   for directions or ports by `in`, `out`, `xmit` or `via` anywhere, or translates ([`Passes::Auto`]): rules of
//!   a router then mean what FreeBSD's manual says, and in all other lists each frame is counted
//!   and shaped once, as between two ports one expects.
//! - **`fwd` to an address** sends the frame to the MAC address that answered for it in ARP or
//!   neighbour discovery seen here. Until one has, the frame is lost as `no_next_hop`. The port
//!   number of `fwd` means something only to a host itself, and is not looked at.
//! - **Frames made here** (resets, ICMP errors, keepalives) meet no rules.
//!
//! Not for: ports, clocks, threads.

mod bypass;
mod directions;
mod hops;
mod map;
mod outlet;
mod parcel;
mod shaping;
mod tally;
mod waiting;

pub(crate) use bypass::{Bypass, bypass};
pub use hops::Told;
pub use map::{Map, MapError};
pub use outlet::Outlet;
pub use parcel::{Parcel, Place};
pub use tally::{Bypassed, Loss, Tally};

use slipring_dummynet::{Dummynet, Event, Object};
use slipring_ipfw::rule::{Action, Hop};
use slipring_ipfw::run::{
    Batch, Checked, Crossing, Denied, Emission, Firewall, Frames, Outputs, Pass, PortId, Ruleset,
    Toward, Verdict,
};

use bypass::FrameRange;
use directions::asks_directions;
use hops::Hops;
use parcel::Abroad;
use waiting::Hall;

/// Nanoseconds of the caller's clock.
pub type Nanos = u64;

/// How often a frame is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Passes {
    /// As it comes in, and as it goes out if rules ask for directions.
    #[default]
    Auto,
    /// As it comes in.
    In,
    /// Both.
    Both,
}

/// Rules, pipes, and the frames that wait in them.
#[derive(Debug)]
pub struct Join {
    firewall: Firewall,
    shaper: Dummynet<u32>,
    hall: Hall,
    map: Map,
    passes: Passes,
    /// What `passes` comes to with these rules.
    checks_out: bool,
    /// Frames that came together can be checked together: the rules do nothing between them but
    /// what a check does.
    checks_together: bool,
    batch: Batch,
    abroad: Abroad,
    hops: Hops,
    outputs: Outputs,
    events: Vec<Event<u32>>,
    tally: Tally,
}

impl Join {
    /// A join that drops everything until it is given rules.
    #[must_use]
    pub fn new(firewall: Firewall, seed: u64, map: Map, passes: Passes) -> Self {
        let mut join = Self {
            firewall,
            shaper: Dummynet::new(seed),
            hall: Hall::default(),
            map,
            passes,
            checks_out: false,
            checks_together: false,
            batch: Batch::default(),
            abroad: Abroad::default(),
            hops: Hops::default(),
            outputs: Outputs::default(),
            events: Vec::new(),
            tally: Tally::default(),
        };
        join.look_at_rules();
        join
    }

    /// The rules, states and counters.
    #[must_use]
    pub const fn firewall(&self) -> &Firewall {
        &self.firewall
    }

    /// The same, for commands that change counters only.
    pub const fn firewall_mut(&mut self) -> &mut Firewall {
        &mut self.firewall
    }

    /// The pipes.
    pub const fn shaper_mut(&mut self) -> &mut Dummynet<u32> {
        &mut self.shaper
    }

    /// Where frames go.
    #[must_use]
    pub const fn map(&self) -> &Map {
        &self.map
    }

    /// What became of frames.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally;
        tally.waiting = self.hall.len() as u64 + self.firewall.fragments_held() as u64;
        tally.shaper = self.shaper.counters();
        tally.fragments = *self.firewall.fragments();
        tally
    }

    /// Whether every frame is accounted for.
    #[must_use]
    pub fn balance(&self) -> bool {
        self.tally().balance()
    }

    /// Whether frames are checked twice.
    #[must_use]
    pub const fn checks_out(&self) -> bool {
        self.checks_out
    }

    /// Takes over rules made ready elsewhere, between two frames.
    pub fn adopt(&mut self, ruleset: &mut Ruleset) {
        self.firewall.adopt(ruleset);
        self.shaper.settings_mut().one_pass = !self.firewall.continues_after_shaper();
        self.look_at_rules();
    }

    fn look_at_rules(&mut self) {
        let config = self.firewall.config();
        self.checks_out = match self.passes {
            Passes::In => false,
            Passes::Both => true,
            Passes::Auto => asks_directions(config),
        };
        let mut rules = config.list.iter().map(|(entry, _)| &entry.rule);
        // What is put together from fragments goes out before the next frame is checked.
        let reassembles = rules.any(|rule| rule.action == Action::Reass);
        self.checks_together = !self.checks_out && !reassembles;
        self.hops.is_wanted =
            config.list.iter().any(|(entry, _)| entry.rule.action.forwards_to_address());
    }

    /// Takes a frame that came by a port; where to send it, as it is now, or `None` if there is
    /// nothing more to do.
    pub fn offer(
        &mut self,
        frame: &mut [u8],
        from: PortId,
        now: Nanos,
        outlet: &mut impl Outlet,
    ) -> Option<PortId> {
        self.tally.offered += 1;
        self.learn(frame, from);
        let way = match bypass(&self.firewall.config().settings, frame) {
            Some(what) => self.go_unasked(what, frame, from, outlet),
            None => self.go(frame, Crossing::incoming(from), now, outlet),
        };
        self.settle(now, outlet);
        self.tally.sent += u64::from(way.is_some());
        way
    }

    /// Takes frames that came by a port together, `count` of them, in their order; `ways` gets for
    /// each what [`Self::offer`] gives. Costs less than asking for one after the other.
    pub fn offer_all<F: Frames + ?Sized>(
        &mut self,
        frames: &mut F,
        count: usize,
        (from, now): (PortId, Nanos),
        outlet: &mut impl Outlet,
        ways: &mut Vec<Option<PortId>>,
    ) {
        ways.clear();
        if !self.checks_together {
            ways.extend((0..count).map(|at| self.offer(frames.frame(at), from, now, outlet)));
            return;
        }
        let mut first = 0;
        while first < count {
            let settings = self.firewall.config().settings;
            let asks = |&at: &usize| bypass(&settings, frames.frame(at)).is_none();
            let asked = (first..count).take_while(asks).count();
            if asked == 0 {
                ways.push(self.offer(frames.frame(first), from, now, outlet));
                first += 1;
                continue;
            }
            let mut range = FrameRange { frames, first };
            self.check_together(&mut range, asked, (from, now), outlet, ways);
            first += asked;
        }
    }

    /// Asks the rules about frames that came by a port together.
    fn check_together<F: Frames + ?Sized>(
        &mut self,
        frames: &mut F,
        count: usize,
        (from, now): (PortId, Nanos),
        outlet: &mut impl Outlet,
        ways: &mut Vec<Option<PortId>>,
    ) {
        self.tally.offered += count as u64;
        (0..count).for_each(|at| self.learn(frames.frame(at), from));
        let mut batch = std::mem::take(&mut self.batch);
        self.outputs.is_watched = outlet.is_watched();
        self.firewall.check_all(frames, count, (from, now), &mut self.outputs, &mut batch);
        self.put_out(outlet);
        let only = match *self.map.targets(from) {
            [only] => Some(only),
            _ => None,
        };
        for (at, checked) in batch.drain().enumerate() {
            let (verdict, crossing) = match checked {
                Checked::Accepted if only.is_some() => {
                    self.tally.sent += 1;
                    ways.push(only);
                    continue;
                }
                Checked::Accepted => (Verdict::Accept, Crossing::incoming(from)),
                Checked::Denied => (Verdict::Deny(Denied::Rule), Crossing::incoming(from)),
                Checked::Other(verdict, crossing) => (verdict, crossing),
            };
            let way = self.act(verdict, frames.frame(at), crossing, now, outlet);
            self.settle(now, outlet);
            self.tally.sent += u64::from(way.is_some());
            ways.push(way);
        }
        self.batch = batch;
    }

    #[inline]
    fn learn(&mut self, frame: &[u8], from: PortId) {
        if self.hops.is_wanted
            && let Some(told) = self.hops.learn(frame, from)
        {
            self.abroad.tell(told);
        }
    }

    /// The frame that [`Self::offer`] gave a way could not go it.
    pub fn was_not_sent(&mut self, why: Loss) {
        self.tally.sent -= 1;
        self.tally.lose(why);
    }

    /// When [`Self::run`] has something to do next.
    #[must_use]
    pub fn next_ns(&self) -> Option<Nanos> {
        self.shaper.next_release().into_iter().chain(self.firewall.next_tick_ns()).min()
    }

    /// Does what is due: frames leave pipes, states end, keepalives go.
    pub fn run(&mut self, now: Nanos, outlet: &mut impl Outlet) {
        if self.firewall.next_tick_ns().is_some_and(|due| due <= now) {
            self.outputs.is_watched = outlet.is_watched();
            self.firewall.tick(now, &mut self.outputs);
            self.put_out(outlet);
        }
        while self.shaper.next_release().is_some_and(|due| due <= now) {
            let events = &mut self.events;
            self.shaper.release(now, &mut |event| events.push(event));
            if self.events.is_empty() {
                break;
            }
            self.settle(now, outlet);
        }
    }

    /// Whether anything waits here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hall.len() == 0
    }

    /// Does what a change of the shaper brought about.
    pub fn told(&mut self, events: Vec<Event<u32>>, now: Nanos, outlet: &mut impl Outlet) {
        self.events.extend(events);
        self.settle(now, outlet);
    }

    /// One check, and what follows from it.
    fn go(
        &mut self,
        frame: &mut [u8],
        mut crossing: Crossing,
        now: Nanos,
        outlet: &mut impl Outlet,
    ) -> Option<PortId> {
        self.outputs.is_watched = outlet.is_watched();
        let verdict = self.firewall.check(frame, &mut crossing, now, &mut self.outputs);
        if let Some(whole) = self.outputs.whole.take()
            && (&verdict, crossing.pass, self.checks_out) == (&Verdict::Accept, Pass::In, true)
        {
            let mut parts = std::mem::take(&mut self.outputs.released);
            parts.push(frame.to_vec());
            self.put_out(outlet);
            self.leave_whole((whole, parts), &crossing, now, outlet);
            return None;
        }
        if !self.outputs.released.is_empty() {
            // Fragments that waited go before the one that completed them, the same way.
            for mut part in std::mem::take(&mut self.outputs.released) {
                let way = self.act(verdict.clone(), &mut part, crossing.clone(), now, outlet);
                way.into_iter().for_each(|port| self.send(port, &part, outlet));
            }
        }
        self.put_out(outlet);
        self.act(verdict, frame, crossing, now, outlet)
    }

    fn act(
        &mut self,
        verdict: Verdict,
        frame: &mut [u8],
        crossing: Crossing,
        now: Nanos,
        outlet: &mut impl Outlet,
    ) -> Option<PortId> {
        match verdict {
            Verdict::Accept => return self.accepted(frame, crossing, now, outlet),
            Verdict::Forward(hop) => return self.forward(&hop, frame, crossing, now, outlet),
            Verdict::Deny(why) => self.tally.deny(why),
            Verdict::Pipe(number) => self.shape(Object::Pipe, number, frame, crossing, now),
            Verdict::Queue(number) => self.shape(Object::Queue, number, frame, crossing, now),
            // The check translates by itself: no caller ever sees these.
            Verdict::Nat(_) | Verdict::Nptv6(_) => self.tally.lose(Loss::Translation),
            Verdict::Held => {}
        }
        None
    }

    fn accepted(
        &mut self,
        frame: &mut [u8],
        crossing: Crossing,
        now: Nanos,
        outlet: &mut impl Outlet,
    ) -> Option<PortId> {
        if crossing.pass == Pass::Out {
            return crossing.xmit;
        }
        let from = crossing.recv.unwrap_or(0);
        let count = self.map.targets(from).len();
        let Some(last) = count.checked_sub(1) else {
            self.tally.lose(Loss::NoTarget);
            return None;
        };
        for at in 0..last {
            let port = self.map.targets(from)[at];
            self.tally.copies += 1;
            let mut copy = frame.to_vec();
            let way = self.leave(port, &mut copy, crossing.clone(), now, outlet);
            way.into_iter().for_each(|port| self.send(port, &copy, outlet));
        }
        self.leave(self.map.targets(from)[last], frame, crossing, now, outlet)
    }

    /// A packet that `reass` put together is one on its way out, too: its parts go where it goes.
    fn leave_whole(
        &mut self,
        (whole, parts): (Vec<u8>, Vec<Vec<u8>>),
        crossing: &Crossing,
        now: Nanos,
        outlet: &mut impl Outlet,
    ) {
        let targets = self.map.targets(crossing.recv.unwrap_or(0)).to_vec();
        if targets.is_empty() {
            parts.iter().for_each(|_| self.tally.lose(Loss::NoTarget));
        }
        self.tally.copies += (targets.len().saturating_sub(1) * parts.len()) as u64;
        for port in targets {
            let (mut whole, mut parts) = (whole.clone(), parts.clone());
            let (mut crossing, outputs) = (crossing.clone().outgoing(port), &mut self.outputs);
            let verdict =
                self.firewall.check_whole(&mut whole, &mut parts, &mut crossing, now, outputs);
            self.put_out(outlet);
            for mut part in parts {
                let way = self.act(verdict.clone(), &mut part, crossing.clone(), now, outlet);
                way.into_iter().for_each(|port| self.send(port, &part, outlet));
            }
        }
    }

    /// By this port, if rules that are asked for the way out let it.
    fn leave(
        &mut self,
        port: PortId,
        frame: &mut [u8],
        crossing: Crossing,
        now: Nanos,
        outlet: &mut impl Outlet,
    ) -> Option<PortId> {
        if !self.checks_out {
            return Some(port);
        }
        self.go(frame, crossing.outgoing(port), now, outlet)
    }

    fn forward(
        &mut self,
        hop: &Hop,
        frame: &mut [u8],
        crossing: Crossing,
        now: Nanos,
        outlet: &mut impl Outlet,
    ) -> Option<PortId> {
        let found = match hop {
            Hop::Port(name) => {
                let ports = &self.firewall.config().ports;
                ports.iter().position(|port| port == name).map(|at| at as PortId)
            }
            hop => self.hops.turn(hop, frame),
        };
        let Some(port) = found else {
            self.tally.lose(Loss::NoHop);
            return None;
        };
        match crossing.pass {
            Pass::In => self.leave(port, frame, crossing, now, outlet),
            Pass::Out => Some(port),
        }
    }

    /// What becomes of a frame that has left the shaper.
    fn go_on(
        &mut self,
        frame: &mut [u8],
        crossing: Crossing,
        now: Nanos,
        outlet: &mut impl Outlet,
    ) {
        let way = if self.firewall.continues_after_shaper() {
            self.go(frame, crossing, now, outlet)
        } else {
            self.accepted(frame, crossing, now, outlet)
        };
        way.into_iter().for_each(|port| self.send(port, frame, outlet));
    }

    fn send(&mut self, port: PortId, frame: &[u8], outlet: &mut impl Outlet) {
        match outlet.send(port, frame) {
            Ok(()) => self.tally.sent += 1,
            Err(why) => self.tally.lose(why),
        }
    }

    /// Sends and logs what a check gave besides its verdict.
    fn put_out(&mut self, outlet: &mut impl Outlet) {
        self.outputs.log.drain(..).for_each(|event| outlet.log(event));
        if self.outputs.unseen > 0 {
            outlet.unseen(std::mem::take(&mut self.outputs.unseen));
        }
        if self.outputs.frames.is_empty() {
            return;
        }
        for Emission { toward, frame } in std::mem::take(&mut self.outputs.frames) {
            let ports: Vec<PortId> = match toward {
                Toward::Port(port) => vec![port],
                Toward::From(port) => self.map.targets(port).to_vec(),
                Toward::All => (0..self.map.ports() as PortId).collect(),
            };
            for port in ports {
                self.tally.made += 1;
                self.send(port, &frame, outlet);
            }
        }
    }
}
