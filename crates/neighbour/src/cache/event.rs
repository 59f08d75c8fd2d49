//! The events that a cache reports to its owner.

use core::net::IpAddr;

use slipring_wire::MacAddr;

/// An event of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeighbourEvent<F> {
    /// The address `target` must be solicited: by multicast if `mac` is `None`, otherwise by
    /// unicast to `mac`. If the kernel maintains the neighbours, the caller queries the kernel
    /// instead.
    Solicit {
        /// The IP address to solicit.
        target: IpAddr,
        /// The last known MAC address of the neighbour; `None` for a multicast solicitation.
        mac: Option<MacAddr>,
    },
    /// A frame that has waited can be sent now.
    Released {
        /// The neighbour for which the frame waited.
        next_hop: IpAddr,
        /// The neighbour's MAC address.
        mac: MacAddr,
        /// The frame as it was passed to [`super::NeighbourCache::hold`].
        frame: F,
    },
    /// A frame that has waited is lost.
    Dropped {
        /// The neighbour for which the frame waited.
        next_hop: IpAddr,
        /// The frame as it was passed to [`super::NeighbourCache::hold`].
        frame: F,
        /// Why the frame is lost.
        cause: HoldDropCause,
    },
    /// Frames to this neighbour now need the MAC address `mac`, or can no longer be sent.
    Changed {
        /// The neighbour's IP address.
        neighbour: IpAddr,
        /// The neighbour's new MAC address; `None` if it is no longer known.
        mac: Option<MacAddr>,
    },
}

/// Why a frame that has waited is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldDropCause {
    /// The neighbour has not answered. The sender of the frame should get an ICMP error.
    Unanswered,
    /// A newer frame for the same neighbour has taken its place (RFC 4861, 7.2.2).
    Displaced,
    /// The neighbour's entry was removed to make space for another neighbour or its frames.
    Evicted,
    /// The neighbour was removed, or the link is down.
    Flushed,
}

impl HoldDropCause {
    /// All causes, in the order of their values.
    pub const ALL: [Self; 4] = [Self::Unanswered, Self::Displaced, Self::Evicted, Self::Flushed];
}

/// Why a frame cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HoldRefusal {
    /// The frame alone exceeds the limit on waiting bytes, per neighbour or in total.
    #[error("the frame is longer than all that may wait")]
    TooLong,
    /// The table is full, and no entry was found that may be removed.
    #[error("the table of neighbours is full")]
    TableFull,
}

/// How often each kind of event has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NeighbourCounters {
    /// Frames that were accepted. Those whose MAC address was known were released immediately.
    pub held: u64,
    /// Stored frames that were released with a MAC address.
    pub released: u64,
    /// Stored frames that were lost, by [`HoldDropCause`].
    pub dropped: [u64; HoldDropCause::ALL.len()],
    /// Frames that could not be stored, for any [`HoldRefusal`].
    pub refused: u64,
    /// Solicitations of all kinds.
    pub solicited: u64,
    /// Neighbours that did not answer.
    pub failed: u64,
    /// Entries that were removed to make space for other entries or their frames.
    pub evicted: u64,
    /// Claims for which no entry was created, because the table was full.
    pub ignored_claims: u64,
}

impl NeighbourCounters {
    /// Number of stored frames that were lost for `cause`.
    #[must_use]
    pub const fn dropped_for(&self, cause: HoldDropCause) -> u64 {
        self.dropped[cause as usize]
    }
}
