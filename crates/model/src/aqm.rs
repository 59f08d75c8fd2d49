//! Active queue management: when a queue drops or marks before it is full.
//!
//! Two families of algorithms: either the caller owns the packets, or the algorithm does.
//!
//! | family | types | the caller |
//! |---|---|---|
//! | one FIFO | [`Red`], [`CoDel`], [`Pie`]; any of them as [`FifoAqm`] | keeps the FIFO and asks the [`Aqm`] |
//! | several queues | [`FqCoDel`], [`FqPie`], [`DualPi2`]; any of them as [`MultiQueue`] | enqueues and dequeues [`QueuedPacket`]s |
//!
//! ```text
//!   arrival --> admit? --> FIFO --> dequeue? --> link        Keep, Mark or Drop at each "?"
//! ```
//!
//! The caller passes the time and the queue's contents to each decision. A timer of the algorithm
//! that expired between two calls runs at the next call. Nothing happens to the queue between two
//! calls, so the result is the same as if the timer had fired on time.
//!
//! # Invariants
//! 1. Times given to one object never decrease. An earlier time counts as the latest.
//! 2. The verdict is `Mark` only for packets whose ECN field allows it, and only if the
//!    parameters do.
//! 3. In types that own packets: entries in = entries out + entries lost + [`MultiQueue::packets`].
//!
//! Not for: limits of a plain FIFO (its owner compares them), payload, clocks.
//!
//! ```
//! use slipring_model::aqm::{Aqm, CoDel, CoDelSpec, AqmDeparture, AqmQueueView, AqmVerdict};
//!
//! let mut codel = CoDel::new(&CoDelSpec::default())?;
//! let queue = AqmQueueView { bytes: 90_000, packets: 60, delay_ns: 0 };
//! let leaving = |now_ns| AqmDeparture { now_ns, len: 1500, sojourn_ns: 7_000_000, queue };
//! // Above the target of 5 ms, but not yet for an interval of 100 ms.
//! assert_eq!(codel.dequeue(&leaving(0), || false), AqmVerdict::Keep);
//! assert_eq!(codel.dequeue(&leaving(100_000_000), || false), AqmVerdict::Drop);
//! # Ok::<(), slipring_model::ParameterError>(())
//! ```

mod codel;
mod dualpi2;
mod fair;
mod longest;
mod multi;
mod param;
mod pie;
mod red;
mod slab;

pub use codel::{CoDel, CoDelSpec};
pub use dualpi2::{DualPi2, DualPi2Schedule, DualPi2Spec};
pub use fair::{FairQueue, FairSpec, FqCoDel, FqPie};
pub use multi::MultiQueue;
pub use pie::{DelaySource, Pie, PieSpec};
pub use red::{Red, RedSpec, RedUnit};

use crate::{NANOS_PER_SEC, Stream};

/// The decision of an algorithm about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AqmVerdict {
    /// The packet passes unchanged.
    Keep,
    /// The packet passes with its ECN field set to "congestion experienced".
    Mark,
    /// The packet is dropped.
    Drop,
}

/// The contents of a queue, without the packet that the decision is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AqmQueueView {
    /// Bytes waiting.
    pub bytes: u64,
    /// Packets waiting.
    pub packets: u64,
    /// How long a packet that arrives now will wait, in ns, if the owner knows. Only
    /// [`DelaySource::View`] reads it, and only at arrivals.
    pub delay_ns: u64,
}

/// A packet that arrives at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AqmArrival {
    /// The time, in ns.
    pub now_ns: u64,
    /// Length of the packet in bytes.
    pub len: u32,
    /// The queue before the packet enters.
    pub queue: AqmQueueView,
}

/// A packet that was taken from the head of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AqmDeparture {
    /// The time, in ns.
    pub now_ns: u64,
    /// Length of the packet in bytes.
    pub len: u32,
    /// How long it waited, in ns.
    pub sojourn_ns: u64,
    /// The queue after the packet left.
    pub queue: AqmQueueView,
}

/// An algorithm that controls one FIFO, which the caller owns.
///
/// An algorithm calls `ecn_capable` at most once, and only when the answer matters, so that the
/// packet's bytes are read only then.
pub trait Aqm {
    /// Decides about an arriving packet, before it enters the queue.
    fn admit(
        &mut self,
        packet: &AqmArrival,
        ecn_capable: impl FnOnce() -> bool,
        random: &mut Stream,
    ) -> AqmVerdict;

    /// Decides about a packet that was taken from the queue. After [`AqmVerdict::Drop`] the caller
    /// takes the next one at the same time.
    fn dequeue(&mut self, packet: &AqmDeparture, ecn_capable: impl FnOnce() -> bool) -> AqmVerdict;
}

/// The ECN field of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not capable of ECN, or not IP.
    #[default]
    NotEct = 0,
    /// Capable of ECN, with the L4S identifier (RFC 9331).
    Ect1 = 1,
    /// Capable of ECN.
    Ect0 = 2,
    /// Congestion experienced: a hop before this one marked the packet.
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

    /// Whether a packet may be marked instead of dropped.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// Whether the packet belongs in the low-latency queue of [`DualPi2`].
    #[must_use]
    pub const fn is_l4s(self) -> bool {
        matches!(self, Self::Ect1 | Self::Ce)
    }
}

/// A packet in a queue that owns its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedPacket<H> {
    /// The caller's handle for it.
    pub handle: H,
    /// Its length in bytes.
    pub len: u32,
    /// When it entered, in ns.
    pub arrival_ns: u64,
    /// Hash of its flow, all 32 bits well mixed.
    pub flow: u32,
    /// Its ECN field on arrival.
    pub ecn: Ecn,
}

/// A packet that left a queue towards the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DequeuedPacket<H> {
    /// The packet as the caller enqueued it.
    pub entry: QueuedPacket<H>,
    /// Whether the caller must set its ECN field to "congestion experienced".
    pub mark: bool,
}

/// Why a queue lost a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AqmDropCause {
    /// The queue was full.
    Limit,
    /// The algorithm dropped it.
    Aqm,
}

/// Any algorithm for one FIFO, or none.
#[derive(Clone, Debug, Default)]
pub enum FifoAqm {
    /// No algorithm: packets are lost only to the limits of the queue.
    #[default]
    None,
    /// Random early detection.
    Red(Red),
    /// Controlled delay.
    CoDel(CoDel),
    /// Proportional integral controller enhanced.
    Pie(Pie),
}

impl Aqm for FifoAqm {
    #[inline]
    fn admit(
        &mut self,
        packet: &AqmArrival,
        ecn_capable: impl FnOnce() -> bool,
        random: &mut Stream,
    ) -> AqmVerdict {
        match self {
            Self::None => AqmVerdict::Keep,
            Self::Red(red) => red.admit(packet, ecn_capable, random),
            Self::CoDel(codel) => codel.admit(packet, ecn_capable, random),
            Self::Pie(pie) => pie.admit(packet, ecn_capable, random),
        }
    }

    #[inline]
    fn dequeue(&mut self, packet: &AqmDeparture, ecn_capable: impl FnOnce() -> bool) -> AqmVerdict {
        match self {
            Self::None => AqmVerdict::Keep,
            Self::Red(red) => red.dequeue(packet, ecn_capable),
            Self::CoDel(codel) => codel.dequeue(packet, ecn_capable),
            Self::Pie(pie) => pie.dequeue(packet, ecn_capable),
        }
    }
}

/// `to - from`, in seconds.
fn seconds_between(from_ns: u64, to_ns: u64) -> f64 {
    // Both are exact in `f64` up to 2^53 ns = 104 days.
    (to_ns as f64 - from_ns as f64) / NANOS_PER_SEC as f64
}

#[cfg(test)]
mod tests;
