//! Single frames in the slots of an rx ring.
//!
//! For programs that decide about each frame. To move whole batches to one ring, use
//! [`slipring_ring::forward`].

use slipring_ring::{RxRing, SlotFlags};

/// Maximum number of slots of a frame, which is netmap's limit.
const MAX_FRAGMENTS: u32 = 64;

/// Returns the number of slots of the whole frames at the start of the ring. Only the first `most`
/// slots are examined, but at least 64, so that a frame with the maximum number of slots is always
/// found.
pub fn whole_frames(rx: &mut RxRing, most: u32) -> u32 {
    let count = rx.avail().min(most.max(MAX_FRAGMENTS));
    rx.whole_packets(count)
}

/// Returns the number of slots of the frame that begins `at` slots after the ring's head. `end`
/// must be the result of [`whole_frames`].
#[inline]
pub fn slots_of(rx: &RxRing, at: u32, end: u32) -> u32 {
    let more = |i: &u32| rx.slot(*i).is_some_and(|slot| slot.flags.has(SlotFlags::MOREFRAG));
    (at..end).take_while(more).count() as u32 + 1
}

/// Returns the bytes of a frame. If it has one slot, they are in place; otherwise they are
/// collected in `scratch`.
#[inline]
pub fn bytes<'r>(rx: &'r mut RxRing, at: u32, slots: u32, scratch: &'r mut Vec<u8>) -> &'r [u8] {
    if slots == 1 {
        return rx.frame(at).map_or(&[], |frame| frame.bytes);
    }
    scratch.clear();
    for i in at..at + slots {
        scratch.extend_from_slice(rx.frame(i).map_or(&[], |frame| frame.bytes));
    }
    scratch
}
