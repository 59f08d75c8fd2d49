//! Packets, queues and decisions, as queue management algorithms see them.

use crate::{NANOS_PER_SEC, Stream};

/// The decision of an algorithm about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AqmVerdict {
    /// The packet continues unchanged.
    Keep,
    /// The packet continues, with its ECN field set to "congestion experienced".
    Mark,
    /// The packet is lost.
    Drop,
}

/// The contents of a queue, not counting the packet that is being decided about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AqmQueueView {
    /// Bytes of all packets that wait in the queue.
    pub bytes: u64,
    /// Number of packets that wait in the queue.
    pub packets: u64,
    /// Expected wait, in ns, of a packet that arrives now; 0 if the queue's owner does not know
    /// it. Only [`DelaySource::View`](super::DelaySource::View) uses this value, and only at
    /// arrivals.
    pub delay_ns: u64,
}

/// A packet that arrives at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AqmArrival {
    /// Time of the arrival, in ns.
    pub now_ns: u64,
    /// Length of the packet in bytes.
    pub len: u32,
    /// The contents of the queue before the packet enters.
    pub queue: AqmQueueView,
}

/// A packet that was taken from the head of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AqmDeparture {
    /// Time of the departure, in ns.
    pub now_ns: u64,
    /// Length of the packet in bytes.
    pub len: u32,
    /// How long the packet waited, in ns.
    pub sojourn_ns: u64,
    /// The contents of the queue without the packet.
    pub queue: AqmQueueView,
}

/// An algorithm for one FIFO that the caller owns.
///
/// `ecn_capable` returns whether the packet may be marked. It is called at most once, and only when
/// the result is needed, because it reads the packet's bytes.
pub trait Aqm {
    /// Decides about a packet that arrives, before it enters the queue.
    fn admit(
        &mut self,
        packet: &AqmArrival,
        ecn_capable: impl FnOnce() -> bool,
        random: &mut Stream,
    ) -> AqmVerdict;

    /// Decides about a packet that was taken from the queue. After
    /// [`AqmVerdict::Drop`](super::AqmVerdict::Drop), the caller takes the next packet from the
    /// queue and calls again with the same time.
    fn dequeue(&mut self, packet: &AqmDeparture, ecn_capable: impl FnOnce() -> bool) -> AqmVerdict;
}

/// The ECN field of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The packet is not ECN-capable, or not IP.
    #[default]
    NotEct = 0,
    /// ECN-capable transport, codepoint ECT(1): the packet is an L4S packet (RFC 9331).
    Ect1 = 1,
    /// ECN-capable transport, codepoint ECT(0).
    Ect0 = 2,
    /// Congestion experienced: the packet was marked on its path.
    Ce = 3,
}

impl Ecn {
    /// Reads the field from the type of service (IPv4) or traffic class (IPv6).
    #[must_use]
    pub const fn from_tos(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns whether a packet with this field may be marked instead of dropped.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// Returns whether a packet with this field belongs in the L4S queue of
    /// [`DualPi2`](super::DualPi2).
    #[must_use]
    pub const fn is_l4s(self) -> bool {
        matches!(self, Self::Ect1 | Self::Ce)
    }
}

/// A packet in a queue of a type that owns its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedPacket<H> {
    /// The caller's handle of the packet.
    pub handle: H,
    /// The packet's length in bytes.
    pub len: u32,
    /// When the packet entered the queue, in ns.
    pub arrival_ns: u64,
    /// Hash of the packet's flow. All 32 bits must be well mixed.
    pub flow: u32,
    /// The packet's ECN field on arrival.
    pub ecn: Ecn,
}

/// A packet that was taken from a queue and not dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DequeuedPacket<H> {
    /// The packet as it was enqueued.
    pub entry: QueuedPacket<H>,
    /// Whether the caller must set the packet's ECN field to "congestion experienced".
    pub mark: bool,
}

/// Why a queue lost a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AqmDropCause {
    /// The queue was full.
    Limit,
    /// The algorithm decided to drop the packet.
    Aqm,
}

/// Returns `to_ns - from_ns`, in seconds; negative if `to_ns` is earlier.
pub(super) fn seconds_between(from_ns: u64, to_ns: u64) -> f64 {
    // `f64` represents both times exactly up to 2^53 ns, which is 104 days.
    (to_ns as f64 - from_ns as f64) / NANOS_PER_SEC as f64
}
