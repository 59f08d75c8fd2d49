//! Fault injection: loss, corruption and delay, reproducible by seed.
//!
//! ```text
//!   program  <- front rx <- faults, delay line <- inner rx  <- driver
//!            -> front tx -> faults, delay line -> inner tx  ->
//! ```
//! Frames keep their buffers. The buffers are exchanged between the rings that the program sees
//! (the front rings) and those of the inner queue. While a frame is delayed, a spare buffer takes
//! the place of its buffer in the ring.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use slipring_model::{Chance, DelayLine, Stream};
use slipring_ring::{
    KernRing, OwnedBuf, Region, RingHalves, RxRing, Slot, SlotFlags, SyncFault, TxRing,
};

use crate::clock::{Nanos, now};
use crate::error::{OpenError, RunError};
use crate::queue::{Interest, Queue, QueueRings, WaitFds};
use crate::stats::{DropCause, QueueCounters};
use crate::succession::SocketRing;

/// The faults to inject. They are drawn separately for each direction.
#[derive(Debug, Clone, Copy)]
pub struct FaultSpec {
    /// Probability that a packet is lost.
    pub loss: Chance,
    /// Probability that one bit of a packet's first slot is flipped.
    pub corruption: Chance,
    /// Delay of every packet, in ns.
    pub delay: Nanos,
    /// Seed of all random decisions.
    pub seed: u64,
}

impl FaultSpec {
    /// No faults, but every packet is delayed by `delay`.
    #[must_use]
    pub fn only_delay(delay: Nanos) -> Self {
        Self { loss: Chance::NEVER, corruption: Chance::NEVER, delay, seed: 0 }
    }
}

/// What fault injection adds to a port's [`crate::OpenOptions::reserve_factor`]. Such a port also
/// needs front rings, and in each direction spare buffers for two rings' worth of delayed frames.
pub const FAULT_LAYERS: u32 = 3;

/// Wraps queue number `index` of port `name` and injects `faults` into its frames.
///
/// # Errors
/// [`OpenError`] if the region does not have enough memory for the front rings and, with a delay,
/// for two rings' worth of spare buffers.
pub fn inject(
    name: &str,
    index: u64,
    mut inner: Box<dyn Queue>,
    faults: &FaultSpec,
) -> Result<Box<dyn Queue>, OpenError> {
    let rings = inner.rings();
    let region = rings.rx.region().clone();
    let (tx_slots, rx_slots) = (rings.tx.num_slots(), rings.rx.num_slots());
    let refused = |error| OpenError::new(name, error);
    let tx = RingHalves::create(&region, index as u16, tx_slots.max(2)).map_err(refused)?;
    let rx = RingHalves::create(&region, index as u16, rx_slots.max(2)).map_err(refused)?;
    let direction = |label: &str, slots| FaultDirection::new(faults, label, index, &region, slots);
    Ok(Box::new(FaultQueue {
        outgoing: direction("fault/tx", tx_slots).map_err(refused)?,
        incoming: direction("fault/rx", rx_slots).map_err(refused)?,
        name: name.to_owned(),
        counters: inner.counters().clone(),
        inner,
        tx: tx.app,
        tx_kern: tx.kern,
        rx: rx.app,
        rx_kern: rx.kern,
    }))
}

/// One slot of a delayed packet: the content that a slot gets when the packet leaves the delay
/// line.
#[derive(Debug)]
struct DelayedSlot {
    buf: OwnedBuf,
    len: u16,
    flags: SlotFlags,
    /// Number of slots from this one to the last of its packet.
    slots: u32,
}

/// One direction: its random decisions and its delayed frames.
struct FaultDirection {
    loss: Chance,
    corruption: Chance,
    delay: Nanos,
    losses: Stream,
    corruptions: Stream,
    delay_line: DelayLine<DelayedSlot>,
    spare_bufs: Vec<OwnedBuf>,
    region: Arc<Region>,
}

impl FaultDirection {
    fn new(
        faults: &FaultSpec,
        label: &str,
        index: u64,
        region: &Arc<Region>,
        slots: u32,
    ) -> Result<Self, slipring_ring::RegionError> {
        let count = if faults.delay > 0 { slots * 2 } else { 0 };
        let mut spare = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let buf = region.alloc_owned().inspect_err(|_| release(region, &mut spare))?;
            spare.push(buf);
        }
        Ok(Self {
            loss: faults.loss,
            corruption: faults.corruption,
            delay: faults.delay,
            losses: Stream::numbered(faults.seed, &format!("{label}/loss"), index),
            corruptions: Stream::numbered(faults.seed, &format!("{label}/corruption"), index),
            delay_line: DelayLine::with_capacity(spare.len()),
            spare_bufs: spare,
            region: region.clone(),
        })
    }

    /// Returns the number of packets in the delay line.
    fn held_packets(&self) -> u64 {
        self.delay_line.handles().filter(|held| held.slots == 1).count() as u64
    }

    /// Draws whether a packet is lost.
    fn should_drop(&mut self) -> bool {
        self.losses.chance(self.loss)
    }

    /// Draws whether to flip a bit in `len` bytes. Returns the index of the byte, and the bit as a
    /// mask; `None` if nothing is flipped.
    fn corruption(&mut self, len: usize) -> Option<(usize, u8)> {
        if !self.corruptions.chance(self.corruption) || len == 0 {
            return None;
        }
        let bit = self.corruptions.below(len as u64 * 8);
        Some((bit as usize / 8, 1 << (bit % 8)))
    }
}

impl Drop for FaultDirection {
    fn drop(&mut self) {
        release(&self.region, &mut self.spare_bufs);
        while let Some((_, held)) = self.delay_line.pop() {
            self.region.release_owned(held.buf);
        }
    }
}

fn release(region: &Region, bufs: &mut Vec<OwnedBuf>) {
    bufs.drain(..).for_each(|buf| {
        region.release_owned(buf);
    });
}

struct FaultQueue {
    name: String,
    inner: Box<dyn Queue>,
    counters: Arc<QueueCounters>,
    tx: TxRing,
    tx_kern: KernRing,
    rx: RxRing,
    rx_kern: KernRing,
    outgoing: FaultDirection,
    incoming: FaultDirection,
}

impl FaultQueue {
    /// Passes frames that the program queued on to the driver.
    fn transmit(&mut self, time: Nanos) -> Result<(), RunError> {
        let head = self.tx_kern.released().map_err(|fault| ring_fault(&self.name, fault))?;
        let inner = self.inner.rings().tx;
        let direction = &mut self.outgoing;
        direction.emit_due(inner, &self.counters, time);
        let mut at = self.tx_kern.hwcur();
        while at != head {
            let end = packet_end(&self.tx_kern, at, head);
            let slots = self.tx_kern.pending(end) - self.tx_kern.pending(at);
            let room =
                if direction.delay > 0 { direction.spare_bufs.len() as u32 } else { inner.avail() };
            if room < slots {
                break;
            }
            if direction.should_drop() {
                self.counters.dropped(DropCause::Fault, 1);
                at = end;
                continue;
            }
            if !self.tx_kern.slots(at, end).all(|(_, slot)| direction.is_usable(slot)) {
                self.counters.dropped(DropCause::TxBadSlot, 1);
                at = end;
                continue;
            }
            let bytes = self.tx_kern.bytes(at);
            if let Some((at, bit)) = direction.corruption(bytes.len())
                && let Some([byte]) = bytes.read(at)
            {
                bytes.write(at, [byte ^ bit]);
            }
            while at != end {
                let slot = self.tx_kern.slot(at);
                if direction.delay > 0 {
                    let left = self.tx_kern.pending(end) - self.tx_kern.pending(at);
                    let kern = &mut self.tx_kern;
                    direction.hold((slot, left), time, |buf| {
                        kern.replace(at, buf, slot.len, SlotFlags::BUF_CHANGED)
                    });
                } else if inner.swap_to_driver(0, &mut self.tx_kern, at, SlotFlags::BUF_CHANGED) {
                    queue(inner, slot.len, kept(slot.flags));
                }
                at = self.tx_kern.next(at);
            }
        }
        self.tx_kern.complete_to(at);
        self.tx_kern.set_tail(self.tx_kern.prev(at));
        Ok(())
    }

    /// Passes frames that the driver received on to the program.
    fn receive(&mut self, time: Nanos) -> Result<(), RunError> {
        let head = self.rx_kern.released().map_err(|fault| ring_fault(&self.name, fault))?;
        self.rx_kern.complete_to(head);
        let direction = &mut self.incoming;
        direction.deliver_due(&mut self.rx_kern, &self.counters, time);
        let inner = self.inner.rings().rx;
        let mut waiting = inner.avail();
        loop {
            waiting = inner.whole_packets(waiting);
            let Some(slots) = packet_slots(inner, waiting) else { break };
            let room = if direction.delay > 0 {
                direction.spare_bufs.len() as u32
            } else {
                self.rx_kern.free_slots()
            };
            if room < slots {
                break;
            }
            let usable =
                (0..slots).all(|i| inner.slot(i).is_some_and(|slot| direction.is_usable(slot)));
            if direction.should_drop() {
                self.counters.dropped(DropCause::Fault, 1);
            } else if !usable {
                self.counters.dropped(DropCause::RxMalformed, 1);
            } else {
                if let Some(frame) = inner.frame(0)
                    && let Some((at, bit)) = direction.corruption(frame.bytes.len())
                {
                    frame.bytes[at] ^= bit;
                    inner.write_back(0);
                }
                for i in 0..slots {
                    let Some(slot) = inner.slot(i) else { break };
                    let flags = kept(slot.flags) | SlotFlags::BUF_CHANGED;
                    let at = self.rx_kern.hwtail();
                    if direction.delay > 0 {
                        direction.hold((slot, slots - i), time, |buf| inner.replace(i, buf));
                    } else if inner.swap_to_driver(i, &mut self.rx_kern, at, flags) {
                        self.rx_kern.set_tail(self.rx_kern.next(at));
                    }
                }
            }
            inner.advance(slots);
            waiting -= slots;
        }
        Ok(())
    }
}

/// Returns the slot after the packet that begins at `at`; `head` if the packet is incomplete.
fn packet_end(ring: &KernRing, at: u32, head: u32) -> u32 {
    let last = ring.slots(at, head).find(|(_, slot)| !slot.flags.has(SlotFlags::MOREFRAG));
    last.map_or(head, |(i, _)| ring.next(i))
}

/// Returns the number of slots of the first packet among `waiting` slots, which hold whole packets
/// only; `None` if `waiting` is 0.
fn packet_slots(ring: &RxRing, waiting: u32) -> Option<u32> {
    let last = (0..waiting)
        .find(|&i| ring.slot(i).is_some_and(|slot| !slot.flags.has(SlotFlags::MOREFRAG)));
    last.map(|i| i + 1)
}

/// Returns those of `flags` that are copied along with a frame.
fn kept(flags: SlotFlags) -> SlotFlags {
    SlotFlags(flags.0 & SlotFlags::MOREFRAG.0)
}

impl FaultDirection {
    /// Returns whether the slot refers to a buffer that may carry a frame. A program that maps the
    /// rings may write anything into its slots.
    fn is_usable(&self, slot: Slot) -> bool {
        self.region.is_usable(slot.buf)
    }

    /// Puts the frame of a slot into the delay line. `left` is the number of slots from this one to
    /// the last of its packet. `replace` puts the given spare buffer into the slot, and returns the
    /// slot's old buffer.
    fn hold(
        &mut self,
        (slot, left): (Slot, u32),
        time: Nanos,
        replace: impl FnOnce(OwnedBuf) -> Result<OwnedBuf, OwnedBuf>,
    ) {
        // The caller has checked that there is a spare buffer for every slot of the packet, and
        // that the slots have usable buffers.
        let Some(spare) = self.spare_bufs.pop() else { return };
        match replace(spare) {
            Ok(buf) => {
                let flags = kept(slot.flags);
                let held = DelayedSlot { buf, len: slot.len, flags, slots: left };
                self.delay_line.push(time + self.delay, held);
            }
            Err(spare) => self.spare_bufs.push(spare),
        }
    }

    /// Returns the number of slots of the first packet in the delay line, if it is due and fits
    /// into `room` slots. A part of a packet is never passed on: its end might never follow.
    fn due_packet(&self, time: Nanos, room: u32) -> Option<u32> {
        let is_due = self.delay_line.next_release_ns()? <= time;
        let slots = self.delay_line.first()?.slots;
        (is_due && slots <= room).then_some(slots)
    }

    fn emit_due(&mut self, ring: &mut TxRing, counters: &QueueCounters, time: Nanos) {
        while let Some(slots) = self.due_packet(time, ring.avail()) {
            let is_bad = |i: &u32| ring.slot(*i).is_none_or(|slot| !self.is_usable(slot));
            if let Some(bad) = (0..slots).find(is_bad) {
                // The slots up to and including the bad one are sent empty, so that later packets
                // are sent from the slots after it.
                (0..=bad).for_each(|_| queue(ring, 0, SlotFlags::default()));
                self.drop_first(slots);
                counters.dropped(DropCause::TxRefused, 1);
                continue;
            }
            for _ in 0..slots {
                let Some((_, held)) = self.delay_line.pop() else { return };
                match ring.replace(0, held.buf) {
                    Ok(buf) => {
                        self.spare_bufs.push(buf);
                        queue(ring, held.len, held.flags);
                    }
                    Err(buf) => self.spare_bufs.push(buf),
                }
            }
        }
    }

    fn deliver_due(&mut self, ring: &mut KernRing, counters: &QueueCounters, time: Nanos) {
        while let Some(slots) = self.due_packet(time, ring.free_slots()) {
            let from = ring.hwtail();
            let to = (0..slots).fold(from, |at, _| ring.next(at));
            if let Some(bad) = ring.slots(from, to).position(|(_, slot)| !self.is_usable(slot)) {
                // The program gets the slots up to and including the bad one empty, so that later
                // packets go to the slots after it.
                let end = (0..=bad).fold(from, |at, _| {
                    ring.set(at, 0, SlotFlags::default());
                    ring.next(at)
                });
                ring.set_tail(end);
                self.drop_first(slots);
                counters.dropped(DropCause::RxNoBuffer, 1);
                continue;
            }
            let mut at = from;
            for _ in 0..slots {
                let Some((_, held)) = self.delay_line.pop() else { return };
                match ring.replace(at, held.buf, held.len, held.flags | SlotFlags::BUF_CHANGED) {
                    Ok(buf) => {
                        self.spare_bufs.push(buf);
                        at = ring.next(at);
                    }
                    Err(buf) => self.spare_bufs.push(buf),
                }
            }
            ring.set_tail(at);
        }
    }

    /// Removes the first `slots` slots from the delay line.
    fn drop_first(&mut self, slots: u32) {
        for _ in 0..slots {
            let Some((_, held)) = self.delay_line.pop() else { return };
            self.spare_bufs.push(held.buf);
        }
    }
}

/// Queues the frame that is in the first free slot of a ring.
fn queue(ring: &mut TxRing, len: u16, flags: SlotFlags) {
    ring.set(0, len.into(), flags | SlotFlags::BUF_CHANGED);
    ring.advance(1);
}

fn ring_fault(name: &str, fault: impl Into<SyncFault>) -> RunError {
    RunError::new(name, fault.into())
}

impl Queue for FaultQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.tx, rx: &mut self.rx }
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        self.transmit(now())?;
        self.inner.tx_sync()
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        self.inner.rx_sync()?;
        self.receive(now())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        self.inner.wait_fds()
    }

    fn is_link_down(&self) -> bool {
        self.inner.is_link_down()
    }

    fn deadline(&self) -> Option<Nanos> {
        let own = [&self.outgoing, &self.incoming]
            .into_iter()
            .filter_map(|direction| direction.delay_line.next_release_ns());
        own.chain(self.inner.deadline()).min()
    }

    fn ended(&self) -> bool {
        self.inner.ended() && self.incoming.delay_line.is_empty()
    }

    fn before_sleep(&mut self, interest: Interest) {
        self.inner.before_sleep(interest);
    }

    fn after_sleep(&mut self) {
        self.inner.after_sleep();
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }

    fn update_stats(&mut self) {
        self.inner.update_stats();
    }

    fn unsent(&mut self) -> u64 {
        let queued = self.tx_kern.waiting_packets();
        queued + self.outgoing.held_packets() + self.inner.unsent()
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }

    // The queue is not lent: a program that syncs it itself would bypass this layer.

    fn socket_ring(&self) -> Option<SocketRing> {
        self.inner.socket_ring()
    }

    fn resume_position(&self) -> Option<u32> {
        self.inner.resume_position()
    }

    fn resume_ring(&mut self, position: u32) {
        self.inner.resume_ring(position);
    }
}
