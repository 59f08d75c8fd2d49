//! Learns which neighbour (MAC address and port) has an IP address, so that `fwd` can send a frame
//! to a next hop.

use std::net::IpAddr;

use slipring_ipfw::rule::NextHop;
use slipring_ipfw::run::PortIndex;
use slipring_neighbour::{SnoopTable, SnoopedAddress};

/// Maximum number of neighbours that are stored. Without a limit, a host that claims many addresses
/// could exhaust memory.
const MAX_NEIGHBORS: usize = 65_536;

/// A neighbour's addresses, learned from a frame, and the port where that frame arrived.
pub type LearnedNeighbor = (SnoopedAddress, PortIndex);

/// The neighbours that were learned from ARP and neighbour discovery.
#[derive(Debug)]
pub(super) struct NeighborTable {
    /// Whether a rule uses the table. If not, nothing is learned.
    pub(super) is_needed: bool,
    table: SnoopTable<PortIndex>,
}

impl Default for NeighborTable {
    fn default() -> Self {
        Self { is_needed: false, table: SnoopTable::new(MAX_NEIGHBORS) }
    }
}

impl NeighborTable {
    /// Learns the neighbour that has sent a frame. Returns the neighbour if it is new or
    /// has changed.
    pub(super) fn learn(&mut self, frame: &[u8], from: PortIndex) -> Option<LearnedNeighbor> {
        let learned = (SnoopedAddress::of(frame)?, from);
        self.insert(learned).then_some(learned)
    }

    /// Stores a neighbour. Returns whether the table has changed.
    pub(super) fn insert(&mut self, (address, port): LearnedNeighbor) -> bool {
        self.table.insert(address, port)
    }

    /// Sets the destination MAC address of a frame to that of the next hop, and returns the next
    /// hop's port; `None` if the next hop is unknown.
    pub(super) fn resolve(&mut self, hop: &NextHop, frame: &mut [u8]) -> Option<PortIndex> {
        let address = match hop {
            NextHop::V4(address, _) => IpAddr::V4(*address),
            NextHop::V6(address, _) => IpAddr::V6(*address),
            NextHop::Port(_) | NextHop::Tablearg(_) => return None,
        };
        let (mac, port) = self.table.resolve(address)?;
        frame.get_mut(..6)?.copy_from_slice(&mac.0);
        Some(port)
    }
}
