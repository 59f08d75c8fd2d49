//! Who listens to a port: monitors, and what they are shown.
//!
//! A port shows the slots of frames that it is about to send, and of those that it is about to
//! hand to its program, before anybody can change them. So a monitor has exactly the frames that
//! the port carried, in their order, up to those for which its own ring had no room.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use slipring_abi::NS_TXMON;
use slipring_ring::{KernRing, RingView, Slot, SlotFlags, SlotIdx};

use crate::adapter::{Dir, Shape};
use crate::domain::lock;
use crate::waker::Listeners;

/// The monitors of one port.
#[derive(Debug, Default)]
pub struct Taps {
    list: RwLock<Vec<Arc<Tap>>>,
    any: AtomicBool,
}

impl Taps {
    /// Whether there is a monitor; without one nothing needs to be shown.
    #[inline(always)]
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Shows the whole frames in the slots `from..to` of ring `i`.
    #[inline(always)]
    pub fn see(&self, dir: Dir, i: usize, ring: &RingView, from: SlotIdx, to: SlotIdx) {
        if from != to && self.is_any() {
            self.show(dir, i, ring, from, to);
        }
    }

    #[cold]
    fn show(&self, dir: Dir, i: usize, ring: &RingView, from: SlotIdx, to: SlotIdx) {
        for tap in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            tap.see(dir, i, ring, from, to);
        }
    }

    pub(crate) fn add(&self, tap: Arc<Tap>) {
        self.list.write().unwrap_or_else(PoisonError::into_inner).push(tap);
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn remove(&self, tap: &Arc<Tap>) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.retain(|one| !Arc::ptr_eq(one, tap));
        self.any.store(!list.is_empty(), Ordering::Release);
    }

    /// The port has no program any more: its monitors learn of it.
    pub(crate) fn end(&self) {
        for tap in self.list.read().unwrap_or_else(PoisonError::into_inner).iter() {
            tap.ended.store(true, Ordering::Release);
            tap.rings.iter().for_each(|ring| ring.listeners.wake_now());
        }
    }
}

/// One monitor.
#[derive(Debug)]
pub(crate) struct Tap {
    /// What it listens to, by [`Dir`].
    wants: [bool; 2],
    /// Rings of the port.
    port: Shape,
    /// Of its own rings, those that somebody reads.
    bound: Range<usize>,
    pub(crate) rings: Vec<TapRing>,
    ended: AtomicBool,
    /// Frames for which there was no room.
    lost: AtomicU64,
}

/// One of its rings.
#[derive(Debug)]
pub(crate) struct TapRing {
    pub(crate) view: RingView,
    pub(crate) kern: Mutex<KernRing>,
    pub(crate) listeners: Listeners,
}

impl Tap {
    pub(crate) fn new(
        wants: [bool; 2],
        port: Shape,
        bound: Range<usize>,
        rings: Vec<KernRing>,
    ) -> Arc<Self> {
        let ring = |kern: KernRing| TapRing {
            view: kern.view(),
            kern: Mutex::new(kern),
            listeners: Listeners::default(),
        };
        let rings = rings.into_iter().map(ring).collect();
        let (ended, lost) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Self { wants, port, bound, rings, ended, lost })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Rings that monitors of such a port have, those of the NIC side.
    pub(crate) fn rings_for(port: &Shape) -> u16 {
        port.rings[0].max(port.rings[1])
    }

    /// Our ring for ring `i` of the port.
    fn ring_of(&self, dir: Dir, i: usize) -> usize {
        let nic = usize::from(self.port.rings[dir as usize]);
        if i < nic { i } else { i - nic + usize::from(Self::rings_for(&self.port)) }
    }

    fn see(&self, dir: Dir, i: usize, ring: &RingView, from: SlotIdx, to: SlotIdx) {
        let i = self.ring_of(dir, i);
        if !self.wants[dir as usize] || !self.bound.contains(&i) {
            return;
        }
        let Some(own) = self.rings.get(i) else { return };
        let lost = own.copy(dir, ring, from, to);
        self.lost.fetch_add(lost, Ordering::Relaxed);
        own.listeners.wake();
    }
}

impl TapRing {
    /// Copies frames, as far as there is room; how many there was none for.
    fn copy(&self, dir: Dir, ring: &RingView, from: SlotIdx, to: SlotIdx) -> u64 {
        // Waited for: whoever has it copies a batch, and is no program.
        let mut kern = lock(&self.kern);
        if let Ok(head) = kern.released() {
            kern.done_to(head);
        }
        let (mut at, mut first, mut lost) = (from, from, 0);
        while at != to {
            let more = ring.slot(at).flags.has(SlotFlags::MOREFRAG);
            at = next(at, ring);
            if !more {
                lost += u64::from(!self.copy_frame(&mut kern, dir, ring, first, at));
                first = at;
            }
        }
        lost
    }

    fn copy_frame(
        &self,
        kern: &mut KernRing,
        dir: Dir,
        ring: &RingView,
        from: SlotIdx,
        to: SlotIdx,
    ) -> bool {
        let n = ring.num_slots();
        let count = if to >= from { to - from } else { to + n - from };
        if count > kern.room() {
            return false;
        }
        let mark = if dir == Dir::Tx { NS_TXMON } else { 0 };
        let (mut at, mut tail) = (from, kern.hwtail());
        while at != to {
            let slot = ring.slot(at);
            let buf = self.view.slot(tail).buf;
            let len = self.view.copy((buf, 0), ring, (slot.buf, 0), slot.len.into());
            let flags = SlotFlags(slot.flags.0 & SlotFlags::MOREFRAG.0 | mark);
            self.view.set_slot(tail, Slot { buf, len: len as u16, flags });
            (at, tail) = (next(at, ring), kern.next(tail));
        }
        kern.set_tail(tail);
        true
    }
}

fn next(i: SlotIdx, ring: &RingView) -> SlotIdx {
    if i + 1 == ring.num_slots() { 0 } else { i + 1 }
}
