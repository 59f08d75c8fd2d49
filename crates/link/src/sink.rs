//! How a stage loses or marks a frame.

use crate::carrier::{Carrier, FrameArrival, FrameHandle, LinkDropCause, LinkId, LostFrame};
use crate::counters::LinkCounters;
use crate::ecn;

/// The carrier and the counters of one link.
pub(crate) struct LinkSink<'a, C> {
    pub(crate) carrier: &'a mut C,
    pub(crate) counters: &'a mut LinkCounters,
    pub(crate) link: LinkId,
}

impl<C: Carrier> LinkSink<'_, C> {
    /// Drops a frame.
    #[inline]
    pub(crate) fn lose(
        &mut self,
        frame: impl Into<FrameArrival>,
        at_ns: u64,
        cause: LinkDropCause,
    ) {
        let FrameArrival { handle, len, .. } = frame.into();
        self.counters.drops.count(cause, len);
        self.carrier.lose(LostFrame { at_ns, handle, len, cause, link: Some(self.link) });
    }

    /// Marks a frame "congestion experienced"; returns `false` if the frame cannot carry the mark.
    pub(crate) fn mark(&mut self, handle: FrameHandle, len: u32) -> bool {
        let marked = ecn::mark(self.carrier.frame(handle));
        if marked {
            self.counters.marked.count(len);
        }
        marked
    }
}
