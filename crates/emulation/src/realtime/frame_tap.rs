//! Observers of single frames, such as captures and logs. Without an observer, no code is compiled
//! for them.

use slipring_link::{Delivery, EntryId, FrameArrival, LinkDropCause, LostFrame, QueueDeparture};
use slipring_port::Nanos;

use crate::store::EmulationStore;

/// Observes frames in the thread that moves them; its methods must not block.
pub trait FrameTap: Send + Sized {
    /// Whether the tap's methods are called.
    const IS_ENABLED: bool = true;

    /// Creates a second observer, for another thread.
    fn split(&mut self) -> Self;

    /// A frame came in and was stored.
    fn arrived(&mut self, _entry: EntryId, _frame: &FrameArrival, _store: &mut EmulationStore) {}

    /// A link lost a frame; it is freed afterwards.
    fn lost(&mut self, _lost: &LostFrame, _store: &mut EmulationStore) {}

    /// A frame was due and could not be sent; it is freed afterwards.
    fn dropped(
        &mut self,
        _frame: &Delivery,
        _cause: LinkDropCause,
        _now: Nanos,
        _store: &mut EmulationStore,
    ) {
    }

    /// A frame is about to be sent; it is freed afterwards.
    fn sent(&mut self, _frame: &Delivery, _now: Nanos, _store: &mut EmulationStore) {}

    /// A frame left a queue.
    fn queued(&mut self, _queued: &QueueDeparture) {}
}

/// No observer.
impl FrameTap for () {
    const IS_ENABLED: bool = false;

    fn split(&mut self) -> Self {}
}
