//! Active queue management: algorithms that drop or mark packets before a queue is full.
//!
//! There are two families of algorithms: for one, the caller owns the packets; for the other, the
//! algorithm does.
//!
//! | family | types | the caller |
//! |---|---|---|
//! | one FIFO | [`Red`], [`CoDel`], [`Pie`]; any as [`FifoAqm`] | keeps it, consults the [`Aqm`] |
//! | several queues | [`FqCoDel`], [`FqPie`], [`DualPi2`]; any as [`MultiQueue`] | passes packets |
//!
//! ```text
//!   arrival --> admit? --> FIFO --> dequeue? --> link        Keep, Mark or Drop at each "?"
//! ```
//!
//! The caller passes the time to each decision, and for one FIFO also the queue's contents. A timer
//! of the algorithm that expired between two calls runs at the next call. Nothing happens to the
//! queue between two calls, so the result is the same as if the timer had fired on time.
//!
//! # Invariants
//! 1. The times passed to one object must not decrease.
//! 2. The verdict is `Mark` only for packets whose ECN field allows marking, and only if the
//!    parameters allow it.
//! 3. In types that own packets: entries in = entries out + entries lost + [`MultiQueue::packets`].
//!
//! Not for enforcing the limits of a plain FIFO (its owner does that), for payload, or for clocks.
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
mod packet;
mod param;
mod pie;
mod red;
mod slab;

pub use codel::{CoDel, CoDelSpec};
pub use dualpi2::{DualPi2, DualPi2Schedule, DualPi2Spec};
pub use fair::{FairQueue, FairSpec, FqCoDel, FqPie};
pub use multi::MultiQueue;
pub use packet::{
    Aqm, AqmArrival, AqmDeparture, AqmDropCause, AqmQueueView, AqmVerdict, DequeuedPacket, Ecn,
    QueuedPacket,
};
pub use pie::{DelaySource, Pie, PieSpec};
pub use red::{Red, RedSpec, RedUnit};

use crate::Stream;

/// One of the algorithms for one FIFO, or none.
#[derive(Clone, Debug, Default)]
pub enum FifoAqm {
    /// No algorithm: packets are lost only because the queue's limits are reached.
    #[default]
    None,
    /// Random early detection.
    Red(Red),
    /// CoDel ("controlled delay"), as in RFC 8289.
    CoDel(CoDel),
    /// PIE: proportional integral controller enhanced.
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

#[cfg(test)]
mod tests;
