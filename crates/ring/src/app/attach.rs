//! Rings that are there already, and under way.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::AppRing;
use crate::mem::RingMem;
use crate::region::{Region, RegionError};

impl<D> AppRing<D> {
    /// Takes over `head` as it stands in the ring, for a program that moves it there itself; one that
    /// is no slot is left for the next sync to judge.
    pub fn take_over_head(&mut self) {
        self.take_over(self.mem.head().load(Ordering::Relaxed));
    }

    /// The same with `cur`: what is ours then are the slots that such a program waits for. To be
    /// followed by [`Self::take_over_head`] before anything is given to the driver.
    pub fn take_over_cur(&mut self) {
        self.take_over(self.mem.cur().load(Ordering::Relaxed));
    }

    fn take_over(&mut self, index: u32) {
        if index < self.mem.num_slots() {
            self.head = index;
        }
    }

    /// The program's half of a ring that a netmap device laid out, as it stands now; `num_slots`
    /// is what its header says. Whoever else has the port open shares it.
    ///
    /// # Errors
    /// [`RegionError::NotARegion`] if no such ring can lie there, or the region is private, so that
    /// somebody has that half already; others when there is no memory for copies of its frames.
    pub fn attach(region: &Arc<Region>, offset: u64, num_slots: u32) -> Result<Self, RegionError> {
        let impossible = RegionError::NotARegion("a ring lies outside of it");
        let mem = RingMem::foreign(region, offset, num_slots).ok_or(impossible)?;
        Self::from_indices(mem).with_copies()
    }

    /// The program's half of a ring as it stands.
    pub(crate) fn from_indices(mem: RingMem) -> Self {
        let (head, num_slots) = (mem.head().load(Ordering::Relaxed), mem.num_slots());
        let ring = Self::start(mem);
        if head < num_slots { Self { head, ..ring } } else { ring }
    }
}
