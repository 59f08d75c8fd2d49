//! Where the later fragments of a packet go: they have no ports, so the first one tells.

use alloc::collections::{BTreeMap, VecDeque};
use core::net::Ipv4Addr;

use crate::packet::Ipv4View;

/// Most packets in pieces that are remembered; the oldest go first.
const MAX_PACKETS: usize = 65_536;

/// Outwards or not, source, destination, identification, protocol.
type NatFragmentKey = (bool, Ipv4Addr, Ipv4Addr, u16, u8);

#[derive(Clone, Debug, Default)]
pub(crate) struct NatFragments {
    /// The address that took the place of ours, and until when it does.
    addresses: BTreeMap<NatFragmentKey, (Ipv4Addr, u64)>,
    /// In order of time.
    expiry_queue: VecDeque<(u64, NatFragmentKey)>,
}

fn key(view: &Ipv4View, outwards: bool) -> NatFragmentKey {
    (outwards, view.src, view.dst, view.id, view.proto.0)
}

impl NatFragments {
    /// A first fragment, whose header was `view`, went on with `address` in it.
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

    /// The address for a later fragment.
    pub(crate) fn find(&self, view: &Ipv4View, outwards: bool, now: u64) -> Option<Ipv4Addr> {
        let (address, until) = self.addresses.get(&key(view, outwards))?;
        (*until > now).then_some(*address)
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
        // The same key may have come again since.
        if self.addresses.get(&key).is_some_and(|(_, known_until)| *known_until == until) {
            self.addresses.remove(&key);
        }
    }
}
