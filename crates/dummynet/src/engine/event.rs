//! Packets inside the engine, and the events that it reports about them.

use slipring_model::aqm::Ecn;

use super::counters::ShaperDropCause;
use crate::spec::ObjectNumber;

/// The object to which a rule sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShaperTarget {
    /// `pipe N`.
    Pipe(ObjectNumber),
    /// `queue N`.
    Queue(ObjectNumber),
}

/// A packet, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperPacket<H> {
    /// The caller's handle for the packet.
    pub handle: H,
    /// The caller's number of the rule that sent the packet.
    pub rule: u32,
    /// Number of bytes that the packet counts.
    pub len: u32,
    /// The packet's ECN field.
    pub ecn: Ecn,
}

/// An event of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShaperEvent<H> {
    /// The packet has passed its pipe.
    Released {
        /// The packet.
        handle: H,
        /// When the event was due, in ns; not after the time of the call.
        at_ns: u64,
        /// What the caller must do with the packet.
        next: ReleaseAction,
    },
    /// The packet is lost.
    Dropped {
        /// The packet.
        handle: H,
        /// Time of the loss, in ns.
        at_ns: u64,
        /// Why the packet was dropped.
        cause: ShaperDropCause,
    },
    /// The packet's ECN field must be set to "congestion experienced"; the packet stays in the
    /// engine.
    Marked {
        /// The packet.
        handle: H,
    },
}

/// What happens to a packet after its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseAction {
    /// The packet is accepted: `one_pass` is on.
    Accept,
    /// The search continues after this rule.
    After(u32),
}

/// A packet inside the delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayedPacket<H> {
    pub(super) handle: H,
    pub(super) rule: u32,
    pub(super) lost: bool,
}
