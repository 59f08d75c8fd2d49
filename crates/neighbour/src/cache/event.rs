//! What a cache tells its owner.

use core::net::IpAddr;

use slipring_wire::MacAddr;

/// An event of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeighbourEvent<F> {
    /// Ask for this address: everyone, or the one host that had it. With neighbours that the kernel
    /// keeps, ask the kernel.
    Solicit {
        /// The address.
        target: IpAddr,
        /// The MAC address that had it.
        mac: Option<MacAddr>,
    },
    /// Send this frame now.
    Released {
        /// The neighbour that it waited for.
        next_hop: IpAddr,
        /// The neighbour's MAC address.
        mac: MacAddr,
        /// The frame.
        frame: F,
    },
    /// This frame is lost.
    Dropped {
        /// The neighbour that it waited for.
        next_hop: IpAddr,
        /// The frame.
        frame: F,
        /// The cause; it is counted.
        cause: HoldDropCause,
    },
    /// From now on, frames to this neighbour have this MAC address, or cannot be sent.
    Changed {
        /// The neighbour.
        neighbour: IpAddr,
        /// Its MAC address.
        mac: Option<MacAddr>,
    },
}

/// Why a frame that waited is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldDropCause {
    /// The neighbour did not answer. The sender should get an ICMP error.
    Unanswered,
    /// A newer frame took its place (RFC 4861, 7.2.2).
    Displaced,
    /// Newer neighbours took the place of its neighbour.
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
    /// It is longer than all that may wait.
    #[error("the frame is longer than all that may wait")]
    TooLong,
    /// All places are taken by neighbours in use.
    #[error("the table of neighbours is full")]
    TableFull,
}

/// What has happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NeighbourCounters {
    /// Frames that were kept.
    pub held: u64,
    /// Of these, frames released with an address.
    pub released: u64,
    /// Of these, frames lost, by [`HoldDropCause`].
    pub dropped: [u64; HoldDropCause::ALL.len()],
    /// Frames that could not be kept.
    pub refused: u64,
    /// Solicitations sent, of all kinds.
    pub solicited: u64,
    /// Neighbours that did not answer.
    pub failed: u64,
    /// Neighbours that gave way to others.
    pub evicted: u64,
    /// Claims for which there was no place.
    pub ignored_claims: u64,
}

impl NeighbourCounters {
    /// Frames lost for a cause.
    #[must_use]
    pub const fn dropped_for(&self, cause: HoldDropCause) -> u64 {
        self.dropped[cause as usize]
    }
}
