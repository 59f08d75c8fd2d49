//! What every stage may do with a frame that does not simply go on.

use crate::carrier::{Arrival, Carrier, Cause, Handle, LinkId, Lost};
use crate::counters::Counters;
use crate::ecn;

/// The carrier and the account of one link.
pub(crate) struct Sink<'a, C> {
    pub(crate) carrier: &'a mut C,
    pub(crate) counters: &'a mut Counters,
    pub(crate) link: LinkId,
}

impl<C: Carrier> Sink<'_, C> {
    /// Gives a frame up.
    #[inline]
    pub(crate) fn lose(&mut self, frame: impl Into<Arrival>, at_ns: u64, cause: Cause) {
        let Arrival { handle, len, .. } = frame.into();
        self.counters.drops.count(cause, len);
        self.carrier.lose(Lost { at_ns, handle, len, cause, link: Some(self.link) });
    }

    /// Marks a frame; `false` if it cannot carry a mark.
    pub(crate) fn mark(&mut self, handle: Handle, len: u32) -> bool {
        let marked = ecn::mark(self.carrier.frame(handle));
        if marked {
            self.counters.marked.count(len);
        }
        marked
    }
}
