//! Packets on their way through the engine, and what becomes of them.

use slipring_model::aqm::Ecn;

use super::counters::ShaperDropCause;
use crate::spec::ObjectNumber;

/// What a rule sends a packet to.
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
    /// The caller's name for it.
    pub handle: H,
    /// The rule that sent it, by the caller's number.
    pub rule: u32,
    /// Bytes that count.
    pub len: u32,
    /// Its ECN field.
    pub ecn: Ecn,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShaperEvent<H> {
    /// It is through.
    Released {
        /// The packet.
        handle: H,
        /// When it was due, in ns; not after the time of the call.
        at_ns: u64,
        /// What now.
        next: ReleaseAction,
    },
    /// It is lost.
    Dropped {
        /// The packet.
        handle: H,
        /// When, in ns.
        at_ns: u64,
        /// Why the packet was dropped.
        cause: ShaperDropCause,
    },
    /// Its ECN field is to be set to "congestion experienced"; it goes on.
    Marked {
        /// The packet.
        handle: H,
    },
}

/// Where a packet goes on that is through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseAction {
    /// It is accepted: `one_pass` is on.
    Accept,
    /// The list goes on behind this rule.
    After(u32),
}

/// A packet on its way through the delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayedPacket<H> {
    pub(super) handle: H,
    pub(super) rule: u32,
    pub(super) lost: bool,
}
