//! A ring pair that the device syncs.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use slipring_ring::{
    Region, RegionError, RingHalves, RingView, Rx, RxRing, SlotFlags, SlotIdx, SyncFault, Tx,
    TxRing,
};

use super::bind::{BoundRings, KernelRingLayout};
use super::sys;
use crate::error::{RunCause, RunError};
use crate::iface::Iface;
use crate::queue::{Queue, QueueRings, TxWait, WaitFds};
use crate::stats::{DropCause, QueueCounters, TrafficCounts};

pub(super) struct KernelQueue {
    name: String,
    file: File,
    tx: TxRing,
    rx: RxRing,
    ledger: KernelInFlight,
    /// The slot after the last received frame that was counted.
    rx_seen: SlotIdx,
    /// A view of the rx ring. If the port is a monitor, the ring's header contains the number of
    /// frames that it lost.
    rx_view: RingView,
    /// Number of lost frames of a monitor that are already in this queue's counters.
    lost_seen: u32,
    /// Whether the port is a monitor. The next field, `ended`, is true once the monitored port has
    /// ended.
    watches: bool,
    ended: bool,
    /// The name of the interface; `None` if the port does not belong to an interface.
    interface: Option<String>,
    counters: Arc<QueueCounters>,
}

/// Queued frames that the device has not returned. Their lengths are stored here, because the
/// device may write to its slots.
struct KernelInFlight {
    /// For each slot: its length in bytes, and whether a packet ends there.
    slots: Vec<(u32, bool)>,
    /// The first slot that the device has not returned. The next field, `queued`, is the slot after
    /// the last queued one.
    done: SlotIdx,
    queued: SlotIdx,
    /// Number of packets in the slots from `done` to `queued`.
    in_flight: u64,
}

impl KernelQueue {
    /// Takes over the rings, which are in `region`. A direction without a ring gets a ring of one
    /// slot in the region `none`.
    pub(super) fn new(
        name: &str,
        file: File,
        rings: &BoundRings,
        [region, none]: [&Arc<Region>; 2],
    ) -> Result<Self, RegionError> {
        let same = |ring: &KernelRingLayout| {
            (ring.data_start, ring.buf_size) == (region.data_start(), region.buf_size())
        };
        if ![rings.tx, rings.rx].iter().flatten().all(same) {
            return Err(RegionError::NotARegion("its rings have different buffers"));
        }
        let tx = match rings.tx {
            Some(ring) => TxRing::attach(region, ring.offset, ring.num_slots)?,
            None => RingHalves::<Tx>::absent(none, 0)?.app,
        };
        let rx = match rings.rx {
            Some(ring) => RxRing::attach(region, ring.offset, ring.num_slots)?,
            None => RingHalves::<Rx>::absent(none, 0)?.app,
        };
        let (ledger, rx_seen, rx_view) = (KernelInFlight::over(&tx), rx.head(), rx.view());
        Ok(Self {
            name: name.to_owned(),
            file,
            tx,
            rx,
            ledger,
            rx_seen,
            lost_seen: rx_view.lost(),
            rx_view,
            watches: false,
            ended: false,
            interface: None,
            counters: Arc::default(),
        })
    }

    /// Marks the port as a monitor.
    pub(super) fn watching(self) -> Self {
        Self { watches: true, ..self }
    }

    /// Records the name of the interface to which the port belongs.
    pub(super) fn of_interface(self, name: &str) -> Self {
        Self { interface: Some(name.to_owned()), ..self }
    }

    pub(super) fn slots(&self) -> u32 {
        self.tx.num_slots().max(self.rx.num_slots())
    }

    pub(super) fn sends(&self) -> bool {
        self.tx.num_slots() > 1
    }

    pub(super) fn receives(&self) -> bool {
        self.rx.num_slots() > 1
    }

    /// Makes the device deliver arrived frames. A monitor ends when the watched port has ended.
    fn fetch_indices(&mut self) -> io::Result<()> {
        let sync = || sys::rx_sync(self.file.as_fd());
        match sync() {
            // A device that no longer exists may return this error once, but then returns another
            // one. So the sync is repeated.
            Err(error) if self.watches && is_gone(&error) => match sync() {
                Err(again) if !is_gone(&again) => Err(again),
                _ => {
                    self.ended = true;
                    Ok(())
                }
            },
            done => done,
        }
    }

    fn lost(&self, what: &'static str, error: io::Error) -> RunError {
        if !is_gone(&error) {
            return RunError::system(&self.name, what, error);
        }
        // The device returns the same error if the interface has only gone down. So the interface
        // is looked up to tell the two cases apart.
        let is_there = self.interface.as_ref().is_some_and(|name| Iface::find(name).is_ok());
        let cause = if is_there { RunCause::WentDown } else { RunCause::Vanished };
        RunError::new(&self.name, cause)
    }
}

/// Returns whether the error of a sync means that the port no longer exists, or that its interface
/// is down.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENXIO | libc::EIO | libc::ENODEV))
}

impl KernelInFlight {
    fn over(tx: &TxRing) -> Self {
        let slots = vec![(0, false); tx.num_slots() as usize];
        Self { slots, done: tx.head(), queued: tx.head(), in_flight: 0 }
    }

    fn is_empty(&self) -> bool {
        self.done == self.queued
    }

    /// Records the slots that the program has queued since the last call.
    fn record_queued(&mut self, tx: &mut TxRing) {
        let (from, to) = (self.queued, tx.head());
        let mut at = from as usize;
        let (parts, in_flight) = (&mut self.slots, &mut self.in_flight);
        tx.for_each_len(from, to, |len, flags| {
            let ends = !flags.has(SlotFlags::MOREFRAG);
            parts[at] = (len, ends);
            *in_flight += u64::from(ends);
            at = if at + 1 == parts.len() { 0 } else { at + 1 };
        });
        self.queued = to;
    }

    /// Completes the slots that the device has returned. The last of them is the slot `tail`
    /// itself, because one slot of a ring always stays empty. Returns the traffic of the completed
    /// slots.
    fn complete_to(&mut self, tail: SlotIdx) -> TrafficCounts {
        let slots = self.slots.len() as u32;
        let end = if tail + 1 >= slots { 0 } else { tail + 1 };
        let distance = |from: u32, to: u32| if to >= from { to - from } else { to + slots - from };
        let back = distance(self.done, end).min(distance(self.done, self.queued));
        let mut sum = TrafficCounts::default();
        for _ in 0..back {
            let (bytes, ends) = self.slots[self.done as usize];
            sum += TrafficCounts { packets: ends.into(), bytes: bytes.into() };
            self.done = if self.done + 1 == slots { 0 } else { self.done + 1 };
        }
        self.in_flight -= sum.packets;
        sum
    }
}

impl Queue for KernelQueue {
    fn rings(&mut self) -> QueueRings<'_> {
        QueueRings { tx: &mut self.tx, rx: &mut self.rx }
    }

    fn tx_sync(&mut self) -> Result<(), RunError> {
        self.ledger.record_queued(&mut self.tx);
        // If nothing is queued and nothing is in flight, the system call is not needed.
        if self.ledger.is_empty() {
            return Ok(());
        }
        sys::tx_sync(self.file.as_fd()).map_err(|error| self.lost("send", error))?;
        let fault = |fault| RunError::new(&self.name, SyncFault::from(fault));
        self.tx.refresh().map_err(fault)?;
        let sum = self.ledger.complete_to(self.tx.tail());
        self.counters.sent(sum);
        self.counters.set_in_flight(self.ledger.in_flight);
        Ok(())
    }

    fn rx_sync(&mut self) -> Result<(), RunError> {
        if !self.receives() || self.ended {
            return Ok(());
        }
        self.fetch_indices().map_err(|error| self.lost("receive", error))?;
        let fault = |fault| RunError::new(&self.name, SyncFault::from(fault));
        self.rx.refresh().map_err(fault)?;
        let mut sum = TrafficCounts::default();
        let to = self.rx.tail();
        self.rx.for_each_len(self.rx_seen, to, |len, flags| {
            let packets = u64::from(!flags.has(SlotFlags::MOREFRAG));
            sum += TrafficCounts { packets, bytes: len.into() };
        });
        self.rx_seen = to;
        self.counters.received(sum);
        let lost = self.rx_view.lost();
        self.counters.dropped(DropCause::RxRingFull, lost.wrapping_sub(self.lost_seen).into());
        self.lost_seen = lost;
        Ok(())
    }

    fn wait_fds(&self) -> WaitFds<'_> {
        let fd = self.file.as_fd();
        WaitFds { rx: Some(fd), tx: Some(TxWait::Writable(fd)), link: None }
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
