//! Packets inside the engine, and the events that it reports about them.

use slipring_model::aqm::Ecn;

use super::counters::ShaperDropCause;
use crate::spec::ObjectNumber;

/// The object to which a rule sends a packet, by its number.
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
    /// Number of the rule that sent the packet, chosen by the caller.
    pub rule: u32,
    /// Length in bytes, for bandwidth, limits and counters.
    pub len: u32,
    /// The packet's ECN field.
    pub ecn: Ecn,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShaperEvent<H> {
    /// The packet has passed the link and the delay.
    Released {
        /// The caller's handle of the packet.
        handle: H,
        /// Time of the release, in ns; at or before the time of the call.
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
    /// The packet's ECN field must be set to "congestion experienced"; the packet stays in the
    /// engine.
    Marked {
        /// The caller's handle of the packet.
        handle: H,
    },
}

/// What the caller must do with a released packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseAction {
    /// Accept the packet: `one_pass` is on.
    Accept,
    /// Continue with the rules after the rule with this number.
    After(u32),
}

/// A packet that is in the delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayedPacket<H> {
    pub(super) handle: H,
    pub(super) rule: u32,
    pub(super) lost: bool,
}
