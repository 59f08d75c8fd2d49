//! The monitors of a port, and which frames each of them gets.
//!
//! A port shows its monitors three kinds of slots: with frames that the port is about to send, with
//! frames that it delivers to its program, and with frames that its program has released. Each
//! time, a slot is read only once. All monitors use the values that were read, and so does the
//! switch when a switch port sends. So all agree on the frames and their lengths. A monitor gets
//! the frames of a ring in order. Frames for which its own ring had no space are left out and
//! counted.
//!
//! Each monitor copies the bytes of the frames itself. All monitors get the same bytes, unless a
//! program that shares the memory writes to a frame at that moment although it does not own the
//! frame. This harms only its own user.

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
    /// Notified when the set of monitors changes.
    observer: OnceLock<Weak<dyn MonitorListener>>,
}

/// The moment at which a port shows slots to its monitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MonitorPoint {
    /// The program has queued the frames to be sent.
    Sent,
    /// The frames have arrived, and the program is about to learn of them or has just learned of
    /// them.
    Arrived,
    /// The program has released received frames.
    Released,
}

impl MonitorPoint {
    fn of(dir: TxRx) -> Self {
        match dir {
            TxRx::Tx => Self::Sent,
            TxRx::Rx => Self::Arrived,
        }
    }

    /// Returns the direction of the frames.
    fn dir(self) -> TxRx {
        if self == Self::Sent { TxRx::Tx } else { TxRx::Rx }
    }
}

/// Selects the frames that a monitor is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MonitorSelection {
    /// Whether the monitor sees sent frames, and whether it sees received frames, by [`TxRx`].
    pub(crate) directions: [bool; 2],
    /// Whether the monitor was requested without `NR_ZCOPY_MON`. If so, it sees received frames as
    /// they arrive, otherwise as they are released. In both cases, the monitor gets copies.
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

/// An observer that has to know whether a port has monitors.
pub trait MonitorListener: Send + Sync + std::fmt::Debug {
    /// Called after the set of monitors may have changed.
    fn monitors_changed(&self);
}

impl MonitorTaps {
    /// Sets the observer; only the first call has an effect.
    pub fn set_observer(&self, observer: Weak<dyn MonitorListener>) {
        let _ = self.observer.set(observer);
    }

    fn notify_observer(&self) {
        if let Some(observer) = self.observer.get().and_then(Weak::upgrade) {
            observer.monitors_changed();
        }
    }

    /// Returns whether the port has a monitor. Without one, nothing needs to be shown.
    #[inline(always)]
    #[must_use]
    pub fn has_monitors(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Shows the frames in the slots `from..to`, which ring `i` sends or receives. Every frame in
    /// them is complete.
    #[inline(always)]
    pub fn observe(&self, dir: TxRx, i: usize, ring: &RingView, from: SlotIdx, to: SlotIdx) {
        if from != to && self.has_monitors() {
            self.deliver(MonitorPoint::of(dir), i, ring, &read(ring, from, to));
        }
    }

    /// Shows the slots `from..to` of rx ring `i`, which the program has released.
    #[inline(always)]
    pub fn observe_released(&self, i: usize, ring: &RingView, from: SlotIdx, to: SlotIdx) {
        if from != to && self.has_monitors() {
            self.deliver(MonitorPoint::Released, i, ring, &read(ring, from, to));
        }
    }

    /// Shows the frames that have arrived in rx ring `i` since its tail was `from`. For ports whose
    /// rings are synced outside this crate: they call it after such a sync.
    pub fn observe_arrivals(&self, i: usize, ring: &RingView, from: SlotIdx) {
        let to = ring.tail();
        if from.max(to) < ring.num_slots() {
            self.observe(TxRx::Rx, i, ring, from, to);
        }
    }

    /// Shows the slots of ring `i` that the program has released since the last sync. For ports
    /// whose rings are synced outside this crate: they call it before such a sync. Does nothing for
    /// a tx ring, and for a ring whose indices are inconsistent.
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

    /// Like [`Self::observe`], but the slots were already read.
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

    /// Returns the counters of all monitors.
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

    /// Ends the monitors, because no program has the port bound any more.
    pub(crate) fn mark_ended(&self) {
        for tap in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            tap.ended.store(true, Ordering::Release);
            tap.rings.iter().for_each(|ring| ring.listeners.wake_now());
        }
    }
}

/// Counters of a monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonitorInfo {
    /// Whether the monitor sees frames that the port sends, and whether it sees frames that the
    /// port receives, by [`TxRx`].
    pub wants: [bool; 2],
    /// Number of frames that the monitor received.
    pub frames: u64,
    /// Number of frames lost because the monitor's rings were full.
    pub lost: u64,
}

/// One monitor of a port: what it is shown, and the rings to which frames are copied.
#[derive(Debug)]
pub(crate) struct MonitorTap {
    selection: MonitorSelection,
    /// The monitored port's numbers of rings.
    port: AdapterShape,
    /// The monitor's own rings that a program has bound; only these get frames.
    bound: Range<usize>,
    pub(crate) rings: Vec<MonitorRing>,
    ended: AtomicBool,
}

/// One rx ring of a monitor.
#[derive(Debug)]
pub(crate) struct MonitorRing {
    pub(crate) view: RingView,
    pub(crate) kern: Mutex<KernRing>,
    pub(crate) listeners: Listeners,
    /// Number of frames copied into the ring. This counter and `lost` change only under the lock on
    /// `kern`.
    frames: AtomicU64,
    /// Number of frames lost because the ring was full.
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

    /// Returns what the monitor sees: the directions, the shape of the monitored port, and which
    /// rings of the monitor are bound.
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

    /// Returns how many NIC rings a monitor of a port with this shape has.
    pub(crate) fn rings_for(port: &AdapterShape) -> u16 {
        port.rings[0].max(port.rings[1])
    }

    /// Returns the number of the monitor's ring that gets the frames of the port's ring `i`.
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
    /// Copies each frame for which the ring has enough free slots; counts the copied and the lost
    /// frames.
    fn copy(&self, dir: TxRx, ring: &RingView, slots: &[SlotSnapshot]) {
        // Waiting for the lock is short: it is held only while one batch is copied, and no program
        // can hold it.
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

/// Reads the slots `from..to`.
#[cold]
fn read(ring: &RingView, from: SlotIdx, to: SlotIdx) -> Vec<SlotSnapshot> {
    let (mut at, mut slots) = (from, Vec::new());
    while at != to {
        slots.push(SlotSnapshot::read(ring, at));
        at = if at + 1 == ring.num_slots() { 0 } else { at + 1 };
    }
    slots
}
