//! Who watches single frames: captures and logs. Without one, nothing is compiled for it.

use slipring_link::{Arrival, Cause, Delivery, EntryId, Lost, Queued};
use slipring_port::Nanos;

use crate::store::Store;

/// Watches frames go by, in the thread that moves them: it must not wait for anything.
pub trait Tap: Send + Sized {
    /// Whether to call it at all.
    const ON: bool = true;

    /// A second one, for another thread.
    fn split(&mut self) -> Self;

    /// A frame came in and was stored.
    fn arrived(&mut self, _entry: EntryId, _frame: &Arrival, _store: &mut Store) {}

    /// A link lost a frame; it is freed afterwards.
    fn lost(&mut self, _lost: &Lost, _store: &mut Store) {}

    /// A frame was due and could not be sent; it is freed afterwards.
    fn dropped(&mut self, _frame: &Delivery, _cause: Cause, _now: Nanos, _store: &mut Store) {}

    /// A frame is about to be sent; it is freed afterwards.
    fn sent(&mut self, _frame: &Delivery, _now: Nanos, _store: &mut Store) {}

    /// A frame left a queue.
    fn queued(&mut self, _queued: &Queued) {}
}

/// Nobody.
impl Tap for () {
    const ON: bool = false;

    fn split(&mut self) -> Self {}
}
