//! Counts what happens to packets, for the engine and for the packet's scheduler, and reports
//! releases, losses and marks.

use super::counters::{ShaperCounters, ShaperDropCause};
use super::event::ShaperEvent;

pub(crate) struct EventSink<'s, H, F: FnMut(ShaperEvent<H>)> {
    total: &'s mut ShaperCounters,
    own: &'s mut ShaperCounters,
    emit: &'s mut F,
    handles: core::marker::PhantomData<H>,
}

impl<'s, H: Copy, F: FnMut(ShaperEvent<H>)> EventSink<'s, H, F> {
    #[inline]
    pub(crate) fn new(
        total: &'s mut ShaperCounters,
        own: &'s mut ShaperCounters,
        emit: &'s mut F,
    ) -> Self {
        Self { total, own, emit, handles: core::marker::PhantomData }
    }

    /// Counts an arriving packet. It then counts as waiting.
    #[inline]
    pub(crate) fn arrived(&mut self) {
        self.each(|counters| {
            counters.received += 1;
            counters.queued += 1;
        });
    }

    /// Counts a waiting packet that is put on the link. It then counts as delayed.
    #[inline]
    pub(crate) fn sent(&mut self) {
        self.each(|counters| {
            counters.queued -= 1;
            counters.delayed += 1;
        });
    }

    /// Counts a packet that leaves the delay, and reports its release.
    #[inline]
    pub(crate) fn released(&mut self, event: ShaperEvent<H>) {
        self.each(|counters| {
            counters.delayed -= 1;
            counters.released += 1;
        });
        (self.emit)(event);
    }

    #[inline]
    pub(crate) fn mark(&mut self, handle: H) {
        self.each(|counters| counters.marked += 1);
        (self.emit)(ShaperEvent::Marked { handle });
    }

    /// Counts a waiting packet as lost, and reports the loss.
    pub(crate) fn lose(&mut self, handle: H, at_ns: u64, cause: ShaperDropCause) {
        self.each(|counters| {
            counters.queued -= 1;
            counters.drops.add(cause);
        });
        (self.emit)(ShaperEvent::Dropped { handle, at_ns, cause });
    }

    /// Counts a packet at the end of the delay as lost, and reports the loss.
    pub(crate) fn lose_delayed(&mut self, handle: H, at_ns: u64, cause: ShaperDropCause) {
        self.each(|counters| {
            counters.delayed -= 1;
            counters.drops.add(cause);
        });
        (self.emit)(ShaperEvent::Dropped { handle, at_ns, cause });
    }

    /// Returns the number of packets that AQM has dropped so far in the whole engine.
    pub(crate) const fn hits(&self) -> u64 {
        self.total.drops.of(ShaperDropCause::Aqm)
    }

    #[inline]
    fn each(&mut self, count: impl Fn(&mut ShaperCounters)) {
        count(self.total);
        count(self.own);
    }
}
