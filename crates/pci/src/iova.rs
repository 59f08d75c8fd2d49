//! Allocates addresses of a device's address space.

use std::ops::Range;

/// The first address that is allocated. Low addresses stay unmapped, so that a device with an
/// uninitialised or zero address accesses no memory.
const FIRST_ADDRESS: u64 = 16 << 20;
/// Ranges begin at huge pages, so that the IOMMU can map huge pages as such.
const ALIGNMENT: u64 = 2 << 20;
/// One more than the last address that may be allocated: every IOMMU can map 39 bits.
const UNLIMITED_END: u64 = 1 << 39;

/// Allocates addresses of a device.
#[derive(Debug)]
pub(crate) struct IovaSpace {
    /// Addresses that the IOMMU can map, in ascending order.
    valid: Vec<Range<u64>>,
    /// Ranges in use, in ascending order.
    used: Vec<Range<u64>>,
}

impl IovaSpace {
    /// Creates a space without reserved ranges.
    pub(crate) fn unlimited() -> Self {
        Self::new(std::iter::once(FIRST_ADDRESS..UNLIMITED_END))
    }

    /// Creates a space of these ranges, which may have any order.
    pub(crate) fn new(valid: impl IntoIterator<Item = Range<u64>>) -> Self {
        let usable = valid.into_iter().map(|range| {
            let start = range.start.max(FIRST_ADDRESS).next_multiple_of(ALIGNMENT);
            start..range.end.min(UNLIMITED_END)
        });
        let mut valid: Vec<_> = usable.filter(|range| range.start < range.end).collect();
        valid.sort_by_key(|range| range.start);
        Self { valid, used: Vec::new() }
    }

    /// Allocates `len` consecutive addresses. Returns the first one; `None` if there is no such
    /// range.
    pub(crate) fn alloc(&mut self, len: u64) -> Option<u64> {
        let start = self.valid.iter().find_map(|valid| self.fit(valid, len))?;
        let at = self.used.partition_point(|range| range.start < start);
        self.used.insert(at, start..start + len);
        Some(start)
    }

    /// Releases the addresses from `start`, which [`Self::alloc`] returned.
    pub(crate) fn release(&mut self, start: u64) {
        self.used.retain(|range| range.start != start);
    }

    /// Returns the lowest address in `valid` at which `len` addresses are free.
    fn fit(&self, valid: &Range<u64>, len: u64) -> Option<u64> {
        let mut start = valid.start;
        for used in &self.used {
            if start.checked_add(len)? <= used.start {
                break;
            }
            if used.end > start {
                start = used.end.next_multiple_of(ALIGNMENT);
            }
        }
        (len > 0 && start.checked_add(len)? <= valid.end).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_avoid_holes_and_are_given_out_again() {
        let mut space = IovaSpace::new([0x1000_0000..0x2000_0000, 0..0x0120_0000]);
        assert_eq!(space.alloc(0x20_0000), Some(0x0100_0000));
        assert_eq!(space.alloc(4096), Some(0x1000_0000), "the first range is full");
        assert_eq!(space.alloc(4096), Some(0x1020_0000));
        space.release(0x1000_0000);
        assert_eq!(space.alloc(0x20_0000), Some(0x1000_0000));
        assert_eq!(space.alloc(0x1000_0000), None);
        assert_eq!((space.alloc(0), space.alloc(u64::MAX)), (None, None));
    }

    proptest! {
        #[test]
        fn ranges_in_use_never_overlap(steps in prop::collection::vec((any::<bool>(), 1u64..9 << 20), 1..60)) {
            let mut space = IovaSpace::new([0..80 << 20, 90 << 20..200 << 20]);
            let mut given: Vec<Range<u64>> = Vec::new();
            for (gives, len) in steps {
                if !gives {
                    if let Some(range) = given.pop() {
                        space.release(range.start);
                    }
                } else if let Some(start) = space.alloc(len) {
                    let range = start..start + len;
                    prop_assert!(start % ALIGNMENT == 0 && start >= FIRST_ADDRESS);
                    prop_assert!(range.end <= 80 << 20 || start >= 90 << 20 && range.end <= 200 << 20);
                    prop_assert!(given.iter().all(|other| other.end <= range.start || range.end <= other.start));
                    given.push(range);
                }
            }
        }
    }
}
