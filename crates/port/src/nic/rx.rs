//! The receiving half of a queue.
//!
//! [`PostedBufs`] tracks which buffers the kernel may fill. A received frame's buffer goes into the
//! next slot. The kernel's slots (`tail..hwcur`) contain exactly the buffers that the kernel has
//! and the reserve buffers, in any order. After a kill, the successor learns from the slots which
//! buffers these are.

mod delegated;

use std::sync::Arc;

use slipring_ring::{BufIdx, KernRing, Slot, SlotFlags, SlotIdx, SyncFault};

use super::descriptors::{ResumableRxRings, RxDescriptor, RxDescriptorRings};
use super::in_flight::PostedBufs;
use super::offload_fixup::OffloadFixup;
use super::ownership::{self, CorruptWords, SyncDirection, SyncOwnership};
use crate::error::RunCause;
use crate::stats::{DropCause, QueueCounters, TrafficCounts};

/// The receiving half: moves buffers between the slots and the kernel.
#[derive(Debug)]
pub struct RxSide {
    ring: KernRing,
    posted: PostedBufs,
    /// Spare buffers, for super-frames whose segments need more buffers than the super-frame had.
    reserve: Vec<BufIdx>,
    reserve_size: usize,
    /// Distance, in slots, from the tail to the slot in which a buffer that arrived out of order
    /// was last found. The next search tries this distance first.
    ahead: u32,
    fixup: OffloadFixup,
    /// The new tail of the ring. During a sync, it is ahead of the tail that the application sees.
    tail: SlotIdx,
    free_slots: u32,
    received: TrafficCounts,
    counters: Arc<QueueCounters>,
}

impl RxSide {
    /// Creates the receiving half. Posts the buffers in the driver's slots to the kernel, except
    /// `reserve` of them. In a new ring all slots are the driver's.
    pub fn start(
        ring: KernRing,
        ends: &mut impl RxDescriptorRings,
        reserve: u32,
        finisher: OffloadFixup,
        counters: Arc<QueueCounters>,
    ) -> Self {
        let reserve_size = reserve as usize;
        let mut side = Self {
            posted: PostedBufs::new(ring.region().num_bufs()),
            reserve_size,
            // Reserves capacity for the buffers of a super-frame, so that no memory is allocated
            // later.
            reserve: Vec::with_capacity(2 * reserve_size),
            ahead: reserve,
            fixup: finisher,
            tail: ring.hwtail(),
            free_slots: 0,
            received: TrafficCounts::default(),
            counters,
            ring,
        };
        let mut at = side.tail;
        for _ in 0..=side.ring.free_slots() {
            let buf = side.ring.slot(at).buf;
            side.post(ends, buf);
            at = side.ring.next(at);
        }
        ends.publish();
        side
    }

    /// Gives the kernel the buffers of the slots that the program has released, and takes over
    /// arrived frames. Returns whether the program has new frames to read.
    #[inline(always)]
    pub fn sync(&mut self, ends: &mut impl RxDescriptorRings) -> Result<bool, RunCause> {
        let head = self.ring.released().map_err(SyncFault::from)?;
        self.post_released(ends, head);
        self.free_slots = self.ring.free_slots();
        self.process_received(ends);
        if self.tail == self.ring.hwtail() {
            return Ok(false);
        }
        self.ring.set_tail(self.tail);
        self.counters.received(std::mem::take(&mut self.received));
        Ok(true)
    }

    /// Returns whether a program can sync this half in its own process.
    pub(crate) fn is_lendable(&self) -> bool {
        let slots = self.ring.num_slots();
        slots.is_power_of_two() && self.reserve_size == 0 && self.ring.offsets().is_none()
    }

    /// Adopts the ring positions and counts of a program that has synced the queue itself.
    pub(crate) fn resync(
        &mut self,
        ends: &mut impl ResumableRxRings,
        turns: &mut SyncOwnership,
    ) -> Result<(), CorruptWords> {
        let n = self.ring.num_slots();
        let posted = ends.resume_posted()?;
        self.ring.complete_to(ownership::advance_slot(self.ring.hwcur(), posted, n));
        let taken = ends.resume_read()?;
        let counted = turns.take_counts(SyncDirection::Rx);
        self.counters.received(TrafficCounts { packets: counted.packets, bytes: counted.bytes });
        self.counters.dropped(DropCause::RxTooLong, counted.refused);
        if posted == 0 && taken == 0 {
            return Ok(());
        }
        self.tail = ownership::advance_slot(self.tail, taken, n);
        self.ring.set_tail(self.tail);
        self.rebuild_posted(ends);
        Ok(())
    }

    /// Rebuilds the set of posted buffers from the slots.
    pub(crate) fn rebuild_posted(&mut self, ends: &mut impl RxDescriptorRings) {
        self.posted.drain().for_each(drop);
        let count = self.ring.free_slots() + 1;
        let coming = ends.refresh();
        let coming = (0..coming).map(|i| ends.peek(i).buf);
        ownership::recover_buffers(&mut self.ring, self.tail, count, coming, |slot| {
            self.posted.add(slot.buf)
        });
    }

    /// Returns the slots that correspond to index 0 of the fill ring and of the RX ring.
    pub(crate) fn ring_anchors(&self, ends: &impl ResumableRxRings) -> [u32; 2] {
        let n = self.ring.num_slots();
        let [posted, read] = ends.positions();
        [
            ownership::ring_anchor(self.ring.hwcur(), posted, n),
            ownership::ring_anchor(self.tail, read, n),
        ]
    }

    #[inline(always)]
    fn post_released(&mut self, ends: &mut impl RxDescriptorRings, head: SlotIdx) {
        let mut at = self.ring.hwcur();
        while at != head {
            let buf = self.ring.slot(at).buf;
            self.post(ends, buf);
            at = self.ring.next(at);
        }
        self.ring.complete_to(head);
        ends.publish();
    }

    /// Adds a buffer to the reserve, or posts it to the kernel if the reserve is full. An invalid
    /// buffer, or one that the kernel already has, means that the program has corrupted its slot.
    /// Then the buffer is not posted, and the queue continues with one buffer less.
    #[inline(always)]
    fn post(&mut self, ends: &mut impl RxDescriptorRings, buf: BufIdx) {
        if !self.ring.region().is_usable(buf) {
            return;
        }
        if self.reserve.len() < self.reserve_size {
            self.reserve.push(buf);
        } else if ends.has_room() && self.posted.add(buf) {
            ends.post(buf);
        }
    }

    #[inline(always)]
    fn process_received(&mut self, ends: &mut impl RxDescriptorRings) {
        let count = ends.refresh();
        let mut taken = 0;
        while taken < count && self.free_slots > 0 {
            let part = ends.peek(taken);
            if !part.more && !self.fixup.is_super_frame(part.len) {
                self.take_single(ends, part);
                taken += 1;
            } else if let Some(parts) = self.take_chain(ends, taken, count) {
                taken += parts;
            } else {
                break;
            }
        }
        ends.release(taken);
    }

    /// Takes over a frame in one buffer, which is the common case.
    #[inline(always)]
    fn take_single(&mut self, ends: &impl RxDescriptorRings, part: RxDescriptor) {
        let (slot, at) = (self.slot_of(ends, part, SlotFlags::default()), self.tail);
        self.put(slot);
        if self.fixup.wants_chains() {
            self.fixup.complete_checksum(self.ring.payload(at));
        }
        self.received.packets += 1;
    }

    /// Returns the slot value for a received buffer, and records that the kernel no longer has the
    /// buffer.
    #[inline(always)]
    fn slot_of(
        &mut self,
        ends: &impl RxDescriptorRings,
        part: RxDescriptor,
        flags: SlotFlags,
    ) -> Slot {
        self.posted.remove(part.buf);
        ends.settle(self.ring.region(), part);
        let head = ends.head(part);
        if !head.is_empty() {
            self.put_in_front(part, head);
        }
        Slot { buf: part.buf, len: part.len as u16, flags }
    }

    /// Moves a part by the length of `head`, and puts `head` in front of it.
    #[cold]
    fn put_in_front(&mut self, part: RxDescriptor, head: &[u8]) {
        let bytes = self.ring.bytes_of(part.buf, part.len as u16);
        bytes.copy_within((part.len as usize).saturating_sub(head.len()), head.len());
        bytes.copy_in(head);
    }

    /// Writes a received slot at the tail and advances the tail.
    #[inline(always)]
    fn put(&mut self, slot: Slot) {
        let named = self.ring.slot(self.tail).buf;
        if named == slot.buf {
            self.ring.set(self.tail, slot.len, slot.flags);
        } else {
            self.put_out_of_turn(slot);
        }
        if self.ring.offsets().is_some() {
            self.move_payload(slot);
        }
        self.tail = self.ring.next(self.tail);
        self.free_slots -= 1;
        self.received.bytes += u64::from(slot.len);
    }

    /// Moves the payload of `slot` in its buffer to the offset that the slot at the tail requires;
    /// this buffer is already in the slot at the tail. Offsets are limited, so the longest payload
    /// still fits the buffer.
    #[cold]
    fn move_payload(&mut self, slot: Slot) {
        let (at, len) = (self.ring.payload_offset(self.tail), usize::from(slot.len));
        let end = (at + len).min(self.ring.region().buf_size() as usize);
        let whole = self.ring.bytes_of(slot.buf, end as u16);
        if whole.len() == at + len {
            whole.copy_within(len, at);
        }
    }

    /// Puts `slot` at the tail, although the buffer that it names is in a later slot. That later
    /// slot gets the buffer that was at the tail.
    fn put_out_of_turn(&mut self, slot: Slot) {
        let names = |ahead: u32| self.ring.slot(self.ring.add(self.tail, ahead)).buf == slot.buf;
        let last = Some(self.ahead)
            .filter(|&ahead| (1..=self.free_slots).contains(&ahead) && names(ahead));
        if let Some(ahead) = last.or_else(|| (1..=self.free_slots).find(|&ahead| names(ahead))) {
            self.ahead = ahead;
            let at = self.ring.add(self.tail, ahead);
            let other = self.ring.slot(at);
            self.ring.exchange((self.tail, slot.len, slot.flags), (at, other.len, other.flags));
        } else {
            // No slot has the buffer, so a peer has overwritten the slot that had it.
            self.ring.rename(self.tail, slot);
        }
    }

    /// Takes over a packet that has several buffers or must be segmented. Returns the number of its
    /// descriptors, also if it was dropped. Returns `None` if the packet has to wait: if it is
    /// incomplete, or if the ring has too few free slots or the reserve too few buffers for it.
    #[cold]
    fn take_chain(
        &mut self,
        ends: &mut impl RxDescriptorRings,
        first: u32,
        count: u32,
    ) -> Option<u32> {
        let last = (first..count).find(|&i| !ends.peek(i).more)?;
        let parts = last + 1 - first;
        let bytes: u32 = (first..=last).map(|i| ends.peek(i).len).sum();
        if self.fixup.is_super_frame(bytes) {
            return self.take_super_frame(ends, first, parts).then_some(parts);
        }
        if parts >= self.ring.num_slots() {
            self.discard(ends, first, parts, DropCause::RxTooLong);
            return Some(parts);
        }
        if parts > self.free_slots {
            return None;
        }
        self.put_chain(ends, first, parts);
        Some(parts)
    }

    fn put_chain(&mut self, ends: &impl RxDescriptorRings, first: u32, parts: u32) {
        let start = self.tail;
        for i in first..first + parts {
            let part = ends.peek(i);
            let flags = if part.more { SlotFlags::MOREFRAG } else { SlotFlags::default() };
            let slot = self.slot_of(ends, part, flags);
            self.put(slot);
        }
        self.received.packets += 1;
        self.finish_chain(start);
    }

    /// Completes the checksum of a packet in the slots from `start` to the tail.
    fn finish_chain(&mut self, start: SlotIdx) {
        if !self.fixup.wants_chains() {
            return;
        }
        self.fixup.begin_gather();
        let mut at = start;
        while at != self.tail {
            self.fixup.gather(self.ring.payload(at));
            at = self.ring.next(at);
        }
        // The checksum is in the headers, and so in the first buffer.
        self.fixup.finish_gathered(self.ring.payload(start));
    }

    /// Segments a packet of `parts` descriptors into frames that fit the MTU, or drops a packet
    /// that cannot be segmented. Returns false if the packet has to wait.
    fn take_super_frame(
        &mut self,
        ends: &mut impl RxDescriptorRings,
        first: u32,
        parts: u32,
    ) -> bool {
        self.fixup.begin_gather();
        for i in first..first + parts {
            let part = ends.peek(i);
            self.fixup.gather(self.ring.bytes_of(part.buf, part.len as u16));
        }
        let Some(slots) = self.fixup.slots_of_segments(ends.max_part()) else {
            self.discard(ends, first, parts, DropCause::RxTooLong);
            return true;
        };
        if slots >= self.ring.num_slots() || slots > self.reserve_size as u32 + parts {
            self.discard(ends, first, parts, DropCause::RxTooLong);
            return true;
        }
        // The packet waits if the ring has too few free slots or the reserve too few buffers. The
        // buffers of slots that the program releases refill the reserve first.
        if slots > self.free_slots || slots > self.reserve.len() as u32 + parts {
            return false;
        }
        self.repost(ends, first, parts);
        self.put_segments(ends.max_part() as usize);
        true
    }

    /// Adds the buffers of `parts` descriptors to the reserve.
    fn repost(&mut self, ends: &impl RxDescriptorRings, first: u32, parts: u32) {
        for i in first..first + parts {
            let buf = ends.peek(i).buf;
            if self.posted.remove(buf) {
                self.reserve.push(buf);
            }
        }
    }

    fn put_segments(&mut self, part: usize) {
        let mut finisher = std::mem::take(&mut self.fixup);
        let cut = finisher.segments(|header, payload| {
            let mut at = 0;
            let len = header.len() + payload.len();
            while at < len {
                let end = len.min(at + part);
                self.put_segment_part(header, payload, at..end, end < len);
                at = end;
            }
            self.received.packets += 1;
        });
        debug_assert!(cut, "its segments were counted before");
        self.fixup = finisher;
    }

    /// Writes a part of a segment into a buffer of the reserve: the bytes `range` of header and
    /// payload together.
    fn put_segment_part(
        &mut self,
        header: &[u8],
        payload: &[u8],
        range: std::ops::Range<usize>,
        more: bool,
    ) {
        let Some(buf) = self.reserve.pop() else { return };
        let flags = if more { SlotFlags::MOREFRAG } else { SlotFlags::default() };
        let slot = Slot { buf, len: range.len() as u16, flags };
        let at = self.tail;
        self.put(slot);
        let to = self.ring.payload(at);
        let from_header = header.get(range.start..range.end.min(header.len())).unwrap_or_default();
        to.copy_in(from_header);
        let skip = range.start.saturating_sub(header.len());
        let rest = range.len() - from_header.len();
        to.skip(from_header.len()).copy_in(&payload[skip..skip + rest]);
    }

    /// Drops a packet and gives its buffers back to the reserve or the kernel.
    fn discard(
        &mut self,
        ends: &mut impl RxDescriptorRings,
        first: u32,
        parts: u32,
        cause: DropCause,
    ) {
        for i in first..first + parts {
            let buf = ends.peek(i).buf;
            self.posted.remove(buf);
            self.post(ends, buf);
        }
        ends.publish();
        self.counters.dropped(cause, 1);
    }
}

impl Drop for RxSide {
    /// Puts the buffers that the kernel had into slots. So dropping the ring frees each buffer
    /// once. The socket is already closed, or the device stopped.
    fn drop(&mut self) {
        if self.ring.is_foreign() {
            return;
        }
        let mut buffers: Vec<BufIdx> = self.posted.drain().collect();
        buffers.append(&mut self.reserve);
        let mut at = self.tail;
        for _ in 0..=self.ring.free_slots() {
            let slot = self.ring.slot(at);
            let buf = buffers.pop().unwrap_or(BufIdx(0));
            if !self.ring.rename(at, Slot { buf, ..slot }) {
                // The region is private, where no peer overwrites slots. So the slots already name
                // these buffers.
                return;
            }
            at = self.ring.next(at);
        }
        self.ring.region().release_bufs(buffers);
    }
}
