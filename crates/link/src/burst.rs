//! Bursts: frames that arrive one after another and stay together through a plain link.
//!
//! A link that delays all frames by the same time need not look at each frame. It keeps a whole
//! burst as one entry. The carrier, which stores the frames, steps from frame to frame when they
//! leave.

use crate::carrier::{Carrier, FrameArrival, FrameHandle, InFlightFrame};
use crate::counters::PacketCounts;
use crate::fifo::BlockFifo;

/// Frames that arrived at one entry point, in the order in which the caller stored them.
/// [`Carrier::burst_item`] returns each frame and the handle of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Handle of the first frame.
    pub handle: FrameHandle,
    /// Number of frames.
    pub packets: u32,
    /// Sum of their lengths in bytes, without FCS.
    pub bytes: u64,
    /// Arrival time of the first frame.
    pub first_ns: u64,
    /// Arrival time of the last frame.
    pub last_ns: u64,
}

/// One frame of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstItem {
    /// The frame itself.
    pub frame: FrameArrival,
    /// The next frame of the burst; unspecified for the last one.
    pub next: FrameHandle,
}

impl Burst {
    /// Counts the frames and bytes of the burst.
    #[must_use]
    pub const fn counts(&self) -> PacketCounts {
        PacketCounts { packets: self.packets as u64, bytes: self.bytes }
    }

    /// Returns the first frame; `None` if the burst is empty.
    ///
    /// # Panics
    /// If the carrier does not support bursts.
    pub fn front(&self, carrier: &mut impl Carrier) -> Option<BurstItem> {
        let invariant = "a carrier that pushes bursts knows their frames";
        (self.packets > 0).then(|| carrier.burst_item(self.handle).expect(invariant))
    }

    /// Removes and returns the first frame; `None` if the burst is empty.
    ///
    /// # Panics
    /// If the carrier does not support bursts.
    pub fn pop_front(&mut self, carrier: &mut impl Carrier) -> Option<FrameArrival> {
        let BurstItem { frame, next } = self.front(carrier)?;
        self.handle = next;
        self.packets -= 1;
        self.bytes -= u64::from(frame.len);
        self.first_ns = self.front(carrier).map_or(self.last_ns, |next| next.frame.arrival_ns);
        Some(frame)
    }

    /// Splits off the frames that arrived no later than `until_ns`, and returns them.
    ///
    /// # Panics
    /// If the carrier does not support bursts.
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

/// Bursts in flight through a plain link.
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
    pub(crate) fn push(&mut self, burst: Burst) {
        self.packets += u64::from(burst.packets);
        self.fifo.push(burst);
    }

    /// Arrival time of the oldest frame.
    #[inline]
    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.fifo.front().map(|burst| burst.first_ns)
    }

    /// Removes the first burst, or the part of it that arrived no later than `until_ns`.
    #[inline]
    pub(crate) fn pop(&mut self, until_ns: u64, carrier: &mut impl Carrier) -> Option<Burst> {
        let first = self.fifo.front_mut().filter(|burst| burst.first_ns <= until_ns)?;
        let due = if first.last_ns <= until_ns {
            self.fifo.pop()?
        } else {
            first.split_until(until_ns, carrier)
        };
        self.packets -= u64::from(due.packets);
        Some(due)
    }

    /// Passes every frame to `send` one by one, each released `delay_ns` after its arrival.
    #[cold]
    pub(crate) fn split_all(
        &mut self,
        delay_ns: u64,
        carrier: &mut impl Carrier,
        mut send: impl FnMut(InFlightFrame),
    ) {
        while let Some(mut burst) = self.pop(u64::MAX, carrier) {
            while let Some(frame) = burst.pop_front(carrier) {
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
