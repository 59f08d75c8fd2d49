//! Taking over rings that already exist and are in use.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::AppRing;
use crate::mem::RingMem;
use crate::region::{Region, RegionError};

impl<D> AppRing<D> {
    /// Takes over `head` from the ring, for a program that moves it there itself. An impossible
    /// value is
    /// left for the next sync to reject.
    pub fn take_over_head(&mut self) {
        self.take_over(self.mem.head().load(Ordering::Relaxed));
    }

    /// As [`Self::take_over_head`], but with `cur`: our slots are then those that such a program
    /// waits for.
    /// Call [`Self::take_over_head`] before releasing anything to the driver.
    pub fn take_over_cur(&mut self) {
        self.take_over(self.mem.cur().load(Ordering::Relaxed));
    }

    fn take_over(&mut self, index: u32) {
        if index < self.mem.num_slots() {
            self.head = index;
        }
    }

    /// Attaches to the program's half of a ring that a netmap device laid out; `num_slots` is what
    /// its
    /// header says. All processes that have the port open share the half.
    ///
    /// # Errors
    /// [`RegionError::NotARegion`] if no such ring can lie there, or the region is private and the
    /// half
    /// is therefore taken; others when there is no memory for copies of its frames.
    pub fn attach(region: &Arc<Region>, offset: u64, num_slots: u32) -> Result<Self, RegionError> {
        let impossible = RegionError::NotARegion("a ring lies outside of it");
        let mem = RingMem::foreign(region, offset, num_slots).ok_or(impossible)?;
        Self::from_indices(mem).with_copies()
    }

    /// The program's half of a ring, with the indices that the ring has now.
    pub(crate) fn from_indices(mem: RingMem) -> Self {
        let (head, num_slots) = (mem.head().load(Ordering::Relaxed), mem.num_slots());
        let ring = Self::start(mem);
        if head < num_slots { Self { head, ..ring } } else { ring }
    }
}
