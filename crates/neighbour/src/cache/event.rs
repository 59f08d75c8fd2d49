//! The events that a cache reports to its owner.

use core::net::IpAddr;

use slipring_wire::MacAddr;

/// An event of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeighbourEvent<F> {
    /// Solicit this address: by multicast, or from the one host that had the address. If the kernel
    /// maintains the neighbours, query the kernel.
    Solicit {
        /// The address.
        target: IpAddr,
        /// The MAC address of the host that had the address.
        mac: Option<MacAddr>,
    },
    /// The frame can be sent now.
    Released {
        /// The neighbour for which the frame waited.
        next_hop: IpAddr,
        /// The neighbour's MAC address.
        mac: MacAddr,
        /// The frame.
        frame: F,
    },
    /// The frame is lost.
    Dropped {
        /// The neighbour for which the frame waited.
        next_hop: IpAddr,
        /// The frame.
        frame: F,
        /// The cause of the drop, which is counted.
        cause: HoldDropCause,
    },
    /// From now on, frames to this neighbour have this MAC address, or cannot be sent.
    Changed {
        /// The neighbour.
        neighbour: IpAddr,
        /// The neighbour's MAC address.
        mac: Option<MacAddr>,
    },
}

/// Why a frame that waited is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldDropCause {
    /// The neighbour did not answer. The sender should get an ICMP error.
    Unanswered,
    /// A newer frame replaced this one (RFC 4861, 7.2.2).
    Displaced,
    /// The entry of the frame's neighbour was replaced by newer neighbours.
    Evicted,
    /// The neighbour was removed, or the link is down.
    Flushed,
}

impl HoldDropCause {
    /// All causes.
    pub const ALL: [Self; 4] = [Self::Unanswered, Self::Displaced, Self::Evicted, Self::Flushed];
}

/// Why a frame cannot wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HoldRefusal {
    /// The frame is longer than all frames together that may wait.
    #[error("the frame is longer than all that may wait")]
    TooLong,
    /// All entries are neighbours in use.
    #[error("the table of neighbours is full")]
    TableFull,
}

/// Counts of events so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NeighbourCounters {
    /// Frames that were kept.
    pub held: u64,
    /// Number of held frames that were released with an address.
    pub released: u64,
    /// Number of held frames that were lost, by [`HoldDropCause`].
    pub dropped: [u64; HoldDropCause::ALL.len()],
    /// Frames that could not be kept.
    pub refused: u64,
    /// Solicitations sent, of all kinds.
    pub solicited: u64,
    /// Neighbours that did not answer.
    pub failed: u64,
    /// Entries that were replaced by others.
    pub evicted: u64,
    /// Claims for which the table had no free entry.
    pub ignored_claims: u64,
}

impl NeighbourCounters {
    /// Frames lost for a cause.
    #[must_use]
    pub const fn dropped_for(&self, cause: HoldDropCause) -> u64 {
        self.dropped[cause as usize]
    }
}
