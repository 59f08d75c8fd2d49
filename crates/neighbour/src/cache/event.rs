//! The events that a cache reports to its owner.

use core::net::IpAddr;

use slipring_wire::MacAddr;

/// An event of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeighbourEvent<F> {
    /// This address must be solicited: by multicast, or by unicast to `mac`. If the kernel
    /// maintains the neighbours, the caller queries the kernel instead.
    Solicit {
        /// The address to solicit.
        target: IpAddr,
        /// The last known MAC address of the neighbour; `None` for a multicast solicitation.
        mac: Option<MacAddr>,
    },
    /// A frame that waited can be sent now.
    Released {
        /// The neighbour for which the frame waited.
        next_hop: IpAddr,
        /// The neighbour's MAC address.
        mac: MacAddr,
        /// The frame.
        frame: F,
    },
    /// A frame that waited is lost.
    Dropped {
        /// The neighbour for which the frame waited.
        next_hop: IpAddr,
        /// The frame.
        frame: F,
        /// The cause of the loss.
        cause: HoldDropCause,
    },
    /// From now on, frames to this neighbour need this MAC address, or cannot be sent.
    Changed {
        /// The neighbour.
        neighbour: IpAddr,
        /// The neighbour's new MAC address; `None` if it is no longer known.
        mac: Option<MacAddr>,
    },
}

/// Why a frame that waited is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldDropCause {
    /// The neighbour did not answer. The frame's sender should get an ICMP error.
    Unanswered,
    /// A newer frame for the same neighbour took its place (RFC 4861, 7.2.2).
    Displaced,
    /// The neighbour's entry was removed to make space for another neighbour.
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
    /// The frame is longer than the limit for all waiting frames together.
    #[error("the frame is longer than all that may wait")]
    TooLong,
    /// The table is full, and all its entries are neighbours in use.
    #[error("the table of neighbours is full")]
    TableFull,
}

/// Counts of events so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NeighbourCounters {
    /// Frames that were stored.
    pub held: u64,
    /// Stored frames that were released with a MAC address.
    pub released: u64,
    /// Stored frames that were lost, by [`HoldDropCause`].
    pub dropped: [u64; HoldDropCause::ALL.len()],
    /// Frames that could not be stored.
    pub refused: u64,
    /// Solicitations of all kinds.
    pub solicited: u64,
    /// Neighbours that did not answer.
    pub failed: u64,
    /// Entries that were removed to make space for others.
    pub evicted: u64,
    /// Claims that would have made a new entry while the table had no space.
    pub ignored_claims: u64,
}

impl NeighbourCounters {
    /// Number of stored frames that were lost for this cause.
    #[must_use]
    pub const fn dropped_for(&self, cause: HoldDropCause) -> u64 {
        self.dropped[cause as usize]
    }
}
