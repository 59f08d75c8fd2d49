//! Code shared by the schedulers: limits, a queue's share, lists by queue.

/// Binary logarithm of the virtual time per byte at weight 1; it is large enough that rounding
/// errors sum up to less than 1e-4.
pub(super) const FRACTION_BITS: u32 = 20;

/// Maximum packet length in bytes. Longer packets, which no link has, count as this long, so that
/// virtual times cannot overflow and each turn ends.
pub(super) const MAX_PACKET_LEN: u32 = 1 << 20;

/// The share of a queue, within the scheduler's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueShare {
    pub(crate) weight: u32,
    pub(crate) lmax: u32,
    pub(crate) priority: u32,
}

/// Returns the element at `index`; extends the list with default values if needed.
pub(super) fn grown<T: Clone + Default>(all: &mut alloc::vec::Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if all.len() <= index {
        all.resize(index + 1, T::default());
    }
    &mut all[index]
}
