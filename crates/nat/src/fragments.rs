//! Where the later fragments of a packet go: they have no ports, so the first one tells.

use alloc::collections::{BTreeMap, VecDeque};
use core::net::Ipv4Addr;

use crate::packet::View;

/// Most packets in pieces that are remembered; the oldest go first.
const MAX_PACKETS: usize = 65_536;

/// Outwards or not, source, destination, identification, protocol.
type Key = (bool, Ipv4Addr, Ipv4Addr, u16, u8);

#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    /// The address that took the place of ours, and until when it does.
    known: BTreeMap<Key, (Ipv4Addr, u64)>,
    /// In order of time.
    ages: VecDeque<(u64, Key)>,
}

fn key(view: &View, outwards: bool) -> Key {
    (outwards, view.src, view.dst, view.id, view.proto.0)
}

impl Fragments {
    /// A first fragment, whose header was `view`, went on with `address` in it.
    pub(crate) fn remember(&mut self, view: &View, outwards: bool, address: Ipv4Addr, until: u64) {
        if self.ages.len() >= MAX_PACKETS {
            self.forget_oldest();
        }
        let key = key(view, outwards);
        self.known.insert(key, (address, until));
        self.ages.push_back((until, key));
    }

    /// The address for a later fragment.
    pub(crate) fn find(&self, view: &View, outwards: bool, now: u64) -> Option<Ipv4Addr> {
        let (address, until) = self.known.get(&key(view, outwards))?;
        (*until > now).then_some(*address)
    }

    pub(crate) fn expire(&mut self, now: u64) {
        while self.ages.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    fn forget_oldest(&mut self) {
        let Some((until, key)) = self.ages.pop_front() else { return };
        // The same key may have come again since.
        if self.known.get(&key).is_some_and(|(_, known_until)| *known_until == until) {
            self.known.remove(&key);
        }
    }
}
