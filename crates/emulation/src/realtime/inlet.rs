//! The input of one port: takes frames off its rings, timestamps and stores them.

use std::cell::Cell;

use slipring_abi::name::PortName;
use slipring_link::{Burst, BurstItem, EntryId, LinkDropCause, LinkDrops, PacketCounts};
use slipring_port::{Nanos, Port, Queue};
use slipring_ring::{FrameMut, RxRing, SlotFlags};

use super::frame_tap::FrameTap;
use super::options::RealtimeOptions;
use super::stamp::{BatchTimes, ETHER_OVERHEAD_BYTES, Stamper};
use crate::account::EntryAccount;
use crate::flags::BurstLimit;
use crate::store::{BatchLoader, EmulationStore, LifetimeClass, MAX_FRAME_BYTES};

/// Assumed speed of a port that reports no line speed, in bits per second: about as fast as memory.
const DEFAULT_LINE_BPS: u64 = 100_000_000_000;

/// Maximum number of bytes that the store adds to a frame.
const MAX_HEADER_BYTES: usize = 16;

/// Returns how many slots to take: as many of the first `slots` as have at most `most` bytes in
/// complete frames, but at least the slots of the first frame.
#[inline]
fn within_bytes(rx: &RxRing, slots: u32, most: u64) -> u32 {
    if most == u64::MAX {
        return slots;
    }
    let (bytes, taken, whole) = (Cell::new(0), Cell::new(0), Cell::new(false));
    let over = Cell::new(false);
    rx.sum(slots, |slot| {
        bytes.set(bytes.get() + u64::from(slot.len));
        over.set(over.get() || (whole.get() && bytes.get() > most));
        taken.set(taken.get() + u32::from(!over.get()));
        whole.set(whole.get() || !slot.flags.has(SlotFlags::MOREFRAG));
        0
    });
    taken.get()
}

/// The input of one port.
#[derive(Debug)]
pub(super) struct PortInlet {
    entry: EntryId,
    stamper: Stamper,
    /// The class of the port's frames in the store. Frames of one class share memory.
    class: LifetimeClass,
    /// Maximum number of slots or bytes that are taken from a queue at a time.
    burst: BurstLimit,
    received: PacketCounts,
    /// Buffer in which the parts of a frame of several slots are joined.
    scratch: Vec<u8>,
    /// Frames that could not be stored. Boxed to keep this struct small, because there hardly ever
    /// are such frames.
    refused: Box<LinkDrops>,
}

/// Scratch buffers for receiving, which the ports of a thread use one after the other.
#[derive(Debug, Default)]
pub(super) struct RxScratch {
    /// For each queue, the number of slots with complete frames.
    ready: Vec<u32>,
    /// The frames of the current batch.
    bursts: Vec<Burst>,
}

impl PortInlet {
    /// Creates the input for frames from `port` that enter at `entry`.
    pub(super) fn of(port: &Port, entry: usize, options: &RealtimeOptions, now: Nanos) -> Self {
        Self {
            entry: EntryId(entry as u16),
            stamper: Stamper::new(line_speed(port).unwrap_or(DEFAULT_LINE_BPS), now),
            class: LifetimeClass::number(entry),
            burst: options.burst,
            received: PacketCounts::default(),
            scratch: Vec::new(),
            refused: Box::default(),
        }
    }

    /// Returns the frame counts so far.
    pub(super) fn account(&self) -> EntryAccount {
        EntryAccount { received: self.received, refused: *self.refused, unordered: None }
    }

    /// Returns the memory that the largest batch from `queues` takes, in bytes.
    pub(super) fn batch_bytes(&self, queues: &mut [Box<dyn Queue>]) -> usize {
        let slots = |queue: &mut Box<dyn Queue>| {
            let rx = queue.rings().rx;
            self.burst.frames.min(rx.num_slots()) as usize
                * (rx.buf_size() as usize + MAX_HEADER_BYTES)
        };
        queues.iter_mut().map(slots).sum()
    }

    /// Returns the entry at which frames from this port enter the network.
    pub(super) fn entry(&self) -> EntryId {
        self.entry
    }

    /// Takes complete frames from each queue, up to the burst limit, and stores them; the last sync
    /// was at `now`. Returns the stored frames.
    pub(super) fn take<'h, T: FrameTap>(
        &mut self,
        queues: &mut [Box<dyn Queue>],
        rx_scratch: &'h mut RxScratch,
        (store, tap): (&mut EmulationStore, &mut T),
        now: Nanos,
    ) -> &'h [Burst] {
        let RxScratch { ready, bursts } = rx_scratch;
        let wire_bytes = self.count_ready(queues, ready);
        if wire_bytes == 0 {
            self.stamper.missed(now);
            return &[];
        }
        let spread = self.stamper.spread(now, wire_bytes);
        store.set_time(spread.end());
        let mut so_far = 0;
        bursts.clear();
        for (queue, &slots) in queues.iter_mut().zip(&*ready) {
            let rx = queue.rings().rx;
            if slots == 1 && self.take_one(rx, (store, bursts), spread, &mut so_far) {
                continue;
            }
            if slots > 0 {
                let mut loader = store.load(self.class, bursts);
                self.take_slots(rx, slots, &mut loader, spread, &mut so_far);
                loader.end();
            }
        }
        for burst in &*bursts {
            self.received += burst.counts();
            if T::IS_ENABLED {
                notify_arrivals(self.entry, burst, store, tap);
            }
        }
        bursts
    }

    /// Sets `ready` to the number of slots with complete frames in each queue. Returns the bytes of
    /// these frames on the wire.
    #[inline]
    fn count_ready(&self, queues: &mut [Box<dyn Queue>], ready: &mut Vec<u32>) -> u64 {
        let mut wire_bytes = 0;
        ready.clear();
        for queue in queues {
            let rx = queue.rings().rx;
            let slots = rx.avail().min(self.burst.frames);
            let slots = within_bytes(rx, slots, self.burst.bytes);
            let slots = rx.whole_packets(slots);
            wire_bytes += rx.sum(slots, |slot| wire_bytes_of(slot.len.into(), slot.flags));
            ready.push(slots);
        }
        wire_bytes
    }

    /// Takes the frame in the first slot, if it is complete and can be stored. Returns whether a
    /// frame was taken. This avoids the setup cost of a batch, which matters if thousands of ports
    /// have one frame each.
    #[inline]
    fn take_one(
        &mut self,
        rx: &mut RxRing,
        (store, bursts): (&mut EmulationStore, &mut Vec<Burst>),
        spread: BatchTimes,
        so_far: &mut u64,
    ) -> bool {
        let Some(frame) = rx.frame(0).filter(|frame| !frame.more() && self.scratch.is_empty())
        else {
            return false;
        };
        let wire_bytes = *so_far + wire_bytes_of(frame.bytes.len() as u64, frame.flags);
        let stored = store.put(self.class, spread.at(wire_bytes), frame.bytes);
        let Some(burst) = stored else { return false };
        bursts.push(burst);
        *so_far = wire_bytes;
        rx.advance(1);
        true
    }

    #[inline]
    fn take_slots(
        &mut self,
        rx: &mut RxRing,
        slots: u32,
        loader: &mut BatchLoader<'_>,
        spread: BatchTimes,
        so_far: &mut u64,
    ) {
        let mut batch = rx.batch(slots);
        let mut frames = batch.frames();
        let mut wire_bytes = *so_far;
        loop {
            let mut part = None;
            let whole = frames.by_ref().map_while(|frame| {
                wire_bytes += wire_bytes_of(frame.bytes.len() as u64, frame.flags);
                let at_ns = spread.at(wire_bytes);
                if frame.more() || !self.scratch.is_empty() {
                    part = Some((at_ns, frame));
                    return None;
                }
                Some((at_ns, &*frame.bytes))
            });
            match (loader.put_all(whole), part) {
                (Some((at_ns, frame)), _) => self.store(frame, at_ns, loader),
                (None, Some((at_ns, part))) => self.gather(&part, at_ns, loader),
                (None, None) => break,
            }
        }
        *so_far = wire_bytes;
    }

    /// Appends one part of a frame of several slots to the buffer; after the last part, stores the
    /// frame.
    #[cold]
    fn gather(&mut self, part: &FrameMut<'_>, at_ns: Nanos, loader: &mut BatchLoader<'_>) {
        self.scratch.extend_from_slice(part.bytes);
        if !part.more() {
            let mut frame = std::mem::take(&mut self.scratch);
            self.store(&frame, at_ns, loader);
            frame.clear();
            self.scratch = frame;
        }
    }

    #[cold]
    fn store(&mut self, frame: &[u8], at_ns: Nanos, loader: &mut BatchLoader<'_>) {
        if !loader.put(at_ns, frame) {
            self.refuse(frame.len() as u32);
        }
    }

    #[cold]
    fn refuse(&mut self, len: u32) {
        let a_frame = (1..=MAX_FRAME_BYTES).contains(&(len as usize));
        let cause = if a_frame { LinkDropCause::Buffer } else { LinkDropCause::Malformed };
        self.received.count(len);
        self.refused.count(cause, len);
    }
}

/// Calls the tap for the arrival of each frame of a burst.
pub(super) fn notify_arrivals<T: FrameTap>(
    entry: EntryId,
    burst: &Burst,
    store: &mut EmulationStore,
    tap: &mut T,
) {
    let mut handle = burst.handle;
    for _ in 0..burst.packets {
        let BurstItem { frame, next } = store.burst_item(handle);
        tap.arrived(entry, &frame, store);
        handle = next;
    }
}

/// Returns the bytes that a slot takes on an Ethernet line. The overhead of a frame is counted with
/// its last slot.
#[inline(always)]
fn wire_bytes_of(len: u64, flags: SlotFlags) -> u64 {
    len + if flags.has(SlotFlags::MOREFRAG) { 0 } else { ETHER_OVERHEAD_BYTES }
}

/// Returns the speed of the interface of a port as the kernel reports it, in bits per second.
fn line_speed(port: &Port) -> Option<u64> {
    let name = PortName::parse_classic(&port.info.name).ok()?;
    if !name.kind.names_interface() || name.pipe.is_some() {
        return None;
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{}/speed", name.name)).ok()?;
    text.trim().parse::<u64>().ok().filter(|&megabits| megabits > 0).map(|speed| speed * 1_000_000)
}
