//! The claims of messages about neighbours, and their effect on the cache.

use core::net::IpAddr;

use slipring_wire::MacAddr;

use super::entry::NeighbourEntry;
use super::{NeighbourCache, NeighbourState};

/// What a message claims about a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourClaim {
    /// The neighbour's IP address.
    pub address: IpAddr,
    /// The neighbour's MAC address; `None` if the message does not contain it.
    pub mac: Option<MacAddr>,
    /// Whether an entry is created if the neighbour has none. This is set only for messages of
    /// neighbours that communicate with this interface.
    pub makes_entry: bool,
    /// Whether the message answers a solicitation of this interface. Such an answer proves that
    /// frames arrive in both directions.
    pub is_solicited: bool,
    /// Whether this MAC address replaces a different one in the cache.
    pub overrides: bool,
    /// Whether the neighbour is a router; `None` if the message does not say.
    pub is_router: Option<bool>,
}

impl NeighbourClaim {
    /// The claim of a message that answers a solicitation of this interface.
    #[must_use]
    pub const fn answer(address: IpAddr, mac: MacAddr) -> Self {
        Self { is_solicited: true, ..Self::update(address, mac) }
    }

    /// The claim of a message in which the neighbour solicits an address of this interface.
    #[must_use]
    pub const fn question(address: IpAddr, mac: MacAddr) -> Self {
        Self { makes_entry: true, ..Self::update(address, mac) }
    }

    /// The claim of a message that is not addressed to this interface alone.
    #[must_use]
    pub const fn update(address: IpAddr, mac: MacAddr) -> Self {
        Self {
            address,
            mac: Some(mac),
            makes_entry: false,
            is_solicited: false,
            overrides: true,
            is_router: None,
        }
    }
}

impl<F> NeighbourCache<F> {
    /// Applies a claim to the cache (RFC 4861, 7.2.3 and 7.2.5; RFC 826).
    pub fn learn(&mut self, claim: NeighbourClaim, now_ns: u64) {
        let neighbour = claim.address;
        let state = self.entries.get(&neighbour).map(|entry| entry.state_at(now_ns));
        match state {
            Some(NeighbourState::Installed) => {}
            Some(NeighbourState::Incomplete) => {
                if let Some(mac) = claim.mac {
                    self.set_mac(neighbour, mac, NeighbourState::Stale, now_ns);
                    self.note_answer(&claim, now_ns);
                }
            }
            None | Some(NeighbourState::Failed) => self.learn_unknown(&claim, state, now_ns),
            Some(state) => self.update(&claim, state, now_ns),
        }
    }

    /// Creates an entry for a neighbour that communicates with this interface. The entry is not
    /// confirmed even if the message claims to be an answer, because nothing was solicited.
    fn learn_unknown(
        &mut self,
        claim: &NeighbourClaim,
        state: Option<NeighbourState>,
        now_ns: u64,
    ) {
        let Some(mac) = claim.mac.filter(|_| claim.makes_entry) else { return };
        if state.is_none() {
            if !self.make_room(false, now_ns) {
                self.counters.ignored_claims += 1;
                return;
            }
            self.entries.insert(claim.address, NeighbourEntry::failed(now_ns));
        }
        self.set_mac(claim.address, mac, NeighbourState::Stale, now_ns);
        self.note_answer(&NeighbourClaim { is_solicited: false, ..*claim }, now_ns);
    }

    /// Applies a claim to an entry whose MAC address is known.
    fn update(&mut self, claim: &NeighbourClaim, state: NeighbourState, now_ns: u64) {
        let neighbour = claim.address;
        let Some(entry) = self.entries.get_mut(&neighbour) else { return };
        let new_mac = claim.mac.filter(|mac| entry.mac() != Some(*mac));
        match new_mac {
            // The MAC address differs but must not be replaced. It stays, and is verified when it
            // is used next.
            Some(_) if !claim.overrides => {
                if state == NeighbourState::Reachable {
                    entry.state = NeighbourState::Stale;
                    entry.fresh_until_ns = entry.fresh_until_ns.min(now_ns);
                }
                return;
            }
            Some(mac) => self.set_mac(neighbour, mac, NeighbourState::Stale, now_ns),
            None => {}
        }
        self.note_answer(claim, now_ns);
    }

    /// Records all fields of an accepted claim except the MAC address.
    fn note_answer(&mut self, claim: &NeighbourClaim, now_ns: u64) {
        if claim.is_solicited {
            self.set_reachable(claim.address, now_ns);
        }
        if let Some(entry) = self.entries.get_mut(&claim.address) {
            entry.is_router = claim.is_router.unwrap_or(entry.is_router);
        }
    }
}
