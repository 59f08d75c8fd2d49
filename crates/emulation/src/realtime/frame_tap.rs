//! Who watches single frames: captures and logs. Without one, nothing is compiled for it.

use slipring_link::{Delivery, EntryId, FrameArrival, LinkDropCause, LostFrame, QueueDeparture};
use slipring_port::Nanos;

use crate::store::EmulationStore;

/// Watches frames go by, in the thread that moves them: it must not wait for anything.
pub trait FrameTap: Send + Sized {
    /// Whether to call it at all.
    const IS_ENABLED: bool = true;

    /// A second one, for another thread.
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

/// Nobody.
impl FrameTap for () {
    const IS_ENABLED: bool = false;

    fn split(&mut self) -> Self {}
}
