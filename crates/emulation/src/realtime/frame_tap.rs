//! Observers of single frames, such as logs. In an emulation without an observer, the compiler
//! removes the calls.

use slipring_link::{
    Delivery, EntryId, FrameArrival, FrameHandle, LinkDropCause, LostFrame, QueueDeparture,
};
use slipring_port::Nanos;

use crate::store::EmulationStore;

/// Observes frames in the thread that moves them; its methods must not block.
pub trait FrameTap: Send + Sized {
    /// Whether the methods of this tap do anything. If false, calls to them may be left out.
    const IS_ENABLED: bool = true;

    /// Creates a second observer, for another thread.
    fn split(&mut self) -> Self;

    /// Called when a frame has arrived and was stored.
    fn arrived(&mut self, _entry: EntryId, _frame: &FrameArrival, _store: &mut EmulationStore) {}

    /// Called when a link has made a copy of a frame.
    fn copied(&mut self, _original: FrameHandle, _copy: FrameHandle) {}

    /// Called when a link loses a frame or no link accepts it, before the frame is freed.
    fn lost(&mut self, _lost: &LostFrame, _store: &mut EmulationStore) {}

    /// Called when a frame was due but could not be sent, before the frame is freed.
    fn dropped(
        &mut self,
        _frame: &Delivery,
        _cause: LinkDropCause,
        _now: Nanos,
        _store: &mut EmulationStore,
    ) {
    }

    /// Called when a frame was copied to the port's ring, before the frame is freed from the store.
    fn sent(&mut self, _frame: &Delivery, _now: Nanos, _store: &mut EmulationStore) {}

    /// Called when a frame has left the queue of a link.
    fn queued(&mut self, _queued: &QueueDeparture) {}
}

/// No observer: the methods do nothing.
impl FrameTap for () {
    const IS_ENABLED: bool = false;

    fn split(&mut self) -> Self {}
}
