//! An interface: its addresses, its cache of neighbours, and the ARP and neighbour discovery
//! messages that it receives and sends.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use slipring_wire::assigned::EtherType;
use slipring_wire::{Headers, MacAddr};

use crate::arp::{ArpError, ArpOperation, ArpPacket};
use crate::cache::{HoldDropCause, HoldRefusal, NeighbourCache, NeighbourClaim, NeighbourEvent};
use crate::limits::{NeighbourLimits, NeighbourTimers};
use crate::nd::{self, NdError, NdFlags, NdKind, NdMessage};
use crate::subnet::Subnet;
use crate::{field, group};

/// Maximum number of answers and announcements in the queue. While the queue is full, further ones
/// are not sent.
const MAX_PENDING_ANSWERS: usize = 256;

/// Whether advertisements claim that the interface belongs to a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighbourRole {
    /// The interface belongs to a host that does not forward packets.
    Host,
    /// The interface belongs to a router.
    Router,
}

/// How a received frame was handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighbourInput {
    /// The frame is neither ARP nor a neighbour message. The caller must handle it.
    Other,
    /// The frame was an ARP packet or a neighbour message, and was handled.
    Handled,
    /// The frame was an ARP packet, and was ignored for this reason.
    InvalidArp(ArpError),
    /// The frame was a neighbour message, and was ignored for this reason.
    InvalidNd(NdError),
}

/// What the caller must do: send a frame, or react to an event about a frame or a neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeighbourOutput<F> {
    /// Send this whole frame. It is a solicitation or request, an answer, or an announcement.
    Message(Vec<u8>),
    /// A frame that has waited can be sent now.
    Released {
        /// The neighbour for which the frame waited.
        next_hop: IpAddr,
        /// The neighbour's MAC address.
        mac: MacAddr,
        /// The frame as it was passed to [`NeighbourInterface::hold`].
        frame: F,
    },
    /// A frame that has waited is lost.
    Dropped {
        /// The neighbour for which the frame waited.
        next_hop: IpAddr,
        /// The frame as it was passed to [`NeighbourInterface::hold`].
        frame: F,
        /// Why the frame is lost.
        cause: HoldDropCause,
    },
    /// Frames to this neighbour now need the MAC address `mac`, or can no longer be sent.
    Changed {
        /// The neighbour's IP address.
        neighbour: IpAddr,
        /// The neighbour's new MAC address; `None` if it is no longer known.
        mac: Option<MacAddr>,
    },
}

/// The ARP and neighbour discovery of one interface.
#[derive(Debug)]
pub struct NeighbourInterface<F> {
    mac: MacAddr,
    subnets: Vec<Subnet>,
    role: NeighbourRole,
    cache: NeighbourCache<F>,
    answers: VecDeque<Vec<u8>>,
    unsent_answers: u64,
    conflicts: u64,
}

impl<F> NeighbourInterface<F> {
    /// Creates the state of an interface with this MAC address and these addresses.
    #[must_use]
    pub fn new(
        mac: MacAddr,
        subnets: Vec<Subnet>,
        role: NeighbourRole,
        limits: NeighbourLimits,
        seed: u64,
    ) -> Self {
        Self {
            mac,
            subnets,
            role,
            cache: NeighbourCache::new(NeighbourTimers::default(), limits, seed),
            answers: VecDeque::new(),
            unsent_answers: 0,
            conflicts: 0,
        }
    }

    /// Replaces the MAC address and the addresses of the interface. Neighbours that are no longer
    /// on the link are removed, and their frames dropped.
    pub fn set_addresses(&mut self, mac: MacAddr, subnets: Vec<Subnet>) {
        self.mac = mac;
        self.subnets = subnets;
        let known = self.cache.iter(0).map(|entry| entry.address);
        let gone: Vec<_> = known.filter(|address| !self.is_neighbour(*address)).collect();
        gone.into_iter().for_each(|address| self.cache.remove(address));
    }

    /// The cache of neighbours.
    #[must_use]
    pub const fn cache(&self) -> &NeighbourCache<F> {
        &self.cache
    }

    /// The cache of neighbours. Through it, an administrator can install or remove neighbours.
    pub const fn cache_mut(&mut self) -> &mut NeighbourCache<F> {
        &mut self.cache
    }

    /// Number of received messages in which another host has claimed an address of this interface.
    #[must_use]
    pub const fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// Number of answers and announcements that were not sent, because their queue was full.
    #[must_use]
    pub const fn unsent_answers(&self) -> u64 {
        self.unsent_answers
    }

    /// Returns whether an address belongs to this interface.
    #[must_use]
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.address() == address)
    }

    /// Returns whether a host with this address is on the link. If the interface has an IPv6
    /// address, all hosts with link-local IPv6 addresses are (RFC 4861, 5.1).
    #[must_use]
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        let is_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let has_v6 = || self.subnets.iter().any(|subnet| subnet.address().is_ipv6());
        self.subnets.iter().any(|subnet| subnet.contains(address)) || is_local && has_v6()
    }

    /// Returns the MAC address for frames to `next_hop`, which is a neighbour or a group; `None` if
    /// it is not known.
    pub fn resolve(&mut self, next_hop: IpAddr, now_ns: u64) -> Option<MacAddr> {
        self.cache.resolve(next_hop, now_ns).or_else(|| self.group_mac(next_hop))
    }

    /// Returns the MAC address of a group or of a subnet's broadcast address; `None` for other
    /// addresses.
    fn group_mac(&self, address: IpAddr) -> Option<MacAddr> {
        let is_broadcast = || self.subnets.iter().any(|subnet| subnet.is_broadcast(address));
        group::mac(address).or_else(|| is_broadcast().then_some(MacAddr::BROADCAST))
    }

    /// Stores a frame of `len` bytes until the MAC address of its next hop is known. Later,
    /// [`Self::pop`] returns the frame as released or dropped.
    ///
    /// # Errors
    /// The frame and a [`HoldRefusal`] if the frame cannot be stored.
    pub fn hold(
        &mut self,
        next_hop: IpAddr,
        frame: F,
        len: u32,
        now_ns: u64,
    ) -> Result<(), (F, HoldRefusal)> {
        self.cache.hold(next_hop, frame, len, now_ns)
    }

    /// Handles a received frame, if it is ARP or a neighbour message and has no VLAN tags. Returns
    /// whether it was, and why it was ignored if it is invalid.
    pub fn receive(&mut self, frame: &[u8], now_ns: u64) -> NeighbourInput {
        let headers = Headers::link(frame).ok().filter(|headers| headers.tags_found().is_empty());
        let ethertype = headers.map(|headers| headers.ethertype);
        let Some(payload) = frame.get(field::ETHERNET_LEN..) else { return NeighbourInput::Other };
        match ethertype {
            Some(EtherType::ARP) => match ArpPacket::parse(payload) {
                Ok(packet) => self.receive_arp(&packet, now_ns),
                Err(error) => return NeighbourInput::InvalidArp(error),
            },
            Some(EtherType::IPV6) => match NdMessage::parse(payload) {
                Some(Ok(message)) => {
                    let sender_mac = field::array(frame, 6).map(MacAddr).unwrap_or_default();
                    self.receive_nd(&message, sender_mac, now_ns);
                }
                Some(Err(error)) => return NeighbourInput::InvalidNd(error),
                None => return NeighbourInput::Other,
            },
            _ => return NeighbourInput::Other,
        }
        NeighbourInput::Handled
    }

    /// Queues an announcement of each address of the interface. Must be called when the interface
    /// has come up, or has taken over the addresses of another host.
    pub fn announce(&mut self) {
        for at in 0..self.subnets.len() {
            let flags = self.flags(false);
            let frame = match self.subnets[at].address() {
                IpAddr::V4(own) => ArpPacket::announcement(self.mac, own).frame(MacAddr::BROADCAST),
                IpAddr::V6(own) => nd::advertisement(self.mac, own, None, flags),
            };
            self.answer(frame);
        }
    }

    /// Repeats solicitations that were not answered, probes stale neighbours, and gives up after
    /// too many solicitations.
    pub fn tick(&mut self, now_ns: u64) {
        self.cache.tick(now_ns);
    }

    /// Returns the time at which [`Self::tick`] must be called next, in ns; `None` if no timer
    /// runs.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.cache.next_ns()
    }

    /// Returns whether [`Self::pop`] may have something to return.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !(self.answers.is_empty() && self.cache.has_no_events())
    }

    /// Removes and returns the next thing that the caller must do; `None` if there is nothing to
    /// do.
    pub fn pop(&mut self) -> Option<NeighbourOutput<F>> {
        if let Some(frame) = self.answers.pop_front() {
            return Some(NeighbourOutput::Message(frame));
        }
        loop {
            return Some(match self.cache.poll_event()? {
                NeighbourEvent::Solicit { target, mac } => match self.question(target, mac) {
                    Some(frame) => NeighbourOutput::Message(frame),
                    None => continue,
                },
                NeighbourEvent::Released { next_hop, mac, frame } => {
                    NeighbourOutput::Released { next_hop, mac, frame }
                }
                NeighbourEvent::Dropped { next_hop, frame, cause } => {
                    NeighbourOutput::Dropped { next_hop, frame, cause }
                }
                NeighbourEvent::Changed { neighbour, mac } => {
                    NeighbourOutput::Changed { neighbour, mac }
                }
            });
        }
    }

    /// Builds the frame that solicits `target`. It goes only to the MAC address `known`; if `known`
    /// is `None`, by broadcast (ARP) or to the solicited-node group (IPv6). Returns `None` if the
    /// interface has no address of the target's family.
    fn question(&self, target: IpAddr, known: Option<MacAddr>) -> Option<Vec<u8>> {
        let same_family = |subnet: &&Subnet| subnet.address().is_ipv4() == target.is_ipv4();
        let around = self.subnets.iter().find(|subnet| subnet.contains(target));
        let subnet = around.or_else(|| self.subnets.iter().find(same_family))?;
        match (subnet.address(), target) {
            (IpAddr::V4(own), IpAddr::V4(target)) => {
                let request = ArpPacket::request(self.mac, own, target);
                Some(request.frame(known.unwrap_or(MacAddr::BROADCAST)))
            }
            (IpAddr::V6(own), IpAddr::V6(target)) => {
                Some(nd::solicitation(self.mac, own, target, known))
            }
            _ => None,
        }
    }

    fn receive_arp(&mut self, packet: &ArpPacket, now_ns: u64) {
        let (sender, mac) = (IpAddr::V4(packet.sender), packet.sender_mac);
        if mac == self.mac {
            return;
        }
        let asks_us = self.is_own(packet.target.into());
        if self.is_own(sender) {
            self.conflicts += 1;
        } else if self.is_neighbour(sender) {
            let is_answer =
                packet.operation == ArpOperation::Reply && packet.target_mac == self.mac;
            self.cache.learn(
                match (asks_us, is_answer) {
                    (true, true) => {
                        NeighbourClaim { makes_entry: true, ..NeighbourClaim::answer(sender, mac) }
                    }
                    (true, false) => NeighbourClaim::question(sender, mac),
                    (false, _) => NeighbourClaim::update(sender, mac),
                },
                now_ns,
            );
        }
        if asks_us && packet.operation == ArpOperation::Request {
            self.answer(packet.reply(self.mac).frame(mac));
        }
    }

    fn receive_nd(&mut self, message: &NdMessage, sender_mac: MacAddr, now_ns: u64) {
        match message.kind {
            NdKind::Solicitation if self.is_own(message.target.into()) => {
                self.receive_solicitation(message, sender_mac, now_ns);
            }
            NdKind::Solicitation => {}
            NdKind::Advertisement(flags) => self.receive_advertisement(message, flags, now_ns),
        }
    }

    /// Answers a solicitation for an address of this interface (RFC 4861, 7.2.4).
    fn receive_solicitation(&mut self, message: &NdMessage, sender_mac: MacAddr, now_ns: u64) {
        let to = if message.source == Ipv6Addr::UNSPECIFIED {
            None
        } else {
            let source = message.source.into();
            if !self.is_neighbour(source) {
                self.conflicts += u64::from(self.is_own(source) && sender_mac != self.mac);
                return;
            }
            if let Some(mac) = message.mac {
                self.cache.learn(NeighbourClaim::question(source, mac), now_ns);
            }
            let mac = message.mac.or_else(|| self.cache.resolve(source, now_ns));
            Some((mac.unwrap_or(sender_mac), message.source))
        };
        let flags = self.flags(to.is_some());
        self.answer(nd::advertisement(self.mac, message.target, to, flags));
    }

    fn receive_advertisement(&mut self, message: &NdMessage, flags: NdFlags, now_ns: u64) {
        let address = IpAddr::V6(message.target);
        if self.is_own(address) {
            self.conflicts += u64::from(message.mac != Some(self.mac));
        } else if self.is_neighbour(address) {
            let claim = NeighbourClaim {
                address,
                mac: message.mac,
                makes_entry: false,
                is_solicited: flags.solicited,
                overrides: flags.override_cache,
                is_router: Some(flags.router),
            };
            self.cache.learn(claim, now_ns);
        }
    }

    /// Returns whether an address can belong to a neighbour. It must be the address of a single
    /// host on the link, and must not belong to this interface.
    fn is_neighbour(&self, address: IpAddr) -> bool {
        self.is_on_link(address) && !self.is_own(address) && self.group_mac(address).is_none()
    }

    const fn flags(&self, solicited: bool) -> NdFlags {
        let router = matches!(self.role, NeighbourRole::Router);
        NdFlags { router, solicited, override_cache: true }
    }

    fn answer(&mut self, frame: Vec<u8>) {
        if self.answers.len() < MAX_PENDING_ANSWERS {
            self.answers.push_back(frame);
        } else {
            self.unsent_answers += 1;
        }
    }
}
