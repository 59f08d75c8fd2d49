//! Neighbours as a bridge sees them. A bridge has no addresses and sends no solicitations. It only
//! reads the messages that it forwards.

use alloc::collections::BTreeMap;
use core::net::IpAddr;
use core::ops::Bound;

use slipring_wire::assigned::EtherType;
use slipring_wire::{Headers, MacAddr};

use crate::arp::ArpPacket;
use crate::nd::{NdKind, NdMessage};

/// Maximum number of entries that are checked to find space for a new entry.
const MAX_INSPECTED: usize = 64;

/// The IP address and the MAC address that the sender of a frame claims to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnoopedAddress {
    /// The IP address that the sender claims.
    pub address: IpAddr,
    /// The MAC address that the sender claims.
    pub mac: MacAddr,
}

impl SnoopedAddress {
    /// Returns the addresses that the frame claims, if it is a valid ARP packet or neighbour
    /// advertisement; `None` for other frames, for ARP probes, and for advertisements without a MAC
    /// address. VLAN tags are skipped.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let headers = Headers::link(frame).ok()?;
        let payload = frame.get(usize::from(headers.l3)..)?;
        match headers.ethertype {
            EtherType::ARP => {
                let packet = ArpPacket::parse(payload).ok()?;
                let address = IpAddr::V4(packet.sender);
                let says = !packet.sender.is_unspecified();
                says.then_some(Self { address, mac: packet.sender_mac })
            }
            EtherType::IPV6 => {
                let message = NdMessage::parse(payload)?.ok()?;
                let is_advertisement = matches!(message.kind, NdKind::Advertisement(_));
                let mac = message.mac.filter(|_| is_advertisement)?;
                Some(Self { address: message.target.into(), mac })
            }
            _ => None,
        }
    }
}

/// A table of the addresses seen in frames. Each address has data of the caller, such as a port.
///
/// If the table is full, a search for space checks the addresses one after the other. A new address
/// replaces the first one that was not looked up since it was last checked. So an address in use
/// stays in the table, whatever other hosts claim.
#[derive(Debug)]
pub struct SnoopTable<P> {
    entries: BTreeMap<IpAddr, SnoopEntry<P>>,
    capacity: usize,
    hand: Option<IpAddr>,
}

#[derive(Debug, Clone, Copy)]
struct SnoopEntry<P> {
    mac: MacAddr,
    port: P,
    is_used: bool,
}

impl<P: Copy + PartialEq> SnoopTable<P> {
    /// Creates an empty table for at most `capacity` addresses.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { entries: BTreeMap::new(), capacity, hand: None }
    }

    /// Stores an address with the caller's data. Returns whether the table has changed.
    pub fn insert(&mut self, SnoopedAddress { address, mac }: SnoopedAddress, port: P) -> bool {
        if let Some(entry) = self.entries.get_mut(&address) {
            let changed = (entry.mac, entry.port) != (mac, port);
            (entry.mac, entry.port) = (mac, port);
            return changed;
        }
        if self.entries.len() >= self.capacity && !self.evict() {
            return false;
        }
        self.entries.insert(address, SnoopEntry { mac, port, is_used: false });
        true
    }

    /// Returns the MAC address and the caller's data for an address, and marks the address as used;
    /// `None` if the address is not in the table.
    pub fn resolve(&mut self, address: IpAddr) -> Option<(MacAddr, P)> {
        let entry = self.entries.get_mut(&address)?;
        entry.is_used = true;
        Some((entry.mac, entry.port))
    }

    /// The number of addresses in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the table has no addresses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Continues the search for an address that was not looked up since it was last checked, and
    /// removes it. Returns `false` if none of the next [`MAX_INSPECTED`] addresses can be removed.
    fn evict(&mut self) -> bool {
        for _ in 0..MAX_INSPECTED.min(self.entries.len()) {
            let start = self.hand.map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.entries.range_mut((start, Bound::Unbounded)).next();
            let Some((&address, entry)) = next else {
                self.hand = None;
                continue;
            };
            self.hand = Some(address);
            if !core::mem::take(&mut entry.is_used) {
                self.entries.remove(&address);
                return true;
            }
        }
        false
    }
}
