//! The router at one of its ports: decides which received frames pass, and sets the MAC addresses
//! of sent frames.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_neighbour::icmp::{
    IcmpLimiter, IcmpLimits, IcmpProblem, OffendingPacket, QuoteLength, echo,
};
use slipring_neighbour::{
    NeighbourInput, NeighbourInterface, NeighbourLimits, NeighbourOutput, NeighbourRole,
    is_link_scope,
};
use slipring_wire::MacAddr;

use crate::frame::{self, GatewayFrameKind};
use crate::interface::RouterInterface;

/// If this many of the router's own frames are queued, it answers no pings and sends no ICMP
/// errors.
const MAX_PENDING_REPLIES: usize = 64;
/// Limits of the frames that wait for next hops. While the router resolves a next hop, frames for
/// it keep arriving at full speed. The limits allow about one millisecond of frames to wait, at
/// several million frames per second.
const NEIGHBOUR_LIMITS: NeighbourLimits = NeighbourLimits {
    entries: 65_536,
    incomplete: 4_096,
    frames_per_neighbour: 4_096,
    bytes_per_neighbour: 8 << 20,
    frames: 16_384,
    bytes: 32 << 20,
};

/// What the router does with the TTL or hop limit of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TtlPolicy {
    /// TTL and hop limit stay unchanged, as if the router were a wire.
    #[default]
    Preserve,
    /// TTL and hop limit are decremented. A packet that would reach zero is dropped, and its sender
    /// gets an ICMP error, within the limits for ICMP errors.
    Decrement,
}

/// What the router did with a frame, or what the caller must do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayVerdict {
    /// The caller must send the frame.
    Pass,
    /// The caller must discard the frame. The router has handled it, or keeps a copy until the next
    /// hop is known.
    Consumed,
    /// The caller must drop the frame, for this reason.
    Drop(GatewayDropReason),
}

/// Why the router drops a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum GatewayDropReason {
    /// The frame is too short, or its headers are inconsistent or damaged.
    Malformed,
    /// The frame is neither IPv4 nor IPv6, or has a VLAN tag.
    NotIp,
    /// The frame is addressed to the MAC address of another host.
    OtherHost,
    /// The frame, or the packet in it, is addressed to a broadcast or multicast address.
    Broadcast,
    /// The packet is addressed to the router itself, which answers only pings.
    ToRouter,
    /// The packet's destination is in a subnet of the port at which the packet arrived.
    SameSubnet,
    /// The packet's destination is link-local.
    LinkLocal,
    /// The packet's destination is the loopback or the unspecified address. Neither may appear on a
    /// link.
    Martian,
    /// The packet's destination is in no subnet of the other port, and that port has no gateway for
    /// it.
    NoRoute,
    /// The packet's TTL or hop limit has expired.
    Expired,
    /// The next hop has not answered, or too many frames already wait for next hops.
    Unresolved,
}

/// The router at one of its two ports.
#[derive(Debug)]
pub struct GatewayPort {
    own: RouterInterface,
    other: RouterInterface,
    ttl_policy: TtlPolicy,
    neighbours: NeighbourInterface<Vec<u8>>,
    errors: IcmpLimiter,
    /// The frames that [`Self::pop`] returns first: answers to pings, ICMP errors, and frames that
    /// were put back by [`Self::requeue`].
    tx_queue: VecDeque<Vec<u8>>,
    /// How many frames were lost since the last call of [`GatewayPort::take_unresolved`], because
    /// their next hop did not answer or newer frames took their place.
    unresolved: u64,
}

impl GatewayPort {
    /// Makes the router at the port with the interface `own`. Frames that pass leave by the port
    /// with the interface `other`.
    #[must_use]
    pub fn new(own: RouterInterface, other: RouterInterface, ttl_policy: TtlPolicy) -> Self {
        let (mac, subnets) = (own.mac(), own.subnets().to_vec());
        // The seed need not be secret. It only makes routers with different addresses choose
        // different random times.
        let seed = mac.to_u64();
        let role = NeighbourRole::Router;
        Self {
            neighbours: NeighbourInterface::new(mac, subnets, role, NEIGHBOUR_LIMITS, seed),
            errors: IcmpLimiter::new(IcmpLimits::default(), seed),
            own,
            other,
            ttl_policy,
            tx_queue: VecDeque::new(),
            unresolved: 0,
        }
    }

    /// Decides whether a frame that was received at this port passes. ARP requests, neighbour
    /// solicitations and pings for the router itself are answered.
    pub fn receive(&mut self, frame: &[u8], now_ns: u64) -> GatewayVerdict {
        let Some(target) = frame::dst_mac(frame) else {
            return GatewayVerdict::Drop(GatewayDropReason::Malformed);
        };
        if target != self.own.mac() && !target.is_multicast() {
            return GatewayVerdict::Drop(GatewayDropReason::OtherHost);
        }
        let kind = frame::classify(frame);
        if let GatewayFrameKind::Arp | GatewayFrameKind::Ip { to: IpAddr::V6(_), .. } = kind {
            match self.neighbours.receive(frame, now_ns) {
                NeighbourInput::Handled => return GatewayVerdict::Consumed,
                NeighbourInput::InvalidArp(_) | NeighbourInput::InvalidNd(_) => {
                    return GatewayVerdict::Drop(GatewayDropReason::Malformed);
                }
                NeighbourInput::Other => {}
            }
        }
        match kind {
            GatewayFrameKind::Malformed => GatewayVerdict::Drop(GatewayDropReason::Malformed),
            GatewayFrameKind::Other | GatewayFrameKind::Arp => {
                GatewayVerdict::Drop(GatewayDropReason::NotIp)
            }
            GatewayFrameKind::Ip { to, ttl } => self.route(frame, target, (to, ttl), now_ns),
        }
    }

    /// Decides whether an IP packet passes to the other port.
    fn route(
        &mut self,
        frame: &[u8],
        target: MacAddr,
        (to, ttl): (IpAddr, u8),
        now_ns: u64,
    ) -> GatewayVerdict {
        let Some(refusal) = self.drop_reason(target, to, ttl) else { return GatewayVerdict::Pass };
        match refusal {
            GatewayDropReason::ToRouter => return self.answer_ping(frame),
            GatewayDropReason::NoRoute => self.tell(frame, IcmpProblem::NoRoute, now_ns),
            GatewayDropReason::Expired => self.tell(frame, IcmpProblem::TimeExceeded, now_ns),
            _ => {}
        }
        GatewayVerdict::Drop(refusal)
    }

    /// Sets the MAC addresses of a frame that leaves by this port. If the frame's next hop is
    /// unknown, the frame is queued, and [`Self::pop`] returns it once the next hop is known. The
    /// result says whether the caller must send the frame now.
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
        if let Some(mac) = self.neighbours.resolve(hop, now_ns) {
            frame::set_macs(frame, mac, self.own.mac());
            return GatewayVerdict::Pass;
        }
        match self.neighbours.hold(hop, frame.to_vec(), frame.len() as u32, now_ns) {
            Ok(()) => GatewayVerdict::Consumed,
            Err(_) => GatewayVerdict::Drop(GatewayDropReason::Unresolved),
        }
    }

    /// Repeats ARP and neighbour discovery requests that were not answered. After too many requests
    /// to a next hop, drops the frames that wait for it.
    pub fn tick(&mut self, now_ns: u64) {
        self.neighbours.tick(now_ns);
    }

    /// Returns when [`Self::tick`] must be called next, in ns; `None` if no timer runs.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.neighbours.next_ns()
    }

    /// Returns the next queued frame: an answer, a request, or a frame whose next hop is now known.
    /// The caller must send all queued frames before the frames that [`Self::send`] passes.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        if let Some(frame) = self.tx_queue.pop_front() {
            return Some(frame);
        }
        loop {
            match self.neighbours.pop()? {
                NeighbourOutput::Message(frame) => return Some(frame),
                NeighbourOutput::Released { mac, mut frame, .. } => {
                    frame::set_macs(&mut frame, mac, self.own.mac());
                    return Some(frame);
                }
                NeighbourOutput::Dropped { .. } => self.unresolved += 1,
                NeighbourOutput::Changed { .. } => {}
            }
        }
    }

    /// Returns how many queued frames were lost as [`GatewayDropReason::Unresolved`] since the last
    /// call, because their next hop did not answer or newer frames took their place.
    pub fn take_unresolved(&mut self) -> u64 {
        core::mem::take(&mut self.unresolved)
    }

    /// Returns whether [`pop`](Self::pop) has no frame to return.
    #[must_use]
    pub fn is_tx_empty(&self) -> bool {
        self.tx_queue.is_empty() && !self.neighbours.has_output()
    }

    /// Puts back a frame that [`pop`](Self::pop) returned but that could not be sent yet. The next
    /// `pop` returns it.
    pub fn requeue(&mut self, frame: Vec<u8>) {
        self.tx_queue.push_front(frame);
    }

    /// Returns the number of frames that wait until their next hop is known.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.neighbours.cache().waiting()
    }

    /// Returns why a packet does not pass; `None` if it passes.
    fn drop_reason(&self, target: MacAddr, to: IpAddr, life: u8) -> Option<GatewayDropReason> {
        let (own, other) = (&self.own, &self.other);
        let many = target.is_multicast() || own.is_broadcast(to) || other.is_broadcast(to);
        match to {
            _ if many => Some(GatewayDropReason::Broadcast),
            _ if own.is_own(to) || other.is_own(to) => Some(GatewayDropReason::ToRouter),
            _ if to.is_loopback() || to.is_unspecified() => Some(GatewayDropReason::Martian),
            _ if is_link_scope(to) => Some(GatewayDropReason::LinkLocal),
            _ if own.contains(to) => Some(GatewayDropReason::SameSubnet),
            _ if other.next_hop(to).is_none() => Some(GatewayDropReason::NoRoute),
            _ if self.ttl_policy == TtlPolicy::Decrement && life <= 1 => {
                Some(GatewayDropReason::Expired)
            }
            _ => None,
        }
    }

    /// Answers a frame that is addressed to the router, if it is a ping and not too many answers
    /// are queued. Returns `Consumed` if it is answered; otherwise the frame must be dropped.
    fn answer_ping(&mut self, frame: &[u8]) -> GatewayVerdict {
        let answer = echo::reply(frame, self.own.mac())
            .filter(|_| self.tx_queue.len() < MAX_PENDING_REPLIES);
        let Some(answer) = answer else { return GatewayVerdict::Drop(GatewayDropReason::ToRouter) };
        self.tx_queue.push_back(answer);
        GatewayVerdict::Consumed
    }

    /// Queues an ICMP error about `problem` to the sender of a packet, if the rules for ICMP errors
    /// allow one. The error goes to the MAC address from which the packet came.
    fn tell(&mut self, frame: &[u8], problem: IcmpProblem, now_ns: u64) {
        let Some(packet) = OffendingPacket::parse(frame) else { return };
        let message = problem.message(packet.source.is_ipv6());
        let is_welcome = packet.may_answer(message).is_ok()
            && self.tx_queue.len() < MAX_PENDING_REPLIES
            && self.errors.allows(packet.source, now_ns).is_ok();
        let own = self.own.address_towards(packet.source).filter(|_| is_welcome);
        let error = own.and_then(|own| packet.error(message, own, QuoteLength::Full));
        if let Some(error) = error {
            // The ICMP error has the same address family as the packet, and therefore the same
            // EtherType.
            let head = [&packet.link_source().0[..], &self.own.mac().0, &frame[12..14]].concat();
            self.tx_queue.push_back([head, error].concat());
        }
    }
}
