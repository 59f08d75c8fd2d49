//! The kernel's neighbours: the MAC addresses of IP addresses, by interface.

use core::net::IpAddr;
use core::ops::Bound;

use slipring_rtnetlink::{NeighbourMessage, NudState};
use slipring_wire::mac::MacAddr;

use crate::mirrored::{Mirrored, Origin};

/// The kernel's state of a neighbour, and its MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelNeighbour {
    pub state: NudState,
    pub mac: Option<MacAddr>,
}

impl KernelNeighbour {
    /// The MAC address, if frames may be sent to it.
    pub(crate) fn usable(self) -> Option<MacAddr> {
        self.mac.filter(|mac| self.state.is_valid() && *mac != MacAddr::ZERO && !mac.is_multicast())
    }
}

/// Neighbours by address and interface.
#[derive(Debug, Default)]
pub(crate) struct NeighbourTable {
    entries: Mirrored<(IpAddr, u32), KernelNeighbour>,
}

impl NeighbourTable {
    /// Stores a neighbour. Returns whether its usable MAC address has changed, or `None` if the
    /// neighbour is new and there are already `limit` neighbours.
    pub(crate) fn set(
        &mut self,
        message: &NeighbourMessage,
        origin: Origin,
        limit: usize,
    ) -> Option<bool> {
        let key = (message.address, message.ifindex);
        let before = self.entries.get(key).and_then(|entry| entry.usable());
        if self.entries.len() >= limit && self.entries.get(key).is_none() {
            return None;
        }
        let entry = KernelNeighbour { state: message.state, mac: message.mac.map(MacAddr) };
        self.entries.set(key, entry, origin);
        Some(before != self.mac(message.ifindex, message.address))
    }

    /// Removes a neighbour. Returns whether it was usable.
    pub(crate) fn remove(&mut self, ifindex: u32, address: IpAddr) -> bool {
        self.entries.remove((address, ifindex)).is_some_and(|entry| entry.usable().is_some())
    }

    /// Returns the kernel's state of a neighbour; `None` if the kernel does not have the neighbour.
    pub(crate) fn get(&self, ifindex: u32, address: IpAddr) -> Option<KernelNeighbour> {
        self.entries.get((address, ifindex)).copied()
    }

    /// The MAC address of a neighbour, if frames may be sent to it.
    pub(crate) fn mac(&self, ifindex: u32, address: IpAddr) -> Option<MacAddr> {
        self.entries.get((address, ifindex))?.usable()
    }

    /// The usable neighbours with addresses from `first` to `last`, ascending.
    pub(crate) fn usable_in(
        &self,
        first: IpAddr,
        last: IpAddr,
    ) -> impl Iterator<Item = (IpAddr, u32)> {
        let found = self.entries.range((first, 0)..=(last, u32::MAX));
        found.filter(|(_, entry)| entry.usable().is_some()).map(|(key, _)| key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ((IpAddr, u32), &KernelNeighbour)> {
        self.entries.iter()
    }

    /// Returns the neighbours that follow `key`, in ascending order; all of them if it is `None`.
    pub(crate) fn after(
        &self,
        key: Option<(IpAddr, u32)>,
    ) -> impl Iterator<Item = ((IpAddr, u32), &KernelNeighbour)> {
        let start = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries.range((start, Bound::Unbounded))
    }

    pub(crate) fn begin_dump(&mut self) {
        self.entries.begin_dump();
    }

    /// Ends the dump. If it was complete, removes the neighbours that no longer exist, and returns
    /// those of them that were usable.
    pub(crate) fn end_dump(&mut self, is_complete: bool) -> impl Iterator<Item = (IpAddr, u32)> {
        let removed = self.entries.end_dump(is_complete).into_iter();
        removed.filter(|(_, entry)| entry.usable().is_some()).map(|(key, _)| key)
    }
}
