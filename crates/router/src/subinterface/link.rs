//! One subinterface: its neighbours, and which frames go between the wire and the kernel.
//!
//! ```text
//!   wire --> receive ------------> kernel (the TAP)        wire <--- accept_from_kernel <-- kernel
//!              | requests for own addresses: answered        | requests of the kernel: answered,
//!              | answers: learned, and go on to the kernel   | or asked on the wire once for both
//!   packets without a MAC address --> hold --> pop: solicitations, released and lost packets
//! ```
//!
//! The router owns address resolution on the wire: it answers for the addresses of the device, and
//! it alone broadcasts requests for addresses on the link. The kernel keeps a table of neighbours
//! for its own packets. The kernel's requests for addresses on the link end here; it receives the
//! answers to the router's own requests. So for each such address only the router asks and answers,
//! `ip neigh` shows what the kernel uses, and an address scan only fills bounded tables.
//!
//! # Invariants
//! 1. No request for an address reaches the kernel, and no answer for an own address comes from it.
//! 2. Memory is bounded by `NeighbourLimits` and [`MAX_ANSWERS`].
//! 3. Each packet that [`SubinterfaceLink::hold`] took comes out of [`SubinterfaceLink::pop`] once.

use std::collections::VecDeque;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use slipring_fib::FibPortIndex;
use slipring_neighbour::arp::{ArpOperation, ArpPacket};
use slipring_neighbour::nd::{self, NdFlags, NdKind, NdMessage};
use slipring_neighbour::{
    HoldDropCause, NeighbourClaim, NeighbourInput, NeighbourInterface, NeighbourLimits,
    NeighbourOutput, NeighbourRole, NeighbourState, Subnet,
};
use slipring_route::HeldPacket;
use slipring_wire::MacAddr;
use slipring_wire::assigned::EtherType;

/// Bytes of a link header without tags.
const HEADER_LEN: usize = 14;
/// Maximum number of waiting answers to the kernel. Further requests are not answered.
const MAX_ANSWERS: usize = 64;
/// Limits of the neighbours of a subinterface. For a neighbour, packets of as many bytes may wait
/// as in the kernel.
pub(crate) const LIMITS: NeighbourLimits = NeighbourLimits {
    entries: 65_536,
    incomplete: 4_096,
    frames_per_neighbour: 128,
    bytes_per_neighbour: 208 << 10,
    frames: 4_096,
    bytes: 8 << 20,
};

/// What happens to a frame after the link has processed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkVerdict {
    /// The frame goes on: from the wire to the kernel, or from the kernel to the wire.
    Pass,
    /// The frame ends here.
    Consumed,
    /// The frame is an invalid message of address resolution, and ends here.
    Invalid,
}

/// A packet that waits for its next hop.
#[derive(Debug)]
pub(crate) struct WaitingPacket {
    /// Number of the thread whose engine has counted the packet.
    pub(crate) owner: usize,
    pub(crate) held: HeldPacket,
    pub(crate) frame: Vec<u8>,
}

/// An action for the caller. Frames have no tags.
#[derive(Debug)]
pub(crate) enum SubinterfaceOutput {
    /// Send a frame on the wire.
    Wire(Vec<u8>),
    /// Give the kernel a frame.
    Kernel(Vec<u8>),
    /// Send a packet, whose next hop has this MAC address.
    Released(WaitingPacket, MacAddr),
    /// Drop a packet.
    Lost(WaitingPacket, HoldDropCause),
}

/// A neighbour whose MAC address is known.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KnownNeighbour {
    pub(super) address: IpAddr,
    pub(super) mac: [u8; 6],
    pub(super) is_router: bool,
    pub(super) is_reachable: bool,
}

/// A subinterface without its ports: its addresses, neighbours and waiting packets.
#[derive(Debug)]
pub(crate) struct SubinterfaceLink {
    neighbours: NeighbourInterface<WaitingPacket>,
    answers: VecDeque<Vec<u8>>,
    /// Number of invalid messages of address resolution.
    pub(crate) invalid: u64,
}

impl SubinterfaceLink {
    /// Makes a link that has no addresses yet.
    pub(crate) fn new(mac: MacAddr, limits: NeighbourLimits, seed: u64) -> Self {
        let role = NeighbourRole::Router;
        let neighbours = NeighbourInterface::new(mac, Vec::new(), role, limits, seed);
        Self { neighbours, answers: VecDeque::new(), invalid: 0 }
    }

    /// Sets the MAC address of the device, and its addresses with their prefix lengths.
    pub(crate) fn set_addresses(&mut self, mac: MacAddr, addresses: &[(IpAddr, u8)]) {
        let subnets =
            addresses.iter().filter_map(|(address, len)| Subnet::new(*address, *len).ok());
        self.neighbours.set_addresses(mac, subnets.collect());
    }

    /// The neighbours.
    pub(crate) const fn neighbours(&self) -> &NeighbourInterface<WaitingPacket> {
        &self.neighbours
    }

    /// Processes a frame from the wire that is meant for the kernel. The result says whether the
    /// kernel gets it.
    pub(crate) fn receive(&mut self, frame: &[u8], now_ns: u64) -> LinkVerdict {
        match self.neighbours.receive(frame, now_ns) {
            NeighbourInput::Other => LinkVerdict::Pass,
            NeighbourInput::Handled if self.is_answer(frame) => LinkVerdict::Pass,
            NeighbourInput::Handled => LinkVerdict::Consumed,
            NeighbourInput::InvalidArp(_) | NeighbourInput::InvalidNd(_) => {
                self.invalid += 1;
                LinkVerdict::Invalid
            }
        }
    }

    /// Returns whether a valid message of address resolution announces an address and does not
    /// request one: an ARP reply, a neighbour advertisement, or another host's ARP announcement.
    fn is_answer(&self, frame: &[u8]) -> bool {
        let payload = frame.get(HEADER_LEN..).unwrap_or_default();
        if ethertype(frame) != Some(EtherType::ARP) {
            let message = NdMessage::parse(payload);
            return matches!(message, Some(Ok(it)) if it.kind != NdKind::Solicitation);
        }
        ArpPacket::parse(payload).is_ok_and(|arp| match arp.operation {
            ArpOperation::Reply => true,
            ArpOperation::Request => {
                arp.sender == arp.target && !self.neighbours.is_own(arp.sender.into())
            }
        })
    }

    /// Processes a frame that the kernel has sent to the TAP device. The result says whether it
    /// goes to the wire.
    pub(crate) fn accept_from_kernel(&mut self, frame: &[u8], now_ns: u64) -> LinkVerdict {
        let Some(request) = KernelRequest::parse(frame) else { return LinkVerdict::Pass };
        if !self.neighbours.is_on_link(request.target()) {
            return LinkVerdict::Pass;
        }
        match self.neighbours.resolve(request.target(), now_ns) {
            Some(mac) if self.answers.len() < MAX_ANSWERS => {
                let entry = self.neighbours.cache().get(request.target(), now_ns);
                let is_router = entry.is_some_and(|entry| entry.is_router);
                self.answers.push_back(request.answer(mac, is_router));
            }
            Some(_) => {}
            // If the table is full, no request is sent. The kernel gives up after three requests of
            // its own.
            None => drop(self.neighbours.cache_mut().solicit(request.target(), now_ns)),
        }
        LinkVerdict::Consumed
    }

    /// Keeps a packet until its next hop has answered.
    ///
    /// # Errors
    /// The packet, if there is no space for it, or if its next hop is not on the link.
    pub(crate) fn hold(&mut self, packet: WaitingPacket, now_ns: u64) -> Result<(), WaitingPacket> {
        let next_hop = packet.held.next_hop;
        if !self.neighbours.is_on_link(next_hop) {
            return Err(packet);
        }
        let len = packet.frame.len() as u32;
        self.neighbours.hold(next_hop, packet, len, now_ns).map_err(|(packet, _)| packet)
    }

    /// Returns the neighbours whose MAC addresses are known.
    pub(super) fn known(&self, now_ns: u64) -> Vec<KnownNeighbour> {
        let known = self.neighbours.cache().iter(now_ns).filter_map(|entry| {
            Some(KnownNeighbour {
                address: entry.address,
                mac: entry.mac?.0,
                is_router: entry.is_router,
                is_reachable: entry.state == NeighbourState::Reachable,
            })
        });
        known.collect()
    }

    /// Learns neighbours that another router knew. Those that it had not confirmed lately are
    /// probed after their next use.
    pub(super) fn learn(&mut self, known: &[KnownNeighbour], now_ns: u64) {
        for of in known {
            let is_router = Some(of.is_router);
            let claim = NeighbourClaim::question(of.address, MacAddr(of.mac));
            self.neighbours.cache_mut().learn(NeighbourClaim { is_router, ..claim }, now_ns);
            if of.is_reachable {
                self.neighbours.cache_mut().confirm(of.address, now_ns);
            }
        }
    }

    /// Returns the packets that wait, except those that the router has made: the port at which each
    /// arrived, its thread and its frame.
    pub(super) fn waiting(&self) -> Vec<(FibPortIndex, usize, Vec<u8>)> {
        let waiting = self.neighbours.cache().waiting_frames();
        let arrived = waiting.filter(|packet| !packet.held.is_own());
        arrived.map(|it| (it.held.ingress(), it.owner, it.frame.clone())).collect()
    }

    /// Repeats solicitations that were not answered, and gives up neighbours after the last
    /// attempt.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        self.neighbours.tick(now_ns);
    }

    /// When [`Self::tick`] is due next.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.neighbours.next_ns()
    }

    /// Removes and returns the next action for the caller; `None` if there is none.
    pub(crate) fn pop(&mut self) -> Option<SubinterfaceOutput> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(SubinterfaceOutput::Kernel(answer));
        }
        loop {
            return Some(match self.neighbours.pop()? {
                NeighbourOutput::Message(frame) => SubinterfaceOutput::Wire(frame),
                NeighbourOutput::Released { mac, frame, .. } => {
                    SubinterfaceOutput::Released(frame, mac)
                }
                NeighbourOutput::Dropped { frame, cause, .. } => {
                    SubinterfaceOutput::Lost(frame, cause)
                }
                NeighbourOutput::Changed { .. } => continue,
            });
        }
    }
}

fn ethertype(frame: &[u8]) -> Option<EtherType> {
    let bytes = frame.get(12..HEADER_LEN)?;
    Some(EtherType(u16::from_be_bytes([bytes[0], bytes[1]])))
}

/// A request by which the kernel wants to find a neighbour. Probes of known neighbours, duplicate
/// address detection and announcements go to the wire; they are not requests in this sense.
#[derive(Debug)]
enum KernelRequest {
    Arp(ArpPacket),
    Nd(NdMessage, MacAddr),
}

impl KernelRequest {
    fn parse(frame: &[u8]) -> Option<Self> {
        let destination = MacAddr(*frame.first_chunk()?);
        if !destination.is_multicast() {
            return None;
        }
        let payload = frame.get(HEADER_LEN..)?;
        match ethertype(frame)? {
            EtherType::ARP => {
                let arp = ArpPacket::parse(payload).ok()?;
                let is_search = arp.operation == ArpOperation::Request
                    && !arp.sender.is_unspecified()
                    && arp.sender != arp.target;
                is_search.then_some(Self::Arp(arp))
            }
            EtherType::IPV6 => {
                let message = NdMessage::parse(payload)?.ok()?;
                let is_search =
                    message.kind == NdKind::Solicitation && !message.source.is_unspecified();
                let sender = MacAddr(*frame.get(6..)?.first_chunk()?);
                is_search.then_some(Self::Nd(message, sender))
            }
            _ => None,
        }
    }

    fn target(&self) -> IpAddr {
        match self {
            Self::Arp(arp) => arp.target.into(),
            Self::Nd(message, _) => message.target.into(),
        }
    }

    /// Returns the frame with which the neighbour itself would answer this request.
    fn answer(&self, mac: MacAddr, is_router: bool) -> Vec<u8> {
        match self {
            Self::Arp(arp) => arp.reply(mac).frame(arp.sender_mac),
            Self::Nd(message, sender) => {
                let flags = NdFlags { router: is_router, solicited: true, override_cache: true };
                nd::advertisement(mac, message.target, Some((*sender, message.source)), flags)
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
