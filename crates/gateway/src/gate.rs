//! The router at one port: what of what comes in passes, and to whom what leaves is addressed.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use slipring_wire::MacAddr;

use crate::arp::{Arp, Operation};
use crate::frame::{self, Content};
use crate::neighbours::Neighbours;
use crate::side::Side;
use crate::{echo, nd, side};

/// Frames of the router's own that may wait for room when one more ping is answered.
const MOST_ANSWERS: usize = 64;

/// Whether packets age on their way: TTL and hop limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Life {
    /// They stay as they are, as if the router were a wire.
    #[default]
    Kept,
    /// Every packet loses one, and those with none left are dropped, without a word to the sender.
    Spent,
}

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It was for the router, or waits in it.
    Taken,
    /// It is dropped.
    Drop(Refusal),
}

/// Why a frame was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Refusal {
    /// Its header contradicts itself, or is damaged.
    Malformed,
    /// It is neither IPv4 nor IPv6, or has a VLAN tag.
    NotIp,
    /// It is addressed to another hardware address.
    OtherHost,
    /// It is for many: broadcast, multicast.
    Broadcast,
    /// It is for the router itself, which answers nothing but pings.
    Own,
    /// It is for a neighbour of who sent it.
    SameSubnet,
    /// No subnet and no gateway leads there.
    NoWay,
    /// It has met as many routers as it may.
    Expired,
    /// Nobody answers for its next hop, or too many frames wait already.
    Unresolved,
}

/// See the module.
#[derive(Debug)]
pub struct Gate {
    own: Side,
    other: Side,
    life: Life,
    neighbours: Neighbours,
    outbox: VecDeque<Vec<u8>>,
}

impl Gate {
    /// The router at the port of `own`; what passes leaves by that of `other`.
    #[must_use]
    pub fn new(own: Side, other: Side, life: Life) -> Self {
        let (neighbours, outbox) = (Neighbours::default(), VecDeque::new());
        Self { own, other, life, neighbours, outbox }
    }

    /// Judges a frame that came in at the port.
    pub fn receive(&mut self, frame: &[u8], now_ns: u64) -> Verdict {
        let Some(target) = frame::target(frame) else {
            return Verdict::Drop(Refusal::Malformed);
        };
        if target != self.own.mac() && !target.is_multicast() {
            return Verdict::Drop(Refusal::OtherHost);
        }
        match frame::content(frame) {
            Content::Malformed => Verdict::Drop(Refusal::Malformed),
            Content::Other => Verdict::Drop(Refusal::NotIp),
            Content::Arp => match Arp::parse(frame) {
                Some(arp) => self.hear_arp(&arp, now_ns),
                None => Verdict::Drop(Refusal::Malformed),
            },
            Content::Ip { to: IpAddr::V6(_), .. }
                if let Some(message) = nd::Message::parse(frame) =>
            {
                self.hear_nd(&message, now_ns)
            }
            Content::Ip { to, life } => match self.refuses(target, to, life) {
                Some(Refusal::Own) => self.answer(frame),
                Some(refusal) => Verdict::Drop(refusal),
                None => Verdict::Pass,
            },
        }
    }

    /// Addresses a frame that is to leave by the port; one whose next hop is not known is kept,
    /// and comes out of [`Self::pop`] when it is.
    pub fn send(&mut self, frame: &mut [u8], now_ns: u64) -> Verdict {
        let Content::Ip { to, life } = frame::content(frame) else {
            return Verdict::Drop(Refusal::Malformed);
        };
        let Some(hop) = self.own.next_hop(to) else { return Verdict::Drop(Refusal::NoWay) };
        if self.life == Life::Spent {
            if life <= 1 {
                return Verdict::Drop(Refusal::Expired);
            }
            frame::age(frame, to);
        }
        let Self { own, neighbours, outbox, .. } = self;
        let mut ask = |host, known| outbox.extend(request(own, host, known));
        if let Some(mac) = neighbours.find(hop, now_ns, &mut ask) {
            frame::address(frame, mac, own.mac());
            return Verdict::Pass;
        }
        match neighbours.wait(hop, frame, now_ns, &mut ask) {
            true => Verdict::Taken,
            false => Verdict::Drop(Refusal::Unresolved),
        }
    }

    /// Asks again where nobody answered; how many frames were dropped as
    /// [`Refusal::Unresolved`] because nobody ever did.
    pub fn tick(&mut self, now_ns: u64) -> u64 {
        let Self { own, neighbours, outbox, .. } = self;
        neighbours.tick(now_ns, &mut |host, known| outbox.extend(request(own, host, known)))
    }

    /// When [`Self::tick`] is to be called next, if at all.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.neighbours.next_ns()
    }

    /// The next frame that is to be sent beside those that [`Self::send`] lets pass, and before
    /// them: an answer, a request, or one that has waited.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        self.outbox.pop_front()
    }

    /// Whether [`Self::pop`] would give nothing.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Takes a frame back for which there was no room.
    pub fn unpop(&mut self, frame: Vec<u8>) {
        self.outbox.push_front(frame);
    }

    /// Frames that wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.neighbours.waiting()
    }

    /// Why a packet does not pass, if it does not.
    fn refuses(&self, target: MacAddr, to: IpAddr, life: u8) -> Option<Refusal> {
        let (own, other) = (&self.own, &self.other);
        let many = target.is_multicast() || own.is_broadcast(to) || other.is_broadcast(to);
        match to {
            _ if many => Some(Refusal::Broadcast),
            _ if own.is_own(to) || other.is_own(to) => Some(Refusal::Own),
            _ if own.contains(to) || side::stays_on_the_link(to) => Some(Refusal::SameSubnet),
            _ if other.next_hop(to).is_none() => Some(Refusal::NoWay),
            _ if self.life == Life::Spent && life <= 1 => Some(Refusal::Expired),
            _ => None,
        }
    }

    /// Answers a frame for the router itself, if it is a ping and the answers before it left.
    fn answer(&mut self, frame: &[u8]) -> Verdict {
        let answer =
            echo::reply(frame, self.own.mac()).filter(|_| self.outbox.len() < MOST_ANSWERS);
        let Some(answer) = answer else { return Verdict::Drop(Refusal::Own) };
        self.outbox.push_back(answer);
        Verdict::Taken
    }

    fn hear_arp(&mut self, arp: &Arp, now_ns: u64) -> Verdict {
        let (sender, target) = (IpAddr::V4(arp.sender), IpAddr::V4(arp.target));
        let for_us = self.own.is_own(target);
        // What claims our own address, or comes from no neighbour, is not believed.
        if self.own.contains(sender) && !self.own.is_own(sender) && !self.own.is_broadcast(sender) {
            self.learn(sender, arp.sender_mac, for_us, now_ns);
        }
        if for_us && arp.operation == Operation::Request && !arp.sender_mac.is_multicast() {
            let reply = Arp {
                operation: Operation::Reply,
                sender_mac: self.own.mac(),
                sender: arp.target,
                target_mac: arp.sender_mac,
                target: arp.sender,
            };
            self.outbox.push_back(reply.frame(arp.sender_mac));
        }
        Verdict::Taken
    }

    fn hear_nd(&mut self, message: &nd::Message, now_ns: u64) -> Verdict {
        let (about, for_us) = match message.kind {
            nd::Kind::Solicitation => (message.from, self.own.is_own(message.target.into())),
            nd::Kind::Advertisement => (message.target, false),
        };
        let neighbour = self.own.contains(about.into()) && !self.own.is_own(about.into());
        if let Some(mac) = message.mac.filter(|_| neighbour) {
            self.learn(about.into(), mac, for_us, now_ns);
        }
        if for_us && (message.from.is_unspecified() || neighbour) {
            self.advertise(message);
        }
        Verdict::Taken
    }

    /// Answers a solicitation: whoever asked without saying who it is, by all hosts' address.
    fn advertise(&mut self, message: &nd::Message) {
        let to = match message.mac {
            Some(mac) if !mac.is_multicast() => (mac, message.from),
            _ => (MacAddr::ZERO, Ipv6Addr::UNSPECIFIED),
        };
        self.outbox.push_back(nd::advertisement(self.own.mac(), message.target, to));
    }

    /// Sends what waited for a neighbour.
    fn learn(&mut self, host: IpAddr, mac: MacAddr, told: bool, now_ns: u64) {
        let own = self.own.mac();
        for mut waited in self.neighbours.learn(host, mac, told, now_ns) {
            frame::address(&mut waited, mac, own);
            self.outbox.push_back(waited);
        }
    }
}

/// The frame that asks for a neighbour.
fn request(own: &Side, host: IpAddr, known: Option<MacAddr>) -> Option<Vec<u8>> {
    match (own.address_towards(host)?, host) {
        (IpAddr::V4(sender), IpAddr::V4(target)) => {
            let (operation, sender_mac) = (Operation::Request, own.mac());
            let arp = Arp { operation, sender_mac, sender, target_mac: MacAddr::ZERO, target };
            Some(arp.frame(known.unwrap_or(MacAddr::BROADCAST)))
        }
        (IpAddr::V6(from), IpAddr::V6(target)) => {
            Some(nd::solicitation(own.mac(), from, target, known))
        }
        // A neighbour's subnet is of its own kind.
        _ => None,
    }
}
