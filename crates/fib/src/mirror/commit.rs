//! Writes the deferred changes of IPv4 tables, and frees the indices and adjacencies to which no
//! entry leads any more.

use alloc::vec::Vec;

use super::Mirror;
use crate::deferred::{DeferredRanges, ReleasedItem};
use crate::prefix::RoutePrefix;

impl Mirror {
    /// Writes the changes of the newest snapshot to the IPv4 tables. Call this after each
    /// [`Self::publish`] that returns a snapshot, when the readers have it. A reader of an older
    /// snapshot leaves packets to the kernel if a new entry leads to a target that the snapshot
    /// does not have.
    pub fn write_ipv4(&mut self) {
        for DeferredRanges { vrf, prefix, numbers } in core::mem::take(&mut self.deferred.ranges) {
            self.set_v4(vrf, prefix, &numbers);
        }
        self.free_released();
    }

    /// Changes a prefix of an IPv4 table. The change is deferred to [`Self::write_ipv4`]. But
    /// before the first snapshot there are no readers, so it is written immediately, because the
    /// deferred ranges of all routes would take much memory.
    pub(super) fn change_v4(
        &mut self,
        vrf: usize,
        prefix: RoutePrefix<u32>,
        numbers: Vec<(u32, u16)>,
    ) {
        if self.published.is_none() {
            self.set_v4(vrf, prefix, &numbers);
        } else {
            self.deferred.ranges.push(DeferredRanges { vrf, prefix, numbers });
        }
    }

    pub(super) fn release(&mut self, released: ReleasedItem) {
        self.deferred.released.push(released);
    }

    /// Frees the indices and adjacencies to which no entry leads any more. The next snapshot will
    /// not refer to them.
    pub(super) fn free_released(&mut self) {
        for released in core::mem::take(&mut self.deferred.released) {
            match released {
                ReleasedItem::Target(index) => self.targets.give_back(index, self.generation),
                ReleasedItem::Adjacency(key) => self.adjacencies.release(key, self.generation),
                ReleasedItem::Buckets(index) => self.buckets.give_back(index, self.generation),
            }
        }
    }
}
