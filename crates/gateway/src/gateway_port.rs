//! The router at one port: which received frames pass, and the MAC addresses of sent ones.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use slipring_wire::MacAddr;

use crate::arp::{Arp, Operation};
use crate::frame::{self, GatewayFrameKind};
use crate::interface::RouterInterface;
use crate::neighbours::NeighbourTable;
use crate::{echo, interface, nd};

/// Most of the router's own frames that may be queued when another ping is answered.
const MAX_PENDING_REPLIES: usize = 64;

/// Whether the router decrements TTL and hop limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TtlPolicy {
    /// Packets stay unchanged, as if the router were a wire.
    #[default]
    Preserve,
    /// Decrements each packet. Drops those that reach zero, without an ICMP error to the sender.
    Decrement,
}

/// The outcome for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayVerdict {
    /// It passes.
    Pass,
    /// It was addressed to the router, or is queued in it.
    Consumed,
    /// It is dropped.
    Drop(GatewayDropReason),
}

/// Why a frame was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum GatewayDropReason {
    /// Its header is inconsistent or damaged.
    Malformed,
    /// It is neither IPv4 nor IPv6, or has a VLAN tag.
    NotIp,
    /// It is addressed to another hardware address.
    OtherHost,
    /// It is a broadcast or multicast.
    Broadcast,
    /// It is addressed to the router itself, which answers only pings.
    ToRouter,
    /// Its destination is a neighbour of its sender.
    SameSubnet,
    /// There is no subnet or gateway for its destination.
    NoRoute,
    /// Its TTL or hop limit has expired.
    Expired,
    /// Its next hop does not answer, or too many frames are waiting already.
    Unresolved,
}

/// The router at one of its two ports.
#[derive(Debug)]
pub struct GatewayPort {
    own: RouterInterface,
    other: RouterInterface,
    ttl_policy: TtlPolicy,
    neighbours: NeighbourTable,
    tx_queue: VecDeque<Vec<u8>>,
}

impl GatewayPort {
    /// Makes the router at the port of `own`; frames that pass leave by the port of `other`.
    #[must_use]
    pub fn new(own: RouterInterface, other: RouterInterface, ttl_policy: TtlPolicy) -> Self {
        let (neighbours, tx_queue) = (NeighbourTable::default(), VecDeque::new());
        Self { own, other, ttl_policy, neighbours, tx_queue }
    }

    /// Decides about a frame that arrived at the port.
    pub fn receive(&mut self, frame: &[u8], now_ns: u64) -> GatewayVerdict {
        let Some(target) = frame::dst_mac(frame) else {
            return GatewayVerdict::Drop(GatewayDropReason::Malformed);
        };
        if target != self.own.mac() && !target.is_multicast() {
            return GatewayVerdict::Drop(GatewayDropReason::OtherHost);
        }
        match frame::classify(frame) {
            GatewayFrameKind::Malformed => GatewayVerdict::Drop(GatewayDropReason::Malformed),
            GatewayFrameKind::Other => GatewayVerdict::Drop(GatewayDropReason::NotIp),
            GatewayFrameKind::Arp => match Arp::parse(frame) {
                Some(arp) => self.handle_arp(&arp, now_ns),
                None => GatewayVerdict::Drop(GatewayDropReason::Malformed),
            },
            GatewayFrameKind::Ip { to: IpAddr::V6(_), .. }
                if let Some(message) = nd::NdMessage::parse(frame) =>
            {
                self.handle_nd(&message, now_ns)
            }
            GatewayFrameKind::Ip { to, ttl: life } => match self.drop_reason(target, to, life) {
                Some(GatewayDropReason::ToRouter) => self.answer_ping(frame),
                Some(refusal) => GatewayVerdict::Drop(refusal),
                None => GatewayVerdict::Pass,
            },
        }
    }

    /// Sets the MAC addresses of a frame that leaves by the port. A frame whose next hop is unknown
    /// is queued, and comes out of [`Self::pop`] once it is known.
    pub fn send(&mut self, frame: &mut [u8], now_ns: u64) -> GatewayVerdict {
        let GatewayFrameKind::Ip { to, ttl: life } = frame::classify(frame) else {
            return GatewayVerdict::Drop(GatewayDropReason::Malformed);
        };
        let Some(hop) = self.own.next_hop(to) else {
            return GatewayVerdict::Drop(GatewayDropReason::NoRoute);
        };
        if self.ttl_policy == TtlPolicy::Decrement {
            if life <= 1 {
                return GatewayVerdict::Drop(GatewayDropReason::Expired);
            }
            frame::decrement_ttl(frame, to);
        }
        let Self { own, neighbours, tx_queue: outbox, .. } = self;
        let mut ask = |host, known| outbox.extend(request(own, host, known));
        if let Some(mac) = neighbours.resolve(hop, now_ns, &mut ask) {
            frame::set_macs(frame, mac, own.mac());
            return GatewayVerdict::Pass;
        }
        match neighbours.enqueue(hop, frame, now_ns, &mut ask) {
            true => GatewayVerdict::Consumed,
            false => GatewayVerdict::Drop(GatewayDropReason::Unresolved),
        }
    }

    /// Repeats requests without an answer. Returns how many frames were dropped as
    /// [`GatewayDropReason::Unresolved`] because no answer ever came.
    pub fn tick(&mut self, now_ns: u64) -> u64 {
        let Self { own, neighbours, tx_queue: outbox, .. } = self;
        neighbours.tick(now_ns, &mut |host, known| outbox.extend(request(own, host, known)))
    }

    /// When to call [`Self::tick`] next, if at all.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.neighbours.next_ns()
    }

    /// The next queued frame: an answer, a request, or a frame that has waited. The caller sends it
    /// in addition to, and before, the frames that [`Self::send`] passes.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        self.tx_queue.pop_front()
    }

    /// Whether [`Self::pop`] would return nothing.
    #[must_use]
    pub fn is_tx_empty(&self) -> bool {
        self.tx_queue.is_empty()
    }

    /// Takes back a frame that could not be sent yet.
    pub fn requeue(&mut self, frame: Vec<u8>) {
        self.tx_queue.push_front(frame);
    }

    /// The number of frames that wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.neighbours.waiting()
    }

    /// Why a packet does not pass; `None` if it passes.
    fn drop_reason(&self, target: MacAddr, to: IpAddr, life: u8) -> Option<GatewayDropReason> {
        let (own, other) = (&self.own, &self.other);
        let many = target.is_multicast() || own.is_broadcast(to) || other.is_broadcast(to);
        match to {
            _ if many => Some(GatewayDropReason::Broadcast),
            _ if own.is_own(to) || other.is_own(to) => Some(GatewayDropReason::ToRouter),
            _ if own.contains(to) || interface::is_link_scope(to) => {
                Some(GatewayDropReason::SameSubnet)
            }
            _ if other.next_hop(to).is_none() => Some(GatewayDropReason::NoRoute),
            _ if self.ttl_policy == TtlPolicy::Decrement && life <= 1 => {
                Some(GatewayDropReason::Expired)
            }
            _ => None,
        }
    }

    /// Answers a frame to the router itself if it is a ping, and not too many answers are queued.
    fn answer_ping(&mut self, frame: &[u8]) -> GatewayVerdict {
        let answer = echo::reply(frame, self.own.mac())
            .filter(|_| self.tx_queue.len() < MAX_PENDING_REPLIES);
        let Some(answer) = answer else { return GatewayVerdict::Drop(GatewayDropReason::ToRouter) };
        self.tx_queue.push_back(answer);
        GatewayVerdict::Consumed
    }

    fn handle_arp(&mut self, arp: &Arp, now_ns: u64) -> GatewayVerdict {
        let (sender, target) = (IpAddr::V4(arp.sender), IpAddr::V4(arp.target));
        let for_us = self.own.is_own(target);
        // Ignores messages that claim our own address, or come from outside the subnet.
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
            self.tx_queue.push_back(reply.frame(arp.sender_mac));
        }
        GatewayVerdict::Consumed
    }

    fn handle_nd(&mut self, message: &nd::NdMessage, now_ns: u64) -> GatewayVerdict {
        let (about, for_us) = match message.kind {
            nd::NdKind::Solicitation => (message.from, self.own.is_own(message.target.into())),
            nd::NdKind::Advertisement => (message.target, false),
        };
        let neighbour = self.own.contains(about.into()) && !self.own.is_own(about.into());
        if let Some(mac) = message.mac.filter(|_| neighbour) {
            self.learn(about.into(), mac, for_us, now_ns);
        }
        if for_us && (message.from.is_unspecified() || neighbour) {
            self.advertise(message);
        }
        GatewayVerdict::Consumed
    }

    /// Answers a solicitation. A sender without an address gets the answer at the
    /// all-nodes address.
    fn advertise(&mut self, message: &nd::NdMessage) {
        let to = match message.mac {
            Some(mac) if !mac.is_multicast() => (mac, message.from),
            _ => (MacAddr::ZERO, Ipv6Addr::UNSPECIFIED),
        };
        self.tx_queue.push_back(nd::advertisement(self.own.mac(), message.target, to));
    }

    /// Queues the frames that waited for a neighbour.
    fn learn(&mut self, host: IpAddr, mac: MacAddr, told: bool, now_ns: u64) {
        let own = self.own.mac();
        for mut waited in self.neighbours.learn(host, mac, told, now_ns) {
            frame::set_macs(&mut waited, mac, own);
            self.tx_queue.push_back(waited);
        }
    }
}

/// The frame that requests a neighbour's address.
fn request(own: &RouterInterface, host: IpAddr, known: Option<MacAddr>) -> Option<Vec<u8>> {
    match (own.address_towards(host)?, host) {
        (IpAddr::V4(sender), IpAddr::V4(target)) => {
            let (operation, sender_mac) = (Operation::Request, own.mac());
            let arp = Arp { operation, sender_mac, sender, target_mac: MacAddr::ZERO, target };
            Some(arp.frame(known.unwrap_or(MacAddr::BROADCAST)))
        }
        (IpAddr::V6(from), IpAddr::V6(target)) => {
            Some(nd::solicitation(own.mac(), from, target, known))
        }
        // A neighbour's subnet has its address family.
        _ => None,
    }
}
