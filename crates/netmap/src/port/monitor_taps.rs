//! Who listens to a port: monitors, and what they are shown.
//!
//! A port shows the slots of frames that it is about to send, of those that it is about to hand to
//! its program, and of those that its program has released. They are read once for all monitors, and by a switch's port for the switch
//! as well: which frames there are, and how long, all agree on. A monitor has these frames in their
//! order, except for those for which its own ring had no room, which are counted.
//!
//! The bytes in a frame's buffers are copied by each who wants them. They are the same for all
//! unless somebody who shares that memory writes to a frame that is not his at that moment, which
//! nobody but he himself has to suffer from.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use slipring_abi::NS_TXMON;
use slipring_ring::{KernRing, RingView, Slot, SlotFlags, SlotIdx};

use crate::port::slot_snapshot::SlotSnapshot;
use crate::port::waker::Listeners;
use crate::types::lock::lock;
use crate::types::shape::{AdapterShape, TxRx};

/// The monitors of one port.
#[derive(Debug, Default)]
pub struct MonitorTaps {
    list: RwLock<Vec<Arc<MonitorTap>>>,
    any: AtomicBool,
    /// Who wants to know when that changes.
    observer: OnceLock<Weak<dyn MonitorAware>>,
}

/// When slots are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MonitorPoint {
    /// Their program has queued them.
    Sent,
    /// Their program is told of them.
    Arrived,
    /// It has released them.
    Released,
}

impl MonitorPoint {
    fn of(dir: TxRx) -> Self {
        match dir {
            TxRx::Tx => Self::Sent,
            TxRx::Rx => Self::Arrived,
        }
    }

    /// Which way the frames go.
    fn dir(self) -> TxRx {
        if self == Self::Sent { TxRx::Tx } else { TxRx::Rx }
    }
}

/// What a monitor is to be shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MonitorSelection {
    /// What is sent and what is received, by [`Dir`].
    pub(crate) directions: [bool; 2],
    /// Whether its buffers are its own: then it sees what arrives, else what was released.
    pub(crate) copies: bool,
}

impl MonitorSelection {
    fn includes(&self, moment: MonitorPoint) -> bool {
        let right = match moment {
            MonitorPoint::Sent => true,
            MonitorPoint::Arrived => self.copies,
            MonitorPoint::Released => !self.copies,
        };
        right && self.directions[moment.dir() as usize]
    }
}

/// A port that has to know whether it has monitors.
pub trait MonitorAware: Send + Sync + std::fmt::Debug {
    /// That may have changed.
    fn monitors_changed(&self);
}

impl MonitorTaps {
    /// Tells `whom` from now on; only the first one is told.
    pub fn set_observer(&self, whom: Weak<dyn MonitorAware>) {
        let _ = self.observer.set(whom);
    }

    fn notify_observer(&self) {
        if let Some(whom) = self.observer.get().and_then(Weak::upgrade) {
            whom.monitors_changed();
        }
    }

    /// Whether there is a monitor; without one nothing needs to be shown.
    #[inline(always)]
    #[must_use]
    pub fn has_monitors(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Shows the whole frames in the slots `from..to` that ring `i` sends, or receives.
    #[inline(always)]
    pub fn observe(&self, dir: TxRx, i: usize, ring: &RingView, from: SlotIdx, to: SlotIdx) {
        if from != to && self.has_monitors() {
            self.deliver(MonitorPoint::of(dir), i, ring, &read(ring, from, to));
        }
    }

    /// Shows the slots `from..to` that a program releases with which rx ring `i` received.
    #[inline(always)]
    pub fn observe_released(&self, i: usize, ring: &RingView, from: SlotIdx, to: SlotIdx) {
        if from != to && self.has_monitors() {
            self.deliver(MonitorPoint::Released, i, ring, &read(ring, from, to));
        }
    }

    /// As [`Self::see`], for who has had rx ring `i` synced elsewhere: what has arrived since its tail
    /// was `from`.
    pub fn observe_arrivals(&self, i: usize, ring: &RingView, from: SlotIdx) {
        let to = ring.tail();
        if from.max(to) < ring.num_slots() {
            self.observe(TxRx::Rx, i, ring, from, to);
        }
    }

    /// As [`Self::see_released`], for who is about to have ring `i` synced elsewhere: what its program
    /// has released since the last sync, if it receives by it and its indices can be true.
    pub fn observe_releases(&self, dir: TxRx, i: usize, ring: &RingView) {
        if dir == TxRx::Tx || !self.has_monitors() {
            return;
        }
        let (from, head, tail, n) = (ring.hwcur(), ring.head(), ring.tail(), ring.num_slots());
        let behind = |i: u32| if i < from { i + n - from } else { i - from };
        if from.max(head).max(tail) < n && behind(head) <= behind(tail) {
            self.observe_released(i, ring, from, head);
        }
    }

    /// As [`Self::see`], where the slots were read already.
    #[inline(always)]
    pub(crate) fn observe_slots(
        &self,
        dir: TxRx,
        i: usize,
        ring: &RingView,
        slots: &[SlotSnapshot],
    ) {
        if !slots.is_empty() && self.has_monitors() {
            self.deliver(MonitorPoint::of(dir), i, ring, slots);
        }
    }

    #[cold]
    fn deliver(&self, moment: MonitorPoint, i: usize, ring: &RingView, slots: &[SlotSnapshot]) {
        for tap in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            tap.observe(moment, i, ring, slots);
        }
    }

    /// How the monitors that there are fare.
    #[must_use]
    pub fn infos(&self) -> Vec<MonitorInfo> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.iter().map(|tap| tap.info()).collect()
    }

    pub(crate) fn add(&self, tap: Arc<MonitorTap>) {
        self.list.write().unwrap_or_else(PoisonError::into_inner).push(tap);
        self.any.store(true, Ordering::Release);
        self.notify_observer();
    }

    pub(crate) fn remove(&self, tap: &Arc<MonitorTap>) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.retain(|one| !Arc::ptr_eq(one, tap));
        self.any.store(!list.is_empty(), Ordering::Release);
        drop(list);
        self.notify_observer();
    }

    /// The port has no program any more: its monitors learn of it.
    pub(crate) fn mark_ended(&self) {
        for tap in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            tap.ended.store(true, Ordering::Release);
            tap.rings.iter().for_each(|ring| ring.listeners.wake_now());
        }
    }
}

/// What a monitor got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonitorInfo {
    /// Whether it listens to what the port sends, and to what it receives, by [`Dir`].
    pub wants: [bool; 2],
    /// Frames that it was given.
    pub frames: u64,
    /// Frames for which its rings had no room.
    pub lost: u64,
}

/// One monitor.
#[derive(Debug)]
pub(crate) struct MonitorTap {
    selection: MonitorSelection,
    /// Rings of the port.
    port: AdapterShape,
    /// Of its own rings, those that somebody reads.
    bound: Range<usize>,
    pub(crate) rings: Vec<MonitorRing>,
    ended: AtomicBool,
}

/// One of its rings.
#[derive(Debug)]
pub(crate) struct MonitorRing {
    pub(crate) view: RingView,
    pub(crate) kern: Mutex<KernRing>,
    pub(crate) listeners: Listeners,
    /// Frames that went in; both are written by who has `kern`.
    frames: AtomicU64,
    /// Frames for which there was no room.
    lost: AtomicU64,
}

impl MonitorTap {
    pub(crate) fn new(
        wishes: MonitorSelection,
        port: AdapterShape,
        bound: Range<usize>,
        rings: Vec<KernRing>,
    ) -> Arc<Self> {
        let ring = |kern: KernRing| MonitorRing {
            view: kern.view(),
            kern: Mutex::new(kern),
            listeners: Listeners::default(),
            frames: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        };
        let rings = rings.into_iter().map(ring).collect();
        Arc::new(Self { selection: wishes, port, bound, rings, ended: AtomicBool::new(false) })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// What it listens to: directions, the port's shape, which of its own rings somebody reads.
    pub(crate) fn selection(&self) -> ([bool; 2], AdapterShape, Range<usize>) {
        (self.selection.directions, self.port, self.bound.clone())
    }

    fn info(&self) -> MonitorInfo {
        let sum = |of: fn(&MonitorRing) -> &AtomicU64| {
            self.rings.iter().map(|ring| of(ring).load(Ordering::Relaxed)).sum()
        };
        MonitorInfo {
            wants: self.selection.directions,
            frames: sum(|ring| &ring.frames),
            lost: sum(|ring| &ring.lost),
        }
    }

    /// Rings that monitors of such a port have, those of the NIC side.
    pub(crate) fn rings_for(port: &AdapterShape) -> u16 {
        port.rings[0].max(port.rings[1])
    }

    /// Our ring for ring `i` of the port.
    fn ring_of(&self, dir: TxRx, i: usize) -> usize {
        let nic = usize::from(self.port.rings[dir as usize]);
        if i < nic { i } else { i - nic + usize::from(Self::rings_for(&self.port)) }
    }

    fn observe(&self, moment: MonitorPoint, i: usize, ring: &RingView, slots: &[SlotSnapshot]) {
        let dir = moment.dir();
        let i = self.ring_of(dir, i);
        if !self.selection.includes(moment) || !self.bound.contains(&i) {
            return;
        }
        let Some(own) = self.rings.get(i) else { return };
        own.copy(dir, ring, slots);
        own.listeners.wake();
    }
}

impl MonitorRing {
    /// Copies frames, as far as there is room, and counts them.
    fn copy(&self, dir: TxRx, ring: &RingView, slots: &[SlotSnapshot]) {
        // Waited for: whoever has it copies a batch, and is no program.
        let mut kern = lock(&self.kern);
        let (mut frames, mut lost) = (0, 0);
        for frame in slots.split_inclusive(|slot| !slot.flags.has(SlotFlags::MOREFRAG)) {
            let fits = frame.len() <= kern.free_slots() as usize;
            *if fits { &mut frames } else { &mut lost } += 1;
            if fits {
                self.copy_frame(&mut kern, dir, ring, frame);
            }
        }
        self.frames.fetch_add(frames, Ordering::Relaxed);
        let before = self.lost.fetch_add(lost, Ordering::Relaxed);
        if lost > 0 {
            self.view.set_lost((before + lost) as u32);
        }
    }

    fn copy_frame(&self, kern: &mut KernRing, dir: TxRx, ring: &RingView, frame: &[SlotSnapshot]) {
        let mark = if dir == TxRx::Tx { NS_TXMON } else { 0 };
        let mut tail = kern.hwtail();
        for slot in frame {
            let (buf, at) = (self.view.slot(tail).buf, self.view.payload_offset(tail));
            let len =
                self.view.copy((buf, at), ring, (slot.buf, slot.offset.into()), slot.len.into());
            let flags = SlotFlags(slot.flags.0 & SlotFlags::MOREFRAG.0 | mark);
            self.view.set_slot(tail, Slot { buf, len: len as u16, flags });
            tail = kern.next(tail);
        }
        kern.set_tail(tail);
    }
}

/// The slots `from..to`.
#[cold]
fn read(ring: &RingView, from: SlotIdx, to: SlotIdx) -> Vec<SlotSnapshot> {
    let (mut at, mut slots) = (from, Vec::new());
    while at != to {
        slots.push(SlotSnapshot::read(ring, at));
        at = if at + 1 == ring.num_slots() { 0 } else { at + 1 };
    }
    slots
}
