//! Schedulers, which decide which of several queues sends next.
//!
//! All that a scheduler knows of a queue is the queue's index, its share, and the length of the
//! packet at its head. The scheduler's owner handles packets, times and links. All schedulers are
//! used through [`FlowScheduler`]:
//!
//! ```text
//!   arrive(queue, length)         a queue that was empty has a packet at its head
//!   next() -> queue               whose turn it is; repeated calls return the same
//!   sent(queue, length, next)     its head left (length 0: was dropped); next: new head's length
//! ```
//!
//! # Invariants
//! 1. `next` returns a queue that has a packet, if there is one.
//! 2. `sent` must be called for the queue that `next` returned.

mod heap;
mod prio;
mod qfq;
mod queue_share;
mod rr;
#[cfg(test)]
mod tests;
mod wf2q;

use alloc::boxed::Box;

use prio::Prio;
use qfq::Qfq;
pub(crate) use queue_share::QueueShare;
use rr::Rr;
use wf2q::Wf2q;

use crate::spec::{SchedKind, ShareSpec};

impl QueueShare {
    /// Returns the share that `spec` gives with a scheduler of kind `kind`. As in dummynet, a value
    /// that is out of range is replaced by the nearest valid one.
    pub(crate) fn new(kind: &SchedKind, spec: &ShareSpec) -> Self {
        let most = if matches!(kind, SchedKind::Wf2q) { 100 } else { 1 << 16 };
        let lmax = spec.lmax.unwrap_or(1500);
        Self {
            weight: spec.weight.unwrap_or(1).clamp(1, most),
            lmax: match kind {
                SchedKind::Rr => lmax.clamp(64, 2048),
                _ => lmax.clamp(1, 2000),
            },
            priority: spec.priority.or(spec.weight).unwrap_or(0).min(63),
        }
    }
}

/// A scheduler that serves queues by index.
#[derive(Clone, Debug)]
pub(crate) enum FlowScheduler {
    Wf2q(Wf2q),
    Rr(Rr),
    Qfq(Box<Qfq>),
    Prio(Box<Prio>),
}

macro_rules! each {
    ($turns:expr, $one:ident => $call:expr) => {
        match $turns {
            FlowScheduler::Wf2q($one) => $call,
            FlowScheduler::Rr($one) => $call,
            FlowScheduler::Qfq($one) => $call,
            FlowScheduler::Prio($one) => $call,
        }
    };
}

impl FlowScheduler {
    /// Creates a scheduler of this kind; `None` if the kind does not serve queues by index.
    pub(crate) fn new(kind: &SchedKind) -> Option<Self> {
        match kind {
            SchedKind::Wf2q => Some(Self::Wf2q(Wf2q::default())),
            SchedKind::Rr => Some(Self::Rr(Rr::default())),
            SchedKind::Qfq => Some(Self::Qfq(Box::default())),
            SchedKind::Prio => Some(Self::Prio(Box::default())),
            SchedKind::Fifo | SchedKind::FqCodel(..) | SchedKind::FqPie(..) => None,
        }
    }

    /// Sets the share of queue `index`. The packets of the queue stay in it. With WF2Q+ and RR, the
    /// packet at the head also keeps its position in the order of the scheduler. Indexes should be
    /// small, because they index arrays with the data of the queues.
    pub(crate) fn set(&mut self, index: u32, share: QueueShare) {
        each!(self, one => one.set(index, share));
    }

    /// Removes queue `index`, whether or not it has packets.
    pub(crate) fn remove(&mut self, index: u32) {
        each!(self, one => one.remove(index));
    }

    #[inline]
    pub(crate) fn arrive(&mut self, index: u32, len: u32) {
        each!(self, one => one.arrive(index, len));
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<u32> {
        each!(self, one => one.next())
    }

    #[inline]
    pub(crate) fn sent(&mut self, index: u32, len: u32, next: Option<u32>) {
        each!(self, one => one.sent(index, len, next));
    }
}
