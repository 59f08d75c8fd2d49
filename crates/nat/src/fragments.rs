//! Remembers the translated addresses of fragmented packets. Later fragments carry no ports, so
//! they get the same address as the first fragment.

use alloc::collections::{BTreeMap, VecDeque};
use core::net::Ipv4Addr;

use crate::packet::Ipv4View;

/// Maximum number of fragmented packets that are remembered; the oldest are forgotten first.
const MAX_PACKETS: usize = 65_536;

/// Whether the fragment goes outwards, followed by its source, destination, identification and
/// protocol.
type NatFragmentKey = (bool, Ipv4Addr, Ipv4Addr, u16, u8);

#[derive(Clone, Debug, Default)]
pub(crate) struct NatFragments {
    /// For each fragmented packet, the address that replaces the inside host's end, and the entry's
    /// expiry time in ns.
    addresses: BTreeMap<NatFragmentKey, (Ipv4Addr, u64)>,
    /// Expiry time in ns and key of each entry, in order of expiry.
    expiry_queue: VecDeque<(u64, NatFragmentKey)>,
}

fn key(view: &Ipv4View, outwards: bool) -> NatFragmentKey {
    (outwards, view.src, view.dst, view.id, view.proto.0)
}

impl NatFragments {
    /// Records that the first fragment with the header `view` was translated to `address`.
    pub(crate) fn remember(
        &mut self,
        view: &Ipv4View,
        outwards: bool,
        address: Ipv4Addr,
        until: u64,
    ) {
        if self.expiry_queue.len() >= MAX_PACKETS {
            self.forget_oldest();
        }
        let key = key(view, outwards);
        self.addresses.insert(key, (address, until));
        self.expiry_queue.push_back((until, key));
    }

    /// Finds the address for a later fragment. The caller must call [`Self::expire`] first.
    pub(crate) fn find(&self, view: &Ipv4View, outwards: bool) -> Option<Ipv4Addr> {
        self.addresses.get(&key(view, outwards)).map(|(address, _)| *address)
    }

    pub(crate) fn expire(&mut self, now: u64) {
        while self.expiry_queue.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }

    fn forget_oldest(&mut self) {
        let Some((until, key)) = self.expiry_queue.pop_front() else { return };
        // The packet may have been added again with a later expiry time. In that case its entry
        // stays.
        if self.addresses.get(&key).is_some_and(|(_, known_until)| *known_until == until) {
            self.addresses.remove(&key);
        }
    }
}
