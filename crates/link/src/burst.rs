//! Trains: frames that arrive one behind the other and stay together through a plain link.
//!
//! A link that delays all frames alike need not look at each of them. It keeps a whole batch as one
//! entry, and who stores the frames goes from one to the next when they leave.

use crate::carrier::{Carrier, FrameArrival, FrameHandle, InFlightFrame};
use crate::counters::PacketCounts;
use crate::fifo::BlockFifo;

/// Frames that arrived at one entry, in the order in which the caller stored them: from each of
/// them [`Carrier::coupled`] leads to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The first one.
    pub handle: FrameHandle,
    /// How many.
    pub packets: u32,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// When the first one arrived.
    pub first_ns: u64,
    /// When the last one arrived.
    pub last_ns: u64,
}

/// A frame of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstItem {
    /// It.
    pub frame: FrameArrival,
    /// The one behind it; anything behind the last one.
    pub next: FrameHandle,
}

impl Burst {
    /// Its frames.
    #[must_use]
    pub const fn counts(&self) -> PacketCounts {
        PacketCounts { packets: self.packets as u64, bytes: self.bytes }
    }

    /// The first of its frames; `None` of none.
    ///
    /// # Panics
    /// If the carrier knows of no trains.
    pub fn front(&self, carrier: &mut impl Carrier) -> Option<BurstItem> {
        let told = "who pushes trains tells of their frames";
        (self.packets > 0).then(|| carrier.burst_item(self.handle).expect(told))
    }

    /// Takes the first frame off; `None` when there are no more.
    ///
    /// # Panics
    /// If the carrier knows of no trains.
    pub fn pop_front(&mut self, carrier: &mut impl Carrier) -> Option<FrameArrival> {
        let BurstItem { frame, next } = self.front(carrier)?;
        self.handle = next;
        self.packets -= 1;
        self.bytes -= u64::from(frame.len);
        self.first_ns = self.front(carrier).map_or(self.last_ns, |next| next.frame.arrival_ns);
        Some(frame)
    }

    /// Takes off those that had arrived by `until_ns`.
    ///
    /// # Panics
    /// If the carrier knows of no trains.
    pub fn split_until(&mut self, until_ns: u64, carrier: &mut impl Carrier) -> Self {
        let mut front = Self { packets: 0, bytes: 0, ..*self };
        while let Some(BurstItem { frame, next }) = self.front(carrier)
            && frame.arrival_ns <= until_ns
        {
            front.packets += 1;
            front.bytes += u64::from(frame.len);
            front.last_ns = frame.arrival_ns;
            self.handle = next;
            self.packets -= 1;
        }
        self.bytes -= front.bytes;
        self.first_ns = self.front(carrier).map_or(self.last_ns, |next| next.frame.arrival_ns);
        front
    }
}

/// Trains on their way through a plain link.
pub(crate) struct BurstFifo {
    fifo: BlockFifo<Burst>,
    packets: u64,
}

impl BurstFifo {
    pub(crate) fn new() -> Self {
        Self { fifo: BlockFifo::new(), packets: 0 }
    }

    pub(crate) const fn packets(&self) -> u64 {
        self.packets
    }

    #[inline]
    pub(crate) fn push(&mut self, train: Burst) {
        self.packets += u64::from(train.packets);
        self.fifo.push(train);
    }

    /// When the first frame of all arrived.
    #[inline]
    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.fifo.front().map(|train| train.first_ns)
    }

    /// Takes out a train, or as much of it as had arrived by `until_ns`.
    #[inline]
    pub(crate) fn pop(&mut self, until_ns: u64, carrier: &mut impl Carrier) -> Option<Burst> {
        let first = self.fifo.front_mut().filter(|train| train.first_ns <= until_ns)?;
        let due = if first.last_ns <= until_ns {
            self.fifo.pop()?
        } else {
            first.split_until(until_ns, carrier)
        };
        self.packets -= u64::from(due.packets);
        Some(due)
    }

    /// All frames one by one, each released `delay_ns` after it arrived.
    #[cold]
    pub(crate) fn split_all(
        &mut self,
        delay_ns: u64,
        carrier: &mut impl Carrier,
        mut send: impl FnMut(InFlightFrame),
    ) {
        while let Some(mut train) = self.pop(u64::MAX, carrier) {
            while let Some(frame) = train.pop_front(carrier) {
                let FrameArrival { arrival_ns, handle, len } = frame;
                send(InFlightFrame {
                    release_ns: arrival_ns.saturating_add(delay_ns),
                    handle,
                    len,
                });
            }
        }
    }
}
