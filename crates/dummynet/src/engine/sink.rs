//! Where what happens to packets is told and counted.

use super::Event;
use super::counters::{Counters, DropCause};

pub(crate) struct Sink<'s, H, F: FnMut(Event<H>)> {
    pub(crate) counters: &'s mut Counters,
    tell: &'s mut F,
    handles: core::marker::PhantomData<H>,
}

impl<'s, H: Copy, F: FnMut(Event<H>)> Sink<'s, H, F> {
    #[inline]
    pub(crate) fn new(counters: &'s mut Counters, tell: &'s mut F) -> Self {
        Self { counters, tell, handles: core::marker::PhantomData }
    }

    #[inline]
    pub(crate) fn tell(&mut self, event: Event<H>) {
        (self.tell)(event);
    }

    #[inline]
    pub(crate) fn mark(&mut self, handle: H) {
        self.counters.marked += 1;
        self.tell(Event::Marked { handle });
    }

    /// A packet is lost that was in no queue yet, or no more.
    pub(crate) fn lose(&mut self, handle: H, at_ns: u64, cause: DropCause) {
        self.counters.drops.add(cause);
        self.tell(Event::Dropped { handle, at_ns, cause });
    }

    /// A packet is lost that waited.
    pub(crate) fn lose_queued(&mut self, handle: H, at_ns: u64, cause: DropCause) {
        self.counters.queued -= 1;
        self.lose(handle, at_ns, cause);
    }
}
