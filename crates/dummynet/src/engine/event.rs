//! Packets as the engine sees them, and the events that it reports about them.

use slipring_model::aqm::Ecn;

use super::counters::ShaperDropCause;
use crate::spec::ObjectNumber;

/// The object to which a rule sends a packet, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShaperTarget {
    /// The pipe with this number, by the rule action `pipe N`.
    Pipe(ObjectNumber),
    /// The queue with this number, by the rule action `queue N`.
    Queue(ObjectNumber),
}

/// The properties of a packet that the engine needs. It does not need the packet's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperPacket<H> {
    /// The caller's handle for the packet.
    pub handle: H,
    /// Number of the rule that sent the packet. The caller chooses this number, which is returned
    /// in [`ReleaseAction::After`].
    pub rule: u32,
    /// Length of the packet in bytes. It counts for bandwidth, limits and counters.
    pub len: u32,
    /// The packet's ECN field.
    pub ecn: Ecn,
}

/// An event that the engine reports about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShaperEvent<H> {
    /// The packet has passed the link and the delay.
    Released {
        /// The caller's handle of the packet.
        handle: H,
        /// Time of the release in ns. It is not later than the time of the call.
        at_ns: u64,
        /// What the caller must do with the packet.
        next: ReleaseAction,
    },
    /// The packet was lost.
    Dropped {
        /// The caller's handle of the packet.
        handle: H,
        /// Time of the loss, in ns.
        at_ns: u64,
        /// Why the packet was dropped.
        cause: ShaperDropCause,
    },
    /// The caller must set the packet's ECN field to "congestion experienced". The packet stays in
    /// the engine.
    Marked {
        /// The caller's handle of the packet.
        handle: H,
    },
}

/// What the caller must do with a released packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseAction {
    /// Accept the packet. Used if `one_pass` is on.
    Accept,
    /// Continue with the rules after the rule with this number.
    After(u32),
}

/// A packet in the delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayedPacket<H> {
    pub(super) handle: H,
    pub(super) rule: u32,
    pub(super) lost: bool,
}
