//! The sending half of a queue.
//!
//! ```text
//!   slot     0   1   2   3   4   5   6   7
//!          | a | a | s | s | s | k | a | a |    a: the application's   s: released, not looked at
//!                    ^ hwcur     ^ tail         k: the kernel's, and the one kept apart at tail
//! ```
//!
//! # Completion rule
//! The kernel completes frames in any order, and a slot that was sent has no meaning until it is
//! free again. So the k-th buffer that comes back goes into the k-th slot after `tail`: slots
//! become free in order, no frame waits for a slower one, and each buffer is in one slot. Where
//! that is another buffer than the slot had, it says `NS_BUF_CHANGED`, and the slot which named that
//! one names the other: the kernel's slots name just the buffers that it has, by which whoever goes
//! on with the ring after a kill knows them.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use slipring_ring::{BufIdx, KernRing, Slot, SlotFlags, SlotIdx, SyncFault};

use super::in_flight::{InFlight, SendState};
use super::layout::UmemLayout;
use super::ownership::{self, CorruptWords, SyncDirection, SyncOwnership};
use super::socket::{TxEnds, fault};
use super::sys;
use crate::error::RunCause;
use crate::stats::{DropCause, QueueCounters, TrafficCounts};

/// Most descriptors of one packet: the fragments that a socket buffer holds.
const MAX_PACKET_DESCRIPTORS: u32 = 17;
/// Descriptor option: the packet goes on in the next one.
const CONTINUED: u64 = libc::XDP_PKT_CONTD as u64;

/// Slots on one side, the kernel on the other.
#[derive(Debug)]
pub(super) struct TxSide {
    ring: KernRing,
    layout: UmemLayout,
    flight: InFlight,
    limits: TxLimits,
    /// The tail, ahead of the published one during a sync.
    tail: SlotIdx,
    /// Packets handed to the kernel and not come back.
    packets_out: u64,
    /// Among them are some of several descriptors, whose buffers do not go with slots one by one.
    has_chains: bool,
    sent: TrafficCounts,
    counters: Arc<QueueCounters>,
}

/// What the port can send.
#[derive(Debug, Clone, Copy)]
pub(super) struct TxLimits {
    /// Bytes of a packet.
    pub(super) packet: u32,
    /// Packets may take several descriptors.
    pub(super) chains: bool,
    /// The queue can send at all.
    pub(super) enabled: bool,
}

/// A packet in the ring: slots `from..to`.
#[derive(Debug, Clone, Copy)]
struct TxChain {
    from: SlotIdx,
    to: SlotIdx,
}

impl TxSide {
    pub(super) fn new(ring: KernRing, limits: TxLimits, counters: Arc<QueueCounters>) -> Self {
        let layout = UmemLayout::new(ring.region());
        let flight = InFlight::new(ring.region().num_bufs());
        // What was with the kernel in a process that is no more is with nobody now.
        let tail = ring.prev(ring.hwcur());
        let sent = TrafficCounts::default();
        let (packets_out, has_chains) = (0, false);
        Self { ring, layout, flight, limits, tail, packets_out, has_chains, sent, counters }
    }

    /// Sends what was released; frees what has left.
    pub(super) fn sync(
        &mut self,
        ends: &mut TxEnds,
        socket: BorrowedFd<'_>,
        zero_copy: bool,
    ) -> Result<(), RunCause> {
        let head = self.ring.released().map_err(SyncFault::from)?;
        self.complete(ends);
        let done = self.submit(ends, head);
        self.ring.complete_to(done);
        let kicked = self.kick(ends, socket, zero_copy);
        self.publish();
        kicked
    }

    /// Has the kernel go on with what it was given.
    #[cold]
    pub(super) fn kick_pending(
        &mut self,
        ends: &mut TxEnds,
        socket: BorrowedFd<'_>,
        zero_copy: bool,
    ) -> Result<(), RunCause> {
        let kicked = self.kick(ends, socket, zero_copy);
        self.publish();
        kicked
    }

    /// Frees what has left, and leaves what was released where it is.
    #[cold]
    pub(super) fn complete_without_sending(&mut self, ends: &mut TxEnds) -> Result<(), RunCause> {
        let head = self.ring.released().map_err(SyncFault::from)?;
        self.complete(ends);
        self.publish();
        let slots = self.ring.slots(self.ring.hwcur(), head);
        let held = slots.filter(|(_, slot)| !slot.flags.has(SlotFlags::MOREFRAG)).count() as u64;
        self.counters.set_in_flight(self.packets_out + held);
        Ok(())
    }

    /// Whether a program can do what this does.
    pub(super) fn is_lendable(&self) -> bool {
        let slots = self.ring.num_slots();
        slots.is_power_of_two() && self.limits.enabled && self.ring.offsets().is_none()
    }

    /// Goes on where a program has left off.
    pub(super) fn resync(
        &mut self,
        ends: &mut TxEnds,
        turns: &mut SyncOwnership,
    ) -> Result<(), CorruptWords> {
        let n = self.ring.num_slots();
        let submitted = ends.tx.resync()?;
        self.ring.complete_to(ownership::advance_slot(self.ring.hwcur(), submitted, n));
        let completed = ends.completion.resync()?;
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

    /// Knows from the slots which buffers the kernel has.
    pub(super) fn rebuild_in_flight(&mut self, ends: &mut TxEnds) {
        // A look at each buffer that there is.
        if self.packets_out > 0 {
            self.flight.drain().for_each(drop);
        }
        let first = self.ring.next(self.tail);
        let count = self.ring.slots(first, self.ring.hwcur()).count() as u32;
        let coming = ends.completion.refresh();
        let coming = (0..coming).map(|i| self.layout.owner(ends.completion.peek(i)[0]));
        self.packets_out = 0;
        ownership::recover_buffers(&mut self.ring, first, count, coming, |slot| {
            let entered = self.flight.start(slot.buf, SendState::new(slot.len, true, false));
            self.packets_out += u64::from(entered);
            entered
        });
        self.counters.set_in_flight(self.packets_out);
    }

    /// Which slots go with index 0 of TX and completion ring.
    pub(super) fn ring_anchors(&self, ends: &TxEnds) -> [u32; 2] {
        let n = self.ring.num_slots();
        let sent = ownership::ring_anchor(self.ring.hwcur(), ends.tx.position(), n);
        [sent, ownership::ring_anchor(self.tail, ends.completion.position(), n)]
    }

    /// Whether something is under way that a program could not take back.
    pub(super) fn is_special(&self) -> bool {
        self.has_chains && self.packets_out > 0
    }

    /// Frames that are with the kernel.
    pub(super) fn packets_out(&self) -> u64 {
        self.packets_out
    }

    /// Lets the application and the counters see what a sync has done.
    #[inline(always)]
    fn publish(&mut self) {
        if self.tail != self.ring.hwtail() {
            self.ring.set_tail(self.tail);
        }
        self.counters.sent(std::mem::take(&mut self.sent));
        self.counters.set_in_flight(self.packets_out);
    }

    /// Hands the packets in `hwcur..head` to the kernel; where it stopped, which is `head` unless
    /// the TX ring is full.
    #[inline(always)]
    fn submit(&mut self, ends: &mut TxEnds, head: SlotIdx) -> SlotIdx {
        let mut at = self.ring.hwcur();
        // Those that begin elsewhere are looked at more closely.
        let longest = match self.ring.offsets() {
            None => self.layout.part().min(self.limits.packet) as u16,
            Some(_) => 0,
        };
        while at != head {
            let slot = self.ring.slot(at);
            let simple = !slot.flags.has(SlotFlags::MOREFRAG)
                && (1..=longest).contains(&slot.len)
                && self.limits.enabled
                && self.ring.region().is_usable(slot.buf)
                && ends.tx.has_room(1);
            if simple && self.flight.start(slot.buf, SendState::new(slot.len, true, false)) {
                ends.tx.push([self.layout.data(slot.buf), slot.len.into()]);
                self.clear_changed(at, slot);
                self.packets_out += 1;
                at = self.ring.next(at);
            } else if let Some(next) = self.submit_chain(ends, at, head) {
                at = next;
            } else {
                break;
            }
        }
        ends.tx.publish();
        at
    }

    /// The driver has seen the change of buffer.
    #[inline(always)]
    fn clear_changed(&mut self, at: SlotIdx, slot: Slot) {
        if slot.flags.has(SlotFlags::BUF_CHANGED) {
            let flags = SlotFlags(slot.flags.0 & !SlotFlags::BUF_CHANGED.0);
            self.ring.set(at, slot.len, flags);
        }
    }

    /// Sends or drops the packet at `at`, whatever is special about it. The slot after it, or
    /// `None` when the TX ring has no room for it.
    #[cold]
    fn submit_chain(&mut self, ends: &mut TxEnds, at: SlotIdx, head: SlotIdx) -> Option<SlotIdx> {
        let (chain, complete) = self.chain(at, head);
        match self.check_chain(chain, complete) {
            Err(cause) => self.drop_chain(chain, cause),
            Ok(parts) if !ends.tx.has_room(parts) => return None,
            Ok(_) => self.push_chain(ends, chain),
        }
        Some(chain.to)
    }

    /// The packet that begins at `at`, and whether its end is there.
    fn chain(&self, at: SlotIdx, head: SlotIdx) -> (TxChain, bool) {
        let last = self.ring.slots(at, head).find(|(_, slot)| !slot.flags.has(SlotFlags::MOREFRAG));
        let to = last.map_or(head, |(i, _)| self.ring.next(i));
        (TxChain { from: at, to }, last.is_some())
    }

    /// How many descriptors a packet takes, or why it cannot be sent.
    fn check_chain(&self, chain: TxChain, complete: bool) -> Result<u32, DropCause> {
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
            let split = end > self.layout.part();
            parts += 1 + u32::from(split);
            bytes += u32::from(slot.len);
            let no_tail = split && self.layout.tail(slot.buf).is_none();
            if parts > most || bytes > self.limits.packet || no_tail {
                return Err(DropCause::TxTooLong);
            }
            seen[i] = slot.buf;
        }
        Ok(parts)
    }

    /// Whether a slot whose payload ends at byte `end` of its buffer can be.
    fn is_sendable(&self, slot: Slot, end: u32) -> bool {
        let region = self.ring.region();
        slot.len > 0
            && end <= region.buf_size()
            && region.is_usable(slot.buf)
            && !self.flight.has(slot.buf)
    }

    fn push_chain(&mut self, ends: &mut TxEnds, chain: TxChain) {
        let mut at = chain.from;
        while at != chain.to {
            let slot = self.ring.slot(at);
            self.push_slot(ends, slot, self.ring.payload_offset(at) as u32);
            self.clear_changed(at, slot);
            at = self.ring.next(at);
        }
        self.packets_out += 1;
    }

    /// Hands a payload over that begins at byte `at` of its buffer, and so does in the first part.
    fn push_slot(&mut self, ends: &mut TxEnds, slot: Slot, at: u32) {
        let more = slot.flags.has(SlotFlags::MOREFRAG);
        let part = self.layout.part();
        let rest = (at + u32::from(slot.len)).saturating_sub(part);
        let tail = if rest > 0 { self.layout.tail(slot.buf) } else { None };
        let first = u32::from(slot.len) - rest;
        self.flight.start(slot.buf, SendState::new(slot.len, !more, tail.is_some()));
        let from = self.layout.data(slot.buf) + u64::from(at);
        ends.tx.push([from, descriptor(first, more || tail.is_some())]);
        if let Some(tail) = tail {
            ends.tx.push([tail, descriptor(rest, more)]);
        }
        self.has_chains |= more || tail.is_some();
    }

    fn drop_chain(&mut self, chain: TxChain, cause: DropCause) {
        let mut at = chain.from;
        while at != chain.to {
            // Freeing writes to slots up to this one, so it is read first.
            let buf = self.ring.slot(at).buf;
            self.free(buf, chain.to);
            at = self.ring.next(at);
        }
        self.counters.dropped(cause, 1);
    }

    /// Puts a buffer into the next slot that becomes free: the completion rule. The slots before
    /// `end` were handed to the kernel.
    #[inline(always)]
    fn free(&mut self, buf: BufIdx, end: SlotIdx) {
        let at = self.ring.next(self.tail);
        let slot = self.ring.slot(at);
        if slot.buf != buf {
            self.replace_buf(at, end, buf, slot);
        }
        self.tail = at;
    }

    /// Has slot `at` name `buf`, and that of the slots behind it, before `end`, which named it the
    /// other buffer. Lengths go with them.
    #[cold]
    fn replace_buf(&mut self, at: SlotIdx, end: SlotIdx, buf: BufIdx, slot: Slot) {
        let (from, flags) = (self.ring.next(at), SlotFlags::BUF_CHANGED);
        if let Some((i, other)) = self.ring.slots(from, end).find(|(_, other)| other.buf == buf) {
            self.ring.exchange((at, other.len, flags), (i, slot.len, other.flags));
        } else {
            // A peer has overwritten the slot that named it.
            self.ring.rename(at, Slot { buf, len: slot.len, flags });
        }
    }

    /// Takes back what the kernel has completed.
    #[inline(always)]
    fn complete(&mut self, ends: &mut TxEnds) {
        let count = ends.completion.refresh();
        for i in 0..count {
            let [address] = ends.completion.peek(i);
            let buf = self.layout.owner(address);
            match self.flight.complete(buf) {
                Ok(Some(sending)) => {
                    self.free(buf, self.ring.hwcur());
                    self.count(sending);
                }
                Ok(None) => {}
                Err(_) => self.counters.count_stray(),
            }
        }
        ends.completion.release(count);
    }

    #[inline(always)]
    fn count(&mut self, sending: SendState) {
        let last = u64::from(sending.is_last());
        self.packets_out -= last;
        self.has_chains &= self.packets_out > 0;
        if sending.is_refused() {
            self.counters.dropped(DropCause::TxRefused, last);
        } else {
            self.sent.packets += last;
            self.sent.bytes += u64::from(sending.len());
        }
    }

    /// Has the kernel send for as long as it gets on. What it leaves, it sends later by itself
    /// (zero-copy), or at the next sync or poll.
    #[inline(always)]
    fn kick(
        &mut self,
        ends: &mut TxEnds,
        socket: BorrowedFd<'_>,
        zero_copy: bool,
    ) -> Result<(), RunCause> {
        let mut waiting = ends.tx.unconsumed();
        // Each call takes one at least, where the kernel's index is the kernel's.
        for _ in 0..ends.tx.size() {
            if waiting == 0 {
                break;
            }
            if zero_copy && !ends.tx.needs_wakeup() {
                return Ok(());
            }
            let kicked = sys::kick_tx(socket);
            let left = ends.tx.unconsumed();
            if let Err(error) = kicked {
                if error.raw_os_error() == Some(libc::EBUSY) && left < waiting {
                    self.refuse_last(ends);
                }
                fault("send", error)?;
            }
            self.complete(ends);
            if zero_copy || left == waiting {
                return Ok(());
            }
            waiting = left;
        }
        Ok(())
    }

    /// The frame that the kernel took last is the one that it dropped.
    #[cold]
    fn refuse_last(&mut self, ends: &TxEnds) {
        for back in 1..=MAX_PACKET_DESCRIPTORS {
            let [address, word] = ends.tx.consumed_cell(back);
            if back > 1 && (word >> 32) & CONTINUED == 0 {
                return;
            }
            self.flight.refuse(self.layout.owner(address));
        }
    }
}

impl Drop for TxSide {
    /// Puts the buffers that the kernel had into the slots that it had, so that dropping the ring
    /// returns each once. The socket was closed before.
    fn drop(&mut self) {
        let mut at = self.ring.next(self.tail);
        let end = self.ring.hwcur();
        let mut buffers = self.flight.drain();
        while at != end {
            let buf = buffers.next().unwrap_or(BufIdx(0));
            let slot = self.ring.slot(at);
            if !self.ring.rename(at, Slot { buf, ..slot }) {
                // Nobody has overwritten them: they name what they should.
                return;
            }
            at = self.ring.next(at);
        }
        let rest: Vec<BufIdx> = buffers.collect();
        self.ring.region().release_bufs(rest);
    }
}

/// The second word of a descriptor: length and options.
#[inline(always)]
fn descriptor(len: u32, more: bool) -> u64 {
    u64::from(len) | if more { CONTINUED << 32 } else { 0 }
}
