//! What becomes of packets, and how many of each.

use crate::translator::NatDirection;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatOutcome {
    /// It belongs to a flow and has been translated.
    Translated,
    /// It belongs to a flow that keeps its ends, so it goes on as it is.
    Unmodified,
    /// It is none of the instance's business and goes on as it is.
    Untouched,
    /// It must not go on.
    Dropped(NatDropReason),
}

/// Why a packet must not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NatDropReason {
    /// It is too short to be translated.
    Malformed,
    /// `deny_in`: nobody inside has asked for it.
    Refused,
    /// The instance has no address yet.
    NoAddress,
    /// All ports toward its remote end are taken.
    Exhausted,
    /// Its tuple is another flow's, and its protocol has no port to change.
    Collision,
    /// There are as many flows as there may be.
    Full,
    /// A later fragment that came in before its first.
    UnknownFragment,
}

/// What an instance has done, in packets where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatCounters {
    /// Translated on their way out.
    pub out: u64,
    /// Translated on their way in.
    pub inwards: u64,
    /// Left alone.
    pub untouched: u64,
    /// Flows made.
    pub created: u64,
    /// Flows that have ended.
    pub ended: u64,
    /// Flows that could not keep their port, which another one had.
    pub port_taken: u64,
    /// Dropped as [`Dropped::Malformed`].
    pub malformed: u64,
    /// Dropped as [`Dropped::Refused`].
    pub refused: u64,
    /// Dropped as [`Dropped::NoAddress`].
    pub no_address: u64,
    /// Dropped as [`Dropped::Exhausted`].
    pub exhausted: u64,
    /// Dropped as [`Dropped::Collision`].
    pub collision: u64,
    /// Dropped as [`Dropped::Full`].
    pub full: u64,
    /// Dropped as [`Dropped::UnknownFragment`].
    pub unknown_fragment: u64,
}

impl NatCounters {
    /// All packets dropped.
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

    /// Counts what another instance of the same settings has done, too.
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

    pub(crate) fn count(&mut self, way: NatDirection, outcome: NatOutcome) {
        let counter = match (outcome, way) {
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
