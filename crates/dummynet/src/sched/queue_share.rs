//! Code shared by the schedulers: limits, a queue's share, lists by queue.

/// Virtual time per byte at weight 1, as a power of two: sums of rounding stay below 1e-4.
pub(super) const FRACTION_BITS: u32 = 20;

/// Packets longer than this, in bytes, count as this long; no link has such packets. So virtual
/// times cannot overflow, and each queue's turn ends.
pub(super) const MAX_PACKET_LEN: u32 = 1 << 20;

/// The share of a queue, within the scheduler's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueShare {
    pub(crate) weight: u32,
    pub(crate) lmax: u32,
    pub(crate) priority: u32,
}

/// The element at `index`; extends the list if needed.
pub(super) fn grown<T: Clone + Default>(all: &mut alloc::vec::Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if all.len() <= index {
        all.resize(index + 1, T::default());
    }
    &mut all[index]
}
