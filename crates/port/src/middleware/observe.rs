//! Shows every frame that passes a queue to an observer, in both directions.

use std::sync::Arc;

use slipring_ring::{SlotFlags, SlotIdx};

use crate::clock::{Nanos, now};
use crate::error::RunError;
use crate::queue::{Interest, Queue, QueueRings, WaitFds};
use crate::stats::QueueCounters;
use crate::succession::SocketRing;

/// Direction of a frame, as the program sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameDirection {
    /// The program receives the frame.
    Rx,
    /// The program sends the frame.
    Tx,
}

/// Observes the frames of a queue.
pub trait Observer: Send {
    /// Called with the part of a frame that is in one slot, just received or about to be sent.
    /// `more` is true if the packet continues in the next call.
    ///
    /// # Errors
    /// The error ends the sync; the frames are not lost.
    fn frame(
        &mut self,
        time: Nanos,
        direction: FrameDirection,
        bytes: &[u8],
        more: bool,
    ) -> Result<(), RunError>;

    /// Returns the number of packets that the observer was shown but could not store. Observers
    /// that share a file may count each other's packets, but only one of them counts each packet.
    fn lost(&self) -> u64 {
        0
    }

    /// Called when a sync had no frames to show, so that the observer can write out what it has
    /// buffered.
    ///
    /// # Errors
    /// The error ends the sync.
    fn idle(&mut self) -> Result<(), RunError> {
        Ok(())
    }
}

/// Wraps `inner` so that `observer` sees its frames.
#[must_use]
pub fn observe(mut inner: Box<dyn Queue>, observer: Box<dyn Observer>) -> Box<dyn Queue> {
    let rings = inner.rings();
    let (tx_seen, rx_seen) = (rings.tx.head(), rings.rx.tail());
    Box::new(ObservedQueue { inner, observer, tx_seen, rx_seen })
}

struct ObservedQueue {
    inner: Box<dyn Queue>,
    observer: Box<dyn Observer>,
    /// The slot after the last queued frame that was shown.
    tx_seen: SlotIdx,
    /// The slot after the last received frame that was shown.
    rx_seen: SlotIdx,
}

impl ObservedQueue {
    fn count_lost(&self) {
        let lost = self.observer.lost();
        if lost > 0 {
            self.inner.counters().set_uncaptured(lost);
        }
    }
}

impl Queue for ObservedQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        self.inner.rings()
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        let ring = self.inner.rings().tx;
        let (from, to) = (self.tx_seen, ring.head());
        self.tx_seen = to;
        if from != to {
            let mut show = SyncObservation::new(&mut *self.observer, FrameDirection::Tx);
            ring.for_each_frame(from, to, |bytes, flags| show.observe_slot(bytes, flags));
            show.result?;
        } else {
            self.observer.idle()?;
        }
        self.count_lost();
        self.inner.tx_sync()
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        self.inner.rx_sync()?;
        let ring = self.inner.rings().rx;
        ring.avail();
        let (from, to) = (self.rx_seen, ring.tail());
        self.rx_seen = to;
        if from != to {
            let mut show = SyncObservation::new(&mut *self.observer, FrameDirection::Rx);
            ring.for_each_frame(from, to, |bytes, flags| show.observe_slot(bytes, flags));
            show.result?;
        } else {
            self.observer.idle()?;
        }
        self.count_lost();
        Ok(())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        self.inner.wait_fds()
    }

    fn is_link_down(&self) -> bool {
        self.inner.is_link_down()
    }

    fn deadline(&self) -> Option<Nanos> {
        self.inner.deadline()
    }

    fn ended(&self) -> bool {
        self.inner.ended()
    }

    fn before_sleep(&mut self, interest: Interest) {
        self.inner.before_sleep(interest);
    }

    fn after_sleep(&mut self) {
        self.inner.after_sleep();
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        self.inner.counters()
    }

    fn update_stats(&mut self) {
        self.inner.update_stats();
    }

    fn unsent(&mut self) -> u64 {
        self.inner.unsent()
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }

    // The queue is not lent: a program that syncs it itself would bypass this layer.

    fn socket_ring(&self) -> Option<SocketRing> {
        self.inner.socket_ring()
    }

    fn resume_position(&self) -> Option<u32> {
        self.inner.resume_position()
    }

    fn resume_ring(&mut self, position: u32) {
        self.inner.resume_ring(position);
    }
}

/// Shows the frames of one sync, up to the first error. All of them get the same time.
struct SyncObservation<'o> {
    observer: &'o mut dyn Observer,
    direction: FrameDirection,
    time: Nanos,
    result: Result<(), RunError>,
}

impl<'o> SyncObservation<'o> {
    fn new(observer: &'o mut dyn Observer, direction: FrameDirection) -> Self {
        Self { observer, direction, time: now(), result: Ok(()) }
    }

    fn observe_slot(&mut self, bytes: &[u8], flags: SlotFlags) {
        if self.result.is_ok() {
            let more = flags.has(SlotFlags::MOREFRAG);
            self.result = self.observer.frame(self.time, self.direction, bytes, more);
        }
    }
}
