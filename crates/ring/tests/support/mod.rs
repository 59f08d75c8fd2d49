//! Support for tests: regions, and a peer that writes arbitrary values into them.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeSet;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use slipring_abi::NetmapRing;
use slipring_ring::{AppRing, BufIdx, Geometry, HugePages, KernRing, Region};

pub(crate) const SLOTS: u32 = 8;
/// Slots that can be in use at the same time.
pub(crate) const ROOM: u32 = SLOTS - 1;

pub(crate) fn region(buf_size: u32) -> Arc<Region> {
    let geometry = Geometry { ring_bytes: 64 << 10, bufs: 128, buf_size };
    Region::create(geometry, HugePages::Never).unwrap()
}

/// A region that other processes may map.
pub(crate) fn shared_region(buf_size: u32) -> Arc<Region> {
    let geometry = Geometry { ring_bytes: 64 << 10, bufs: 128, buf_size };
    Region::create_shared(geometry, HugePages::Never).unwrap()
}

/// A word of a ring's header, as another process sees it.
fn word<D>(ring: &AppRing<D>, offset: usize) -> &AtomicU32 {
    let at = ring.region().base().as_ptr().wrapping_add(ring.offset() as usize + offset);
    // SAFETY: inside the ring's header, aligned as its field; rings access it as an atomic too.
    unsafe { AtomicU32::from_ptr(at.cast()) }
}

pub(crate) fn shared_head<D>(ring: &AppRing<D>) -> &AtomicU32 {
    word(ring, offset_of!(NetmapRing, head))
}

pub(crate) fn shared_cur<D>(ring: &AppRing<D>) -> &AtomicU32 {
    word(ring, offset_of!(NetmapRing, cur))
}

pub(crate) fn shared_tail<D>(ring: &AppRing<D>) -> &AtomicU32 {
    word(ring, offset_of!(NetmapRing, tail))
}

/// The first 8 bytes of slot `i`: `buf_idx`, `len`, `flags`.
pub(crate) fn shared_slot<D>(ring: &AppRing<D>, i: u32) -> &AtomicU64 {
    let ofs = ring.offset() as usize + slipring_abi::NETMAP_RING_SLOTS_OFS + 16 * i as usize;
    let at = ring.region().base().as_ptr().wrapping_add(ofs);
    // SAFETY: `i` is a slot of the ring; rings access slots as atomics too.
    unsafe { AtomicU64::from_ptr(at.cast()) }
}

/// The buffers in a ring's slots.
pub(crate) fn bufs_of(ring: &KernRing) -> Vec<BufIdx> {
    (0..ring.num_slots()).map(|i| ring.slot(i).buf).collect()
}

/// Returns whether each buffer occurs once.
pub(crate) fn all_different(bufs: &[BufIdx]) -> bool {
    bufs.iter().collect::<BTreeSet<_>>().len() == bufs.len()
}
