//! Names of the kernel's kinds and states, as ip(8) writes them.

use slipring_rtnetlink::{NudState, RouteKind};

/// The name of what a route does with packets.
pub(crate) fn kind_name(kind: RouteKind) -> &'static str {
    match kind {
        RouteKind::Unicast => "unicast",
        RouteKind::Local => "local",
        RouteKind::Broadcast => "broadcast",
        RouteKind::Multicast => "multicast",
        RouteKind::Blackhole => "blackhole",
        RouteKind::Unreachable => "unreachable",
        RouteKind::Prohibit => "prohibit",
        _ => "other",
    }
}

/// The name of a state, as ip(8) writes it.
pub(crate) fn state_name(state: NudState) -> &'static str {
    match state.0 {
        NudState::INCOMPLETE => "INCOMPLETE",
        NudState::REACHABLE => "REACHABLE",
        NudState::STALE => "STALE",
        NudState::DELAY => "DELAY",
        NudState::PROBE => "PROBE",
        NudState::FAILED => "FAILED",
        NudState::NO_ARP => "NOARP",
        NudState::PERMANENT => "PERMANENT",
        _ => "NONE",
    }
}
