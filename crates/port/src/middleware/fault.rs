//! Faults on purpose: loss, corruption and delay, repeatable by seed.
//!
//! ```text
//!   program  <- front rx <- judge, delay line <- inner rx  <- driver
//!            -> front tx -> judge, delay line -> inner tx  ->
//! ```
//! Frames keep their buffers: they are exchanged between front and inner rings, and a delayed
//! one waits in a spare buffer.

use std::sync::Arc;

use slipring_model::{Chance, DelayLine, Stream};
use slipring_ring::{
    BufIdx, KernRing, Region, RingHalves, RxRing, Slot, SlotFlags, SyncFault, TxRing,
};

use crate::clock::{Nanos, now};
use crate::error::{OpenError, RunError};
use crate::queue::{Interest, Queue, QueueRings, WaitFds};
use crate::stats::{DropCause, QueueCounters};

/// What goes wrong, in each direction independently.
#[derive(Debug, Clone, Copy)]
pub struct FaultSpec {
    /// Packets lost.
    pub loss: Chance,
    /// Packets with one bit flipped.
    pub corruption: Chance,
    /// Every packet is held for this long.
    pub delay: Nanos,
    /// The seed of all decisions.
    pub seed: u64,
}

/// How many times a port's own needs its faults take: front rings, and spare buffers for two
/// rings' worth of delayed frames each way. For [`crate::OpenOptions::layers`].
pub const FAULT_LAYERS: u32 = 3;

/// Wraps queue number `index` of port `name` so that `faults` happen to its frames.
///
/// # Errors
/// [`OpenError`] when the region has no room for the front rings and, with a delay, for two
/// rings' worth of spare buffers.
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
    let lane = |label: &str, slots| FaultDirection::new(faults, label, index, &region, slots);
    Ok(Box::new(FaultQueue {
        outgoing: lane("fault/tx", tx_slots).map_err(refused)?,
        incoming: lane("fault/rx", rx_slots).map_err(refused)?,
        name: name.to_owned(),
        counters: inner.counters().clone(),
        inner,
        tx: tx.app,
        tx_kern: tx.kern,
        rx: rx.app,
        rx_kern: rx.kern,
    }))
}

/// A slot's content while it waits.
#[derive(Debug, Clone, Copy)]
struct DelayedSlot {
    buf: BufIdx,
    len: u16,
    flags: SlotFlags,
}

/// One direction: the decisions, and the frames that wait.
struct FaultDirection {
    loss: Chance,
    corruption: Chance,
    delay: Nanos,
    losses: Stream,
    corruptions: Stream,
    delay_line: DelayLine<DelayedSlot>,
    spare_bufs: Vec<BufIdx>,
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
        let spare = if faults.delay > 0 { region.alloc_bufs(slots * 2)? } else { Vec::new() };
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

    /// Whether a packet is lost.
    fn should_drop(&mut self) -> bool {
        self.losses.chance(self.loss)
    }

    /// Which byte of so many is to be changed, if any, and its bit.
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
        self.region.release_bufs(self.spare_bufs.drain(..));
        while let Some((_, held)) = self.delay_line.pop() {
            self.region.release_bufs([held.buf]);
        }
    }
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
    /// Moves what the program queued on towards the driver.
    fn transmit(&mut self, time: Nanos) -> Result<(), RunError> {
        let head = self.tx_kern.released().map_err(|fault| ring_fault(&self.name, fault))?;
        let inner = self.inner.rings().tx;
        let lane = &mut self.outgoing;
        emit_due(lane, inner, time);
        let mut at = self.tx_kern.hwcur();
        while at != head {
            let end = packet_end(&self.tx_kern, at, head);
            let slots = self.tx_kern.pending(end) - self.tx_kern.pending(at);
            let room = if lane.delay > 0 { lane.spare_bufs.len() as u32 } else { inner.avail() };
            if room < slots {
                break;
            }
            if lane.should_drop() {
                self.counters.dropped(DropCause::Fault, 1);
                at = end;
                continue;
            }
            let first = self.tx_kern.slot(at);
            let bytes = self.tx_kern.bytes(first);
            if let Some((at, bit)) = lane.corruption(bytes.len())
                && let Some([byte]) = bytes.read(at)
            {
                bytes.write(at, [byte ^ bit]);
            }
            while at != end {
                let slot = self.tx_kern.slot(at);
                let buf = copy_queued(lane, slot, time, |held| queue(inner, held));
                self.tx_kern.set_slot(at, Slot { buf, flags: SlotFlags::BUF_CHANGED, ..slot });
                at = self.tx_kern.next(at);
            }
        }
        self.tx_kern.complete_to(at);
        self.tx_kern.set_tail(self.tx_kern.prev(at));
        Ok(())
    }

    /// Moves what the driver received on towards the program.
    fn receive(&mut self, time: Nanos) -> Result<(), RunError> {
        let head = self.rx_kern.released().map_err(|fault| ring_fault(&self.name, fault))?;
        self.rx_kern.complete_to(head);
        let lane = &mut self.incoming;
        deliver_due(lane, &mut self.rx_kern, time);
        let inner = self.inner.rings().rx;
        let mut waiting = inner.avail();
        loop {
            waiting = inner.whole_packets(waiting);
            let Some(slots) = packet_slots(inner, waiting) else { break };
            let room = if lane.delay > 0 {
                lane.spare_bufs.len() as u32
            } else {
                self.rx_kern.free_slots()
            };
            if room < slots {
                break;
            }
            if lane.should_drop() {
                self.counters.dropped(DropCause::Fault, 1);
            } else {
                if let Some(frame) = inner.frame(0)
                    && let Some((at, bit)) = lane.corruption(frame.bytes.len())
                {
                    frame.bytes[at] ^= bit;
                }
                for i in 0..slots {
                    let Some(slot) = inner.slot(i) else { break };
                    let buf =
                        copy_queued(lane, slot, time, |held| deliver(&mut self.rx_kern, held));
                    inner.replace(i, buf);
                }
            }
            inner.advance(slots);
            waiting -= slots;
        }
        Ok(())
    }
}

/// The slot after the packet that begins at `at`; `head` if its end is not there.
fn packet_end(ring: &KernRing, at: u32, head: u32) -> u32 {
    let last = ring.slots(at, head).find(|(_, slot)| !slot.flags.has(SlotFlags::MOREFRAG));
    last.map_or(head, |(i, _)| ring.next(i))
}

/// Slots of the first packet among `waiting` slots that hold whole packets only.
fn packet_slots(ring: &RxRing, waiting: u32) -> Option<u32> {
    let last = (0..waiting)
        .find(|&i| ring.slot(i).is_some_and(|slot| !slot.flags.has(SlotFlags::MOREFRAG)));
    last.map(|i| i + 1)
}

/// Puts a slot's frame into the delay line, or passes it on at once; returns the buffer that
/// the slot gets instead.
fn copy_queued(
    lane: &mut FaultDirection,
    slot: Slot,
    time: Nanos,
    pass: impl FnOnce(DelayedSlot) -> BufIdx,
) -> BufIdx {
    let held = DelayedSlot {
        buf: slot.buf,
        len: slot.len,
        flags: SlotFlags(slot.flags.0 & SlotFlags::MOREFRAG.0),
    };
    if lane.delay == 0 {
        return pass(held);
    }
    lane.delay_line.push(time + lane.delay, held);
    lane.spare_bufs.pop().expect("the caller saw a spare buffer for every slot of the packet")
}

/// Queues a frame on a tx ring that has room; returns the buffer it displaced.
fn queue(ring: &mut TxRing, held: DelayedSlot) -> BufIdx {
    let buf = ring.replace(0, held.buf).expect("the caller saw room");
    ring.set(0, held.len.into(), held.flags | SlotFlags::BUF_CHANGED);
    ring.advance(1);
    buf
}

/// Puts a frame into an rx ring that has room; returns the buffer it displaced.
fn deliver(ring: &mut KernRing, held: DelayedSlot) -> BufIdx {
    let at = ring.hwtail();
    let free = ring.slot(at).buf;
    ring.set_slot(
        at,
        Slot { buf: held.buf, len: held.len, flags: held.flags | SlotFlags::BUF_CHANGED },
    );
    ring.set_tail(ring.next(at));
    free
}

fn emit_due(lane: &mut FaultDirection, ring: &mut TxRing, time: Nanos) {
    while ring.avail() > 0 {
        let Some(held) = lane.delay_line.pop_due(time) else { return };
        lane.spare_bufs.push(queue(ring, held));
    }
}

fn deliver_due(lane: &mut FaultDirection, ring: &mut KernRing, time: Nanos) {
    while ring.free_slots() > 0 {
        let Some(held) = lane.delay_line.pop_due(time) else { return };
        lane.spare_bufs.push(deliver(ring, held));
    }
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
            .filter_map(|lane| lane.delay_line.next_release_ns());
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
}
