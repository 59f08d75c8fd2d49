//! What happened to packets, and the counters of these outcomes.

use crate::translator::NatDirection;

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatOutcome {
    /// The packet belongs to a flow and has been translated.
    Translated,
    /// The packet belongs to a flow whose inside and outside ends are equal, so it passes
    /// unchanged.
    Unmodified,
    /// The instance does not translate the packet, which passes unchanged.
    Untouched,
    /// The packet must be dropped.
    Dropped(NatDropReason),
}

/// Why a packet must be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NatDropReason {
    /// The packet has no valid IPv4 header, or is too short to be translated.
    Malformed,
    /// `deny_in`: the packet comes from outside, belongs to no flow, and matches no redirection of
    /// a port or protocol.
    Refused,
    /// The instance has no address yet.
    NoAddress,
    /// No free port toward the packet's remote end was found.
    Exhausted,
    /// Another flow has the same protocol and remote end, and the same inside or outside end. No
    /// other port could distinguish the two, because the protocol's ports cannot be changed or a
    /// redirection determines the port.
    Collision,
    /// The maximum number of flows is reached.
    Full,
    /// A later fragment came from outside, and its first fragment is not known.
    UnknownFragment,
}

/// Counters of a `nat` instance, in packets unless noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatCounters {
    /// Packets translated on the way out.
    pub out: u64,
    /// Packets translated on the way in.
    pub inwards: u64,
    /// Packets that passed unchanged.
    pub untouched: u64,
    /// Number of flows created.
    pub created: u64,
    /// Number of flows that have ended.
    pub ended: u64,
    /// Number of flows that could not keep their port because another flow was using it.
    pub port_taken: u64,
    /// Packets dropped as [`NatDropReason::Malformed`].
    pub malformed: u64,
    /// Packets dropped as [`NatDropReason::Refused`].
    pub refused: u64,
    /// Packets dropped as [`NatDropReason::NoAddress`].
    pub no_address: u64,
    /// Packets dropped as [`NatDropReason::Exhausted`].
    pub exhausted: u64,
    /// Packets dropped as [`NatDropReason::Collision`].
    pub collision: u64,
    /// Packets dropped as [`NatDropReason::Full`].
    pub full: u64,
    /// Packets dropped as [`NatDropReason::UnknownFragment`].
    pub unknown_fragment: u64,
}

impl NatCounters {
    /// The number of packets dropped, for all reasons.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.malformed
            + self.refused
            + self.no_address
            + self.exhausted
            + self.collision
            + self.full
            + self.unknown_fragment
    }

    /// Adds the counters of another `nat` instance with the same configuration.
    pub const fn add(&mut self, other: &Self) {
        self.out += other.out;
        self.inwards += other.inwards;
        self.untouched += other.untouched;
        self.created += other.created;
        self.ended += other.ended;
        self.port_taken += other.port_taken;
        self.malformed += other.malformed;
        self.refused += other.refused;
        self.no_address += other.no_address;
        self.exhausted += other.exhausted;
        self.collision += other.collision;
        self.full += other.full;
        self.unknown_fragment += other.unknown_fragment;
    }

    pub(crate) fn count(&mut self, direction: NatDirection, outcome: NatOutcome) {
        let counter = match (outcome, direction) {
            (NatOutcome::Translated, NatDirection::Out) => &mut self.out,
            (NatOutcome::Translated, NatDirection::In) => &mut self.inwards,
            (NatOutcome::Unmodified | NatOutcome::Untouched, _) => &mut self.untouched,
            (NatOutcome::Dropped(NatDropReason::Malformed), _) => &mut self.malformed,
            (NatOutcome::Dropped(NatDropReason::Refused), _) => &mut self.refused,
            (NatOutcome::Dropped(NatDropReason::NoAddress), _) => &mut self.no_address,
            (NatOutcome::Dropped(NatDropReason::Exhausted), _) => &mut self.exhausted,
            (NatOutcome::Dropped(NatDropReason::Collision), _) => &mut self.collision,
            (NatOutcome::Dropped(NatDropReason::Full), _) => &mut self.full,
            (NatOutcome::Dropped(NatDropReason::UnknownFragment), _) => &mut self.unknown_fragment,
        };
        *counter += 1;
    }
}
