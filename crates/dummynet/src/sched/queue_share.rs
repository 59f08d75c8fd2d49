//! Common parts of the schedulers: limits, a queue's share, lists that are indexed by queue.

/// Binary logarithm of the virtual time that a byte takes at weight 1. It is large enough that
/// rounding errors add up to less than 1e-4.
pub(super) const FRACTION_BITS: u32 = 20;

/// Maximum length of a packet in bytes. No link carries packets this long. A longer packet would
/// count as this long, so that virtual times cannot overflow and every turn ends.
pub(super) const MAX_PACKET_LEN: u32 = 1 << 20;

/// The share of the link that a queue gets, within the scheduler's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueShare {
    pub(crate) weight: u32,
    pub(crate) lmax: u32,
    pub(crate) priority: u32,
}

/// Returns the element at `index`. If the list is too short, extends it with default values.
pub(super) fn grown<T: Clone + Default>(all: &mut alloc::vec::Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if all.len() <= index {
        all.resize(index + 1, T::default());
    }
    &mut all[index]
}
