//! Maps addresses to neighbours: `fwd` needs it to send a frame to a next hop.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_ipfw::packet::PacketHeaders;
use slipring_ipfw::rule::NextHop;
use slipring_ipfw::run::PortIndex;

/// Most addresses that are stored: anyone on the link can claim some.
const MAX_NEIGHBORS: usize = 65_536;
const ETHERTYPE_ARP: u16 = 0x0806;
const PROTO_ICMPV6: u8 = 58;
const ICMPV6_NEIGHBOR_ADVERTISEMENT: u8 = 136;

/// A neighbour learned from a frame: its address, its port and its MAC address.
pub type LearnedNeighbor = (IpAddr, (PortIndex, [u8; 6]));

/// Neighbours learned from ARP and neighbour discovery.
#[derive(Debug, Default)]
pub(super) struct NeighborTable {
    /// Whether any rule needs the table.
    pub(super) is_needed: bool,
    entries: HashMap<IpAddr, (PortIndex, [u8; 6])>,
}

impl NeighborTable {
    /// Learns the sender of a frame. Returns it if it is new.
    pub(super) fn learn(&mut self, frame: &[u8], from: PortIndex) -> Option<LearnedNeighbor> {
        let (address, mac) = advertised_address(frame)?;
        self.insert((address, (from, mac))).then_some((address, (from, mac)))
    }

    /// Stores a neighbour. Returns whether that changed the table.
    pub(super) fn insert(&mut self, (address, place): LearnedNeighbor) -> bool {
        let has_room = self.entries.len() < MAX_NEIGHBORS || self.entries.contains_key(&address);
        has_room && self.entries.insert(address, place) != Some(place)
    }

    /// Sets the destination MAC address of a frame to the next hop. Returns the port of that hop.
    pub(super) fn resolve(&self, hop: &NextHop, frame: &mut [u8]) -> Option<PortIndex> {
        let address = match hop {
            NextHop::V4(address, _) => IpAddr::V4(*address),
            NextHop::V6(address, _) => IpAddr::V6(*address),
            NextHop::Port(_) | NextHop::Tablearg(_) => return None,
        };
        let &(port, mac) = self.entries.get(&address)?;
        frame.get_mut(..6)?.copy_from_slice(&mac);
        Some(port)
    }
}

fn advertised_address(frame: &[u8]) -> Option<(IpAddr, [u8; 6])> {
    let packet = PacketHeaders::parse(frame).ok()?;
    if packet.ethertype == ETHERTYPE_ARP {
        let arp = frame.get(packet.l3..)?;
        let mac = *arp.get(8..)?.first_chunk::<6>()?;
        let address = *arp.get(14..)?.first_chunk::<4>()?;
        let address = Ipv4Addr::from(address);
        return (!address.is_unspecified()).then_some((IpAddr::V4(address), mac));
    }
    if packet.proto == PROTO_ICMPV6 && packet.icmp.0 == ICMPV6_NEIGHBOR_ADVERTISEMENT {
        let target = *frame.get(packet.l4 + 8..)?.first_chunk::<16>()?;
        // The option with the link-layer address (RFC 4861, 4.6.1): type 2, one unit of 8 bytes.
        let option = frame.get(packet.l4 + 24..)?.first_chunk::<8>()?;
        let mac = *option[2..].first_chunk::<6>()?;
        return (option[..2] == [2, 1]).then_some((IpAddr::V6(Ipv6Addr::from(target)), mac));
    }
    None
}
