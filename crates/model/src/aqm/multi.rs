//! One interface for all queueing disciplines that own their packets.

use alloc::vec::Vec;

use super::packet::{AqmDropCause, DequeuedPacket, QueuedPacket};
use super::{DualPi2, FqCoDel, FqPie};
use crate::Stream;

/// Any queueing discipline that owns its packets.
#[derive(Clone, Debug)]
pub enum MultiQueue<H> {
    /// Flow queueing with CoDel.
    FqCoDel(FqCoDel<H>),
    /// Flow queueing with PIE.
    FqPie(FqPie<H>),
    /// DualPI2: a low-latency and a classic queue.
    DualPi2(DualPi2<H>),
}

impl<H> MultiQueue<H> {
    /// Enqueues `entry` at `now_ns`. Packets dropped by the limits or the algorithm, which may
    /// include `entry`, go to `lost`.
    #[inline]
    pub fn enqueue(
        &mut self,
        now_ns: u64,
        entry: QueuedPacket<H>,
        random: &mut Stream,
        lost: &mut impl FnMut(QueuedPacket<H>, AqmDropCause),
    ) {
        match self {
            Self::FqCoDel(fair) => fair.enqueue(now_ns, entry, random, lost),
            Self::FqPie(fair) => fair.enqueue(now_ns, entry, random, lost),
            Self::DualPi2(dual) => dual.enqueue(now_ns, entry, lost),
        }
    }

    /// Dequeues the packet that leaves at `now_ns`; `None` if no packet is left. Packets dropped
    /// before it go to `lost`.
    #[inline]
    pub fn dequeue(
        &mut self,
        now_ns: u64,
        lost: &mut impl FnMut(QueuedPacket<H>, AqmDropCause),
    ) -> Option<DequeuedPacket<H>> {
        match self {
            Self::FqCoDel(fair) => fair.dequeue(now_ns, lost),
            Self::FqPie(fair) => fair.dequeue(now_ns, lost),
            Self::DualPi2(dual) => dual.dequeue(now_ns, lost),
        }
    }

    /// Empties the queues and returns the packets in order of arrival, so that another discipline
    /// can take them over.
    pub fn drain(&mut self) -> Vec<DequeuedPacket<H>> {
        match self {
            Self::FqCoDel(fair) => fair.drain(),
            Self::FqPie(fair) => fair.drain(),
            Self::DualPi2(dual) => dual.drain(),
        }
    }

    /// Returns the number of packets in all queues.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        match self {
            Self::FqCoDel(fair) => fair.packets(),
            Self::FqPie(fair) => fair.packets(),
            Self::DualPi2(dual) => dual.packets(),
        }
    }

    /// Returns the number of bytes in all queues.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::FqCoDel(fair) => fair.bytes(),
            Self::FqPie(fair) => fair.bytes(),
            Self::DualPi2(dual) => dual.bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
