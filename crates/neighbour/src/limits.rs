//! The timers and the limits of a cache.

const SECOND_NS: u64 = 1_000_000_000;

/// The timers of a cache. Their defaults are those of RFC 4861, section 10, except
/// `stale_lifetime_ns`, which the RFC does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourTimers {
    /// How long a confirmed neighbour counts as reachable, on average, in ns. For each
    /// confirmation, the time is drawn at random between half and one and a half times this value.
    pub base_reachable_ns: u64,
    /// Time between two solicitations of the same address, in ns.
    pub retransmit_ns: u64,
    /// Time for which a stale neighbour may be used before it is probed, in ns.
    pub delay_first_probe_ns: u64,
    /// Maximum number of multicast solicitations before an unknown address counts as unreachable.
    pub max_multicast_solicits: u8,
    /// Maximum number of unicast solicitations before a stale neighbour counts as unreachable.
    pub max_unicast_solicits: u8,
    /// How long a stale neighbour that was once confirmed stays in a full table, in ns. The time
    /// starts when it was last used or when its reachable time ended, whichever is later.
    pub stale_lifetime_ns: u64,
}

impl Default for NeighbourTimers {
    fn default() -> Self {
        Self {
            base_reachable_ns: 30 * SECOND_NS,
            retransmit_ns: SECOND_NS,
            delay_first_probe_ns: 5 * SECOND_NS,
            max_multicast_solicits: 3,
            max_unicast_solicits: 3,
            stale_lifetime_ns: 60 * SECOND_NS,
        }
    }
}

/// The limits on the memory of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourLimits {
    /// Maximum number of neighbours, in any state.
    pub entries: usize,
    /// Maximum number of addresses that are solicited at the same time while their MAC address is
    /// unknown. A further address replaces the oldest one. So a scan cannot block other addresses.
    pub incomplete: usize,
    /// Maximum number of frames that wait for one neighbour.
    pub frames_per_neighbour: usize,
    /// Maximum number of bytes in the frames that wait for one neighbour.
    pub bytes_per_neighbour: u64,
    /// Maximum number of waiting frames, summed over all neighbours.
    pub frames: usize,
    /// Maximum number of bytes in waiting frames, summed over all neighbours.
    pub bytes: u64,
}

impl Default for NeighbourLimits {
    fn default() -> Self {
        Self {
            entries: 65_536,
            incomplete: 4_096,
            frames_per_neighbour: 128,
            bytes_per_neighbour: 208 << 10,
            frames: 16_384,
            bytes: 16 << 20,
        }
    }
}
