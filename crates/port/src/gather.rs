//! Frames of a tx ring in the form that system calls take: each a list of memory ranges, in place.
//!
//! ```text
//!   slots   | a | b MOREFRAG | b | - | c |        -  is a slot that cannot be sent
//!   frames  | a |      b         |               the run ends here, with the cause
//!   parts   | a | b          | b |                (`struct iovec`)
//! ```
//!
//! Shared by the port kinds that pass frames to the kernel by address. Nothing is copied here.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;

use slipring_ring::{KernRing, Region, SlotFlags, SlotIdx, SyncFault};

use crate::error::RunCause;
use crate::stats::{DropCause, QueueCounters, TrafficCounts};

/// A memory range, laid out as `struct iovec`. It consists of plain numbers, so it may move between
/// threads.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IoVec {
    address: usize,
    len: usize,
}

const _: () = assert!(size_of::<IoVec>() == size_of::<libc::iovec>());
const _: () = assert!(align_of::<IoVec>() == align_of::<libc::iovec>());
const _: () = assert!(offset_of!(IoVec, address) == offset_of!(libc::iovec, iov_base));
const _: () = assert!(offset_of!(IoVec, len) == offset_of!(libc::iovec, iov_len));

impl IoVec {
    /// Address of the first byte.
    pub(crate) fn address(self) -> usize {
        self.address
    }

    /// Length in bytes.
    pub(crate) fn len(self) -> usize {
        self.len
    }
}

/// One frame of a run of frames.
#[derive(Debug, Clone, Copy)]
struct GatherFrame {
    slot: SlotIdx,
    first_iovec: u32,
    iovecs: u32,
    len: u32,
}

/// A run of consecutive frames that can be sent.
///
/// # Invariants
/// 1. Every part is within a buffer of `region`, which lives as long as this value. So the kernel
///    may read parts at any time. A program that breaks the ring protocol can only make the kernel
///    read other bytes of the region.
/// 2. Parts of one frame follow each other in `iovecs`.
#[derive(Debug)]
pub(crate) struct GatherList {
    region: Arc<Region>,
    iovecs: Vec<IoVec>,
    frames: Vec<GatherFrame>,
    /// The slot after the run; if `refused` is set, the slot after the refused frame, which follows
    /// the run.
    end: SlotIdx,
    /// Why the last frame before `end` cannot be sent; `None` if all frames before `end` belong to
    /// the run.
    refused: Option<DropCause>,
}

impl GatherList {
    /// An empty list for rings of `num_slots` slots in `region`.
    pub(crate) fn new(region: &Arc<Region>, num_slots: u32) -> Self {
        Self {
            region: region.clone(),
            iovecs: Vec::with_capacity(num_slots as usize),
            frames: Vec::with_capacity(num_slots as usize),
            end: 0,
            refused: None,
        }
    }

    /// Number of frames in the run.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Parts of frame `i`.
    ///
    /// # Panics
    /// If there is no frame `i`.
    #[inline]
    pub(crate) fn iovecs(&self, i: usize) -> &[IoVec] {
        let GatherFrame { first_iovec: first_part, iovecs: parts, .. } = self.frames[i];
        &self.iovecs[first_part as usize..(first_part + parts) as usize]
    }

    /// Length of frame `i` in bytes.
    ///
    /// # Panics
    /// If there is no frame `i`.
    #[inline]
    pub(crate) fn frame_len(&self, i: usize) -> u32 {
        self.frames[i].len
    }

    /// The numbers of packets and bytes in the frames with the indices `frames`.
    #[inline]
    pub(crate) fn traffic(&self, frames: Range<usize>) -> TrafficCounts {
        let frames = &self.frames[frames];
        let bytes = frames.iter().map(|frame| u64::from(frame.len)).sum();
        TrafficCounts { packets: frames.len() as u64, bytes }
    }

    /// Collects frames from slot `at` up to `head`, or up to the first frame that cannot be sent.
    #[inline]
    fn collect(&mut self, ring: &mut KernRing, at: SlotIdx, head: SlotIdx, max_frame: u32) {
        assert!(Arc::ptr_eq(ring.region(), &self.region), "a gather serves one region");
        self.iovecs.clear();
        self.frames.clear();
        self.refused = None;
        self.end = at;
        while self.end != head && self.refused.is_none() {
            self.frame(ring, head, max_frame);
        }
    }

    /// Adds the frame whose first slot is `self.end`, or records why it cannot be sent.
    #[inline]
    fn frame(&mut self, ring: &mut KernRing, head: SlotIdx, max_frame: u32) {
        let (slot, first_part) = (self.end, self.iovecs.len());
        let (mut len, mut more) = (0, true);
        while more {
            let part = ring.slot(self.end);
            let bytes = ring.payload(self.end);
            if bytes.is_empty() || bytes.len() != usize::from(part.len) {
                self.refused = Some(DropCause::TxBadSlot);
            }
            len += bytes.len() as u32;
            self.iovecs.push(IoVec { address: bytes.address(), len: bytes.len() });
            self.end = ring.next(self.end);
            more = part.flags.has(SlotFlags::MOREFRAG);
            if more && self.end == head {
                self.refused = self.refused.or(Some(DropCause::TxIncomplete));
                more = false;
            }
        }
        if len > max_frame {
            self.refused = self.refused.or(Some(DropCause::TxTooLong));
        }
        let parts = (self.iovecs.len() - first_part) as u32;
        if self.refused.is_none() {
            self.frames.push(GatherFrame {
                slot,
                first_iovec: first_part as u32,
                iovecs: parts,
                len,
            });
        }
    }
}

/// Sends what the program released on `ring` and frees completed slots.
///
/// `send` gets a run of frames and returns how many of them are finished: sent, or dropped and
/// counted. If it returns fewer than all, the kernel takes no more at this time, and the remaining
/// frames stay with the driver for the next call.
///
/// # Errors
/// [`RunCause::Ring`] if the program's indices are impossible; also the errors of `send`.
pub(crate) fn transmit(
    ring: &mut KernRing,
    gather: &mut GatherList,
    max_frame: u32,
    counters: &QueueCounters,
    mut send: impl FnMut(&GatherList) -> Result<usize, RunCause>,
) -> Result<(), RunCause> {
    let head = ring.released().map_err(SyncFault::from)?;
    let mut at = ring.hwcur();
    while at != head {
        gather.collect(ring, at, head, max_frame);
        let done = send(gather)?;
        if let Some(waiting) = gather.frames.get(done) {
            at = waiting.slot;
            break;
        }
        if let Some(cause) = gather.refused {
            counters.dropped(cause, 1);
        }
        at = gather.end;
    }
    ring.complete_to(at);
    ring.set_tail(ring.prev(at));
    let waiting = ring.slots(at, head).filter(|(_, slot)| !slot.flags.has(SlotFlags::MOREFRAG));
    counters.set_in_flight(waiting.count() as u64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use slipring_ring::{Geometry, HugePages, RingHalves, RingOffsets, Tx, TxRing};

    use super::*;

    const SLOTS: u32 = 16;

    struct Rig {
        tx: TxRing,
        kern: KernRing,
        gather: GatherList,
        counters: QueueCounters,
    }

    impl Rig {
        fn new() -> Self {
            let geometry = Geometry { ring_bytes: 16 << 10, bufs: 64, buf_size: 2048 };
            let region = Region::create(geometry, HugePages::Never).unwrap();
            let pair = RingHalves::<Tx>::create(&region, 0, SLOTS).unwrap();
            let gather = GatherList::new(&region, SLOTS);
            Self { tx: pair.app, kern: pair.kern, gather, counters: QueueCounters::default() }
        }

        /// Queues a slot of `len` bytes.
        fn queue(&mut self, len: usize, flags: SlotFlags) {
            assert!(self.tx.avail() > 0);
            self.tx.set(0, len, flags);
            self.tx.advance(1);
        }

        /// Sends at most `room` frames. For each sent frame, returns its length and its number of
        /// parts.
        fn transmit(&mut self, room: usize) -> Vec<(u32, usize)> {
            let mut sent = Vec::new();
            transmit(&mut self.kern, &mut self.gather, 4000, &self.counters, |run| {
                let count = run.len().min(room - sent.len());
                sent.extend((0..count).map(|i| (run.frame_len(i), run.iovecs(i).len())));
                Ok(count)
            })
            .unwrap();
            sent
        }
    }

    #[test]
    fn bad_frames_are_dropped_by_name_and_the_others_keep_their_order() {
        let mut rig = Rig::new();
        let (last, more) = (SlotFlags::default(), SlotFlags::MOREFRAG);
        rig.queue(60, last);
        rig.queue(0, last);
        rig.queue(2048, more);
        rig.queue(100, last);
        rig.queue(2048, more);
        rig.queue(2048, last);
        rig.queue(61, last);
        rig.queue(2048, more);
        assert_eq!(rig.transmit(99), [(60, 1), (2148, 2), (61, 1)]);
        let seen = rig.counters.snapshot();
        for cause in [DropCause::TxBadSlot, DropCause::TxTooLong, DropCause::TxIncomplete] {
            assert_eq!(seen.dropped(cause), 1, "{cause:?}");
        }
        assert_eq!(rig.tx.avail(), SLOTS - 1);
    }

    #[test]
    fn frames_that_cannot_leave_yet_stay_and_nothing_is_counted_twice() {
        let mut rig = Rig::new();
        for len in [60, 0, 62, 0, 64, 65] {
            rig.queue(len, SlotFlags::default());
        }
        assert_eq!(rig.transmit(2), [(60, 1), (62, 1)]);
        assert_eq!(rig.counters.snapshot().in_flight, 2);
        assert_eq!(rig.tx.avail(), SLOTS - 1 - 2);
        assert_eq!(rig.transmit(0), []);
        assert_eq!(rig.transmit(9), [(64, 1), (65, 1)]);
        let seen = rig.counters.snapshot();
        assert_eq!((seen.in_flight, seen.dropped(DropCause::TxBadSlot)), (0, 2));
    }

    #[test]
    fn a_frame_is_taken_from_the_offset_of_its_slot_and_not_beyond_its_buffer() {
        let mut rig = Rig::new();
        let begin = rig.kern.buffer(0).address();
        rig.kern.view().set_offsets(Some(RingOffsets { mask: 0xff, max: 200 }), 0);
        for (slot, len) in [(0, 60), (1, 2048)] {
            rig.kern.view().set_slot_ptr(slot, 100);
            rig.queue(len, SlotFlags::default());
        }
        let mut parts = Vec::new();
        transmit(&mut rig.kern, &mut rig.gather, 4000, &rig.counters, |run| {
            parts.extend((0..run.len()).map(|i| (run.iovecs(i)[0].address(), run.frame_len(i))));
            Ok(run.len())
        })
        .unwrap();
        assert_eq!(parts, [(begin + 100, 60)]);
        assert_eq!(rig.counters.snapshot().dropped(DropCause::TxBadSlot), 1);
    }

    #[test]
    fn a_ring_of_another_region_is_refused() {
        let mut rig = Rig::new();
        rig.queue(60, SlotFlags::default());
        rig.transmit(1);
        let other = Rig::new();
        rig.gather = other.gather;
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            rig.queue(60, SlotFlags::default());
            rig.transmit(1)
        }));
        assert!(result.is_err(), "a gather must not serve a foreign region");
    }
}
