//! A port of a switch that programs bind: rings of its own, frames by copy.
//!
//! Most live as long as somebody has them bound (`vale0:a`). Persistent ones are made and removed
//! by requests and plugged into a switch by others; outside of a switch what they send vanishes. In
//! a second switch they are what an interface is there: its senders put frames into the tx rings.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, TryLockError};

use rustix::io::Errno;
use slipring_abi::NS_INDIRECT;
use slipring_ring::{
    BufIdx, Cell, KernRing, Pair, Region, RingView, Rx, Slot, SlotFlags, SlotIdx, Tx,
};
use slipring_switch::{Batch, PortConfig, PortId};

use crate::adapter::{Adapter, Dir, Shape, Synced};
use crate::caller::CallerMemory;
use crate::claims::Claims;
use crate::domain::{Memory, lock};
use crate::restart::state::{PortState, ValeState};
use crate::taps::Taps;
use crate::vale::frames::Frames;
use crate::vale::hub::{Hub, Member, Seat};
use crate::vale::outlet::Outlet;
use crate::waker::Listeners;

/// The port.
#[derive(Debug)]
pub(crate) struct ValePort {
    name: String,
    shape: Shape,
    claims: Arc<Claims>,
    vnet: AtomicU32,
    /// The switch that it joins with its first opener.
    home: Option<Arc<Hub>>,
    seat: RwLock<Option<Seat>>,
    taps: Arc<Taps>,
    rings: OnceLock<Rings>,
    making: Mutex<()>,
    /// Where words are kept for the process that follows.
    cells: Arc<Region>,
    /// Behind the rings, which go first.
    memory: Arc<Memory>,
}

#[derive(Debug)]
struct Rings {
    tx: Vec<Inlet>,
    member: Arc<Member>,
}

/// A ring that the program sends on.
#[derive(Debug)]
struct Inlet {
    view: RingView,
    sender: Mutex<Sender>,
    /// How far frames were taken to be sent, and how far they were.
    words: Cell,
    listeners: Listeners,
}

#[derive(Debug)]
struct Sender {
    kern: KernRing,
    frames: Frames,
    batch: Batch,
}

impl ValePort {
    pub(crate) fn new(
        name: String,
        shape: Shape,
        memory: Arc<Memory>,
        cells: Arc<Region>,
        home: Option<Arc<Hub>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            claims: Claims::new(&shape),
            shape,
            vnet: AtomicU32::new(0),
            home,
            seat: RwLock::default(),
            taps: Arc::default(),
            rings: OnceLock::new(),
            making: Mutex::default(),
            cells,
            memory,
        })
    }

    /// Plugs it into a switch under the name that it has there.
    pub(crate) fn sit(&self, hub: &Arc<Hub>, name: &str) -> Result<PortId, Errno> {
        self.make_rings()?;
        let mut seat = self.seat.write().unwrap_or_else(PoisonError::into_inner);
        if seat.is_some() {
            return Err(Errno::BUSY);
        }
        let rings = self.rings.get().ok_or(Errno::NOMEM)?;
        let taken = hub.join(name, rings.member.clone())?;
        let id = taken.id;
        *seat = Some(taken);
        Ok(id)
    }

    /// Unplugs it; the number that it had.
    pub(crate) fn stand_up(&self) -> Option<PortId> {
        let seat = self.seat.write().unwrap_or_else(PoisonError::into_inner).take();
        seat.map(|seat| seat.id)
    }

    /// The switch that it is plugged into, and its number there.
    pub(crate) fn seated(&self) -> Option<(Arc<Hub>, PortId)> {
        let seat = self.seat.read().unwrap_or_else(PoisonError::into_inner);
        seat.as_ref().map(|seat| (seat.hub.clone(), seat.id))
    }

    /// What a sync of tx ring `i` says before it sends the slots before `end`.
    #[cfg(test)]
    pub(crate) fn begin(&self, i: usize, end: SlotIdx) {
        self.rings.get().unwrap().tx[i].begin(end);
    }

    /// Plugs it in where it was in a process that is no more.
    pub(crate) fn sit_again(
        &self,
        hub: &Arc<Hub>,
        name: &str,
        id: PortId,
        config: PortConfig,
    ) -> Option<()> {
        let rings = self.rings.get()?;
        let taken = hub.join_at(name, rings.member.clone(), id, config)?;
        *self.seat.write().unwrap_or_else(PoisonError::into_inner) = Some(taken);
        Some(())
    }

    /// Gives it the rings that it had in a process that is no more.
    pub(crate) fn set_rings(&self, tx: Vec<(KernRing, Cell)>, rx: Vec<KernRing>) {
        let tx = tx.into_iter().map(|(kern, words)| Inlet::new(kern, words)).collect();
        let rx = rx.into_iter().enumerate();
        let outlets = rx.map(|(i, kern)| Outlet::of_program(kern, (self.taps.clone(), i)));
        let vnet = self.vnet.load(Ordering::Relaxed);
        let member = Member::new(outlets.collect(), vnet, Some(self.taps.clone()));
        // It is new: nobody can have set them.
        let _ = self.rings.set(Rings { tx, member });
    }

    pub(crate) fn set_vnet(&self, bytes: u32) {
        self.vnet.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn region(&self) -> Arc<Region> {
        self.memory.region().clone()
    }

    /// What of it the process that follows needs.
    pub(crate) fn state(&self, port: PortState) -> ValeState {
        let seat = self.seat.read().unwrap_or_else(PoisonError::into_inner);
        let name = |seat: &Seat| {
            let ports = seat.hub.ports();
            ports.into_iter().find(|(id, _)| *id == seat.id).map(|(_, name)| name)
        };
        let seat = seat.as_ref();
        let seat = seat.and_then(|seat| seat.hub.seat_state(seat.id, &name(seat)?));
        let rings = self.rings.get();
        let words = rings.map(|rings| rings.tx.iter().map(|inlet| inlet.words.at()).collect());
        ValeState {
            port,
            is_persistent: false,
            vnet: self.vnet.load(Ordering::Relaxed),
            home: self.home.as_ref().map(|home| home.number()),
            seat,
            words: words.unwrap_or_default(),
        }
    }

    fn make_rings(&self) -> Result<(), Errno> {
        let _one_maker = lock(&self.making);
        if self.rings.get().is_none() {
            let rings = self.lay_out()?;
            // The lock is held, so nobody else has set it.
            let _ = self.rings.set(rings);
        }
        Ok(())
    }

    fn lay_out(&self) -> Result<Rings, Errno> {
        let region = self.memory.region();
        let ([tx, rx], [tx_slots, rx_slots]) = (self.shape.rings, self.shape.slots);
        let inlets = (0..tx).map(|ringid| {
            let kern = Pair::<Tx>::create(region, ringid, tx_slots).map_err(|_| Errno::NOMEM)?.kern;
            Ok(Inlet::new(kern, Cell::new(&self.cells).map_err(|_| Errno::NOMEM)?))
        });
        let outlets = (0..rx).map(|ringid| {
            let pair = Pair::<Rx>::create(region, ringid, rx_slots).map_err(|_| Errno::NOMEM)?;
            Ok(Outlet::of_program(pair.kern, (self.taps.clone(), ringid.into())))
        });
        let tx = inlets.collect::<Result<_, Errno>>()?;
        let outlets = outlets.collect::<Result<_, Errno>>()?;
        let vnet = self.vnet.load(Ordering::Relaxed);
        Ok(Rings { tx, member: Member::new(outlets, vnet, Some(self.taps.clone())) })
    }

    fn inlet(&self, i: usize) -> Option<&Inlet> {
        self.rings.get()?.tx.get(i)
    }

    /// Sends what is queued on ring `i`.
    fn send(&self, i: usize, inlet: &Inlet, sender: &mut Sender) -> Synced {
        let Sender { kern, frames, batch } = sender;
        let Ok(head) = kern.released() else { return Synced::Reinit };
        if head != kern.hwcur() {
            let vnet = self.vnet_header() as usize;
            let end = frames.read(&inlet.view, kern.hwcur(), head, vnet);
            // Before the first of them is anywhere: after a kill none is sent twice.
            inlet.begin(end);
            self.taps.see_slots(Dir::Tx, i, &inlet.view, frames.all_slots());
            let seat = self.seat.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(seat) = seat.as_ref().filter(|_| !frames.is_empty()) {
                seat.hub.transmit(seat.id, i as u32, &inlet.view, frames, batch);
            }
            drop(seat);
            kern.done_to(end);
            inlet.words.word(0, 1).store(end.into(), Ordering::Release);
        }
        // All that was sent has been copied, so its slots are free at once.
        let tail = kern.prev(kern.hwcur());
        kern.set_tail(tail);
        Synced::Done
    }
}

impl Inlet {
    fn new(kern: KernRing, words: Cell) -> Self {
        let sender = Sender { kern, frames: Frames::default(), batch: Batch::new() };
        Self {
            view: sender.kern.view(),
            words,
            sender: Mutex::new(sender),
            listeners: Listeners::default(),
        }
    }

    fn begin(&self, end: SlotIdx) {
        self.words.word(0, 0).swap(end.into(), Ordering::AcqRel);
    }

    fn try_sender(&self) -> Option<MutexGuard<'_, Sender>> {
        match self.sender.try_lock() {
            Ok(sender) => Some(sender),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(sender)) => Some(sender.into_inner()),
        }
    }

    /// Visits the slots that were queued and not sent, and whose bytes lie elsewhere. Indices that
    /// make no sense queue nothing, and are left for the sync that tells of them.
    fn indirect<T>(&self, visit: impl FnOnce(&mut dyn Iterator<Item = (SlotIdx, Slot)>) -> T) -> T {
        let sender = self.try_sender();
        let queued = sender.as_ref().and_then(|sender| {
            let (kern, head) = (&sender.kern, self.view.head());
            let held = kern.pending(kern.hwtail());
            let right = head < kern.num_slots() && kern.pending(head) <= held;
            right.then(|| kern.slots(kern.hwcur(), head))
        });
        let indirect = |(_, slot): &(SlotIdx, Slot)| slot.flags.0 & NS_INDIRECT != 0;
        visit(&mut queued.into_iter().flatten().filter(indirect))
    }
}

impl Adapter for ValePort {
    fn name(&self) -> &str {
        &self.name
    }

    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    fn activate(&self, _mode: u32) -> Result<(), Errno> {
        self.make_rings()?;
        match &self.home {
            Some(home) if self.seated().is_none() => self.sit(home, &self.name).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn ring(&self, dir: Dir, i: usize) -> Option<&RingView> {
        let rings = self.rings.get()?;
        match dir {
            Dir::Tx => rings.tx.get(i).map(|inlet| &inlet.view),
            Dir::Rx => rings.member.outlets.get(i).map(|outlet| outlet.view()),
        }
    }

    fn sync(&self, dir: Dir, i: usize) -> Synced {
        match dir {
            Dir::Tx => {
                let Some(inlet) = self.inlet(i) else { return Synced::Gone };
                let sender = inlet.try_sender();
                sender.map_or(Synced::Busy, |mut sender| self.send(i, inlet, &mut sender))
            }
            Dir::Rx => {
                let outlets = self.rings.get().map(|rings| &rings.member.outlets);
                let outlet = outlets.and_then(|outlets| outlets.get(i));
                outlet.map_or(Synced::Gone, Outlet::sync)
            }
        }
    }

    fn flush(&self, i: usize) -> Synced {
        let Some(inlet) = self.inlet(i) else { return Synced::Gone };
        self.send(i, inlet, &mut lock(&inlet.sender))
    }

    fn listeners(&self, dir: Dir, i: usize) -> Option<&Listeners> {
        let rings = self.rings.get()?;
        match dir {
            Dir::Tx => rings.tx.get(i).map(|inlet| &inlet.listeners),
            Dir::Rx => rings.member.outlets.get(i).map(|outlet| &outlet.listeners),
        }
    }

    fn taps(&self) -> Option<&Arc<Taps>> {
        Some(&self.taps)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn vnet_header(&self) -> u32 {
        self.vnet.load(Ordering::Relaxed)
    }

    fn set_vnet_header(&self, bytes: u32) -> Result<(), Errno> {
        if !matches!(bytes, 0 | 10 | 12) {
            return Err(Errno::INVAL);
        }
        self.vnet.store(bytes, Ordering::Relaxed);
        if let Some(rings) = self.rings.get() {
            rings.member.vnet.store(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    fn has_offsets(&self) -> bool {
        true
    }

    fn has_indirect(&self, i: usize) -> bool {
        self.inlet(i).is_some_and(|inlet| inlet.indirect(|slots| slots.next().is_some()))
    }

    fn fetch_indirect(&self, i: usize, caller: &mut dyn CallerMemory) -> Result<(), Errno> {
        let Some(inlet) = self.inlet(i) else { return Ok(()) };
        let mut bytes = Vec::new();
        // No lock is held while the program keeps us waiting; its own syncs stop before these slots.
        for (at, slot) in inlet.indirect(|slots| slots.collect::<Vec<_>>()) {
            let region = self.memory.region();
            bytes.resize(usize::from(slot.len).min(region.buf_size() as usize), 0);
            let read = caller.read(inlet.view.slot_ptr(at), &mut bytes);
            let len = if read.is_ok() { bytes.len() as u16 } else { 0 };
            let buf = if region.is_usable(slot.buf) { slot.buf } else { BufIdx(0) };
            region.copy_in(buf, &bytes);
            // Now it is a frame as any other.
            let flags = SlotFlags(slot.flags.0 & !NS_INDIRECT);
            if inlet.view.offsets().is_some() {
                // Its `ptr` was an address, and would now be an offset.
                inlet.view.set_slot_ptr(at, 0);
            }
            inlet.view.set_slot(at, Slot { buf, len, flags });
        }
        Ok(())
    }
}
