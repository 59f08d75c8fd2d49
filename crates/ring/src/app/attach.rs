//! Taking over rings that already exist and are in use.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::AppRing;
use crate::mem::RingMem;
use crate::region::{Region, RegionError};

impl<D> AppRing<D> {
    /// Makes this half continue at the `head` that is in the ring, for a program that writes the
    /// ring's `head` itself. If that value is impossible, the next sync rejects it.
    pub fn take_over_head(&mut self) {
        self.take_over(self.mem.head().load(Ordering::Relaxed));
    }

    /// Like [`Self::take_over_head`], but continues at `cur`: our slots then begin where the
    /// program wants to be woken. Call [`Self::take_over_head`] before releasing anything to the
    /// driver.
    pub fn take_over_cur(&mut self) {
        self.take_over(self.mem.cur().load(Ordering::Relaxed));
    }

    fn take_over(&mut self, index: u32) {
        if index < self.mem.num_slots() {
            self.head = index;
        }
    }

    /// Attaches to the program's half of a ring that a netmap device laid out. `num_slots` is the
    /// number in the ring's header. All processes that have the port open share this half.
    ///
    /// # Errors
    /// [`RegionError::NotARegion`] if a ring of this size cannot be at `offset`, or if the region
    /// is private: in a private region a ring has only one program's half, which exists already.
    /// Other errors if there is no memory for copies of frames.
    pub fn attach(region: &Arc<Region>, offset: u64, num_slots: u32) -> Result<Self, RegionError> {
        let impossible = RegionError::NotARegion("a ring lies outside of it");
        let mem = RingMem::foreign(region, offset, num_slots).ok_or(impossible)?;
        Self::from_indices(mem).with_copies()
    }

    /// Creates the program's half of a ring, starting with the indices that are in the ring.
    pub(crate) fn from_indices(mem: RingMem) -> Self {
        let (head, num_slots) = (mem.head().load(Ordering::Relaxed), mem.num_slots());
        let ring = Self::start(mem);
        if head < num_slots { Self { head, ..ring } } else { ring }
    }
}
