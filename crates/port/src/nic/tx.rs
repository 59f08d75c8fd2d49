//! The sending half of a queue.
//!
//! ```text
//!   slot     0   1   2   3   4   5   6   7
//!          | k | k | s | s | s | a | a | a |    a: the application's   s: released, not yet read
//!            ^ tail  ^ hwcur     ^ head         k: the kernel's; the slot at tail always is one
//! ```
//!
//! # Completion rule
//! The kernel completes frames in any order, and the content of a sent slot does not matter until
//! it is free again. So the k-th returned buffer goes into the k-th slot after `tail`: slots become
//! free in order, no frame waits for a slower one, and each buffer is in one slot. If the slot
//! referred to another buffer, the two slots exchange their buffers: the freed slot gets the
//! returned buffer and `NS_BUF_CHANGED`, and the slot that had the returned buffer gets the buffer
//! of the freed slot. So the kernel's slots, except the one at `tail`, refer to exactly the buffers
//! that the kernel has, and after a kill the successor learns the buffers from them.

mod delegated;

use std::sync::Arc;

use slipring_ring::{BufIdx, KernRing, Slot, SlotFlags, SlotIdx, SyncFault};

use super::MAX_PACKET_DESCRIPTORS;
use super::descriptors::{MAX_INSPECTED, ResumableTxRings, TxDescriptorRings};
use super::in_flight::{InFlight, SendState};
use super::ownership::{self, CorruptWords, SyncDirection, SyncOwnership};
use crate::error::RunCause;
use crate::stats::{DropCause, QueueCounters, TrafficCounts};

/// The sending half: moves buffers between the slots and the kernel.
#[derive(Debug)]
pub struct TxSide {
    ring: KernRing,
    flight: InFlight,
    limits: TxLimits,
    /// The new tail of the ring. During a sync, it is ahead of the tail that the application sees.
    tail: SlotIdx,
    /// Number of packets that the kernel has not completed.
    packets_out: u64,
    /// Number of packets that the kernel has completed, refused ones included.
    packets_done: u64,
    /// Whether packets in flight may have several descriptors. Then slots and descriptors need not
    /// correspond one to one.
    has_chains: bool,
    sent: TrafficCounts,
    counters: Arc<QueueCounters>,
}

/// The limits of what the port can send.
#[derive(Debug, Clone, Copy)]
pub struct TxLimits {
    /// Maximum number of bytes of a packet.
    pub packet: u32,
    /// Whether packets may take several descriptors.
    pub chains: bool,
    /// Whether the queue can send at all.
    pub enabled: bool,
}

/// A packet in the ring. It takes the slots `from..to`.
#[derive(Debug, Clone, Copy)]
struct TxChain {
    from: SlotIdx,
    to: SlotIdx,
}

impl TxSide {
    /// Creates the sending half for a ring. All slots before the ring's `hwcur` count as completed.
    pub fn new(ring: KernRing, limits: TxLimits, counters: Arc<QueueCounters>) -> Self {
        let flight = InFlight::new(ring.region().num_bufs());
        // Buffers that a previous process had handed to its kernel socket are no longer in flight.
        let tail = ring.prev(ring.hwcur());
        let sent = TrafficCounts::default();
        let (packets_out, packets_done, has_chains) = (0, 0, false);
        Self { ring, flight, limits, tail, packets_out, packets_done, has_chains, sent, counters }
    }

    /// Sends the frames that the application released, and frees the slots of completed frames.
    /// `kick` makes the device process its descriptors. Frames may complete during `kick`; it may
    /// call [`Self::complete`] for these.
    pub fn sync<E: TxDescriptorRings>(
        &mut self,
        ends: &mut E,
        kick: impl FnOnce(&mut Self, &mut E) -> Result<(), RunCause>,
    ) -> Result<(), RunCause> {
        let head = self.ring.released().map_err(SyncFault::from)?;
        self.complete(ends);
        let done = self.submit(ends, head);
        self.ring.complete_to(done);
        let kicked = kick(self, ends);
        self.publish();
        kicked
    }

    /// Sets the maximum number of bytes of a packet, for packets that are sent from now on.
    pub fn set_max_packet(&mut self, bytes: u32) {
        self.limits.packet = bytes;
    }

    /// Makes the device process its pending descriptors.
    #[cold]
    pub fn kick_pending<E: TxDescriptorRings>(
        &mut self,
        ends: &mut E,
        kick: impl FnOnce(&mut Self, &mut E) -> Result<(), RunCause>,
    ) -> Result<(), RunCause> {
        let kicked = kick(self, ends);
        self.publish();
        kicked
    }

    /// Frees the slots of completed frames, but sends no released frames.
    #[cold]
    pub fn complete_without_sending(
        &mut self,
        ends: &mut impl TxDescriptorRings,
    ) -> Result<(), RunCause> {
        self.ring.released().map_err(SyncFault::from)?;
        self.complete(ends);
        self.publish();
        self.counters.set_in_flight(self.packets_out + self.unsubmitted());
        Ok(())
    }

    /// Returns the number of packets that the program has released, and that were not handed to the
    /// kernel.
    pub(crate) fn unsubmitted(&self) -> u64 {
        self.ring.waiting_packets()
    }

    /// Returns whether a program can sync this half in its own process.
    pub(crate) fn is_lendable(&self) -> bool {
        let slots = self.ring.num_slots();
        slots.is_power_of_two() && self.limits.enabled && self.ring.offsets().is_none()
    }

    /// Adopts the ring positions and counts of a program that has synced the queue itself.
    pub(crate) fn resync(
        &mut self,
        ends: &mut impl ResumableTxRings,
        turns: &mut SyncOwnership,
    ) -> Result<(), CorruptWords> {
        let n = self.ring.num_slots();
        let submitted = ends.resume_queued()?;
        self.ring.complete_to(ownership::advance_slot(self.ring.hwcur(), submitted, n));
        let completed = ends.resume_completed()?;
        let counted = turns.take_counts(SyncDirection::Tx);
        let packets = counted.packets.saturating_sub(counted.refused);
        self.counters.sent(TrafficCounts { packets, bytes: counted.bytes });
        self.counters.dropped(DropCause::TxRefused, counted.refused);
        if submitted == 0 && completed == 0 {
            return Ok(());
        }
        self.tail = ownership::advance_slot(self.tail, completed, n);
        self.ring.set_tail(self.tail);
        self.rebuild_in_flight(ends);
        Ok(())
    }

    /// Rebuilds the set of buffers in flight from the slots that the kernel has.
    pub(crate) fn rebuild_in_flight(&mut self, ends: &mut impl TxDescriptorRings) {
        // Draining visits every buffer of the region, so it is skipped if nothing is in flight.
        if self.packets_out > 0 {
            self.flight.drain().for_each(drop);
        }
        let first = self.ring.next(self.tail);
        let count = self.ring.slots(first, self.ring.hwcur()).count() as u32;
        let coming = ends.refresh_completed();
        let coming = (0..coming).map(|i| ends.peek_completed(i));
        self.packets_out = 0;
        ownership::recover_buffers(&mut self.ring, first, count, coming, |slot| {
            let entered = self.flight.start(slot.buf, SendState::new(slot.len, true, false));
            self.packets_out += u64::from(entered);
            entered
        });
        self.counters.set_in_flight(self.packets_out);
    }

    /// Returns the slots that correspond to index 0 of the TX ring and of the completion ring.
    pub(crate) fn ring_anchors(&self, ends: &impl ResumableTxRings) -> [u32; 2] {
        let n = self.ring.num_slots();
        let [queued, completed] = ends.positions();
        [
            ownership::ring_anchor(self.ring.hwcur(), queued, n),
            ownership::ring_anchor(self.tail, completed, n),
        ]
    }

    /// Returns whether packets with several descriptors may be in flight. A program that syncs the
    /// queue itself cannot take back the buffers of such packets.
    pub(crate) fn is_special(&self) -> bool {
        self.has_chains && self.packets_out > 0
    }

    /// Returns the number of packets that the kernel has not completed.
    pub fn packets_out(&self) -> u64 {
        self.packets_out
    }

    /// Returns the number of packets that the kernel has completed since the side was created. It
    /// shows whether a device makes progress. [`Self::packets_out`] does not: it stays the same
    /// while as many packets are queued as are completed.
    pub fn packets_done(&self) -> u64 {
        self.packets_done
    }

    /// Publishes the result of a sync to the application and the counters.
    #[inline(always)]
    fn publish(&mut self) {
        if self.tail != self.ring.hwtail() {
            self.ring.set_tail(self.tail);
        }
        self.counters.sent(std::mem::take(&mut self.sent));
        self.counters.set_in_flight(self.packets_out);
    }

    /// Hands the packets in `hwcur..head` to the kernel, and drops those that cannot be sent.
    /// Returns the first slot that was not processed: `head`, or an earlier one if the TX ring is
    /// full.
    #[inline(always)]
    fn submit(&mut self, ends: &mut impl TxDescriptorRings, head: SlotIdx) -> SlotIdx {
        let mut at = self.ring.hwcur();
        // If payloads may have offsets, `submit_chain` handles all packets.
        let longest = match self.ring.offsets() {
            None => ends.max_part().min(self.limits.packet) as u16,
            Some(_) => 0,
        };
        while at != head {
            let slot = self.ring.slot(at);
            let simple = !slot.flags.has(SlotFlags::MOREFRAG)
                && (1..=longest).contains(&slot.len)
                && self.limits.enabled
                && self.ring.region().is_usable(slot.buf)
                && ends.has_room(1);
            if simple && self.flight.start(slot.buf, SendState::new(slot.len, true, false)) {
                if u32::from(slot.len) < ends.inspects_below() {
                    self.show(ends, TxChain { from: at, to: self.ring.next(at) });
                }
                ends.push(slot.buf, 0, slot.len.into(), false);
                self.clear_changed(at, slot);
                self.packets_out += 1;
                at = self.ring.next(at);
            } else if let Some(next) = self.submit_chain(ends, at, head) {
                at = next;
            } else {
                break;
            }
        }
        ends.publish();
        at
    }

    /// Clears `NS_BUF_CHANGED` of slot `at`: the driver has now read the slot's buffer.
    #[inline(always)]
    fn clear_changed(&mut self, at: SlotIdx, slot: Slot) {
        if slot.flags.has(SlotFlags::BUF_CHANGED) {
            let flags = SlotFlags(slot.flags.0 & !SlotFlags::BUF_CHANGED.0);
            self.ring.set(at, slot.len, flags);
        }
    }

    /// Sends or drops the packet that begins at `at`, which may have several slots. Returns the
    /// slot after it, or `None` if the TX ring has no space for it.
    #[cold]
    fn submit_chain(
        &mut self,
        ends: &mut impl TxDescriptorRings,
        at: SlotIdx,
        head: SlotIdx,
    ) -> Option<SlotIdx> {
        let (chain, complete) = self.chain(at, head);
        match self.check_chain(ends, chain, complete) {
            Err(cause) => self.drop_chain(chain, cause),
            Ok(parts) if !ends.has_room(parts) => return None,
            Ok(_) => self.push_chain(ends, chain),
        }
        Some(chain.to)
    }

    /// Returns the packet that begins at `at`, and whether its last slot is before `head`.
    fn chain(&self, at: SlotIdx, head: SlotIdx) -> (TxChain, bool) {
        let last = self.ring.slots(at, head).find(|(_, slot)| !slot.flags.has(SlotFlags::MOREFRAG));
        let to = last.map_or(head, |(i, _)| self.ring.next(i));
        (TxChain { from: at, to }, last.is_some())
    }

    /// Returns how many descriptors a packet takes, or why it cannot be sent.
    fn check_chain(
        &self,
        ends: &impl TxDescriptorRings,
        chain: TxChain,
        complete: bool,
    ) -> Result<u32, DropCause> {
        if !self.limits.enabled {
            return Err(DropCause::TxUnsupported);
        }
        if !complete {
            return Err(DropCause::TxIncomplete);
        }
        let most = if self.limits.chains { MAX_PACKET_DESCRIPTORS } else { 1 };
        let (mut parts, mut bytes) = (0, 0);
        let mut seen = [BufIdx(0); MAX_PACKET_DESCRIPTORS as usize];
        for (i, (at, slot)) in self.ring.slots(chain.from, chain.to).enumerate() {
            let repeated = seen.iter().take(i).any(|&buf| buf == slot.buf);
            let end = self.ring.payload_offset(at) as u32 + u32::from(slot.len);
            if repeated || !self.is_sendable(slot, end) {
                return Err(DropCause::TxBadSlot);
            }
            let split = end > ends.max_part();
            parts += 1 + u32::from(split);
            bytes += u32::from(slot.len);
            let no_tail = split && !ends.has_tail(slot.buf);
            if parts > most || bytes > self.limits.packet || no_tail {
                return Err(DropCause::TxTooLong);
            }
            seen[i] = slot.buf;
        }
        Ok(parts)
    }

    /// Returns whether a slot can be sent, if its payload ends at byte `end` of its buffer.
    fn is_sendable(&self, slot: Slot, end: u32) -> bool {
        let region = self.ring.region();
        slot.len > 0
            && end <= region.buf_size()
            && region.is_usable(slot.buf)
            && !self.flight.has(slot.buf)
    }

    fn push_chain(&mut self, ends: &mut impl TxDescriptorRings, chain: TxChain) {
        self.show(ends, chain);
        let mut at = chain.from;
        while at != chain.to {
            let slot = self.ring.slot(at);
            self.push_slot(ends, slot, self.ring.payload_offset(at) as u32);
            self.clear_changed(at, slot);
            at = self.ring.next(at);
        }
        self.packets_out += 1;
    }

    /// Shows the device a copy of a short packet, if the device inspects packets of this length.
    fn show(&mut self, ends: &mut impl TxDescriptorRings, chain: TxChain) {
        let mut bytes = [0; MAX_INSPECTED as usize];
        let (mut len, mut at) = (0, chain.from);
        while at != chain.to {
            let payload = self.ring.payload(at);
            let end = len + payload.len();
            if end >= ends.inspects_below() as usize {
                return;
            }
            let Some(part) = bytes.get_mut(len..end) else { return };
            payload.copy_out(part);
            (len, at) = (end, self.ring.next(at));
        }
        ends.inspect(&bytes[..len]);
    }

    /// Hands a slot's payload to the kernel; it begins at byte `at` of its buffer. If it extends
    /// beyond the bytes that one descriptor can cover (`max_part`), it takes two descriptors.
    fn push_slot(&mut self, ends: &mut impl TxDescriptorRings, slot: Slot, at: u32) {
        let more = slot.flags.has(SlotFlags::MOREFRAG);
        let rest = (at + u32::from(slot.len)).saturating_sub(ends.max_part());
        let has_tail = rest > 0 && ends.has_tail(slot.buf);
        self.flight.start(slot.buf, SendState::new(slot.len, !more, has_tail));
        ends.push(slot.buf, at, u32::from(slot.len) - rest, more || has_tail);
        if has_tail {
            ends.push_tail(slot.buf, rest, more);
        }
        self.has_chains |= more || has_tail;
    }

    fn drop_chain(&mut self, chain: TxChain, cause: DropCause) {
        let mut at = chain.from;
        while at != chain.to {
            // The slot is read before `free`, which may write to it.
            let buf = self.ring.slot(at).buf;
            self.free(buf, chain.to);
            at = self.ring.next(at);
        }
        self.counters.dropped(cause, 1);
    }

    /// Applies the completion rule: puts a returned buffer into the next slot that becomes free.
    /// The slots before `end` were handed to the kernel, or their packet is being dropped.
    #[inline(always)]
    fn free(&mut self, buf: BufIdx, end: SlotIdx) {
        let at = self.ring.next(self.tail);
        let slot = self.ring.slot(at);
        if slot.buf != buf {
            self.replace_buf(at, end, buf, slot);
        }
        self.tail = at;
    }

    /// Puts `buf` into slot `at`. The slot's old buffer goes into the later slot before `end` that
    /// had `buf`. The slots exchange their lengths too.
    #[cold]
    fn replace_buf(&mut self, at: SlotIdx, end: SlotIdx, buf: BufIdx, slot: Slot) {
        let (from, flags) = (self.ring.next(at), SlotFlags::BUF_CHANGED);
        if let Some((i, other)) = self.ring.slots(from, end).find(|(_, other)| other.buf == buf) {
            self.ring.exchange((at, other.len, flags), (i, slot.len, other.flags));
        } else {
            // No slot has the buffer, so a peer has overwritten the slot that had it.
            self.ring.rename(at, Slot { buf, len: slot.len, flags });
        }
    }

    /// Takes back buffers that the kernel has completed.
    #[inline(always)]
    pub fn complete(&mut self, ends: &mut impl TxDescriptorRings) {
        let count = ends.refresh_completed();
        for i in 0..count {
            let buf = ends.peek_completed(i);
            match self.flight.complete(buf) {
                Ok(Some(sending)) => {
                    self.free(buf, self.ring.hwcur());
                    self.count(sending);
                }
                Ok(None) => {}
                Err(_) => self.counters.count_stray(),
            }
        }
        ends.release_completed(count);
    }

    #[inline(always)]
    fn count(&mut self, sending: SendState) {
        let last = u64::from(sending.is_last());
        self.packets_out -= last;
        self.packets_done += last;
        self.has_chains &= self.packets_out > 0;
        if sending.is_refused() {
            self.counters.dropped(DropCause::TxRefused, last);
        } else {
            self.sent.packets += last;
            self.sent.bytes += u64::from(sending.len());
        }
    }

    /// Records that the device dropped the packet of a buffer; its later completions count as
    /// refused.
    pub fn refuse(&mut self, buf: BufIdx) {
        self.flight.refuse(buf);
    }
}

impl Drop for TxSide {
    /// Puts the buffers that the kernel had into slots. So dropping the ring frees each buffer
    /// once. The socket is already closed, or the device stopped.
    fn drop(&mut self) {
        if self.ring.is_foreign() {
            return;
        }
        let mut at = self.ring.next(self.tail);
        let end = self.ring.hwcur();
        let mut buffers = self.flight.drain();
        while at != end {
            let buf = buffers.next().unwrap_or(BufIdx(0));
            let slot = self.ring.slot(at);
            if !self.ring.rename(at, Slot { buf, ..slot }) {
                // The region is private, where no peer overwrites slots. So the slots already name
                // these buffers.
                return;
            }
            at = self.ring.next(at);
        }
        let rest: Vec<BufIdx> = buffers.collect();
        self.ring.region().release_bufs(rest);
    }
}
