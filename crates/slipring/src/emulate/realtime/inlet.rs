//! The way in at one port: takes frames off its rings, stamps and stores them.

use slipring_abi::name::PortName;
use slipring_link::{Arrival, Cause, EntryId, Tally};
use slipring_port::{Nanos, Port, Queue};
use slipring_ring::{RxRing, SlotFlags};

use super::Manner;
use super::account::EntryAccount;
use super::stamp::{ETHER_OVERHEAD, Spread, Stamper};
use super::tap::Tap;
use crate::emulate::store::{Lane, MAX_FRAME, Store};

/// The speed of a line that tells none, in bits per second: that of memory.
const NO_LINE: u64 = 100_000_000_000;

/// The way in at one port.
#[derive(Debug)]
pub(super) struct Inlet {
    entry: EntryId,
    stamper: Stamper,
    /// Whose memory the frames share.
    lane: Lane,
    /// Slots taken from a queue at most at a time.
    burst: u32,
    /// Slots of whole frames that each queue has ready.
    ready: Vec<u32>,
    /// The batch.
    arrivals: Vec<Arrival>,
    /// A frame of several slots.
    scratch: Vec<u8>,
    pub(super) account: EntryAccount,
}

impl Inlet {
    /// For frames that come from `port` and enter at `entry`.
    pub(super) fn of(port: &Port, entry: usize, manner: &Manner, now: Nanos) -> Self {
        Self {
            entry: EntryId(entry as u16),
            stamper: Stamper::new(line_speed(port).unwrap_or(NO_LINE), now),
            lane: Lane::number(entry),
            burst: manner.burst,
            ready: Vec::new(),
            arrivals: Vec::new(),
            scratch: Vec::new(),
            account: EntryAccount::default(),
        }
    }

    /// Where its frames enter.
    pub(super) fn entry(&self) -> EntryId {
        self.entry
    }

    /// Takes a burst of whole frames off each queue, found there at `now`; those that could be
    /// stored are the batch.
    pub(super) fn take<T: Tap>(
        &mut self,
        queues: &mut [Box<dyn Queue>],
        store: &mut Store,
        tap: &mut T,
        now: Nanos,
    ) -> &[Arrival] {
        self.arrivals.clear();
        let wire_bytes = self.look(queues);
        if wire_bytes == 0 {
            return &[];
        }
        let spread = self.stamper.spread(now, wire_bytes);
        store.tick(spread.end());
        let mut so_far = 0;
        for (i, queue) in queues.iter_mut().enumerate() {
            let slots = std::mem::take(&mut self.ready[i]);
            self.take_slots(queue.rings().rx, slots, store, spread, &mut so_far);
        }
        if T::ON {
            self.arrivals.iter().for_each(|frame| tap.arrived(self.entry, frame, store));
        }
        &self.arrivals
    }

    /// Notes how many slots of whole frames each queue has, and what they take on the wire.
    #[inline]
    fn look(&mut self, queues: &mut [Box<dyn Queue>]) -> u64 {
        let mut wire_bytes = 0;
        self.ready.clear();
        for queue in queues {
            let rx = queue.rings().rx;
            let slots = rx.avail().min(self.burst);
            let slots = rx.whole_packets(slots);
            wire_bytes += rx.sum(slots, |slot| wire_bytes_of(slot.len.into(), slot.flags));
            self.ready.push(slots);
        }
        wire_bytes
    }

    #[inline]
    fn take_slots(
        &mut self,
        rx: &mut RxRing,
        slots: u32,
        store: &mut Store,
        spread: Spread,
        so_far: &mut u64,
    ) {
        self.arrivals.reserve(slots as usize);
        let before = self.arrivals.len();
        rx.drain(slots, |bytes, flags| {
            *so_far += wire_bytes_of(bytes.len() as u64, flags);
            let at_ns = spread.at(*so_far);
            if flags.has(SlotFlags::MOREFRAG) || !self.scratch.is_empty() {
                return self.gather(bytes, flags, at_ns, store);
            }
            let len = bytes.len() as u32;
            match store.put(self.lane, at_ns, bytes) {
                Some(handle) => self.arrivals.push(Arrival { arrival_ns: at_ns, handle, len }),
                None => self.refuse(len),
            }
        });
        let taken = &self.arrivals[before..];
        let bytes = taken.iter().map(|frame| u64::from(frame.len)).sum();
        self.account.received += Tally { packets: taken.len() as u64, bytes };
    }

    /// Takes a part of a frame of several slots, and with the last one the frame.
    #[cold]
    fn gather(&mut self, part: &[u8], flags: SlotFlags, at_ns: Nanos, store: &mut Store) {
        self.scratch.extend_from_slice(part);
        if flags.has(SlotFlags::MOREFRAG) {
            return;
        }
        let len = self.scratch.len() as u32;
        match store.put(self.lane, at_ns, &self.scratch) {
            Some(handle) => self.arrivals.push(Arrival { arrival_ns: at_ns, handle, len }),
            None => self.refuse(len),
        }
        self.scratch.clear();
    }

    #[cold]
    fn refuse(&mut self, len: u32) {
        let a_frame = (1..=MAX_FRAME).contains(&(len as usize));
        let cause = if a_frame { Cause::Buffer } else { Cause::Malformed };
        self.account.received.count(len);
        self.account.refused.count(cause, len);
    }
}

/// What a slot's bytes take on an Ethernet line.
#[inline(always)]
fn wire_bytes_of(len: u64, flags: SlotFlags) -> u64 {
    len + if flags.has(SlotFlags::MOREFRAG) { 0 } else { ETHER_OVERHEAD }
}

/// What the kernel says of the interface behind a port, in bits per second.
fn line_speed(port: &Port) -> Option<u64> {
    let name = PortName::parse_classic(&port.info.name).ok()?;
    if !name.kind.names_interface() || name.pipe.is_some() {
        return None;
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{}/speed", name.name)).ok()?;
    text.trim().parse::<u64>().ok().filter(|&megabits| megabits > 0).map(|speed| speed * 1_000_000)
}
