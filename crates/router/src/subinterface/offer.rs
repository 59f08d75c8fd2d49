//! The sockets and devices that a running router offers.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipring_port::iface::Iface;
use slipring_port::{InheritedSocket, SocketRing, tap};

use super::own::OwnSubinterface;

/// What a running router offers of the subinterfaces that it has made.
#[derive(Debug, Default)]
pub(crate) struct SubinterfaceOffer {
    /// The sockets of each parent, by its index.
    wires: Vec<(u32, Vec<InheritedSocket>)>,
    /// The queues of each device, by the name of its subinterface.
    devices: Vec<(String, Vec<OwnedFd>)>,
}

/// The document of an offer.
#[derive(Serialize, Deserialize)]
pub(super) struct OfferDocument {
    /// The index of each parent, and the rings of its sockets: frame size, frames per block,
    /// blocks.
    pub(super) wires: Vec<(u32, Vec<[u32; 3]>)>,
    /// The name of each subinterface, and the number of its device's queues.
    pub(super) devices: Vec<(String, usize)>,
}

impl SubinterfaceOffer {
    /// Reads an offer; `None` if the document is not a valid offer, or if descriptors are missing.
    pub(crate) fn read(document: &Value, fds: &mut impl Iterator<Item = OwnedFd>) -> Option<Self> {
        let OfferDocument { wires, devices } = OfferDocument::deserialize(document).ok()?;
        let mut socket = |[frame_size, frames_per_block, blocks]: [u32; 3]| {
            let ring = SocketRing { frame_size, frames_per_block, blocks, position: 0 };
            Some(InheritedSocket { socket: fds.next()?, ring })
        };
        let mut offer = Self::default();
        for (ifindex, rings) in wires {
            let sockets = rings.into_iter().map(&mut socket).collect::<Option<_>>()?;
            offer.wires.push((ifindex, sockets));
        }
        for (name, count) in devices {
            let queues: Vec<_> = fds.take(count).collect();
            (queues.len() == count).then(|| offer.devices.push((name, queues)))?;
        }
        Some(offer)
    }

    /// Closes the descriptors that these subinterfaces do not use. Those of a device that was
    /// deleted, or moved to another network namespace, are of no use.
    pub(crate) fn keep(&mut self, own: &[OwnSubinterface]) {
        self.wires.retain(|(ifindex, _)| own.iter().any(|it| it.parent.index == *ifindex));
        self.devices.retain(|(name, queues)| {
            own.iter().any(|it| it.name == *name) && tap::device_of(queues).is_ok()
        });
    }

    /// The name of a parent whose number of receive queues differs from its number of sockets;
    /// `None` if there is none.
    pub(crate) fn changed_parent<'o>(&self, own: &'o [OwnSubinterface]) -> Option<&'o str> {
        let has_changed = |it: &&OwnSubinterface| {
            let of = self.wires.iter().find(|(ifindex, _)| *ifindex == it.parent.index);
            of.is_some_and(|(_, sockets)| sockets.len() != it.parent.rx_queues as usize)
        };
        own.iter().find(has_changed).map(|it| it.parent.name.as_str())
    }

    /// The smallest number of queues of a device; `None` without devices. A device that exists gets
    /// no further queues, since packets would go to them while the predecessor forwards.
    pub(crate) fn queues(&self) -> Option<usize> {
        self.devices.iter().map(|(_, queues)| queues.len()).min()
    }

    pub(super) fn take_wire(&mut self, iface: &Iface) -> Option<Vec<InheritedSocket>> {
        let at = self.wires.iter().position(|(ifindex, _)| *ifindex == iface.index)?;
        Some(self.wires.swap_remove(at).1)
    }

    pub(super) fn take_device(&mut self, name: &str) -> Option<Vec<OwnedFd>> {
        let at = self.devices.iter().position(|(of, _)| of == name)?;
        Some(self.devices.swap_remove(at).1)
    }
}

/// Returns the value of a key, which is added if it is not there yet.
pub(super) fn entry<K: PartialEq, V: Default>(entries: &mut Vec<(K, V)>, key: K) -> &mut V {
    let at = entries.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
        entries.push((key, V::default()));
        entries.len() - 1
    });
    &mut entries[at].1
}
