//! A neighbour in the cache.

use core::net::IpAddr;

use slipring_wire::MacAddr;

use super::hold::HoldQueue;

/// The state of a neighbour (RFC 4861, 7.3.2; Linux's `NUD_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NeighbourState {
    /// The neighbour's MAC address is being solicited and is not known yet.
    Incomplete,
    /// The neighbour has answered, or has been confirmed, recently.
    Reachable,
    /// The reachable time is over, or the neighbour has only claimed its MAC address. The address
    /// is used, but after its next use the neighbour is probed.
    Stale,
    /// The neighbour was stale and has been used. It will be probed, unless it is confirmed before.
    Delay,
    /// The neighbour is being probed with unicast solicitations.
    Probe,
    /// The neighbour has not answered. The next frame for it starts a new solicitation.
    Failed,
    /// The kernel or an administrator maintains the neighbour.
    Installed,
}

/// One row of a listing of neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourView {
    /// The neighbour's IP address.
    pub address: IpAddr,
    /// The neighbour's MAC address; `None` if it is not known.
    pub mac: Option<MacAddr>,
    /// The state of the neighbour.
    pub state: NeighbourState,
    /// Whether the neighbour has advertised that it is a router.
    pub is_router: bool,
    /// Number of frames that wait for the neighbour.
    pub waiting: usize,
    /// Time at which the neighbour was last used or confirmed, in ns.
    pub active_ns: u64,
}

#[derive(Debug)]
pub(super) struct NeighbourEntry<F> {
    pub(super) state: NeighbourState,
    mac: MacAddr,
    pub(super) is_router: bool,
    /// Whether the neighbour has been confirmed with its current MAC address.
    pub(super) was_confirmed: bool,
    /// Number of solicitations that were sent in this state.
    pub(super) solicits: u8,
    /// Time until which the neighbour counts as reachable, in ns.
    pub(super) fresh_until_ns: u64,
    /// Time at which the neighbour was last used or confirmed, in ns.
    pub(super) active_ns: u64,
    /// Time at which the entry's timer is due, in ns; `None` if no timer runs.
    pub(super) deadline_ns: Option<u64>,
    /// The number of the entry among the incomplete entries, which are numbered in the order of
    /// their creation.
    pub(super) sequence: u64,
    pub(super) queue: HoldQueue<F>,
}

impl<F> NeighbourEntry<F> {
    /// Creates an entry whose MAC address is being solicited.
    pub(super) const fn incomplete(sequence: u64, now_ns: u64) -> Self {
        Self {
            state: NeighbourState::Incomplete,
            mac: MacAddr::ZERO,
            is_router: false,
            was_confirmed: false,
            solicits: 0,
            fresh_until_ns: 0,
            active_ns: now_ns,
            deadline_ns: None,
            sequence,
            queue: HoldQueue::new(),
        }
    }

    /// Creates an entry for a neighbour that has not answered, or whose MAC address will be set
    /// immediately.
    pub(super) fn failed(active_ns: u64) -> Self {
        Self { state: NeighbourState::Failed, ..Self::incomplete(u64::MAX, active_ns) }
    }

    /// The MAC address, if it is known.
    pub(super) const fn mac(&self) -> Option<MacAddr> {
        match self.state {
            NeighbourState::Incomplete | NeighbourState::Failed => None,
            _ => Some(self.mac),
        }
    }

    /// Sets the MAC address and the state. If the address differs from the previous one, the
    /// neighbour counts as not confirmed.
    pub(super) fn set_mac(&mut self, mac: MacAddr, state: NeighbourState) {
        self.was_confirmed &= self.mac == mac;
        self.mac = mac;
        self.state = state;
        self.solicits = 0;
        self.sequence = u64::MAX;
    }

    pub(super) const fn is_installed(&self) -> bool {
        matches!(self.state, NeighbourState::Installed)
    }

    /// Returns the state at `now_ns`. It is Stale instead of Reachable if the reachable time is
    /// over.
    pub(super) const fn state_at(&self, now_ns: u64) -> NeighbourState {
        match self.state {
            NeighbourState::Reachable if now_ns >= self.fresh_until_ns => NeighbourState::Stale,
            state => state,
        }
    }

    /// Returns whether another entry may replace this one. This is so if the neighbour has failed.
    /// A stale neighbour may be replaced if it was never confirmed with its MAC address, or has
    /// been neither used nor reachable for `stale_lifetime_ns`.
    pub(super) fn is_dispensable(&self, stale_lifetime_ns: u64, now_ns: u64) -> bool {
        match self.state_at(now_ns) {
            NeighbourState::Failed => true,
            NeighbourState::Stale => {
                let idle_since_ns = self.active_ns.max(self.fresh_until_ns);
                !self.was_confirmed || now_ns >= idle_since_ns.saturating_add(stale_lifetime_ns)
            }
            _ => false,
        }
    }

    pub(super) fn view(&self, address: IpAddr, now_ns: u64) -> NeighbourView {
        NeighbourView {
            address,
            mac: self.mac(),
            state: self.state_at(now_ns),
            is_router: self.is_router,
            waiting: self.queue.len(),
            active_ns: self.active_ns,
        }
    }
}
